"""Matrices, barriers, mbarriers, what is in flight, and who wrote it."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session
from warpsim.host.cases import run_case

ROOT = Path(__file__).parents[2]
CALLS = (Path(__file__).parent / "kernels" / "calls.ptx").read_text()
MMA = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pd) {
.reg .b64 q<2>; .reg .b32 a<4>, b<2>; .reg .f32 c<4>;
ld.param.u64 q0, [pa]; ld.param.u64 q1, [pd];
wmma.load.a.sync.aligned.row.m16n16k8.tf32 {a0, a1, a2, a3}, [q0];
mov.b32 b0, %laneid; mov.b32 b1, 0; mov.f32 c0, 0f3F800000; mov.f32 c1, c0; mov.f32 c2, c0; mov.f32 c3, c0;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};
st.global.f32 [q1], c0;
ret; }
"""


class Opened(Exception):
    """The session was made; nothing else is to happen."""


def session_of(name, **options):
    """A session on a recorded launch, before its first step."""
    made = []

    def launch(kernel, grid, block, args, **given):
        made.append(Session(kernel, grid, block, args, **{**given, **options}))
        raise Opened

    folder = ROOT / "programs" / name
    with pytest.raises(Opened):
        run_case(folder if folder.exists() else ROOT / "tests" / "cases" / name, launch=launch)
    return made[0]


def test_operands_of_mma():
    """At the mma, A is the matrix that was loaded (tf32 fragments of wmma and mma agree), B what the lanes hold; behind it D
    is what was computed."""
    memory = np.arange(128, dtype=np.float32)
    session = Session(warpsim.load(MMA)["k"], (1,), (32,), (memory, np.zeros(128, np.float32)))
    session.break_at("op:mma.*")
    session.cont()
    a, b, c = (session.matrix(name) for name in "abc")

    np.testing.assert_array_equal(memory.reshape(16, 8), a.values)
    lanes = b.values.view(np.uint32)
    np.testing.assert_array_equal(np.arange(32).reshape(8, 4).T, lanes[:4])
    assert (lanes[4:] == 0).all()
    assert (c.values == 1).all()
    assert (a.axes, a.owner(1, 2)) == (("m", "k"), "lane 6, a0")
    assert b.owner(5, 3) == "lane 13, b1"
    assert "<p>a of mma.sync" in a._repr_html_()
    with pytest.raises(DebugError, match="16 x 8"):
        a.owner(16, 0)
    with pytest.raises(DebugError, match="operands a, b, c, d"):
        session.matrix("e")
    literal = MMA.replace("{c0, c1, c2, c3};", "{c0, 0f3F800000, c2, c3};")
    part = Session(warpsim.load(literal)["k"], 1, 32, (memory, np.zeros(128, np.float32)))
    part.break_at("op:mma.*")
    part.cont()
    assert part.matrix("d").values.shape == (16, 8)
    with pytest.raises(DebugError, match="not registers"):
        part.matrix("c")
    session.step()
    expected = a.values.astype(np.float64) @ b.values.astype(np.float64) + 1
    np.testing.assert_allclose(session.matrix("d").values, expected, rtol=1e-3)


def test_lanes_that_are_missing():
    """Of a warp that is not full, elements of the lanes that are missing are masked."""
    text = MMA.replace("wmma.load", "//").replace("mma.sync", "mov.b32 a0, 5;\nmma.sync")
    session = Session(warpsim.load(text)["k"], (1,), (24,), (np.zeros(8), np.zeros(8)))
    session.until("op:mma.*")
    mask = np.ma.getmaskarray(session.matrix("a").values)

    assert mask.sum() == mask.size // 4
    assert mask[6:8].all()


def test_operands_of_wgmma():
    """A and B through their descriptors are the tiles of the arrays, un-swizzled; D is their product, held by the warpgroup."""
    with np.load(ROOT / "tests" / "cases" / "gemm_ss_f16" / "data.npz") as data:
        left, right = data["in_A"], data["in_B"]
    session = session_of("gemm_ss_f16")
    session.break_at("op:wgmma.mma*", temporary=True)
    session.cont()
    a, b = session.matrix("a"), session.matrix("b")

    np.testing.assert_array_equal(left[:64, :16], a.values)
    np.testing.assert_array_equal(right[:64, :16].T, b.values)
    assert a.owner(0, 0) == "shared 0x0, bank 0"
    assert a.owner(1, 0) == f"shared 0x{1 << 7 | 1 << 4:x}, bank {(1 << 7 | 1 << 4) >> 2 & 31}"
    session.step()
    expected = left[:64, :16].astype(np.float64) @ right[:64, :16].T.astype(np.float64)
    np.testing.assert_allclose(session.matrix("d").values, expected, atol=1e-2)
    flying = [f for f in session.in_flight() if f.registers]
    assert len(flying[0].registers) == 32


def test_what_is_in_flight():
    """Copies name what they write, and what makes them visible; mbarriers what their phase lacks."""
    session = session_of("gemm_ss_f16")
    session.break_at("op:cp.async.bulk.tensor*")
    session.cont()
    mine = session.mbarriers()[0]
    assert (mine.pending, mine.bytes, mine.phase) in ((0, 16384, 0), (1, 16384, 0))
    assert mine.expected == 1
    session.cont()
    first = session.in_flight()[0]
    assert first.instruction.startswith("cp.async.bulk.tensor.2d")
    assert first.writes == (((0, 0, 0), 0, 8192),)
    assert (first.cta, first.warp, first.lanes) == ((0, 0, 0), 0, "0")
    assert first.until.endswith("is over")
    assert session.mbarriers()[0].bytes == 8192


