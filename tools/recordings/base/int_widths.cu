// Integer arithmetic in every width: high and wide products, 24 bits, division, averages, saturation, absolute differences.
#include "base.cuh"

#define TWO(name, type, text) __device__ type name(type a, type b) { type d; asm(text " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
TWO(add_sat, int, "add.sat.s32")
TWO(sub_sat, int, "sub.sat.s32")
__device__ int mad_hi_sat(int a, int b, int c) { int d; asm("mad.hi.sat.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
__device__ int mad24_hi(int a, int b, int c) { int d; asm("mad24.hi.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
__device__ u32 mul24_hi(u32 a, u32 b) { u32 d; asm("mul24.hi.u32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
__device__ u32 mad_wide16(u16 a, u16 b, u32 c) { u32 d; asm("mad.wide.u16 %0, %1, %2, %3;" : "=r"(d) : "h"(a), "h"(b), "r"(c)); return d; }

KERNEL(int_widths)(const u32 *x, const u32 *y, const u64 *wx, const u64 *wy, u32 *narrow, u64 *wide, int n) {
    int i = global_thread();
    if (i >= n) return;
    u32 a = x[i], b = y[i];
    int sa = a, sb = b;
    u32 r[20] = {
        a / b, a % b, (u32)(sa / (sb | 1)), (u32)(sa % (sb | 1)), __umulhi(a, b), (u32)__mulhi(sa, sb), (u32)__mul24(sa, sb), __umul24(a, b),
        __uhadd(a, b), (u32)__rhadd(sa, sb), __usad(a, b, 7), (u32)__sad(sa, sb, a), (u32)add_sat(sa, sb), (u32)sub_sat(sa, sb),
        (u32)mad_hi_sat(sa, sb, sa), (u32)mad24_hi(sa, sb, sb), mul24_hi(a, b), mad_wide16(a, b >> 16, a),
        (u32)(short)(a * b) * (u32)(u16)(a >> 3), (u32)((u8)a / (u8)(b | 1)) << 16 | (u32)((signed char)a % (signed char)(b | 1) & 0xffff),
    };
    for (int k = 0; k < 20; k++) narrow[i * 20 + k] = r[k];
    u64 p = wx[i], q = wy[i];
    s64 sp = p, sq = q;
    u64 w[12] = {
        p / q, p % q, (u64)(sp / (sq | 1)), (u64)(sp % (sq | 1)), __umul64hi(p, q), (u64)__mul64hi(sp, sq), (u64)a * b + p, (u64)((s64)sa * sb + sp),
        p / a, (u64)(sp % (sb | 1)), (u64)llabs(sp) + llmin(sp, sq) + ullmax(p, q), (u64)(sp >> (a & 63)) ^ p << (b & 63),
    };
    for (int k = 0; k < 12; k++) wide[i * 12 + k] = w[k];
}
