"""Who takes part in a collective: membermasks, lanes that have exited, and lanes that went another way.

A lane that exits before its warp comes to a collective is not waited for, and only matrix instructions miss it. One
that is alive when others of its warp begin to wait, and ends without having come, is a *stray*: the program has diverged
where it must not, however the lanes are scheduled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.values import Affine, Array, as_array
from warpsim.program.program import Imm, Reg

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

FULL = 0xFFFFFFFF
"""Collectives whose operands are spread over all lanes of a warp."""
LANES = np.arange(32, dtype=np.uint32)[None, :, None]
Members = Reg | Imm | None
"""The membermask of an instruction; None where the whole warp is meant."""


def taking_part(group: Group, guarded: Any) -> Array:
    """Lanes ``[n, 32, m]`` of the group that a guard lets pass."""
    warps = group.warps
    return warps.active if guarded is None else warps.active & warps.spread(guarded)


def masks_of(group: Group, members: Reg | Imm) -> Array:
    """The membermask of each lane, broadcasting to ``[n, 32, m]``."""
    if isinstance(members, Imm):
        return np.full((1, 1, 1), members.bits & FULL, np.uint32)
    masks: Array = group.warps.spread(group.read(members.register.index)).view(np.uint32)
    return masks


def named_by(masks: Array) -> Array:
    """The lanes ``[n, 32, m]`` that masks name: one mask for a warp, or of each lane's mask that lane."""
    named: Array = (masks >> LANES) & np.uint32(1) != 0
    return named


def wanted(group: Group, members: Members, active: Array) -> Array:
    """Lanes ``[n, 32, m]`` that the ``active`` ones ask for, those of warps without an active lane left out."""
    asked = active.any(axis=1, keepdims=True)
    if members is None:
        return np.broadcast_to(asked, active.shape)
    masks = np.where(active, masks_of(group, members), np.uint32(0))
    return asked & named_by(np.bitwise_or.reduce(masks, axis=1, keepdims=True))


def places(machine: Machine, group: Group) -> tuple[Array, Array]:
    """The flat position of every lane ``[n, 32, m]`` of the group's warps, and whether the CTA has such a lane."""
    machine, warps = machine, group.warps
    lanes = np.arange(32)[None, :, None]
    if warps.dense:
        threads = np.asarray(warps.first_thread)[:, None, None] + lanes
        columns = (group.selection.positions[0, 0].reshape(-1) % machine.batch.shape.n_ctas)[None, None, :]
    else:
        threads = warps.warp_threads[:, None, None] + lanes
        columns = warps.warp_ctas[:, None, None]
    exists = np.broadcast_to(threads < machine.batch.shape.n_threads, warps.active.shape)
    return np.where(exists, threads, 0) * machine.batch.shape.n_ctas + columns, exists


def alive(machine: Machine, group: Group) -> Array:
    """Lanes ``[n, 32, m]`` that exist in the group's warps and have not exited."""
    positions, exists = places(machine, group)
    exited = machine.batch.exited
    return exists if exited is None else exists & ~exited[positions]


# ---- membermasks --------------------------------------------------------------------------------


def check_members(machine: Machine, group: Group, members: Reg | Imm, guarded: Any) -> None:
    """Report lanes that their own membermask leaves out, and lanes that others name whose mask is another."""
    if isinstance(members, Imm):
        if members.bits & FULL == FULL:
            return
    else:
        value = group.read(members.register.index)
        if type(value) is Affine and value.uniform and value.base & FULL == FULL:
            return
    if "membermask" not in machine.launch.settings.checks:
        return
    masks, active = masks_of(group, members), taking_part(group, guarded)
    outside = active & ~named_by(masks)
    if outside.any():
        found = int(np.broadcast_to(masks, active.shape)[outside][0])
        _report_members(machine, group, f"lanes execute this outside their own membermask 0x{found:08x}", outside)
        return
    if masks.shape[1] == 1 or masks.strides[1] == 0:
        return
    masks = np.broadcast_to(masks, active.shape)
    for lane in range(32):
        own = masks[:, lane : lane + 1]
        wrong = active & active[:, lane : lane + 1] & ((masks >> np.uint32(lane)) & np.uint32(1) != 0) & (masks != own)
        if wrong.any():
            theirs = int(np.broadcast_to(own, masks.shape)[wrong][0])
            what = f"membermask 0x{int(masks[wrong][0]):08x} names lane {lane}, which comes with 0x{theirs:08x}"
            _report_members(machine, group, what, wrong)
            return


def _report_members(machine: Machine, group: Group, message: str, lanes: Array) -> None:
    machine.fault(
        "membermask",
        message,
        group,
        _in_group(group, lanes),
        advice="every lane that a mask names executes the instruction with the same mask, its own lane among them",
    )


