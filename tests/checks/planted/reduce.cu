// Planted: no __syncthreads() between the steps of the sum.
extern "C" __global__ void reduce(const float *x, float *y) {
    __shared__ float partial[128];
    int t = threadIdx.x;
    partial[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    #pragma unroll
    for (int s = 64; s > 0; s /= 2)
        if (t < s) partial[t] += partial[t + s];
    if (t == 0) y[blockIdx.x] = partial[0];
}
