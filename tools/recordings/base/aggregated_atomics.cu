// Stream compaction with one atomic per warp: the leader adds for its peers and hands out ranks; a histogram of bytes by peers.
#include "base.cuh"

KERNEL(aggregated_atomics)(const int *x, int *kept, u32 *count, u32 *bins, int n) {
    __shared__ u32 total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    x += blockIdx.x * n, kept += blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 32) {
        int v = x[i];
        if (v % 3 == 0) {
            u32 here = __activemask(), lane = threadIdx.x, first = __ffs(here) - 1, base = 0;
            if (lane == first) base = atomicAdd(&total, __popc(here));
            base = __shfl_sync(here, base, first);
            kept[base + __popc(here & ((1u << lane) - 1))] = v;
        }
        __syncwarp();
        u32 peers = __match_any_sync(~0u, v & 15);
        if (threadIdx.x == __ffs(peers) - 1) atomicAdd(&bins[v & 15], __popc(peers));
    }
    if (threadIdx.x == 0) count[blockIdx.x] = total;
}
