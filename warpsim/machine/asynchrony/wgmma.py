"""``wgmma``: issue, groups and waits. `warpsim.machine.state.wgmma` holds what is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.asynchrony import wgmma_late
from warpsim.machine.issue import Issue
from warpsim.machine.state.group import Group
from warpsim.machine.state.wgmma import GROUPS, Wgmma
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def state_of(machine: Machine) -> Wgmma:
    """The wgmma state of the batch, created on first use."""
    found = machine.batch.wgmma
    if found is None:
        found = machine.batch.wgmma = Wgmma.of(machine.batch.shape)
    return found


# ---- order --------------------------------------------------------------------------------------


def fence(machine: Machine, group: Group) -> None:
    """Order earlier register accesses with later wgmma."""
    state_of(machine)
    if machine.hooks.wgmma_fenced is not None:
        machine.hooks.wgmma_fenced(machine, group)


def commit(machine: Machine, group: Group) -> None:
    """Commit a group."""
    state, columns = state_of(machine), group.selection.warpgroup_places
    state.ends[1:, columns] = state.ends[:-1, columns]
    state.ends[0, columns] = state.issued[columns]
    if machine.hooks.wgmma_committed is not None:
        machine.hooks.wgmma_committed(machine, group)


def wait(machine: Machine, group: Group, n: int) -> None:
    """Complete all but the ``n`` newest groups."""
    state, columns = state_of(machine), group.selection.warpgroup_places
    state.done[columns] = np.maximum(state.done[columns], state.ends[min(n, GROUPS - 1), columns])
    if machine.hooks.wgmma_waited is not None:
        machine.hooks.wgmma_waited(machine, group)
    if state.pending:
        wgmma_late.perform(machine, group)


# ---- issue --------------------------------------------------------------------------------------


def start(machine: Machine, group: Group, issue: Issue) -> None:
    """Start ``wgmma.mma_async``."""
    state = state_of(machine)
    if machine.hooks.wgmma_issued is not None:
        machine.hooks.wgmma_issued(machine, group, issue)
    columns = group.selection.warpgroup_places
    tickets = state.issued[columns] + 1
    state.starting = np.zeros(state.n_columns, np.int64)
    state.starting[columns] = tickets
    if machine.launch.settings.async_effects == "at_wait":
        wgmma_late.hold(machine, group, issue, group.selection.warpgroups, tickets)
    else:
        issue.execute(machine, group)
    state.starting = None
    state.issued[columns] = tickets
    use = state.use(group.plan)
    use.accumulator[issue.accumulators(columns)] = tickets


# ---- moves of other instructions ----------------------------------------------------------------


def rename(machine: Machine, group: Group, sources: Array, targets: Array) -> bool:
    """Handle a move between registers or halves of them: compilers rename accumulators in flight, which is not a use.
    False if no source is in flight.
    """
    state = state_of(machine)
    columns, use = group.selection.warpgroups, state.use(group.plan)
    if not (use.accumulator[np.ix_(sources, columns)] > state.done[columns]).all(axis=1).any():
        return False
    if state.pending:
        wgmma_late.perform(machine, group, early=True)
    use.accumulator[np.ix_(targets, columns)] = use.accumulator[np.ix_(sources, columns)].max(axis=0)
    if machine.hooks.wgmma_registers_renamed is not None:
        machine.hooks.wgmma_registers_renamed(machine, group, sources, targets)
    return True
