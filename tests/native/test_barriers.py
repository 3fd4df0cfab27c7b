"""Regions that hold barriers of the CTA."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<12>; .reg .b64 %d<6>; .reg .pred %p<3>; .shared .align 4 .b8 s[256];
  ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, s;
  mul.lo.u32 %r7, %r0, 5; and.b32 %r7, %r7, 63;
  mad.lo.u32 %r2, %r7, 4, %r1; xor.b32 %r3, %r2, 4; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r0, 3, %r9; mul.wide.u32 %d1, %r9, 4; add.u64 %d2, %d0, %d1; mov.u32 %r4, 0; mov.u32 %r5, %r0;
L:
  add.u32 %r5, %r5, %r4;
  st.shared.u32 [%r2], %r5;
  bar.sync 0;
  ld.shared.u32 %r6, [%r3];
  mad.lo.u32 %r5, %r6, 3, %r5;
  bar.sync 0;
  st.global.u32 [%d2], %r5;
  add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 20; @%p0 bra L;
  ret; }"""
"""CTAs store between each other's words, which the region takes for a conflict: it then ends at the barrier, and the next one
begins inside the block, to which the loop comes again."""


def expected(threads=64, laps=20):
    """What the threads of a CTA leave behind."""
    own = list(range(threads))
    place = [5 * thread & 63 for thread in range(threads)]
    for lap in range(laps):
        own = [value + lap for value in own]
        shared = dict(zip(place, own, strict=True))
        own = [value + 3 * shared[at ^ 1] & 0xFFFFFFFF for value, at in zip(own, place, strict=True)]
    return own


def test_a_unit_that_begins_inside_a_block_with_barriers():
    """What follows a barrier is written once, though the block stands in the region twice."""
    out = np.zeros((64, 3), np.uint32)
    warpsim.load(PTX)["k"]((3,), (64,), (out,), engine="compiled")

    assert out.T.tolist() == [expected()] * 3


VARIED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p;
  ld.param.u64 %d0, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1;
  mov.u32 %r0, %ctaid.x; mov.u32 %r3, 0; bar.sync 0; add.u32 %r2, %r0, 7;
L: mad.lo.u32 %r0, %r0, 3, %r1; add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 4; @%p bra L;
  add.u32 %r0, %r0, %r2; st.global.u32 [%d1], %r0; ret; }"""
"""All threads share a register where they wait; later it is one of each."""


def test_a_register_that_varies_only_behind_a_barrier(done):
    """Behind the barrier it is kept as where it varies, and what is computed from it there, too."""
    out = np.zeros(64, np.uint32)
    warpsim.load(VARIED)["k"](1, 64, (out,), engine="compiled")

    assert out.tolist() == [7 + thread * (1 + 3 + 9 + 27) for thread in range(64)]
    assert done


MEETING = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {
.reg .b32 %r<20>; .reg .b64 %d<12>; .reg .pred %p<5>; .shared .align 16 .b8 tile[2048];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.u64 %d2, %d2, %d3;
add.u64 %d1, %d1, %d3; mov.u64 %d5, tile; cvta.shared.u64 %d5, %d5; add.u64 %d5, %d5, %d3; shl.b32 %r4, %r2, 2;
mov.u32 %r5, tile; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r2; st.shared.u32 [tile+1024], 0; and.b32 %r7, %r2, 1;
setp.eq.u32 %p1, %r7, 1; @%p1 mov.u64 %d5, %d1; mov.u32 %r9, 0; mov.u32 %r8, 0; mov.u32 %r10, 0;
L: setp.eq.u32 %p2, %r8, 0; @%p2 ld.u32 %r10, [%d5]; add.u32 %r9, %r9, %r10;
bar.sync 0;
ld.shared.u32 %r11, [%r4]; add.u32 %r9, %r9, %r11;
bar.sync 0;
st.shared.u32 [tile+1024], %r2; ld.shared.u32 %r12, [tile+1024]; mad.lo.u32 %r9, %r9, 3, %r12;
add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 4; @%p3 bra L;
st.global.u32 [%d2], %r9; ret; }"""
"""In the first round the interpreter loads for a warp whose lanes go to several spaces, and a region begins behind a barrier of the
loop. Behind the other one all warps store to a word and load it: in step, what the last thread has stored."""


def test_a_unit_that_begins_behind_a_barrier(done):
    """What warps may meet in is known for each barrier, wherever the region begins."""
    given, out = np.arange(96, dtype=np.uint32), np.zeros(96, np.uint32)
    warpsim.load(MEETING)["k"]((1,), (96,), (given, out), engine="compiled")

    want = [0] * 96
    for _ in range(4):
        want = [3 * (value + 2 * thread) + 95 for thread, value in enumerate(want)]
    assert out.tolist() == want
    assert done


COUNTED = {
    "two barriers": (
        64,
        "setp.lt.u32 %p0, %r0, 32; @%p0 bra L; barrier.sync 1; bra D; L: barrier.sync 1; D:",
        {"mov.u32": 2, "setp.lt.u32": 2, "barrier.sync": 2, "bra": 3, "ret": 2},
    ),
    "two barriers of a warp": (
        32,
        "setp.lt.u32 %p0, %r0, 16; @%p0 bra L; barrier.sync 0; bra D; L: barrier.sync 0; D:",
        {"mov.u32": 1, "setp.lt.u32": 1, "barrier.sync": 2, "bra": 2, "ret": 1},
    ),
}
"""Threads, a body, and how often a warp, or a part of one, executes what."""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("name", COUNTED)
def test_who_leaves_where_a_block_begins_is_counted_once(name, engine):
    """Where warps do not meet, a region ends before the first instruction of a block."""
    threads, body, counts = COUNTED[name]
    head = module_head() + ".visible .entry k() { .reg .b32 %r<3>; .reg .pred %p<2>;"
    result = warpsim.load(f"{head} mov.u32 %r0, %tid.x; {body} ret; }}")["k"]((1,), (threads,), (), engine=engine)

    assert dict(result.opcodes) == counts
    assert result.instructions == sum(counts.values())


CALLED = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 z) twice (.param .b32 y) { .reg .b32 %r<2>; ld.param.b32 %r1, [y]; add.u32 %r1, %r1, %r1; st.param.b32 [z], %r1; ret; }
.visible .entry k(.param .u64 a, .param .u64 o) {
  .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;
  ld.param.u64 %d0, [a]; ld.param.u64 %d1, [o]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4;
  add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2; mov.u32 %r2, 7;
  bar.sync 0;
  ld.global.u32 %r1, [%d0]; setp.lt.s32 %p, %r1, 0; @%p bra E;
  { .param .b32 y; .param .b32 z; st.param.b32 [y], %r1; call (z), twice, (y); ld.param.b32 %r2, [z]; }
E: st.global.u32 [%d1], %r2;
  ret; }"""


def test_lanes_of_each_warp_part_behind_a_barrier(done):
    """Where lanes go that no machine code serves is each warp's own, also of one that goes on behind a barrier."""
    given, out = np.random.default_rng(3).integers(-100, 100, 128).astype(np.int32), np.zeros(128, np.int32)
    warpsim.load(CALLED)["k"]((1,), (128,), (given, out), engine="compiled")

    assert out.tolist() == [7 if value < 0 else 2 * value for value in given.tolist()]
    assert done
