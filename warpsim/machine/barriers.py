"""The steps of warp, CTA and cluster barriers, of register counts, and of instructions that end or delay threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.isa.traits import Barrier
from warpsim.machine import arrivals, clusters
from warpsim.machine.asynchrony.register_counts import bind_register_count
from warpsim.machine.binding.operand_slots import ArrayGetter, Guard, guard_of, value_getter
from warpsim.machine.collectives import FULL
from warpsim.machine.gate import bind_gate, missing_lanes, wait
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


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
        return bind_gate(plan, instruction, bind_register_count(instruction))
    barrier = traits.barrier
    assert barrier is not None, f"{instruction.text} is not a barrier"
    if barrier.among == "warp":
        return bind_gate(plan, instruction, lambda machine, group: None)
    if barrier.among == "cluster":
        return _cluster_barrier(barrier, guard, aligned=traits.aligned_barrier)
    return _cta_barrier(plan, instruction, barrier, guard)


@attrs.frozen(eq=False)
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
        return arrivals.arrive(machine, group, number, count, waits=self.waits, vote=vote)

    def arrive_apart(self, machine: Machine, group: Group, values: list[Array]) -> bool:
        """Threads that name different barriers or counts arrive one after the other. Always True."""
        if machine.hooks.barrier_operands_differ is not None:
            machine.hooks.barrier_operands_differ(machine, group, values)
        keys: Array = np.zeros(group.selection.shape, np.int64)
        for k, value in enumerate(values):
            keys = keys | value.astype(np.uint32).astype(np.int64) << 32 * k
        rest = group
        for key in np.unique(keys).tolist():
            here = (keys == key).reshape(rest.selection.shape)  # the rest may be a whole box of threads again
            part, keys = rest, keys.reshape(here.shape)[~here]
            if keys.size:
                part, rest = machine.divide(rest, here)
            if not self.arrive(machine, part, [key & FULL, key >> 32]):
                part.at += 1
                machine.push(part)
        return True


def _cta_barrier(plan: FunctionPlan, instruction: Instruction, barrier: Barrier, guard: Guard | None) -> Step:
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
        if any(v.size > 1 and (v != v.reshape(-1)[0]).any() for v in values):
            return made.arrive_apart(machine, group, values)
        return made.arrive(machine, group, [int(v.reshape(-1)[0]) for v in values])

    return step


def _trap(instruction: Instruction, guard: Guard | None) -> Step:
    def step(machine: Machine, group: Group) -> None:
        if guard is not None:
            active = guard(machine, group)
            if active is False:
                return
            machine.fault("trap", f"{instruction.form.root} executed", group, active)
            return
        machine.fault("trap", f"{instruction.form.root} executed", group)

    return step


def _before(machine: Machine, group: Group, guard: Guard | None, *, aligned: bool) -> bool | None:
    """Handle what precedes a barrier: the guard, and lanes that an aligned one waits for. None if all arrive now."""
    if guard is not None:
        active = guard(machine, group)
        if active is False:
            return False
        if active is not None:
            return _leave_out(machine, group, active)
    if aligned and not group.arrives_apart and machine.launch.settings.whole_warps:
        lacking = missing_lanes(machine, group, None)
        if lacking is not None:
            return wait(machine, group, lacking)
    return None


def _cluster_barrier(barrier: Barrier, guard: Guard | None, *, aligned: bool) -> Step:
    arrives, waits = barrier.arrives, barrier.waits

    def step(machine: Machine, group: Group) -> bool:
        suspended = _before(machine, group, guard, aligned=aligned)
        if suspended is not None:
            return suspended
        if arrives:
            clusters.arrive(machine, group)
        return waits and clusters.wait(machine, group)

    return step


def _leave_out(machine: Machine, group: Group, active: Array) -> bool:
    """Let threads that a guard disables continue; the others execute the barrier again, alone. Always True."""
    here, others = machine.divide(group, np.broadcast_to(active, group.selection.shape))
    others.at = group.at + 1
    machine.count_entry(here, -1)
    machine.push(others)
    machine.push(here)
    return True
