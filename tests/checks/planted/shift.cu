// Planted: the copies are committed and never waited for: __pipeline_wait_prior(0) is missing.
#include <cuda_pipeline.h>
extern "C" __global__ void shift(const float *x, float *y) {
    __shared__ float stage[128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[t], &x[blockIdx.x * 128 + t], 4);
    __pipeline_commit();
    __syncthreads();
    y[blockIdx.x * 128 + t] = stage[(t + 1) % 128];
}
