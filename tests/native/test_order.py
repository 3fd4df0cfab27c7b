"""Lanes act in one order under both engines, whatever machine code serves and wherever it ends: by CTA, warp and lane within an
instruction, and the lowest place first."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
HEAD = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 z) vprintf (.param .b64 f, .param .b64 v);
.global .align 1 .b8 format[] = {37, 117, 32, 37, 117, 10, 0};
.visible .entry k(.param .u64 a, .param .u64 o) {
  .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<5>; .local .align 8 .b8 mine[8]; .shared .align 4 .b32 cells[32];
  ld.param.u64 %d0, [a]; ld.param.u64 %d1, [o]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, 0;
  mad.lo.u32 %r4, %r1, %r2, %r0; mul.wide.u32 %d2, %r4, 4; add.u64 %d2, %d2, %d1; shr.u32 %r5, %r0, 5; mov.u32 %r6, 0;
"""
PRINT = """{ .param .b64 f; .param .b64 v; .param .b32 z; mov.u64 %d3, format; cvta.global.u64 %d3, %d3; st.param.b64 [f], %d3;
  st.local.v2.u32 [mine], {A, B}; mov.u64 %d4, mine; cvta.local.u64 %d4, %d4; st.param.b64 [v], %d4; call (z), vprintf, (f, v); }
"""
"""Prints two registers."""
LAPS = f"""
  and.b32 %r7, %r0, 31; setp.ne.u32 %p1, %r7, 0;
L: setp.lt.or.u32 %p0, %r6, %r5, %p1; @%p0 bra N; {PRINT.replace("A", "%r6").replace("B", "%r0")}
N: mad.lo.u32 %r3, %r3, 10, %r6; add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 3; @%p0 bra L;
  st.global.u32 [%d2], %r3; ret; }}"""
"""In each of three laps the first threads of the warps print that have a number so low."""
SOME = f"""
  popc.b32 %r7, %r0; and.b32 %r7, %r7, 1; setp.ne.u32 %p0, %r7, 0; @%p0 bra E;
  atom.global.add.u32 %r8, [%d0], 1; st.global.u32 [%d0+4], %r4; and.b32 %r9, %r0, 16; cvt.u64.u32 %d5, %r9; add.u64 %d5, %d0, %d5;
  @!%p0 st.global.u32 [%d5+16], %r4; st.global.u32 [%d2], %r8; {PRINT.replace("A", "%r1").replace("B", "%r0")}
E: ret; }}"""
"""Of two CTAs those threads whose numbers have an even number of bits."""
POLLING = """
  shl.b32 %r9, %r0, 2; and.b32 %r9, %r9, 124; mov.u32 %r10, cells; add.u32 %r9, %r9, %r10; st.shared.u32 [%r9], %r0;
  and.b32 %r11, %r0, 7;
L: and.b32 %r12, %r0, 3;
M: atom.shared.and.b32 %r7, [%r9], -1; add.u32 %r3, %r3, %r7; sub.u32 %r12, %r12, 1; setp.ge.s32 %p0, %r12, 0; @%p0 bra M;
  sub.u32 %r11, %r11, 1; setp.ge.s32 %p0, %r11, 0; @%p0 bra L;
  xor.b32 %r3, %r3, %r12; st.global.u32 [%d2], %r3; ret; }"""
"""Loops of their own for each lane, around an atomic that changes nothing."""
LONG = """
  setp.ge.u32 %p0, %r0, 32; @%p0 bra E;
L: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 5000; @%p1 bra L;
E: atom.global.add.u32 %r8, [%d0], 1; st.global.u32 [%d2], %r8; ret; }"""
"""The first of two warps counts to 5,000 before both draw numbers."""

HANDED = """
  setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [cells], 0; bar.sync 0; setp.ge.u32 %p0, %r0, 32; @%p0 bra M;
L: ld.volatile.shared.u32 %r7, [cells]; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
  bar.sync 1, 64; mad.lo.u32 %r6, %r0, %r0, %r6; xor.b32 %r6, %r6, %r0; mad.lo.u32 %r6, %r6, %r6, %r0; bra E;
M: st.volatile.shared.u32 [cells], 1; bar.sync 1, 64; add.u32 %r6, %r6, 3;
E: atom.global.add.u32 %r8, [%d0], 1; st.global.u32 [%d2], %r8; ret; }"""
"""The first of two warps comes last to a barrier, behind which both have a way before they draw numbers."""

