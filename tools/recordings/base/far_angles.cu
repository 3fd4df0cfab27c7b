// Sines of huge arguments: Payne and Hanek's reduction, with its digits in local memory, in f32 and f64.
#include "base.cuh"

KERNEL(far_angles)(const float *x, const double *wide, u32 *out, u64 *out64, int n) {
    int i = global_thread();
    if (i >= n) return;
    float s, c;
    sincosf(x[i], &s, &c);
    out[i] = bits(s), out[n + i] = bits(c), out[2 * n + i] = bits(tanf(x[i]));
    double ds, dc;
    sincos(wide[i], &ds, &dc);
    out64[i] = bits(ds), out64[n + i] = bits(dc), out64[2 * n + i] = bits(tan(wide[i]));
}
