// sm_90: atomics of 128 bits (compare and swap, exchange), of vectors of f32, f16 and bf16, and elect.
#include "base.cuh"

struct __align__(16) Pair { u64 low, high; };

__device__ Pair swap_if(Pair *at, Pair expected, Pair wanted) {
    Pair old;
    asm volatile("{ .reg .b128 e, w, o; mov.b128 e, {%3, %4}; mov.b128 w, {%5, %6}; atom.acq_rel.gpu.global.cas.b128 o, [%2], e, w; mov.b128 {%0, %1}, o; }"
                 : "=l"(old.low), "=l"(old.high) : "l"(at), "l"(expected.low), "l"(expected.high), "l"(wanted.low), "l"(wanted.high) : "memory");
    return old;
}

KERNEL(wide_atomics)(const int *x, Pair *sums, float *floats, u32 *halves, int *elected) {
    int i = global_thread(), v = x[i];
    Pair seen = {0, 0};
    for (;;) {  // the low word adds, the high word counts
        Pair old = swap_if(sums, seen, {seen.low + (u64)v * v, seen.high + 1});
        if (old.low == seen.low && old.high == seen.high) break;
        seen = old;
    }
    if (i == 3)
        asm volatile("{ .reg .b128 w, o; mov.b128 w, {%1, %2}; atom.exch.b128 o, [%0], w; mov.b128 {%1, %2}, o; st.global.v2.b64 [%0+16], {%1, %2}; }"
                     ::"l"(sums + 1), "l"(5ull), "l"(6ull) : "memory");
    asm volatile("{ .reg .f32 a, b, c, d; atom.global.v4.f32.add {a, b, c, d}, [%0], {%1, %2, %1, %2}; red.global.add.v2.f32 [%0+16], {%1, %2}; }"
                 ::"l"(floats), "f"(v * 0.5f), "f"(v - 8.f) : "memory");
    u32 h = bits(__floats2half2_rn(v & 1, (v & 3) - 1)), b = bits(__floats2bfloat162_rn(v & 1, 1 - (v & 2)));
    asm volatile("red.global.v2.f16x2.add.noftz [%0], {%1, %1}; red.global.v4.bf16x2.max.noftz [%0+16], {%2, %2, %2, %2};" ::"l"(halves), "r"(h), "r"(b) : "memory");
    if ((threadIdx.x & 31) > 2) {
        u32 leader;
        asm volatile("{ .reg .pred p; elect.sync %0|p, 0xfffffff8; @p add.u32 %0, %0, 100; }" : "=r"(leader));
        elected[i] = leader;
    }
}