TURNS = """
  and.b32 %r11, %r0, 31; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [cells], 0; bar.sync 0; setp.ge.u32 %p0, %r0, 32; @%p0 bra M;
L: atom.shared.add.u32 %r7, [cells], 1; mad.lo.u32 %r3, %r3, 31, %r7; setp.ne.u32 %p1, %r11, 0; @%p1 bra N; st.shared.u32 [cells+64], %r3;
N: bar.sync 1, 32; add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 7; @%p0 bra L; bra E;
M: atom.shared.add.u32 %r7, [cells], 1; mad.lo.u32 %r3, %r3, 31, %r7; bar.sync 2, 32;
  add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 5; @%p0 bra M;
E: st.global.u32 [%d2], %r3; ret; }"""
"""Two warps draw numbers in turns, with barriers of their own."""


def launch(body, engine, grid, block):
    """What it leaves in two arrays, prints and counts."""
    given, out = np.zeros(16, np.uint32), np.zeros(grid * block, np.uint32)
    result = warpsim.load(HEAD + body)["k"]((grid,), (block,), (given, out), engine=engine)
    printed = [tuple(map(int, line.split())) for line in result.stdout.splitlines()]
    return given.tolist(), out.tolist(), printed, result.instructions, result.thread_instructions, dict(result.opcodes)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_nobody_goes_on_behind_lanes_that_have_stopped(engine):
    """Warps that do not print in a lap wait behind those that do: machine code ends at the call, and had gone on with the others."""
    _, out, printed, *_ = launch(LAPS, engine, 1, 96)

    assert printed == [(lap, 32 * warp) for lap in range(3) for warp in range(lap + 1)]
    assert out == [12] * 96


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_lanes_of_several_ctas(engine):
    """Where only some lanes are left, CTAs still come one after the other: atomics, the last store to a place, printed text."""
    given, out, printed, *_ = launch(SOME, engine, 2, 64)

    threads = [t for t in range(64) if t.bit_count() % 2 == 0]
    order = [(cta, t) for cta in range(2) for t in threads]
    assert printed == order
    assert [out[64 * cta + t] for cta, t in order] == list(range(len(order)))
    last = {place: max(t for t in threads if t & 16 == place) for place in (0, 16)}
    assert (given[0], given[1], given[4], given[8]) == (len(order), 64 + threads[-1], 64 + last[0], 64 + last[16])


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_loop_that_polls_nothing_keeps_its_turn(engine):
    """However long it takes, the warps meet behind it: engines count its laps differently where lanes part."""
    _, out, _, instructions, *_ = launch(LONG, engine, 1, 64)

    assert out == list(range(64))
    assert instructions == 2 * (11 + 2 + 3) + 5000 * 3


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_whoever_passes_a_barrier_last_waits_for_those_behind(engine):
    """Machine code that begins behind it ends where the others stand."""
    _, out, *_ = launch(HANDED, engine, 2, 64)

    assert out == list(range(128))


def test_turns_of_loops_with_barriers(done):
    """How far a warp has come in its turn counts behind a barrier, whether its lanes have parted before or not."""
    assert launch(TURNS, "compiled", 1, 64) == launch(TURNS, "interpreter", 1, 64)
    assert done


def test_an_atomic_that_changes_nothing(done):
    """Whether a loop that polls has changed memory decides who comes next, and thus who meets whom again."""
    assert launch(POLLING, "compiled", 1, 32) == launch(POLLING, "interpreter", 1, 32)
    assert done


def test_threads_that_have_left_hold_nobody_back(done):
    """Each of twenty CTAs stores and returns in a place of its own: one region serves them all."""
    ways = "".join(
        f"setp.ne.u32 %p0, %r1, {k}; @%p0 bra N{k}; mad.lo.u32 %r3, %r1, {k}, %r0; st.global.u32 [%d2], %r3; ret; N{k}:\n"
        for k in range(20)
    )
    _, out, *_ = launch(ways + "ret; }", "compiled", 20, 32)

    assert out == [cta * cta + thread for cta in range(20) for thread in range(32)]
    assert len(done) == 1
