// bf16 and bf16x2 (below sm_90 the headers emulate all but fma, minimum and maximum).
#include "base.cuh"

KERNEL(bf16_math)(const __nv_bfloat162 *x, const __nv_bfloat162 *y, const __nv_bfloat162 *z, u32 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    __nv_bfloat162 a = x[i], b = y[i], c = z[i];
    u32 r[] = {
        bits(__hadd2(a, b)), bits(__hsub2(a, b)), bits(__hmul2(a, b)), bits(__hfma2(a, b, c)), bits(__hadd2_sat(a, b)), bits(__hmul2_sat(a, b)), bits(__hfma2_sat(a, b, c)),
        bits(__hfma2_relu(a, b, c)), bits(__h2div(a, b)), bits(__hneg2(a)), bits(__habs2(a)), bits(__hmin2(a, b)), bits(__hmax2(a, b)), bits(__hmin2_nan(a, b)), bits(__hmax2_nan(a, b)),
        bits(__heq2(a, b)), bits(__hgtu2(a, b)), bits(__hleu2(a, b)), __hge2_mask(a, b), __hltu2_mask(a, b), bits(h2exp(a)), bits(h2exp2(a)), bits(h2log(a)), bits(h2log2(a)),
        bits(h2sqrt(a)), bits(h2rsqrt(a)), bits(h2rcp(a)), bits(h2sin(a)), bits(h2cos(a)), bits(h2floor(a)), bits(h2rint(a)), bits(h2tanh_approx(a)), bits(h2tanh(a)),
        bits(__hcmadd(a, b, c)), bits(__float2bfloat16_rz(__bfloat162float(a.x) * 3)), bits(__float2bfloat16_ru(__bfloat162float(a.y) / 3)), bits(__double2bfloat16((double)__bfloat162float(b.x) * 1.0001)),
        (u32)__bfloat162int_rn(a.x), (u32)__bfloat162uint_rd(b.x), (u32)__bfloat162short_rz(a.y), bits(__int2bfloat16_rn(i * 123457)), bits(__ull2bfloat16_rn(i * 123456789012345ull)),
    };
    int k = 0;
    for (u32 v : r) out[k++ * n + i] = v;
}
