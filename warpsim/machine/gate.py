"""The gate before a warp-wide instruction: lanes that belong together wait for each other.

An instruction with ``.sync`` executes for a warp when all lanes that take part have arrived: the lanes of its
membermask, or the whole warp, less those that have exited. A group that holds only a part of a warp's lanes parks
here until the others come, which is how diverged lanes of a warp meet under independent thread scheduling; they may
come to the same instruction at another place (see `warpsim.machine.hazards.meetings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family
from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.group import Group
from warpsim.machine.hazards.convergence import (
    Members,
    alive,
    check_members,
    check_present,
    note_strays,
    report_warpgroup,
    strays_of,
    taking_part,
    wanted,
)
from warpsim.machine.hazards.meetings import meet, membermask
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.selection import Selection
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch


def bind_gate(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """``step`` behind a gate where the instruction synchronises lanes."""
    if not instruction.traits.synchronises:
        return step
    guard = _guard(plan, instruction)
    if instruction.form.scope is Scope.WARPGROUP:
        return _bind_warpgroup(step, instruction.traits.is_async(Family.WGMMA), guard)
    members = membermask(instruction)
    matrix = instruction.traits.matrix is not None

    def gated(group: Group) -> Any:
        active = None if guard is None else guard(group)
        if active is False:
            return None
        if members is not None:
            check_members(group, members, active)
        missing = missing_lanes(group, members, active)
        if missing is None:
            if matrix or group.batch.strays is not None:
                check_present(group, members, active, matrix)
            if group.batch.memory.races is not None:
                group.batch.memory.races.warp_sync(group, members)
            return step(group)
        if active is not None:
            return take_apart(group, active)
        note_strays(group)
        wait(group, missing)
        if members is not None:
            meet(group.batch, instruction)
        return True

    return gated


def _guard(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group], Any] | None:
    return None if instruction.guard is None else guard_of(plan, instruction)


def take_apart(group: Group, active: Array) -> bool:
    """Lanes that a guard leaves out go on; the others come to the instruction again, alone. Always True."""
    here, others = group.batch.divide(group, np.broadcast_to(active, group.selection.shape))
    others.at = group.at + 1
    strays_of(group.batch)[others.selection.positions.reshape(-1)] = True
    group.batch.push(others)
    group.batch.push(here)
    return True


def _bind_warpgroup(step: Step, whole: bool, guard: Callable[[Group], Any] | None) -> Step:
    """``step`` behind a gate of four warps, of which no thread may have exited where ``whole``."""

    def gated(group: Group) -> Any:
        selection, batch = group.selection, group.batch
        active = None if guard is None else guard(group)
        if active is False:
            return None
        if active is not None:
            return take_apart(group, active)
        if selection.n == batch.shape.n and (not whole or batch.shape.n_threads % 128 == 0):
            return step(group)
        places, present = _present(selection)
        lacking = (present < _needed(batch))[places]
        if lacking.any():
            if whole:
                note_strays(group, 128)
            if lacking.all():
                batch.park(group)
                return True
            stays, goes = batch.divide(group, lacking)
            batch.push(goes)
            batch.park(stays)
            return True
        if whole and (present[places] < 128).any():
            return report_warpgroup(group, (present < 128)[places])
        return step(group)

    return gated


def _present(selection: Selection) -> tuple[Array, Array]:
    """The warpgroup (times CTAs, plus CTA) of each thread, and how many threads of each are here; kept."""
    found: tuple[Array, Array] | None = getattr(selection, "_warpgroups", None)
    if found is None:
        shape = selection.batch
        places = (selection.threads >> 7) * shape.n_ctas + selection.ctas
        present = np.bincount(places.reshape(-1), minlength=-(-shape.n_threads // 128) * shape.n_ctas)
        found = selection._warpgroups = places, present  # type: ignore[attr-defined]
    return found


def _needed(batch: Batch) -> Array:
    """How many threads of each warpgroup have not exited; kept until more do."""
    left = int(batch.alive.sum())
    if batch.warpgroups is None or batch.warpgroups[0] != left:
        n_ctas = batch.shape.n_ctas
        every = np.arange(batch.shape.n)
        alive = every if batch.exited is None else every[~batch.exited]
        size = -(-batch.shape.n_threads // 128) * n_ctas
        batch.warpgroups = left, np.bincount((alive // n_ctas >> 7) * n_ctas + alive % n_ctas, minlength=size)
    return batch.warpgroups[1]


def missing_lanes(group: Group, members: Members, guarded: Any = None) -> Array | None:
    """Which warps ``[n, m]`` of the group lack a lane that must take part; None where none does. Lanes outside
    ``guarded`` do not take part."""
    batch, warps = group.batch, group.warps
    if guarded is None and warps.dense and batch.exited is None:
        return None
    active = taking_part(group, guarded)
    if batch.exited is None and active.all():
        return None
    absent = ~active & alive(group)
    if absent.any():
        absent = absent & wanted(group, members, active)
    lacking: Array = np.asarray(absent.any(axis=1))
    return lacking if lacking.any() else None


def wait(group: Group, lacking: Array) -> bool:
    """Park the warps that lack lanes; the others are made runnable. Always True: the group has been given away."""
    batch = group.batch
    mask = as_array(group.warps.collect(np.broadcast_to(lacking[:, None, :], group.warps.active.shape)))
    mask = np.broadcast_to(mask, group.selection.shape)
    if mask.all():
        batch.park(group)
        return True
    stays, goes = batch.divide(group, mask)
    batch.push(goes)
    batch.park(stays)
    return True
