"""Small programs with a race each, beside the correct one: what stands between the preamble of `docs.tools.faulty` and ``ret``.

A line that begins with ``-`` is in the correct program alone, one with ``+`` in the racy one alone. The name ends in how it is
launched: block, then grid, then cluster."""

from __future__ import annotations

from typing import NamedTuple

FILL = "st.shared.u32 [%own], %r0;"
BEFORE = "st.shared.u32 [%own], %t;"
LOADED = "ld.global.u32 %r0, [%at];"
OTHER = "xor.b32 %r1, %own, 128; "  # the same lane of the warp beside
OUT = "st.global.u32 [%bt], %r2;"
BARRIER = """\
@%first mbarrier.init.shared.b64 [%bar], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
WAIT = """\
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra WAIT;
"""
TILES = """\
.reg .b64 %tile, %desc, %more; mov.b32 %r15, 0x3c003c00; mad.lo.u32 %r14, %t, 16, %s;
st.shared.v4.b32 [%r14], {%r15, %r15, %r15, %r15}; st.shared.v4.b32 [%r14+2048], {%r15, %r15, %r15, %r15};
mov.f32 %f1, 0f3f800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; mov.pred %p2, 1; mov.b32 %r13, 0;
mov.b32 %r4, %r15; mov.b32 %r5, %r15; mov.b32 %r6, %r15; mov.b32 %r7, %r15;
fence.proxy.async; bar.sync 0; shr.u32 %r14, %s, 4; cvt.u64.u32 %tile, %r14; or.b64 %desc, %tile, 0x1000080000;
add.u64 %more, %desc, 128; mad.lo.u32 %r14, %t, 16, %s;
wgmma.fence.sync.aligned;
"""
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %desc, %more, %p2, 1, 1, 0, 0;\n"
FROM_REGISTERS = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, %more, %p2, 1, 1, 0;\n"
COMMIT = "wgmma.commit_group.sync.aligned;\n"
DONE = "wgmma.wait_group.sync.aligned 0;\n"
SUMS = "st.global.f32 [%bt], %f1;"
COPY = "cp.async.ca.shared.global [%own], [%at], 4;\n"
BULK = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "

PROGRAMS = {
    # ---- barriers of a CTA ------------------------------------------------------------------
    "no barrier before a neighbour's word is read: 64": f"{LOADED}{FILL}\n- bar.sync 0;\n{OTHER} ld.shared.u32 %r2, [%r1];{OUT}",
    "no barrier before a neighbour's word is read: 256": f"{LOADED}{FILL}\n- bar.sync 0;\n{OTHER} ld.shared.u32 %r2, [%r1];{OUT}",
    "no barrier before a neighbour's word is overwritten: 64": (
        f"{LOADED}{FILL}\nbar.sync 0;\n{OTHER} ld.shared.u32 %r2, [%r1];\n- bar.sync 0;\nst.shared.u32 [%own], %t;{OUT}"
    ),
    "one word for all is read too early: 128": (
        "mov.u32 %r0, 0; @%first st.shared.u32 [%s], %r0; bar.sync 0;\nmov.u32 %r0, 77; @%first st.shared.u32 [%s], %r0;\n"
        f"- bar.sync 0;\nld.shared.u32 %r2, [%s];{OUT}"
    ),
    "a reduction without one of its barriers: 128": (
        f"{LOADED}{FILL}\nbar.sync 0;\n"
        "setp.lt.u32 %p1, %t, 64; @%p1 ld.shared.u32 %r1, [%own+256]; @%p1 add.u32 %r0, %r0, %r1; @%p1 st.shared.u32 [%own], %r0;\n"
        "- bar.sync 0;\n"
        "setp.lt.u32 %p1, %t, 32; @%p1 ld.shared.u32 %r1, [%own+128]; @%p1 add.u32 %r2, %r0, %r1;\n@%p1 st.global.u32 [%bt], %r2;"
    ),
    "a scan without its second barrier: 96": (
        f"{LOADED}{FILL}\nmov.u32 %r4, 1;\n"
        "AGAIN: bar.sync 0; sub.u32 %r5, %t, %r4; mad.lo.u32 %r5, %r5, 4, %s; setp.ge.u32 %p1, %t, %r4; mov.u32 %r6, 0;\n"
        "@%p1 ld.shared.u32 %r6, [%r5];\n- bar.sync 0;\n"
        "add.u32 %r0, %r0, %r6; st.shared.u32 [%own], %r0; shl.b32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 96; @%p1 bra AGAIN;\n"
        "st.global.u32 [%bt], %r0;"
    ),
    "two groups at barriers of their own: 64": (
        f"{LOADED}{FILL}\nadd.u32 %r3, %warp, 1;\n- bar.sync 1, 64;\n+ bar.sync %r3, 32;\n{OTHER} ld.shared.u32 %r2, [%r1];{OUT}"
    ),
    "consumers that do not wait for producers: 64": (
        f"setp.eq.u32 %p1, %warp, 0; mov.u32 %r2, 5;\n@%p1 {LOADED}@%p1 st.shared.u32 [%own+128], %r0;\n@%p1 bar.arrive 1, 64;\n"
        f"- @!%p1 bar.sync 1, 64;\n+ @!%p1 bar.arrive 1, 64;\n@!%p1 ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "producers that arrive before they store: 64": (
        f"setp.eq.u32 %p1, %warp, 0; mov.u32 %r2, 5;\n@%p1 {LOADED}\n+ @%p1 bar.arrive 1, 64;\n@%p1 st.shared.u32 [%own+128], %r0;\n"
        f"- @%p1 bar.arrive 1, 64;\n@!%p1 bar.sync 1, 64;\n@!%p1 ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "one buffer where two rounds need two: 64": (
        f"{LOADED}mov.u32 %r4, 0; mov.u32 %r2, 0; mov.u32 %r5, %own;\nAGAIN: st.shared.u32 [%r5], %r0; bar.sync 0;\n"
        "xor.b32 %r1, %r5, 128; ld.shared.u32 %r6, [%r1]; mad.lo.u32 %r2, %r2, 3, %r6; add.u32 %r0, %r0, 1;\n- xor.b32 %r5, %r5, 1024;\n"
        f"add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 4; @%p1 bra AGAIN;{OUT}"
    ),
    "a histogram that is cleared too late: 64": (
        "mov.u32 %r0, 0; st.shared.u32 [%own], %r0;\n- bar.sync 0;\nsub.u32 %r1, 63, %t; mad.lo.u32 %r1, %r1, 4, %s;\n"
        f"atom.shared.add.u32 %r3, [%r1], 1; bar.sync 0; ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "a histogram that is read too early: 64": (
        "mov.u32 %r0, 0; st.shared.u32 [%own], %r0; bar.sync 0; sub.u32 %r1, 63, %t; mad.lo.u32 %r1, %r1, 4, %s;\n"
        f"red.shared.add.u32 [%r1], 1;\n- bar.sync 0;\nld.shared.u32 %r2, [%own];{OUT}"
    ),
    "a tile that is transposed too early: 64": (
        f"{LOADED}{FILL}\n- bar.sync 0;\nand.b32 %r1, %t, 7; shr.u32 %r3, %t, 3; mad.lo.u32 %r1, %r1, 8, %r3; mad.lo.u32 %r1, %r1, 4, %s;\n"
        f"ld.shared.u32 %r2, [%r1];{OUT}"
    ),
    "lanes that exchange words without bar.warp.sync: 32": (
        f"{LOADED}{FILL}\n- bar.warp.sync -1;\nxor.b32 %r1, %own, 4; ld.shared.u32 %r2, [%r1];{OUT}"
    ),
    "lanes that overwrite words without bar.warp.sync: 32": (
        f"{LOADED}{FILL}\nbar.warp.sync -1;\nxor.b32 %r1, %own, 4; ld.shared.u32 %r2, [%r1];\n- bar.warp.sync -1;\nst.shared.u32 [%own], %t;{OUT}"
    ),
    "a warp of two halves that does not meet: 32": (
        f"mov.u32 %r0, 1; {FILL} bar.warp.sync -1;\n@%low bra LOW;\nst.shared.u32 [%own], %lane;\nLOW:\n- bar.warp.sync -1;\n"
        f"xor.b32 %r1, %own, 64; ld.shared.u32 %r2, [%r1];{OUT}"
    ),
    # ---- atomics that are none, and locks ---------------------------------------------------
    "a counter of a CTA without an atomic: 128": (
        "mov.u32 %r0, 0; @%first st.shared.u32 [%s], %r0; bar.sync 0;\n- red.shared.add.u32 [%s], 1;\n"
        "+ ld.shared.u32 %r1, [%s]; add.u32 %r1, %r1, 1; st.shared.u32 [%s], %r1;\n"
        "bar.sync 0; ld.shared.u32 %r2, [%s]; st.global.u32 [%bt], %r2;"
    ),
    "a counter of the grid without an atomic: 1, 16": (
        "- red.global.add.u32 [%b], 1;\n+ ld.global.u32 %r1, [%b]; add.u32 %r1, %r1, 1; st.global.u32 [%b], %r1;"
    ),
    "a maximum of the grid without an atomic: 32, 8": (
        "mad.lo.u32 %r0, %cta, 37, %t; and.b32 %r0, %r0, 127;\n- red.global.max.u32 [%b], %r0;\n"
        "+ ld.global.u32 %r1, [%b]; max.u32 %r1, %r1, %r0; st.global.u32 [%b], %r1;"
    ),
    "a counter that is read and then raised: 1, 8": (
        "- atom.global.add.u32 %r1, [%b], 3; setp.ne.u32 %p1, %r1, %r1;\n"
        "+ ld.global.u32 %r1, [%b]; add.u32 %r2, %r1, 3; st.global.u32 [%b], %r2;"
    ),
    "words of a list without an atomic: 1, 8": (
        "mul.wide.u32 %x1, %cta, 4; add.u64 %x1, %b, %x1;\n- st.global.u32 [%x1+64], %cta;\n"
        "+ ld.global.u32 %r1, [%b]; add.u32 %r2, %r1, 1; st.global.u32 [%b], %r2; mul.wide.u32 %x2, %r1, 4; add.u64 %x2, %b, %x2;"
        " st.global.u32 [%x2+64], %cta;"
    ),
    "a section without its lock: 1, 6": (
        "add.u64 %x1, %b, 64;\n- LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%b], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;\n"
        "ld.global.u32 %r2, [%x1]; add.u32 %r2, %r2, 5; st.global.u32 [%x1], %r2;\n- st.release.gpu.global.u32 [%b], 0;"
    ),
    "a lock that is given back too early: 1, 6": (
        "add.u64 %x1, %b, 64;\nLOCK: atom.acquire.gpu.global.cas.b32 %r1, [%b], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;\n"
        "ld.global.u32 %r2, [%x1];\n+ st.release.gpu.global.u32 [%b], 0;\nadd.u32 %r2, %r2, 5; st.global.u32 [%x1], %r2;\n"
        "- st.release.gpu.global.u32 [%b], 0;"
    ),
    "a lock without acquire and release: 1, 6": (
        "add.u64 %x1, %b, 64;\n- LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%b], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;\n"
        "+ LOCK: atom.relaxed.gpu.global.cas.b32 %r1, [%b], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;\n"
        "ld.global.u32 %r2, [%x1]; add.u32 %r2, %r2, 5; st.global.u32 [%x1], %r2;\n- st.release.gpu.global.u32 [%b], 0;\n"
        "+ st.relaxed.gpu.global.u32 [%b], 0;"
    ),
    # ---- flags, and CTAs that read each other ------------------------------------------------
    "a flag without release: 1, 2": (
        "setp.eq.u32 %p1, %cta, 0; @!%p1 bra READ;\nmov.u32 %r0, 9; st.global.u32 [%b+64], %r0;\n- st.release.gpu.global.u32 [%b], 1;\n"
        "+ st.relaxed.gpu.global.u32 [%b], 1;\nbra D;\nREAD: ld.acquire.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;\n"
        "ld.global.u32 %r2, [%b+64]; st.global.u32 [%b+128], %r2;\nD:"
    ),
    "a flag without acquire: 1, 2": (
        "setp.eq.u32 %p1, %cta, 0; @!%p1 bra READ;\nmov.u32 %r0, 9; st.global.u32 [%b+64], %r0; st.release.gpu.global.u32 [%b], 1; bra D;\n"
        "- READ: ld.acquire.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;\n"
        "+ READ: ld.relaxed.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;\n"
        "ld.global.u32 %r2, [%b+64]; st.global.u32 [%b+128], %r2;\nD:"
    ),
    "a flag that is set before the data: 1, 2": (
        "setp.eq.u32 %p1, %cta, 0; @!%p1 bra READ;\nmov.u32 %r0, 9;\n+ st.release.gpu.global.u32 [%b], 1;\nst.global.u32 [%b+64], %r0;\n"
        "- st.release.gpu.global.u32 [%b], 1;\nbra D;\nREAD: ld.acquire.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;\n"
        "ld.global.u32 %r2, [%b+64]; st.global.u32 [%b+128], %r2;\nD:"
    ),
    "a flag that one thread sets for a CTA: 64, 2": (
        "add.u64 %x1, %at, 0; setp.eq.u32 %p1, %cta, 0; @!%p1 bra READ;\nmov.u32 %r0, 9; st.global.u32 [%bt+64], %r0;\n- bar.sync 0;\n"
        "@%first fence.acq_rel.gpu;\n@%first st.release.gpu.global.u32 [%b], 1; bra D;\n"
        "READ: ld.acquire.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;\n"
        "ld.global.u32 %r2, [%bt+64]; st.global.u32 [%bt+1024], %r2;\nD:"
    ),
    "a flag that is looked at once: 1, 2": (
        "setp.eq.u32 %p1, %cta, 0; @!%p1 bra READ;\nmov.u32 %r0, 9; st.global.u32 [%b+64], %r0; st.release.gpu.global.u32 [%b], 1; bra D;\n"
        "READ: ld.acquire.gpu.global.u32 %r1, [%b]; setp.eq.u32 %p2, %r1, 0;\n- @%p2 bra READ;\n"
        "ld.global.u32 %r2, [%b+64]; st.global.u32 [%b+128], %r2;\nD:"
    ),
    "words of the CTA beside, read without waiting: 32, 4": (
        "mad.lo.u32 %r1, %cta, 128, 0; cvt.u64.u32 %x1, %r1; add.u64 %x2, %bt, %x1; st.global.u32 [%x2], %cta;\n"
        "+ xor.b32 %r1, %r1, 128;\ncvt.u64.u32 %x1, %r1; add.u64 %x3, %bt, %x1; ld.global.u32 %r2, [%x3]; st.global.u32 [%x2+1024], %r2;"
    ),
    "CTAs that store different values in one word: 1, 4": (
        "mul.wide.u32 %x1, %cta, 4; add.u64 %x1, %b, %x1;\n- st.global.u32 [%x1], %cta;\n+ st.global.u32 [%b], %cta;"
    ),
    "CTAs that store the same value in one word: 1, 4": (
        "mul.wide.u32 %x1, %cta, 4; add.u64 %x1, %b, %x1; mov.u32 %r0, 7;\n- st.global.u32 [%x1], %r0;\n+ st.global.u32 [%b], %r0;"
    ),
    "the last CTA sums before all have stored: 64, 3": (
        "mad.lo.u32 %r0, %cta, 64, %t; mul.wide.u32 %x1, %r0, 4; add.u64 %x1, %b, %x1; add.u32 %r0, %r0, 1; st.global.u32 [%x1+64], %r0;\n"
        "- bar.sync 0;\n@%first fence.acq_rel.gpu;\n@%first atom.acq_rel.gpu.global.add.u32 %r1, [%b], 1;\n@%first st.shared.u32 [%s], %r1; bar.sync 0;\n"
        "ld.shared.u32 %r1, [%s]; setp.ne.u32 %p1, %r1, 2; @%p1 bra D; fence.acq_rel.gpu;\n"
        "ld.global.u32 %r2, [%bt+64]; ld.global.u32 %r3, [%bt+320]; ld.global.u32 %r4, [%bt+576]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;\n"
        "st.global.u32 [%bt+2048], %r2;\nD:"
    ),
    # ---- cp.async ---------------------------------------------------------------------------
    "cp.async without a wait: 64": f"{BEFORE}\n{COPY}cp.async.commit_group;\n- cp.async.wait_group 0;\nld.shared.u32 %r2, [%own];{OUT}",
    "cp.async with one group too few: 64": (
        f"{BEFORE}\ncp.async.ca.shared.global [%own+1024], [%bt], 4; cp.async.commit_group;\n{COPY}cp.async.commit_group;\n"
        f"- cp.async.wait_group 0;\n+ cp.async.wait_group 1;\nld.shared.u32 %r2, [%own];{OUT}"
    ),
    "cp.async that is never committed: 64": (
        f"{BEFORE}\n{COPY}- cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r2, [%own];{OUT}"
    ),
    "cp.async waited for by its thread alone: 64": (
        f"{COPY}cp.async.commit_group; cp.async.wait_group 0;\n- bar.sync 0;\n{OTHER} ld.shared.u32 %r2, [%r1];{OUT}"
    ),
    "cp.async into a stage that others read: 64": (
        f"{COPY}cp.async.commit_group; cp.async.wait_group 0;\nbar.sync 0;\n{OTHER} ld.shared.u32 %r2, [%r1];\n- bar.sync 0;\n"
        f"cp.async.ca.shared.global [%own], [%at+1024], 4; cp.async.wait_all;\n{OUT}"
    ),
    "cp.async whose source is overwritten: 64": (
        f"{COPY}cp.async.commit_group;\n- cp.async.wait_group 0;\nst.global.u32 [%at], %t; cp.async.wait_all;\nld.shared.u32 %r2, [%own];{OUT}"
    ),
    "two cp.async into one place: 64": (
        f"{COPY}\n- cp.async.wait_all;\ncp.async.ca.shared.global [%own], [%at+1024], 4; cp.async.wait_all;\nld.shared.u32 %r2, [%own];{OUT}"
    ),
    # ---- bulk copies, tensors, mbarriers ------------------------------------------------------
    "a bulk copy without a wait: 64": (
        f"{BEFORE} fence.proxy.async; {BARRIER}@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;\n{BULK}[%s], [%a], 256, [%bar];\n"
        "@!%first bra OTHERS;\nOTHERS:\n- WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0; @!%p1 bra WAIT;\n"
        f"ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "a bulk copy and the other parity: 64": (
        f"{BEFORE} fence.proxy.async; {BARRIER}@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;\n{BULK}[%s], [%a], 256, [%bar];\n"
        "- WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0; @!%p1 bra WAIT;\n"
        "+ WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 1; @!%p1 bra WAIT;\n"
        f"ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "bulk copies of which one is expected: 64": (
        f"{BEFORE} fence.proxy.async; {BARRIER}- @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;\n"
        f"+ @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128;\n{BULK}[%s], [%a], 128, [%bar];\nadd.u64 %x1, %a, 128; add.u32 %r3, %s, 128;\n"
        f"{BULK}[%r3], [%x1], 128, [%bar];\n{WAIT}ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "two bulk copies into one place: 64": (
        f"{BARRIER}@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 512;\n{BULK}[%s], [%a], 256, [%bar];\nadd.u64 %x1, %a, 1024;\n"
        f"- add.u32 %s, %s, 1024;\n{BULK}[%s], [%x1], 256, [%bar];\n{WAIT}ld.shared.u32 %r2, [%own];{OUT}"
    ),
    "a bulk store whose source is overwritten: 64": (
        f"{LOADED}{FILL}fence.proxy.async; bar.sync 0;\n@%first cp.async.bulk.global.shared::cta.bulk_group [%b], [%s], 256;\n@%first cp.async.bulk.commit_group;\n"
        "- @%first cp.async.bulk.wait_group.read 0;\nbar.sync 0; st.shared.u32 [%own], %t;"
    ),
    "a bulk store that is read too early: 64": (
        f"{LOADED}{FILL}fence.proxy.async; bar.sync 0;\n@%first cp.async.bulk.global.shared::cta.bulk_group [%b], [%s], 256;\n@%first cp.async.bulk.commit_group;\n"
        "- @%first cp.async.bulk.wait_group 0;\nbar.sync 0; ld.global.u32 %r2, [%bt]; st.global.u32 [%bt+1024], %r2;"
    ),
    "a bulk store without a proxy fence: 64": (
        f"{LOADED}{FILL}\n- fence.proxy.async;\nbar.sync 0;\n@%first cp.async.bulk.global.shared::cta.bulk_group [%b], [%s], 256;\n@%first cp.async.bulk.commit_group;\n"
        "@%first cp.async.bulk.wait_group 0;"
    ),
    "a tensor that is read before it has come: 64": (
        f"mov.u32 %r3, 0; {BEFORE} fence.proxy.async; {BARRIER}@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 2048;\n"
        "mov.b64 %x1, map; cvta.param.u64 %x1, %x1;\n"
        "@%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%x1, {%r3, %r3}], [%bar];\n"
        "- WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0; @!%p1 bra WAIT;\n"
        f"ld.shared.u32 %r2, [%own+128]; st.global.u32 [%at], %r2;"
    ),
    # ---- clusters ---------------------------------------------------------------------------
    "a peer's word, read without a barrier: 32, 2, 2": (
        "mov.u32 %r0, 5; st.shared.u32 [%own], %r0; barrier.cluster.arrive; barrier.cluster.wait; add.u32 %r0, %cta, 100; st.shared.u32 [%own], %r0;\n"
        "xor.b32 %r1, %cta, 1; mapa.shared::cluster.u32 %r3, %own, %r1;\n- barrier.cluster.arrive; barrier.cluster.wait;\n"
        "ld.shared::cluster.u32 %r2, [%r3]; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "mul.wide.u32 %x1, %cta, 128; add.u64 %x1, %bt, %x1; st.global.u32 [%x1], %r2;"
    ),
    "a peer's word, stored without a barrier: 32, 2, 2": (
        "mov.u32 %r0, 5; st.shared.u32 [%own], %r0; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "xor.b32 %r1, %cta, 1; mapa.shared::cluster.u32 %r3, %own, %r1; st.shared::cluster.u32 [%r3], %cta;\n"
        "- barrier.cluster.arrive; barrier.cluster.wait;\nld.shared.u32 %r2, [%own];\n+ barrier.cluster.arrive; barrier.cluster.wait;\n"
        "mul.wide.u32 %x1, %cta, 128; add.u64 %x1, %bt, %x1; st.global.u32 [%x1], %r2;"
    ),
    # ---- wgmma ------------------------------------------------------------------------------
    "sums that are read without a wait: 128": f"{TILES}{MMA}{COMMIT}- {DONE}{SUMS}\n+ {DONE}",
    "sums with one group too few: 128": (
        f"{TILES}{FROM_REGISTERS}{COMMIT}{MMA}{COMMIT}- {DONE}+ wgmma.wait_group.sync.aligned 1;\n{SUMS}\n+ {DONE}"
    ),
    "a tile that is overwritten before the product: 128": (
        f"{TILES}{MMA}{COMMIT}- {DONE}st.shared.v4.b32 [%r14+2048], {{%r13, %r13, %r13, %r13}};\n{DONE}{SUMS}"
    ),
    "a row that is overwritten before the product: 128": (
        f"{TILES}{MMA}{COMMIT}- {DONE}st.shared.b32 [%r14], %r13;\n{DONE}{SUMS}"
    ),
    "registers of A that change before the product: 128": (
        f"{TILES}{FROM_REGISTERS}{COMMIT}- {DONE}mov.b32 %r4, 0;\n{DONE}{SUMS}"
    ),
    "a tile without a proxy fence: 128": (
        f"{TILES}add.u32 %r12, %r15, %r13; st.shared.v4.b32 [%r14+2048], {{%r12, %r13, %r13, %r13}};\n- fence.proxy.async;\nbar.sync 0;\n{MMA}{COMMIT}{DONE}{SUMS}"
    ),
}  # fmt: skip


class Racy(NamedTuple):
    """A program, correct and racy, and its launch."""

    name: str
    good: str
    bad: str
    block: int
    grid: int
    cluster: int | None


def racy(name: str) -> Racy:
    """The two programs of a name."""
    title, _, numbers = name.partition(": ")
    given: list[int | None] = [int(n) for n in numbers.split(",")]
    block, grid, cluster = given + [1, None][len(given) - 1 :]
    lines = PROGRAMS[name].split("\n")
    good = [line.removeprefix("- ") for line in lines if not line.startswith("+ ")]
    bad = [line.removeprefix("+ ") for line in lines if not line.startswith("- ")]
    return Racy(title, "\n".join(good) + "\n", "\n".join(bad) + "\n", block, grid, cluster)
