// SIMD in a word: the video instructions as CUDA spells them, and the scalar ones that the assembler still takes.
#include "base.cuh"

#define ASM(text) { u32 d; asm(text : "=r"(d) : "r"(a), "r"(b), "r"(c)); *out++ = d; }

KERNEL(simd_in_words)(const u32 *x, const u32 *y, const u32 *z, u32 *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    u32 a = x[i], b = y[i], c = z[i];
    out += i * 48;
    u32 r[] = {
        __vadd4(a, b), __vsub4(a, b), __vaddss4(a, b), __vaddus4(a, b), __vsubss4(a, b), __vsubus4(a, b), __vabs4(a), __vabsss4(a), __vneg4(a), __vnegss4(a),
        __vabsdiffs4(a, b), __vabsdiffu4(a, b), __vavgs4(a, b), __vavgu4(a, b), __vhaddu4(a, b), __vmaxs4(a, b), __vminu4(a, b), __vsads4(a, b), __vsadu4(a, b),
        __vcmpeq4(a, b), __vcmpges4(a, b), __vcmpltu4(a, b), __vsetgts4(a, b), __vsetleu4(a, b),
        __vadd2(a, b), __vaddss2(a, b), __vsubus2(a, b), __vabsdiffs2(a, b), __vavgs2(a, b), __vmaxu2(a, b), __vcmpgts2(a, b), __vsads2(a, b), __vnegss2(a), __vsetne2(a, b),
    };
    for (u32 v : r) *out++ = v;
    ASM("vadd.s32.s32.s32.sat %0, %1.b1, %2.h1;") ASM("vadd.u32.u32.s32.add %0, %1.h0, %2.b3, %3;") ASM("vsub.s32.u32.u32.max %0, %1, %2.b2, %3;")
    ASM("vabsdiff.u32.s32.s32.add %0, %1.h1, %2.h0, %3;") ASM("vmin.s32.s32.s32 %0.b2, %1.b0, %2.b3, %3;") ASM("vmax.u32.u32.u32 %0.h1, %1.h1, %2.h0, %3;")
    ASM("vshl.u32.u32.u32.clamp %0, %1, %2.b0;") ASM("vshr.s32.u32.u32.wrap.add %0, %1, %2.b1, %3;") ASM("vmad.s32.s32.s32.sat %0, %1.h0, %2.h1, %3;")
    ASM("vmad.u32.u32.u32.shr7 %0, %1.b2, %2.b3, %3;") ASM("vset.s32.u32.lt %0, %1.b1, %2.b0;") ASM("vset.u32.u32.ge.add %0, %1.h0, %2.h1, %3;")
}
