// Planted: nobody sets the bins to zero.
extern "C" __global__ void histogram(const unsigned char *x, unsigned *counts) {
    __shared__ unsigned bins[64];
    int t = threadIdx.x;
    __syncthreads();
    atomicAdd(&bins[x[blockIdx.x * 64 + t] % 64], 1u);
    __syncthreads();
    atomicAdd(&counts[t], bins[t]);
}
