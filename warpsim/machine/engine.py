"""The engine: runs a launch from any step boundary, group by group, until it ends or a watcher requests a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from warpsim.errors import ExecutionError
from warpsim.machine import shuffled
from warpsim.machine.asynchrony import transfers
from warpsim.machine.binding.step_events import with_register_events
from warpsim.machine.fatal import act_before
from warpsim.machine.hooks import Hooks, Listener
from warpsim.machine.machine import Bodies, Machine
from warpsim.machine.plan import ATTEND, BoundBlock, End, Step
from warpsim.machine.stalled import arrive_apart, deadlock
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.waiting import back_edge, pass_time, wake
from warpsim.machine.waves import all_begun, next_batch

Progress = Callable[[int, int, int], object]


class Compiled(Protocol):
    """Machine code for a launch (`warpsim.native`)."""

    def advance(
        self, machine: Machine, group: Group, limit: tuple[int, tuple[int, ...]] | None, room: int | None = None
    ) -> bool:
        """Run the code for a group's place up to ``limit``, for at most ``room`` warp-instructions; False if there is none.
        Block -1: its parts replaced it."""

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which code may begin, else ``last``."""

    def joined(self, state: LaunchState) -> int:
        """How many waves of CTAs may begin as one batch, because code is likely to run their threads to the end."""

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run all threads of a batch from the kernel's first instruction to its last; else False, and nothing was run."""

    def over(self) -> None:
        """Note that the launch is over."""

    @property
    def units(self) -> bool:
        """Whether there is code for steps, not only for bodies of instructions."""

    @property
    def bodies(self) -> Bodies:
        """What computes in place of the bodies."""


ANY = 1 << 62
REPORT_EVERY = 0.5
TURNS_ALONE = 64
"""In a random order, how many times a loop may run before others."""


