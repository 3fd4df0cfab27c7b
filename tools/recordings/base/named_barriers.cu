// Named barriers: two producer warps and two consumer teams of different sizes that pass a double buffer by arrive and sync.
#include "base.cuh"

__device__ void wait_at(int name, int count) { asm volatile("barrier.sync %0, %1;" ::"r"(name), "r"(count) : "memory"); }
__device__ void arrive_at(int name, int count) { asm volatile("barrier.arrive %0, %1;" ::"r"(name), "r"(count) : "memory"); }

KERNEL(named_barriers)(const int *x, int *out, int rounds) {
    __shared__ int buffer[2][64];
    int t = threadIdx.x;
    if (t < 64) {  // full: 1, 2; empty: 3, 4
        for (int r = 0; r < rounds; r++) {
            if (r > 1) wait_at(3 + (r & 1), 64 + 96);
            buffer[r & 1][t] = x[r * 64 + t];
            __threadfence_block();
            arrive_at(1 + (r & 1), 64 + 96);
        }
    } else if (t < 160) {
        int u = t - 64, sum = 0;
        for (int r = 0; r < rounds; r++) {
            wait_at(1 + (r & 1), 64 + 96);
            sum = sum * 3 + buffer[r & 1][(u * 7 + r) & 63];
            asm volatile("bar.sync 5, 96;" ::: "memory");
            if (r + 2 < rounds) arrive_at(3 + (r & 1), 64 + 96);
        }
        out[u] = sum;
    } else {
        asm volatile("bar.sync 6, 32;" ::: "memory");
        out[t - 64] = t;
    }
}
