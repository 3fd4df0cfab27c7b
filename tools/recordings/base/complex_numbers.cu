// Complex numbers in f32 and f64: products, quotients, powers and roots of polynomials by Durand and Kerner.
#include "base.cuh"

template <class T> struct Complex {
    T x, y;
    __device__ Complex operator+(Complex b) const { return {x + b.x, y + b.y}; }
    __device__ Complex operator-(Complex b) const { return {x - b.x, y - b.y}; }
    __device__ Complex operator*(Complex b) const { return {x * b.x - y * b.y, x * b.y + y * b.x}; }
    __device__ Complex operator/(Complex b) const {
        T d = b.x * b.x + b.y * b.y;
        return {(x * b.x + y * b.y) / d, (y * b.x - x * b.y) / d};
    }
};

template <class T> __device__ void roots(const Complex<T> *c, Complex<T> *out, int steps) {
    Complex<T> z[3] = {{1, 0}, {T(0.4), T(0.9)}, {T(-0.65), T(0.72)}};
    for (int s = 0; s < steps; s++)
        for (int k = 0; k < 3; k++) {
            Complex<T> p = ((z[k] + c[2]) * z[k] + c[1]) * z[k] + c[0];
            z[k] = z[k] - p / ((z[k] - z[(k + 1) % 3]) * (z[k] - z[(k + 2) % 3]));
        }
    for (int k = 0; k < 3; k++) out[k] = z[k];
}

KERNEL(complex_numbers)(const Complex<float> *c, const Complex<double> *d, Complex<float> *out, Complex<double> *out64, int n) {
    int i = global_thread();
    if (i >= n) return;
    roots(c + i * 3, out + i * 3, 6);
    roots(d + i * 3, out64 + i * 3, 4);
}
