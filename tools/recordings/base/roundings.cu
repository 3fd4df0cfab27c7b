// Directed rounding: f32 and f64 operations, and conversions to and from integers of all widths with saturation.
#include "base.cuh"

KERNEL(roundings)(const float *x, const float *y, const double *p, const double *q, const s64 *whole, u32 *out, u64 *out64, int n) {
    int i = global_thread();
    if (i >= n) return;
    float a = x[i], b = y[i];
    double u = p[i], v = q[i];
    s64 w = whole[i];
    u32 r[] = {
        bits(__fadd_rd(a, b)), bits(__fadd_ru(a, b)), bits(__fsub_rz(a, b)), bits(__fmul_rd(a, b)), bits(__fmul_ru(a, b)), bits(__fmaf_rz(a, b, a)), bits(__fmaf_rd(a, b, -b)), bits(__fdiv_rd(a, b)),
        bits(__fdiv_ru(a, b)), bits(__fsqrt_rz(a)), bits(__fsqrt_ru(a)), bits(__frcp_rd(a)), bits(__frcp_ru(a)), bits(__frsqrt_rn(a)), bits(__double2float_rd(u)), bits(__double2float_ru(v)),
        (u32)__float2int_rd(a), (u32)__float2int_ru(a), (u32)__float2int_rn(a), (u32)__float2int_rz(b), __float2uint_rn(a), __float2uint_ru(b), (u32)__double2int_rn(u), __double2uint_rd(v),
        bits(__int2float_rd((int)w)), bits(__int2float_ru((int)w)), bits(__uint2float_rz((u32)w)), bits(__ll2float_rn(w)), bits(__ll2float_rd(w)), bits(__ull2float_ru(w)),
        (u32)(int)(signed char)fminf(fmaxf(a, -128), 127), (u32)(u16)__float2uint_rz(a), (u32)(short)(int)b, bits(__int2half_rd((int)w)), bits(__ll2half_ru(w)), (u32)__half2short_rd(__float2half(a)),
    };
    u64 s[] = {
        bits(__dadd_ru(u, v)), bits(__dmul_rd(u, v)), bits(__fma_ru(u, v, u)), bits(__dsqrt_rz(u)), (u64)__float2ll_rd(a), (u64)__float2ll_rn(a), __float2ull_ru(b), (u64)__double2ll_rd(u),
        (u64)__double2ll_ru(v), __double2ull_rn(u), bits(__ll2double_rd(w)), bits(__ll2double_ru(w)), bits(__ull2double_rz(w)), bits((double)a), bits(__hiloint2double((int)w, (int)(w >> 32))),
    };
    int k = 0;
    for (u32 e : r) out[k++ * n + i] = e;
    k = 0;
    for (u64 e : s) out64[k++ * n + i] = e;
}
