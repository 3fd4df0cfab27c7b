"""Results of wgmma that appear late: when their group is waited for, with operands read then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.machine.selection import Selection, from_positions
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.wgmma import Wgmma
    from warpsim.machine.binding.wgmma_steps import Issue
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import Step

POISON = 0xFFFADEAD
"""What accumulators in flight read as: a NaN in f32 and in the upper half of f16x2."""


@attrs.define(eq=False)
class Pending:
    """A wgmma whose effect has not appeared: who started it, with which operands."""

    group: Group
    issue: Issue
    execute: Step
    columns: Array
    tickets: Array
    operands: dict[int, Any]
    remaining: Array


class LateResults:
    """The wgmma of a batch whose effects have not appeared, in the order of issue."""

    def __init__(self, state: Wgmma) -> None:
        self.state = state
        self.machine: Machine = state.machine
        self.pending: list[Pending] = []

    def hold(self, group: Group, issue: Issue, execute: Step, columns: Array, tickets: Array) -> None:
        """Start a wgmma: its accumulators are poisoned until the result appears."""
        use = self.state.uses(group.plan)
        selection = group.selection
        if self.machine.window.tile_read is not None:
            execute(self.machine, self._stand_in(group, selection, dict(enumerate(group.env))))
        lanes = self.state.lane_columns(selection)
        for slot in issue.slots_d:
            owed = self._owed(group, slot, columns)
            value = as_array(group.read(slot))
            held = use.held.get(slot)
            if held is None:
                held = use.held[slot] = np.zeros(self.machine.batch.shape.extents, value.dtype)
            if not owed.any():
                selection.write(held.view(value.dtype), np.broadcast_to(value, selection.shape))
            elif not owed.all():
                fresh = np.isin(lanes, columns[~owed])
                self._put(held, selection.positions[fresh], np.broadcast_to(value, selection.shape)[fresh])
            poison = np.full((1,) * len(selection.shape), POISON, np.uint32)
            group.set(slot, poison.view(value.dtype))
        operands = {slot: group.read(slot) for slot in issue.slots_other}
        then = self._stand_in(group, selection, {})
        self.pending.append(Pending(then, issue, execute, columns, tickets, operands, np.ones(len(columns), np.bool_)))

    def _owed(self, group: Group, slot: int, columns: Array) -> Array:
        """Of which columns the register still lacks the result of an earlier wgmma."""
        found: Array = np.zeros(len(columns), np.bool_)
        for pending in self.pending:
            if pending.group.plan is group.plan and slot in pending.issue.slots_d:
                found |= np.isin(columns, pending.columns[pending.remaining])
        return found

    def _stand_in(self, group: Group, selection: Selection, env: dict[int, Any]) -> Group:
        """A group at the same place, with some of the values."""
        new = self.machine.group(
            selection, group.plan, group.stack, group.block, group.at, group.local_base, group.generation
        )
        for slot, value in env.items():
            new.env[slot] = value
        return new

    def _put(self, target: Array, positions: Array, values: Array) -> None:
        target.view(values.dtype).reshape(-1)[positions.reshape(-1)] = values.reshape(-1)

    def perform(self, group: Group, *, early: bool = False) -> None:
        """The effects of every wgmma that is complete now (``early``: of all of the group's), in the order of issue."""
        group.flush(None)
        touched: dict[int, None] = {}
        for pending in self.pending:
            ready = pending.remaining & (pending.tickets <= self.state.done[pending.columns])
            if early:
                ready = pending.remaining & np.isin(pending.columns, self.state.columns(group.selection))
            if ready.any():
                self._perform_one(pending, ready)
                touched.update(dict.fromkeys(pending.issue.slots_d))
                pending.remaining &= ~ready
        self.pending = [p for p in self.pending if p.remaining.any()]
        self._show(group, list(touched), early)

    def _perform_one(self, pending: Pending, ready: Array) -> None:
        whole = pending.group.selection
        selection = whole
        if not ready.all():
            inside = np.isin(self.state.lane_columns(whole), pending.columns[ready])
            selection = from_positions(self.machine.batch.shape, whole.positions[inside])
        held = self.state.uses(pending.group.plan).held
        env: dict[int, Any] = {}
        for slot, value in pending.operands.items():
            if selection is not whole:
                array = as_array(value)
                full = np.zeros(self.machine.batch.shape.extents, array.dtype)
                whole.write(full, np.broadcast_to(array, whole.shape))
                value = selection.fetch(full)
            env[slot] = value
        for slot in pending.issue.slots_d:
            env[slot] = selection.fetch(held[slot]).copy()
        part = self._stand_in(pending.group, selection, env)
        outer, self.machine.delivering = self.machine.delivering, True  # the reads were told of when the wgmma began
        pending.execute(self.machine, part)
        self.machine.delivering = outer
        for slot in pending.issue.slots_d:
            value = as_array(part.env[slot])
            selection.write(held[slot].view(value.dtype), np.broadcast_to(value, selection.shape))

    def _show(self, group: Group, slots: list[int], early: bool) -> None:
        """Give the waiting group the registers that are no longer in flight (``early``: those that have their results)."""
        use, rows = self.state.uses(group.plan), group.plan.wgmma_rows
        lanes = self.state.lane_columns(group.selection)
        for slot in slots:
            row = rows[slot]
            free = (
                (use.accumulator[row] <= (self.state.issued if early else self.state.done)) & (use.accumulator[row] > 0)
            )[lanes]
            new = group.selection.fetch(use.held[slot])
            if not free.all():
                old = as_array(group.read(slot))
                new = np.where(free, new, old.view(new.dtype))
            group.set(slot, new.copy())
