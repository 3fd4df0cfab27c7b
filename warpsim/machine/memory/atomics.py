"""Atomic read-modify-writes of many lanes, in the order CTA, warp, lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import Atomic
from warpsim.machine.hooks import ATOMIC, WRITE, MemoryAccess
from warpsim.machine.memory import global_access, word_access
from warpsim.machine.memory.addresses import Address, bits_of
from warpsim.machine.memory.port import Port
from warpsim.machine.selection import Rect
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.word_space import WordSpace, in_a_row
from warpsim.machine.values import Array, DType, as_array, spread
from warpsim.numerics.arrays import distinct
from warpsim.records import frozen

CROWD = 8
"""One cell is served by itself where fewer than one in so many turns of all cells would be saved otherwise."""
DIRECT: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Updates of integers that NumPy makes itself, and whose order does not matter."""
Update = Callable[..., Array]


@frozen(eq=False)
class Cells:
    """The memory elements that lanes address: ``keys`` tell equal ones, ``get`` and ``put`` go by lane; ``flat`` is the array
    that the keys index, where there is one."""

    keys: Array
    get: Callable[[Array], Array]
    put: Callable[[Array, Array], None]
    flat: Array | None

    @classmethod
    def of(cls, keys: Array, elements: Array) -> Cells:
        """Elements of an array."""

        def put(lanes: Array, values: Array) -> None:
            elements[keys[lanes]] = values

        return cls(keys, lambda lanes: elements[keys[lanes]], put, elements)


class Runs:
    """The lanes in the order of their cells: those of one cell stand together, from ``starts`` on, ``counts`` of them."""

    def __init__(self, keys: Array) -> None:
        self.order = np.argsort(keys, kind="stable")
        ordered = keys[self.order]
        self.starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        self.counts = np.diff(np.r_[self.starts, len(keys)])

    @property
    def firsts(self) -> Array:
        """The first lane of each cell."""
        return self.order[self.starts]

    def before(self, values: Array, running: Array) -> Array:
        """Of values in this order and their running sums: the sum of those that come before each in its cell."""
        return running - values - np.repeat(running[self.starts] - values[self.starts], self.counts)


def update(cells: Cells, atomic: Atomic, operands: list[Array], out: Array | None, lanes: Array) -> bool:
    """Let ``lanes`` update their cells; what they find goes to ``out`` where asked for. True where any of them changes its cell,
    even if the next one undoes that."""
    integer = cells.flat is not None and cells.flat.dtype.kind in "iu"
    if out is None and integer and atomic.kind in DIRECT:
        assert cells.flat is not None
        return direct(cells.flat, cells.keys, atomic.kind, operands[0].view(cells.flat.dtype))
    keys = cells.keys
    if (keys[1:] > keys[:-1]).all():
        return _once(cells, atomic, operands, out, lanes)
    runs = Runs(keys)
    if len(runs.starts) < len(cells.keys):
        if integer and atomic.kind == "add":
            return _add(cells, runs, operands[0], out, lanes)
        if atomic.safe_sum is not None and _add_safely(cells, runs, atomic, operands[0], out, lanes):
            return True
    return _in_turns(cells, runs, atomic, operands, out, lanes)


def _once(cells: Cells, atomic: Atomic, operands: list[Array], out: Array | None, lanes: Array) -> bool:
    """Each lane has a cell of its own."""
    every = np.arange(len(cells.keys))
    old = cells.get(every)
    new = _new(atomic, old, operands)
    cells.put(every, new)
    if out is not None:
        out[lanes] = old
    return bool(old.tobytes() != new.tobytes())


def direct(flat: Array, keys: Array, name: str, operand: Array) -> bool:
    """Let NumPy update elements; True where a lane changes one."""
    if name in ("add", "xor"):
        DIRECT[name].at(flat, keys, operand)
        return bool(operand.any())
    before = flat[keys]
    DIRECT[name].at(flat, keys, operand)
    return bool((flat[keys] != before).any())


def _add(cells: Cells, runs: Runs, operand: Array, out: Array | None, lanes: Array) -> bool:
    """Sums of integers: what a lane finds is the sum of those before it."""
    assert cells.flat is not None
    assert out is not None
    dtype = cells.flat.dtype
    values = operand.view(dtype)[runs.order]
    first = cells.get(runs.firsts)
    out[lanes[runs.order]] = np.repeat(first, runs.counts) + runs.before(values, np.cumsum(values, dtype=dtype))
    cells.put(runs.firsts, first + np.add.reduceat(values, runs.starts, dtype=dtype))
    return bool(values.any())


