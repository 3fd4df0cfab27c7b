// Extended precision: 256-bit products modulo 2^255 - 19 over carry chains of 32 bits, and 128-bit products and sums.
#include "base.cuh"

struct Big { u32 w[8]; };

__device__ Big multiply(const Big &a, const Big &b) {
    u32 r[16] = {};
    for (int i = 0; i < 8; i++) {
        u32 c = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            asm("{ .reg .u32 lo, hi; mul.lo.u32 lo, %2, %3; mul.hi.u32 hi, %2, %3;\n"
                "add.cc.u32 lo, lo, %1; addc.u32 hi, hi, 0;\n"
                "add.cc.u32 %0, %0, lo; addc.u32 %1, hi, 0; }" : "+r"(r[i + j]), "+r"(c) : "r"(a.w[i]), "r"(b.w[j]));
        }
        r[i + 8] = c;
    }
    // 2^256 = 38: fold the high half with one chain of mad.cc, then what is left over.
    u32 top;
    asm("mad.lo.cc.u32 %0, %9, 38, %0; madc.lo.cc.u32 %1, %10, 38, %1; madc.lo.cc.u32 %2, %11, 38, %2; madc.lo.cc.u32 %3, %12, 38, %3;\n"
        "madc.lo.cc.u32 %4, %13, 38, %4; madc.lo.cc.u32 %5, %14, 38, %5; madc.lo.cc.u32 %6, %15, 38, %6; madc.lo.cc.u32 %7, %16, 38, %7;\n"
        "addc.u32 %8, 0, 0;"
        : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]), "+r"(r[7]), "=r"(top)
        : "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), "r"(r[15]));
    asm("mad.hi.cc.u32 %1, %9, 38, %1; madc.hi.cc.u32 %2, %10, 38, %2; madc.hi.cc.u32 %3, %11, 38, %3; madc.hi.cc.u32 %4, %12, 38, %4;\n"
        "madc.hi.cc.u32 %5, %13, 38, %5; madc.hi.cc.u32 %6, %14, 38, %6; madc.hi.cc.u32 %7, %15, 38, %7; madc.hi.u32 %8, %16, 38, %8;"
        : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]), "+r"(r[7]), "+r"(top)
        : "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), "r"(r[15]));
    u64 low = (u64)r[1] << 32 | r[0], carry;
    asm("mad.lo.cc.u64 %0, %2, 38, %0; addc.u64 %1, 0, 0;" : "+l"(low), "=l"(carry) : "l"((u64)top));
    Big out = {(u32)low, (u32)(low >> 32)};
    asm("add.cc.u32 %0, %6, %12; addc.cc.u32 %1, %7, 0; addc.cc.u32 %2, %8, 0; addc.cc.u32 %3, %9, 0; addc.cc.u32 %4, %10, 0; addc.u32 %5, %11, 0;"
        : "=r"(out.w[2]), "=r"(out.w[3]), "=r"(out.w[4]), "=r"(out.w[5]), "=r"(out.w[6]), "=r"(out.w[7])
        : "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]), "r"((u32)carry));
    return out;
}

__device__ u32 subtract(Big &a, const Big &b) {
    u32 borrow;
    asm("sub.cc.u32 %0, %0, %9; subc.cc.u32 %1, %1, %10; subc.cc.u32 %2, %2, %11; subc.cc.u32 %3, %3, %12;\n"
        "subc.cc.u32 %4, %4, %13; subc.cc.u32 %5, %5, %14; subc.cc.u32 %6, %6, %15; subc.cc.u32 %7, %7, %16; subc.u32 %8, 0, 0;"
        : "+r"(a.w[0]), "+r"(a.w[1]), "+r"(a.w[2]), "+r"(a.w[3]), "+r"(a.w[4]), "+r"(a.w[5]), "+r"(a.w[6]), "+r"(a.w[7]), "=r"(borrow)
        : "r"(b.w[0]), "r"(b.w[1]), "r"(b.w[2]), "r"(b.w[3]), "r"(b.w[4]), "r"(b.w[5]), "r"(b.w[6]), "r"(b.w[7]));
    return borrow;
}

KERNEL(bignum_mod)(const Big *a, const Big *b, Big *power, u32 *borrows, ulonglong2 *wide, int n) {
    int i = global_thread();
    if (i >= n) return;
    Big x = a[i], y = b[i];
    for (int k = 0; k < 4; k++) x = multiply(multiply(x, x), y);
    power[i] = x;
    borrows[i] = subtract(x, y);
    unsigned __int128 p = (unsigned __int128)((u64)x.w[1] << 32 | x.w[0]) * ((u64)y.w[3] << 32 | y.w[2]);
    __int128 q = (__int128)(s64)((u64)x.w[3] << 32 | x.w[2]) * (s64)((u64)y.w[5] << 32 | y.w[4]);
    unsigned __int128 s = p + (unsigned __int128)q - (p >> 37) + ((unsigned __int128)q << 71);
    s += (s % 1000000007u) * (p < (unsigned __int128)q);
    wide[i] = {(u64)s, (u64)(s >> 64)};
}
