"""The law of sessions: forward to any step, back to another, on to the end: the same bytes, the same findings."""

import random
from pathlib import Path

import numpy as np
import pytest

import random_kernels
import warpsim
from random_kernels import WORDS
from state_equality import difference
from warpsim.debug import Session, timeline
from warpsim.host.cases import Case, run_case

ROOT = Path(__file__).parents[2]
SAMPLE = ("saxpy", "barrier_votes", "gemm_sparse_f16", "box_2d_128b")
LARGEST = 10**6
CASES = [
    pytest.param(path.parent, marks=[] if path.parent.name in SAMPLE else [pytest.mark.sweep], id=path.parent.name)
    for folder in ("programs", "tests/cases")
    for path in sorted((ROOT / folder).glob("*/case.json"))
]


def rules(result):
    """The findings of a run, but for how often each was met: that depends on which warps go together."""
    return sorted((f.rule, f.severity, f.line) for f in result.findings)


def seen(session):
    """What a user can see: where warps stand, what memory and registers hold. A register that nothing has written is left
    out or 0."""
    state, warps = session.timeline.state, session.warps()
    memory = [allocation.data.tobytes() for allocation in state.memory.allocations]
    shared = [batch.shared.words.tobytes() for batch in state.batches]
    registers = {}
    for at in warps:
        session.focus(at.cta, at.warp, int(at.lanes.replace(",", "-").split("-")[0]))
        values = {name: np.ma.getdata(v)[~np.ma.getmaskarray(v)] for name, v in session.registers.items()}
        registers[at] = {name: v.tobytes() for name, v in values.items() if any(v.tobytes())}
    return warps, memory, shared, registers


@pytest.mark.parametrize("path", CASES)
def test_there_and_back(path):
    """A recorded launch under a session that goes to and fro gives what the launch gives."""
    plain = run_case(path)
    if plain.instructions > LARGEST:
        pytest.skip("too many instructions")

    def launch(kernel, grid, block, args, **options):
        session = Session(kernel, grid, block, args, **options)
        session.stop_at_findings = False
        generator = random.Random(plain.instructions)
        looks = []
        early, late = sorted(generator.randrange(plain.instructions or 100) for _ in range(2))
        for step in (early, late, early, late):
            session.goto(step)
            looks.append(seen(session))
        assert looks[:2] == looks[2:]
        session.cont()
        if session.error is not None:
            raise session.error
        return session.result

    result = run_case(path, launch=launch)

    assert (result.ok, result.bits_equal) == (plain.ok, plain.bits_equal)
    assert rules(result) == rules(plain)


def going(path, engine):
    """A session of a recorded launch that runs past findings."""
    ready = Case.read(path).prepare()
    session = Session(ready.kernel, ready.grid, ready.block, ready.args, **{**ready.keywords, "engine": engine})
    session.stop_at_findings = False
    return session


BETWEEN_STOPS = {"saxpy": [], "barrier_votes": [], "scan_lookback": [pytest.mark.long]}


@pytest.mark.parametrize(
    "path",
    [pytest.param(*p.values, marks=BETWEEN_STOPS.get(p.id, [pytest.mark.sweep]), id=p.id) for p in CASES],
)
def test_compiled_code_between_stops(path, monkeypatch):
    """Compiled code brings a session to the same states at the same steps as the interpreter, step by step."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    if run_case(path).instructions > LARGEST:
        pytest.skip("too many instructions")
    stepped, compiled = going(path, "interpreter"), going(path, "compiled")
    assert stepped.timeline.forward(hit=lambda *step: 0) == "end"
    last = stepped.timeline.last
    generator = random.Random(last)
    for step in sorted(generator.randrange(last) for _ in range(6)):
        stepped.timeline.restart()
        assert stepped.timeline.forward(step, hit=lambda *step: 0) == "target"
        stepped.goto(step)
        assert compiled.goto(step) == stepped.stop
        assert seen(compiled) == seen(stepped)
        compiled.focus(stepped.stop.focus.cta, stepped.stop.focus.warp, stepped.stop.focus.lane)
        stepped.focus(stepped.stop.focus.cta, stepped.stop.focus.warp, stepped.stop.focus.lane)
        assert compiled.back() == stepped.back()
    assert (compiled.cont().step, stepped.cont().step) == (last, last)
    if stepped.error is None:
        assert compiled.result.instructions == stepped.result.instructions


def of_random_kernel(made, engine):
    """A session of a random kernel that runs past findings."""
    given, work = np.arange(4 * WORDS, dtype=np.uint32) * 2654435761, np.zeros(WORDS, np.uint32)
    out = np.zeros(made.grid * made.block[0] * made.block[1], np.uint32)
    options = {"checks": made.checks, "on_finding": "collect", "max_instructions": 200_000, "engine": engine}
    cluster = (made.cluster,) if made.cluster else None
    kernel = warpsim.load(made.text)["k"]
    session = Session(kernel, (made.grid,), made.block, (given, work, out), cluster=cluster, **options)
    session.stop_at_findings = False
    return session


@pytest.mark.parametrize(
    "seed", [4, 5, 14, 16, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 6, 9, 15))]
)
def test_compiled_code_between_stops_of_random_kernels(seed, monkeypatch):
    """The same for kernels that diverge, call, wait and fail."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    stepped, compiled = (
        of_random_kernel(random_kernels.kernel(seed), engine) for engine in ("interpreter", "compiled")
    )
    stepped.timeline.forward(hit=lambda *step: 0)
    last, error = stepped.timeline.last, str(stepped.timeline.error)
    generator = random.Random(last)
    for step in sorted(generator.randrange(last) for _ in range(4)):
        stepped.timeline.restart()
        stepped.timeline.forward(step, hit=lambda *step: 0)
        stepped.goto(step)
        assert compiled.goto(step) == stepped.stop
        assert seen(compiled) == seen(stepped)
    assert (compiled.cont().step, str(compiled.error)) == (last, error)


def test_many_steps_are_single_steps():
    """``step(n)`` ends where ``n`` steps end, also where the thread in focus exits on the way."""
    path = ROOT / "programs" / "saxpy"
    single = going(path, "interpreter")
    stops = [single.step() for _ in range(70)]
    for n in (1, 7, 19, 20, 21, 41, 70):
        assert going(path, "interpreter").step(n) == stops[n - 1]


def test_snapshots_leave_no_trace(monkeypatch):
    """The state of a step does not depend on when snapshots were taken, which is a matter of time."""
    states = []
    monkeypatch.setattr(timeline, "STRIDE", 8)
    monkeypatch.setattr(timeline, "BETWEEN_LOOKS", 0)
    monkeypatch.setattr(timeline, "SNAPSHOT_SHARE", 0)
    for every in (0, 1e9):
        monkeypatch.setattr(timeline, "SNAPSHOT_EVERY", every)
        ready = Case.read(ROOT / "tests" / "cases" / "merges").prepare()
        session = Session(ready.kernel, ready.grid, ready.block, ready.args, **ready.keywords)
        session.goto(200)
        states.append((len(session.timeline.snapshots), session.timeline.state))
    (many, one), (few, other) = states

    assert (many > 10, few) == (True, 0)
    assert difference(one, other) is None
