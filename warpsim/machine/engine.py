"""The engine: runs a launch from any step boundary, group by group, until it ends or a watcher requests a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from warpsim.errors import ExecutionError
from warpsim.isa.traits import Access
from warpsim.machine.asynchrony import transfers, wgmma
from warpsim.machine.binding.bind import Wrapper, with_register_events
from warpsim.machine.hooks import Hooks, Listener
from warpsim.machine.machine import Bodies, Machine
from warpsim.machine.plan import ATTEND, BoundBlock, End, Step
from warpsim.machine.reporting import present
from warpsim.machine.stalled import arrive_in_parts, deadlock
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.schedule import Schedule
from warpsim.machine.values import Array
from warpsim.machine.waiting import back_edge, pass_time, wake
from warpsim.machine.waves import all_begun, next_batch, room


def take_shuffled(machine: Machine, schedule: Schedule) -> Group:
    """The next group to run in a random order: any, possibly joined by others at its place, possibly split.

    PTX does not define the order of warps and CTAs, and lets lanes of a warp run ahead of each other. Threads that wait
    for others may wait in any order, and copies and wgmma act at any moment between issue and completion. So a GPU may
    make every choice made here.
    """
    batch = machine.batch
    if schedule.lands and schedule.chance(schedule.lands):
        transfers.land(machine, schedule)
        wgmma.land(machine, schedule)
    group = batch.runnable.pop(schedule.below(len(batch.runnable)))
    crowded = len(batch.runnable) >= schedule.groups
    if crowded or schedule.chance(schedule.joins):
        same = [g for g in batch.runnable if g.same_place(group)]
        if same:
            batch.runnable = [g for g in batch.runnable if not any(g is s for s in same)]
            group = machine.merge([group, *same], None)
    if len(batch.runnable) < schedule.groups and schedule.chance(schedule.splits):
        mask = _part(group, schedule)
        if mask.any() and not mask.all():
            group, other = machine.divide(group, mask)
            machine.push(other)
    return group


def _part(group: Group, schedule: Schedule) -> Array:
    """Some of a group's threads, in the shape of its positions: warps, CTAs, or single lanes."""
    selection = group.selection
    threads, ctas = (np.broadcast_to(a, selection.shape) for a in (selection.threads, selection.ctas))
    kind = schedule.below(4 if schedule.lanes else 3)
    key = (threads >> 5, ctas, (threads >> 5) + ctas * (int(threads.max()) // 32 + 1), threads)[kind]
    known, places = np.unique(key, return_inverse=True)
    if schedule.chance(0.5):  # before or after a place
        cut = 1 + schedule.below(max(len(known) - 1, 1))
        chosen = np.arange(len(known)) < cut
        chosen = chosen if schedule.chance(0.5) else ~chosen
    else:
        chosen = np.array([schedule.chance(0.5) for _ in range(min(len(known), 64))])[np.arange(len(known)) % 64]
    return np.asarray(chosen[places.reshape(selection.shape)])


FAULTS = frozenset({"out-of-bounds", "misaligned", "read-only"})
"""Faults found by the machine itself before an instruction has any effect."""


def act_before(machine: Machine) -> None:
    """Perform the writes of the lanes before those of the fatal finding, in the order CTA, warp, lane.

    Memory contents are then the same whether few or many CTAs run side by side, except for what later CTAs have already
    done.
    """
    if machine.fatal is None:
        return
    group, lanes, rule, before = machine.fatal
    instruction = present(group)
    if (
        not (before or rule in FAULTS)
        or lanes is None
        or instruction.traits.access not in (Access.STORE, Access.ATOMIC)
    ):
        return
    positions, n_ctas = group.selection.positions, machine.batch.shape.n_ctas
    order = machine.batch.ctas[positions % n_ctas] * machine.batch.shape.n_threads + positions // n_ctas
    earlier = order < order[np.broadcast_to(lanes, order.shape)].min()
    if earlier.any():
        at = group.at
        first, _ = machine.divide(group, earlier)
        machine.muted += 1
        first.plan.blocks[first.block].steps[at](machine, first)
        machine.muted -= 1


Progress = Callable[[int, int, int], object]
Limit = tuple[int, tuple[int, ...]] | None
"""Up to where a group may run: a generation, and a place as in `Group.key`."""


class Compiled(Protocol):
    """Machine code for a launch (`warpsim.native`)."""

    def advance(self, machine: Machine, group: Group, limit: Limit, room: int | None = None) -> bool:
        """Run the code for a group's place up to ``limit``, for at most ``room`` warp-instructions; False if there is none.
        Block -1: its parts replaced it."""

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which code may begin, else ``last``."""

    def joined(self, state: LaunchState) -> int:
        """How many waves of CTAs may begin as one batch, because code is likely to run their threads to the end."""

    def records(self, state: LaunchState) -> bool:
        """Whether code may run CTAs from start to end that are to be seen from near."""

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run all threads of a batch from the kernel's first instruction to its last; else False, and nothing was run."""

    def over(self) -> None:
        """Note that the launch is over."""

    @property
    def runs_steps(self) -> bool:
        """Whether there is code for steps, not only for bodies of instructions."""

    @property
    def bodies(self) -> Bodies:
        """What computes in place of the bodies."""


Attended = Callable[[LaunchState], "tuple[Iterable[Listener], Compiled | None]"]
"""The watchers of a grid that a kernel launches, and its machine code."""


def nobody(state: LaunchState) -> tuple[Iterable[Listener], Compiled | None]:
    """No watchers and no code."""
    return (), None


ANY = 1 << 62
REPORT_EVERY = 0.5
TURNS_ALONE = 64
"""In a random order, how many times a loop may run before others."""


class _Registers:
    """The steps and the ends of blocks that report registers, unless a watcher has ``wrapped`` them itself."""

    def __init__(self, wrapped: Wrapper | None) -> None:
        self._wrapped = wrapped
        self._found: dict[BoundBlock, tuple[list[Step], End]] = {}

    def of(self, block: BoundBlock, group: Group) -> tuple[list[Step], End]:
        """Those of a block."""
        found = self._found.get(block)
        if found is None:
            found = self._found[block] = with_register_events(block, group, self._wrapped)
        return found


def _registers_of(hooks: Hooks) -> _Registers | None:
    """Those that report to ``hooks``; None if nobody listens to registers."""
    read, wrapped = hooks.registers_read, hooks.step_wrapped
    if read is None and hooks.registers_written is None:
        return None
    alone = getattr(read, "__self__", None) is getattr(wrapped, "__self__", hooks)
    return _Registers(wrapped if alone else None)  # type: ignore[arg-type]


def _by_steps(hooks: Hooks, state: LaunchState) -> bool:
    """Whether somebody hears of single steps, or of runs that end in a random order."""
    single = hooks.step_before is not None or hooks.step_after is not None
    runs = hooks.run_before is not None or hooks.run_after is not None
    return single or (runs and state.schedule is not None)


class Run:
    """A running launch: its state, its watchers, and the machine of each of its batches.

    ``progress(instructions, finished CTAs, all CTAs)`` is called every half second. ``compiled`` runs as many of a
    group's steps as it can. The CTAs of ``state.near`` are interpreted, seen by the watchers ``near`` in place of the others, unless
    these hear of all steps from code (`Watcher.region_recorded`).
    """

    def __init__(
        self,
        state: LaunchState,
        watchers: Iterable[Listener] = (),
        progress: Progress | None = None,
        compiled: Compiled | None = None,
        near: Iterable[Listener] | None = None,
        attended: Attended = nobody,
    ) -> None:
        self.state = state
        self.attended = attended
        in_order = compiled is not None and compiled.runs_steps and state.schedule is None
        self.compiled = compiled if in_order else None
        self.bodies = None if compiled is None else compiled.bodies
        self.hooks = Hooks(watchers)
        self._near_hooks = self._launch_hooks = self.hooks
        self._records = False
        if near is not None:
            seeing, others = tuple(near), tuple(watchers)
            self._near_hooks = Hooks(seeing)
            apart = [w for w in others if all(w is not one for one in seeing)]
            self._launch_hooks = Hooks([*seeing, *apart])
            self._records = all("region_recorded" in w.events for w in apart)
        self.progress = progress
        self.room = ANY
        """For how many warp-instructions compiled code may go on before the next step."""
        self._machines: dict[int, Machine] = {}
        self._next_report = time.monotonic() + 2.0
        seconds = state.settings.max_seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._timed = seconds is not None or progress is not None
        self._watched = _by_steps(self.hooks, state)
        self._near_watched = _by_steps(self._near_hooks, state)
        self._registers = _registers_of(self.hooks)
        self._near_registers = self._registers if near is None else _registers_of(self._near_hooks)

    def machine(self, batch: BatchState) -> Machine:
        """The machine through which the steps of a batch act."""
        found, settings = self._machines.get(id(batch)), self.state.settings
        if found is None:
            hooks = self._near_hooks if batch.near else self.hooks
            found = self._machines[id(batch)] = Machine(self.state, batch, hooks, self.bodies)
            usual = self.state.schedule is None and not (settings.by_warp or settings.keeps)
            found.unfollowed = usual and hooks.unfollowed
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
                    if state.launched is not None and state.launched.polled:
                        self._run_launched(tails=False)
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
            group = machine.take() if schedule is None else take_shuffled(machine, schedule)
            machine.batch.generation, group.turn = group.generation, None
            state.mark = state.memory.version
            state.running, state.moved = group, True
            return
        batch, state.entered = state.turns.pop(0), False
        if not machine.waits():
            transfers.finish(machine)
            if machine.hooks.batch_ended is not None:
                machine.hooks.batch_ended(machine)
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
        state, hooks = self.state, self._launch_hooks
        if not state.started and hooks.launch_began is not None:
            hooks.launch_began(state)
        begun = self._begin_wave()
        if state.started and not (begun or state.moved or state.memory.version != state.version):
            machines = [self.machine(batch) for batch in state.batches]
            if machines and state.starts:
                self._run_launched(tails=False)
            elif machines and not (pass_time(machines) or arrive_in_parts(machines)):
                deadlock(machines)
        if not state.batches:
            if state.launched is not None and not state.by:
                self._run_launched(tails=True)
            if hooks.launch_ended is not None:
                hooks.launch_ended(state)
            return False
        state.started, state.moved, state.version = True, False, state.memory.version
        state.turns = list(state.batches)
        return True

    def _run_launched(self, *, tails: bool) -> None:
        """Run the grids that this one has launched so far."""
        from warpsim.machine.children import children  # few kernels launch kernels

        with self.state.aside():
            for child in children(self.state, tails=tails):
                watchers, code = self.attended(child)
                run = Run(child, watchers, self.progress, code, attended=self.attended)
                run._deadline, run._timed = self._deadline, self._timed
                try:
                    run.advance()
                finally:
                    child.release()
                    if code is not None:
                        code.over()

    def _begin_wave(self) -> bool:
        """Start the next batch, if there is one."""
        state, code = self.state, self.compiled
        if all_begun(state) or not room(state):
            return False
        joined, pieces = 1, state.pieces
        if code is not None and not (state.batches or state.plan.uses.cancels):
            joined, records = code.joined(state), self._records and not pieces and state.near is not None
            if records and code.records(state) and self._recorded(code, joined):
                return True
        batch, waves = next_batch(state, joined)
        if code is not None and joined > 1 and not batch.near:
            machine = self._begin(batch)
            group = machine.batch.runnable[0]
            if code.run_through(machine, group):
                state.waves += waves
                if self._timed:
                    self._look_at_clock(machine, group)
                return True
            state.batches.pop()  # these CTAs run wave by wave
            del self._machines[id(batch)]
            state.pieces = pieces
            batch, waves = next_batch(state)
        state.waves, state.cancelled = state.waves + waves, 0
        self._begin(batch)
        return True

    def _recorded(self, code: Compiled, joined: int) -> bool:
        """Run the first waves with the CTAs to be seen from near as others; False if that failed and nothing ran."""
        state = self.state
        near, state.near = state.near, None
        assert near is not None
        batch, waves = next_batch(state, joined)
        state.near = near
        if np.isin(near, batch.ctas).all():
            machine = self._begin(batch)
            group = machine.batch.runnable[0]
            if code.run_through(machine, group):
                state.waves, state.near = state.waves + waves, None
                if self._timed:
                    self._look_at_clock(machine, group)
                return True
            state.batches.pop()
            del self._machines[id(batch)]
        return False

    def _begin(self, batch: BatchState) -> Machine:
        machine = self.machine(batch)
        if machine.hooks.batch_began is not None:
            machine.hooks.batch_began(machine)
        if machine.hooks.cta_began is not None:
            machine.hooks.cta_began(machine, np.arange(batch.shape.n_ctas))
        machine.start(self.state.plan.main)
        self.state.batches.append(batch)
        return machine

    # ---- a group -----------------------------------------------------------------------------

    def _run_group(self, machine: Machine, group: Group) -> bool:  # noqa: C901  the innermost loop: no calls
        """Run a group until another comes before it; True for a pause."""
        state, batch, hooks = self.state, machine.batch, machine.hooks
        watched = self._near_watched if batch.near else self._watched
        before, after, compiled = hooks.shadowed_before, hooks.shadowed_after, None if batch.near else self.compiled
        registers = self._near_registers if batch.near else self._registers
        executed, names = hooks.region_executed, hooks.shadows
        begins, ended = hooks.run_before, hooks.run_after
        by_runs = not watched and (begins is not None or ended is not None)
        waiting = len(batch.runnable)
        limit = machine.limit(group) if waiting else None
        plain: BoundBlock | None = None  # the block that reads no shadow from before it
        left, state.left = state.left, None
        if left is None and state.schedule is not None:
            left = state.schedule.quantum()
        while True:
            if (
                compiled is not None
                and not state.reported
                and (
                    compiled.advance(machine, group, limit)
                    if executed is None
                    else self._runs_reported(machine, group, limit)
                )
            ):
                if group.block < 0:  # in parts
                    return False
                if self._timed:
                    self._look_at_clock(machine, group)
                if group.at == 0 and limit is not None and (group.generation, group.key) >= limit:
                    machine.push(group)
                    return False
            block, last = group.plan.blocks[group.block], 0
            if by_runs and group.at < len(block.instructions):
                last = block.run_ends[group.at]
                if begins is not None:
                    begins(machine, group, last)
            if watched:
                pause = self._pauses(machine, group, block)
                if pause is not None:
                    state.left = left if pause else None
                    return pause
            elif group.at == 0:
                self._count(machine, block, group)
            steps, end = block.steps, block.end
            shadowed = bool(group.shadows) if block is plain and group.at else group.may_read_shadows(names)
            if registers is not None:
                steps, end = registers.of(block, group)
            stop = min(last, len(steps)) if last else len(steps)
            if left is not None:
                stop = min(stop, group.at + left)
                left -= stop - group.at
            elif compiled is not None and group.at < stop:
                stop = compiled.until(group, stop)
            at, quick = group.at, steps if registers is not None else block.by_rows(stop)
            while not (shadowed or watched) and at < stop:  # the hot loop: as few tests as possible
                group.at = at
                suspended = quick[at](machine, group)
                at = at + 1 if suspended else group.at + 1
                if suspended:
                    if suspended is not ATTEND:
                        if ended is not None:
                            ended(machine, group, at)
                        return False
                    if after is not None:
                        after(machine, group, block.instructions[at - 1])
                    shadowed = group.may_read_shadows(names)
            for number in range(at, stop):
                group.at = number
                if shadowed and before is not None:
                    before(machine, group, block.instructions[number])
                suspended = steps[number](machine, group)
                if suspended and suspended is not ATTEND:
                    if ended is not None:
                        ended(machine, group, number + 1)
                    return False
                if (shadowed or suspended) and after is not None:
                    after(machine, group, block.instructions[number])
                    shadowed = shadowed or group.may_read_shadows(names)
                if watched:
                    pause = self._stepped(machine, group, block, stop)
                    if pause is not None:
                        state.left = left + stop - group.at if pause and left is not None else None
                        return pause
                    shadowed = shadowed or group.may_read_shadows(names)
            group.at = stop
            if watched and stop == len(steps) < len(block.instructions):
                last = stop + 1  # its end, which `_stepped` does not tell of
            if ended is not None and last:
                ended(machine, group, last)
            if stop < len(steps) or 0 < last < len(block.instructions):
                if left is None:
                    plain = None if shadowed else block
                    if len(batch.runnable) != waiting:  # a barrier has let others go on
                        waiting = len(batch.runnable)
                        limit = machine.limit(group)
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

    def _runs_reported(self, machine: Machine, group: Group, limit: tuple[int, tuple[int, ...]] | None) -> bool:
        """Run compiled code where a group stands, and report what it has executed; False if there is none."""
        compiled, executed = self.compiled, self.hooks.region_executed
        assert compiled is not None
        assert executed is not None
        runnable, state = len(machine.batch.runnable), self.state
        ahead = _counted_ahead(group)
        if self.room <= ahead or (state.settings.by_warp and (machine.spreads(group) or machine.gives_way(group))):
            return False
        before = state.instructions - ahead
        if not compiled.advance(machine, group, limit, self.room - ahead):
            return False
        parts = machine.batch.runnable[runnable:] if group.block < 0 else [group]
        executed(machine, group, state.instructions - sum(map(_counted_ahead, parts)) - before)
        return True

    def _pauses(self, machine: Machine, group: Group, block: BoundBlock) -> bool | None:
        """Report the next step, once. True if a watcher requests a pause before it, False if the group is passed on."""
        hooks, state, instructions = machine.hooks, self.state, block.instructions
        if state.settings.by_warp and machine.spreads(group):
            machine.push(group)
            return False
        if not state.reported and hooks.step_before is not None and group.at < len(instructions):
            hooks.step_before(machine, group, instructions[group.at])
        if not state.reported and hooks.run_before is not None and group.at < len(instructions):
            hooks.run_before(machine, group, group.at + 1)
        if hooks.pausing:
            hooks.pausing, state.reported = False, True
            return True
        state.reported = False
        if group.at == 0:
            self._count(machine, block, group)
        return None

    def _stepped(self, machine: Machine, group: Group, block: BoundBlock, stop: int) -> bool | None:
        """Report a finished step and the next one, as `_pauses` does, unless compiled code may begin there."""
        hooks = machine.hooks
        if hooks.step_after is not None:
            hooks.step_after(machine, group, block.instructions[group.at])
        if hooks.run_after is not None:
            hooks.run_after(machine, group, group.at + 1)
        group.at += 1
        if group.at == len(block.instructions) or (self.compiled is not None and group.at == stop < block.n_steps):
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
        if self._timed:
            self._look_at_clock(machine, group)

    def _look_at_clock(self, machine: Machine, group: Group) -> None:
        """End a launch that takes too long, and report progress."""
        state = self.state
        if self._deadline is not None and time.monotonic() > self._deadline:
            over_time(machine, group)
        if self.progress is not None and time.monotonic() > self._next_report:
            self._next_report = time.monotonic() + REPORT_EVERY
            self.progress(state.instructions, state.done_ctas, state.n_ctas)


def over_time(machine: Machine, group: Group) -> None:
    """End a launch that has taken longer than it may."""
    machine.fault(
        "limit",
        f"the launch has taken more than {machine.launch.settings.max_seconds} seconds",
        group,
        advice="check that this loop ends, or raise max_seconds (None lifts it)",
    )


def _counted_ahead(group: Group) -> int:
    """The warp-instructions of a group's block that have been counted and not executed: a block counts when it is entered."""
    return (len(group.plan.blocks[group.block].instructions) - group.at) * group.selection.n_warps if group.at else 0


def run(
    state: LaunchState,
    watchers: Iterable[Listener] = (),
    stdout: Callable[[str], object] = lambda text: None,
    progress: Progress | None = None,
    compiled: Compiled | None = None,
    near: Iterable[Listener] | None = None,
    attended: Attended = nobody,
) -> None:
    """Run a launch to its end, with all that it launches; memory holds what was written even if this raises. Printed text goes to
    ``stdout``."""
    try:
        Run(state, watchers, progress, compiled, near, attended).advance()
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
            if name in opcodes:
                opcodes[name] += times * n_warps
            else:
                opcodes[name] = times * n_warps
    return opcodes
