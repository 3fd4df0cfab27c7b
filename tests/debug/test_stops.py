"""Stops for events and rules, steps by CUDA lines, calls that are looked at, matrices that are watched."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session
from warpsim.debug.breakpoints import _some
from warpsim.host.cases import Case

KERNELS = Path(__file__).parent / "kernels"
PROGRAMS = Path(__file__).parents[2] / "programs"
CALLS, FAULTY = ((KERNELS / f"{name}.ptx").read_text() for name in ("calls", "faulty"))


@pytest.fixture
def session():
    """A session on 64 threads of CALLS."""
    return Session(warpsim.load(CALLS)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5))


def recorded(name, **options):
    """A session on a program of the gallery."""
    case = Case.read(PROGRAMS / name).prepare()
    return Session(case.kernel, case.grid, case.block, case.args, **case.keywords, **options)


def stops(session, n):
    """Why and where so many motions stop."""
    return [(s.reason, s.number, s.line, s.focus and s.focus.warp, s.event) for s in (session.cont() for _ in range(n))]


def test_barriers(session):
    """Each arrival stops, and the last one is where the barrier is complete; going back finds them again."""
    session.catch("arrival")
    session.catch("barrier")

    assert stops(session, 3) == [
        ("catchpoint", 1, 34, 0, "arrives at barrier 0"),
        ("catchpoint", 1, 35, 1, "arrives at barrier 0; barrier 0 is complete"),
        ("end", None, None, None, ""),
    ]
    assert [p.hits for p in session.breakpoints.values()] == [2, 1]
    back = session.reverse_cont()
    assert (back.reason, back.line, back.focus.warp) == ("catchpoint", 34, 1)
    assert session.reverse_cont().focus.warp == 0


def test_completions():
    """Copies are complete when their mbarrier has counted them, visible when a thread has found its phase over; wgmma are
    complete when they have been waited for."""
    session = recorded("gemm_tma")
    for name in ("async", "phase", "visible"):
        session.catch(name)
    first = [session.cont() for _ in range(3)]

    assert ["mbarrier has counted" in stop.event for stop in first] == [True, True, False]
    assert "is visible" in first[2].event
    assert first[2].event.endswith("full is over")
    session.delete()
    session.break_at("op:wgmma.wait_group*")
    session.cont()
    session.delete()
    session.catch("async")
    stop = session.cont()
    assert stop.event == "wgmma have completed: the warpgroup has waited for them"
    assert not any(each.registers for each in session.in_flight())


def test_rules(session):
    """One rule stops where findings in general do not; a rule that nobody looks for, and no rule at all, are refused."""
    session = Session(warpsim.load(FAULTY)["k"], (1,), (64,), (np.zeros(64, np.uint32),), on_finding="collect")
    session.stop_at_findings = False
    session.catch("uninitialised")
    session.catch("out-of-bounds")
    stop = session.cont()

    assert (stop.reason, stop.number, stop.finding.rule, stop.line) == ("finding", 2, "out-of-bounds", 12)
    assert session.cont().reason == "end"
    back = session.reverse_cont()
    assert (back.reason, back.number, back.finding.rule, back.step) == ("finding", 2, "out-of-bounds", stop.step)
    with pytest.raises(DebugError, match="checks='default\\+race'"):
        session.catch("race")
    with pytest.raises(DebugError, match="events: arrival, barrier, phase, async, visible"):
        session.catch("nonsense")


def test_cuda_lines():
    """A step by line runs to the next line that was compiled to something else; back to its start, as exactly."""
    session = recorded("saxpy")
    steps = [session.stop.step]
    lines = [session.stop.source[1]]
    while session.step(by="line").reason == "step" and len(steps) < 7:
        steps.append(session.stop.step)
        lines.append(session.stop.source[1])

    assert lines[:6] == [2, 3, 4, 3, 4, 5]
    session.goto(steps[5])
    assert [session.back(by="line").step for _ in range(5)] == steps[4::-1]
    session.goto(steps[4] + 2)
    assert session.back(by="line").step == steps[4]
    assert session.next(2, by="line").reason == "step"


def test_a_search_that_is_interrupted(monkeypatch):
    """Whoever interrupts the search for where a line began stands where the session stood."""
    session = recorded("saxpy")
    for _ in range(5):
        session.step(by="line")
    timeline, at, searches = session.timeline, session.stop.step, []
    latest = timeline.latest

    def interrupted(hit, **given):
        searches.append(hit)
        if len(searches) == 2:
            timeline.interrupt()
        return latest(hit)

    monkeypatch.setattr(timeline, "latest", interrupted)
    stop = session.back(by="line")
    assert (stop.reason, stop.step, len(searches)) == ("interrupted", at, 2)


def test_no_cuda_lines(session):
    """A module without them says so."""
    with pytest.raises(DebugError, match="-lineinfo"):
        session.step(by="line")
    with pytest.raises(DebugError, match="not 'inch'"):
        session.step(by="inch")


def test_lines_of_called_functions():
    """A step by line goes into functions that have lines, the next line is that behind the call."""
    text = CALLS.replace("{\n  .reg .u32 %x<2>;", "{\n  .reg .u32 %x<2>;\n  .loc 1 3 1", 1)
    text = text.replace("  ld.param.u64 %rd0, [out];", "  .loc 1 10 1\n  ld.param.u64 %rd0, [out];")
    text = text.replace("  ld.param.u32 %r1, [b];", "  .loc 1 12 1\n  ld.param.u32 %r1, [b];") + '.file 1 "twice.cu"\n'
    session = Session(warpsim.load(text)["k"], (1,), (64,), (np.zeros(64, np.uint32), 5))
    assert session.step(by="line").source == ("twice.cu", 3)
    assert len(session.where()) == 2
    session.goto(0)
    assert session.next(by="line").source == ("twice.cu", 12)


def test_calls_that_are_looked_at(session):
    """Registers, variables and changes are those of the call that was chosen, until the launch moves."""
    session.break_at("twice")
    session.cont()
    assert "%r0" not in session.registers
    assert session.select(1).function == "k"
    assert session.registers["%r0"].tolist() == list(range(32))
    session.focus(lane=5)
    session.select(1)
    assert session.evaluate("%r3 + a")[0] == 99 + 5
    session.set("%r3", 3)
    session.set("%r3[7]", 4)
    assert session.evaluate("%r3")[6:8].tolist() == [3, 4]
    assert "%x0" not in session.registers
    session.select(0)
    with pytest.raises(DebugError, match="frames: 0 to 1"):
        session.select(2)
    session.finish()
    assert (session.frame, session.evaluate("%r3")[6:8].tolist()) == (0, [3, 4])
    session.back()
    assert (session.frame, session.stop.line) == (0, 10)
    session.step()
    assert session.evaluate("%r3")[6:8].tolist() == [3, 4]


@pytest.mark.long
def test_watched_tiles():
    """A tile of a matrix stops where one of its elements changes; others do not."""
    session = recorded("mma_f16_gemm")
    session.break_at("op:mma.sync*")
    at = session.cont().step
    session.delete()
    session.watch("matrix d[3,7]")
    first = session.cont()
    assert (first.step, first.event.split(" to ")[0]) == (at + 1, "d[3,7] (lane 15, %f303): 0.0")
    assert first.new.shape == (1, 1)
    session.watch("matrix a[0:8,0:8]")
    assert session.cont().event.startswith("d[3,7]")
    stop = session.cont()
    assert stop.event.endswith("63 elements more")
    assert session.reverse_cont().step == stop.step - 1
    for wrong in ("matrix", "matrix a[0:99,0]", "matrix q", "matrix a[5:2,0]"):
        with pytest.raises(DebugError):
            session.watch(wrong)


@pytest.mark.parametrize("name", ["gemm_sparse"])
def test_sparse_matrices(name):
    """A as the metadata expand it is what is multiplied: half of it holes, and D = A B + C."""
    session = recorded(name)
    session.break_at("op:*mma*sp*")
    session.cont()
    a, b, c = (session.matrix(operand) for operand in "abc")
    holes = np.ma.getmaskarray(a.values)
    assert holes.reshape(16, -1, 4).sum(axis=2).tolist() == np.full((16, a.values.shape[1] // 4), 2).tolist()
    row, column = (int(i[0]) for i in np.nonzero(holes))
    assert "not stored" in a.owner(row, column)
    stored = session.matrix("a_stored")
    assert a.owner(0, int(np.flatnonzero(~holes[0])[0])) == stored.owner(0, 0)
    product = np.ma.filled(a.values.astype(np.float64), 0) @ np.asarray(b.values, np.float64) + c.values
    session.step()
    assert np.allclose(session.matrix("d").values, product, atol=1e-3)


def test_lists_of_names():
    """Eight are named, and how many there are besides."""
    names = {f"n{k}" for k in range(9)}

    assert _some(names) == "n0, n1, n2, n3, n4, n5, n6, n7 and 1 more"
    assert _some(names - {"n3"}) == "n0, n1, n2, n4, n5, n6, n7, n8"
    assert _some(set()) == "none"


def test_back_past_a_wait_that_nobody_passes():
    """A poll that finds the phase running is no event: the way back from the hang leads to what changed the mbarrier."""
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry k() { .reg .b32 %at; .reg .pred %p; .shared .align 8 .b64 full;
    mov.u32 %at, full;
    mbarrier.init.shared.b64 [%at], 33;
    mbarrier.arrive.shared.b64 _, [%at];
    wait: mbarrier.try_wait.parity.shared.b64 %p, [%at], 0;
    @!%p bra wait; ret; }"""
    session = Session(warpsim.load(text)["k"], 1, 32, ())
    assert session.cont().finding.rule == "mbarrier"

    session.watch("full")
    assert (session.reverse_cont().reason, session.stop.line) == ("watchpoint", 5)
