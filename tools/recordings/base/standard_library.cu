// libcu++: complex functions, spans of arrays, bit casts, optional and variant-like choices, 64-bit atomics of all orders.
#include "base.cuh"
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/optional>
#include <cuda/std/tuple>

using Complex = cuda::std::complex<double>;

__device__ cuda::std::optional<float> positive_root(float a) {
    if (a < 0) return cuda::std::nullopt;
    return sqrtf(a);
}

KERNEL(standard_library)(const double *x, Complex *out, u64 *words, double *total, u64 *top, int n) {
    int i = global_thread();
    if (i >= n) return;
    Complex z(x[i], x[(i + 1) % n]), w = cuda::std::exp(z * 0.25) + cuda::std::sqrt(z) / (z + Complex(0, 2));
    out[i * 3] = w;
    out[i * 3 + 1] = cuda::std::log(z) * cuda::std::conj(w);
    out[i * 3 + 2] = cuda::std::pow(z, 1.5) - cuda::std::tanh(z * 0.1) * cuda::std::polar(1.0, x[i]);
    cuda::std::array<u32, 6> a{};
    for (u32 k = 0; k < a.size(); k++) a[k] = cuda::std::rotl((u32)(x[(i + k) % n] * 1000), k * 5) ^ cuda::std::countl_zero((u32)i);
    auto [low, high] = cuda::std::make_tuple(a[i % 6], a[(i + 3) % 6]);
    float root = positive_root((float)x[i]).value_or(-1.f);
    words[i] = (u64)low << 32 | (high ^ cuda::std::bit_cast<u32>(root)) + cuda::std::popcount(low) + cuda::std::bit_ceil(high & 0xffff);
    cuda::atomic_ref<double, cuda::thread_scope_device>(*total).fetch_add((double)(int)(x[i] * 16), cuda::std::memory_order_relaxed);
    cuda::atomic_ref<u64, cuda::thread_scope_system> best(*top);
    u64 seen = best.load(cuda::std::memory_order_acquire);
    while (seen < words[i] && !best.compare_exchange_weak(seen, words[i], cuda::std::memory_order_acq_rel, cuda::std::memory_order_relaxed)) {}
}
