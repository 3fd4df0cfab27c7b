"""The wgmma of a batch in flight: which registers they hold, which groups are committed, and results that appear late.

State is kept for each warpgroup of each CTA (a *column*: warpgroup times CTAs plus CTA) as tickets, the running numbers
of its ``wgmma.mma_async``: a register is in flight while the ticket of its last use is above ``done``. Register state is
kept for each function, one row for each register that any wgmma of the function accumulates in or reads A from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.wgmma_advice import ADVICE, FENCE, IN_FLIGHT, SERIALISED, UNCOMMITTED, WAIT_ADVICE
from warpsim.machine.asynchrony.wgmma_late import LateResults
from warpsim.machine.reporting import present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.binding.wgmma_steps import Issue
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan, Step
    from warpsim.machine.selection import Selection
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

ORDERED, MOVED, ACCESSED = 0, 1, 2
"""What happened to a register since the last fence: nothing, plain moves, anything else."""
GROUPS = 8
"""wait_group takes 0 to 7: of older groups nobody can ask."""


class RegisterUse:
    """Rows of one function's registers: the last ticket as accumulator and as A, and what a fence has not ordered yet."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.accumulator = np.zeros((n_rows, n_columns), np.int64)
        self.operand = np.zeros((n_rows, n_columns), np.int64)
        self.unfenced = np.full((n_rows, n_columns), ACCESSED, np.uint8)
        self.shape = np.zeros((n_rows, n_columns), np.int64)
        self.user = np.full(n_rows, None, object)
        """The wgmma that used each row last."""
        self.accessed = np.full(n_rows, None, object)
        """The other instruction that read or wrote each row last."""
        self.again: tuple[bytes, Array] | None = None
        """The accumulators and columns of the wgmma before, where nothing has happened to any register since."""
        self.held: dict[int, Array] = {}


