// Planted: the right halo has one element too many: t <= R is t < R.
#define BLOCK 64
#define R 3
extern "C" __global__ void stencil(const float *x, const float *c, float *y, int n) {
    __shared__ float tile[BLOCK + 2 * R];
    __shared__ float coef[2 * R + 1];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    if (t < 2 * R + 1) coef[t] = c[t];
    tile[t + R] = x[i];
    if (t < R) tile[t] = i >= R ? x[i - R] : 0;
    if (t <= R) tile[t + BLOCK + R] = i + BLOCK < n ? x[i + BLOCK] : 0;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k <= 2 * R; ++k) sum += coef[k] * tile[t + k];
    y[i] = sum;
}