def _add_safely(cells: Cells, runs: Runs, atomic: Atomic, operand: Array, out: Array | None, lanes: Array) -> bool:
    """Likewise, of what counts as a sum does up to a limit; False where one goes beyond it."""
    assert atomic.safe_sum is not None
    values = operand.astype(np.int64)[runs.order]
    totals = np.add.reduceat(values, runs.starts)
    first = cells.get(runs.firsts)
    if not (totals <= atomic.safe_sum(first)).all():
        return False
    if out is not None:
        found = np.repeat(first, runs.counts)
        out[lanes[runs.order]] = _like(first, atomic.update(found, runs.before(values, np.cumsum(values))))
    cells.put(runs.firsts, _new(atomic, first, [totals]))
    return True


def _in_turns(cells: Cells, runs: Runs, atomic: Atomic, operands: list[Array], out: Array | None, lanes: Array) -> bool:
    """One lane of each cell after the other; where few cells have many lanes, cell by cell."""
    changed = False
    order, starts, counts = runs.order, runs.starts, runs.counts
    crowded = counts > 1
    few = bool(atomic.kind) and CROWD * np.count_nonzero(crowded) < counts.max()
    for turn in range(1 if few else int(counts.max())):
        chosen = order[starts[(counts > turn) & ~(few & crowded)] + turn]
        if not len(chosen):
            continue
        old = cells.get(chosen)
        new = _new(atomic, old, [v[chosen] for v in operands])
        cells.put(chosen, new)
        if out is not None:
            out[lanes[chosen]] = old
        changed |= old.tobytes() != new.tobytes()
    if few:
        for start, count in zip(starts[crowded].tolist(), counts[crowded].tolist(), strict=True):
            chosen = order[start : start + count]
            first = cells.get(chosen[:1])
            olds, last = _one_cell(first, [v[chosen] for v in operands], atomic)
            cells.put(chosen[:1], last)
            if out is not None:
                out[lanes[chosen]] = olds
            changed |= np.concatenate([olds[1:], last]).tobytes() != olds.tobytes()
    return changed


def _like(old: Array, new: Array) -> Array:
    """The result of an update, in the type of the cells."""
    return new.view(old.dtype) if new.dtype.itemsize == old.dtype.itemsize else new.astype(old.dtype)


def _new(atomic: Atomic, old: Array, operands: list[Array]) -> Array:
    """What cells hold afterwards, in their type."""
    return _like(old, atomic.update(old, *operands))


