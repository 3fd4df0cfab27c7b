"""The gate before a warp-wide instruction, where lanes that belong together wait for each other.

An instruction with ``.sync`` executes for a warp when all participating lanes have arrived: those in its membermask, or
the whole warp, less those that have exited. A group with only some of a warp's lanes parks here until the others
arrive, which is how diverged lanes meet under independent thread scheduling. They may reach the same instruction at
another place (see `warpsim.machine.collectives`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family
from warpsim.machine.binding.operand_slots import Guard, guard_of
from warpsim.machine.collectives import Members, alive, meet, membermask, taking_part, wanted
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def bind_gate(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """Put a gate before ``step`` if the instruction synchronises lanes."""
    if not instruction.traits.synchronises:
        return step
    guard = _guard(plan, instruction)
    if instruction.form.scope is Scope.WARPGROUP:
        return _bind_warpgroup(step, guard, whole=instruction.traits.is_async(Family.WGMMA))
    members = membermask(instruction)

    def gated(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        if machine.hooks.collective_reached is not None:
            machine.hooks.collective_reached(machine, group, members, active)
        missing = missing_lanes(machine, group, members, active)
        if missing is not None:
            if active is not None:
                return take_apart(machine, group, active, whole=members is None)
            return _wait_for(machine, group, instruction, members, missing)
        told = machine.hooks.collective_incomplete
        if told is not None and members is None and not (active is None and group.warps.dense and _whole(machine)):
            told(machine, group, active)
        if machine.hooks.warp_synchronised is not None:
            machine.hooks.warp_synchronised(machine, group, members, active)
        return step(machine, group)

    return gated


def _wait_for(machine: Machine, group: Group, instruction: Instruction, members: Members, missing: Array) -> bool:
    """Wait for lanes, which may come to the instruction at another place. Always True."""
    if members is None and machine.hooks.collective_waits is not None:
        machine.hooks.collective_waits(machine, group)
    wait(machine, group, missing)
    if members is not None:
        meet(machine, instruction)
    return True


def _guard(plan: FunctionPlan, instruction: Instruction) -> Guard | None:
    return guard_of(instruction)


def _whole(machine: Machine) -> bool:
    """Whether all warps have all of their lanes."""
    return machine.batch.exited is None and machine.batch.shape.n_threads % 32 == 0


def take_apart(machine: Machine, group: Group, active: Array, *, whole: bool = True) -> bool:
    """Let lanes that a guard disables continue; the others execute the instruction again, alone. Always True."""
    here, others = machine.divide(group, np.broadcast_to(active, group.selection.shape))
    others.at = group.at + 1
    if whole and machine.hooks.collective_passed is not None:
        machine.hooks.collective_passed(machine, others)
    machine.count_entry(here, -1)
    machine.push(others)
    machine.push(here)
    return True


def _bind_warpgroup(step: Step, guard: Guard | None, *, whole: bool) -> Step:
    """Put a gate for four warps before ``step``; if ``whole``, none of their threads may have exited."""

    def gated(machine: Machine, group: Group) -> object:
        selection = group.selection
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        if active is not None:
            return take_apart(machine, group, active)
        if selection.n == machine.batch.shape.n and (not whole or machine.batch.shape.n_threads % 128 == 0):
            return step(machine, group)
        places, sizes = selection.warpgroup_of, selection.warpgroup_sizes
        lacking = (sizes < _needed(machine))[places]
        if lacking.any():
            if machine.hooks.collective_waits is not None:
                machine.hooks.collective_waits(machine, group)
            machine.count_entry(group, -1)
            if lacking.all():
                machine.park(group)
                return True
            stays, goes = machine.divide(group, lacking)
            machine.push(goes)
            machine.park(stays)
            return True
        if whole and (sizes[places] < 128).any():
            return _pass_over(machine, group, (sizes < 128)[places])
        return step(machine, group)

    return gated


def _pass_over(machine: Machine, group: Group, broken: Array) -> bool:
    """Make warpgroups whose missing threads can never arrive skip the instruction. Always True."""
    if machine.hooks.warpgroup_incomplete is not None:
        machine.hooks.warpgroup_incomplete(machine, group, broken)
    stays, goes = (group, None) if broken.all() else machine.divide(group, broken)
    stays.at += 1
    machine.push(stays)
    if goes is not None:
        machine.count_entry(goes, -1)
        machine.push(goes)
    return True


def _needed(machine: Machine) -> Array:
    """Number of threads per warpgroup that have not exited; cached until more do."""
    left = int(machine.batch.alive.sum())
    if machine.batch.warpgroups is None or machine.batch.warpgroups[0] != left:
        n_ctas = machine.batch.shape.n_ctas
        every = np.arange(machine.batch.shape.n)
        alive = every if machine.batch.exited is None else every[~machine.batch.exited]
        size = -(-machine.batch.shape.n_threads // 128) * n_ctas
        machine.batch.warpgroups = left, np.bincount((alive // n_ctas >> 7) * n_ctas + alive % n_ctas, minlength=size)
    return machine.batch.warpgroups[1]


def missing_lanes(machine: Machine, group: Group, members: Members, guarded: Array | None = None) -> Array | None:
    """A mask of the group's warps ``[n, m]`` that lack a participating lane; None if there are none. Lanes outside
    ``guarded`` do not participate.
    """
    warps = group.warps
    if guarded is None and warps.dense and machine.batch.exited is None:
        return None
    active = taking_part(group, guarded)
    if machine.batch.exited is None and active.all():
        return None
    absent = ~active & alive(machine, group)
    if absent.any():
        absent = absent & wanted(group, members, active)
    lacking: Array = np.asarray(absent.any(axis=1))
    return lacking if lacking.any() else None


def wait(machine: Machine, group: Group, lacking: Array) -> bool:
    """Park the warps that lack lanes; make the others runnable. Always True: the group has been passed on."""
    machine.count_entry(group, -1)
    mask = as_array(group.warps.collect(np.broadcast_to(lacking[:, None, :], group.warps.active.shape)))
    mask = np.broadcast_to(mask, group.selection.shape)
    if mask.all():
        machine.park(group)
        return True
    stays, goes = machine.divide(group, mask)
    machine.push(goes)
    machine.park(stays)
    return True
