// Producer and consumer warps over rings of flags: within a block in shared memory, and from block to block in global memory.
#include "base.cuh"
#include <cuda/atomic>

KERNEL(flag_rings)(const int *x, int *stage, int *flags, int *out, int rounds) {
    __shared__ int slots[4][32], full[4], empty[4];
    using Flag = cuda::atomic_ref<int, cuda::thread_scope_block>;
    using Far = cuda::atomic_ref<int, cuda::thread_scope_device>;
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    if (t < 4) full[t] = empty[t] = 0;
    __syncthreads();
    if (warp == 0) {  // reads its block's share, or what the block before sends
        for (int r = 0; r < rounds; r++) {
            int s = r & 3, v;
            if (blockIdx.x == 0) {
                v = x[r * 32 + lane];
            } else {
                int *flag = &flags[(blockIdx.x - 1) * rounds + r];
                while (Far(*flag).load(cuda::std::memory_order_acquire) == 0) __nanosleep(20);
                v = stage[((blockIdx.x - 1) * rounds + r) * 32 + lane];
            }
            while (Flag(empty[s]).load(cuda::std::memory_order_acquire) != r / 4) {}
            slots[s][lane] = v * 3 + 1;
            __syncwarp();
            if (lane == 0) Flag(full[s]).store(r / 4 + 1, cuda::std::memory_order_release);
        }
    } else {  // transforms, and sends on
        for (int r = 0; r < rounds; r++) {
            int s = r & 3;
            while (Flag(full[s]).load(cuda::std::memory_order_acquire) != r / 4 + 1) {}
            int v = slots[s][lane ^ 1] - lane;
            __syncwarp();
            if (lane == 0) Flag(empty[s]).store(r / 4 + 1, cuda::std::memory_order_release);
            stage[(blockIdx.x * rounds + r) * 32 + lane] = v;
            __syncwarp();
            if (lane == 0) {
                __threadfence();
                Far(flags[blockIdx.x * rounds + r]).store(1, cuda::std::memory_order_relaxed);
            }
            if (blockIdx.x == gridDim.x - 1) out[r * 32 + lane] = v;
        }
    }
}
