"""``wgmma``: issue, groups, waits, and results that are computed when their group is waited for. `warpsim.machine.state.batch` holds what is in flight."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from warpsim.layout import descriptors
from warpsim.machine.plan import FunctionPlan, Issue
from warpsim.machine.selection import from_positions, index_of
from warpsim.machine.state.batch import GROUPS, Pending, Starting, Wgmma
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, DType, Value, as_array, spread
from warpsim.records import SharedByCopies, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warpsim.machine.machine import Machine
    from warpsim.machine.state.schedule import Schedule
    from warpsim.machine.state.word_space import WordSpace
    from warpsim.program.program import Instruction


ADVICE = "see the matrix descriptor format and its table of canonical layouts"
FEW = 16
"""Different descriptors that are looked up one by one."""
_FIRST = np.zeros((1, 1), np.int64)


@frozen(eq=False)
class Words:
    """Where matrices stand: the words of all CTAs, the CTA of each warpgroup ``[W]``, and the address in memory of the
    table of each ``[n, m]`` (both may be 1), which holds places in bytes, of column 0. ``held`` keeps the tables."""

    flat: Array
    columns: Array
    tables: Array
    held: object


class Matrix(SharedByCopies):
    """What descriptors ``[n, m]`` name: the ``elements`` of a few different ones and ``which`` is whose, or every address."""

    def __init__(self, bits: Array, k: int, extent: int, itemsize: int, *, transposed: bool) -> None:
        self.elements: list[descriptors.Elements] = []
        self.which: Array = _FIRST
        if bits.size == 1:
            numbers = [bits.item(0)]
        else:
            some = bits[:, :1] if (bits == bits[:, :1]).all() else bits
            found, inverse = np.unique(some, return_inverse=True)
            numbers, self.which = found.tolist(), inverse.reshape(some.shape)
        self.bits, self.k, self.extent, self.itemsize, self.transposed = bits, k, extent, itemsize, transposed
        if len(numbers) <= FEW:
            self.elements = [descriptors.elements(b, k, extent, itemsize, transposed=transposed) for b in numbers]
            self.low, self.high = min([e.low for e in self.elements]), max([e.high for e in self.elements])
        else:
            address = self.addresses()
            self.low, self.high = int(address.min()), int(address.max()) + itemsize

    def addresses(self) -> Array:
        """The byte address of each element, ``[k, extent, n, m]`` (n and m may be 1)."""
        return descriptors.byte_addresses(
            descriptors.decode(self.bits), self.k, self.extent, self.itemsize, transposed=self.transposed
        )

    def read(self) -> tuple[Array, int, Array]:
        """The addresses ``[..., n, m]`` of all bytes that are read, how many lie at each, and of which 16 rows they are."""
        if len(self.elements) == 1:
            return self.elements[0].chunks, descriptors.CHUNK, self.elements[0].part
        if not self.elements or len({len(e.chunks) for e in self.elements}) > 1:
            return self.addresses(), self.itemsize, self.parts()
        chunks, part = (
            np.stack([found[:, 0, 0] for found in each], axis=1)[:, self.which]
            for each in zip(*((e.chunks, e.part) for e in self.elements), strict=True)
        )
        return chunks, descriptors.CHUNK, part

    def parts(self) -> Array:
        """Of which 16 rows an address is, ``[extent, 1, 1]``."""
        return np.arange(self.extent).reshape(-1, 1, 1) >> 4


@lru_cache(maxsize=512)
def _alike(number: int, k: int, extent: int, itemsize: int, *, transposed: bool) -> Matrix:
    return Matrix(np.array([[number]], np.uint64), k, extent, itemsize, transposed=transposed)


def matrix_of(bits: Array, k: int, extent: int, itemsize: int, *, transposed: bool) -> Matrix:
    """What descriptors name, cached where all are alike because loops reuse them."""
    first = bits.item(0)
    if bits.size == 1 or (bits == first).all():
        return _alike(first, k, extent, itemsize, transposed=transposed)
    return Matrix(bits, k, extent, itemsize, transposed=transposed)


class SharedMatrix:
    """The port of one step. ``extent`` is ``(n, m)``: warpgroups, and CTAs side by side."""

    def __init__(self, machine: Machine, group: Group) -> None:
        self.machine = machine
        self.group = group
        warps = group.warps
        self.extent = warps.n // 4, warps.m
        self.columns, self.owners = warps.columns, warps.owners
        self.space: WordSpace = machine.batch.shared
        self.reported = False
        """Whether the read has been reported."""

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Array:
        """Read the matrix ``[W, k, extent]`` of descriptors ``[n, m]`` (both may be 1); ``W`` is ``n * m``."""
        size, n_columns, space = dtype.itemsize, self.machine.batch.shape.n_ctas, self.space
        matrix = matrix_of(bits, k, extent, size, transposed=transposed)
        inside = matrix.high <= space.size
        address: Array | None = None
        if not inside:
            space.spare()
            address = np.minimum(matrix.addresses(), max(space.size - 16, 0)) & -16
        self._report(matrix, address, by_warp=by_warp)
        if inside and matrix.elements:
            per = 4 // size
            flat = space.flat.view(f"u{size}")
            if n_columns == 1 and self.extent == (1, 1):
                return flat.take(matrix.elements[0].places(1), mode="clip").view(dtype).reshape(1, k, extent)
            index = matrix.elements[0].places(n_columns)
            if len(matrix.elements) > 1:
                which = spread(matrix.which, self.extent).reshape(-1)
                index = np.stack([e.places(n_columns) for e in matrix.elements])[which]
            if n_columns > 1:
                index = index + self.owners.reshape(-1)[:, None] * per
            found = flat.take(index, mode="clip").view(dtype)
            count = math.prod(self.extent)
            return spread(found, (count, k * extent)).reshape(count, k, extent)
        if address is None:
            address = matrix.addresses()
        values = space.gather(address, spread(self.columns, (*address.shape[:-2], *self.columns.shape)), dtype)
        full = spread(values, (k, extent, *self.extent)).reshape(k, extent, -1)
        return np.ascontiguousarray(full.transpose(2, 0, 1))

    def addresses(self, bits: Array, k: int, extent: int, itemsize: int, *, transposed: bool) -> Array:
        """The byte address of each element of the matrix, ``[k, extent, n, m]`` (n and m may be 1)."""
        return matrix_of(bits, k, extent, itemsize, transposed=transposed).addresses()

    def words(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Words | None:
        """Report that the matrix is read, and return where it stands; None, with no report, if it leaves shared memory."""
        space = self.machine.batch.shared
        matrix = matrix_of(bits, k, extent, dtype.itemsize, transposed=transposed)
        if matrix.high > space.size:
            return None
        self._report(matrix, None, by_warp=by_warp)
        n_columns = self.machine.batch.shape.n_ctas
        held: object
        if len(matrix.elements) == 1:
            held, tables = matrix.elements[0].tables(n_columns, self.extent)
        elif matrix.elements:
            held = found = [e.words(n_columns) for e in matrix.elements]
            tables = np.array([at for _, at in found], np.int64)[matrix.which]
        else:
            held = places = descriptors.word_places(
                matrix.addresses(), dtype.itemsize, n_columns, transposed=transposed
            )
            n, m, *_ = places.shape
            tables = places.ctypes.data + places[0, 0].nbytes * np.arange(n * m).reshape(n, m)
        return Words(space.flat, self.owners.reshape(-1), tables, held)

    def _report(self, matrix: Matrix, address: Array | None, *, by_warp: bool) -> None:
        """Report descriptors and accesses to the hooks (``address``: those that are made instead); report descriptors
        that leave shared memory as faults if no watcher does.
        """
        if self.reported:
            return
        machine, low, high = self.machine, matrix.low, matrix.high
        size = machine.batch.shared.size
        before = machine.errors if high > size else 0
        notify = machine.hooks.descriptor_read
        if notify is not None:
            shape = matrix.k, matrix.extent, matrix.itemsize, matrix.transposed
            notify(machine, self.group, matrix.bits, self.owners, shape, (low, high))
        if high > size and machine.errors == before:
            message = descriptors.beyond(int(matrix.bits.flat[0]), high, size)
            machine.fault("out-of-bounds", message, self.group, address=high, advice=ADVICE)
        if machine.hooks.tile_read is not None:
            where, nbytes, part = matrix.read() if address is None else (address, matrix.itemsize, matrix.parts())
            state_of(machine).readers = part if by_warp else None
            machine.hooks.tile_read(machine, self.group, where, self.columns, (low, high), nbytes)


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
    taken = np.zeros(state.n_columns, np.int64)
    taken[columns] = tickets
    state.starting = Starting(issue, taken)
    if machine.launch.settings.async_effects == "at_wait":
        hold(machine, group, issue, group.selection.warpgroups, tickets)
    else:
        issue.execute(machine, group)
    state.starting = None
    state.issued[columns] = tickets
    use = state.use(group.plan)
    use.accumulator[issue.accumulators(columns)] = tickets
    if len(issue.rows_a):
        use.operand[issue.rows_a[:, None], group.selection.warpgroups] = tickets


# ---- other accesses to their registers ----------------------------------------------------------


@frozen(eq=False)
class RegisterAccesses:
    """What instructions, one after another, do to registers of wgmma: the ``rows`` (`FunctionPlan.wgmma_rows`) that they access,
    whether all that they do to each ``moves`` it, and the ``last`` instruction of each.
    """

    rows: Array
    moves: Array
    last: Array


def register_accesses(plan: FunctionPlan, instructions: Iterable[Instruction]) -> RegisterAccesses | None:
    """Those of some instructions; None if there are none."""
    moves: dict[int, bool] = {}
    last: dict[int, Instruction] = {}
    for instruction in instructions if plan.wgmma_rows else ():
        for slot in instruction.registers & plan.wgmma_rows.keys():
            row = plan.wgmma_rows[slot]
            moves[row] = moves.get(row, True) and instruction.traits.copies
            last[row] = instruction
    if not last:
        return None
    return RegisterAccesses(
        np.array([*last], np.int64), np.array([*moves.values()]), np.array([*last.values()], object)
    )


def in_flight(machine: Machine, group: Group, rows: Array) -> bool:
    """Whether a wgmma that accumulates in registers, or reads A from them, is in flight."""
    state = machine.batch.wgmma
    if state is None:
        return False
    columns, use = group.selection.warpgroup_places, state.use(group.plan)
    where = index_of(rows, columns)
    return bool((np.maximum(use.accumulator[where], use.operand[where]) > state.done[columns]).any())


def accessed(machine: Machine, group: Group, accesses: RegisterAccesses) -> None:
    """Note that machine code has accessed registers, none of them in flight."""
    if machine.batch.wgmma is not None and machine.hooks.wgmma_registers_used is not None:
        machine.hooks.wgmma_registers_used(machine, group, accesses)


# ---- moves of other instructions ----------------------------------------------------------------


def rename(machine: Machine, group: Group, sources: Array, targets: Array) -> bool:
    """Handle a move between registers or halves of them: compilers rename accumulators in flight, which is not a use.
    False if no source is in flight.
    """
    state = state_of(machine)
    columns, use = group.selection.warpgroup_places, state.use(group.plan)
    if not (use.accumulator[index_of(sources, columns)] > state.done[columns]).all(axis=1).any():
        return False
    if state.pending:
        perform(machine, group, early=True)
    for tickets in (use.accumulator, use.operand):
        tickets[index_of(targets, columns)] = tickets[index_of(sources, columns)].max(axis=0)
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
            selection.write(held.view(value.dtype), spread(value, selection.shape))
        elif not owed.all():
            fresh = np.isin(lanes, columns[~owed])
            _put(held, selection.positions[fresh], spread(value, selection.shape)[fresh])
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
    plan, instruction = group.plan, group.instruction
    if id(instruction) not in plan.issues:  # of a state that was read: its block has not run
        _ = plan.blocks[group.block].steps
    return plan.issues[id(instruction)]


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
    if machine.hooks.wgmma_finished is not None:
        machine.hooks.wgmma_finished(machine, group, set(touched))


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
            whole.write(full, spread(array, whole.shape))
            value = selection.fetch(full)
        part.env[slot] = value
    for slot in issue.slots_d:
        part.env[slot] = selection.fetch(held[slot]).copy()
    outer, machine.delivering = machine.delivering, True  # the reads were reported when the wgmma began
    issue.execute(machine, part)
    machine.delivering = outer
    for slot in issue.slots_d:
        value = as_array(part.read(slot))
        selection.write(held[slot].view(value.dtype), spread(value, selection.shape))


def _show(state: Wgmma, group: Group, slots: list[int], *, early: bool) -> None:
    """Give the waiting group the registers that are no longer in flight (``early``: those that have their results)."""
    use, rows = state.use(group.plan), group.plan.wgmma_rows
    lanes = group.selection.warpgroup_of
    for slot in slots:
        row = rows[slot]
        free = ((use.accumulator[row] <= (state.issued if early else state.done)) & (use.accumulator[row] > 0))[lanes]
        new, old = group.selection.fetch(use.held[slot]), as_array(group.read(slot))  # with its shadows
        if not free.all():
            new = np.where(free, new, old.view(new.dtype))
        group.set(slot, new.copy())
