"""Registers of every kind across barriers, branches and loops, whatever lanes share of them: the bits and counts of the interpreter."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

HEAD = """.version 8.4
.target sm_90
.address_size 64
.const .b32 constants[4] = {5, 7, 11, 13};
.func (.param .b32 v) powers(.param .b32 q) { .reg .b32 %a, %b, %k; .reg .pred %p; ld.param.b32 %a, [q]; mov.u32 %b, 1; mov.u32 %k, 0;
L: mad.lo.u32 %b, %b, %a, 7; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 6; @%p bra L; st.param.b32 [v], %b; ret; }
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n, .param .align 4 .b8 s[16]) {
.reg .b32 %r<30>; .reg .b64 %d<12>; .reg .f32 %f<8>; .reg .f64 %g<4>; .reg .pred %p<9>; .reg .b16 %h<4>; .reg .b128 %w;
.shared .align 16 .b8 tile[2048]; .local .align 8 .b8 mine[64];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r0, tile;
mad.lo.u32 %r4, %r3, 64, %r2; mul.wide.u32 %d3, %r4, 4; add.u64 %d4, %d1, %d3; add.u64 %d2, %d2, %d3; and.b32 %r5, %r2, 31;
mov.u32 %r6, 0; mov.u32 %r7, 1; shl.b32 %r8, %r2, 2; add.u32 %r8, %r8, %r0; ld.global.u32 %r9, [%d4]; ld.global.u32 %r10, [%d1];
mov.b32 %f1, 0f3F800000; mov.b64 %g1, 0d3FF0000000000000;
"""
TAIL = "st.global.u32 [%d2], %r7; ret; }"
LOOP = "L: {} add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r1; @%p1 bra L;"
BODIES = {
    "predicates across a barrier": LOOP.format(
        "setp.lt.u32 %p2, %r5, 7; setp.lt.u32 %p3, %r6, 3; setp.lt.u32 %p4, %r3, 1; setp.gt.u32 %p5, %r9, 500; bar.sync 0;"
        "@%p2 add.u32 %r7, %r7, 5; @%p3 mad.lo.u32 %r7, %r7, 3, 1; @!%p4 xor.b32 %r7, %r7, 99; @%p5 add.u32 %r7, %r7, %r2;"
    ),
    "numbers across a barrier": LOOP.format(
        "cvt.u16.u32 %h1, %r2; cvt.u16.u32 %h2, %r6; cvt.u64.u32 %d5, %r2; mul.lo.u64 %d6, %d5, 12; cvt.rn.f32.u32 %f2, %r9;"
        "cvt.rn.f64.u32 %g2, %r9; mul.lo.u32 %r11, %r3, 5; mul.lo.u32 %r12, %r2, 100; bar.sync 0;"
        "cvt.u32.u16 %r13, %h1; cvt.u32.u16 %r14, %h2; cvt.u32.u64 %r15, %d6; cvt.rzi.u32.f32 %r16, %f2; cvt.rzi.u32.f64 %r17, %g2;"
        "add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, %r12; add.u32 %r7, %r7, %r13; mad.lo.u32 %r7, %r7, 3, %r14; add.u32 %r7, %r7, %r15;"
        "add.u32 %r7, %r7, %r16; xor.b32 %r7, %r7, %r17;"
    ),
    "registers that become lanes in a loop": LOOP.format(
        "selp.u32 %r11, %r2, 7, %p1; add.u32 %r12, %r12, %r11; mul.lo.u32 %r13, %r6, 3; add.u32 %r13, %r13, %r2; xor.b32 %r14, %r13, %r14;"
        "add.u32 %r7, %r7, %r12; add.u32 %r7, %r7, %r14;"
    ).replace("L:", "setp.eq.u32 %p1, 0, 1; mov.u32 %r12, 5; mov.u32 %r14, 0; L:"),
    "strides that change": LOOP.format(
        "add.u32 %r11, %r11, %r2; and.b32 %r12, %r11, 31; shl.b32 %r12, %r12, 2; add.u32 %r12, %r12, %r0;"
        "ld.shared.u32 %r13, [%r12]; add.u32 %r7, %r7, %r13;"
    ).replace(
        "L:",
        "mov.u32 %r11, %r2; st.shared.u32 [%r8], %r2; st.shared.u32 [%r8+256], %r9; st.shared.u32 [%r8+512], 5; st.shared.u32 [%r8+768], 9;"
        "bar.sync 0; L:",
    ),
    "both ways to one place": LOOP.format("setp.lt.u32 %p2, %r5, 7; @%p2 bra M; M: add.u32 %r7, %r7, %r2;"),
    "a switch": LOOP.format(
        "rem.u32 %r11, %r4, 3; setp.eq.u32 %p2, %r11, 0; @%p2 bra A; setp.eq.u32 %p2, %r11, 1; @%p2 bra B; add.u32 %r7, %r7, 1; bra C;"
        "A: mul.lo.u32 %r7, %r7, 3; bra C; B: xor.b32 %r7, %r7, %r6; C: add.u32 %r7, %r7, %r5;"
    ),
    "loops apart": LOOP.format(
        "and.b32 %r11, %r2, 3; M: add.u32 %r7, %r7, %r11; mad.lo.u32 %r12, %r7, 5, %r12; setp.eq.u32 %p2, %r11, 0; sub.u32 %r11, %r11, 1;"
        "@!%p2 bra M; xor.b32 %r7, %r7, %r12;"
    ).replace("L:", "mov.u32 %r12, 0; L:"),
    "together again": LOOP.format(
        "setp.lt.u32 %p2, %r5, 7; setp.gt.u32 %p3, %r9, 300; @%p2 bra M; mul.lo.u32 %r11, %r2, 4; cvt.u64.u32 %d5, %r11; mov.u32 %r12, 8;"
        "bra N; M: shl.b32 %r11, %r2, 2; cvt.u64.u32 %d5, %r11; mov.u32 %r12, 8; N: @%p3 add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, %r12;"
        "cvt.u32.u64 %r13, %d5; mad.lo.u32 %r7, %r7, 3, %r13;"
    ),
    "a predicate that is written on one way": LOOP.format(
        "setp.lt.u32 %p2, %r5, 9; setp.eq.u32 %p4, %r6, 2; @%p2 bra M; setp.gt.u32 %p4, %r9, 400; M: @%p4 add.u32 %r7, %r7, 11;"
    ),
    "members in a register": LOOP.format(
        "shfl.sync.bfly.b32 %r12, %r7, 1, 31, %r11; vote.sync.ballot.b32 %r13, %p1, %r11; add.u32 %r7, %r12, %r13;"
    ).replace("L:", "setp.lt.u32 %p1, %r5, 9; mov.u32 %r11, -1; L:"),
    "members from memory": LOOP.format("shfl.sync.down.b32 %r12|%p2, %r7, 1, 31, %r11; selp.u32 %r7, %r12, %r5, %p2; add.u32 %r7, %r7, %r9;").replace(
        "L:", "or.b32 %r11, %r9, 0; not.b32 %r12, %r9; or.b32 %r11, %r11, %r12; L:"
    ),
    "atomics of a CTA": LOOP.format(
        "and.b32 %r11, %r2, 7; shl.b32 %r11, %r11, 2; add.u32 %r11, %r11, %r0; red.shared.add.u32 [%r11], %r2; red.shared.max.u32 [%r11+64], %r9;"
        "red.shared.xor.b32 [%r11+128], %r9; bar.sync 0; ld.shared.u32 %r12, [%r11]; ld.shared.u32 %r13, [%r11+64]; ld.shared.u32 %r14, [%r11+128];"
        "add.u32 %r7, %r7, %r12; mad.lo.u32 %r7, %r7, 3, %r13; xor.b32 %r7, %r7, %r14; bar.sync 0;"
    ).replace("L:", "st.shared.u32 [%r8], 0; bar.sync 0; L:"),
    "atomics of a warp": "setp.ge.u32 %p2, %r2, 32; @%p2 bra E; st.shared.u32 [%r8], 3; "
    + LOOP.format("and.b32 %r11, %r2, 7; shl.b32 %r11, %r11, 2; add.u32 %r11, %r11, %r0; atom.shared.exch.b32 %r12, [%r11], %r2; add.u32 %r7, %r7, %r12;")
    + "E:",
    "a guarded parameter": LOOP.format("setp.lt.u32 %p2, %r5, 9; mov.u32 %r11, 3; @%p2 ld.param.u32 %r11, [s+4]; add.u32 %r7, %r7, %r11;"),
    "128 bits": LOOP.format("mov.b64 %d5, 7; mov.b64 %d6, 9; mov.b128 %w, {%d5, %d6}; mov.b128 {%d5, %d6}, %w; cvt.u32.u64 %r11, %d6; add.u32 %r7, %r7, %r11;"),
    "vectors of parameters": LOOP.format("ld.param.v2.u32 {%r11, %r12}, [s+8]; mad.lo.u32 %r7, %r7, %r11, %r12;"),
    "a discarded half": LOOP.format("mov.b64 %d5, 0x500000003; mov.b64 {%r11, _}, %d5; add.u32 %r7, %r7, %r11;"),
    "addresses of variables": LOOP.format(
        "mov.u64 %d5, constants; ld.const.u32 %r11, [%d5+4]; mov.u64 %d6, mine; st.local.u32 [%d6+4], %r2; ld.local.u32 %r12, [mine+4]; mov.u32 %r13, mine;"
        "add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, %r12;"
    ),
    "values behind a clock": LOOP.format(
        "sub.u32 %r11, %r2, 5; add.u32 %r12, %r2, 1020; mov.u32 %r13, %clock; setp.lt.u32 %p2, %r11, 40; setp.gt.u32 %p3, %r12, 1030;"
        "or.b32 %r14, %r12, 1024; @%p2 add.u32 %r7, %r7, 3; @%p3 mul.lo.u32 %r7, %r7, 3; add.u32 %r7, %r7, %r14; xor.b32 %r7, %r7, %r11;"
    ),
    "a clock of one warp": LOOP.format(
        "setp.ge.u32 %p2, %r2, 32; @%p2 bra M; mov.u32 %r11, %clock; and.b32 %r11, %r11, 0; add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, 3;"
        "M: st.shared.u32 [%r8], %r7; ld.shared.u32 %r12, [%r8]; add.u32 %r7, %r7, %r12; mad.lo.u32 %r7, %r7, 3, %r6;"
    ),
    "a clock of some lanes": LOOP.format(
        "setp.ge.u32 %p2, %r5, 9; @%p2 bra M; mov.u32 %r11, %clock; and.b32 %r11, %r11, 0; add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, 3;"
        "M: st.local.u32 [mine], %r7; ld.local.u32 %r12, [mine]; add.u32 %r7, %r7, %r12; mad.lo.u32 %r7, %r7, 3, %r6;"
    ),
    "stores of warps that meet": "ld.param.u64 %d5, [o]; setp.eq.u32 %p3, %r3, 0; setp.lt.and.u32 %p4, %r2, 32, %p3;"
    "setp.ge.and.u32 %p5, %r2, 32, %p3; "
    + LOOP.format(
        "@%p4 st.global.u32 [%d5], %r6; add.u32 %r11, %r6, 100; @%p5 st.global.u32 [%d5], %r11; add.u32 %r11, %r6, 200;"
        "@%p4 st.global.u32 [%d5], %r11; bar.sync 0; mov.u32 %r12, 0; @%p3 ld.global.u32 %r12, [%d5]; add.u32 %r7, %r7, %r12; bar.sync 0;"
    ),
    "stores of lanes in turns": LOOP.format(
        "mul.wide.u32 %d5, %r6, 4; st.local.u32 [mine], %r7; st.shared.u32 [%r8+1024], %r7; st.shared.u8 [%r8+1025], %r6;"
        "ld.shared.u32 %r11, [%r8+1024]; ld.local.u16 %r12, [mine]; add.u32 %r7, %r11, %r12;"
    ),
    "a calculation in a function": "{ .param .b32 q; .param .b32 v; " + LOOP.format(
        "st.param.b32 [q], %r7; call.uni (v), powers, (q); ld.param.b32 %r11, [v]; add.u32 %r7, %r11, %r2;"
    ) + "}",
    "a function of some lanes": "{ .param .b32 q; .param .b32 v; setp.lt.u32 %p2, %r5, 7; " + LOOP.format(
        "@%p2 bra M; st.param.b32 [q], %r7; call (v), powers, (q); ld.param.b32 %r7, [v]; M: add.u32 %r7, %r7, %r2;"
    ) + "}",
    "numbers of 16 bits": LOOP.format(
        "mov.u16 %h1, %tid.x; mul.lo.u16 %h2, %h1, 3; add.u16 %h3, %h2, 7; cvt.u32.u16 %r11, %h3; shr.u16 %h3, %h1, 2; cvt.s32.s16 %r12, %h3;"
        "add.u32 %r7, %r7, %r11; mad.lo.u32 %r7, %r7, 3, %r12;"
    ),
    "conditions that are known": LOOP.format(
        "setp.eq.u32 %p2, 0, 0; @%p2 add.u32 %r7, %r7, 3; @!%p2 add.u32 %r7, %r7, 100; mov.u32 %r11, 12; setp.gt.u32 %p3, %r11, 20;"
        "selp.u32 %r12, %r2, %r5, %p3; add.u32 %r7, %r7, %r12; @%p3 st.shared.u32 [%r8], %r7; @%p2 st.shared.u32 [%r8+512], %r7;"
        "ld.shared.u32 %r13, [%r8+512]; add.u32 %r7, %r7, %r13;"
    ),
    "members that are known": LOOP.format(
        "mov.u32 %r11, -1; mov.u32 %r12, 5; shfl.sync.bfly.b32 %r13, %r7, %r12, 31, %r11; mov.u32 %r14, 0x1c1f;"
        "shfl.sync.down.b32 %r15|%p2, %r13, 2, %r14, %r11; selp.u32 %r16, 1, 2, %p2; mad.lo.u32 %r7, %r15, %r16, %r7;"
    ),
    "lanes here and there": LOOP.format(
        "setp.gt.u32 %p2, %r9, 500; @%p2 bra M; mov.u32 %r11, %clock; and.b32 %r11, %r11, 0; add.u32 %r7, %r7, %r11; mad.lo.u32 %r7, %r7, 3, %r2;"
        "and.b32 %r12, %r9, 2; setp.eq.u32 %p3, %r12, 0; @%p3 bra N; mov.u32 %r11, %clock; and.b32 %r11, %r11, 0; add.u32 %r7, %r7, %r11;"
        "add.u32 %r7, %r7, 3; N: add.u32 %r7, %r7, 1; M: add.u32 %r7, %r7, %r5;"
    ),
    "some of the CTAs": LOOP.format(
        "setp.eq.u32 %p2, %r3, 1; @%p2 bra M; mov.u32 %r11, %clock; and.b32 %r11, %r11, 0; add.u32 %r7, %r7, %r11; st.shared.u32 [%r8], %r7;"
        "ld.shared.u32 %r12, [%r8]; add.u32 %r7, %r12, %r2; mov.u32 %r11, %clock; M: add.u32 %r7, %r7, 1;"
    ).replace("L:", "st.shared.u32 [%r8], 7; L:") + "ld.shared.u32 %r12, [%r8]; add.u32 %r7, %r7, %r12;",
    "stores between one another": "ld.param.u64 %d5, [o]; setp.eq.u32 %p3, %r3, 0; shl.b32 %r11, %r5, 1; shr.u32 %r12, %r2, 5; add.u32 %r11, %r11, %r12;"
    "mul.wide.u32 %d6, %r11, 4; add.u64 %d5, %d5, %d6; "
    + LOOP.format("@%p3 st.global.u32 [%d5], %r7; bar.sync 0; mad.lo.u32 %r7, %r7, 3, %r2; @%p3 st.global.u32 [%d5], %r7; bar.sync 0;"),
    "a number of some lanes": LOOP.format(
        "setp.lt.u32 %p2, %r5, 7; @%p2 add.u32 %r11, %r11, 5; mul.lo.u32 %r12, %r6, 3; mov.u32 %r13, %clock; add.u32 %r7, %r7, %r11;"
        "add.u32 %r7, %r7, %r12; setp.eq.u32 %p3, %r6, 3; @!%p3 bra M; @%p2 mov.u32 %r14, %r6; M: add.u32 %r7, %r7, %r14;"
    ).replace("L:", "mov.u32 %r11, 0; mov.u32 %r14, 1; L:"),
    "numbers of two ways": LOOP.format(
        "setp.lt.u32 %p2, %r5, 9; @%p2 bra M; mov.u32 %r11, 5; mov.u32 %r12, 1; bra N; M: mov.u32 %r11, 9; mov.u32 %r12, 1;"
        "N: add.u32 %r7, %r7, %r11; mad.lo.u32 %r7, %r7, 3, %r12; add.u32 %r13, %r2, %r11; xor.b32 %r7, %r7, %r13;"
    ),
    "strides of two ways": LOOP.format(
        "setp.lt.u32 %p2, %r5, 9; @%p2 bra M; mul.lo.u32 %r11, %r2, 5; mov.u32 %r12, 1; bra N; M: mul.lo.u32 %r11, %r2, 6; mov.u32 %r12, 1;"
        "N: add.u32 %r7, %r7, %r11; mad.lo.u32 %r7, %r7, 3, %r12; xor.b32 %r7, %r7, %r6;"
    ),
    "wide atomics of a warp": "setp.ge.u32 %p2, %r2, 32; @%p2 bra E; shl.b32 %r8, %r2, 3; add.u32 %r8, %r8, %r0; st.shared.u64 [%r8], 3; "
    + LOOP.format("cvt.u64.u32 %d5, %r9; atom.shared.add.u64 %d6, [%r8], %d5; cvt.u32.u64 %r11, %d6; add.u32 %r7, %r7, %r11;")
    + "E:",
    "sums of numbers of a warp": "setp.ge.u32 %p2, %r2, 32; @%p2 bra E; mov.b32 %r11, 0f3F800000; st.shared.u32 [%r8], %r11; "
    + LOOP.format(
        "cvt.rn.f32.u32 %f2, %r9; and.b32 %r12, %r2, 3; shl.b32 %r12, %r12, 2; add.u32 %r12, %r12, %r0; atom.shared.add.f32 %f3, [%r12], %f2;"
        "cvt.rzi.u32.f32 %r13, %f3; add.u32 %r7, %r7, %r13; atom.shared.cas.b32 %r14, [%r8], %r11, %r9; add.u32 %r7, %r7, %r14;"
        "atom.shared.inc.u32 %r15, [%r8], 7; atom.shared.max.s32 %r16, [%r8], %r6; atom.shared.and.b32 %r17, [%r8], 255; add.u32 %r7, %r7, %r15;"
        "xor.b32 %r7, %r7, %r16; add.u32 %r7, %r7, %r17;"
    )
    + "E:",
    "atomics by a generic address": "cvt.u64.u32 %d5, %r8; cvta.shared.u64 %d5, %d5; st.shared.u32 [%r8], 1; "
    + LOOP.format("atom.add.u32 %r11, [%d5], %r9; add.u32 %r7, %r7, %r11;"),
    "numbers of eight bits": LOOP.format(
        "ld.global.s8 %r11, [%d4]; ld.global.u8 %r12, [%d4+1]; ld.global.s16 %r13, [%d4]; add.u32 %r14, %r9, 200; st.shared.u8 [%r8], %r14;"
        "ld.shared.s8 %r15, [%r8]; st.shared.u16 [%r8], %r14; ld.shared.s16 %r16, [%r8]; add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, %r12;"
        "mad.lo.u32 %r7, %r7, 3, %r13; add.u32 %r7, %r7, %r15; xor.b32 %r7, %r7, %r16; cvt.s64.s32 %d5, %r15; shr.u64 %d5, %d5, 40;"
        "cvt.u32.u64 %r17, %d5; add.u32 %r7, %r7, %r17; cvt.u16.u32 %h1, %r14; cvt.s32.s8 %r18, %r14; cvt.s32.s16 %r19, %h1; add.u32 %r7, %r7, %r18;"
        "add.u32 %r7, %r7, %r19;"
    ),
    "the warp and its lanes": LOOP.format(
        "mov.u32 %r11, %warpid; mov.u32 %r12, %laneid; mov.u32 %r13, %lanemask_lt; mov.u32 %r14, %nctaid.x; mov.u32 %r15, %ntid.x; popc.b32 %r13, %r13;"
        "mov.u32 %r16, %lanemask_eq; mad.lo.u32 %r7, %r7, 3, %r11; add.u32 %r7, %r7, %r12; add.u32 %r7, %r7, %r13; add.u32 %r7, %r7, %r14;"
        "add.u32 %r7, %r7, %r15; xor.b32 %r7, %r7, %r16;"
    ),
    "lanes that end": LOOP.format("add.u32 %r7, %r7, %r9; setp.gt.u32 %p2, %r7, 4000; @%p2 bra E;") + "E:",
}  # fmt: skip


REASONS = {
    "128 bits": {"128-bit registers"},
    "a guarded parameter": {"a guarded load of parameters"},
    "a calculation in a function": {"parameters of a function"},
    "a function of some lanes": {"parameters of a function"},
    "wide atomics of a warp": {"an atomic of 64 bits in shared memory"},
    "atomics by a generic address": {"an atomic at a generic address"},
}
"""Why instructions have no machine code: clocks, and these."""


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name, done):
    """Twice each, for a region may end early the first time; CTAs of two warps, the second one of which lacks lanes, too."""
    found = []
    module = warpsim.load(HEAD + BODIES[name] + TAIL)
    for engine in ("interpreter", "compiled", "compiled"):
        kept = []
        for threads in (64, 40):
            given, out = (np.arange(192, dtype=np.uint32) * 7919) % 1000, np.zeros(192, np.uint32)
            result = module["k"]((3,), (threads,), (given, out, 5, np.arange(4, dtype=np.uint32)), engine=engine)
            kept.append((out.tolist(), result.instructions, result.thread_instructions, dict(result.opcodes)))
        found.append(kept)

    assert found[1] == found[0]
    assert found[2] == found[0]
    assert done
    notes = module.image(module.device).plan("k").main.notes
    reasons = {
        reason for plans in ("native", "shadowed native") if plans in notes for reason in notes[plans].reasons.values()
    }
    assert reasons - {"a clock"} == REASONS.get(name, set())


MEMBERS = {
    "a constant": "mov.u32 %r11, 0xffff; shfl.sync.bfly.b32 %r12, %r7, 1, 31, %r11;",
    "from memory": "and.b32 %r11, %r10, 0; add.u32 %r11, %r11, 0xff00ff; shfl.sync.bfly.b32 %r12, %r7, 1, 31, %r11;",
    "of each lane": "and.b32 %r11, %r9, 0; add.u32 %r11, %r11, 0xff00ff; vote.sync.ballot.b32 %r12, %p1, %r11;",
}


@pytest.mark.parametrize("name", MEMBERS)
def test_lanes_that_are_not_named(name):
    """A lane that executes a collective without being named in its mask is found in either engine."""
    found = []
    body = "setp.eq.u32 %p1, %r5, 3;" + LOOP.format(MEMBERS[name] + "add.u32 %r7, %r12, %r2;")
    for engine in ("interpreter", "compiled"):
        given, out = np.arange(192, dtype=np.uint32), np.zeros(192, np.uint32)
        launch = (3,), (64,), (given, out, 5, np.arange(4, dtype=np.uint32))
        result = warpsim.load(HEAD + body + TAIL)["k"](*launch, engine=engine, on_finding="collect")
        found.append((out.tolist(), result.instructions, [(f.rule, f.line, f.lanes, f.count) for f in result.findings]))

    assert found[0] == found[1]
    assert found[0][2]


def test_a_register_that_nothing_has_written():
    """Without checks it is 0 in either engine."""
    body = LOOP.format("add.u32 %r7, %r7, %r20; xor.b32 %r7, %r7, %r9;")
    found = []
    for engine in ("interpreter", "compiled"):
        given, out = np.arange(192, dtype=np.uint32), np.zeros(192, np.uint32)
        launch = (3,), (64,), (given, out, 5, np.arange(4, dtype=np.uint32))
        result = warpsim.load(HEAD + body + TAIL)["k"](*launch, engine=engine, checks="none")
        found.append((out.tolist(), result.instructions))
    assert found[0] == found[1]


WIDE = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) { .reg .b64 %d<9>; .reg .b32 %t, %i; .reg .pred %q;
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %t, %tid.x; mul.wide.u32 %d3, %t, 32; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
mov.u32 %i, 0; L: ld.global.v4.u64 {%d4, %d5, %d6, %d7}, [%d1]; add.u64 %d4, %d4, %d7; st.global.v4.u64 [%d2], {%d4, %d5, %d6, %d7};
add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 3; @%q bra L; ret; }"""


def test_accesses_of_32_bytes():
    """They have no machine code; what is around them has."""
    given, out = np.arange(128, dtype=np.uint64).reshape(32, 4), np.zeros((32, 4), np.uint64)
    warpsim.load(WIDE)["k"]((1,), (32,), (given, out), engine="compiled")
    expected = given.copy()
    expected[:, 0] += given[:, 3]
    assert out.tolist() == expected.tolist()
