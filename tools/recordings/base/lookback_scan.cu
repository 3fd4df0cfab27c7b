// A scan in one pass: blocks take tiles by a counter and look back over flags and partial sums that other blocks publish.
#include "base.cuh"
#include <cuda/atomic>

struct __align__(8) State { u32 flag; int value; };  // 0 nothing, 1 the tile's own sum, 2 all up to here
__device__ u32 next_tile;

KERNEL(lookback_scan)(const int *x, int *out, State *states) {
    __shared__ int sums[4], prefix;
    __shared__ u32 tile;
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    if (t == 0) tile = atomicAdd(&next_tile, 1);
    __syncthreads();
    int v = x[tile * 128 + t], sum = v;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) sum += sums[w];
    int total = sums[0] + sums[1] + sums[2] + sums[3];
    if (warp == 0) {
        auto word = [&](int at) { return cuda::atomic_ref<State, cuda::thread_scope_device>(states[at]); };
        if (lane == 0) word(tile).store({tile == 0 ? 2u : 1u, total}, cuda::std::memory_order_release);
        int before = 0;
        for (int at = (int)tile - 1 - lane; ; at -= 32) {
            State s = {2, 0};
            if (at >= 0)
                do s = word(at).load(cuda::std::memory_order_acquire);
                while (s.flag == 0);
            u32 done = __ballot_sync(~0u, s.flag == 2);
            int last = done ? __ffs(done) - 1 : 31;
            before += __reduce_add_sync(~0u, lane <= last ? s.value : 0);
            if (done) break;
        }
        if (lane == 0) {
            prefix = before;
            word(tile).store({2, before + total}, cuda::std::memory_order_release);
        }
    }
    __syncthreads();
    out[tile * 128 + t] = prefix + sum;
}
