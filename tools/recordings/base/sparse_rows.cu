// A sparse matrix times a vector: a warp per row with a tree over shuffles, in f64 with indices of 32 bits and f32 values.
#include "base.cuh"

KERNEL(sparse_rows)(const int *rows, const int *columns, const float *values, const double *x, double *y, float *longest, int n) {
    int row = global_thread() >> 5, lane = threadIdx.x & 31;
    if (row >= n) return;
    double sum = 0;
    float top = -INFINITY;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) {
        sum = fma((double)values[e], __ldg(x + columns[e]), sum);
        top = fmaxf(top, values[e]);
    }
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_down_sync(~0u, sum, d);
        top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    }
    if (lane == 0) y[row] = sum, longest[row] = top;
}
