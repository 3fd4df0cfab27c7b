"""The wgmma of a batch in flight: which accumulators they hold, which groups are committed, and results that appear late.

State is kept for each warpgroup of each CTA (a *column*: warpgroup times CTAs plus CTA) as tickets, the running numbers
of its ``wgmma.mma_async``: a register is in flight while the ticket of its last use is above ``done``. Accumulators are
kept for each function, one row for each register that any wgmma of the function accumulates in or reads A from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.asynchrony.wgmma_late import LateResults
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.binding.wgmma_steps import Issue
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan, Step
    from warpsim.machine.selection import Selection
    from warpsim.machine.state.group import Group

GROUPS = 8
"""wait_group takes 0 to 7: of older groups nobody can ask."""


class RegisterUse:
    """Rows of one function's registers: the last ticket as accumulator, and values that have not appeared."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.accumulator = np.zeros((n_rows, n_columns), np.int64)
        self.used = np.zeros(n_rows, np.bool_)
        """Rows that any wgmma has used."""
        self.held: dict[int, Array] = {}


class Wgmma:
    """The wgmma of one batch."""

    def __init__(self, machine: Machine) -> None:
        shape = machine.batch.shape
        self.machine: Machine = machine
        self.n_columns = -(-shape.n_threads // 128) * shape.n_ctas
        settings = machine.launch.settings
        self.late = LateResults(self) if settings.async_effects == "at_wait" else None
        self.issued = np.zeros(self.n_columns, np.int64)
        self.done = np.zeros(self.n_columns, np.int64)
        self.ends = np.zeros((GROUPS, self.n_columns), np.int64)
        self._uses: dict[int, RegisterUse] = {}
        self.starting: Array | None = None
        """The tickets of the wgmma that is being started, 0 in other columns."""

    def uses(self, plan: FunctionPlan) -> RegisterUse:
        """The register rows of a function."""
        found = self._uses.get(id(plan))
        if found is None:
            found = self._uses[id(plan)] = RegisterUse(len(plan.wgmma_rows), self.n_columns)
        return found

    def lane_columns(self, selection: Selection) -> Array:
        """The column of each thread of a selection, in its shape."""
        return (selection.threads >> 7) * self.machine.batch.shape.n_ctas + selection.ctas

    def columns(self, selection: Selection) -> Array:
        """The columns that a selection has threads of."""
        found: Array | None = getattr(selection, "_warpgroup_columns", None)
        if found is None:
            found = np.unique(self.lane_columns(selection))
            selection._warpgroup_columns = found  # type: ignore[attr-defined]
        return found

    # ---- order -------------------------------------------------------------------------------

    def fence(self, group: Group) -> None:
        """Register accesses before are ordered with the wgmma after."""
        if self.machine.window.wgmma_fenced is not None:
            self.machine.window.wgmma_fenced(self.machine, group)

    def commit(self, group: Group) -> None:
        """Close a group."""
        columns = self.columns(group.selection)
        self.ends[1:, columns] = self.ends[:-1, columns]
        self.ends[0, columns] = self.issued[columns]
        if self.machine.window.wgmma_committed is not None:
            self.machine.window.wgmma_committed(self.machine, group)

    def wait(self, group: Group, n: int) -> None:
        """All but the ``n`` newest groups are complete."""
        columns = self.columns(group.selection)
        self.done[columns] = np.maximum(self.done[columns], self.ends[min(n, GROUPS - 1), columns])
        if self.machine.window.wgmma_waited is not None:
            self.machine.window.wgmma_waited(self.machine, group)
        if self.late is not None and self.late.pending:
            self.late.perform(group)

    # ---- issue -------------------------------------------------------------------------------

    def issue(self, group: Group, issue: Issue, execute: Step) -> None:
        """Start ``wgmma.mma_async``."""
        if self.machine.window.wgmma_issued is not None:
            self.machine.window.wgmma_issued(self.machine, group, issue)
        columns = self.columns(group.selection)
        tickets = self.issued[columns] + 1
        self.starting = np.zeros(self.n_columns, np.int64)
        self.starting[columns] = tickets
        if self.late is not None:
            self.late.hold(group, issue, execute, columns, tickets)
        else:
            execute(self.machine, group)
        self.starting = None
        self.issued[columns] = tickets
        use = self.uses(group.plan)
        use.used[issue.rows] = True
        use.accumulator[issue.rows_d[:, None], columns[None]] = tickets

    # ---- moves of other instructions ---------------------------------------------------------

    def rename(self, group: Group, sources: Array, targets: Array) -> bool:
        """A move from rows to others, whole registers or their halves: compilers rename accumulators in flight, which no
        longer is a use of them. False where no source is in flight."""
        columns, use = self.columns(group.selection), self.uses(group.plan)
        if not (use.accumulator[np.ix_(sources, columns)] > self.done[columns]).all(axis=1).any():
            return False
        if self.late is not None:
            self.late.perform(group, early=True)
        use.accumulator[np.ix_(targets, columns)] = use.accumulator[np.ix_(sources, columns)].max(axis=0)
        use.used[targets] = use.used[sources[-1]]
        if self.machine.window.wgmma_registers_renamed is not None:
            self.machine.window.wgmma_registers_renamed(self.machine, group, sources, targets)
        return True
