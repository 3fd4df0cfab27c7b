// Function pointers: a table in constant memory, pointers chosen by data in divergent lanes, one passed as an argument.
#include "base.cuh"

using Operation = float (*)(float, int);

__device__ __noinline__ float scale(float v, int k) { return v * k; }
__device__ __noinline__ float shift(float v, int k) { return v - k * 0.5f; }
__device__ __noinline__ float root(float v, int k) { return sqrtf(fabsf(v)) + k; }
__device__ __noinline__ float fold(float v, int k) { return k > 0 ? fold(v * 0.5f + 1, k - 1) : v; }
__constant__ Operation operations[4] = {scale, shift, root, fold};
__device__ Operation spare[2] = {fold, scale};

__device__ __noinline__ float apply(Operation f, Operation g, float v, int times) {
    for (int k = 0; k < times; k++) v = k & 1 ? g(v, k) : f(v, times);
    return v;
}

KERNEL(function_table)(const float *x, const u8 *picks, float *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    Operation f = operations[picks[i] & 3], g = spare[picks[i] >> 2 & 1];
    float v = x[i];
    if (picks[i] & 8) v = f(v, 3);
    out[i] = apply(f, g, v, 1 + (picks[i] >> 4));
}
