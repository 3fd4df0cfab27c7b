"""The registers of wgmma: wgmma-missing-fence, wgmma-in-flight, wgmma-uncommitted.

The machine numbers the wgmma of each warpgroup (`Wgmma`), and knows the last ticket of each accumulator. Here, one row
per register used by any wgmma of a function records what else happened to it, and in which instruction.
"""

from __future__ import annotations

import numpy as np

from warpsim.analysis import wgmma_order
from warpsim.analysis.wgmma_order import ADVICE, FENCE, IN_FLIGHT, UNCOMMITTED
from warpsim.machine.asynchrony.wgmma import RegisterAccesses
from warpsim.machine.asynchrony.wgmma_chains import Chain
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan, Issue
from warpsim.machine.reporting import present
from warpsim.machine.selection import index_of
from warpsim.machine.state.batch import Wgmma
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction

REGISTERS: Note[Registers] = Note(FENCE)
RULES = {FENCE, IN_FLIGHT, UNCOMMITTED}
ORDERED, MOVED, ACCESSED = 0, 1, 2
"""What happened to a register since the last fence: nothing, plain moves, anything else."""
NOTED = 1000
"""So many accesses are noted before they are entered."""


class Rows:
    """Rows of one function's registers: what no fence has ordered yet."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.unfenced = np.full((n_rows, n_columns), ACCESSED, np.uint8)
        self.shape = np.zeros((n_rows, n_columns), np.int64)
        self.user = np.full(n_rows, None, object)
        """The wgmma that last used each row."""
        self.accessed = np.full(n_rows, None, object)
        """The other instruction that last read or wrote each row."""
        self.again: tuple[bytes, Array] | None = None
        """The accumulators and columns of the previous wgmma, if nothing has happened to any register since."""
        self.noted: list[tuple[Array | slice, Array, Instruction]] = []
        """Accesses that the rows do not tell of yet: columns, rows, and the instruction of each."""

    def repeats(self, issue: Issue, columns: Array) -> bool:
        """Whether a wgmma has the accumulators and columns of the previous one, and nothing has happened to any register since."""
        return self.again is not None and self.again[0] == issue.key and self.again[1] is columns

    def settle(self) -> None:
        """Enter what was noted."""
        noted, self.noted = self.noted, []
        kinds: dict[int, tuple[Array | slice, Array]] = {}
        places: Array | slice | None = None
        for columns, touched, instruction in noted:
            if columns is not places:
                places, kind = columns, kinds.setdefault(id(columns), (columns, np.zeros(len(self.user), np.uint8)))[1]
            kind[touched] = np.maximum(kind[touched], MOVED if instruction.traits.copies else ACCESSED)
            self.accessed[touched] = instruction
        for columns, kind in kinds.values():
            where = index_of(kind.nonzero()[0], columns)
            self.unfenced[where] = np.maximum(self.unfenced[where], kind[kind > 0, None])


class Registers:
    """State of a batch, by columns (see `Wgmma`)."""

    def __init__(self, n_columns: int) -> None:
        self.fenced = np.zeros(n_columns, np.bool_)
        """Columns with a fence since their last group was committed."""
        self.waited = np.zeros(n_columns, np.int64)
        """The last ticket before the last wait."""
        self.ended = np.zeros(n_columns, np.int64)
        """The last ticket before threads exited."""
        self.waited_at: Instruction | None = None
        self.last_issue: Instruction | None = None
        self._rows: dict[str, Rows] = {}
        self._shapes: dict[str, int] = {}

    def rows(self, plan: FunctionPlan) -> Rows:
        """The rows of a function."""
        found = self.unsettled(plan)
        if found.noted:
            found.settle()
        return found

    def unsettled(self, plan: FunctionPlan) -> Rows:
        """The rows of a function, some accesses to which may only be noted."""
        found = self._rows.get(plan.name)
        if found is None:
            found = self._rows[plan.name] = Rows(len(plan.wgmma_rows), len(self.fenced))
        return found

    def shape_number(self, issue: Issue) -> int:
        """The number of a shape, from 1."""
        return self._shapes.setdefault(issue.shape, len(self._shapes) + 1)


class WgmmaRegisters(Watcher):
    """Tracks the registers of wgmma in each batch."""

    compiled = frozenset({"wgmma_registers_accessed"})

    def batch_began(self, machine: Machine) -> None:
        """Start without any wgmma."""
        shape = machine.batch.shape
        machine.batch.notes[REGISTERS] = Registers(-(-shape.n_threads // 128) * shape.n_ctas)

    def wgmma_fenced(self, machine: Machine, group: Group) -> None:
        """Order earlier register accesses with later wgmma."""
        known, columns = _known(machine), group.selection.warpgroups
        rows = known.rows(group.plan)
        rows.again = None
        rows.unfenced[:, columns] = ORDERED
        rows.shape[:, columns] = 0
        known.fenced[columns] = True

    def wgmma_committed(self, machine: Machine, group: Group) -> None:
        """Begin the next group without a fence."""
        _known(machine).fenced[group.selection.warpgroup_places] = False

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Handle a wait, which does not cover uncommitted wgmma."""
        known, wgmma = _known(machine), _wgmma(machine)
        columns = group.selection.warpgroup_places
        known.waited[columns] = wgmma.issued[columns]
        known.waited_at = present(group)

    def wgmma_issued(self, machine: Machine, group: Group, issue: Issue) -> None:
        """Check the registers of a wgmma."""
        known, columns = _known(machine), group.selection.warpgroups
        rows = known.rows(group.plan)
        again = rows.repeats(issue, columns)
        if not again:
            if not _in_order(machine, group, issue, issue.rows_a, rows, columns):
                _check_issue(machine, group, issue, rows, columns)
            rows.shape[issue.rows_d[:, None], columns[None]] = known.shape_number(issue)
        rows.again = issue.key, columns
        if len(issue.rows_a):
            rows.again = None
        if not again or known.last_issue is not issue.instruction:
            rows.user[issue.rows] = issue.instruction
            known.last_issue = issue.instruction

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Follow products whose registers are not in order."""
        rows, columns, first = _known(machine).rows(group.plan), group.selection.warpgroups, chain.issues[0]
        chain.followed |= not (
            rows.repeats(first, columns) or _in_order(machine, group, first, chain.rows_a, rows, columns)
        )

    def wgmma_chain_started(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Note their registers."""
        known, columns, last = _known(machine), group.selection.warpgroups, chain.issues[-1]
        rows = known.rows(group.plan)
        if not rows.repeats(last, columns):
            rows.shape[last.rows_d[:, None], columns[None]] = known.shape_number(last)
        rows.again = None if len(chain.rows_a) else (last.key, columns)
        for issue in chain.issues if len(chain.rows_a) else (last,):
            rows.user[issue.rows] = issue.instruction
        known.last_issue = last.instruction

    def wgmma_registers_accessed(self, machine: Machine, group: Group, touched: Array, written: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Check registers that another instruction reads or writes."""
        wgmma, rows, places = (
            machine.batch.wgmma,
            _known(machine).unsettled(group.plan),
            group.selection.warpgroup_places,
        )
        rows.again = None
        if wgmma is not None and np.logical_or.reduce(wgmma.issued[places] > wgmma.done[places]):
            columns, use, where = group.selection.warpgroups, wgmma.use(group.plan), index_of(touched, places)
            tickets = np.maximum(use.accumulator[where], use.operand[where])
            if (tickets > wgmma.done[columns]).any():
                _early(machine, group, rows, touched, columns, tickets, written=written)
        rows.noted.append((places, touched, group.instruction))
        if len(rows.noted) > NOTED:
            rows.settle()

    def wgmma_registers_used(self, machine: Machine, group: Group, accesses: RegisterAccesses) -> None:
        """Note accesses in compiled code, to registers that are not in flight."""
        rows, where = _known(machine).rows(group.plan), index_of(accesses.rows, group.selection.warpgroup_places)
        rows.again = None
        kinds = np.where(accesses.moves, MOVED, ACCESSED).astype(np.uint8)
        rows.unfenced[where] = np.maximum(rows.unfenced[where], kinds[:, None])
        rows.accessed[accesses.rows] = accesses.last

    def wgmma_registers_renamed(self, machine: Machine, group: Group, sources: Array, targets: Array) -> None:
        """Note renamed accumulators in flight; renaming does not count as use."""
        rows, columns = _known(machine).rows(group.plan), group.selection.warpgroups
        rows.again = None
        for state in (rows.unfenced, rows.shape):
            state[np.ix_(targets, columns)] = state[np.ix_(sources, columns)].max(axis=0)
        rows.user[targets], rows.accessed[targets] = rows.user[sources[-1]], rows.accessed[sources[-1]]

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Report uncommitted wgmma when threads exit."""
        wgmma, known = machine.batch.wgmma, _known(machine)
        if wgmma is None:
            return
        columns = group.selection.warpgroups
        lost = wgmma.issued[columns] > np.maximum(wgmma.ends[0, columns], known.ended[columns])
        if lost.any():
            _fault(machine, group, UNCOMMITTED, wgmma_order.AT_END, known.last_issue, lost, columns)
            known.ended[columns] = wgmma.issued[columns]


def _known(machine: Machine) -> Registers:
    return machine.batch.notes[REGISTERS]


def _wgmma(machine: Machine) -> Wgmma:
    assert machine.batch.wgmma is not None
    return machine.batch.wgmma


def _in_order(machine: Machine, group: Group, issue: Issue, rows_a: Array, use: Rows, columns: Array) -> bool:
    """Whether there is nothing to report about the accumulators of a wgmma, or about registers from which it or others on the same
    accumulators read A."""
    wgmma, at, rows_d = _wgmma(machine), columns[None], issue.rows_d[:, None]
    tickets, shape = wgmma.use(group.plan), use.shape[rows_d, at]
    busy = tickets.operand[rows_d, at] > wgmma.done[columns]
    if len(rows_a):
        a = rows_a[:, None], at
        if (tickets.accumulator[a] > wgmma.done[columns]).any() or use.unfenced[a].any():
            return False
    number = _known(machine).shape_number(issue)
    wrong = busy | (use.unfenced[rows_d, at] != 0) | ((shape != 0) & (shape != number))
    return not np.logical_or.reduce(wrong, axis=None)


def _check_issue(machine: Machine, group: Group, issue: Issue, use: Rows, columns: Array) -> None:
    wgmma, known = _wgmma(machine), _known(machine)
    done, at = wgmma.done[columns], columns[None]
    tickets_of = wgmma.use(group.plan)
    for rows, tickets, what in (
        (issue.rows_a, tickets_of.accumulator, wgmma_order.FROM_ACCUMULATOR),
        (issue.rows_d, tickets_of.operand, wgmma_order.INTO_A),
    ):
        busy = tickets[rows[:, None], at] > done
        if busy.any():
            row = _first(rows, busy)
            _fault(machine, group, IN_FLIGHT, what.format(_name(group, row)), use.user[row], busy, columns)
    rows = issue.rows
    hidden = use.unfenced[rows[:, None], at]
    if hidden.any():
        # Compilers place copies of registers and constants, and the writes of A's registers, after the fence;
        # the assembler then adds a fence.
        if known.fenced[columns].all():
            hidden[len(issue.rows_d) :] = np.minimum(hidden[len(issue.rows_d) :], MOVED)
        worst = hidden.max()
        row = _first(rows, hidden == worst)
        last: Instruction | None = use.accessed[row]
        how = (
            f"was accessed in line {last.span.line}, with no wgmma.fence since"
            if last is not None
            else "is used by wgmma for the first time, with no wgmma.fence before"
        )
        message, severity = f"register {_name(group, row)} {how}", "error" if worst == ACCESSED else "note"
        _fault(machine, group, FENCE, message, last, hidden != 0, columns, severity=severity)
        use.unfenced[rows[:, None], at] = ORDERED
        return
    shape = use.shape[issue.rows_d[:, None], at]
    other = (shape != 0) & (shape != known.shape_number(issue))
    if other.any():
        row = _first(issue.rows_d, other)
        _fault(machine, group, FENCE, wgmma_order.RESHAPED.format(_name(group, row)), use.user[row], other, columns)


def _early(
    machine: Machine, group: Group, use: Rows, rows: Array, columns: Array, tickets: Array, *, written: bool
) -> None:
    """Report an access to registers (``rows``) whose last wgmma, by its ticket, is in flight in some columns."""
    wgmma, known = _wgmma(machine), _known(machine)
    busy = tickets > wgmma.done[columns]
    row = _first(rows, busy)
    name, verb, user = _name(group, row), "written" if written else "read", use.user[row]
    committed = np.maximum(wgmma.ends[0, columns], known.ended[columns])
    lost = busy & (tickets > committed) & (tickets <= known.waited[columns])
    if lost.any():
        message = wgmma_order.UNCOVERED.format(present(group).span.line, name)
        _fault(machine, group, UNCOMMITTED, message, user, lost, columns, place=known.waited_at)
        return
    accumulates = bool((wgmma.use(group.plan).accumulator[row, columns] > wgmma.done[columns]).any())
    message, advice = wgmma_order.touched(name, verb, user.span.line, accumulates=accumulates)
    _fault(machine, group, IN_FLIGHT, message, user, busy, columns, advice=advice)


def _first(rows: Array, where: Array) -> int:
    """The first of some rows of which a mask ``[rows, columns]`` has something."""
    return int(rows[np.flatnonzero(where.any(axis=1))[0]])


def _name(group: Group, row: int) -> str:
    slot = next(s for s, r in group.plan.wgmma_rows.items() if r == row)
    return group.plan.function.registers[slot].name


def _fault(
    machine: Machine, group: Group, rule: str, message: str, other: Instruction | None, bad: Array, columns: Array,
    *, advice: str = "", **more: object
) -> None:  # fmt: skip
    """Report what is wrong in some ``columns``: ``bad`` is a mask of them, or of rows and columns."""
    chosen = np.zeros(_wgmma(machine).n_columns, np.bool_)
    chosen[columns[bad.reshape(-1, len(columns)).any(axis=0)]] = True
    lanes = chosen[group.selection.warpgroup_of]
    machine.fault(rule, message, group, lanes, other=other, advice=advice or ADVICE[rule], **more)
