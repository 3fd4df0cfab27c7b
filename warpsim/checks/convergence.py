"""Lanes and collectives: membermasks that disagree, lanes that have exited, lanes that took another path,
and who is to blame for a stall.


A lane that exits before its warp reaches a collective is not waited for; only matrix instructions need it. A collective
with a membermask does not wait for lanes that exit later, either. Those without one are for whole warps: a lane that is
alive when others of its warp begin to wait, and exits without arriving, has *diverged*: the program splits the warp where
it must not, however it is scheduled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family
from warpsim.machine.collectives import FULL, Members, masks_of, named_by, places, taking_part, wanted
from warpsim.machine.reporting import counted, party, present
from warpsim.machine.stalled import BARRIER, LANES, PHASE, REGISTERS, WARP
from warpsim.machine.values import Affine, Array, as_array
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.stalled import Stall, StallValues
    from warpsim.machine.state.group import Group


MEMBERMASK, DIVERGENCE, EXITED = "membermask", "aligned-divergence", "exited-lane"
RULES = frozenset({MEMBERMASK, DIVERGENCE, EXITED})
COLLECTIVES = frozenset({"collective_reached", "collective_waits", "collective_passed", "collective_incomplete"})
"""A collective of a whole warp with a full membermask cannot go wrong, and no other is compiled."""
DIVERGED = "diverged"
"""Key of a batch's marks ``[n]`` for threads that skipped a collective of their warps."""