# ---- lanes that do not come ---------------------------------------------------------------------


def note_strays(machine: Machine, group: Group, width: int = 32) -> None:
    """Remember who is alive elsewhere, and not about to exit, while others of their ``width`` threads begin to wait."""
    machine = machine
    n_ctas = machine.batch.shape.n_ctas
    here = group.selection.positions.reshape(-1)
    elsewhere = np.ones(machine.batch.shape.n, np.bool_) if machine.batch.exited is None else ~machine.batch.exited
    elsewhere[here] = False
    for other in machine.batch.runnable:
        if not other.stack and present(other).guard is None and present(other).traits.leaves:
            elsewhere[other.selection.positions.reshape(-1)] = False
    positions = np.arange(machine.batch.shape.n)
    unit = positions // n_ctas // width * n_ctas + positions % n_ctas
    strays_of(machine)[elsewhere & np.isin(unit, unit[here])] = True


def strays_of(machine: Machine) -> Array:
    """Marks ``[n]`` of the threads of a batch that went by a collective of their warps."""
    if machine.batch.strays is None:
        machine.batch.strays = np.zeros(machine.batch.shape.n, np.bool_)
    return machine.batch.strays


def check_present(machine: Machine, group: Group, members: Members, guarded: Any, matrix: bool) -> None:
    """All lanes that live are here: report those that strayed or, for a ``matrix`` instruction, have exited."""
    machine, warps = machine, group.warps
    if guarded is None and warps.dense and machine.batch.exited is None and machine.batch.shape.n_threads % 32 == 0:
        return
    active = taking_part(group, guarded)
    absent = wanted(group, members, active) & ~active
    if machine.batch.strays is not None:
        positions, exists = places(machine, group)
        strayed = absent & exists & machine.batch.strays[positions]
        machine.batch.strays[positions[active]] = False
        if strayed.any():
            rule = "aligned-divergence" if members is None else "membermask"
            _report_absent(machine, group, rule, active, strayed, "gone another way, and exited since")
            return
    if matrix and absent.any():
        _report_absent(machine, group, "exited-lane", active, absent, "exited before, or never were")


def _report_absent(machine: Machine, group: Group, rule: str, active: Array, absent: Array, why: str) -> None:
    warp, column = np.argwhere(absent.any(axis=1))[0].tolist()
    gone = np.flatnonzero(absent[warp, :, column])
    machine.fault(
        rule,
        f"{counted('lane', gone)} of the warp will not come any more: {why}",
        group,
        _in_group(group, active & absent.any(axis=1, keepdims=True)),
        absent=tuple(gone.tolist()),
        advice="let all lanes that take part reach the instruction, and leave the kernel only behind it",
    )


def report_warpgroup(machine: Machine, group: Group, broken: Array) -> bool:
    """Report warpgroups that lack threads for good; they pass over the instruction. Always True."""
    machine = machine
    first = int(group.selection.positions[np.broadcast_to(broken, group.selection.shape)][0])
    n_ctas = machine.batch.shape.n_ctas
    thread = first // n_ctas & ~127
    threads = np.arange(thread, min(thread + 128, machine.batch.shape.n_threads))
    here = np.zeros(machine.batch.shape.n, np.bool_)
    here[group.selection.positions.reshape(-1)] = True
    absent = threads[~here[threads * n_ctas + first % n_ctas]]
    strayed = machine.batch.strays is not None and machine.batch.strays[absent * n_ctas + first % n_ctas].any()
    missing = counted("thread", absent) if len(absent) else f"threads from {len(threads) + thread} on"
    machine.fault(
        "aligned-divergence" if strayed else "exited-lane",
        f"{missing} of the warpgroup will not come any more: "
        + ("gone another way, and exited since" if strayed else "exited before, or never were"),
        group,
        np.broadcast_to(broken, group.selection.shape),
        advice="all 128 threads of the four warps execute the instruction",
    )
    stays, goes = (group, None) if broken.all() else machine.divide(group, broken)
    stays.at += 1
    machine.push(stays)
    if goes is not None:
        machine.push(goes)
    return True


def counted(what: str, numbers: Array) -> str:
    """``lane 5`` or ``lanes 0-3, 7``."""
    return f"{what}{'' if len(numbers) == 1 else 's'} {spans(numbers)}"


def spans(numbers: Array) -> str:
    """``0-3, 7`` of ascending numbers."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs if len(r))


def _in_group(group: Group, lanes: Array) -> Array:
    """Lanes ``[n, 32, m]`` in the group's shape."""
    shape = group.warps.active.shape
    collected = as_array(group.warps.collect(np.ascontiguousarray(np.broadcast_to(lanes, shape))))
    return np.broadcast_to(collected, group.selection.shape)
