"""Loads and stores of global memory: strided views for affine addresses, gathers for others, and a message for every
fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from warpsim.machine.hooks import NO_COLUMNS, READ, WRITE, MemoryAccess
from warpsim.machine.memory.addresses import (
    Address,
    Extent,
    Pattern,
    bits_of,
    last_along,
    misaligned,
    outside_global,
    pattern_of,
)
from warpsim.machine.memory.port import Port, leave
from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.values import FLAT, Affine, Array, DType, as_array, spread
from warpsim.numerics.arrays import distinct

I64 = np.dtype(np.int64)


def affine_view(port: Port, address: Address, dtype: DType, count: int, *, write: bool) -> Array | None:
    """A strided view of global memory ``[T1, T0, C1, C0, count]`` (without the last axis if count is 1); None if
    the checked path is needed. Lanes that take no part must have the address of the others."""
    base, offset = address.base, address.offset
    assert type(base) is Affine
    strides, first, nbytes = base.strides, base.base + offset, dtype.itemsize * count
    found = in_one_allocation(port.globals, base, offset, nbytes, address.within)
    if found is None:
        return None
    allocation, pattern = found
    if write:
        if allocation.read_only or not pattern.disjoint:
            return None
        allocation.own()
    if port.hooks.memory_accessed is not None and not write:
        report(port, READ, allocation, Affine(first, strides, base.extents, I64), nbytes, port.active)
    if allocation.shadow is not None:
        place = Affine(first, strides, base.extents, I64)
        report_shadow(port, WRITE if write else READ, allocation, place, nbytes, port.active)
    at = first - allocation.start
    if count == 1:
        return np.ndarray(pattern.shape, dtype, allocation.data, at, strides)
    return np.ndarray((*pattern.shape, count), dtype, allocation.data, at, (*strides, dtype.itemsize))


def load(port: Port, address: Address, dtype: DType, count: int) -> tuple[Array, ...]:
    """Load ``count`` consecutive elements from each lane's address; zeros where a fault was reported."""
    base, offset = address.base, address.offset
    if type(base) is Affine and (port.active is None or base.strides == FLAT):
        view = affine_view(port, address, dtype, count, write=False)
        if view is not None:
            if count == 1:
                one = view.copy()
                return (one.reshape((1,) * len(port.group.selection.shape)) if base.strides == FLAT else one,)
            if base.strides == FLAT:
                view = view.reshape((*(1,) * len(port.group.selection.shape), count))
            return tuple([view[..., k].copy() for k in range(count)])
    array = as_array(base).view(np.int64)
    nbytes = dtype.itemsize * count
    allocation = only_allocation(port, array, offset, nbytes, address.within)
    if allocation is not None:
        if port.hooks.memory_accessed is not None:
            report(port, READ, allocation, array + offset, nbytes, port.active)
        report_shadow(port, READ, allocation, array + offset, nbytes, port.active)
        return _take(allocation, array, offset, dtype, count)
    return _load_checked(port, array, offset, dtype, count, address.within)


def only_allocation(
    port: Port, array: Array, offset: int, nbytes: int, within: Extent | None = None
) -> Allocation | None:
    """The allocation that contains all lanes' accesses, of those that do not execute too; None if there is none, an
    address is misaligned, or one is not ``within`` the variable that it is made from."""
    low, high = int(np.minimum.reduce(array, axis=None)) + offset, int(np.maximum.reduce(array, axis=None)) + offset
    if within is not None and (low < within.low or high + nbytes > within.high):
        return None
    allocation = port.globals.find(low, high + nbytes)
    return None if allocation is None or misaligned(array, offset, nbytes) else allocation


def _load_checked(
    port: Port, array: Array, offset: int, dtype: DType, count: int, within: Extent | None
) -> tuple[Array, ...]:
    place, owner, good = resolve(port, array, offset, dtype.itemsize * count, within, write=False)
    out = tuple([np.zeros(place.shape, dtype) for _ in range(count)])
    for index in distinct(owner[good]):
        here = good & (owner == index)
        allocation = port.globals.allocation(int(index))
        if port.hooks.memory_accessed is not None:
            report(port, READ, allocation, place, dtype.itemsize * count, here)
        report_shadow(port, READ, allocation, place, dtype.itemsize * count, here)
        for target, values in zip(out, _take(allocation, place[here], 0, dtype, count), strict=True):
            target[here] = values
    return out


