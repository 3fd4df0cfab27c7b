"""The law of copies: a copy of a launch's state, at any step, runs on to the same end as the original."""

import contextlib
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import warpsim
from state_equality import difference, equal
from warpsim.checks.cells import Log
from warpsim.checks.watchers import watchers_of
from warpsim.errors import ExecutionError
from warpsim.host.cases import run_case
from warpsim.machine.engine import Run
from warpsim.machine.watcher import Watcher

ROOT = Path(__file__).parent.parent.parent
MODES = [("eager", "none"), ("at_wait", "none"), ("eager", "all"), ("at_wait", "all")]
SHORT = {
    "saxpy": MODES[2:3],
    "histogram": MODES[2:3],
    "copy_pipeline": MODES[3:],
}
CASES = [
    pytest.param(
        path.parent,
        *mode,
        marks=[pytest.mark.sweep] * (mode not in SHORT.get(path.parent.name, ())),
        id="-".join((path.parent.name, *mode)),
    )
    for folder in ("programs", "tests/cases")
    for path in sorted((ROOT / folder).glob("*/case.json"))
    for mode in MODES
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
            self.copies.append(machine.launch.copy())
        self.seen += 1


class AtTheEnd(Watcher):
    """Keeps the state in which a launch ends, be it by what was found last."""

    def finding(self, machine, group, finding):
        """Copy it: no other may follow."""
        self.state = machine.launch.copy()

    def launch_ended(self, launch):
        """Copy it."""
        self.state = launch.copy()


def run(path, *watchers, effects, checks):
    """Run a case to its end, whatever is found."""
    return run_case(path, checks=checks, on_finding="collect", async_effects=effects, watchers=list(watchers))


def run_on(state):
    """Run a state to its end: that."""
    end = AtTheEnd()
    with contextlib.suppress(ExecutionError):  # as the original ended, then
        assert Run(state, [*watchers_of(state), end]).advance() is False
    return end.state


@pytest.mark.parametrize(("path", "effects", "checks"), CASES)
def test_a_copy_runs_to_the_same_end(path, effects, checks):
    """At any step, with what is in flight and with what is known of races: registers, memory, findings, text and all that
    watchers know are those of the original in the end, which the copy leaves alone."""
    counter = Copier()
    run(path, counter, effects=effects, checks=checks)
    steps = np.random.default_rng(counter.seen).integers(0, counter.seen, 2).tolist()
    copier, end = Copier(0, *steps), AtTheEnd()
    run(path, copier, end, effects=effects, checks=checks)

    assert len(copier.copies) == len({0, *steps})
    for state in copier.copies:
        assert difference(run_on(state), end.state) is None


@pytest.mark.parametrize("name", ["gemm_fp8_scaled", pytest.param("mma_f16_gemm", marks=pytest.mark.long)])
def test_a_state_is_written_and_read(name):
    """Bytes of a state give a state that is equal and runs on to the same end, with copies and products in flight."""
    path = ROOT / "programs" / name
    copier, end = Copier(150, 250, 350), AtTheEnd()
    run(path, copier, end, effects="at_wait", checks="all")
    assert any(batch.transfers.open for state in copier.copies for batch in state.batches)

    for state in copier.copies:
        again = pickle.loads(pickle.dumps(state))
        assert difference(again, state) is None
        assert difference(run_on(again), end.state) is None


def test_a_copy_is_its_own():
    """What runs on leaves a copy as it was."""
    copier = Copier(5)
    run(ROOT / "programs" / "histogram", copier, effects="eager", checks="all")
    (state,) = copier.copies
    again, kept = copy.deepcopy(state), copy.deepcopy(state)
    assert equal(again, state)

    end = run_on(state)
    assert not equal(again, end)
    assert equal(again, kept)


class Looks(Watcher):
    """Copies the state before the third step, and looks at the bytes then and at the end."""

    def __init__(self):
        self.seen = 0

    def step_before(self, machine, group, instruction):
        """Copy, and look."""
        self.seen += 1
        if self.seen == 3:
            self.copied = machine.launch.copy()
            self.then = self.shares(machine)

    def batch_ended(self, machine):
        """Look."""
        self.now = self.shares(machine)

    def shares(self, machine):
        """Whether the copy has its bytes of global and of shared memory in common with the launch."""
        (batch,) = self.copied.batches
        (mine,), (theirs,) = self.copied.memory.allocations, machine.launch.memory.allocations
        return mine.data is theirs.data, batch.shared.words is machine.batch.shared.words


def test_a_copy_has_its_own_bytes_only_of_what_was_written_since():
    """Arrays of megabytes cost nothing in a snapshot, until one side writes; then the copy holds what was there."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 a; .reg .b32 v; .shared .b32 s; ld.param.u64 a, [p]; mov.u32 v, 5;
mov.u32 v, 6; st.global.u32 [a], v; st.shared.u32 [s], v; ret; }"""
    looks, array = Looks(), np.zeros(1 << 20, np.uint32)
    warpsim.load(text)["k"](1, 1, (array,), watchers=[looks], device=warpsim.Device("sm_90"))
    (batch,) = looks.copied.batches

    assert (looks.then, looks.now) == ((True, True), (False, False))
    assert array[0] == 6
    assert not looks.copied.memory.allocations[0].data.any()
    assert not batch.shared.words.any()


def test_entries_of_a_log():
    """Copies of a log share entries; each has those up to its own end, and no others, however they are asked for."""
    log = Log("a", "b")
    shorter = copy.deepcopy(log)
    log.append("c")

    assert (list(shorter), len(shorter), shorter[-1], shorter[0:9]) == (["a", "b"], 2, "b", ["a", "b"])
    for index in (2, -3):
        with pytest.raises(IndexError):
            shorter[index]
    shorter.append("d")
    assert (list(log), list(shorter)) == (["a", "b", "c"], ["a", "b", "d"])
    assert "c" not in pickle.loads(pickle.dumps(shorter))


class Back(Watcher):
    """Goes back once, from one step to another."""

    def __init__(self, to, at):
        self.to, self.at, self.seen = to, at, 0
        self.then = self.differs = None

    def step_before(self, machine, group, instruction):
        """Copy at the first step; at the second, pause."""
        if self.seen == self.to:
            self.then = machine.launch.copy()
        machine.hooks.pausing |= self.seen == self.at
        self.seen += 1


def test_back_in_the_arrays_of_the_caller():
    """Going back restores what is mapped, in place."""
    from warpsim.host.arguments import pack
    from warpsim.machine.state.launch import LaunchState, Settings

    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 a; .reg .b32 v; ld.param.u64 a, [p]; ld.global.u32 v, [a];
add.u32 v, v, 1; st.global.u32 [a], v; add.u32 v, v, 1; st.global.u32 [a], v; ret; }"""
    module, device, array = warpsim.load(text), warpsim.Device("sm_90"), np.full(1, 40, np.uint32)
    mapped = []
    params = pack(module["k"].function, (array,), device, mapped)
    plan = module.image(device).plan("k")
    state = LaunchState(plan, (1, 1, 1), (1, 1, 1), params, device.memory, device.spec, Settings())
    back = Back(3, 6)

    assert Run(state, [back]).advance()
    assert array[0] == 42
    state.restore(back.then)
    assert array[0] == 40
    assert equal(state.copy(), back.then)
    assert Run(state).advance() is False
    assert array[0] == 42
    state.release()
