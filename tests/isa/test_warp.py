"""Shuffles, votes, matches and reductions of warps against a plain per-lane oracle."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim

FULL = 0xFFFFFFFF
WARPS = 4
THREADS = 32 * WARPS
HEAD = """.version 8.6
.target {target}
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pm, .param .u64 po, .param .u64 pp) {{
.reg .b32 a, b, c, m, d, t, s; .reg .pred p, q, g; .reg .f32 x, y; .reg .b64 at, r, w, v;
mov.u32 t, %tid.x;
"""


def run(body: str, a=0, b=0, c=0, m=FULL, target: str = "sm_90") -> tuple[np.ndarray, np.ndarray]:
    """``d`` and ``p`` of every thread after ``body``, with a, b, c and m in the registers of that name."""
    arrays = [np.ascontiguousarray(np.broadcast_to(np.asarray(v, np.uint32), THREADS)) for v in (a, b, c, m)]
    out, predicate = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
    lines = [HEAD.format(target=target)]
    for register, parameter in (("a", "pa"), ("b", "pb"), ("c", "pc"), ("m", "pm")):
        lines.append(f"ld.param.u64 at, [{parameter}]; mad.wide.u32 at, t, 4, at; ld.global.b32 {register}, [at];")
    lines += ["mov.b32 d, 0; setp.ne.u32 p, t, t;", body]
    lines.append("selp.u32 s, 1, 0, p; ld.param.u64 at, [po]; mad.wide.u32 at, t, 4, at; st.global.b32 [at], d;")
    lines.append("ld.param.u64 at, [pp]; mad.wide.u32 at, t, 4, at; st.global.b32 [at], s; ret; }")
    warpsim.load("\n".join(lines))["k"]((1,), (THREADS,), (*arrays, out, predicate))
    return out, predicate


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The manual's pseudo-code of shfl for one lane."""
    segment, clamp, offset = c >> 8 & 31, c & 31, b & 31
    limit = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        j, held = lane - offset, lane - offset >= limit
    elif mode == "down":
        j, held = lane + offset, lane + offset <= limit
    elif mode == "bfly":
        j, held = lane ^ offset, (lane ^ offset) <= limit
    else:
        j = (lane & segment) | (offset & ~segment)
        held = j <= limit
    return (j if held else lane), held


def values(seed: int, high: int = 1 << 32) -> np.ndarray:
    """A random word for every thread."""
    return np.random.default_rng(seed).integers(0, high, THREADS, dtype=np.uint64).astype(np.uint32)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0, 31, 0x181F, 0x1C03])
@pytest.mark.parametrize("b", [0, 5, 31, 33])
def test_shuffle_by_a_constant(mode: str, c: int, b: int) -> None:
    """shfl.sync with constant lane and clamp reads the lane that the manual's pseudo-code names."""
    a = values(1)

    d, p = run(f"shfl.sync.{mode}.b32 d|p, a, {b}, {c}, -1;", a)

    for thread in range(THREADS):
        lane, held = source_lane(mode, thread % 32, b, c)
        assert (d[thread], p[thread]) == (a[thread - thread % 32 + lane], held)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle_by_registers(mode: str) -> None:
    """Each lane may name its own source lane, clamp and segment."""
    a, b = values(2), values(3)
    c = values(4) & np.uint32(0x1F1F)

    d, p = run(f"shfl.sync.{mode}.b32 d|p, a, b, c, -1;", a, b, c)

    for thread in range(THREADS):
        lane, held = source_lane(mode, thread % 32, int(b[thread]), int(c[thread]))
        assert (d[thread], p[thread]) == (a[thread - thread % 32 + lane], held)


def test_guarded_shuffle_keeps_other_lanes() -> None:
    """Lanes outside the guard keep their destination; those inside exchange among themselves."""
    a = values(5)

    d, _ = run("setp.lt.u32 g, t, 16; @g shfl.sync.bfly.b32 d, a, 3, 31, 0xffff;", a)

    expected = [a[t ^ 3] if t < 16 else 0 for t in range(THREADS)]
    assert expected == d.tolist()


