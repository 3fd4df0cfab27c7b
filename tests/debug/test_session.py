"""A session: motion forward and back, stops, values."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session, timeline

KERNELS = Path(__file__).parent / "kernels"
FAULTY = (KERNELS / "faulty.ptx").read_text()
CALLS = (KERNELS / "calls.ptx").read_text()
EXPECTED = [2 * (n if n < 40 else 7) for n in range(64)]


@pytest.fixture
def session():
    """A session on 64 threads of CALLS, with their array as ``session.out``."""
    out = np.zeros(64, np.uint32)
    made = Session(warpsim.load(CALLS)["k"], (1,), (64,), (out, 5))
    made.out = out
    return made


def lines(session, n):
    """The lines at which so many steps stop."""
    return [session.step().line for _ in range(n)]


def test_steps_follow_the_warp_in_focus(session):
    """A step is one instruction of the warp in focus; the other stands where it stood."""
    assert lines(session, 3) == [18, 19, 20]
    session.focus(warp=1)
    assert session.stop.line == 17
    assert lines(session, 2) == [18, 19]
    assert [(w.warp, w.line) for w in session.warps()] == [(0, 20), (1, 19)]


def test_steps_of_all_warps(session):
    """Without scheduler locking the others run on as they would."""
    session.scheduler_locking = "off"
    session.break_at(33)
    session.cont()
    where = {w.warp: w.line for w in session.warps()}
    session.delete()
    session.step()

    assert session.stop.reason == "step"
    assert {w.warp: w.line for w in session.warps()} != where


def test_a_step_over_a_barrier_waits_for_the_others(session):
    """The warp in focus comes behind the barrier as soon as the other has arrived."""
    stop = session.until(34)
    assert (stop.line, session.warps()[1].line) == (34, 17)
    assert session.step().line == 35
    assert session.warps()[1].line >= 34


def test_lanes_that_part(session):
    """Lanes of the other way are masked; a step goes with the lane in focus, and both meet again."""
    session.focus(warp=1, lane=20)
    assert session.until(22).line == 22
    values = session.registers["%r0"]
    assert values[8:].tolist() == list(range(40, 64))
    assert np.ma.getmaskarray(values)[:8].all()
    assert session.step().line == 24
    assert not np.ma.getmaskarray(session.registers["%r0"]).any()


def test_calls(session):
    """step goes into a function, next over it, finish out of it; where names the callers."""
    session.until("small")
    session.step()
    assert session.step().line == 7
    assert [(call.function, call.line) for call in session.where()] == [("twice", 7), ("k", 25)]
    assert session.finish().line == 26
    session.back()
    session.goto(session.stop.step)
    while session.stop.line != 25:
        session.back()
    assert session.next().line == 26
    with pytest.raises(DebugError, match="outermost"):
        session.finish()


def test_registers_are_kept(session):
    """What nothing reads again is there still, and an array is as wide as a warp."""
    session.until(24)

    assert session.evaluate("%r3").tolist() == [99] * 32
    assert "%r1" not in session.registers


@pytest.mark.parametrize("place", [33, "op:st.shared*", "small", "twice", 23])
def test_breakpoints(session, place):
    """Whoever comes to the place stops; every warp of its own."""
    point = session.break_at(place)
    first, second = session.cont(), session.cont()

    assert [stop.reason for stop in (first, second)] == ["breakpoint"] * 2
    assert {stop.focus.warp for stop in (first, second)} <= {0, 1}
    assert first.line in point.lines
    assert point.hits == 2


def test_conditions_and_counts(session):
    """A condition holds in some lane, which comes into focus; ignored and temporary stops."""
    session.break_at(26, condition="%tid.x == 45")
    stop = session.cont()
    assert (stop.focus.warp, stop.focus.lane) == (1, 13)
    session.delete()
    session.run()
    session.break_at(26, ignore=1, temporary=True)
    session.timeline.restart()
    assert session.cont().reason == "breakpoint"
    assert session.breakpoints == {}
    assert session.cont().reason == "end"


def test_the_end_hands_over(session):
    """Arrays hold what the kernel wrote once the end is reached, and the result is that of a launch."""
    stop = session.cont()

    assert stop.reason == "end"
    assert session.out.tolist() == EXPECTED
    plain = warpsim.load(CALLS)["k"]((1,), (64,), (np.zeros(64, np.uint32), 5))
    assert plain.opcodes == session.result.opcodes


def test_watched_memory(session):
    """A change of a shared variable stops behind the store, with old and new value; memory that is read likewise."""
    session.watch("s[41]")
    session.watch("s[41]", read=True, write=False)
    stop = session.cont()
    assert (stop.reason, stop.old, stop.new, stop.focus.warp) == ("watchpoint", 0, 14, 1)
    assert session.evaluate("s[41]") == 14
    assert session.cont().number == 2
    assert session.cont().reason == "end"


def test_watched_local_memory():
    """Local memory is the thread's in focus: of warp 1, lane 3, and of no other."""
    text = """.version 8.0\n.target sm_90a\n.address_size 64
    .visible .entry k(.param .u64 p) { .reg .b32 %r; .reg .b64 %d; .local .u32 mine;
    mov.u32 %r, %tid.x; st.local.u32 [mine], %r; ld.local.u32 %r, [mine]; ret; }"""
    session = Session(warpsim.load(text)["k"], (1,), (64,), (np.zeros(1, np.uint32),))
    session.focus(warp=1, lane=3)
    session.watch("mine")
    stop = session.cont()

    assert (stop.reason, stop.new) == ("watchpoint", 35)


