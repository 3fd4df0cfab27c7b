// Which bytes wgmma reads through descriptors that hold bits beyond those of an address: the rank of a CTA, reserved bits.
//
// nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a descriptors_of_ranks.cu && ./a.out, on a GPU of sm_90
//
// Printed are, for the first launch, each CTA's address of shared memory and what mapa makes of it for the own rank and the next; then for
// each descriptor and rank, of eight rows of A, which 16 bytes hold the elements 0 and 8.
#include <cstdio>
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;

__device__ u32 mapa(u32 address, u32 rank) {
    u32 found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(address), "r"(rank));
    return found;
}

__global__ void __cluster_dims__(4) read(float *out, u32 *addresses, int which) {
    extern __shared__ __align__(1024) half s[];
    u32 rank = blockIdx.x, t = threadIdx.x, own = __cvta_generic_to_shared(s);
    for (int i = t; i < 33000; i += 128) s[i] = i < 32768 ? (float)(i / 8 % 2048) : 0;
    __syncthreads();
    if (!t) s[32768] = s[32768 + 72] = 1;  // B: column 0 takes element 0 of a row of A, column 1 element 8
    asm volatile("fence.proxy.async;");
    __syncthreads();
    u32 mapped = mapa(own, rank), peer = mapa(own, rank + 1 & 3);
    if (!t) addresses[rank * 3] = own, addresses[rank * 3 + 1] = mapped, addresses[rank * 3 + 2] = peer;
    u64 plain = 16ull << 32 | 8 << 16, swizzled = 1ull << 62 | 64ull << 32, masked = (own & 0x3ffff) >> 4;
    u64 b = (own + 65536 & 0x3ffff) >> 4 | plain;
    u64 a[] = {masked | plain, own >> 4 | plain, mapped >> 4 | plain, peer >> 4 | plain, (own >> 4) + plain,
               masked | swizzled, own >> 4 | swizzled, peer >> 4 | swizzled,
               masked | plain | 3 << 14, masked | plain | 3ull << 30, masked | plain | 3ull << 46, masked | plain | 1ull << 52};
    float c[4] = {};
    asm volatile(
        "wgmma.fence.sync.aligned;\n"
        "{.reg .pred p; setp.ne.b32 p, 0, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a[which]), "l"(b) : "memory");
    if (t % 4 == 0) {
        float *rows = out + rank * 128 + t / 32 * 32 + t % 32 / 2;
        rows[0] = c[0], rows[1] = c[1], rows[16] = c[2], rows[17] = c[3];
    }
}

int main() {
    float *out;
    u32 *addresses;
    cudaMallocManaged(&out, 2048);
    cudaMallocManaged(&addresses, 48);
    cudaFuncSetAttribute(read, cudaFuncAttributeMaxDynamicSharedMemorySize, 70000);
    for (int which = 0; which < 12; which++) {
        read<<<4, 128, 70000>>>(out, addresses, which);
        int code = cudaDeviceSynchronize();
        printf("%d: %d\n", which, code);
        if (code) return 1;
        for (int rank = 0; rank < 4; rank++) {
            if (!which) printf("%x %x %x\n", addresses[rank * 3], addresses[rank * 3 + 1], addresses[rank * 3 + 2]);
            for (int i = 0; i < 128; i += 18) printf(" %g,%g", out[rank * 128 + i], out[rank * 128 + i + 1]);
            puts("");
        }
    }
}
