// mbarrier on sm_80: cuda::barrier with arrive and wait apart, a drop, and cp.async that arrives on it.
#include "base.cuh"
#include <cuda/barrier>

KERNEL(split_barrier)(const int *x, int *out, int rounds) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ __align__(8) char room[2][sizeof(Barrier)];
    Barrier &filled = *(Barrier *)room[0], &emptied = *(Barrier *)room[1];
    __shared__ __align__(16) int ring[256];
    int t = threadIdx.x;
    if (t == 0) {
        init(&filled, 128);
        init(&emptied, 256);
    }
    __syncthreads();
    if (t < 128) {  // producers: copies that arrive when they have landed
        for (int r = 0; r < rounds; r++) {
            cuda::memcpy_async(&ring[t * 2], x + (r * 128 + t) * 2, cuda::aligned_size_t<8>(8), filled);
            (void)filled.arrive();
            emptied.arrive_and_wait();
        }
        return;
    }
    int sum = t;
    bool stays = t < 224;
    for (int r = 0; r < rounds; r++) {
        filled.wait_parity(r & 1);
        sum = sum * 5 + ring[(t - 128) * 2] - ring[511 - t * 2];
        if (!stays && r == 2) {
            emptied.arrive_and_drop();
            break;
        }
        auto token = emptied.arrive();
        sum ^= r << 8;
        emptied.wait(std::move(token));
    }
    out[t - 128] = sum;
}
