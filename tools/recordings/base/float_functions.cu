// f32 functions of libdevice, compiled with and without -use_fast_math (which flushes subnormals and takes the approximate units).
#include "base.cuh"

KERNEL(float_functions)(const float *x, const float *y, u32 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    float a = x[i], b = y[i], whole;
    int quotient;
    float r[] = {
        a / b, sqrtf(a), rsqrtf(a), cbrtf(a), fmodf(a, b), remquof(a, b, &quotient), (float)quotient, modff(a, &whole), hypotf(a, b), expf(a), exp2f(a), exp10f(a), expm1f(a), logf(a), log2f(a),
        log10f(a), log1pf(a), powf(fabsf(a), b), sinf(a), cosf(a), tanf(a), sinpif(a), cospif(a), atanf(a), atan2f(a, b), asinf(a * 0.01f), acosf(a * 0.01f), sinhf(a), coshf(a), tanhf(a), acoshf(a),
        erff(a), erfcf(a), erfcxf(a), tgammaf(a), lgammaf(a), erfinvf(a * 0.02f), normcdfinvf(fabsf(a)), j1f(a), y0f(fabsf(b)), fdimf(a, b), fminf(a, b), fmaxf(a, b), nextafterf(a, b), roundf(a),
        __sinf(a), __cosf(a), __expf(a), __logf(a), __powf(fabsf(a), 1.7f), __fdividef(a, b), __tanf(a), __saturatef(a), a * b + a, 1 / a, norm3df(a, b, 1), ldexpf(a, -140), fabsf(a) - b,
    };
    int k = 0;
    for (float v : r) out[k++ * n + i] = bits(v);
}