class Wgmma:
    """The wgmma of one batch."""

    def __init__(self, machine: Machine) -> None:
        shape = machine.batch.shape
        self.machine: Machine = machine
        self.n_columns = -(-shape.n_threads // 128) * shape.n_ctas
        settings = machine.launch.settings
        self.checked = bool(settings.checks & {FENCE, IN_FLIGHT, UNCOMMITTED})
        self.late = LateResults(self) if settings.async_effects == "at_wait" else None
        self.fenced = np.zeros(self.n_columns, np.bool_)
        """Columns with a fence since their last group was closed."""
        self.issued = np.zeros(self.n_columns, np.int64)
        self.done = np.zeros(self.n_columns, np.int64)
        self.ends = np.zeros((GROUPS, self.n_columns), np.int64)
        self.waited = np.zeros(self.n_columns, np.int64)
        self.waited_at: Instruction | None = None
        self.last_issue: Instruction | None = None
        self._uses: dict[int, RegisterUse] = {}
        self._shapes: dict[str, int] = {}
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
        columns = self.columns(group.selection)
        use = self.uses(group.plan)
        use.again = None
        use.unfenced[:, columns] = ORDERED
        use.shape[:, columns] = 0
        self.fenced[columns] = True

    def commit(self, group: Group) -> None:
        """Close a group."""
        columns = self.columns(group.selection)
        self.fenced[columns] = False
        self.ends[1:, columns] = self.ends[:-1, columns]
        self.ends[0, columns] = self.issued[columns]

    def wait(self, group: Group, n: int) -> None:
        """All but the ``n`` newest groups are complete."""
        columns = self.columns(group.selection)
        self.done[columns] = np.maximum(self.done[columns], self.ends[min(n, GROUPS - 1), columns])
        self.waited[columns] = self.issued[columns]
        self.waited_at = present(group)
        if self.machine.window.wgmma_waited is not None:
            self.machine.window.wgmma_waited(self.machine, group)
        if self.late is not None and self.late.pending:
            self.late.perform(group)

    # ---- issue -------------------------------------------------------------------------------

    def issue(self, group: Group, issue: Issue, execute: Step) -> None:
        """Start ``wgmma.mma_async``."""
        columns = self.columns(group.selection)
        use = self.uses(group.plan)
        again = use.again is not None and use.again[0] == issue.key and use.again[1] is columns
        if self.checked and not again:
            self._check_issue(group, issue, use, columns)
        tickets = self.issued[columns] + 1
        self.starting = np.zeros(self.n_columns, np.int64)
        self.starting[columns] = tickets
        if self.late is not None:
            self.late.hold(group, issue, execute, columns, tickets)
        else:
            execute(self.machine, group)
        self.starting = None
        self.issued[columns] = tickets
        at = columns[None]
        use.accumulator[issue.rows_d[:, None], at] = tickets
        use.again = issue.key, columns
        if not again:
            use.shape[issue.rows_d[:, None], at] = self._shape_number(issue)
        if len(issue.rows_a):
            use.again = None
            use.operand[issue.rows_a[:, None], at] = tickets
        use.user[issue.rows] = issue.instruction
        self.last_issue = issue.instruction

    def _shape_number(self, issue: Issue) -> int:
        return self._shapes.setdefault(issue.shape, len(self._shapes) + 1)

    def _check_issue(self, group: Group, issue: Issue, use: RegisterUse, columns: Array) -> None:
        done = self.done[columns]
        at = columns[None]
        for rows, tickets, what in (
            (issue.rows_a, use.accumulator, "it reads A from {}, which a wgmma in flight accumulates in"),
            (issue.rows_d, use.operand, "it accumulates in {}, from which a wgmma in flight reads A"),
        ):
            busy = tickets[rows[:, None], at] > done
            if busy.any():
                row = int(rows[np.flatnonzero(busy.any(axis=1))[0]])
                self._fault(group, IN_FLIGHT, what.format(self._name(group, row)), use.user[row], busy.any(axis=0))
        rows = issue.rows
        hidden = use.unfenced[rows[:, None], at]
        if hidden.any():
            # Compilers place copies of registers and constants after the fence, and what makes A; the assembler then
            # adds a fence.
            if self.fenced[columns].all():
                hidden[len(issue.rows_d) :] = np.minimum(hidden[len(issue.rows_d) :], MOVED)
            worst = hidden.max()
            row = int(rows[np.flatnonzero((hidden == worst).any(axis=1))[0]])
            last: Instruction | None = use.accessed[row]
            since = f"was accessed in line {last.span.line}" if last is not None else "is used for the first time"
            self._fault(
                group,
                FENCE,
                f"register {self._name(group, row)} {since}, and no wgmma.fence has been executed since",
                last,
                hidden.any(axis=0),
                severity="error" if worst == ACCESSED else "note",
            )
            use.unfenced[rows[:, None], at] = ORDERED
            return
        shape = use.shape[issue.rows_d[:, None], at]
        other = (shape != 0) & (shape != self._shape_number(issue))
        if other.any():
            row = int(issue.rows_d[np.flatnonzero(other.any(axis=1))[0]])
            self._fault(
                group,
                FENCE,
                f"register {self._name(group, row)} was the accumulator of a wgmma of another shape, and no wgmma.fence"
                " has been executed since",
                use.user[row],
                other.any(axis=0),
            )

    # ---- accesses of other instructions -----------------------------------------------------

    def access(self, group: Group, rows: Array, written: bool, kind: int = ACCESSED) -> None:
        """Another instruction reads or writes registers of wgmma; ``kind`` says how."""
        columns = self.columns(group.selection)
        use = self.uses(group.plan)
        use.again = None
        where = np.ix_(rows, columns)
        tickets = np.maximum(use.accumulator[where], use.operand[where])
        busy = tickets > self.done[columns]
        if busy.any():
            self._early(group, use, rows, columns, tickets, busy, written)
        use.unfenced[where] = np.maximum(use.unfenced[where], kind)
        use.accessed[rows] = present(group)

    def rename(self, group: Group, sources: Array, targets: Array) -> bool:
        """A move from rows to others, whole registers or their halves: compilers rename accumulators in flight, which no
        longer is a use of them. False where no source is in flight."""
        columns, use = self.columns(group.selection), self.uses(group.plan)
        if not (use.accumulator[np.ix_(sources, columns)] > self.done[columns]).all(axis=1).any():
            return False
        if self.late is not None:
            self.late.perform(group, early=True)
        use.again = None
        for state in (use.accumulator, use.operand, use.unfenced, use.shape):
            state[np.ix_(targets, columns)] = state[np.ix_(sources, columns)].max(axis=0)
        use.user[targets], use.accessed[targets] = use.user[sources[-1]], use.accessed[sources[-1]]
        return True

    def _early(
        self, group: Group, use: RegisterUse, rows: Array, columns: Array, tickets: Array, busy: Array, written: bool
    ) -> None:
        row = int(rows[np.flatnonzero(busy.any(axis=1))[0]])
        name, verb = self._name(group, row), "written" if written else "read"
        lost = busy & (tickets > self.ends[0, columns]) & (tickets <= self.waited[columns])
        if lost.any():
            self._fault(
                group,
                UNCOMMITTED,
                f"a wgmma that was never committed is not waited for here; line {present(group).span.line} uses its"
                f" register {name}",
                use.user[row],
                lost.any(axis=0),
                columns,
                place=self.waited_at,
            )
            return
        user = use.user[row]
        accumulates = bool((use.accumulator[row, columns] > self.done[columns]).any())
        self._fault(
            group,
            IN_FLIGHT,
            f"register {name} is {verb} while the wgmma in line {user.span.line} is in flight, which"
            + (" accumulates in it" if accumulates else " reads A from it"),
            user,
            busy.any(axis=0),
            columns,
            advice=WAIT_ADVICE + ((SERIALISED[verb]) if accumulates else ""),
        )

    def exit(self, group: Group) -> None:
        """Threads end: nothing may be left uncommitted."""
        columns = self.columns(group.selection)
        lost = self.issued[columns] > self.ends[0, columns]
        if lost.any():
            message = "the kernel ends with a wgmma that was never committed"
            self._fault(group, UNCOMMITTED, message, self.last_issue, lost, columns)
            self.ends[0, columns] = self.issued[columns]

    def _name(self, group: Group, row: int) -> str:
        slot = next(s for s, r in group.plan.wgmma_rows.items() if r == row)
        return group.plan.function.registers[slot].name

    def _fault(
        self,
        group: Group,
        rule: str,
        message: str,
        other: Any,
        bad: Any,
        columns: Array | None = None,
        place: Any = None,
        severity: str = "error",
        advice: str = "",
    ) -> None:
        columns = self.columns(group.selection) if columns is None else columns
        chosen = np.zeros(self.n_columns, np.bool_)
        chosen[columns[bad]] = True
        advice = advice or ADVICE[rule]
        lanes = chosen[self.lane_columns(group.selection)]
        self.machine.fault(rule, message, group, lanes, other=other, place=place, advice=advice, severity=severity)
