// Asks libcudart what it answers to launches and calls that cannot be: nvcc -arch=sm_90 runtime_codes.cu && ./a.out
// Lines: a function, its numbers, and its code (cudaError_t); after a comma, the number that it stores.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void put(unsigned *out, unsigned v) {
    if (out) *out = v;
}
__global__ void __cluster_dims__(2) paired(unsigned *out, unsigned v) {
    if (out) *out = v;
}
__global__ void __launch_bounds__(128) bounded(unsigned *out) {
    if (out) *out = 1;
}

static void launch(dim3 grid, dim3 block) {
    unsigned *out = nullptr, v = 77;
    void *args[] = {&out, &v};
    const char *shape = "%s %u %u %u %u %u %u = %d\n";
    auto say = [&](const char *name, int code) {
        printf(shape, name, grid.x, grid.y, grid.z, block.x, block.y, block.z, code);
    };
    say("put", cudaLaunchKernel((void *)put, grid, block, args, 0, 0));
    say("together", cudaLaunchCooperativeKernel((void *)put, grid, block, args, 0, 0));
    say("paired", cudaLaunchKernel((void *)paired, grid, block, args, 0, 0));
}

int main() {
    launch({1, 1, 1}, {0, 1, 1}), launch({0, 1, 1}, {1, 1, 1}), launch({1, 1, 1}, {2000, 1, 1}), launch({1, 1, 1}, {1, 1, 65});
    launch({1, 1, 1}, {1, 1025, 1}), launch({1, 1, 1}, {32, 33, 1}), launch({1, 70000, 1}, {1, 1, 1});
    launch({1, 1, 70000}, {1, 1, 1}), launch({0x80000000u, 1, 1}, {1, 1, 1}), launch({1, 1, 1}, {16, 16, 4});
    launch({3, 1, 1}, {32, 1, 1});
    int *device, stored = 0;
    size_t limit;
    void *memory;
    char host[8] = {};
    cudaStream_t stream;
    cudaMalloc(&device, 64);
    printf("cudaMemcpy 9 = %d\n", cudaMemcpy(device, host, 8, (cudaMemcpyKind)9));
    printf("cudaMemcpy2D 4 8 8 = %d\n", cudaMemcpy2D(device, 4, host, 8, 8, 1, cudaMemcpyHostToDevice));
    printf("cudaFuncSetAttribute 9 150 = %d\n", cudaFuncSetAttribute(put, cudaFuncAttributePreferredSharedMemoryCarveout, 150));
    printf("cudaHostAlloc 64 99 = %d\n", cudaHostAlloc(&memory, 64, 99));
    printf("cudaMallocManaged 64 7 = %d\n", cudaMallocManaged(&memory, 64, 7));
    printf("cudaMallocManaged 0 1 = %d\n", cudaMallocManaged(&memory, 0, 1));
    printf("cudaHostRegister 8 99 = %d\n", cudaHostRegister(host, 8, 99));
    printf("bounded 129 = %d, ", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&stored, bounded, 129, 0));
    printf("%d\n", stored);
    cudaStreamCreateWithPriority(&stream, 1, -99);
    int code = cudaStreamGetPriority(stream, &stored);
    printf("cudaStreamCreateWithPriority -99 = %d, %d\n", code, stored);
    code = cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize);
    printf("cudaDeviceGetLimit 1 = %d, %zu\n", code, limit);
}
