"""Records which bytes of global memory a launch accesses, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import pattern_of
from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.state.group import Group
from warpsim.machine.values import Affine, Array
from warpsim.machine.watcher import READ, MemoryAccess, Watcher

Reduction = tuple[str, str]
"""Operation and type of a reduction."""
Extents = list[tuple[int, int]]
ONES = 0x0101010101010101


class Footprint(Watcher):
    """Marks the bytes of each allocation (by address) that are read, written and reduced into, in arrays of one uint8
    per byte. Compiled regions report their accesses themselves (`warpsim.native.runtime.extents.FootprintObserver`).
    """

    compiled: ClassVar[frozenset[str]] = frozenset({"memory_accessed"})

    def __init__(self) -> None:
        self.read: dict[int, Array] = {}
        self.written: dict[int, Array] = {}
        self.reduced: dict[tuple[int, Reduction], Array] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark accesses of lanes."""
        allocation = access.allocation
        if allocation is None:
            return
        instruction = group.instruction
        at, reduces = access.at, instruction.traits.access is Access.ATOMIC
        plain = at if type(at) is Affine and access.active is None and not reduces else None
        if plain is not None:
            key = access.writes, plain.base, plain.strides, plain.extents, access.nbytes
            if key in self._seen:  # the same tile again, in a loop
                return
            self._seen.add(key)
        if reduces:
            kind = instruction.op.op, instruction.op.type.name
            marks = marks_of(self.reduced, (allocation.start, kind), allocation)
        else:
            marks = marks_of(self.written if access.writes else self.read, allocation.start, allocation)
        if plain is not None:
            mark_affine(marks, plain, allocation.start, access.nbytes)
            return
        place = access.places
        if access.active is not None:
            place, active = np.broadcast_arrays(place, access.active)
            place = place[active]
        mark(marks, place - allocation.start, access.nbytes)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Mark accesses of bulk copies."""
        memory = machine.launch.memory
        owner = memory.owners(address, nbytes)
        for index in np.unique(owner[owner >= 0]):
            allocation = memory.allocation(int(index))
            marks = marks_of(self.read if access == READ else self.written, allocation.start, allocation)
            mark(marks, address[owner == index] - allocation.start, nbytes)

    # ---- what compiled units tell -----------------------------------------------------------------

    def extents_read(self, memory: GlobalMemory, extents: Extents) -> None:
        """Mark extents as read."""
        for allocation, first, last in _within(memory, extents):
            marks_of(self.read, allocation.start, allocation)[first:last] = 1

    def extents_written(
        self, memory: GlobalMemory, extents: Extents, mark: Callable[[int, int, int], None] | None
    ) -> None:
        """Mark what was stored, or the whole extents if that is unknown."""
        if mark is None:
            for allocation, first, last in _within(memory, extents):
                marks_of(self.written, allocation.start, allocation)[first:last] = 1
            return
        for allocation in {id(found[0]): found[0] for found in _within(memory, extents)}.values():
            host = allocation.data.ctypes.data
            marks = marks_of(self.written, allocation.start, allocation)
            mark(host, host + allocation.data.size, marks.ctypes.data)

    def extents_reduced(self, memory: GlobalMemory, extents: Extents, reduction: Reduction) -> None:
        """Mark extents as reduced into; unchanged elements do no harm (`merge`)."""
        for allocation, first, last in _within(memory, extents):
            marks_of(self.reduced, (allocation.start, reduction), allocation)[first:last] = 1


def _within(memory: GlobalMemory, extents: Extents) -> Iterator[tuple[Allocation, int, int]]:
    """The parts of allocations within address extents."""
    every = memory.everything()
    for low, high in extents:
        found = memory.find(low, high)
        for allocation in every if found is None else (found,):
            first, last = max(low, allocation.start), min(high, allocation.end)
            if first < last:
                yield allocation, first - allocation.start, last - allocation.start


def marks_of(marks: dict[Any, Array], key: Any, allocation: Allocation) -> Array:
    """The marks of an allocation, padded to whole elements."""
    found = marks.get(key)
    if found is None:
        found = marks[key] = np.zeros(-(-allocation.data.size // 16) * 16, np.uint8)
    return found


def mark(marks: Array, place: Array, nbytes: int) -> None:
    """Mark ``nbytes`` from each place, in the widest units that divide them all."""
    every = int(np.bitwise_or.reduce(place, axis=None)) | nbytes | 16
    unit = every & -every
    for first in range(0, nbytes, unit):
        index = (place + first) // unit if first else place // unit
        if unit == 16:
            marks.view(np.uint64).reshape(-1, 2)[index] = ONES
        else:
            marks.view(f"u{unit}")[index] = ONES & ((1 << 8 * unit) - 1)


def mark_affine(marks: Array, at: Affine, start: int, nbytes: int) -> None:
    """Mark affine addresses in an allocation that starts at ``start``, without expanding them."""
    unit = min(nbytes & -nbytes, 8)
    strides, shape = at.strides, pattern_of(at.strides, at.extents, nbytes).shape
    if nbytes > unit:
        strides, shape = (*strides, unit), (*shape, nbytes // unit)
    np.ndarray(shape, f"u{unit}", marks, at.base - start, strides)[...] = ONES & ((1 << 8 * unit) - 1)