def test_watched_registers(session):
    """A register of the warp in focus, of one lane, of any warp."""
    session.watch("%r0")
    stop = session.cont()
    assert (stop.focus.warp, stop.line) == (0, 19)
    session.run()
    session.delete()
    session.run()
    session.delete()
    session.timeline.restart()
    session.goto(0)
    session.focus(warp=1)
    session.watch("%r0[30]")
    assert [session.cont().new, session.cont().new] == [62, 7]
    with pytest.raises(DebugError, match="lane must be 0 to 31, not 32"):
        session.watch("%r0[32]")


def test_back_and_forth(session):
    """Going back undoes the last instruction of the warp in focus; the registers are those of before."""
    session.until(20)
    before = {name: values.copy() for name, values in session.registers.items()}
    assert session.step().line == 21
    assert session.back().line == 20
    assert before.keys() == session.registers.keys()
    assert all(np.array_equal(before[name], session.registers[name]) for name in before)
    assert session.back(100).step == 0


@pytest.mark.parametrize("stride", [1, 3, 1000])
def test_back_by_several(session, monkeypatch, stride):
    """So many instructions back at once is where one after the other leads, however many copies of the state there are."""
    monkeypatch.setattr(timeline, "SNAPSHOT_EVERY", 0)
    monkeypatch.setattr(timeline, "SNAPSHOT_SHARE", 0)
    monkeypatch.setattr(timeline, "STRIDE", stride)
    session.until(36)
    one_by_one = [session.back().step for _ in range(15)]
    for n in (2, 7, 15):
        session.goto(0)
        session.until(36)
        assert session.back(n).step == one_by_one[n - 1]
    here = session.stop.step
    assert (session.back(0).step, session.stop.step) == (here, here)


@pytest.mark.parametrize("limit", [0, 20_000, 1 << 20])
def test_history_is_bounded(monkeypatch, limit):
    """Copies of the state take no more than they may; going back is as exact with few of them as with many."""
    for name in ("SNAPSHOT_EVERY", "SNAPSHOT_SHARE", "STRIDE"):
        monkeypatch.setattr(timeline, name, 0)
    made = Session(warpsim.load(CALLS)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5), history_bytes=limit)
    made.cont()
    assert made.timeline.bytes <= limit
    assert bool(made.timeline.snapshots) == (limit > 0)
    made.goto(35)
    assert (made.stop.line, made.evaluate("s[1:4]").tolist()) == (29, [2, 4, 6])


def test_reverse_cont(session):
    """The last breakpoint or change before; the start where there is none."""
    session.break_at(19)
    session.cont()
    first = session.cont()
    session.delete()
    session.break_at(19)
    session.cont()
    back = session.reverse_cont()
    assert (back.reason, back.step, back.focus) == ("breakpoint", first.step, first.focus)
    assert session.reverse_cont().reason == "breakpoint"
    assert session.reverse_cont().step == 0


def test_back_to_a_change(session):
    """Going back stops before the step that made the change."""
    session.watch("s[3]")
    session.break_at(36)
    session.cont()
    session.cont()
    session.delete(2)
    stop = session.reverse_cont()

    assert (stop.reason, stop.line, session.evaluate("s[3]")) == ("watchpoint", 33, 0)
    assert session.step().reason == "watchpoint"
    assert session.evaluate("s[3]") == 6