def test_who_waits_at_a_barrier():
    """How many have arrived, how many are to come, and which warps wait."""
    session = Session(warpsim.load(CALLS)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5))
    session.break_at(34)
    first = session.cont().focus.warp
    assert session.barriers() == ()
    second = session.cont().focus.warp
    (barrier,) = session.barriers()

    assert {first, second} == {0, 1}
    assert (barrier.number, barrier.arrived, barrier.expected, barrier.waiting) == (0, 32, 64, (first,))
    assert [w.state for w in session.warps() if w.warp == first] == ["waits at barrier 0"]


def test_origins_through_a_call():
    """A result goes back through `ret`, the function and the `call` that passed its argument: 3 + 3 in lane 3."""
    session = Session(warpsim.load(CALLS)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5))
    session.until(27)
    session.focus(lane=3)
    origin = session.origin("%r1", 7)

    lines = [origin.line]
    while origin.sources:
        origin = origin.sources[-1]
        lines.append(origin.line)
    assert lines == [26, 10, 9, 8, 7, 25]


def test_origins():
    """The chain goes back from what is stored to the special registers and through memory."""
    out = np.zeros(64, np.uint32)
    session = Session(warpsim.load(CALLS)["k"], (1,), (64,), (out, 5))
    session.break_at(36, condition="%tid.x == 45")
    stop = session.cont()
    origin = session.origin("%r1", 4)

    assert (origin.line, origin.warp, origin.lane) == (35, 1, 13)
    stored = next(source for source in origin.sources if source.what.startswith("shared"))
    assert (stored.line, stored.warp, stored.lane) == (33, 1, 13)
    assert dict(stored.values)["%r1"] == 14
    value = next(source for source in stored.sources if source.what == "%r1")
    assert value.line == 26
    assert str(origin).splitlines()[0].startswith("%r1: step ")
    assert session.stop == stop
    assert session.origin("out[45]").step is None
    wrote = session.origin("u32[out]")
    assert (wrote.line, wrote.warp, wrote.lane) == (36, 0, 0)
    session.delete()
    session.cont()
    session.back()
    assert session.origin("u32[out + 4]").line == 36
    session.focus(warp=0, lane=0)
    wrote = session.origin("out[45]")
    assert (wrote.line, wrote.warp, wrote.lane) == (36, 1, 13)


def test_the_origin_of_what_another_cta_stored():
    """A load from another CTA of the cluster goes back to the store there: CTA 1 stores its rank and 7."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<9>; .shared .b32 s;
mov.u32 %r0, s; mov.u32 %r4, %cluster_ctarank; add.u32 %r5, %r4, 7;
st.shared.u32 [%r0], %r5;
barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r1, %r0, 1;
ld.shared::cluster.u32 %r2, [%r1];
barrier.cluster.arrive; barrier.cluster.wait;
ret; }
"""
    session = Session(warpsim.load(text)["k"], (2,), (1,), (np.zeros(4, np.uint32),), cluster=(2, 1, 1))
    session.break_at(12)
    session.cont()
    for cta in ((0, 0, 0), (1, 0, 0)):
        session.focus(cta=cta)
        origin = session.origin("%r2", 3)
        stored = next(source for source in origin.sources if source.what.startswith("shared"))

        assert origin.cta == cta
        assert (stored.cta, stored.line, stored.values[-1]) == ((1, 0, 0), 7, ("%r5", 8))


def test_the_origin_of_a_copy():
    """What an asynchronous copy brought comes from the step that started it."""
    session = session_of("gemm_ss_f16")
    session.break_at("op:wgmma.mma*", temporary=True)
    session.cont()

    session.focus(lane=5)
    origin = session.origin("shared.u16[0]")

    assert origin.instruction.startswith("cp.async.bulk.tensor.2d")
    assert origin.lane == 0  # one thread starts it, none of those that wait


def test_operands_of_a_narrow_wgmma():
    """B has the columns of its shape, other than A's rows; each element lies where the descriptor puts it."""
    text = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 r; .reg .b64 d; .reg .f32 f<4>; .reg .pred p; .shared .align 128 .b8 s[4096];
mov.u32 r, s; shr.u32 r, r, 4; cvt.u64.u32 d, r; or.b64 d, d, 0x1000080000;
setp.ne.u32 p, r, r; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, d, d, p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, d, d, p, 1, 1, 1, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }
"""
    session = Session(warpsim.load(text)["k"], 1, 128, (), checks="none")
    session.until("op:wgmma.mma*")

    assert "transposed" not in session.matrix("a").note
    assert session.matrix("a").values.shape == (64, 16)
    assert session.matrix("b").values.shape == (16, 8)
    assert session.matrix("b").owner(9, 3) == "shared 0xb2, bank 12"
    with pytest.raises(DebugError, match="16 x 8"):
        session.matrix("b").owner(0, 8)
    session.until("op:wgmma.commit_group*")
    session.until("op:wgmma.mma*")
    assert session.matrix("a").note.endswith(", transposed")
    assert "transposed" not in session.matrix("b").note
    session.until("op:wgmma.commit_group*")
    session.step()
    assert [f.until for f in session.in_flight()] == ["wgmma.wait_group: 1 in flight"]
