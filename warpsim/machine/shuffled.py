"""Another legal order: chooses, splits and joins groups as a `Schedule` draws.

PTX does not define the order of warps and CTAs, and lets lanes of a warp run ahead of each other. Threads that wait for
others may wait in any order, and copies and wgmma act at any moment between issue and completion. So a GPU may make
every choice made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.asynchrony import transfers, wgmma

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.schedule import Schedule
    from warpsim.machine.values import Array


def take(machine: Machine, schedule: Schedule) -> Group:
    """The next group to run: any, possibly joined by others at its place, possibly split."""
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
    unit = (threads >> 5, ctas, (threads >> 5) + ctas * (int(threads.max()) // 32 + 1), threads)[kind]
    known, places = np.unique(unit, return_inverse=True)
    if schedule.chance(0.5):  # before or after a place
        cut = 1 + schedule.below(max(len(known) - 1, 1))
        chosen = np.arange(len(known)) < cut
        chosen = chosen if schedule.chance(0.5) else ~chosen
    else:
        chosen = np.array([schedule.chance(0.5) for _ in range(min(len(known), 64))])[np.arange(len(known)) % 64]
    return np.asarray(chosen[places.reshape(selection.shape)])
