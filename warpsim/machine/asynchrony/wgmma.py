"""``wgmma``: issue, groups, waits, and results that are computed when their group is waited for. `warpsim.machine.state.wgmma` holds what is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.issue import Issue
from warpsim.machine.selection import from_positions
from warpsim.machine.state.group import Group
from warpsim.machine.state.wgmma import GROUPS, Pending, Wgmma
from warpsim.machine.values import Array, Value, as_array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.schedule import Schedule


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
        perform(machine, group)


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
        hold(machine, group, issue, group.selection.warpgroups, tickets)
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
        perform(machine, group, early=True)
    use.accumulator[np.ix_(targets, columns)] = use.accumulator[np.ix_(sources, columns)].max(axis=0)
    if machine.hooks.wgmma_registers_renamed is not None:
        machine.hooks.wgmma_registers_renamed(machine, group, sources, targets)
    return True


POISON = 0xFFFADEAD
"""Contents of accumulators in flight: a NaN in f32 and in the upper half of f16x2."""


def hold(machine: Machine, group: Group, issue: Issue, columns: Array, tickets: Array) -> None:
    """Start a wgmma; its accumulators are poisoned until the result appears."""
    state = _state(machine)
    use, selection = state.use(group.plan), group.selection
    if machine.hooks.tile_read is not None:
        issue.execute(machine, _stand_in(machine, group, dict(enumerate(group.env))))
    lanes = selection.warpgroup_of
    for slot in issue.slots_d:
        owed = _owed(state, group, slot, columns)
        value = as_array(group.read(slot))
        held = use.held.get(slot)
        if held is None:
            held = use.held[slot] = np.zeros(machine.batch.shape.extents, value.dtype)
        if not owed.any():
            selection.write(held.view(value.dtype), np.broadcast_to(value, selection.shape))
        elif not owed.all():
            fresh = np.isin(lanes, columns[~owed])
            _put(held, selection.positions[fresh], np.broadcast_to(value, selection.shape)[fresh])
        poison = np.full((1,) * len(selection.shape), POISON, np.uint32)
        group.set(slot, poison.view(value.dtype))
    operands = {slot: group.read(slot) for slot in issue.slots_other}
    then = machine.stand_in(group)
    every = np.ones(len(columns), np.bool_)
    state.pending.append(Pending(then, columns, tickets, operands, every, ~every))


def _state(machine: Machine) -> Wgmma:
    assert machine.batch.wgmma is not None
    return machine.batch.wgmma


def issue_of(group: Group) -> Issue:
    """The bound wgmma at which a group stands."""
    return group.plan.issues[id(group.instruction)]


def _owed(state: Wgmma, group: Group, slot: int, columns: Array) -> Array:
    """A mask of the columns in which the register still waits for the result of an earlier wgmma."""
    found: Array = np.zeros(len(columns), np.bool_)
    for pending in state.pending:
        if pending.group.plan is group.plan and slot in issue_of(pending.group).slots_d:
            found |= np.isin(columns, pending.columns[pending.remaining])
    return found


def _stand_in(machine: Machine, group: Group, env: dict[int, Value | None]) -> Group:
    """A group at the same place, with some of the values."""
    new = machine.stand_in(group)
    for slot, value in env.items():
        new.env[slot] = value
    return new


def _put(target: Array, positions: Array, values: Array) -> None:
    target.view(values.dtype).reshape(-1)[positions.reshape(-1)] = values.reshape(-1)


def perform(machine: Machine, group: Group, *, early: bool = False) -> None:
    """Perform every wgmma that is complete now (``early``: all of the group's), in issue order."""
    group.flush(None)
    state = _state(machine)
    touched: dict[int, None] = {}
    for pending in state.pending:
        ready = pending.remaining & (pending.tickets <= state.done[pending.columns])
        if early:
            ready = pending.remaining & np.isin(pending.columns, group.selection.warpgroups)
        if ready.any():
            _perform_one(machine, pending, ready & ~pending.landed)
            touched.update(dict.fromkeys(issue_of(pending.group).slots_d))
            pending.remaining &= ~ready
    state.pending = [p for p in state.pending if p.remaining.any()]
    _show(state, group, list(touched), early=early)


def land(machine: Machine, schedule: Schedule) -> None:
    """Let the oldest wgmma of some warpgroups read and multiply now, in issue order; no thread has seen the results
    yet.
    """
    state = machine.batch.wgmma
    if state is None or not state.pending:
        return
    chosen = np.zeros(state.n_columns, np.bool_)
    chosen[schedule.some(state.n_columns)] = True
    landing = state.pending[: schedule.below(len(state.pending) + 1)]
    if any(len(issue_of(pending.group).rows_a) for pending in landing):
        for group in machine.batch.groups():
            group.flush(None)  # A is read from registers now
    for pending in landing:
        _perform_one(machine, pending, pending.remaining & ~pending.landed & chosen[pending.columns])


def _perform_one(machine: Machine, pending: Pending, ready: Array) -> None:
    if not ready.any():
        return
    pending.landed |= ready
    state, issue = _state(machine), issue_of(pending.group)
    whole = selection = pending.group.selection
    if not ready.all():
        inside = np.isin(whole.warpgroup_of, pending.columns[ready])
        selection = from_positions(machine.batch.shape, whole.positions[inside])
    held = state.use(pending.group.plan).held
    part = machine.stand_in(pending.group, selection)
    for slot, value in pending.operands.items():
        if selection is not whole:
            array = as_array(value)
            full = np.zeros(machine.batch.shape.extents, array.dtype)
            whole.write(full, np.broadcast_to(array, whole.shape))
            value = selection.fetch(full)
        part.env[slot] = value
    for slot in issue.slots_d:
        part.env[slot] = selection.fetch(held[slot]).copy()
    outer, machine.delivering = machine.delivering, True  # the reads were reported when the wgmma began
    issue.execute(machine, part)
    machine.delivering = outer
    for slot in issue.slots_d:
        value = as_array(part.read(slot))
        selection.write(held[slot].view(value.dtype), np.broadcast_to(value, selection.shape))


def _show(state: Wgmma, group: Group, slots: list[int], *, early: bool) -> None:
    """Give the waiting group the registers that are no longer in flight (``early``: those that have their results)."""
    use, rows = state.use(group.plan), group.plan.wgmma_rows
    lanes = group.selection.warpgroup_of
    for slot in slots:
        row = rows[slot]
        free = ((use.accumulator[row] <= (state.issued if early else state.done)) & (use.accumulator[row] > 0))[lanes]
        new = group.selection.fetch(use.held[slot])
        if not free.all():
            old = as_array(group.read(slot))
            new = np.where(free, new, old.view(new.dtype))
        group.set(slot, new.copy())
