// A radix sort of a block: four bits a pass, ranks within warps from ballots, over warps from counters in shared memory.
#include "base.cuh"

KERNEL(radix_sorts)(const u32 *x, u32 *out) {
    __shared__ u32 keys[256], counts[16][8 + 1];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    u32 key = x[blockIdx.x * 256 + t];
    for (int shift = 0; shift < 32; shift += 4) {
        u32 digit = key >> shift & 15, peers = ~0u;
#pragma unroll
        for (int b = 0; b < 4; b++) {
            u32 votes = __ballot_sync(~0u, digit >> b & 1);
            peers &= digit >> b & 1 ? votes : ~votes;
        }
        if (t < 128) counts[t >> 3][t & 7] = 0;
        __syncthreads();
        u32 rank = __popc(peers & ((1u << lane) - 1));
        if (rank == 0) counts[digit][warp] = __popc(peers);
        __syncthreads();
        if (warp == 0) {  // an exclusive scan over digit, then warp: four counters a lane
            u32 c[4], sum = 0;
            for (int k = 0; k < 4; k++) c[k] = sum, sum += counts[(lane * 4 + k) >> 3][(lane * 4 + k) & 7];
            u32 all = sum;
            for (int d = 1; d < 32; d *= 2) {
                u32 other = __shfl_up_sync(~0u, all, d);
                all += lane >= d ? other : 0;
            }
            for (int k = 0; k < 4; k++) counts[(lane * 4 + k) >> 3][(lane * 4 + k) & 7] = all - sum + c[k];
        }
        __syncthreads();
        keys[counts[digit][warp] + rank] = key;
        __syncthreads();
        key = keys[t];
    }
    out[blockIdx.x * 256 + t] = key;
}
