"""Atomic read-modify-writes of many lanes: rounds of lanes with distinct addresses, in the order CTA, warp, lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.machine.address import Address
from warpsim.machine.events import ATOMIC, WRITE, MemoryAccess
from warpsim.machine.memory.global_access import GlobalAccess
from warpsim.machine.memory.word_access import WordAccess
from warpsim.machine.values import Array, as_array

CROWD = 8
"""One address is served by itself where fewer than one in so many turns of all addresses would be saved otherwise."""
_DIRECT = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class Reach(GlobalAccess, WordAccess):
    """The parts of the port that atomics go through."""

    __slots__ = ()


class Cells:
    """The distinct memory elements that lanes address: ``keys`` tell equal ones, ``get`` and ``put`` by lane."""

    def __init__(
        self, keys: Array, get: Callable[[Any], Array], put: Callable[[Any, Array], None], flat: Array | None
    ) -> None:
        self.keys = keys
        self.get = get
        self.put = put
        self.flat = flat


def _distinct(owners: Array) -> Array:
    """The values that occur; nearly always one, for which there is no need to sort."""
    if owners.size and owners[0] == owners.min() == owners.max():
        return owners[:1]
    return np.unique(owners)


def apply_atomic(
    memory: Reach,
    kind: str,
    address: Address,
    dtype: np.dtype[Any],
    update: Callable[..., Array],
    operands: tuple[Array, ...],
    name: str,
    safe_sum: Callable[[Array], Array] | None = None,
    *,
    returns: bool,
) -> Array | None:
    """``new = update(old, *operands)`` for every lane; the old values where asked for.

    ``safe_sum(old)``: how large a sum of operands may be that does the same at once as its parts one after the other."""
    shape = memory.group.selection.shape
    commutes = not returns and name in _DIRECT and dtype.kind in "iu"
    order = tuple(range(len(shape))) if commutes else _order(shape)
    base, offset = address.base, address.offset
    access = WRITE if name == "exch" else ATOMIC
    if kind == "global":
        flat_operands = _flat(operands, shape, order)
        place, owner, good = memory.resolve(as_array(base).view(np.int64), offset, dtype.itemsize, write=True)
        if memory.window.memory_accessed is not None:
            for index in np.unique(owner[good]):
                allocation, here = memory.globals.allocation(int(index)), good & (owner == index)
                memory.tell_global(ATOMIC, allocation, place, dtype.itemsize, here)
        places, owners, allowed = place, owner, good
        place, owner, good = (x.transpose(order).reshape(-1) for x in (place, owner, good))
        chosen = np.flatnonzero(good)
        out = np.zeros(len(place), dtype) if returns else None
        for index in _distinct(owner[chosen]):
            lanes = chosen[owner[chosen] == index]
            allocation = memory.globals.allocation(int(index))
            if allocation.companion is not None:
                here = allowed & (owners == index)
                memory.tell_companion_global(access, allocation, places, dtype.itemsize, here)
            allocation.own()
            elements = allocation.elements(dtype)
            keys = (place[lanes] - allocation.start) // dtype.itemsize
            _run(
                memory,
                _flat_cells(keys, elements),
                [v[lanes] for v in flat_operands],
                update,
                out,
                lanes,
                name,
                safe_sum,
            )
    else:
        found, space, columns, _, active = memory.place(kind, address, dtype.itemsize)
        window = memory.window
        if window.memory_accessed is not None:
            told = MemoryAccess(ATOMIC, kind, found, dtype.itemsize, None, columns, active)
            window.memory_accessed(memory.machine, memory.group, told)
        if window.companion_accessed is not None and space.companion is not None:
            told = MemoryAccess(access, kind, found, dtype.itemsize, None, columns, active)
            window.companion_accessed(memory.machine, memory.group, told)
        space.own()
        if commutes and active is None and dtype.itemsize <= 4:
            index = space.element_index(np.asarray(found, np.int64), columns, dtype.itemsize)
            values = as_array(operands[0]).view(dtype)
            many = values.reshape(-1)[0] if values.size == 1 else np.broadcast_to(values, shape).reshape(-1)
            _DIRECT[name].at(space.flat.view(dtype), np.broadcast_to(index, shape).reshape(-1), many)
            memory.globals.version += 1
            return None
        flat_operands = _flat(operands, shape, order)
        place = np.broadcast_to(np.asarray(found, np.int64), shape).transpose(order).reshape(-1)
        columns = np.broadcast_to(columns, shape).transpose(order).reshape(-1)
        lanes = (
            np.arange(len(place))
            if active is None
            else np.flatnonzero(np.broadcast_to(active, shape).transpose(order).reshape(-1))
        )
        out = np.zeros(len(place), dtype) if returns else None
        if len(lanes):
            where, column = place[lanes], columns[lanes]
            size = dtype.itemsize
            if size <= 4:
                keys = space.element_index(where, column, size)
                cells = _flat_cells(keys, space.flat.view(dtype))
            else:
                keys = where * space.n_columns + column
                cells = Cells(
                    keys,
                    lambda i: space.gather(where[i], column[i], dtype),
                    lambda i, v: space.scatter(where[i], column[i], v),
                    None,
                )
            _run(memory, cells, [v[lanes] for v in flat_operands], update, out, lanes, name, safe_sum)
    if out is None:
        return None
    inverse = np.argsort(order)
    return out.reshape([shape[axis] for axis in order]).transpose(inverse)


def _flat(operands: tuple[Array, ...], shape: tuple[int, ...], order: tuple[int, ...]) -> list[Array]:
    """Operands one after the other in the order of the lanes."""
    return [np.broadcast_to(as_array(v), shape).transpose(order).reshape(-1) for v in operands]


def _order(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (2, 3, 0, 1) if len(shape) == 4 else (0,)


def _flat_cells(keys: Array, elements: Array) -> Cells:
    def put(lanes: Any, values: Array) -> None:
        elements[keys[lanes]] = values

    return Cells(keys, lambda lanes: elements[keys[lanes]], put, elements)


def _run(
    memory: Reach,
    cells: Cells,
    operands: list[Array],
    update: Callable[..., Array],
    out: Array | None,
    lanes: Array,
    name: str,
    safe_sum: Callable[[Array], Array] | None,
) -> None:
    integer = cells.flat is not None and cells.flat.dtype.kind in "iu"
    if out is None and integer and name in _DIRECT:
        assert cells.flat is not None
        _DIRECT[name].at(cells.flat, cells.keys, operands[0].view(cells.flat.dtype))
        memory.globals.version += 1
        return
    keys = cells.keys
    n = len(keys)
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    counts = np.diff(np.r_[starts, n])
    if integer and name == "add" and len(starts) < n:
        assert cells.flat is not None
        assert out is not None
        dtype = cells.flat.dtype
        values = operands[0].view(dtype)[order]
        running = np.cumsum(values, dtype=dtype)
        before = np.repeat(running[starts] - values[starts], counts)
        first = cells.get(order[starts])
        out[lanes[order]] = np.repeat(first, counts) + (running - values - before)
        last = first + np.add.reduceat(values, starts, dtype=dtype)
        if (last != first).any():
            cells.put(order[starts], last)
            memory.globals.version += 1
        return
    if safe_sum is not None and len(starts) < n:
        values = operands[0].astype(np.int64)[order]
        totals = np.add.reduceat(values, starts)
        first = cells.get(order[starts])
        if (totals <= safe_sum(first)).all():
            if out is not None:
                running = np.cumsum(values)
                before = np.repeat(running[starts] - values[starts], counts)
                out[lanes[order]] = _like(first, update(np.repeat(first, counts), running - values - before))
            cells.put(order[starts], _like(first, update(first, totals)))
            memory.globals.version += 1
            return
    crowded = counts > 1
    few = bool(name) and CROWD * np.count_nonzero(crowded) < counts.max()
    for turn in range(1 if few else int(counts.max())):
        chosen = order[starts[(counts > turn) & ~(few & crowded)] + turn]
        if not len(chosen):
            continue
        old = cells.get(chosen)
        new = _like(old, update(old, *[v[chosen] for v in operands]))
        cells.put(chosen, new)
        if out is not None:
            out[lanes[chosen]] = old
        if old.tobytes() != new.tobytes():
            memory.globals.version += 1
    if few:
        for start, count in zip(starts[crowded].tolist(), counts[crowded].tolist(), strict=True):
            chosen = order[start : start + count]
            first = cells.get(chosen[:1])
            olds, last = _one_cell(first, [v[chosen] for v in operands], update, name)
            cells.put(chosen[:1], last)
            if out is not None:
                out[lanes[chosen]] = olds
            if first.tobytes() != last.tobytes():
                memory.globals.version += 1


def _like(old: Array, new: Array) -> Array:
    """What an update gave, in the type of the cells."""
    return new.view(old.dtype) if new.dtype.itemsize == old.dtype.itemsize else new.astype(old.dtype)


def _one_cell(first: Array, operands: list[Array], update: Callable[..., Array], name: str) -> tuple[Array, Array]:
    """What many lanes find in one cell that holds ``first`` (one element), and what they leave there.

    Lanes that leave the cell as it is cost next to nothing: all look at the same value until one changes it. That is
    what spinning on a lock looks like."""
    n = len(operands[0])
    if name == "exch":
        values = _like(first, operands[0])
        return np.concatenate([first, values[:-1]]), values[-1:]
    if name == "add" and first.dtype.kind == "f":
        sums = np.add.accumulate(np.concatenate([first, operands[0]]))
        if _plain(sums) and _plain(operands[0]):
            return sums[:-1], sums[-1:]
    olds = np.empty(n, first.dtype)
    at, width, value = 0, 1, first
    while at < n:
        window = slice(at, at + width)
        seen = np.repeat(value, min(width, n - at))
        new = _like(seen, update(seen, *[v[window] for v in operands]))
        changed = np.flatnonzero(_bits(new) != _bits(seen))
        if len(changed):
            done, width = int(changed[0]) + 1, max(width // 2, 1)
            value = new[done - 1 : done]
        else:
            done, width = len(seen), 2 * width
        olds[at : at + done] = seen[:done]
        at += done
    return olds, value


def _plain(values: Array) -> bool:
    """Whether there is no NaN, infinity or subnormal number among the values, which rounding treats alike everywhere."""
    size = np.abs(values)
    return bool((((size >= np.finfo(values.dtype).tiny) | (size == 0)) & (size < np.inf)).all())


def _bits(values: Array) -> Array:
    return values if values.dtype.names else values.view(f"u{values.dtype.itemsize}")