def test_changes(session):
    """What a user sets is seen by the kernel, again when the launch comes there anew, and not before."""
    session.until(26)
    session.step()
    session.set("%r1", "%laneid + 1000")
    session.set("%r1[3]", 5)
    here = session.stop.step
    session.goto(2)
    session.goto(here)
    assert session.evaluate("%r1")[:4].tolist() == [1000, 1001, 1002, 5]
    session.break_at(34)
    session.cont()
    session.cont()
    session.set("s[0]", 77)
    session.delete()
    session.cont()
    assert session.out[:4].tolist() == [77, 1001, 1002, 5]
    assert EXPECTED[32:] == session.out[32:].tolist()


def test_values(session):
    """Special registers, parameters, variables, memory of each space, in the words of PTX and of CUDA."""
    session.break_at(34)
    session.cont()
    out = int(session.evaluate("out"))

    assert session.evaluate("n") == 5
    assert session.evaluate("threadIdx.x * 2 + n")[3] == 11
    assert session.evaluate("s[4:7]").tolist() == [8, 10, 12]
    assert session.evaluate("s.u8[16]") == 8
    assert session.evaluate("shared.u32[&s + 4 * %laneid]").tolist() == EXPECTED[:32]
    assert session.evaluate("%rd2 == out + 4 * %tid.x").all()
    assert session.evaluate("u32[out]") == 0
    assert session.memory("global", out, 8) == bytes(8)
    assert session.memory("shared", 4, 4) == (2).to_bytes(4, "little")
    assert session.memory("param", 8, 4) == (5).to_bytes(4, "little")
    session.delete()
    assert session.cont().reason == "end"
    assert session.memory("global", out, 8) == np.array(EXPECTED[:2], np.uint32).tobytes()


def test_arrays_that_are_set(session):
    """A float of any type is none of the integers that a register takes; what is no number is refused."""
    session.break_at(34)
    session.cont()
    for value in (ml_dtypes.bfloat16(3), ml_dtypes.float8_e4m3fn(2), 0.5):
        with pytest.raises(DebugError, match="takes integers of 32 bits"):
            session.set("%r1", np.full(32, value))
    for wrong in (np.array(b"ab"), np.array("a"), np.array(3 + 1j), np.zeros(1, "V3")):
        with pytest.raises(DebugError, match="not a number"):
            session.set("%r1", wrong)


def test_focus_is_checked(session):
    """There is no way to look at what does not exist."""
    for wrong in ({"warp": 9}, {"cta": (7, 7, 7)}, {"lane": 32}, {"warp": -1}, {"cta": (0, 0, 0, 0)}):
        with pytest.raises(DebugError):
            session.focus(**wrong)
    assert str(session.focus()) == "CTA (0,0,0), warp 0, lane 0"


@pytest.mark.parametrize("place", [0, 10**6, "nowhere", "a.cu:3", "op:tcgen*", "²", "5" * 5000, ""])
def test_places_that_do_not_exist(session, place):
    """A place that is none is refused, with what there is."""
    with pytest.raises(DebugError):
        session.break_at(place)
    assert session.breakpoints == {}


def test_findings_stop(session):
    """A finding stops before the instruction that makes it; going on ends the launch as a launch ends."""
    out = np.zeros(64, np.uint32)
    session = Session(warpsim.load(FAULTY)["k"], (1,), (64,), (out,))
    stop = session.cont()
    assert (stop.reason, stop.line, stop.finding.rule, stop.focus.warp) == ("finding", 12, "out-of-bounds", 1)
    assert session.findings == (stop.finding,)
    assert session.result is None
    assert session.evaluate("%rd2 - out")[31] == 63 * 4
    end = session.cont()
    assert (end.reason, end.finding.rule, session.error.findings[0].line) == ("end", "out-of-bounds", 12)
    assert session.back().line == 12
    assert session.reverse_cont().step == 0


def test_findings_that_are_collected(session):
    """Where findings are collected the launch goes on behind each."""
    out = np.zeros(64, np.uint32)
    session = Session(warpsim.load(FAULTY)["k"], (1,), (64,), (out,), on_finding="collect")
    assert session.cont().reason == "finding"
    assert session.cont().reason == "end"
    assert [f.rule for f in session.result.findings] == ["out-of-bounds"]


