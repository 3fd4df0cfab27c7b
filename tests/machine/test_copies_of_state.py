"""The law of copies: a copy of a launch's state, at any step, runs on to the same end as the original."""

import copy
from pathlib import Path

import numpy as np
import pytest

from warpsim.host.cases import run_case
from warpsim.machine.engine import Run
from warpsim.machine.window import Watcher

ROOT = Path(__file__).parent.parent.parent
SHORT = ("saxpy", "histogram", "barrier_votes", "mma_f16_gemm", "gemm_fp8_scaled", "cluster_ring")
DEAR = sorted(
    path.parent.name for folder in ("programs", "tests/cases") for path in (ROOT / folder).glob("*/case.json")
)
CASES = [
    pytest.param(ROOT / folder / name, marks=[pytest.mark.long] * (name not in SHORT), id=name)
    for name in dict.fromkeys((*SHORT, *DEAR))
    for folder in ("programs", "tests/cases")
    if (ROOT / folder / name / "case.json").exists()
]


class Copier(Watcher):
    """Copies the state of a launch before the steps of these numbers."""

    def __init__(self, *steps):
        self.steps, self.seen = set(steps), 0
        self.copies, self.launch = [], None

    def step_before(self, machine, group, instruction):
        """Count, and copy."""
        self.launch = machine.launch
        if self.seen in self.steps:
            self.copies.append(copy.deepcopy(machine.launch))
        self.seen += 1


def memory_of(state):
    """The bytes of each allocation but the parameters, by address."""
    return {a.start: a.data.tobytes() for a in state.memory._allocations if a.name != "kernel parameters"}


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("path", CASES)
def test_a_copy_runs_to_the_same_end(path, effects):
    """Memory, counts, findings and printed text of a copy equal those of the original, which the copy leaves alone."""
    counter = Copier()
    run_case(path, checks="none", async_effects=effects, watchers=[counter])
    steps = np.random.default_rng(counter.seen).integers(0, counter.seen, 3).tolist()
    copier = Copier(0, *steps)
    run_case(path, checks="none", async_effects=effects, watchers=[copier])
    before = memory_of(copier.launch)

    assert len(copier.copies) == len({0, *steps})
    for state in copier.copies:
        assert Run(state).advance() is False
        assert memory_of(state) == before
        assert state.instructions == copier.launch.instructions
        assert state.counts == copier.launch.counts
        assert state.findings == copier.launch.findings
    assert memory_of(copier.launch) == before


def test_a_copy_is_its_own():
    """What runs on leaves a copy as it was."""
    copier = Copier(5)
    run_case(ROOT / "programs" / "histogram", watchers=[copier])
    (state,) = copier.copies
    again = copy.deepcopy(state)

    assert Run(state).advance() is False
    assert memory_of(again) != memory_of(state)
    assert again.instructions < state.instructions
