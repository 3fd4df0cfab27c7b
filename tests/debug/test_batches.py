"""CTAs that a session runs side by side: its steps, and which CTA took which, are those of one warp after another."""

import random

import numpy as np
import pytest

import warpsim
from engines import compiles
from state_equality import seen
from warpsim.debug import Session, batches
from warpsim.debug.breakpoints import target_of
from warpsim.debug.places import writers

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[512];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd1, %rd2;
"""
BODIES = {
    "divergence": """
    mul.lo.u32 %r5, %r4, 7;
    and.b32 %r5, %r5, 13;
    mov.u32 %r6, 0;
LOOP:
    setp.ge.u32 %p1, %r6, %r5;
    @%p1 bra DONE;
    add.u32 %r6, %r6, 1;
    bra LOOP;
DONE:
    st.global.u32 [%rd3], %r6;
    ret;
""",
    "barriers": """
    shl.b32 %r5, %r1, 2;
    mov.u32 %r6, tile;
    add.u32 %r7, %r6, %r5;
    mov.u32 %r9, 0;
AGAIN:
    st.shared.u32 [%r7], %r4;
    bar.sync 0;
    xor.b32 %r8, %r5, 128;
    add.u32 %r8, %r6, %r8;
    ld.shared.u32 %r10, [%r8];
    add.u32 %r4, %r4, %r10;
    bar.sync 0;
    add.u32 %r9, %r9, 1;
    and.b32 %r11, %r2, 3;
    setp.le.u32 %p1, %r9, %r11;
    @%p1 bra AGAIN;
    st.global.u32 [%rd3], %r4;
    ret;
""",
    "reductions": """
    and.b32 %r5, %r4, 31;
    mul.wide.u32 %rd4, %r5, 4;
    add.u64 %rd5, %rd1, %rd4;
    red.global.add.u32 [%rd5], %r2;
    and.b32 %r6, %r2, 1;
    setp.eq.u32 %p1, %r6, 0;
    @%p1 bra DONE;
    red.global.add.u32 [%rd5], 3;
DONE:
    ret;
""",
    "atomics": """
    atom.global.exch.b32 %r5, [%rd1], %r4;
    st.global.u32 [%rd3+4], %r5;
    ret;
""",
    "early exits": """
    and.b32 %r5, %r4, 3;
    setp.eq.u32 %p1, %r5, 2;
    @%p1 ret;
    setp.lt.u32 %p2, %r2, 5;
    @%p2 bra DONE;
    st.global.u32 [%rd3], %r4;
DONE:
    ret;
""",
    "one order": """
    and.b32 %r5, %r4, 7;
    mul.wide.u32 %rd4, %r5, 4;
    add.u64 %rd5, %rd1, %rd4;
    ld.global.u32 %r6, [%rd5];
    add.u32 %r6, %r6, %r4;
    st.global.u32 [%rd5], %r6;
    ret;
""",
}
DEAR = {"reductions": []}
TOGETHER = {"divergence", "barriers", "reductions"}
GRIDS = {"barriers": (19, 1), "reductions": (3, 9)}


def going(name, engine, **options):
    """A session of a kernel."""
    kernel = warpsim.load(HEAD + BODIES[name] + "}\n")["k"]
    out = np.arange(4096, dtype=np.uint32)
    session = Session(kernel, GRIDS.get(name, (6, 4)), 96, (out,), engine=engine, checks=(), **options)
    session.stop_at_findings = False
    return session


def looks(session):
    """Where warps stand, however their lanes are grouped, and what memory holds."""
    warps, *memory, _ = seen(session)
    return {(at.cta, at.warp, at.line, at.state == "exited") for at in warps}, memory


@compiles
@pytest.mark.parametrize("name", [pytest.param(name, marks=DEAR.get(name, pytest.mark.long)) for name in BODIES])
def test_side_by_side(name, monkeypatch):
    """The end, states and the steps before them are found as one by one; CTAs ran side by side where nobody can tell."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    monkeypatch.setattr(batches, "PARTS", 2)
    alone, together = (going(name, engine) for engine in ("interpreter", "compiled"))

    assert together.run() == alone.run()

    assert any(warp < 0 for _, _, warp in together.timeline._turns) == (name in TOGETHER)
    first = {}
    for step, cta, _ in alone.timeline._turns:
        first.setdefault(cta, step)
    assert all(first.get(cta, alone.timeline.last) == s for cta, s in together.timeline._beginnings.items())
    last, generator = alone.timeline.last, random.Random(5)
    if name in TOGETHER:
        looked_at = together.timeline._slices((1, 1), last, 512)
        assert all(first[1] <= begin < end <= first[2] for begin, end in looked_at)
    for session in (alone, together):
        session.focus((1, 0, 0), 1)
    for _ in range(3):
        assert together.back() == alone.back()
        assert looks(together) == looks(alone)
    for _ in range(2):
        step = generator.randrange(last)
        assert together.goto(step) == alone.goto(step)
        assert looks(together) == looks(alone)
        assert together.back(2) == alone.back(2)
    for session in (alone, together):
        session.break_at("op:st.global*" if "st.global" in BODIES[name] else "op:red*", "%ctaid.x == 2 && %tid.x == 40")
    for move in (Session.cont, Session.reverse_cont, Session.run, Session.cont):
        assert move(together) == move(alone)
    place = f"global.u32[{alone.timeline.state.memory.allocations[0].start} + 28]"
    assert str(together.origin(place)) == str(alone.origin(place))
    for session in (alone, together):
        session.breakpoints.clear()
    assert together.cont() == alone.cont()
    assert together.result.instructions == alone.result.instructions