def test_a_deadlock_stops_where_it_is():
    """Who waits for whom can be looked at."""
    apart = "  bar.sync 0;\n  mov.u32 %r0, %tid.x;\n  setp.lt.u32 %p, %r0, 32;\n  @%p bar.sync 1;\n  @!%p bar.sync 2;"
    text = CALLS.replace("  bar.sync 0;", apart)
    session = Session(warpsim.load(text)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5))
    stop = session.cont()

    assert (stop.reason, stop.finding.rule) == ("finding", "barrier-divergence")
    assert [w.state for w in session.warps()] == ["waits at barrier 1", "waits at barrier 2"]
    assert session.cont().reason == "end"


def test_a_warp_alone_keeps_the_lane(session):
    """Of another warp the same lane is meant, if it has one."""
    session.focus(lane=31)
    assert str(session.focus(warp=1)) == "CTA (0,0,0), warp 1, lane 31"
    part = Session(session.kernel, (1,), (40,), (np.zeros(64, np.uint32), 5))
    part.focus(lane=7)
    assert str(part.focus(warp=1)) == "CTA (0,0,0), warp 1, lane 7"
    part.focus(warp=0, lane=8)
    assert str(part.focus(warp=1)) == "CTA (0,0,0), warp 1, lane 0"


def test_interrupts():
    """Whoever interrupts gets the launch where it is, and can go on and back."""
    text = CALLS.replace(
        "  bar.sync 0;", "  bar.sync 0;\nwait:\n  add.u32 %r3, %r3, 1;\n  setp.ne.u32 %p, %r3, 0;\n  @%p bra wait;"
    )
    session = Session(warpsim.load(text)["k"], (1,), (32,), (np.zeros(64, np.uint32), 5), max_seconds=60)
    import threading

    timer = threading.Timer(0.02, session.interrupt)
    timer.start()
    stop = session.cont()
    timer.join()

    assert stop.reason == "interrupted"
    assert session.back().step < stop.step


def test_a_goto_that_is_interrupted(session):
    """It says so, and has not arrived."""
    session.interrupt()
    stop = session.goto(20)
    assert (stop.reason, stop.step < 20) == ("interrupted", True)
    assert (session.goto(20).reason, session.stop.step) == ("step", 20)


def test_back_from_where_a_motion_was_interrupted(session):
    """A search that nobody interrupts is not taken for the motion before it, which somebody did."""
    for back in (session.reverse_cont, session.back):
        session.interrupt()
        assert (session.cont().reason, session.focus(warp=1).warp) == ("interrupted", 1)
        assert (back().reason, session.stop.step) == ("step", 0)


def test_back_to_a_warp_that_began_the_launch():
    """Warps that were put first have their steps where they took them, though another began there before."""
    session = Session(warpsim.load(CALLS)["k"], (1,), (256,), (np.zeros(256, np.uint32), 5))
    session.focus(warp=7)
    assert session.step(3).focus.warp == 7
    assert [session.back().step, session.back().step] == [2, 1]


def test_in_a_notebook(session):
    """A session shows where it stands, the text, and its registers; one that has ended, how."""
    session.until(24)
    shown = session._repr_html_()

    assert "k, CTA (0,0,0), warp 0, lane 0" in shown
    assert "<tr class=here><td class=no>24</td>" in shown
    assert '<th>%r3</th><td class=text colspan="32">99</td>' in shown
    session.cont()
    assert "ended after" in session._repr_html_()


def test_sums_that_stand_as_operands_are_no_registers():
    """``a+4`` is computed in a register that no text names: it is not among those of the function."""
    code = ".reg .b32 a; .reg .b64 q; mov.b32 a, 1; mov.b64 q, 2; add.u64 q, q+4, q; add.u32 a, a+-4, q+4;"
    text = f".version 8.7 .target sm_90 .address_size 64 .entry k() {{ {code} bar.sync 0; ret; }}"
    session = Session(warpsim.load(text)["k"], (1,), (32,), ())
    for _ in range(8):
        session.step()

    assert set(session.registers) == {"a", "q"}
    assert session.registers["a"][0] == (1 - 4 + 12) % 2**32


def test_the_outcome_before_the_end(session):
    """There is none, also where a session has gone back from the end."""
    with pytest.raises(DebugError, match="has not ended"):
        session.outcome()
    session.run()
    assert session.outcome() is session.result
    session.back()
    with pytest.raises(DebugError, match="has not ended"):
        session.outcome()


def test_a_register_that_is_only_read_is_not_written():
    """What a group has read is not listed among its registers, unless something wrote it."""
    lines = ".reg .u32 %r<4>;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nret;"
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n{lines}\n}}"
    session = Session(warpsim.load(text)["k"], (1,), (32,), (), checks=())
    session.step(2)

    assert set(session.registers) == {"%r2", "%r3"}
