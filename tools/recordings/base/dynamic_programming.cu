// The DPX functions: three-input minimum and maximum, add and compare, in 32 bits and pairs of 16, with relu and predicates.
#include "base.cuh"

KERNEL(dynamic_programming)(const u32 *x, const u32 *y, const u32 *z, u32 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    u32 a = x[i], b = y[i], c = z[i];
    bool p, q;
    u32 r[] = {
        (u32)__vimax3_s32(a, b, c), (u32)__vimin3_s32(a, b, c), __vimax3_u32(a, b, c), __vimin3_u32(a, b, c), __vimax3_s16x2(a, b, c), __vimin3_u16x2(a, b, c),
        (u32)__vimax3_s32_relu(a, b, c), __vimin3_s16x2_relu(a, b, c), (u32)__viaddmax_s32(a, b, c), (u32)__viaddmin_s32(a, b, c), __viaddmax_u32(a, b, c), __viaddmin_u16x2(a, b, c),
        __viaddmax_s16x2(a, b, c), (u32)__viaddmax_s32_relu(a, b, c), __viaddmin_s16x2_relu(a, b, c), (u32)__vimax_s32_relu(a, b), __vimin_s16x2_relu(a, b),
        (u32)__vibmax_s32(a, b, &p), p, (u32)__vibmin_u32(b, c, &p), p, __vibmax_s16x2(a, c, &p, &q), p + 2u * q, __vibmin_u16x2(b, c, &p, &q), p + 2u * q,
    };
    for (int k = 0; k < 25; k++) out[k * n + i] = r[k];
}
