"""The law of sessions: forward to any step, back to another, on to the end: the same bytes, the same findings."""

import random
from pathlib import Path

import pytest

from warpsim.debug import Session, timeline
from warpsim.host.cases import Case, run_case
from warpsim.machine.state.equality import difference

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
        seen = []
        early, late = sorted(generator.randrange(plain.instructions or 100) for _ in range(2))
        for step in (early, late, early, late):
            session.goto(step)
            seen.append(session.timeline.state.copy())
        assert difference(seen[0], seen[2]) is None
        assert difference(seen[1], seen[3]) is None
        session.cont()
        if session.error is not None:
            raise session.error
        return session.result

    result = run_case(path, launch=launch)

    assert (result.ok, result.bits_equal) == (plain.ok, plain.bits_equal)
    assert rules(result) == rules(plain)


def test_snapshots_leave_no_trace(monkeypatch):
    """The state of a step does not depend on when snapshots were taken, which is a matter of time."""
    states = []
    monkeypatch.setattr(timeline, "STRIDE", 8)
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
