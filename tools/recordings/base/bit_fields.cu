// Bits: fields, masks, reversal, counting, the n-th set bit, byte permutation in all modes, three-input logic, funnel shifts.
#include "base.cuh"

#define PRMT(mode) { u32 d; asm("prmt.b32." mode " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); *out++ = d; }
#define LOP(table) { u32 d; asm("lop3.b32 %0, %1, %2, %3, " table ";" : "=r"(d) : "r"(a), "r"(b), "r"(c)); *out++ = d; }
#define ASM3(text) { u32 d; asm(text " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); *out++ = d; }
#define ASM2(text) { u32 d; asm(text " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); *out++ = d; }
#define ASM1(text) { u32 d; asm(text " %0, %1;" : "=r"(d) : "r"(a)); *out++ = d; }

KERNEL(bit_fields)(const u32 *x, const u32 *y, const u32 *z, const u64 *wide, u32 *out, u64 *out64, int n) {
    int i = global_thread();
    if (i >= n) return;
    u32 a = x[i], b = y[i], c = z[i];
    out += i * 40;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(*out++) : "r"(a), "r"(b), "r"(c));
    ASM3("bfe.s32") ASM3("fns.b32") ASM3("shf.l.wrap.b32") ASM3("shf.r.wrap.b32") ASM3("shf.l.clamp.b32") ASM3("shf.r.clamp.b32") ASM3("prmt.b32")
    { u32 d; asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "r"(c >> 8)); *out++ = d; }
    PRMT("f4e") PRMT("b4e") PRMT("rc8") PRMT("ecl") PRMT("ecr") PRMT("rc16")
    LOP("0x80") LOP("0x96") LOP("0xca") LOP("0xe8") LOP("0x1d") LOP("0x6a")
    ASM2("szext.clamp.s32") ASM2("szext.wrap.s32") ASM2("szext.clamp.u32") ASM2("szext.wrap.u32") ASM2("bmsk.clamp.b32") ASM2("bmsk.wrap.b32")
    ASM2("shl.b32") ASM2("shr.u32") ASM2("shr.s32")
    ASM1("bfind.s32") ASM1("bfind.u32") ASM1("bfind.shiftamt.s32") ASM1("bfind.shiftamt.u32") ASM1("brev.b32") ASM1("cnot.b32")
    *out++ = __popc(a) | __clz(a) << 8 | __ffs(a) << 16;
    *out++ = __byte_perm(a, b, 0x5140) ^ (a ? a & -a : 0);
    u64 v = wide[i], d;
    out64 += i * 10;
    *out64++ = __brevll(v);
    *out64++ = __popcll(v) | (u64)__clzll(v) << 8 | (u64)__ffsll(v) << 16;
    asm("bfe.u64 %0, %1, %2, %3;" : "=l"(d) : "l"(v), "r"(b), "r"(c)); *out64++ = d;
    asm("bfe.s64 %0, %1, %2, %3;" : "=l"(d) : "l"(v), "r"(b), "r"(c)); *out64++ = d;
    asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(d) : "l"(v), "l"(~v * 3), "r"(c), "r"(b)); *out64++ = d;
    asm("bfind.u64 %0, %1;" : "=r"(a) : "l"(v)); *out64++ = a;
    asm("shr.s64 %0, %1, %2;" : "=l"(d) : "l"(v), "r"(c)); *out64++ = d;
    asm("shl.b64 %0, %1, %2;" : "=l"(d) : "l"(v), "r"(c)); *out64++ = d;
    asm("not.b64 %0, %1; cnot.b64 %0, %0;" : "=l"(d) : "l"(v)); *out64++ = d;
    *out64++ = v & (v - 1) ^ v >> 1;
}