def resolve(
    port: Port, array: Array, offset: int, nbytes: int, within: Extent | None = None, *, write: bool
) -> tuple[Array, Array, Array]:
    """Absolute addresses in the group's shape, their allocations, and a mask of the lanes that may access (faults
    are reported)."""
    shape = port.group.selection.shape
    place = spread(array + offset, shape)
    active = np.ones(shape, np.bool_) if port.active is None else spread(port.active, shape)
    owner = port.globals.owners(place, nbytes)
    good = active & (owner >= 0) & (place & (nbytes - 1) == 0 if nbytes & (nbytes - 1) == 0 else place % nbytes == 0)
    if not np.array_equal(good, active):
        bad = active & ~good
        first = int(place[bad][0])
        odd = bad & (owner >= 0)
        if odd.any():
            port.machine.fault(
                "misaligned",
                f"address 0x{int(place[odd][0]):x} is not a multiple of the access size {nbytes}",
                port.group,
                odd,
                address=int(place[odd][0]),
            )
        outside = bad & (owner < 0)
        if outside.any():
            first = int(place[outside][0])
            text, advice = outside_global(port.globals, first, nbytes)
            port.machine.fault("out-of-bounds", text, port.group, outside, address=first, advice=advice)
    elif within is not None:
        leave(port, within, place, nbytes, active)
    if write and good.any():
        locked = np.array([a.read_only for a in port.globals._allocations] or [False])
        wrong = good & locked[np.maximum(owner, 0)]
        if wrong.any():
            first = int(place[wrong][0])
            name = port.globals.allocation(int(owner[wrong][0])).name
            port.machine.fault(
                "read-only",
                f"store of {nbytes} bytes to address 0x{first:x} of {name}, which is read-only",
                port.group,
                wrong,
                address=first,
            )
            good = good & ~wrong
    return place, owner, good


def report(
    port: Port,
    access: int,
    allocation: Allocation,
    place: Array | Affine,
    nbytes: int,
    active: Array | None,
    differs: Callable[[], Array] | None = None,
) -> None:
    """Report an access to an allocation, if there is a listener."""
    notify = port.hooks.memory_accessed
    if notify is not None:
        record = MemoryAccess(access, "global", place, nbytes, allocation, NO_COLUMNS, active, differs)
        notify(port.machine, port.group, record)


def report_shadow(
    port: Port, access: int, allocation: Allocation, place: Array | Affine, nbytes: int, active: Array | None
) -> None:
    """Report an access to an allocation that has a shadow."""
    notify = port.hooks.shadow_accessed
    if notify is not None and allocation.shadow is not None:
        record = MemoryAccess(access, "global", place, nbytes, allocation, NO_COLUMNS, active)
        notify(port.machine, port.group, record)


def _report_store(port: Port, address: Address, values: tuple[Array, ...]) -> None:
    """Report a valid store, allocation by allocation."""
    base, offset = address.base, address.offset
    nbytes = values[0].dtype.itemsize * len(values)
    if type(base) is Affine and port.active is None and _report_affine_store(port, base, offset, nbytes, values):
        return
    array = as_array(base).view(np.int64)
    allocation = only_allocation(port, array, offset, nbytes)
    if allocation is not None:
        differs = partial(_differs, port, allocation, array + offset, port.active, values)
        report(port, WRITE, allocation, array + offset, nbytes, port.active, differs)
        return
    shape = port.group.selection.shape
    place = spread(array + offset, shape)
    owner = port.globals.owners(place, nbytes)
    good = (owner >= 0) & (place % nbytes == 0)
    if port.active is not None:
        good &= port.active
    for which in distinct(owner[good]):
        allocation, here = port.globals.allocation(int(which)), good & (owner == which)
        differs = partial(_differs, port, allocation, place, here, values)
        report(port, WRITE, allocation, place, nbytes, here, differs)


def _report_affine_store(port: Port, base: Affine, offset: int, nbytes: int, values: tuple[Array, ...]) -> bool:
    """Report a store with affine addresses in one allocation; False if they are not."""
    found = in_one_allocation(port.globals, base, offset, nbytes)
    if found is None:
        return False
    allocation, place = found[0], Affine(base.base + offset, base.strides, base.extents, I64)
    report(port, WRITE, allocation, place, nbytes, None, partial(_differs, port, allocation, place, None, values))
    return True


