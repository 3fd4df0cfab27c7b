// Expressions of f16x2 and bf16x2 operators, whose products and sums the assembler may fuse.
#include "base.cuh"

template <class T> __device__ void expressions(const T *x, u32 *out, int n, int i) {
    T a = x[i], b = x[n + i], c = x[2 * n + i], d = x[3 * n + i], p = a * b, q = c * d;
    u32 r[] = {bits(p + c), bits(c - p), bits(a * d - c * b), bits(a * d + b * c), bits(p + p), bits(q), bits(a * a - b * b + c), bits(-(a * c) + d), bits((a + b) * (a - b) - c * c), bits(p * q - d), bits(__hmul2_rn(a, b) + d), bits(__hmul2(a, c) * d + a)};
    for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}

KERNEL(half_expressions)(const __half2 *x, const __nv_bfloat162 *y, u32 *out, u32 *out_bf, int n) {
    int i = global_thread();
    if (i >= n) return;
    expressions(x, out, n, i);
    expressions(y, out_bf, n, i);
}
