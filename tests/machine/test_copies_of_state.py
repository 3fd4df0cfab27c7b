"""The law of copies: a copy of a launch's state, at any step, runs on to the same end as the original.

It holds of kernels without asynchronous operations; what those have in flight is not part of the state yet.
"""

import copy
from pathlib import Path

import numpy as np
import pytest

from warpsim.host.cases import run_case
from warpsim.machine.engine import Run
from warpsim.machine.window import Watcher

ROOT = Path(__file__).parent.parent.parent
SHORT, DEAR = (
    ("saxpy", "histogram", "barrier_votes"),
    ("reduce_shfl", "softmax_rows", "deep_recursion", "device_heap", "work_queue"),
)
CASES = [
    pytest.param(ROOT / folder / name, marks=[pytest.mark.long] * (name in DEAR), id=name)
    for name in (*SHORT, *DEAR)
    for folder in ("programs", "tests/cases")
    if (ROOT / folder / name).exists()
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


@pytest.mark.parametrize("checks", ["none", "default"])
@pytest.mark.parametrize("path", CASES)
def test_a_copy_runs_to_the_same_end(path, checks):
    """Memory, counts, findings and printed text of a copy equal those of the original, which the copy leaves alone."""
    counter = Copier()
    run_case(path, checks=checks, watchers=[counter])
    steps = np.random.default_rng(counter.seen).integers(0, counter.seen, 3).tolist()
    copier = Copier(0, *steps)
    assert run_case(path, checks=checks, watchers=[copier]).bits_equal
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
