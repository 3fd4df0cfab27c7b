// Formats of 4, 6 and 8 bits: e2m1, e2m3, e3m2 and the exponents e8m0, to and from f32, f64 and f16 in their roundings.
#include "base.cuh"
#include <cuda_fp4.h>
#include <cuda_fp6.h>

KERNEL(small_floats)(const float *x, const double *wide, u8 *codes, u32 *back, int n) {
    int i = global_thread();
    if (i >= n) return;
    float v = x[i];
    double d = wide[i];
    u8 r[] = {
        __nv_cvt_float_to_fp4(v, __NV_E2M1, cudaRoundNearest), __nv_cvt_double_to_fp4(d, __NV_E2M1, cudaRoundNearest), __nv_cvt_float2_to_fp4x2(make_float2(v, -v * 0.3f), __NV_E2M1, cudaRoundNearest),
        __nv_cvt_float_to_fp6(v, __NV_E2M3, cudaRoundNearest), __nv_cvt_float_to_fp6(v, __NV_E3M2, cudaRoundNearest), __nv_cvt_double_to_fp6(d, __NV_E3M2, cudaRoundNearest),
        __nv_cvt_float_to_e8m0(v, __NV_SATFINITE, cudaRoundZero), __nv_cvt_float_to_e8m0(v, __NV_NOSAT, cudaRoundPosInf), __nv_cvt_double_to_e8m0(d, __NV_SATFINITE, cudaRoundPosInf),
        __nv_cvt_halfraw_to_fp4(__float2half(v), __NV_E2M1, cudaRoundNearest), __nv_cvt_bfloat16raw_to_fp6(__float2bfloat16(v), __NV_E2M3, cudaRoundNearest),
    };
    for (int k = 0; k < 11; k++) codes[k * n + i] = r[k];
    back[i] = __half_raw(__nv_cvt_fp4_to_halfraw(i & 15, __NV_E2M1)).x | (u32)__half_raw(__nv_cvt_fp6_to_halfraw(i & 63, __NV_E2M3)).x << 16;
    back[n + i] = __half_raw(__nv_cvt_fp6_to_halfraw(i & 63, __NV_E3M2)).x | (u32)__nv_bfloat16_raw(__nv_cvt_e8m0_to_bf16raw(i & 255)).x << 16;
}
