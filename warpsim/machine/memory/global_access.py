"""Loads and stores of global memory: strided views for affine addresses, gathers for others, every fault named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.memory.addresses import Address, bits_of, cta_order, disjoint, last_along, misaligned
from warpsim.machine.memory.global_memory import Allocation
from warpsim.machine.memory.strays import global_stray
from warpsim.machine.values import FLAT, Affine, Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.memory.access import Memory


class GlobalAccess:
    """The part of a batch's port that reaches the device's allocations."""

    def __init__(self, port: Memory) -> None:
        self.port = port

    def affine_view(self, base: Affine, offset: int, dtype: np.dtype[Any], count: int, write: bool) -> Array | None:
        """A strided view of global memory ``[T1, T0, C1, C0, count]``, or None where the checked way is needed."""
        low, high = base.limits()
        low, high = low + offset, high + offset
        nbytes = dtype.itemsize * count
        if low < 0 or (base.base + offset) % nbytes:
            return None
        allocation = self.port.globals.find(low, high + nbytes)
        if allocation is None or (write and allocation.read_only):
            return None
        strides = base.strides
        if any(s % nbytes for s in strides):
            return None
        shape = tuple([e if s else 1 for s, e in zip(strides, base.extents, strict=True)])
        steps = (*strides, dtype.itemsize)
        at = base.base + offset - allocation.start
        if self.port.races is not None and not write:
            self.port.races.globals(allocation, base.array().astype(np.int64) + offset, nbytes, None, False)
        if allocation.defined is not None:
            bits = np.ndarray((*shape, count), f"u{min(dtype.itemsize, 8)}", allocation.defined.data, at, steps)
            if write:
                if not disjoint(base, nbytes):
                    return None
                bits[...] = np.iinfo(bits.dtype).max
            elif (bits != np.iinfo(bits.dtype).max).any():
                return None
        return np.ndarray((*shape, count), dtype, allocation.data, at, steps)

    def load(self, address: Address, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        """``count`` consecutive elements from each lane's address; zeros where a fault was reported."""
        base, offset = address
        if self.port.global_flight is not None:
            self.port.global_flight.touch("read", base, offset, dtype.itemsize * count, self.port.active)
        if type(base) is Affine and (self.port.active is None or base.strides == FLAT):
            view = self.affine_view(base, offset, dtype, count, False)
            if view is not None:
                if base.strides == FLAT:
                    view = view.reshape((*(1,) * len(self.port.group.selection.shape), count))
                return tuple([view[..., k].copy() for k in range(count)])
        array = as_array(base).view(np.int64)
        nbytes = dtype.itemsize * count
        low, high = int(array.min()) + offset, int(array.max()) + offset
        allocation = self.port.globals.find(low, high + nbytes)
        if allocation is not None and allocation.defined is None and not misaligned(array, offset, nbytes):
            if self.port.races is not None:
                self.port.races.globals(allocation, array + offset, nbytes, self.port.active, False)
            return _take(allocation, array, offset, dtype, count)
        return self._load_checked(array, offset, dtype, count)

    def _load_checked(self, array: Array, offset: int, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        place, owner, good = self.resolve(array, offset, dtype.itemsize * count, False)
        out = tuple([np.zeros(place.shape, dtype) for _ in range(count)])
        for index in np.unique(owner[good]):
            here = good & (owner == index)
            allocation = self.port.globals.allocation(int(index))
            if self.port.races is not None:
                self.port.races.globals(allocation, place, dtype.itemsize * count, here, False)
            if allocation.defined is not None:
                self.port.undefined |= _lacks(allocation.defined, place[here], dtype.itemsize * count)
            for target, values in zip(out, _take(allocation, place[here], 0, dtype, count), strict=True):
                target[here] = values
        return out

    def defined_bits(self, address: Address, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        """Ones for each bit of the elements that something has written."""
        base, offset = address
        place, owner, good = self.resolve(as_array(base).view(np.int64), offset, dtype.itemsize * count, False)
        out = tuple([np.full((*place.shape, dtype.itemsize), 0xFF, np.uint8) for _ in range(count)])
        for index in np.unique(owner[good]):
            bits = self.port.globals.allocation(int(index)).defined
            if bits is not None:
                here = good & (owner == index)
                for k, target in enumerate(out):
                    at = place[here] - bits.start + k * dtype.itemsize
                    target[here] = bits.data[at[:, None] + np.arange(dtype.itemsize)]
        return tuple([target.view(dtype)[..., 0] for target in out])

    def resolve(self, array: Array, offset: int, nbytes: int, write: bool) -> tuple[Array, Array, Array]:
        """Absolute addresses in the group's shape, their allocations, and which lanes may access (faults reported)."""
        shape = self.port.group.selection.shape
        place = np.broadcast_to(array + offset, shape)
        active = np.ones(shape, np.bool_) if self.port.active is None else np.broadcast_to(self.port.active, shape)
        owner = self.port.globals.owners(place, nbytes)
        good = (
            active & (owner >= 0) & (place & (nbytes - 1) == 0 if nbytes & (nbytes - 1) == 0 else place % nbytes == 0)
        )
        if not np.array_equal(good, active):
            bad = active & ~good
            first = int(place[bad][0])
            odd = bad & (owner >= 0)
            if odd.any():
                self.port.batch.fault(
                    "misaligned",
                    f"address 0x{int(place[odd][0]):x} is not a multiple of the access size {nbytes}",
                    self.port.group,
                    odd,
                    address=int(place[odd][0]),
                )
            outside = bad & (owner < 0)
            if outside.any():
                first = int(place[outside][0])
                text, advice = global_stray(self.port.globals, first, nbytes)
                self.port.batch.fault("out-of-bounds", text, self.port.group, outside, address=first, advice=advice)
        if write and good.any():
            locked = np.array([a.read_only for a in self.port.globals._allocations] or [False])
            wrong = good & locked[np.maximum(owner, 0)]
            if wrong.any():
                first = int(place[wrong][0])
                name = self.port.globals.allocation(int(owner[wrong][0])).name
                self.port.batch.fault(
                    "read-only",
                    f"store of {nbytes} bytes to address 0x{first:x} of {name}, which is read-only",
                    self.port.group,
                    wrong,
                    address=first,
                )
                good = good & ~wrong
        return place, owner, good

    def note_atomic(self, bits: Allocation, place: Array, nbytes: int, overwrites: bool) -> None:
        """An atomic reads what is at these addresses, or only replaces it."""
        if overwrites:
            _mark(bits, place, nbytes)
        else:
            self.port.undefined |= _lacks(bits, place, nbytes)

    def _note_store(self, address: Address, values: tuple[Array, ...]) -> None:
        """Tell those who watch of a store."""
        base, offset = address
        nbytes = values[0].dtype.itemsize * len(values)
        array = as_array(base).view(np.int64)
        allocation = self.port.globals.find(int(array.min()) + offset, int(array.max()) + offset + nbytes)
        if allocation is not None and not misaligned(array, offset, nbytes):
            self._note(allocation, array + offset, nbytes, self.port.active)
            return
        shape = self.port.group.selection.shape
        place = np.broadcast_to(array + offset, shape)
        owner = self.port.globals.owners(place, nbytes)
        good = (owner >= 0) & (place % nbytes == 0)
        if self.port.active is not None:
            good &= self.port.active
        for which in np.unique(owner[good]):
            self._note(self.port.globals.allocation(int(which)), place, nbytes, good & (owner == which))

    def _note(self, allocation: Allocation, place: Array, nbytes: int, mask: Array | None) -> None:
        if self.port.races is not None:
            self.port.races.globals(allocation, place, nbytes, mask, True)
        if self.port.proxies is not None:
            self.port.proxies.globals(allocation, place, nbytes, mask)

    def _differs(self, address: Address, values: tuple[Array, ...]) -> Array:
        """The lanes that do not find their values in memory."""
        shape = self.port.group.selection.shape
        found: Array = np.zeros(shape, np.bool_)
        for held, value in zip(self.load(address, values[0].dtype, len(values)), values, strict=True):
            found |= bits_of(held) != bits_of(value)
        return found if self.port.active is None else found & self.port.active

    def store(self, address: Address, values: tuple[Array, ...]) -> None:
        """Consecutive elements at each lane's address; of equal addresses the last lane's stay."""
        races = self.port.races
        if self.port.global_flight is not None:
            nbytes = values[0].dtype.itemsize * len(values)
            self.port.global_flight.touch("write", address[0], address[1], nbytes, self.port.active)
        if races is not None or self.port.proxies is not None:
            self._note_store(address, values)
            if races is not None and races.doubts:
                proxies, self.port.races, self.port.proxies = self.port.proxies, None, None
                flight, self.port.global_flight = self.port.global_flight, None
                changed = self._differs(address, values)
                self.store(address, values)
                lost = self._differs(address, values)
                self.port.races, self.port.proxies, self.port.global_flight = races, proxies, flight
                races.settle(changed, lost)
                return
        base, offset = address
        dtype, count = values[0].dtype, len(values)
        nbytes = dtype.itemsize * count
        if type(base) is Affine and self.port.active is None:
            view = self.affine_view(base, offset, dtype, count, True)
            if view is not None and disjoint(base, nbytes):
                for k, value in enumerate(values):
                    view[..., k] = last_along(value, view.shape[:-1])
                return
        array = as_array(base).view(np.int64)
        low, high = int(array.min()) + offset, int(array.max()) + offset
        allocation = self.port.globals.find(low, high + nbytes)
        shape = self.port.group.selection.shape
        if (
            allocation is not None
            and not allocation.read_only
            and allocation.defined is None
            and self.port.active is None
            and not misaligned(array, offset, nbytes)
        ):
            index = np.broadcast_to((array + (offset - allocation.start)) // nbytes, shape)
            _put(allocation, cta_order(index), tuple([cta_order(np.broadcast_to(v, shape)) for v in values]))
            return
        place, owner, good = self.resolve(array, offset, nbytes, True)
        place, owner, good = cta_order(place), cta_order(owner), cta_order(good)
        full = [cta_order(np.broadcast_to(v, shape)) for v in values]
        for which in np.unique(owner[good]):
            here = good & (owner == which)
            chosen = self.port.globals.allocation(int(which))
            if chosen.defined is not None:
                _mark(chosen.defined, place[here], nbytes)
            _put(chosen, (place[here] - chosen.start) // nbytes, tuple([v[here] for v in full]))


def _take(allocation: Allocation, array: Array, offset: int, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
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
    view = allocation.elements(values[0].dtype, len(values))
    if len(values) == 1:
        view[index] = values[0]
        return
    for k, value in enumerate(values):
        view[index, k] = value


def _lacks(bits: Allocation, place: Array, nbytes: int) -> bool:
    """Whether any of ``nbytes`` at these addresses was never written."""
    return not all(bits.data[place - bits.start + k].all() for k in range(nbytes))


def _mark(bits: Allocation, place: Array, nbytes: int) -> None:
    """``nbytes`` at these addresses were written."""
    for k in range(nbytes):
        bits.data[place - bits.start + k] = 0xFF
