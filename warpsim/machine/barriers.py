"""Barriers of warps, CTAs and clusters, ``setmaxnreg``, and instructions that end or delay threads.

A CTA owns the registers that its warps had at launch. ``setmaxnreg.dec`` returns some to the CTA; ``.inc`` waits until
there are enough. Warps that have exited keep their registers (on an H100, too, a CTA whose other warps wait for them
never ends). The assembler derives the count at launch from ``.maxnreg``, or from ``.minnctapersm`` with a block size;
without these it drops the instruction, and so nothing waits here.
"""

from __future__ import annotations

import numpy as np

from warpsim.isa import traits
from warpsim.machine.binding.operand_slots import ArrayGetter, Guard, destination, guard_of, value_getter
from warpsim.machine.collectives import FULL, bind_gate, missing_lanes, split_by_guard, wait
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.selection import Lanes, Selection
from warpsim.machine.specials import clusters_of
from warpsim.machine.state.batch import NEVER, Barrier, BatchState, ClusterBarrier, RegisterCounts
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import frozen


def _barrier(machine: Machine) -> ClusterBarrier:
    found = machine.batch.cluster_barrier
    if found is None:
        clusters = clusters_of(machine.launch, machine.batch)
        found = machine.batch.cluster_barrier = ClusterBarrier.of(clusters, machine.batch.shape.n)
    return found


def cluster_arrive(machine: Machine, group: Group) -> None:
    """Arrive with the group's threads."""
    barrier = _barrier(machine)
    positions = group.selection.positions.reshape(-1)
    clusters = barrier.cluster[group.selection.ctas.reshape(-1)]
    if machine.hooks.cluster_barrier_arrived is not None:
        machine.hooks.cluster_barrier_arrived(machine, group)
    barrier.entered[positions] = barrier.phase[clusters]
    barrier.arrived += np.bincount(clusters, minlength=len(barrier.arrived))
    turn(machine)


def turn(machine: Machine) -> None:
    """End the phases that all live threads have reached, and release the waiting threads."""
    barrier = machine.batch.cluster_barrier
    if barrier is None:
        return
    n = len(barrier.arrived)
    alive = np.bincount(barrier.cluster, weights=machine.batch.alive, minlength=n).astype(np.int64)
    done = (barrier.arrived >= alive) & (barrier.arrived > 0)
    if not done.any():
        return
    barrier.phase[done] += 1
    barrier.arrived[done] = 0
    waiting, barrier.waiting = barrier.waiting, []
    for group in waiting:
        if not cluster_wait(machine, group):
            _go_on(machine, group)


def cluster_wait(machine: Machine, group: Group) -> bool:
    """Wait; True if some of the group must. The others continue behind the barrier separately."""
    barrier = _barrier(machine)
    positions = group.selection.positions
    held = barrier.phase[barrier.cluster[group.selection.ctas]] <= barrier.entered[positions]
    barrier.entered[positions[~held]] = NEVER
    if not held.any():
        _notify_left(machine, group)
        return False
    if not held.all():
        group, goes = machine.divide(group, held)
        _notify_left(machine, goes)
        _go_on(machine, goes)
    barrier.waiting.append(group)
    return True


def _notify_left(machine: Machine, group: Group) -> None:
    if machine.hooks.cluster_barrier_left is not None:
        machine.hooks.cluster_barrier_left(machine, group)


def _go_on(machine: Machine, group: Group) -> None:
    group.at += 1
    group.generation = machine.batch.generation
    machine.push(group)


def arrive(machine: Machine, group: Group, number: int, count: int, *, waits: bool, vote: Array | None = None) -> bool:
    """Arrive at a barrier. Returns True if the group has to wait; it is then kept here, and continues behind the
    barrier later."""
    batch, hooks, selection = machine.batch, machine.hooks, group.selection
    barrier = batch.barrier(number)
    everybody = count in (0, batch.shape.n_threads)
    unused = vote is None and not barrier.waiting and not np.logical_or.reduce(barrier.arrived)
    if waits and unused and selection.n == batch.shape.n and everybody:
        batch.barriers_passed += 1
        if hooks.barrier_left is not None:
            hooks.barrier_left(machine, None, number, False)  # noqa: FBT003  as every event's, by its place
        return False
    partial = barrier.partial or not (everybody and waits)
    if hooks.barrier_arrived is not None:
        hooks.barrier_arrived(machine, group, number, partial)
    barrier.partial = partial
    per_cta = selection.per_cta
    barrier.arrived += per_cta
    barrier.expected[per_cta > 0] = count
    if vote is not None:
        barrier.votes.append((selection, np.broadcast_to(vote, selection.shape)))
    if waits:
        barrier.waiting.append(group)
    release(machine, barrier)
    return waits


