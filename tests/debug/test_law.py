"""The law of sessions: forward to any step, back to another, on to the end: the same bytes, the same findings."""

import random
from pathlib import Path

import pytest

from warpsim.debug import Session
from warpsim.host.cases import run_case
from warpsim.machine.state.equality import equal

ROOT = Path(__file__).parents[2]
SAMPLE = ("saxpy", "histogram", "barrier_votes", "flag_rings", "gemm_sparse_f16", "box_2d_128b")
LARGEST = 10**6
CASES = [
    pytest.param(path.parent, marks=[] if path.parent.name in SAMPLE else [pytest.mark.long], id=path.parent.name)
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
        last = session.cont().step
        generator = random.Random(last)
        early, late = sorted(generator.randrange(last) for _ in range(2))
        session.goto(late)
        session.goto(early)
        there = session.timeline.state.copy()
        session.goto(late)
        assert session.goto(early).step == early
        assert equal(session.timeline.state, there)
        assert session.cont().step == last
        if session.error is not None:
            raise session.error
        return session.result

    result = run_case(path, launch=launch)

    assert (result.ok, result.bits_equal) == (plain.ok, plain.bits_equal)
    assert rules(result) == rules(plain)
