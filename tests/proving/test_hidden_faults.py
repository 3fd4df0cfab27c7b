"""Faults that no single launch needs to show: behind loops, votes, shuffles, calls, atomics, and other orders of threads."""

import numpy as np
import pytest

import warpsim
from docs.tools import faulty
from ptx_text import module_head
from warpsim.proving import Verdict

GIVEN = """ld.param.u64 %x1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %x2, %r1, 4; add.u64 %x3, %x1, %x2; mov.u32 %r3, s;
shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4; mov.u32 %r8, bar; setp.eq.u32 %p4, %r1, 0;"""
"""x1: the array, x3: the thread's place there; r3: shared memory, r5: the thread's place there; r8: an mbarrier; p4: thread 0."""
LOAD = "ld.global.u32 %r2, [%x3]; setp.eq.u32 %p1, %r2, 0;"
"""r2 and p1 are what nobody knows."""
READ = "add.u32 %r6, %r6, %r3; ld.shared.u32 %r7, [%r6];"
"""Out of bounds where r6 is 1,024 or more."""
STORE = "st.global.u32 [%x1+128], %r2;"
LAST = "bar.sync 1;"
INIT = "@%p4 mbarrier.init.shared.b64 [%r8], {}; fence.mbarrier_init.release.cluster; bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r8];"
WAIT = "{0}: mbarrier.test_wait.parity.shared.b64 %p7, [%r8], {1}; @!%p7 bra {0};"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%x1], 64, [%r8];"
ARRIVES = "cp.async.ca.shared.global [%r5], [%x3], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%r8];"
CLUSTER = "barrier.cluster.arrive; barrier.cluster.wait;"
ZERO = "@%p4 st.shared.u32 [%r3], 0; bar.sync 0;"
FUNCTION = ".func (.param .b32 o) f(.param .b32 i) { .reg .b32 %v; ld.param.b32 %v, [i]; st.param.b32 [o], %v; ret; }\n"
CALL = "{ .param .b32 i; .param .b32 o; st.param.b32 [i], %r2; call (o), f, (i); ld.param.b32 %r6, [o]; }"