def release(machine: Machine, barrier: Barrier) -> None:
    """Release the CTAs whose barrier is complete."""
    needed = np.where(barrier.expected > 0, barrier.expected, machine.batch.alive)
    done = (barrier.arrived >= needed) & (barrier.arrived > 0)
    if not np.logical_or.reduce(done):
        return
    machine.batch.barriers_passed[done] += 1
    votes = _votes(barrier, done) if barrier.votes else None
    waiting, barrier.waiting = barrier.waiting, []
    for group in waiting:
        go, stay = _by_cta(machine, group, done)
        if stay is not None:
            barrier.waiting.append(stay)
        if go is not None:
            if machine.hooks.barrier_left is not None:
                machine.hooks.barrier_left(machine, go, barrier.number, barrier.partial)
            if votes is not None:
                _give_result(machine, go, votes)
            go.at += 1
            go.generation = machine.batch.generation
            machine.push(go)
    if barrier.partial and machine.hooks.barrier_completed is not None:
        machine.hooks.barrier_completed(machine, barrier.number, np.flatnonzero(done))
    barrier.arrived[done] = 0
    barrier.expected[done] = 0


def _votes(barrier: Barrier, done: Array) -> tuple[Array, Array]:
    """For each CTA, the number of true votes and of votes."""
    n_ctas = len(done)
    true, total = np.zeros(n_ctas, np.int64), np.zeros(n_ctas, np.int64)
    kept: list[tuple[Selection, Array]] = []
    for selection, vote in barrier.votes:
        ctas = selection.ctas.reshape(-1)
        here = done[ctas]
        true += np.bincount(ctas, weights=vote.reshape(-1) & here, minlength=n_ctas).astype(np.int64)
        total += np.bincount(ctas, weights=here, minlength=n_ctas).astype(np.int64)
        if not here.all():
            rest = Lanes(selection.batch_shape, selection.positions.reshape(-1)[~here])
            kept.append((rest, vote.reshape(-1)[~here]))
    barrier.votes = kept
    return true, total


def _give_result(machine: Machine, group: Group, votes: tuple[Array, Array]) -> None:
    """Write the result of the barrier at which a group stands to its destination."""
    instruction = group.instruction
    barrier = instruction.traits.barrier
    if barrier is None or barrier.reduction is None:
        return
    (true, total), ctas = votes, group.selection.ctas
    if barrier.reduction == "popc":
        result: Array = true[ctas].astype(np.uint32)
    else:
        result = (true == total)[ctas] if barrier.reduction == "and" else (true > 0)[ctas]
    destination(instruction.operands[0])(machine, group, result, None)
    if machine.hooks.registers_written is not None:
        machine.hooks.registers_written(machine, group, instruction.writes)


def _by_cta(machine: Machine, group: Group, chosen: Array) -> tuple[Group | None, Group | None]:
    """The part of a group in the chosen CTAs, and the rest."""
    inside = chosen[group.selection.ctas]
    if np.logical_and.reduce(inside, axis=None):
        return group, None
    if not np.logical_or.reduce(inside, axis=None):
        return None, group
    return machine.divide(group, inside)


# ---- ends ---------------------------------------------------------------------------------------


def leave(machine: Machine, group: Group) -> None:
    """Exit the threads of a group."""
    batch, hooks = machine.batch, machine.hooks
    if hooks.group_exiting is not None:
        hooks.group_exiting(machine, group)
    _mark_exited(batch, group.selection)
    if hooks.group_exited is not None:
        hooks.group_exited(machine, group)
    if hooks.cta_ended is not None:
        over = np.flatnonzero((batch.alive == 0) & (group.selection.per_cta > 0))
        if len(over):
            hooks.cta_ended(machine, over)
    if group.selection.n == batch.shape.n:
        return
    for barrier in list(batch.barriers.values()):
        release(machine, barrier)
    turn(machine)
    parked, batch.parked = batch.parked, []
    batch.runnable += parked
    if hooks.group_woken is not None:
        for woken in parked:
            hooks.group_woken(machine, woken)


