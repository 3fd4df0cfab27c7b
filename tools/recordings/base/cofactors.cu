// Inverses of 4 x 4 matrices by cofactors, quaternions to rotations and back, in f32 and f64.
#include "base.cuh"

template <class T> __device__ void inverse(const T *m, T *out) {
    T s0 = m[0] * m[5] - m[4] * m[1], s1 = m[0] * m[6] - m[4] * m[2], s2 = m[0] * m[7] - m[4] * m[3], s3 = m[1] * m[6] - m[5] * m[2], s4 = m[1] * m[7] - m[5] * m[3], s5 = m[2] * m[7] - m[6] * m[3];
    T c5 = m[10] * m[15] - m[14] * m[11], c4 = m[9] * m[15] - m[13] * m[11], c3 = m[9] * m[14] - m[13] * m[10], c2 = m[8] * m[15] - m[12] * m[11], c1 = m[8] * m[14] - m[12] * m[10], c0 = m[8] * m[13] - m[12] * m[9];
    T k = 1 / (s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0);
    out[0] = (m[5] * c5 - m[6] * c4 + m[7] * c3) * k, out[1] = (-m[1] * c5 + m[2] * c4 - m[3] * c3) * k, out[2] = (m[13] * s5 - m[14] * s4 + m[15] * s3) * k, out[3] = (-m[9] * s5 + m[10] * s4 - m[11] * s3) * k;
    T w = m[0], x = m[1], y = m[2], z = m[3], n = 2 / (w * w + x * x + y * y + z * z);
    out[4] = 1 - n * (y * y + z * z), out[5] = n * (x * y - w * z), out[6] = n * (x * z + w * y), out[7] = n * (x * y + w * z), out[8] = 1 - n * (x * x + z * z), out[9] = n * (y * z - w * x);
}

KERNEL(cofactors)(const float *m, const double *d, float *out, double *out64, int n) {
    int i = global_thread();
    if (i >= n) return;
    inverse(m + i * 16, out + i * 10);
    inverse(d + i * 16, out64 + i * 10);
}
