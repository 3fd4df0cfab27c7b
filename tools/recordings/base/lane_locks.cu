// Locks: lanes of one warp on one spin lock, a ticket lock over all blocks, and two locks per transfer taken in order.
#include "base.cuh"

__device__ int mutex, ticket, serving, bank[8];
__device__ u64 account = 1;

KERNEL(lane_locks)(const int *x, u64 *product, int *balances) {
    int i = global_thread(), v = x[i];
    for (bool done = false; !done;)
        if (atomicCAS(&mutex, 0, 1) == 0) {
            __threadfence();
            account = account * (v * 2 + 1);  // odd factors commute modulo 2^64
            __threadfence();
            atomicExch(&mutex, 0);
            done = true;
        }
    if (threadIdx.x % 16 == 0) {
        int mine = atomicAdd(&ticket, 1);
        while (atomicAdd(&serving, 0) != mine) {}
        __threadfence();
        balances[8] += v;
        __threadfence();
        atomicAdd(&serving, 1);
    }
    int from = v & 7, to = v >> 3 & 7, low = min(from, to), high = max(from, to);
    if (from != to)
        for (bool done = false; !done;)
            if (atomicExch(&bank[low], 1) == 0) {
                if (atomicExch(&bank[high], 1) == 0) {
                    __threadfence();
                    volatile int *b = balances;
                    b[from] -= v, b[to] += v;
                    __threadfence();
                    atomicExch(&bank[high], 0);
                    done = true;
                }
                atomicExch(&bank[low], 0);
            }
    __threadfence();
    if (atomicAdd(&balances[9], 1) == gridDim.x * blockDim.x - 1) *product = *(volatile u64 *)&account;
}