class Run:
    """A running launch: its state, its watchers, and the machine of each of its batches.

    ``progress(instructions, finished CTAs, all CTAs)`` is called every half second. ``compiled`` runs as many of a
    group's steps as it can.
    """

    def __init__(
        self,
        state: LaunchState,
        watchers: Iterable[Listener] = (),
        progress: Progress | None = None,
        compiled: Compiled | None = None,
    ) -> None:
        self.state = state
        in_order = compiled is not None and compiled.units and state.schedule is None
        self.compiled = compiled if in_order else None
        self.bodies = None if compiled is None else compiled.bodies
        self.hooks = Hooks(watchers)
        self.progress = progress
        self.room = ANY
        """For how many warp-instructions compiled code may go on before the next step."""
        self._machines: dict[int, Machine] = {}
        self._next_report = time.monotonic() + 2.0
        seconds = state.settings.max_seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._told = self.hooks.step_before is not None or self.hooks.step_after is not None
        registers = self.hooks.registers_read is not None or self.hooks.registers_written is not None
        self._telling: dict[BoundBlock, tuple[list[Step], End]] | None = {} if registers else None

    def machine(self, batch: BatchState) -> Machine:
        """The machine through which the steps of a batch act."""
        found = self._machines.get(id(batch))
        if found is None:
            found = self._machines[id(batch)] = Machine(self.state, batch, self.hooks, self.bodies)
        return found

    # ---- rounds and turns --------------------------------------------------------------------

    def advance(self) -> bool:
        """Run until the launch ends, or a watcher requests a pause: then True, with the state before the next step."""
        state = self.state
        with np.errstate(all="ignore"):
            while True:
                if state.running is not None:
                    machine = self.machine(state.turns[0])
                    try:
                        if self._run_group(machine, state.running):
                            return True
                    except ExecutionError:
                        act_before(machine)
                        raise
                    state.running = None
                    if not machine.batch.runnable:
                        wake(machine)
                if state.turns:
                    self._turn()
                elif not self._round():
                    return False

    def _turn(self) -> None:
        """The first batch's turn: run its next group, or note that nothing of it can run."""
        state = self.state
        if state.preferred is not None:
            self._bring_forward(state.preferred)
        machine = self.machine(state.turns[0])
        if not state.entered:
            wake(machine)
            state.entered = True
        if machine.batch.runnable:
            schedule = None if state.settings.by_warp else state.schedule
            group = machine.take() if schedule is None else shuffled.take(machine, schedule)
            machine.batch.generation, group.turn = group.generation, None
            state.mark = state.memory.version
            state.running, state.moved = group, True
            return
        batch, state.entered = state.turns.pop(0), False
        if not machine.waits():
            transfers.finish(machine)
            if self.hooks.batch_ended is not None:
                self.hooks.batch_ended(machine)
            state.batches = [other for other in state.batches if other is not batch]
            state.done_ctas += batch.shape.n_ctas
            state.moved = True
            del self._machines[id(batch)]

    def _bring_forward(self, preferred: tuple[int, int]) -> None:
        """Make the batch with the preferred warp the first in turn, if that warp can run."""
        state = self.state
        for batch in state.turns[1:]:
            machine = self.machine(batch)
            if any(machine.number_of(group) == preferred for group in batch.runnable):
                state.turns = [batch, *[other for other in state.turns if other is not batch]]
                state.entered = False
                return

    def _round(self) -> bool:
        """Begin the next round after every batch has had its turn; False at the end of the launch."""
        state = self.state
        if not state.started and self.hooks.launch_began is not None:
            self.hooks.launch_began(state)
        begun = self._begin_wave()
        if state.started and not (begun or state.moved or state.memory.version != state.version):
            machines = [self.machine(batch) for batch in state.batches]
            if machines and not (pass_time(machines) or arrive_apart(machines)):
                deadlock(machines)
        if not state.batches:
            if self.hooks.launch_ended is not None:
                self.hooks.launch_ended(state)
            return False
        state.started, state.moved, state.version = True, False, state.memory.version
        state.turns = list(state.batches)
        return True

    def _begin_wave(self) -> bool:
        """Start the next batch, if there is one."""
        state, code = self.state, self.compiled
        if all_begun(state):
            return False
        joined = 1 if code is None or state.batches else code.joined(state)
        if code is not None and joined > 1:
            batch, waves = next_batch(state, joined)
            machine = self._begin(batch)
            if code.run_through(machine, machine.batch.runnable[0]):
                state.waves += waves
                self._look_at_clock(machine, machine.batch.runnable[0])
                return True
            state.batches.pop()  # these CTAs run wave by wave
            del self._machines[id(batch)]
        batch, waves = next_batch(state)
        state.waves += waves
        self._begin(batch)
        return True

    def _begin(self, batch: BatchState) -> Machine:
        machine = self.machine(batch)
        if self.hooks.batch_began is not None:
            self.hooks.batch_began(machine)
        if self.hooks.cta_began is not None:
            self.hooks.cta_began(machine, np.arange(batch.shape.n_ctas))
        machine.start(self.state.plan.main)
        self.state.batches.append(batch)
        return machine

    # ---- a group -----------------------------------------------------------------------------

    def _run_group(self, machine: Machine, group: Group) -> bool:  # noqa: C901  the innermost loop: no calls
        """Run a group until another comes before it; True for a pause."""
        state, batch, told = self.state, machine.batch, self._told
        before, after, compiled = self.hooks.shadowed_before, self.hooks.shadowed_after, self.compiled
        telling = self._telling
        waiting = len(batch.runnable)
        limit = machine.limit(group) if waiting else None
        left, state.left = state.left, None
        if left is None and state.schedule is not None:
            left = state.schedule.quantum()
        while True:
            if compiled is not None and not state.told and self._runs_compiled(machine, group, limit):
                if group.block < 0:  # in parts
                    return False
                self._look_at_clock(machine, group)
                if group.at == 0 and limit is not None and (group.generation, group.key) >= limit:
                    machine.push(group)
                    return False
            block = group.plan.blocks[group.block]
            if told:
                pause = self._pauses(machine, group, block)
                if pause is not None:
                    state.left = left if pause else None
                    return pause
            elif group.at == 0:
                self._count(machine, block, group)
            steps, shadowed, end = block.steps, group.may_read_shadows, block.end
            if telling is not None:
                steps, end = self._of_registers(block)
            stop = len(steps)
            if left is not None:
                stop, left = min(stop, group.at + left), left - (stop - group.at)
            elif compiled is not None and group.at < stop:
                stop = compiled.until(group, stop)
            at = group.at
            while not (shadowed or told) and at < stop:  # the hot loop: as few tests as possible
                group.at = at
                suspended = steps[at](machine, group)
                at += 1
                if suspended:
                    if suspended is not ATTEND:
                        return False
                    if after is not None:
                        after(machine, group, block.instructions[at - 1])
                    shadowed = group.may_read_shadows
            for number in range(at, stop):
                group.at = number
                if shadowed and before is not None:
                    before(machine, group, block.instructions[number])
                suspended = steps[number](machine, group)
                if suspended and suspended is not ATTEND:
                    return False
                if (shadowed or suspended) and after is not None:
                    after(machine, group, block.instructions[number])
                    shadowed = shadowed or group.may_read_shadows
                if told:
                    pause = self._tell(machine, group, block, stop)
                    if pause is not None:
                        state.left = left + stop - group.at if pause and left is not None else None
                        return pause
            group.at = stop
            if stop < len(steps):
                if left is None:
                    continue
                machine.push(group)
                return False
            if shadowed and before is not None and stop < len(block.instructions):
                before(machine, group, block.instructions[-1])
            place = end(machine, group)
            if place is None:
                return False
            group.block, group.at = place, 0
            if place <= block.index:
                if back_edge(machine, group, block):
                    return False
                if block.waits:
                    state.mark = state.memory.version
                if left is not None and (block.waits or group.back_edges % TURNS_ALONE == 0):
                    left = 0
            if left is not None:
                if left <= 0:
                    machine.push(group)
                    return False
                continue
            if len(batch.runnable) != waiting:
                waiting = len(batch.runnable)
                limit = machine.limit(group) if waiting else None
            if limit is not None and (group.generation, group.key) >= limit:
                machine.push(group)
                return False

    def _runs_compiled(self, machine: Machine, group: Group, limit: tuple[int, tuple[int, ...]] | None) -> bool:
        """Run compiled code where a group stands; False if there is none."""
        compiled, executed = self.compiled, self.hooks.region_executed
        assert compiled is not None
        if executed is None:
            return compiled.advance(machine, group, limit)
        runnable, state = len(machine.batch.runnable), self.state
        ahead = _counted_ahead(group)
        before = state.instructions - ahead
        if not compiled.advance(machine, group, limit, self.room - ahead):
            return False
        parts = machine.batch.runnable[runnable:] if group.block < 0 else [group]
        executed(machine, group, state.instructions - sum(map(_counted_ahead, parts)) - before)
        return True

    def _of_registers(self, block: BoundBlock) -> tuple[list[Step], End]:
        """The steps and the end of a block that report registers."""
        assert self._telling is not None
        found = self._telling.get(block)
        if found is None:
            found = self._telling[block] = with_register_events(block)
        return found

    def _pauses(self, machine: Machine, group: Group, block: BoundBlock) -> bool | None:
        """Report the next step, once. True if a watcher requests a pause before it, False if the group is passed on."""
        hooks, state, instructions = self.hooks, self.state, block.instructions
        if state.settings.by_warp and machine.spreads(group):
            machine.push(group)
            return False
        if not state.told and hooks.step_before is not None and group.at < len(instructions):
            hooks.step_before(machine, group, instructions[group.at])
        if hooks.pausing:
            hooks.pausing, state.told = False, True
            return True
        state.told = False
        if group.at == 0:
            self._count(machine, block, group)
        return None

    def _tell(self, machine: Machine, group: Group, block: BoundBlock, stop: int) -> bool | None:
        """Report a finished step and the next one, as `_pauses` does, unless compiled code may begin there."""
        hooks = self.hooks
        if hooks.step_after is not None:
            hooks.step_after(machine, group, block.instructions[group.at])
        group.at += 1
        if group.at == len(block.instructions) or (self.compiled is not None and group.at == stop < len(block.steps)):
            return None
        return self._pauses(machine, group, block)

    def _count(self, machine: Machine, block: BoundBlock, group: Group) -> None:
        n_warps = group.selection.n_warps
        state, n = self.state, len(block.instructions)
        state.counts[block] = state.counts.get(block, 0) + n_warps
        state.instructions += n * n_warps
        state.thread_instructions += n * group.selection.n
        budget = state.settings.max_instructions
        if budget is not None and state.instructions > budget:
            machine.fault(
                "limit",
                f"the launch has executed more than {budget} warp-instructions",
                group,
                advice="raise max_instructions (None lifts it), or check that the loop ends",
            )
        self._look_at_clock(machine, group)

    def _look_at_clock(self, machine: Machine, group: Group) -> None:
        """End a launch that takes too long, and report progress."""
        state = self.state
        if self._deadline is not None and time.monotonic() > self._deadline:
            machine.fault(
                "limit",
                f"the launch has taken more than {state.settings.max_seconds} seconds",
                group,
                advice="check that this loop ends, or raise max_seconds (None lifts it)",
            )
        if self.progress is not None and time.monotonic() > self._next_report:
            self._next_report = time.monotonic() + REPORT_EVERY
            self.progress(state.instructions, state.done_ctas, state.n_ctas)


def _counted_ahead(group: Group) -> int:
    """The warp-instructions of a group's block that have been counted and not executed: a block counts when it is entered."""
    return (len(group.plan.blocks[group.block].instructions) - group.at) * group.selection.n_warps if group.at else 0


def run(
    state: LaunchState,
    watchers: Iterable[Listener] = (),
    stdout: Callable[[str], object] = lambda text: None,
    progress: Progress | None = None,
    compiled: Compiled | None = None,
) -> None:
    """Run a launch to its end; memory holds what was written even if this raises. Printed text goes to ``stdout``."""
    try:
        Run(state, watchers, progress, compiled).advance()
    finally:
        state.memory.nanoseconds += state.now
        state.release()
        if compiled is not None:
            compiled.over()
        printed, state.printed = state.printed, []
        for _, text in printed:  # last, because the receiver may raise
            stdout(text)


def opcodes_of(state: LaunchState) -> dict[str, int]:
    """How often each opcode was executed, in warp-instructions."""
    opcodes: dict[str, int] = {}
    for block, n_warps in state.counts.items():
        for name, times in block.names.items():
            opcodes[name] = opcodes.get(name, 0) + times * n_warps
    return opcodes


__all__ = ["Run", "opcodes_of", "run"]