class Membermasks(Watcher):
    """Reports lanes missing from their own membermask, and lanes whose mask differs from that of others who name them."""

    compiled = COLLECTIVES

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Check the masks of arriving lanes."""
        if members is None:
            return
        value = group.value(members)
        full = type(value) is Affine and value.uniform and value.base & FULL == FULL
        if not full:
            _check_masks(machine, group, masks_of(group, members), taking_part(group, active))


def _check_masks(machine: Machine, group: Group, masks: Array, active: Array) -> None:
    outside = active & ~named_by(masks)
    if outside.any():
        found = int(np.broadcast_to(masks, active.shape)[outside][0])
        _report_members(
            machine,
            group,
            f"lanes that are not in their own membermask 0x{found:08x} execute this instruction",
            outside,
        )
        return
    if masks.shape[1] == 1 or masks.strides[1] == 0:
        return
    masks = np.broadcast_to(masks, active.shape)
    for lane in range(32):
        own = masks[:, lane : lane + 1]
        wrong = active & active[:, lane : lane + 1] & ((masks >> np.uint32(lane)) & np.uint32(1) != 0) & (masks != own)
        if wrong.any():
            theirs = int(np.broadcast_to(own, masks.shape)[wrong][0])
            what = f"membermask 0x{int(masks[wrong][0]):08x} names lane {lane}, which passes 0x{theirs:08x}"
            _report_members(machine, group, what, wrong)
            return


def _report_members(machine: Machine, group: Group, message: str, lanes: Array) -> None:
    machine.fault(
        "membermask",
        message,
        group,
        _in_group(group, lanes),
        advice="all lanes that a mask names must execute the instruction with that same mask",
    )


class Absences(Watcher):
    """Tracks lanes that diverge from a collective of their warp, and reports those that can no longer arrive."""

    compiled = COLLECTIVES

    def collective_waits(self, machine: Machine, group: Group) -> None:
        """Note which lanes are alive elsewhere, and not about to exit, while others of their unit begin to wait."""
        instruction, batch = present(group), machine.batch
        wide = instruction.form.scope is Scope.WARPGROUP
        if wide and not instruction.traits.is_async(Family.WGMMA):
            return
        n_ctas, width = batch.shape.n_ctas, 128 if wide else 32
        here = group.selection.positions.reshape(-1)
        elsewhere = np.ones(batch.shape.n, np.bool_) if batch.exited is None else ~batch.exited
        elsewhere[here] = False
        for other in batch.runnable:
            if not other.stack and present(other).guard is None and present(other).traits.leaves:
                elsewhere[other.selection.positions.reshape(-1)] = False
        positions = np.arange(batch.shape.n)
        unit = positions // n_ctas // width * n_ctas + positions % n_ctas
        _diverged(machine)[elsewhere & np.isin(unit, unit[here])] = True

    def collective_passed(self, machine: Machine, group: Group) -> None:
        """Note lanes that skip the collective."""
        _diverged(machine)[group.selection.positions.reshape(-1)] = True

    def collective_incomplete(self, machine: Machine, group: Group, active: Array | None) -> None:
        """All live lanes are here: report those that diverged and, for a matrix instruction, those that exited."""
        matrix = present(group).traits.matrix is not None
        diverged: Array | None = machine.batch.notes.get(DIVERGED)
        if not matrix and diverged is None:
            return
        here = taking_part(group, active)
        absent = wanted(group, None, here) & ~here
        if diverged is not None:
            positions, exists = places(machine, group)
            left = absent & exists & diverged[positions]
            diverged[positions[here]] = False
            if left.any():
                _report_absent(machine, group, DIVERGENCE, here, left, "took another path and exited")
                return
        if matrix and absent.any():
            _report_absent(machine, group, EXITED, here, absent, "exited, or never existed")

    def warpgroup_incomplete(self, machine: Machine, group: Group, broken: Array) -> None:
        """Report warpgroups whose missing threads can no longer arrive."""
        first = int(group.selection.positions[np.broadcast_to(broken, group.selection.shape)][0])
        shape = machine.batch.shape
        thread = first // shape.n_ctas & ~127
        threads = np.arange(thread, min(thread + 128, shape.n_threads))
        here = np.zeros(shape.n, np.bool_)
        here[group.selection.positions.reshape(-1)] = True
        absent = threads[~here[threads * shape.n_ctas + first % shape.n_ctas]]
        diverged = machine.batch.notes.get(DIVERGED)
        left = diverged is not None and diverged[absent * shape.n_ctas + first % shape.n_ctas].any()
        missing = counted("thread", absent) if len(absent) else f"threads from {len(threads) + thread} on"
        machine.fault(
            DIVERGENCE if left else EXITED,
            f"{missing} of the warpgroup can no longer arrive: "
            + ("took another path and exited" if left else "exited, or never existed"),
            group,
            np.broadcast_to(broken, group.selection.shape),
            advice="all 128 threads of the warpgroup must execute the instruction",
        )


def _diverged(machine: Machine) -> Array:
    found: Array | None = machine.batch.notes.get(DIVERGED)
    if found is None:
        found = machine.batch.notes[DIVERGED] = np.zeros(machine.batch.shape.n, np.bool_)
    return found


def _report_absent(machine: Machine, group: Group, rule: str, active: Array, absent: Array, why: str) -> None:
    warp, column = np.argwhere(absent.any(axis=1))[0].tolist()
    missing_lanes = np.flatnonzero(absent[warp, :, column])
    machine.fault(
        rule,
        f"{counted('lane', missing_lanes)} of the warp can no longer arrive: {why}",
        group,
        _in_group(group, active & absent.any(axis=1, keepdims=True)),
        absent=tuple(missing_lanes.tolist()),
        advice="make every participating lane reach the instruction before any of them exits",
    )


def _in_group(group: Group, lanes: Array) -> Array:
    """Lanes ``[n, 32, m]`` in the group's shape."""
    shape = group.warps.active.shape
    collected = as_array(group.warps.collect(np.ascontiguousarray(np.broadcast_to(lanes, shape))))
    return np.broadcast_to(collected, group.selection.shape)


BROKEN = {
    WARP: DIVERGENCE,
    LANES: "membermask",
    BARRIER: "barrier-divergence",
    REGISTERS: "setmaxnreg",
    PHASE: "mbarrier",
}
"""The rule broken by each kind of waiting in vain; anything else is a deadlock."""


class Stalls(Watcher):
    """Reports a stall under the rule that it breaks, and warps that arrive at a barrier in parts."""

    def warp_split(self, machine: Machine, group: Group, other: Group | None) -> None:
        """Report lanes that arrive at an aligned barrier without the rest of their warps."""
        where = "lanes of the warp wait here"
        machine.fault(
            DIVERGENCE,
            f"{present(group).text} waits for all lanes of the warp, but some are elsewhere",
            group,
            other=None if other is None else party(machine.launch, machine.batch, other, where),
            advice="move it to where the lanes have reconverged, or use barrier without .aligned",
        )

    def stalled(self, machine: Machine, first: Stall, message: str, values: StallValues) -> None:
        """Report the stall under a rule, if one applies."""
        rule = BROKEN.get(first.wait)
        if rule in machine.launch.settings.checks:
            machine.fault(rule, message, first.group, **values)
