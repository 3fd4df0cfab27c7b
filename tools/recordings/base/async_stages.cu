// A pipeline of three stages of cp.async in 4, 8 and 16 bytes, some zero-filled, with groups left in flight.
#include "base.cuh"
#include <cuda_pipeline.h>

KERNEL(async_stages)(const float *x, const u64 *keys, const float4 *z, float *out, u64 *hashes, int tiles) {
    __shared__ __align__(16) float a[3][128];
    __shared__ __align__(16) u64 b[3][128];
    __shared__ __align__(16) float4 c[3][128];
    int t = threadIdx.x;
    auto fetch = [&](int tile) {
        if (tile < tiles) {
            int s = tile % 3, at = (blockIdx.x * tiles + tile) * 128 + t;
            __pipeline_memcpy_async(&a[s][t], x + at, 4);
            __pipeline_memcpy_async(&b[s][t], keys + at, 8, t % 5 == 0 ? 4 : 0);
            __pipeline_memcpy_async(&c[s][t], z + at, 16, (t & 3) * 4);
        }
        __pipeline_commit();
    };
    fetch(0), fetch(1);
    float sum = 0;
    u64 hash = 1;
    for (int tile = 0; tile < tiles; tile++) {
        fetch(tile + 2);
        __pipeline_wait_prior(2);
        __syncthreads();
        int s = tile % 3, u = t * 37 & 127;
        float4 v = c[s][127 - u];
        sum += a[s][u] * v.x + v.y * v.z - v.w;
        hash = hash * 6364136223846793005ull + b[s][u ^ 64];
        __syncthreads();
    }
    out[blockIdx.x * 128 + t] = sum;
    hashes[blockIdx.x * 128 + t] = hash;
}
