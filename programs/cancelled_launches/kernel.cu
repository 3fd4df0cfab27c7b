// Sums of rows by CTAs that stay: each cancels the launch of another one and does its row, until none is left to cancel.
#include <cstdint>

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void cancelled_launches(const float* rows, float* sums, int n) {
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t full;
    __shared__ float parts[4];
    const uint32_t at = shared_address(&answer), bar = shared_address(&full);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    __syncthreads();
    int row = blockIdx.x;
    for (uint32_t phase = 0;; phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" ::"r"(bar) : "memory");
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(at), "r"(bar)
                         : "memory");
        }
        float sum = 0;  // while the answer is under way
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += rows[row * n + i];
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) sums[row] = parts[0] + parts[1] + parts[2] + parts[3];
        uint32_t done = 0, cancelled, next;
        while (!done)
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(bar), "r"(phase)
                : "memory");
        asm volatile(
            "{ .reg .b128 a; .reg .pred p; ld.shared.b128 a, [%2];"
            " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a; selp.u32 %0, 1, 0, p; mov.u32 %1, 0;"
            " @p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, a; }"
            : "=r"(cancelled), "=r"(next)
            : "r"(at)
            : "memory");
        if (!cancelled) return;
        row = next;
        __syncthreads();  // everybody has read the answer and the parts
    }
}
