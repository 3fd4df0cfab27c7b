// Conversions between fp8, fp16, bf16, f32 and f64: emulated by the headers below sm_89, instructions from there on.
#include "base.cuh"

KERNEL(fp8_formats)(const float *x, const double *wide, const u16 *codes, u16 *narrow, u32 *back, int n) {
    int i = global_thread();
    if (i >= n) return;
    float v = x[i];
    double d = wide[i];
    __half h = __float2half(v);
    __nv_bfloat16 b = __float2bfloat16(v);
    u16 r[] = {
        __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3), __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E4M3), __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2),
        __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E5M2), __nv_cvt_double_to_fp8(d, __NV_SATFINITE, __NV_E4M3), __nv_cvt_double_to_fp8(d, __NV_NOSAT, __NV_E5M2),
        __nv_cvt_halfraw_to_fp8(h, __NV_SATFINITE, __NV_E4M3), __nv_cvt_halfraw_to_fp8(h, __NV_NOSAT, __NV_E5M2), __nv_cvt_bfloat16raw_to_fp8(b, __NV_SATFINITE, __NV_E5M2),
        __nv_cvt_float2_to_fp8x2(make_float2(v, -v * 0.37f), __NV_SATFINITE, __NV_E4M3), __nv_cvt_float2_to_fp8x2(make_float2(v, v * 1.9f), __NV_SATFINITE, __NV_E5M2),
        bits(__double2half(d)), bits(__float2half_rz(v)), bits(__float2half_ru(v)),
    };
    for (int k = 0; k < 14; k++) narrow[k * n + i] = r[k];
    __half2_raw e4 = __nv_cvt_fp8x2_to_halfraw2(codes[i], __NV_E4M3), e5 = __nv_cvt_fp8x2_to_halfraw2(codes[i], __NV_E5M2);
    back[i] = e4.x | (u32)e4.y << 16;
    back[n + i] = e5.x | (u32)e5.y << 16;
    back[2 * n + i] = __float_as_uint((float)__nv_fp8_e4m3(v) + (float)__nv_fp8_e5m2(v));
}
