"""Atomic read-modify-writes of many lanes, in the order CTA, warp, lane."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from warpsim.machine.events import ATOMIC, WRITE, MemoryAccess
from warpsim.machine.memory import global_access, word_access
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.atomic_cells import DIRECT, Atomic, Cells, direct, update
from warpsim.machine.memory.port import Port
from warpsim.machine.selection import Selection
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.values import Array, DType, as_array, spread


@attrs.frozen(eq=False)
class _Lanes:
    """The lanes of a group one after the other; in the order CTA, warp, lane if that matters."""

    selection: Selection
    ordered: bool

    def flat(self, value: Array) -> Array:
        """A value for each."""
        full = spread(value, self.selection.shape)
        return self.selection.in_order(full) if self.ordered else full.reshape(-1)


def apply_atomic(
    port: Port,
    kind: str,
    address: Address,
    dtype: DType,
    function: Callable[..., Array],
    operands: tuple[Array, ...],
    name: str,
    safe_sum: Callable[[Array], Array] | None = None,
    *,
    returns: bool,
) -> Array | None:
    """``new = function(old, *operands)`` for every lane; the old values where asked for. See `Atomic`."""
    atomic, selection = Atomic(function, name, safe_sum), port.group.selection
    commutes = not returns and name in DIRECT and dtype.kind in "iu"
    lanes = _Lanes(selection, ordered=not commutes)
    out = np.zeros(selection.n, dtype) if returns else None
    if kind == "global":
        _in_global(port, address, dtype, atomic, operands, lanes, out)
    else:
        _in_words(port, kind, address, dtype, atomic, operands, lanes, out)
    return None if out is None else selection.from_order(out)


def _distinct(owners: Array) -> Array:
    """The distinct values; usually one, which needs no sorting."""
    if owners.size and owners[0] == owners.min() == owners.max():
        return owners[:1]
    return np.unique(owners)


def _in_global(
    port: Port,
    address: Address,
    dtype: DType,
    atomic: Atomic,
    operands: tuple[Array, ...],
    lanes: _Lanes,
    out: Array | None,
) -> None:
    """Of global memory: allocation by allocation."""
    size = dtype.itemsize
    values = [lanes.flat(as_array(v)) for v in operands]
    base = as_array(address.base).view(np.int64)
    alone = global_access.only_allocation(port, base, address.offset, size)
    if alone is not None and not alone.read_only:
        _in_allocation(port, alone, base + address.offset, dtype, atomic, values, lanes, out)
        return
    places, owners, good = global_access.resolve(port, base, address.offset, size, write=True)
    if port.hooks.memory_accessed is not None:
        for index in np.unique(owners[good]):
            allocation, here = port.globals.allocation(int(index)), good & (owners == index)
            global_access.report(port, ATOMIC, allocation, places, size, here)
    place, owner, chosen = lanes.flat(places), lanes.flat(owners), np.flatnonzero(lanes.flat(good))
    for index in _distinct(owner[chosen]):
        which = chosen[owner[chosen] == index]
        allocation = port.globals.allocation(int(index))
        if allocation.shadow is not None:
            global_access.report_shadow(port, _writes(atomic), allocation, places, size, good & (owners == index))
        allocation.own()
        cells = Cells.of((place[which] - allocation.start) // size, allocation.elements(dtype))
        port.globals.version += update(cells, atomic, [v[which] for v in values], out, which)


def _in_allocation(
    port: Port,
    allocation: Allocation,
    places: Array,
    dtype: DType,
    atomic: Atomic,
    values: list[Array],
    lanes: _Lanes,
    out: Array | None,
) -> None:
    """Of one allocation, which contains every lane's address."""
    active, size = port.active, dtype.itemsize
    global_access.report(port, ATOMIC, allocation, places, size, active)
    global_access.report_shadow(port, _writes(atomic), allocation, places, size, active)
    allocation.own()
    keys = lanes.flat((places - allocation.start) >> (size.bit_length() - 1))
    if active is None:
        which = np.arange(keys.size)
    else:
        which = np.flatnonzero(lanes.flat(active))
        keys, values = keys[which], [v[which] for v in values]
    port.globals.version += update(Cells.of(keys, allocation.elements(dtype)), atomic, values, out, which)


def _in_words(
    port: Port,
    kind: str,
    address: Address,
    dtype: DType,
    atomic: Atomic,
    operands: tuple[Array, ...],
    lanes: _Lanes,
    out: Array | None,
) -> None:
    """Of shared or local memory."""
    found, space, columns, _, active = word_access.locate(port, kind, address, dtype.itemsize)
    hooks, size = port.hooks, dtype.itemsize
    if hooks.memory_accessed is not None:
        told = MemoryAccess(ATOMIC, kind, found, size, None, columns, active)
        hooks.memory_accessed(port.machine, port.group, told)
    if hooks.shadow_accessed is not None and space.shadow is not None:
        told = MemoryAccess(_writes(atomic), kind, found, size, None, columns, active)
        hooks.shadow_accessed(port.machine, port.group, told)
    space.own()
    place = np.asarray(found, np.int64)
    if out is None and atomic.name in DIRECT and dtype.kind in "iu" and active is None and size <= 4:
        index = lanes.flat(space.element_index(place, columns, size))
        value = as_array(operands[0]).view(dtype)
        many = value.reshape(-1)[0] if value.size == 1 else lanes.flat(value)
        port.globals.version += direct(space.flat.view(dtype), index, atomic.name, many)
        return
    which = np.arange(port.group.selection.n) if active is None else np.flatnonzero(lanes.flat(active))
    if not len(which):
        return
    where, column = lanes.flat(place)[which], lanes.flat(columns)[which]
    if size <= 4:
        cells = Cells.of(space.element_index(where, column, size), space.flat.view(dtype))
    else:
        cells = Cells(
            where * space.n_columns + column,
            lambda i: space.gather(where[i], column[i], dtype),
            lambda i, v: space.scatter(where[i], column[i], v),
            None,
        )
    values = [lanes.flat(as_array(v))[which] for v in operands]
    port.globals.version += update(cells, atomic, values, out, which)


def _writes(atomic: Atomic) -> int:
    """What an atomic is to whoever follows definedness: an exchange only writes."""
    return WRITE if atomic.name == "exch" else ATOMIC
