// cuda::pipeline of a block with producer and consumer roles over two stages; a latch and a semaphore of the block.
#include "base.cuh"
#include <cooperative_groups.h>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>

#pragma nv_diag_suppress static_var_with_dynamic_init
KERNEL(pipeline_roles)(const int *x, int *out, int rounds) {
    auto block = cooperative_groups::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int stages[2][64], turns;
    using Latch = cuda::latch<cuda::thread_scope_block>;
    using Semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 4>;
    __shared__ __align__(16) char places[2][64];
    Latch &done = *(Latch *)places[0];
    Semaphore &room = *(Semaphore *)places[1];
    bool produces = threadIdx.x < 32;
    if (threadIdx.x == 0) {
        new (&done) Latch(32);
        new (&room) Semaphore(2);
        turns = 0;
    }
    block.sync();
    auto pipe = cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    if (produces) {
        for (int r = 0; r < rounds; r++) {
            pipe.producer_acquire();
            for (int k = threadIdx.x; k < 64; k += 32) cuda::memcpy_async(&stages[r & 1][k], x + r * 64 + k, 4, pipe);
            pipe.producer_commit();
        }
    } else {
        int u = threadIdx.x - 32, sum = u;
        for (int r = 0; r < rounds; r++) {
            pipe.consumer_wait();
            sum = sum * 3 + stages[r & 1][u ^ 9] - stages[r & 1][63 - u];
            pipe.consumer_release();
        }
        out[u] = sum;
        room.acquire();
        atomicAdd(&turns, u);
        room.release();
        done.count_down();
        done.wait();
        out[64 + u] = *(volatile int *)&turns;
    }
}
