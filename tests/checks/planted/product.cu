// Planted: rows of `a` are 16 floats apart, not 17 as those of `b`.
extern "C" __global__ void product(const float *x, const float *y, float *z) {
    __shared__ float a[16 * 16];
    __shared__ float b[16 * 17];
    int i = threadIdx.y, j = threadIdx.x;
    a[i * 17 + j] = x[i * 16 + j];
    b[j * 17 + i] = y[i * 16 + j];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += a[i * 16 + k] * b[j * 17 + k];
    z[i * 16 + j] = sum;
}
