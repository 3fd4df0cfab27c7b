"""Which bytes of global memory a launch touches, and how."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.machine.window import READ, MemoryAccess, Watcher

Reduction = tuple[str, str]
"""Operation and type of a reduction."""


class Footprint(Watcher):
    """Marks the bytes of each allocation (by its address) that are read, written, and reduced into: arrays of uint8, one
    for each byte."""

    def __init__(self) -> None:
        self.read: dict[int, Array] = {}
        self.written: dict[int, Array] = {}
        self.reduced: dict[tuple[int, Reduction], Array] = {}

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark what lanes access."""
        allocation = access.allocation
        if allocation is None:
            return
        instruction = group.instruction
        if instruction.traits.access is Access.ATOMIC:
            kind = instruction.op.op, instruction.op.type.name
            marks = marks_of(self.reduced, (allocation.start, kind), allocation)
        else:
            marks = marks_of(self.written if access.writes else self.read, allocation.start, allocation)
        place = np.asarray(access.place)
        if access.active is not None:
            place, active = np.broadcast_arrays(place, access.active)
            place = place[active]
        mark(marks, place - allocation.start, access.nbytes)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Mark what bulk copies access."""
        memory = machine.launch.memory
        owner = memory.owners(address, nbytes)
        for index in np.unique(owner[owner >= 0]):
            allocation = memory.allocation(int(index))
            marks = marks_of(self.read if access == READ else self.written, allocation.start, allocation)
            mark(marks, address[owner == index] - allocation.start, nbytes)


def marks_of(marks: dict[Any, Array], key: Any, allocation: Allocation) -> Array:
    """The marks of an allocation; with room for whole elements at its end."""
    found = marks.get(key)
    if found is None:
        found = marks[key] = np.zeros(-(-allocation.data.size // 16) * 16, np.uint8)
    return found


def mark(marks: Array, place: Array, nbytes: int) -> None:
    """Mark ``nbytes`` from each place, in the widest units that all of them are made of."""
    unit = nbytes & -nbytes
    if place.size:
        unit = min(unit, 16, 1 << 4 if (every := int(np.bitwise_or.reduce(place, axis=None))) == 0 else every & -every)
    for first in range(0, nbytes, unit):
        index = (place + first) // unit if first else place // unit
        if unit == 16:
            marks.view(np.uint64).reshape(-1, 2)[index] = 0x0101010101010101
        else:
            marks.view(f"u{unit}")[index] = 0x0101010101010101 & ((1 << 8 * unit) - 1)