@pytest.mark.parametrize("mode", ["all", "any", "uni"])
@pytest.mark.parametrize("kind", ["random", "true", "false"])
@pytest.mark.parametrize("negated", ["", "!"])
def test_vote(mode: str, kind: str, negated: str) -> None:
    """vote.sync tells whether the predicate holds for all, for any, or equally for the members."""
    a = {"random": values(6) & np.uint32(1), "true": np.uint32(1), "false": np.uint32(0)}[kind]

    _, p = run(f"setp.ne.u32 q, a, 0; vote.sync.{mode}.pred p, {negated}q, -1;", a)

    flags = np.broadcast_to(a, THREADS).astype(bool) ^ bool(negated)
    for warp, got in zip(flags.reshape(WARPS, 32), p.reshape(WARPS, 32), strict=True):
        held = {"all": all(warp), "any": any(warp), "uni": len(set(warp.tolist())) == 1}[mode]
        assert got.tolist() == [held] * 32


def test_ballots_of_two_masks_in_one_warp() -> None:
    """Lanes of one warp that name different masks vote among their own."""
    a = values(7) & np.uint32(1)
    m = np.where(np.arange(THREADS) % 2, np.uint32(0xAAAAAAAA), np.uint32(0x55555555))

    d, _ = run("setp.ne.u32 q, a, 0; vote.sync.ballot.b32 d, q, m;", a, m=m)

    for thread in range(THREADS):
        base = thread - thread % 32
        bits = sum(1 << k for k in range(32) if a[base + k] and int(m[thread]) >> k & 1)
        assert bits == d[thread]


def test_match_any() -> None:
    """match.any.sync gives the mask of the lanes with the same value."""
    a = values(8, 6)

    d, _ = run("match.any.sync.b32 d, a, -1;", a)

    for thread in range(THREADS):
        base = thread - thread % 32
        assert sum(1 << k for k in range(32) if a[base + k] == a[thread]) == d[thread]


@pytest.mark.parametrize("width", ["b32", "b64"])
def test_match_all(width: str) -> None:
    """match.all.sync gives the members' mask and true where all hold one value, else 0 and false."""
    a = np.repeat(np.array([5, 6, 7, 8], np.uint32), 32)
    a[33] = 9
    operand = "a" if width == "b32" else "w"

    d, p = run(f"cvt.u64.u32 w, a; shl.b64 w, w, 20; match.all.sync.{width} d|p, {operand}, -1;", a)

    one = [t // 32 != 1 for t in range(THREADS)]
    assert one == p.astype(bool).tolist()
    assert [FULL if held else 0 for held in one] == d.tolist()


REDUCTIONS = {
    "add.u32": lambda v: sum(v) & FULL,
    "add.s32": lambda v: sum(v) & FULL,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda v: min(v, key=lambda x: x - (x >> 31 << 32)),
    "max.s32": lambda v: max(v, key=lambda x: x - (x >> 31 << 32)),
    "and.b32": lambda v: int(np.bitwise_and.reduce(np.array(v, np.uint32))),
    "or.b32": lambda v: int(np.bitwise_or.reduce(np.array(v, np.uint32))),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(np.array(v, np.uint32))),
}


@pytest.mark.parametrize("operation", list(REDUCTIONS))
@pytest.mark.parametrize("mask", [FULL, 0x0000FFFF])
def test_redux(operation: str, mask: int) -> None:
    """redux.sync combines the values of the members, for each of them."""
    a = values(9)

    d, _ = run(
        f"and.b32 s, t, 31; shr.u32 s, {mask}, s; and.b32 s, s, 1; setp.eq.u32 g, s, 1;"
        f"@g redux.sync.{operation} d, a, {mask};",
        a,
    )

    for thread in range(THREADS):
        base = thread - thread % 32
        members = [int(a[base + k]) for k in range(32) if mask >> k & 1]
        expected = REDUCTIONS[operation](members) if mask >> thread % 32 & 1 else 0
        assert expected == d[thread]


def test_activemask_and_elect() -> None:
    """activemask gives the lanes that execute together, and elect.sync chooses the lowest member."""
    d, _ = run("setp.ge.u32 g, t, 3; @g activemask.b32 d;")
    assert d[5] == FULL & ~7

    d, p = run("elect.sync d|p, -1;")
    assert d.tolist() == [0] * THREADS
    assert p.tolist() == [t % 32 == 0 for t in range(THREADS)]


def test_reading_an_absent_lane_warns() -> None:
    """A shuffle that reads a lane outside the guard is reported as a warning of the rule membermask."""
    text = HEAD.format(target="sm_90") + "setp.lt.u32 g, t, 16; @g shfl.sync.idx.b32 d, t, 20, 31, 0xffff; ret; }"

    result = warpsim.load(text)["k"]((1,), (32,), (0,) * 6)

    assert [(f.rule, f.severity) for f in result.findings] == [("membermask", "warning")]
