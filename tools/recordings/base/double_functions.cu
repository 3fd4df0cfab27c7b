// f64: arithmetic, division, roots in all roundings, and what libdevice makes of them (logarithms, powers, gamma, errors, angles).
// erf sees no NaN: which of two NaN survives there depends on how the assembler orders the factors of a product.
#include "base.cuh"

KERNEL(double_functions)(const double *x, const double *y, u64 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    double a = x[i], b = y[i], whole;
    int exponent;
    double fraction = frexp(a, &exponent);
    double r[] = {
        a / b, sqrt(a), rsqrt(a), cbrt(a), fma(a, b, a), fmod(a, b), remainder(a, b), modf(a, &whole), whole, fraction, ldexp(b, exponent), hypot(a, b), exp(a), exp2(a), expm1(a),
        log(a), log2(a), log10(a), log1p(a), pow(fabs(a), b), sin(a), cos(a), tan(a), sinpi(a), atan(a), atan2(a, b), asin(a * 0.01), acos(a * 0.01), sinh(a * 0.1), tanh(a), asinh(a),
        erf(fmax(a, -9.0)), erfc(a), tgamma(a), lgamma(a), erfinv(a * 0.02), normcdf(a), j0(a), fmin(a, b), fmax(a, b), copysign(a, b), nextafter(a, b), rint(a), floor(a), ceil(a), trunc(a), round(a),
        __ddiv_rd(a, b), __ddiv_ru(a, b), __ddiv_rz(a, b), __dsqrt_rd(a), __dsqrt_ru(a), __drcp_rz(a), __dadd_rd(a, b), __dmul_ru(a, b), __fma_rz(a, b, a), scalbn(a, -1070), logb(a),
    };
    int k = 0;
    for (double v : r) out[k++ * n + i] = bits(v);
}