def _one_cell(first: Array, operands: list[Array], atomic: Atomic) -> tuple[Array, Array]:
    """The values that many lanes find in one cell that holds ``first`` (one element), and the value that they leave.

    Lanes that leave the cell unchanged cost next to nothing: all see the same value until one changes it, as when
    spinning on a lock.
    """
    n = len(operands[0])
    if atomic.kind == "exch":
        values = _like(first, operands[0])
        return np.concatenate([first, values[:-1]]), values[-1:]
    if atomic.kind == "add" and first.dtype.kind == "f":
        sums = np.add.accumulate(np.concatenate([first, operands[0]]))
        if _plain(sums) and _plain(operands[0]):
            return sums[:-1], sums[-1:]
    olds = np.empty(n, first.dtype)
    at, width, value = 0, 1, first
    while at < n:
        window = slice(at, at + width)
        seen = np.repeat(value, min(width, n - at))
        new = _new(atomic, seen, [v[window] for v in operands])
        changed = np.flatnonzero(bits_of(new) != bits_of(seen))
        if len(changed):
            done, width = int(changed[0]) + 1, max(width // 2, 1)
            value = new[done - 1 : done]
        else:
            done, width = len(seen), 2 * width
        olds[at : at + done] = seen[:done]
        at += done
    return olds, value


def _plain(values: Array) -> bool:
    """Whether the values contain no NaN, infinity or subnormal number, so that rounding treats them all alike."""
    size = np.abs(values)
    return bool((((size >= np.finfo(values.dtype).tiny) | (size == 0)) & (size < np.inf)).all())


def apply_atomic(
    port: Port, kind: str, address: Address, dtype: DType, atomic: Atomic, *, returns: bool
) -> Array | None:
    """Do an atomic for every lane; the old values where asked for."""
    commutes = not returns and atomic.kind in DIRECT and dtype.kind in "iu"
    out = np.zeros(port.group.selection.n, dtype) if returns else None
    access = _Access(port, address, dtype, atomic, out, ordered=not commutes)
    if kind == "global":
        access.in_global()
    else:
        access.in_words(kind)
    return None if out is None else port.group.selection.from_order(out)


def _distinct(owners: Array) -> Array:
    """The distinct values; usually one, which needs no sorting."""
    if owners.size and owners[0] == owners.min() == owners.max():
        return owners[:1]
    return distinct(owners)


@frozen(eq=False)
class _Access:
    """Atomics of a group's lanes; old values go to ``out``. ``ordered``: in the order CTA, warp, lane."""

    port: Port
    address: Address
    dtype: DType
    atomic: Atomic
    out: Array | None
    ordered: bool

    @property
    def writes(self) -> int:
        """What it is to whoever follows definedness: an exchange only writes."""
        return WRITE if self.atomic.kind == "exch" else ATOMIC

    def flat(self, value: Array) -> Array:
        """A value for each lane, one after the other."""
        selection = self.port.group.selection
        full = spread(value, selection.shape)
        return selection.in_order(full) if self.ordered else full.reshape(-1)

    def update(self, cells: Cells, values: list[Array], lanes: Array) -> None:
        """Let ``lanes`` update their cells."""
        self.port.globals.version += update(cells, self.atomic, values, self.out, lanes)

    def in_global(self) -> None:
        """Update global memory, allocation by allocation."""
        port, size = self.port, self.dtype.itemsize
        values = [self.flat(as_array(v)) for v in self.atomic.operands]
        base, offset = as_array(self.address.base).view(np.int64), self.address.offset
        within = self.address.within
        alone = global_access.only_allocation(port, base, offset, size, within)
        if alone is not None and not alone.read_only:
            self.in_allocation(alone, base + offset, values)
            return
        places, owners, good = global_access.resolve(port, base, offset, size, within, write=True)
        if port.hooks.memory_accessed is not None:
            for index in distinct(owners[good]):
                allocation, here = port.globals.allocation(int(index)), good & (owners == index)
                global_access.report(port, ATOMIC, allocation, places, size, here)
        place, owner, chosen = self.flat(places), self.flat(owners), np.flatnonzero(self.flat(good))
        for index in _distinct(owner[chosen]):
            which = chosen[owner[chosen] == index]
            allocation = port.globals.allocation(int(index))
            if allocation.shadow is not None:
                global_access.report_shadow(port, self.writes, allocation, places, size, good & (owners == index))
            allocation.own()
            cells = Cells.of((place[which] - allocation.start) // size, allocation.elements(self.dtype))
            self.update(cells, [v[which] for v in values], which)

    def in_allocation(self, allocation: Allocation, places: Array, values: list[Array]) -> None:
        """Update one allocation, which contains every lane's address."""
        active, size = self.port.active, self.dtype.itemsize
        global_access.report(self.port, ATOMIC, allocation, places, size, active)
        global_access.report_shadow(self.port, self.writes, allocation, places, size, active)
        allocation.own()
        keys = self.flat((places - allocation.start) >> (size.bit_length() - 1))
        if active is None:
            which = np.arange(keys.size)
        else:
            which = np.flatnonzero(self.flat(active))
            keys, values = keys[which], [v[which] for v in values]
        self.update(Cells.of(keys, allocation.elements(self.dtype)), values, which)

    def _one_each(self, space: WordSpace, place: int, columns: Array) -> bool:
        """A thread of each column updates 64 bits at one place."""
        run = in_a_row(columns)
        old = space.doubles(place, run).view(self.dtype)
        operands = [v.reshape(-1) if v.size == 1 else self.flat(v) for v in map(as_array, self.atomic.operands)]
        new = _new(self.atomic, old, operands)
        space.put_doubles(place, run, new.view(np.uint64))
        if self.out is not None:
            self.out[:] = old
        return old.tobytes() != new.tobytes()

    def in_words(self, kind: str) -> None:
        """Update shared or local memory."""
        port, dtype, size, hooks = self.port, self.dtype, self.dtype.itemsize, self.port.hooks
        found, space, columns, _, active = word_access.locate(port, kind, self.address, size)
        if hooks.memory_accessed is not None:
            access = MemoryAccess(ATOMIC, kind, found, size, None, columns, active)
            hooks.memory_accessed(port.machine, port.group, access)
        if hooks.shadow_accessed is not None and space.shadow is not None:
            access = MemoryAccess(self.writes, kind, found, size, None, columns, active)
            hooks.shadow_accessed(port.machine, port.group, access)
        space.own()
        selection = port.group.selection
        if (
            type(found) is int
            and size == 8
            and active is None
            and isinstance(selection, Rect)
            and columns.size == selection.n
        ):
            port.globals.version += self._one_each(space, found, columns.reshape(-1))
            return
        place = np.asarray(found, np.int64)
        if self.out is None and self.atomic.kind in DIRECT and dtype.kind in "iu" and active is None and size <= 4:
            index = self.flat(space.element_index(place, columns, size))
            value = as_array(self.atomic.operands[0]).view(dtype)
            many = value.reshape(-1)[0] if value.size == 1 else self.flat(value)
            port.globals.version += direct(space.flat.view(dtype), index, self.atomic.kind, many)
            return
        which = np.arange(port.group.selection.n) if active is None else np.flatnonzero(self.flat(active))
        if not len(which):
            return
        where, column = self.flat(place)[which], self.flat(columns)[which]
        if size <= 4:
            cells = Cells.of(space.element_index(where, column, size), space.flat.view(dtype))
        else:
            cells = Cells(
                where * space.n_columns + column,
                lambda i: space.gather(where[i], column[i], dtype),
                lambda i, v: space.scatter(where[i], column[i], v),
                None,
            )
        self.update(cells, [self.flat(as_array(v))[which] for v in self.atomic.operands], which)
