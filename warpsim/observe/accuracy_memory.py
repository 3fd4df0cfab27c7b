"""The errors of floats in memory, beside the bits for which they were stored, and how they travel with bytes that copies move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from warpsim.isa.exact import DTYPES, adds, two_sum
from warpsim.layout.boxes import Boxes
from warpsim.machine.asynchrony.bulk_reach import BY_DATA_TYPE
from warpsim.machine.hooks import MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.atomics import Runs
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import BoxLoad, BoxStore, RunLoad, RunStore, ThreadCopy, Transfer, Which
from warpsim.machine.values import Affine, Array
from warpsim.observe.accuracy_values import Part
from warpsim.records import frozen


@frozen
class Region:
    """A memory: its ``first`` address, its size in bytes, and how many columns of it there are side by side."""

    space: str
    owner: int
    first: int
    size: int = attrs.field(eq=False)
    columns: int = attrs.field(eq=False)


Plane = tuple[Array, Array, list[int]]
"""Of each element of one type in a region: the bits for which its error was stored, and the error; element by element, those of
all columns side by side. Then the first element that may have one, and the one behind the last."""
FIRST: Array = np.zeros(1, np.int64)
"""The only column of global memory."""


def shared_of(machine: Machine) -> Region:
    """The shared memory of a batch."""
    space = machine.batch.shared
    return Region("shared", id(machine.batch), 0, space.size, space.n_columns)


def global_of(allocation: Allocation) -> Region:
    """An allocation."""
    return Region("global", 0, allocation.start, allocation.end - allocation.start, 1)


def accessed(machine: Machine, access: MemoryAccess) -> tuple[Region, Array]:
    """The memory that lanes access, and the columns of it."""
    if access.allocation is not None:
        return global_of(access.allocation), FIRST
    if access.space == "local":
        space = machine.batch.local
        return Region("local", id(machine.batch), 0, space.size, space.n_columns), access.columns
    return shared_of(machine), access.columns


class ShadowMemory:
    """The errors of floats in all memories of a launch. An error counts as long as the bits are those for which it was stored."""

    def __init__(self) -> None:
        self._planes: dict[Region, dict[str, Plane]] = {}

    def forget(self, batch: object) -> None:
        """Forget what the memories of a batch held."""
        self._planes = {region: plane for region, plane in self._planes.items() if region.owner != id(batch)}

    def kinds(self, region: Region) -> dict[str, Plane]:
        """The types of which a region holds errors."""
        return self._planes.get(region, {})

    def read(self, region: Region, kind: str, place: Array, columns: Array, bits: Array) -> Array:
        """The errors of elements with such bits at these addresses; all broadcast."""
        held, errors, _ = self._planes[region][kind]
        index = _index(region, place, columns, DTYPES[kind].itemsize)
        return np.where(held.take(index, mode="clip") == bits, errors.take(index, mode="clip"), 0.0)

    def found(self, region: Region, kind: str, place: Array, columns: Array, bits: Array) -> Array:
        """The same in any region: one element at each place."""
        known = kind in self.kinds(region)
        return self.read(region, kind, place, columns, bits) if known else np.zeros(len(place))

    def read_lanes(self, access: MemoryAccess, region: Region, kind: str, offset: int, bits: Array) -> Array | None:
        """The errors of elements with such bits at an offset from the addresses that lanes access; None if there are none."""
        held, errors, (low, high) = self._planes[region][kind]
        size = DTYPES[kind].itemsize
        if access.everywhere:
            rows = (access.places + offset >> size.bit_length() - 1).reshape(-1)
            shape = *access.places.shape[:2], *bits.shape[2:]
            if bits.shape == shape and len(rows) * region.columns == bits.size:
                there, lost = (array.reshape(-1, region.columns)[rows].reshape(shape) for array in (held, errors))
                return np.where(there == bits, lost, 0.0)
        reach = _reach(region, access, offset, size)
        if reach is None:
            columns = FIRST if access.allocation is not None else access.columns
            return self.read(region, kind, access.places + offset, columns, bits)
        if reach[1] <= low or high <= reach[0]:
            return None
        views = _views((held, errors), access, reach[0], size)
        return np.where(views[0] == bits, views[1], 0.0)

    def write_lanes(
        self,
        group: Group,
        access: MemoryAccess,
        region: Region,
        kind: str,
        offset: int,
        bits: Array | None,
        error: Array | None,
    ) -> None:
        """Store the errors of elements with such bits at an offset from the addresses that lanes access."""
        size, plane = DTYPES[kind].itemsize, self.kinds(region).get(kind)
        if plane is None and error is None:
            return
        reach = _reach(region, access, offset, size)
        one = bits is None or error is None or np.broadcast_shapes(bits.shape, error.shape) == access.places.shape
        if reach is None or not one:
            columns = FIRST if access.allocation is not None else access.columns
            given = [access.places + offset, columns, *(a for a in (bits, error) if a is not None)]
            if access.active is not None or (access.allocation is not None and error is not None):
                given = in_order(group, access, *given)[1]  # CTAs may store to one address
            self.write(region, kind, *given)
            return
        *arrays, parts = self._grown(region, kind, plane)
        views = _views(arrays, access, reach[0], size)
        if error is None or bits is None:
            views[1][...] = 0.0
            return
        views[0][...], views[1][...] = bits, error
        parts[:] = [min(parts[0], reach[0]), max(parts[1], reach[1])] if parts[1] else reach

    def write(
        self,
        region: Region,
        kind: str,
        place: Array,
        columns: Array,
        bits: Array | None = None,
        error: Array | None = None,
    ) -> None:
        """Store the errors of elements with such bits at these addresses; all broadcast. No error makes them exact."""
        size = DTYPES[kind].itemsize
        plane = self.kinds(region).get(kind)
        if plane is None and error is None:
            return
        held, errors, parts = self._grown(region, kind, plane)
        index = _index(region, place, columns, size)
        if error is None or bits is None:
            errors[index] = 0.0
        else:
            shape = np.broadcast_shapes(index.shape, bits.shape, error.shape)
            if index.shape != shape:
                index = np.broadcast_to(index, shape)  # of lanes at one address, the last stays
            held[index], errors[index] = bits, error
            parts[:] = [0, len(held)]

    def _grown(self, region: Region, kind: str, plane: Plane | None) -> Plane:
        """A plane as large as its region, which may have grown."""
        size = DTYPES[kind].itemsize
        shape = -(-region.size // size) * region.columns
        if plane is None or len(plane[0]) < shape:
            held, errors = np.zeros(shape, f"u{size}"), np.zeros(shape)
            reach = [0, 0]
            if plane is not None:
                held[: len(plane[0])], errors[: len(plane[1])], reach = plane
            plane = self._planes.setdefault(region, {})[kind] = held, errors, reach
        return plane

    def move(
        self, source: Region, start: Array, columns: Array, target: Region, to: Array, into: Array, size: int
    ) -> None:
        """Copy the errors of runs of ``size`` bytes, which begin at ``start``, and in the target at ``to``; all broadcast."""
        for kind in {**self.kinds(source), **self.kinds(target)}:
            width = DTYPES[kind].itemsize
            if size % width:
                continue
            steps = np.arange(0, size, width)
            there, at = to[..., None] + steps, into[..., None]
            plane = self.kinds(source).get(kind)
            if plane is None:
                self.write(target, kind, there, at, None, None)
                continue
            index = _index(source, start[..., None] + steps, columns[..., None], width)
            error = plane[1].take(index, mode="clip")
            self.write(target, kind, there, at, plane[0].take(index, mode="clip"), error if error.any() else None)

    def deliver(self, machine: Machine, transfer: Transfer, which: Which) -> list[tuple[Region, Array, int]]:
        """Let the errors of what asynchronous copies have moved travel with it. Gives the runs of global memory that hold some."""
        work, shared = transfer.work, shared_of(machine)
        if isinstance(work, RunLoad) and work.reduction is None and work.source is not None:
            own, to = work.source, work.to
            start, columns = own.start[which], own.columns[which]
            self.move(shared, start, columns, shared, to.start[which], to.columns[which], work.nbytes)
            return []
        found = moved(transfer, which)
        stored: list[tuple[Region, Array, int]] = []
        if found is None:
            return stored
        address, start, columns, size = found
        for region, some in self._regions(machine, address, shared):
            there, here = (region, address[some], FIRST), (shared, start[some], columns[some])
            if isinstance(work, RunStore | BoxStore):
                self.move(*here, *there, size)
                stored.append((region, address[some], size))
            else:
                self.move(*there, *here, size)
        return stored

    def _regions(self, machine: Machine, address: Array, other: Region) -> Iterator[tuple[Region, Array]]:
        """The allocations of these addresses, each with the addresses in it; none where neither side holds an error."""
        left = np.ones(address.shape, np.bool_)
        if not self._planes:
            return
        while left.any():
            first = int(address[left.argmax()])
            allocation = machine.launch.memory.find(first, first + 1)
            if allocation is None:
                left[left.argmax()] = False
                continue
            some = left & (address >= allocation.start) & (address < allocation.end)
            left &= ~some
            region = global_of(allocation)
            if self.kinds(region) or self.kinds(other):
                yield region, some


def _index(region: Region, place: Array, columns: Array, size: int) -> Array:
    index = (place - region.first) >> size.bit_length() - 1
    return index * region.columns + columns if region.columns > 1 else index


def _reach(region: Region, access: MemoryAccess, offset: int, size: int) -> tuple[int, int] | None:
    """The first element that affine addresses of global memory name, and the one behind the last; None for other addresses, or if
    several lanes name one element."""
    at = access.at
    if access.allocation is None or access.active is not None or type(at) is not Affine:
        return None
    span = size
    for stride, extent in sorted(zip(at.strides, at.extents, strict=True)):
        if extent > 1 and (stride < span or stride % size):
            return None
        span += max(stride, 0) * (extent - 1)
    first = (at.base + offset - region.first) // size
    return first, first + span // size


def _views(arrays: Sequence[Array], access: MemoryAccess, first: int, size: int) -> list[Array]:
    """The elements of planes that affine addresses name from the first one on."""
    at = access.at
    assert type(at) is Affine
    strides = [s // size for s in at.strides]
    return [np.ndarray(at.extents, a.dtype, a, first * a.itemsize, [s * a.itemsize for s in strides]) for a in arrays]


def bits_at(machine: Machine, access: MemoryAccess, place: Array, columns: Array, size: int) -> Array:
    """What is in memory now at addresses that lanes access."""
    if access.allocation is not None:
        return _elements(access.allocation, place, size)
    space = machine.batch.local if access.space == "local" else machine.batch.shared
    return space.gather(place, columns, np.dtype(f"u{size}"))


def _elements(allocation: Allocation, place: Array, size: int) -> Array:
    """The bits of elements of an allocation."""
    held: Array = allocation.elements(np.dtype(f"u{size}"))[(place - allocation.start) >> size.bit_length() - 1]
    return held


@frozen(eq=False)
class Sum:
    """A sum that lanes make in memory: in cells, whose first lanes' places and columns these are, ``high`` and ``rest`` together,
    but for rounding; and what each lane finds there, likewise, in the order CTA, warp, lane."""

    access: MemoryAccess
    region: Region
    part: Part
    place: Array
    columns: Array
    high: Array
    rest: Array
    found: tuple[Array, Array]

    def lost(self, high: Array, rest: Array, got: Array) -> Array:
        """What results lack of sums."""
        return (high - got.astype(np.float64)) + rest


def in_order(group: Group, access: MemoryAccess, *arrays: Array) -> tuple[Array, list[Array]]:
    """The lanes that access memory, and their elements of arrays, in the order CTA, warp, lane."""
    selection = group.selection
    mask = np.ones(1, np.bool_) if access.active is None else access.active
    mask, *lanes = (selection.in_order(np.broadcast_to(a, selection.shape)) for a in (mask, *arrays))
    chosen = np.flatnonzero(mask)
    return chosen, [a[chosen] for a in lanes]


def summed(
    memory: ShadowMemory, machine: Machine, group: Group, access: MemoryAccess, part: Part, given: tuple[Array, Array]
) -> Sum | None:
    """What becomes of elements of memory to which lanes, one after the other, add values with errors."""
    (kind, k), (region, columns) = part, accessed(machine, access)
    size = DTYPES[kind].itemsize
    chosen, (place, columns, value, error) = in_order(group, access, access.places + k * size, columns, *given)
    if not len(chosen):
        return None
    runs = Runs(_index(region, place, columns, size))
    order, starts = runs.order, runs.starts
    place, columns = place[runs.firsts], columns[runs.firsts]
    bits = bits_at(machine, access, place, columns, size)
    begin = bits.view(DTYPES[kind]).astype(np.float64)
    lost = memory.found(region, kind, place, columns, bits)
    high, rest = _chained(runs, begin, lost, value, error)
    found = np.zeros(group.selection.n), np.zeros(group.selection.n)
    for array, first, sums in zip(found, (begin, lost), (high, rest), strict=True):
        before = np.roll(sums, 1)
        before[starts] = first
        array[chosen[order]] = before
    ends = starts + runs.counts - 1
    return Sum(access, region, part, place, columns, high[ends], rest[ends], found)


def _chained(runs: Runs, begin: Array, lost: Array, value: Array, error: Array) -> tuple[Array, Array]:
    """What cells that hold ``begin``, with these errors, have after each value that is added to them, one after the other."""
    starts = runs.starts
    high, rest = value[runs.order].astype(np.float64), error[runs.order]
    high[starts], rest[starts] = _sum(begin, lost, high[starts], rest[starts])
    within = np.arange(len(high)) - np.repeat(starts, runs.counts)
    step = 1
    while step < runs.counts.max():
        some = np.flatnonzero(within >= step)
        high[some], rest[some] = _sum(high[some - step], rest[some - step], high[some], rest[some])
        step *= 2
    return high, rest


@frozen(eq=False)
class BulkSum:
    """A sum that bulk copies make in cells of global memory: ``high`` and ``rest`` together, but for rounding."""

    allocation: Allocation
    kind: str
    place: Array
    high: Array
    rest: Array

    def there(self) -> Array:
        """The bits of the cells now."""
        return _elements(self.allocation, self.place, DTYPES[self.kind].itemsize)


def bulk_sum(memory: ShadowMemory, machine: Machine, transfer: Transfer) -> BulkSum | None:
    """What becomes of elements of global memory to which copies that start now add floats; None for anything else."""
    work, shared = transfer.work, shared_of(machine)
    if not isinstance(work, RunStore | BoxStore) or work.reduction is None or transfer.place is None:
        return None
    type = work.type if isinstance(work, RunStore) else BY_DATA_TYPE[work.boxes.fields.data_type]
    if type is None or type.name not in DTYPES or not adds(transfer.place.text):
        return None
    kind, size, own = type.name, DTYPES[type.name].itemsize, work.source
    if isinstance(work, RunStore):
        steps = np.arange(0, own.nbytes, size)
        place, start = ((a[:, None] + steps).reshape(-1) for a in (work.address, own.start))
        columns = np.repeat(own.columns, len(steps))
    else:
        place, start, columns, _ = _of_boxes(work.boxes, np.arange(len(own.start)), own.start, own.columns)
    allocation = machine.launch.memory.find(int(place.min()), int(place.max()) + size) if len(place) else None
    if allocation is None:
        return None
    region, bits = global_of(allocation), machine.batch.shared.gather(start, columns, np.dtype(f"u{size}"))
    error = memory.found(shared, kind, start, columns, bits)
    runs = Runs(place)
    cells, value = place[runs.firsts], bits.view(DTYPES[kind])
    before = _elements(allocation, cells, size)
    lost = memory.found(region, kind, cells, FIRST, before)
    high, rest = _chained(runs, before.view(value.dtype).astype(np.float64), lost, value, error)
    ends = runs.starts + runs.counts - 1
    return BulkSum(allocation, kind, cells, high[ends], rest[ends])


def _sum(a: Array, lost: Array, b: Array, more: Array) -> tuple[Array, Array]:
    """The sum of numbers with errors."""
    whole = a + b
    return whole, lost + more + two_sum(a, b, whole)


def moved(transfer: Transfer, which: Which) -> tuple[Array, Array, Array, int] | None:
    """What copies have moved between global and shared memory, or None: addresses in either, columns there, and the bytes at
    each."""
    work = transfer.work
    if isinstance(work, ThreadCopy) and transfer.writes is not None:
        source = np.broadcast_to(work.src.places, transfer.group.selection.shape).reshape(-1)[work.lanes[which]]
        return source, transfer.writes.start[which], transfer.writes.columns[which], work.nbytes
    if isinstance(work, RunLoad) and work.reduction is None:
        return work.address[work.to.lane[which]], work.to.start[which], work.to.columns[which], work.nbytes
    if isinstance(work, RunStore) and work.reduction is None:
        own = work.source
        return work.address[which], own.start[which], own.columns[which], own.nbytes
    if isinstance(work, BoxLoad):
        return _of_boxes(work.boxes, work.to.lane[which], work.to.start[which], work.to.columns[which])
    if isinstance(work, BoxStore) and work.reduction is None:
        return _of_boxes(work.boxes, which, work.source.start[which], work.source.columns[which])
    return None


def _of_boxes(boxes: Boxes, which: Which, start: Array, columns: Array) -> tuple[Array, Array, Array, int]:
    """Element by element, of those inside the tensor."""
    place, inside = boxes.elements(which)
    at, owners = (np.broadcast_to(a, place.shape)[inside] for a in (boxes.shared(start), columns[:, None]))
    return boxes.fields.address + place[inside], at, owners, boxes.dtype.itemsize
