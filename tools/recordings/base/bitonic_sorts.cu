// A bitonic sort of 512 keys with values: steps between lanes by shuffles, between warps in shared memory.
#include "base.cuh"

KERNEL(bitonic_sorts)(const u32 *x, u32 *keys, u16 *places) {
    __shared__ u64 all[512];
    int t = threadIdx.x;
    u64 mine = (u64)x[blockIdx.x * 512 + t] << 32 | t;
    for (int size = 2; size <= 512; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) {
            u64 other;
            if (d >= 32) {
                all[t] = mine;
                __syncthreads();
                other = all[t ^ d];
                __syncthreads();
            } else {
                other = __shfl_xor_sync(~0u, mine, d);
            }
            bool keep_low = ((t & d) == 0) == ((t & size) == 0);
            mine = (mine < other) == keep_low ? mine : other;
        }
    keys[blockIdx.x * 512 + t] = mine >> 32;
    places[blockIdx.x * 512 + t] = (u16)mine;
}
