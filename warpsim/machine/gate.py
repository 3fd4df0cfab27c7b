"""The gate before a warp-wide instruction: lanes that belong together wait for each other.

An instruction with ``.sync`` executes for a warp when all lanes that take part have arrived: the lanes of its
membermask, or the whole warp, less those that have exited. A group that holds only a part of a warp's lanes parks
here until the others come, which is how diverged lanes of a warp meet under independent thread scheduling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.machine.group import Group
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.selection import Selection
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Imm, Instruction, Reg

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch


def bind_gate(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """``step`` behind a gate where the instruction synchronises lanes."""
    words = instruction.text.split(".")
    if "sync" not in words and "aligned" not in words:
        return step
    if instruction.form.scope is Scope.WARPGROUP:
        return _bind_warpgroup(step, "mma_async" in words)
    members = _membermask(instruction)

    def gated(group: Group) -> Any:
        missing = missing_lanes(group, members)
        if missing is None:
            if group.batch.memory.races is not None:
                group.batch.memory.races.warp_sync(group, members)
            return step(group)
        return wait(group, missing)

    return gated


def _bind_warpgroup(step: Step, whole: bool) -> Step:
    """``step`` behind a gate of four warps, of which no thread may have exited where ``whole``."""

    def gated(group: Group) -> Any:
        selection, batch = group.selection, group.batch
        if selection.n == batch.shape.n and (not whole or batch.shape.n_threads % 128 == 0):
            return step(group)
        places, present = _present(selection)
        lacking = (present < _needed(batch))[places]
        if lacking.any():
            if lacking.all():
                batch.park(group)
                return True
            stays, goes = batch.divide(group, lacking)
            batch.push(goes)
            batch.park(stays)
            return True
        if whole and (present[places] < 128).any():
            return _broken(group, (present < 128)[places])
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


def _broken(group: Group, broken: Array) -> bool:
    """Report warpgroups that lack threads for good; they pass over the instruction. Always True."""
    batch = group.batch
    batch.fault(
        "exited-lane",
        "the warpgroup has not all its 128 threads: some have exited or never were",
        group,
        np.broadcast_to(broken, group.selection.shape),
        advice="all threads of the four warps execute the instruction",
    )
    stays, goes = (group, None) if broken.all() else batch.divide(group, broken)
    stays.at += 1
    batch.push(stays)
    if goes is not None:
        batch.push(goes)
    return True


def _membermask(instruction: Instruction) -> Reg | Imm | None:
    names = [o.name for o in instruction.form.operands]
    for name, operand in zip(names, instruction.operands, strict=False):
        if name == "membermask" and isinstance(operand, (Reg, Imm)):
            return operand
    return None


def missing_lanes(group: Group, members: Reg | Imm | None) -> Array | None:
    """Which warps ``[n, m]`` of the group lack a lane that must take part; None where none does."""
    batch, warps = group.batch, group.warps
    if warps.dense and batch.exited is None:
        return None
    active = warps.active
    if batch.exited is None and active.all():
        return None
    absent = ~active & _alive(group)
    if members is not None and absent.any():
        if isinstance(members, Imm):
            bits = np.full((1, 1, 1), members.bits & 0xFFFFFFFF, np.uint32)
        else:
            mask = np.where(active, warps.spread(group.read(members.register.index)).view(np.uint32), 0)
            bits = np.bitwise_or.reduce(mask, axis=1, keepdims=True)
        named = (bits >> np.arange(32, dtype=np.uint32)[None, :, None]) & 1
        absent = absent & named.astype(np.bool_)
    lacking: Array = np.asarray(absent.any(axis=1))
    return lacking if lacking.any() else None


def _alive(group: Group) -> Array:
    """Lanes ``[n, 32, m]`` that exist in the group's warps and have not exited."""
    batch, warps = group.batch, group.warps
    lanes = np.arange(32)[None, :, None]
    if warps.dense:
        threads = np.asarray(warps.first_thread)[:, None, None] + lanes
        columns = (group.selection.positions[0, 0].reshape(-1) % batch.shape.n_ctas)[None, None, :]
    else:
        threads = warps.warp_threads[:, None, None] + lanes
        columns = warps.warp_ctas[:, None, None]
    exists = threads < batch.shape.n_threads
    if batch.exited is None:
        return np.broadcast_to(exists, warps.active.shape)
    place = np.where(exists, threads, 0) * batch.shape.n_ctas + columns
    return exists & ~batch.exited[place]


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
