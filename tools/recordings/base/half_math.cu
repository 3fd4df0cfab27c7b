// f16 and f16x2: arithmetic, saturation, relu, minimum and maximum with NaN, comparisons, roots and transcendental functions.
#include "base.cuh"

KERNEL(half_math)(const __half2 *x, const __half2 *y, const __half2 *z, u32 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    __half2 a = x[i], b = y[i], c = z[i];
    u32 r[] = {
        bits(__hadd2(a, b)), bits(__hsub2(a, b)), bits(__hmul2(a, b)), bits(__hfma2(a, b, c)), bits(__hadd2_sat(a, b)), bits(__hmul2_sat(a, b)), bits(__hfma2_sat(a, b, c)),
        bits(__hfma2_relu(a, b, c)), bits(__h2div(a, b)), bits(__hneg2(a)), bits(__habs2(a)), bits(__hmin2(a, b)), bits(__hmax2(a, b)), bits(__hmin2_nan(a, b)), bits(__hmax2_nan(a, b)),
        bits(__heq2(a, b)), bits(__hgtu2(a, b)), bits(__hleu2(a, b)), bits(__hne2(a, b)), __hge2_mask(a, b), __hltu2_mask(a, b), (u32)__hbeq2(a, b) | (u32)__hbltu2(a, c) << 1,
        bits(h2exp(a)), bits(h2exp2(a)), bits(h2exp10(a)), bits(h2log(a)), bits(h2log2(a)), bits(h2log10(a)), bits(h2sqrt(a)), bits(h2rsqrt(a)), bits(h2rcp(a)),
        bits(h2sin(a)), bits(h2cos(a)), bits(h2ceil(a)), bits(h2floor(a)), bits(h2rint(a)), bits(h2trunc(a)), bits(h2tanh_approx(a)), bits(h2tanh(a)),
        bits(__hcmadd(a, b, c)), bits(__hfma(a.x, b.y, c.x)), bits(__float2half_rd(__half2float(a.x) * 3)), bits(__lowhigh2highlow(a)), bits(__hmul_sat(a.y, b.x)),
        bits(hexp2(a.y)), bits(hrcp(b.y)), (u32)__hisinf(a.x) | __hisnan(a.y) << 4, bits(__hadd_rn(a.x, b.x)),
    };
    int k = 0;
    for (u32 v : r) out[k++ * n + i] = v;
}