FAULTS = {
    "a shuffle that some miss": ("barriers", LOAD + "@%p1 bra past; shfl.sync.bfly.b32 %r6, %r2, 16, 31, -1; past:", 32),
    "barriers of two ways": ("races", "shr.u32 %r6, %r1, 5; mul.wide.u32 %x4, %r6, 4; add.u64 %x4, %x4, %x1; ld.global.u32 %r2, [%x4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra other; "
                             "bar.sync 0; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6]; bra fin; other: bar.sync 0; st.shared.u32 [%r5], 1; fin:", 64),
    "behind a guard that data decide": ("races", LOAD + "@%p1 ld.global.u32 %r6, [%x3];" + STORE, 32),
    "a side of other values": ("races", "ld.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra past; ld.global.u32 %r2, [%x3]; past:" + STORE, 32),
    "a way that two sides lead to": ("races", "ld.global.u32 %r6, [%x3]; ld.global.v2.u32 {%r2, %r7}, [%x1]; setp.eq.u32 %p1, %r2, 0; setp.gt.u32 %p2, %r2, 9; "
                                     "setp.gt.u32 %p3, %r7, 9; @!%p1 bra both; mov.u32 %r2, %r6; @%p2 bra past; both: @%p3 bra past;" + STORE + "past:", 32),
    "ways that another side has gone": ("races", "ld.global.u32 %r6, [%x3]; ld.global.v2.u32 {%r2, %r7}, [%x1]; setp.eq.u32 %p1, %r2, 0; setp.gt.u32 %p2, %r6, 9; "
                                       "setp.gt.u32 %p3, %r7, 9; setp.gt.u32 %p5, %r7, 20; mov.u32 %r2, 0; @%p1 bra first; @%p2 bra one; bra two; "
                                       "first: @%p3 bra one; bra two; one: @%p5 bra past; mov.u32 %r2, 1; bra past; two: @%p5 bra past; mov.u32 %r2, 2; past:" + STORE, 32),
    "a way that lanes promise to go together": ("barriers", LOAD + "@%p1 bra.uni past; add.u32 %r6, %r1, 1; past:", 32),
    "a shuffle at two places": ("bounds", LOAD + "setp.lt.u32 %p2, %r1, 16; mov.b32 %r9, -1; @%p2 bra low; shfl.sync.bfly.b32 %r6, %r2, 16, 31, %r9; bra met; "
                                "low: shfl.sync.bfly.b32 %r6, %r2, 16, 31, -1; met:" + READ, 32),
    "a vote of a barrier": ("bounds", LOAD + "setp.eq.u32 %p1, %r2, 7; bar.red.popc.u32 %r6, 0, %p1; mul.lo.u32 %r6, %r6, 256;" + READ, 64),
    "the last of several cas": ("bounds", ZERO + "mul.lo.u32 %r9, %r1, 64; atom.shared.cas.b32 %r7, [%r3], 0, %r9; bar.sync 0; ld.shared.u32 %r6, [%r3];" + READ, 64),
    "or before and": ("bounds", ZERO + "setp.lt.u32 %p3, %r1, 32; @%p3 red.shared.or.b32 [%r3], 4096; @!%p3 red.shared.and.b32 [%r3], 15; bar.sync 0; "
                      "ld.shared.u32 %r6, [%r3];" + READ, 64),
    "pairs of four warps": ("races barriers", "st.shared.u32 [%r5], 1; bar.sync 1, 64; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6];", 128),
    "one arrival too few": ("races", INIT.format(63) + "st.shared.u32 [%r5], 1;" + ARRIVE + WAIT.format("w", 0)
                            + "setp.ne.u32 %p3, %r1, 63; @%p3 bra end; ld.shared.u32 %r7, [%r3]; end:", 64),
    "one arrival too many": ("races", INIT.format(64) + "@%p4 " + ARRIVE + "st.shared.u32 [%r5], 1;" + ARRIVE + WAIT.format("w", 0)
                             + "setp.ne.u32 %p3, %r1, 63; @%p3 bra end; ld.shared.u32 %r7, [%r3+4]; end:", 64),
    "a wait for the phase before": ("races", INIT.format(1) + "setp.ge.u32 %p3, %r1, 32; @%p3 bra reads; @!%p4 bra end;" + ARRIVE + "st.shared.u32 [%r3], 1;"
                                    + ARRIVE + "bra end; reads:" + 60 * "add.u32 %r9, %r1, 1;" + WAIT.format("w", 1) + "ld.shared.u32 %r7, [%r3]; end:", 64),
    "bytes of two copies": ("asynchrony", INIT.format(1) + "mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 64;" + COPY + COPY.replace("[%r3]", "[%r3+64]")
                            + WAIT.format("w", 0) + "ld.shared.u32 %r7, [%r3];", 1),
    "a slow wait": ("barriers", "@%p4 mbarrier.init.shared.b64 [%r3], 32; setp.lt.u32 %p2, %r1, 32; setp.lt.u32 %p3, %r1, 64;" + INIT.format(1)
                    + "@!%p2 bra others; @!%p4 bra end;" + ARRIVE + WAIT.format("w", 0).replace("%r8", "%r3") + ARRIVE + "bra end; others: @!%p3 bra last;"
                    + WAIT.format("v", 0) + "bra end; last: mbarrier.arrive.shared.b64 _, [%r3]; end:", 96),
    "arrivals of copies": ("asynchrony", INIT.format(64) + ARRIVES + "bar.sync 0; setp.lt.u32 %p3, %r1, 32; @%p3 bra second;" + WAIT.format("w", 0)
                           + "second:" + ARRIVES.replace("%r5", "%r5+256") + WAIT.format("v", 1), 64),
    "a count in shared memory": ("bounds", LOAD + "st.shared.u32 [%r5], 0; again: ld.shared.u32 %r6, [%r5]; add.u32 %r9, %r6, 4; st.shared.u32 [%r5], %r9;"
                                 + READ + "ld.global.u32 %r2, [%x3]; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;", 1),
    "a count beside unknown stores": ("bounds", LOAD + "st.shared.u32 [%r5], 0; again: ld.shared.u32 %r6, [%r5]; and.b32 %r9, %r2, 31; shl.b32 %r9, %r9, 2; "
                                      "add.u32 %r9, %r9, %r3; st.shared.u32 [%r9], 4096;" + READ
                                      + "ld.global.u32 %r2, [%x3]; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;", 1),
    "part of a sum": ("races", LOAD + "shfl.sync.bfly.b32 %r6, %r2, 16, 31, -1; add.u32 %r2, %r2, %r6;" + STORE, 32),
    "strong loads": ("races", "ld.volatile.global.u32 %r2, [%x3];" + STORE, 32),
    "a difference": ("races", LOAD + "".join(f"shfl.sync.bfly.b32 %r6, %r2, {k}, 31, -1; sub.u32 %r2, %r2, %r6;" for k in (1, 2, 4, 8, 16)) + STORE, 32),
    "a guarded load": ("races", LOAD + "setp.lt.u32 %p2, %r1, 16; @%p2 ld.global.u32 %r2, [%x1];" + STORE, 32),
    "laps behind a generic store": ("barriers", LOAD + "st.shared.u32 [%r5], 0; cvt.u64.u32 %x4, %r5; cvta.shared.u64 %x4, %x4; add.u64 %x2, %x3, 128; setp.eq.u32 %p3, %r2, 7; "
                                    "selp.b64 %x4, %x4, %x2, %p3; mov.u32 %r6, 0; again: ld.global.u32 %r2, [%x3]; setp.eq.u32 %p1, %r2, 0; @%p1 bra out; ld.shared.u32 %r6, [%r5]; st.u32 [%x4], 5; bra again; out: "
                                    "setp.eq.u32 %p2, %r6, 0; @%p2 bra past; bar.sync 0; past:" + LAST, 32),
    "a side of one value": ("races", LOAD + "ld.global.u32 %r2, [%x1]; @%p1 bra past; add.u32 %r2, %r2, 1; past:" + STORE, 32),
    "local memory": ("races", ".local .b32 l;" + LOAD + "st.local.u32 [l], %r2; ld.local.u32 %r2, [l];" + STORE, 32),
    "the other of two": ("races", "ld.global.v2.u32 {%r6, %r2}, [%x1]; setp.lt.u32 %p2, %r1, 16; selp.u32 %r2, %r6, %r2, %p2;" + STORE, 32),
    "what one side stores": ("bounds", LOAD + "st.shared.u32 [%r5], 0; @%p1 bra past; st.shared.u32 [%r5], 4096; past: ld.shared.u32 %r6, [%r5];" + READ, 32),
    "what lies beyond": ("bounds", "ld.shared.u32 %r6, [%r3+1040];" + READ, 1),
    "the state of an mbarrier": ("bounds", INIT.format(64) + "mbarrier.arrive.shared.b64 %x5, [%r8]; mbarrier.pending_count.b64 %r9, %x5; mul.lo.u32 %r6, %r9, 64;" + READ, 64),
    "a store to an mbarrier": ("barriers", "@%p4 mbarrier.init.shared.b64 [%r3], 64; bar.sync 0;" + LOAD + "and.b32 %r9, %r2, 31; shl.b32 %r9, %r9, 2; "
                               "add.u32 %r9, %r9, %r3; st.shared.u32 [%r9], 7; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r3];" + WAIT.format("w", 0).replace("%r8", "%r3"), 64),
    "a carry": ("bounds", LOAD + "add.cc.u32 %r9, %r2, -1; addc.u32 %r6, 0, 0; mul.lo.u32 %r6, %r6, 4096;" + READ, 32),
    "the selector of prmt": ("bounds", LOAD + "and.b32 %r9, %r2, 3; prmt.b32 %r6, 0x10000000, 0, %r9; shl.b32 %r6, %r6, 8;" + READ, 32),
    "a float": ("bounds", LOAD + "cvt.rn.f32.u32 %f1, %r2; min.f32 %f1, %f1, 0f45800000; cvt.rzi.u32.f32 %r6, %f1; and.b32 %r6, %r6, 0x3ffc;" + READ, 32),
    "the lane of a shuffle": ("bounds", LOAD + "and.b32 %r9, %r2, 31; mul.lo.u32 %r7, %r1, 64; shfl.sync.idx.b32 %r6, %r7, %r9, 31, -1;" + READ, 32),
    "a call": ("bounds", LOAD + CALL + READ, 32),
    "an indexed branch": ("bounds", LOAD + "and.b32 %r9, %r2, 1; ts: .branchtargets t0, t1; brx.idx %r9, ts; t0: mov.u32 %r6, 0; bra past; t1: mov.u32 %r6, 4096; past:" + READ, 32),
    "a vote": ("barriers", LOAD + "vote.sync.any.pred %p2, %p1, -1; @%p2 bra past; bar.sync 0; past:" + LAST, 64),
    "a ballot": ("barriers", LOAD + "vote.sync.ballot.b32 %r9, %p1, -1; @%p1 bar.warp.sync %r9;", 32),
    "redux": ("barriers", LOAD + "redux.sync.max.u32 %r9, %r2, -1; setp.gt.u32 %p2, %r9, 5; @%p2 bra past; bar.sync 0; past:" + LAST, 64),
    "a clock": ("barriers", "mov.u64 %x5, %globaltimer; and.b64 %x5, %x5, 1; setp.eq.u64 %p2, %x5, 0; @%p2 bra past; bar.sync 0; past:" + LAST, 64),
    "the last lap": ("races", LOAD + "mov.u32 %r9, 0; again: add.u32 %r9, %r9, 1; ld.global.u32 %r2, [%x3]; setp.ne.u32 %p1, %r2, 0; setp.lt.u32 %p3, %r9, 300; "
                     "and.pred %p1, %p1, %p3; @%p1 bra again; setp.ge.u32 %p2, %r9, 299; @%p2 st.shared.u32 [%r3], %r1;", 32),
    "a ticket": ("barriers", "atom.global.add.u32 %r9, [%x1], 1; setp.ne.u32 %p2, %r9, 63; @%p2 bra past; bar.sync 0; past:" + LAST, 64),
    "32 bits": ("bounds", "mul.lo.u32 %r9, %r1, 0x08000000; add.u32 %r9, %r9, %r1; mul.wide.u32 %x4, %r9, 4; add.u64 %x4, %x4, %x1; ld.global.u32 %r6, [%x4];", 32),
    "a way down": ("bounds", LOAD + "mov.u64 %x4, %x3; again: ld.global.u32 %r6, [%x4]; sub.u64 %x4, %x4, 4; setp.ne.u32 %p2, %r6, 0; @%p2 bra again;", 32),
    "two that exchange": ("bounds", "mov.u32 %r9, %cluster_ctarank; @%p4 st.shared.u32 [%r3], 0;" + CLUSTER + "mul.lo.u32 %r9, %r9, 4096; mapa.shared::cluster.u32 %r6, %r3, 0; "
                          "atom.shared::cluster.exch.b32 %r7, [%r6], %r9;" + CLUSTER + "ld.shared.u32 %r6, [%r3];" + READ + CLUSTER, 1),
    "a cluster's barrier": ("barriers", LOAD + "@%p1 bra past;" + CLUSTER + "past:" + CLUSTER, 32),
    "half of the warps": ("barriers", "setp.lt.u32 %p2, %r1, 40; @%p2 barrier.sync 0; barrier.sync 1;", 64),
    "a barrier more in some laps": ("races", "shr.u32 %r6, %r1, 5; mul.wide.u32 %x4, %r6, 4; add.u64 %x4, %x4, %x1; mov.u32 %r9, 0; again: ld.global.u32 %r2, [%x4]; setp.eq.u32 %p1, %r2, 0; "
                                    "@%p1 bra past; bar.sync 0; past: xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6]; bar.sync 0; st.shared.u32 [%r5], 1; bar.sync 0; add.u32 %r9, %r9, 1; "
                                    "setp.lt.u32 %p2, %r9, 3; @%p2 bra again;", 64),
    "who has exited": ("races", "st.shared.u32 [%r5], 1; setp.lt.u32 %p2, %r1, 32; @!%p2 exit; bar.sync 0; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6];", 64),
    "the state of another phase": ("races barriers asynchrony", INIT.format(64) + "mbarrier.arrive.shared.b64 %x4, [%r8]; w: mbarrier.test_wait.shared.b64 %p7, [%r8], %x4; @!%p7 bra w; "
                                   "mbarrier.arrive.shared.b64 %x5, [%r8];" + LOAD + "selp.b64 %x4, %x4, %x5, %p1; st.shared.u32 [%r5], 1; "
                                   "v: mbarrier.test_wait.shared.b64 %p7, [%r8], %x4; @!%p7 bra v; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6];", 64),
    "halves of a warp": ("races", "st.shared.u32 [%r5], 1; setp.lt.u32 %p2, %r1, 16; @%p2 bra low; bar.warp.sync 0xffff0000; bra past; low: bar.warp.sync 0xffff; past: "
                         "xor.b32 %r6, %r5, 64; ld.shared.u32 %r7, [%r6];", 32),
    "orders that end": ("races", "@%p4 mbarrier.init.shared.b64 [%r8], 32; @%p4 mbarrier.init.shared.b64 [%r3+512], 32; bar.sync 0; mov.u32 %r9, 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra second; "
                        "first:" + "mov.u32 %r6, 0;" * 3 + "not.b32 %r7, %r9; and.b32 %r7, %r7, 1; " + WAIT.format("w", "%r7").replace("%r8", "%r3+512") + "st.shared.u32 [%r5], 1;" + ARRIVE
                        + "add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra first; bra fin; second: not.b32 %r7, %r9; and.b32 %r7, %r7, 1;" + WAIT.format("v", "%r7")
                        + "mbarrier.arrive.shared.b64 _, [%r3+512]; ld.shared.u32 %r7, [%r5+-128]; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra second; fin:", 64),
    "behind another's trap": ("races", "setp.lt.u32 %p2, %r1, 32; @%p2 trap;" + "mov.u32 %r6, %r1;" * 40 + "st.shared.u32 [%r3], %r1;", 64),
    "another's copy": ("races", "cp.async.ca.shared.global [%r5], [%x3], 4; bar.sync 0; xor.b32 %r6, %r5, 4; ld.shared.u32 %r7, [%r6]; cp.async.wait_all;", 64),
}  # fmt: skip
"""Faulty kernels: the properties that they break, their text, and how many threads run."""
SHORT = 29
"""So many show what would be proved without some of the code."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (k >= SHORT)) for k, n in enumerate(FAULTS)]
)
def test_a_hidden_fault_is_not_proved(name):
    """Whatever the answer is, it is not that the kernel is free of the fault."""
    broken, body, block = FAULTS[name]
    clustered = CLUSTER in body
    text = f"""{module_head("sm_90a", "8.6")}{FUNCTION}.visible .entry k(.param .u64 a) {{ .reg .b32 %r<10>; .reg .b64 %x<6>;
    .reg .f32 %f<2>; .reg .pred %p<8>; .shared .align 128 .b8 s[1024]; .shared .b64 bar; {GIVEN} {body} ret; }}"""
    options = {"cluster": 2} if clustered else {}
    kernel = warpsim.load(text)["k"]
    proof = warpsim.prove(kernel, 2 if clustered else 1, block, (np.zeros(64, np.uint32),), **options)

    assert [p for p in broken.split() if proof[p].verdict is Verdict.PROVED] == []


LATE = "add.u32 %r9, %r9, 1;" * 12
ONE = "@%first mbarrier.init.shared.b64 [%bar], {}; fence.mbarrier_init.release.cluster; bar.sync 0;"
MEET = "mbarrier.arrive.shared.b64 _, [%bar];" + WAIT.format("w", 0).replace("%r8", "%bar")
HERE = "mapa.shared::cluster.u32 %r10, %s, 0; mapa.shared::cluster.u32 %r11, %bar, 0;"
REDUCE = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
SOURCE = "st.shared.u32 [%own], 1; fence.proxy.async; bar.sync 0; setp.ge.u32 %p1, %t, 32; @%p1 bra second; @!%first bra fin;"
OVERWRITE = "bra fin; second:" + LATE + "st.shared.u32 [%s+128], 2; fin:"
BOX = (
    ".reg .b64 %map; mov.b64 %map, map; cvta.param.u64 %map, %map; ld.global.u32 %r2, [%a]; {0} setp.eq.u32 %p1, %cta, 1; @%p1 bra other;"
    + ONE.format(1)
    + "@!%first bra waits; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 2048; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%s], [%map, {{0, %r2}}], [%bar]; waits:"
    + WAIT.format("w", 0).replace("%r8", "%bar")
    + "ld.shared.u32 %r6, [%own]; {1} bra fin; other: {2} fin:"
)
FAR = "add.u32 %r2, %r2, 5000;"
"""Nothing of the tensor is there, with the contents given."""
ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
ORDERS = {
    "a strong read before a late store": ("races", "setp.ge.u32 %p1, %t, 32; @%p1 bra second; ld.volatile.shared.u32 %r7, [%s]; bra fin; second:" + LATE
                                          + "setp.eq.u32 %p2, %t, 32; @%p2 st.shared.u32 [%s], 1; fin:", "block=64"),
    "a lane among others": ("races", "ld.shared.u32 %r7, [%s]; setp.eq.u32 %p2, %t, 5; @%p2 bra fin; bar.warp.sync 0xffffffdf; setp.eq.u32 %p3, %t, 31; "
                            "@%p3 st.shared.u32 [%s], 1; fin:", "block=32"),
    "an atomic before another": ("races", "setp.eq.u32 %p1, %warp, 7; @!%p1 red.shared.add.u32 [%s], 1; setp.eq.u32 %p2, %warp, 0; @%p2 bra fin; bar.sync 1, 224; "
                                 "@%p1 ld.shared.u32 %r7, [%s]; fin:", "block=256"),
    "arrivals before the beginning": ("races asynchrony", "@%first mbarrier.init.shared.b64 [%bar], 64;" + LATE + MEET, "block=64"),
    "the order of reductions": ("bounds", "@%first st.shared.v4.u32 [%s+64], {1, 1, 1, 1}; @%first st.shared.v4.u32 [%s+128], {65536, 65536, 65536, 65536}; "
                                "@%first st.shared.v4.u32 [%s], {8, 8, 8, 8}; fence.proxy.async;" + ONE.format(1)
                                + "@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 32; bar.sync 0;" + HERE
                                + f"@%first {REDUCE}max.u32 [%r10], [%s+128], 16, [%r11]; setp.eq.u32 %p2, %t, 32; @%p2 {REDUCE}min.u32 [%r10], [%s+64], 16, [%r11];"
                                + WAIT.format("w", 0).replace("%r8", "%bar") + "ld.shared.u32 %r6, [%s]; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %s; ld.shared.u32 %r7, [%r6];",
                                "block=64 cluster=1"),
    "the order of allocations": ("bounds", f"setp.lt.u32 %p1, %t, 32; setp.eq.u32 %p3, %warp, 1; @%p1 {ALLOCATE} [%s+1024], 32; @%p3 {ALLOCATE} [%s+1028], 32; bar.sync 0; "
                                 "ld.shared.u32 %r10, [%s+1024]; ld.shared.u32 %r11, [%s+1028]; sub.u32 %r6, %r10, %r11; mad.lo.u32 %r6, %r6, 512, 16384; add.u32 %r6, %r6, %s; "
                                 f"ld.shared.u32 %r7, [%r6]; @%p1 {FREE} %r10, 32; @%p3 {FREE} %r11, 32;", "block=128 target=sm_100a"),
    "a warp among others": ("races", ONE.format(1) + "ld.shared.u32 %r7, [%s]; setp.eq.u32 %p2, %warp, 1; @%p2 bra fin; bar.sync 1, 96; setp.eq.u32 %p3, %t, 96; @!%p3 bra fin; "
                            "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 64, [%bar];"
                            + WAIT.format("w", 0).replace("%r8", "%bar") + "fin:", "block=128"),
    "an end before the last wait": ("races asynchrony", ONE.format(64) + MEET + LATE + "@%first mbarrier.inval.shared.b64 [%bar];", "block=64"),
    "a source that changes late": ("races asynchrony", SOURCE + "cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 256; cp.async.bulk.commit_group; "
                                   "cp.async.bulk.wait_group.read 0;" + OVERWRITE, "block=64"),
    "bytes that are expected late": ("asynchrony", ONE.format(1) + "setp.ge.u32 %p1, %t, 32; @%p1 bra second; @!%first bra fin;" + LATE
                                     + "mbarrier.arrive.shared.b64 _, [%bar]; bra fin; second: setp.ne.u32 %p2, %t, 32; @%p2 bra waits; mbarrier.expect_tx.relaxed.cta.shared.b64 [%bar], 64; "
                                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 64, [%bar]; waits:"
                                     + WAIT.format("w", 0).replace("%r8", "%bar") + "ld.shared.u32 %r7, [%s]; fin:", "block=64"),
    "an atomic before an own one": ("races", "setp.lt.u32 %p1, %t, 32; @%p1 red.global.add.u32 [%at+128], 1;" + LATE + "red.global.add.u32 [%at], 1; ld.global.u32 %r7, [%at];", "block=64"),
    "rows that a copy still writes": ("asynchrony", ONE.format(1) + "@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1536; add.u32 %r1, %s, 512;"
                                      "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%b], 1536, [%bar]; wgmma.fence.sync.aligned;"
                                      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %desc, %desc, 0, 1, 1, 0, 0;"
                                      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; setp.eq.u32 %p1, %warp, 0; @%p1 st.global.f32 [%at], %f1;"
                                      + WAIT.format("w", 0).replace("%r8", "%bar"), "block=128 wgmma"),
    "a box from anywhere": ("races", BOX.format(FAR, "", "st.global.u32 [%bt], %t;"), "block=64 grid=2"),
    "what a box from anywhere holds": ("bounds", BOX.format(FAR, "shl.b32 %r6, %r6, 2; and.b32 %r6, %r6, 0x7fff; add.u32 %r6, %r6, %s; ld.shared.u32 %r7, [%r6];", ""), "block=64 grid=2"),
    "where a box from anywhere leads": ("barriers", BOX.format(FAR, "setp.eq.u32 %p2, %r6, 0; @%p2 bra past; bar.sync 1; past:", ""), "block=64 grid=2"),
}  # fmt: skip
"""Faults that some orders of threads show, and the usual one does not: texts as `docs.tools.faulty` has them."""


def test_a_box_from_anywhere():
    """Where a box lies in the outer dimensions does not matter if nobody stores to the tensor."""
    kernel, grid, block, args, _ = faulty.launch_of(
        faulty.Example.of(BOX.format("", "st.global.u32 [%at], %r6;", ""), "block=64")
    )

    assert warpsim.prove(kernel, grid, block, args).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (k >= 6)) for k, n in enumerate(ORDERS)])
def test_a_fault_of_other_orders_is_not_proved(name):
    """The properties that a launch in another order breaks."""
    broken, body, words = ORDERS[name]
    kernel, grid, block, args, cluster = faulty.launch_of(faulty.Example.of(body, words))
    proof = warpsim.prove(kernel, grid, block, args, cluster=cluster)

    assert [p for p in broken.split() if proof[p].verdict is Verdict.PROVED] == []