def _differs(
    port: Port, allocation: Allocation, at: Array | Affine, active: Array | None, values: tuple[Array, ...]
) -> Array:
    """A mask of the lanes whose values differ from an allocation's contents."""
    shape = port.group.selection.shape
    place = spread(as_array(at), shape)
    here = np.ones(shape, np.bool_) if active is None else spread(active, shape)
    found: Array = np.zeros(shape, np.bool_)
    for held, value in zip(_take(allocation, place[here], 0, values[0].dtype, len(values)), values, strict=True):
        found[here] |= bits_of(held) != bits_of(spread(value, shape)[here])
    return found


def store(port: Port, address: Address, values: tuple[Array, ...]) -> None:
    """Store consecutive elements at each lane's address; at equal addresses, the last lane wins."""
    hooks = port.hooks
    if hooks.memory_accessed is not None:
        _report_store(port, address, values)
    _store_global(port, address, values)
    if hooks.memory_written is not None:
        hooks.memory_written(port.machine, port.group)


def _store_global(port: Port, address: Address, values: tuple[Array, ...]) -> None:
    base, offset = address.base, address.offset
    dtype, count = values[0].dtype, len(values)
    nbytes = dtype.itemsize * count
    in_order = port.group.selection.in_order
    if type(base) is Affine and port.active is None:
        view = affine_view(port, address, dtype, count, write=True)
        if view is not None:
            for k, value in enumerate(values):
                target = view if count == 1 else view[..., k]
                value = in_order(value) if value.ndim == 1 < value.size else value
                target[...] = last_along(value, target.shape)
            return
    array = as_array(base).view(np.int64)
    shape = port.group.selection.shape
    allocation = None if port.active is not None else only_allocation(port, array, offset, nbytes, address.within)
    if allocation is not None and not allocation.read_only:
        report_shadow(port, WRITE, allocation, array + offset, nbytes, None)
        index = spread((array + (offset - allocation.start)) // nbytes, shape)
        _put(allocation, in_order(index), tuple([in_order(spread(v, shape)) for v in values]))
        return
    place, owner, good = resolve(port, array, offset, nbytes, address.within, write=True)
    full = [in_order(spread(v, shape)) for v in values]
    for which in distinct(owner[good]):
        chosen, mask = port.globals.allocation(int(which)), good & (owner == which)
        report_shadow(port, WRITE, chosen, place, nbytes, mask)
        here = in_order(mask)
        _put(chosen, (in_order(place)[here] - chosen.start) // nbytes, tuple([v[here] for v in full]))


def in_one_allocation(
    memory: GlobalMemory, base: Affine, offset: int, nbytes: int, within: Extent | None = None
) -> tuple[Allocation, Pattern] | None:
    """The allocation that contains aligned accesses at affine addresses plus an offset, and their pattern; None if they
    are misaligned, no allocation contains them all, or they are not ``within`` the variable that they are made from."""
    first, pattern = base.base + offset, pattern_of(base.strides, base.extents, nbytes)
    low = first + pattern.low
    if low < 0 or not pattern.aligned or first % nbytes:
        return None
    if within is not None and (low < within.low or first + pattern.high > within.high):
        return None
    allocation = memory.find(low, first + pattern.high)
    return None if allocation is None else (allocation, pattern)


def _take(allocation: Allocation, array: Array, offset: int, dtype: DType, count: int) -> tuple[Array, ...]:
    view = allocation.elements(dtype, count)
    nbytes = dtype.itemsize * count
    index = array + (offset - allocation.start)
    if nbytes > 1:
        index = index >> (nbytes.bit_length() - 1) if nbytes & (nbytes - 1) == 0 else index // nbytes
    if count == 1:
        return (view.take(index, mode="clip"),)
    rows = view.take(index, axis=0, mode="clip")
    return tuple([np.ascontiguousarray(rows[..., k]) for k in range(count)])


def _put(allocation: Allocation, index: Array, values: tuple[Array, ...]) -> None:
    """Store elements; at equal indices, the last in C order wins, for which NumPy needs a contiguous index."""
    allocation.own()
    index = np.ascontiguousarray(index)
    view = allocation.elements(values[0].dtype, len(values))
    if len(values) == 1:
        view[index] = values[0]
        return
    for k, value in enumerate(values):
        view[index, k] = value
