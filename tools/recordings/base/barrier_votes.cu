// Barriers that count and vote, over a block with a partial warp and over named halves of it; threads that left before.
#include "base.cuh"

KERNEL(barrier_votes)(const int *x, int *out) {
    int t = threadIdx.x, v = x[blockIdx.x * blockDim.x + t];
    int *mine = out + (blockIdx.x * blockDim.x + t) * 8;
    mine[0] = __syncthreads_count(v > 0);
    mine[1] = __syncthreads_and(v > -40);
    mine[2] = __syncthreads_or(v > 40);
    int name = 1 + t / 64, size = 64;
    if (t < 128) {
        int count, all, any;
        asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %3, 0; setp.gt.s32 q, %3, -30; barrier.red.popc.u32 %0, %4, %5, p;\n"
                     "barrier.red.and.pred q, %4, %5, q; selp.s32 %1, 1, 0, q; barrier.red.or.pred p, %4, %5, !p; selp.s32 %2, 1, 0, p; }"
                     : "=r"(count), "=r"(all), "=r"(any) : "r"(v), "r"(name), "r"(size) : "memory");
        mine[3] = count, mine[4] = all, mine[5] = any;
    }
    if (t % 3 == 0 && t > 96) return;
    mine[6] = __syncthreads_count(v & 1);
    mine[7] = __syncthreads_or(v == 7);
}