@compiles
def test_ctas_that_stand_out(monkeypatch):
    """A CTA of which a register is watched runs by itself, and so do all where threads that exit may stop the launch."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    monkeypatch.setattr(batches, "PARTS", 2)
    alone, together = sessions = [going("reductions", engine) for engine in ("interpreter", "compiled")]
    for session in sessions:
        session.goto(300)
        session.watch("%r5", scope="warp")
        session.goto(0)
    assert together.cont() == alone.cont()
    assert alone.stop.reason == "watchpoint"
    for session in sessions:
        session.delete()
        session.goto(0)
        session.break_at("op:ret", "%ctaid.y == 2 && %tid.x == 40")
    assert together.cont() == alone.cont()
    assert alone.stop.reason == "breakpoint"


def held(session):
    """What memory holds."""
    return [allocation.data.tobytes() for allocation in session.timeline.state.memory.allocations]


@compiles
def test_limits_and_changes_on_the_way(monkeypatch):
    """CTAs that run side by side pass neither a change that was made among them nor the limit of instructions."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    monkeypatch.setattr(batches, "PARTS", 2)
    alone, together = sessions = [going("reductions", e, max_instructions=1100) for e in ("interpreter", "compiled")]
    for session in sessions:
        session.goto(500)
        session.set(f"global.u32[{session.timeline.state.memory.allocations[0].start} + 28]", 12345)
        session.goto(0)
    assert together.cont() == alone.cont()
    assert any(warp < 0 for _, _, warp in together.timeline._turns)
    assert held(together) == held(alone)
    assert str(together.error) == str(alone.error)
    assert "more than 1100 warp-instructions" in str(alone.error)
    free = going("reductions", "compiled")
    free.run()
    tight = going("reductions", "compiled", max_instructions=free.result.instructions - 1)
    tight.run()
    assert "warp-instructions" in str(tight.error)


@compiles
@pytest.mark.long
@pytest.mark.parametrize("name", ["divergence", "reductions"])
def test_stops_where_threads_exit(name, monkeypatch):
    """A breakpoint at the last instruction is met by each warp."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    alone, together = (going(name, engine) for engine in ("interpreter", "compiled"))
    for session in (alone, together):
        session.break_at("op:ret", "%ctaid.x == 2 && %tid.x == 40")
    for move in (Session.cont, Session.cont, Session.reverse_cont):
        assert move(together) == move(alone)


def test_addresses_share_code():
    """Stops for whoever writes one word, and those for another, differ by a number that code is given."""
    session = going("divergence", "interpreter")
    first, state = session.timeline.state.memory.allocations[0].start, session.timeline.state
    one, other = (
        writers(target_of(session.context, f"global.u32[{first + at}]", "lane", read=False), state) for at in (4, 8)
    )
    assert one.stops == other.stops
    assert (one.watched, other.watched) == ((first + 4,), (first + 8,))


ROW = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
.reg .b32 %n, %s; .reg .b64 %a; .reg .pred %p; .shared .b32 s[64];
mov.u32 %n, 0; mov.u32 %s, s; cvt.u64.u32 %a, %s; cvta.shared.u64 %a, %a;
again: st.u32 [%a], %n; add.u64 %a, %a, 4; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 64; @%p bra again; ret;
}
"""


@compiles
def test_words_of_shared_memory(monkeypatch):
    """Each that is watched stops code that stores at generic addresses, also where others were watched before."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    session = Session(warpsim.load(ROW)["k"], 1, 32, (), engine="compiled")
    for words in (10, 20), (40, 50):
        points = [session.watch(f"shared.u32[{4 * word}]") for word in words]
        for word in words:
            stop = session.cont()
            assert (stop.reason, session.registers["%n"][0]) == ("watchpoint", word)
        for point in points:
            session.delete(point.number)
    assert session.cont().reason == "end"


@compiles
@pytest.mark.long
@pytest.mark.parametrize("space", ["", ".global"])
def test_words_that_are_watched(space, monkeypatch):
    """Code that is given two addresses stops where either word is written, and tells who wrote another one."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    monkeypatch.setitem(BODIES, "divergence", BODIES["divergence"].replace("st.global", f"st{space}"))
    alone, together = sessions = [going("divergence", engine) for engine in ("interpreter", "compiled")]
    for session in sessions:
        first = session.timeline.state.memory.allocations[0].start
        for word in 95, 383:
            session.watch(f"global.u32[{first + 4 * word}]")
    for reason in "watchpoint", "watchpoint", "end":
        assert together.cont() == alone.cont()
        assert alone.stop.reason == reason
    for session in sessions:
        session.goto(1500)
    one, other = (session.origin(f"global.u32[{first + 4 * 63}]") for session in sessions)
    assert (one.lane, one.step) == (other.lane, other.step) == (31, one.step)