def _mark_exited(batch: BatchState, selection: Selection) -> None:
    """These threads have exited."""
    if selection.n == batch.shape.n:
        batch.alive[:] = 0
        batch.exited = np.empty(batch.shape.n, np.bool_)
        batch.exited.fill(True)  # noqa: FBT003  NumPy's
        return
    if batch.exited is None:
        batch.exited = np.zeros(batch.shape.n, np.bool_)
    batch.exited[selection.positions.reshape(-1)] = True
    batch.alive -= selection.per_cta


UNIT = 8
"""Granularity of a thread's register allocation."""
SM_REGISTERS = 1 << 16


def _begin(machine: Machine) -> RegisterCounts:
    """Set up the batch's first setmaxnreg: all warps hold their registers at launch."""
    shape = machine.batch.shape
    extent = -(-shape.n_threads // 128) * 4, shape.n_ctas
    at_launch = registers_at_launch(machine.launch.plan.entry.directives)
    real = np.arange(extent[0])[:, None] < -(-shape.n_threads // 32)
    held = np.broadcast_to(np.where(real, at_launch or 0, 0), extent).copy()
    return RegisterCounts(held, np.zeros(shape.n_ctas, np.int64), at_launch is not None)


def change_registers(machine: Machine, group: Group, count: int, *, increase: bool) -> bool:
    """Request ``count`` registers per thread for a group's warps; True if some have to wait."""
    counts = machine.batch.register_counts
    if counts is None:
        counts = machine.batch.register_counts = _begin(machine)
    warps = np.zeros(counts.held.shape, np.bool_)
    warps[group.selection.threads >> 5, group.selection.ctas] = True
    if increase and counts.bounded and not _grant(machine, counts, group, warps, count):
        return True
    if machine.hooks.registers_changed is not None:
        machine.hooks.registers_changed(machine, group, count)
    if not increase:
        _give_back(machine, counts, warps, count)
    return False


def _grant(machine: Machine, counts: RegisterCounts, group: Group, warps: Array, count: int) -> bool:
    """Grant the registers to as many warps as possible; False if the group was split or waits."""
    need = np.where(warps, np.maximum(count - counts.held, 0), 0)
    granted = warps & (np.cumsum(need, axis=0) <= counts.free)
    counts.free -= np.where(granted, need, 0).sum(axis=0)
    counts.held = np.where(granted, np.maximum(count, counts.held), counts.held)
    if granted[warps].all():
        return True
    inside = granted[group.selection.threads >> 5, group.selection.ctas]
    if inside.any():
        goes, group = machine.divide(group, inside)
        machine.push(goes)  # comes back here, and then needs nothing more
    counts.waiting.append(group)
    return False


def _give_back(machine: Machine, counts: RegisterCounts, warps: Array, count: int) -> None:
    kept = np.where(warps, np.minimum(counts.held, count), counts.held)
    freed = (counts.held - kept).sum(axis=0)
    counts.held, counts.free = kept, counts.free + freed
    if freed.any() and counts.waiting:
        for group in counts.waiting:
            machine.push(group)
        counts.waiting = []


def registers_at_launch(directives: dict[str, tuple[int | str, ...]]) -> int | None:
    """Registers per thread at launch, as the assembler determines them; None if it cannot."""
    if "maxnreg" in directives:
        return -(-int(directives["maxnreg"][0]) // UNIT) * UNIT
    block = directives.get("reqntid") or directives.get("maxntid")
    if block is None or "minnctapersm" not in directives:
        return None
    warps = -(-int(np.prod([int(n) for n in block])) // 32)
    resident = max(int(directives["minnctapersm"][0]), 1)
    return min(SM_REGISTERS // (32 * warps * resident) // UNIT * UNIT, 256)


LONGEST_SLEEP = 1_000_000
"""Longest nanosleep, in nanoseconds."""


def _sleep(duration: ArrayGetter, guard: Guard | None) -> Step:
    """Advance the clocks by the longest sleep of the (active) threads."""

    def step(machine: Machine, group: Group) -> None:
        active = None if guard is None else guard(machine, group)
        if active is not False:
            times = duration(machine, group)
            if active is not None:
                shape = np.broadcast_shapes(times.shape, active.shape)
                times = np.broadcast_to(times, shape)[np.broadcast_to(active, shape)]
            machine.launch.skipped += min(int(times.max()), LONGEST_SLEEP)

    return step


def bind_sync(plan: FunctionPlan, instruction: Instruction) -> Step:
    """Bind warp, CTA and cluster barriers, and register counts."""
    traits = instruction.traits
    guard = guard_of(instruction)
    if traits.stop is not None:
        return _trap(instruction, guard)
    if traits.sleeps:
        return _sleep(value_getter(plan, instruction.operands[0]), guard)
    if traits.register_count:
        count, increase = instruction.operands[0].constant or 0, "inc" in instruction.op.modifiers
        return bind_gate(
            plan, instruction, lambda machine, group: change_registers(machine, group, count, increase=increase)
        )
    barrier = traits.barrier
    assert barrier is not None, f"{instruction.text} is not a barrier"
    if barrier.among == "warp":
        return bind_gate(plan, instruction, lambda machine, group: None)
    if barrier.among == "cluster":
        return _cluster_barrier(barrier, guard, aligned=traits.aligned_barrier)
    return _cta_barrier(plan, instruction, barrier, guard)


@frozen(eq=False)
class _CtaBarrier:
    """A barrier of the CTA: how many threads come, whether they wait, and what they vote."""

    sources: tuple[ArrayGetter, ...]
    vote: ArrayGetter | None
    waits: bool

    def arrive(self, machine: Machine, group: Group, numbers: list[int]) -> bool:
        """The group arrives at one barrier; True where it waits."""
        number, count = [*numbers, 0, 0][:2]
        if machine.hooks.barrier_reached is not None:
            machine.hooks.barrier_reached(machine, group, number, count)
        vote = None if self.vote is None else self.vote(machine, group)
        return arrive(machine, group, number, count, waits=self.waits, vote=vote)

    def arrive_apart(self, machine: Machine, group: Group, values: list[Array]) -> bool:
        """Threads that name different barriers or counts arrive one after the other. Always True."""
        if machine.hooks.barrier_operands_differ is not None:
            machine.hooks.barrier_operands_differ(machine, group, values)
        keys: Array = np.zeros(group.selection.shape, np.int64)
        for k, value in enumerate(values):
            keys = keys | value.astype(np.uint32).astype(np.int64) << 32 * k
        rest = group
        for key in distinct(keys).tolist():
            here = (keys == key).reshape(rest.selection.shape)  # the rest may be a whole box of threads again
            part, keys = rest, keys.reshape(here.shape)[~here]
            if keys.size:
                part, rest = machine.divide(rest, here)
            if not self.arrive(machine, part, [key & FULL, key >> 32]):
                part.at += 1
                machine.push(part)
        return True


def _cta_barrier(plan: FunctionPlan, instruction: Instruction, barrier: traits.Barrier, guard: Guard | None) -> Step:
    operands = instruction.inputs
    sources = [value_getter(plan, o) for o in operands if o.is_plain]
    vote = sources.pop() if barrier.reduction else None
    made = _CtaBarrier(tuple(sources), vote, barrier.waits)
    aligned = instruction.traits.aligned_barrier

    def step(machine: Machine, group: Group) -> bool:
        suspended = _before(machine, group, guard, aligned=aligned)
        if suspended is not None:
            return suspended
        values = [get(machine, group) for get in made.sources]
        numbers = [v.item(0) for v in values]
        for value, number in zip(values, numbers, strict=True):
            if value.size > 1 and (value != number).any():
                return made.arrive_apart(machine, group, values)
        return made.arrive(machine, group, numbers) and not machine.keeps_turn(group)

    return step


def _trap(instruction: Instruction, guard: Guard | None) -> Step:
    def step(machine: Machine, group: Group) -> None:
        active = None if guard is None else guard(machine, group)
        if active is not False:
            machine.fault("trap", f"{instruction.form.root} executed", group, active)

    return step


def _before(machine: Machine, group: Group, guard: Guard | None, *, aligned: bool) -> bool | None:
    """Handle what precedes a barrier: the guard, and lanes that an aligned one waits for. None if all arrive now."""
    if guard is not None:
        active = guard(machine, group)
        if active is False:
            return False
        if active is not None:
            return split_by_guard(machine, group, active)
    if aligned and not group.arrives_in_parts and machine.launch.settings.whole_warps:
        lacking = missing_lanes(machine, group, None)
        if lacking is not None:
            return wait(machine, group, lacking)
    return None


def _cluster_barrier(barrier: traits.Barrier, guard: Guard | None, *, aligned: bool) -> Step:
    arrives, waits = barrier.arrives, barrier.waits

    def step(machine: Machine, group: Group) -> bool:
        suspended = _before(machine, group, guard, aligned=aligned)
        if suspended is not None:
            return suspended
        if arrives:
            cluster_arrive(machine, group)
        return waits and cluster_wait(machine, group)

    return step
