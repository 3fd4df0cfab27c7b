"""Steps of plain loads and stores: one element per thread, at affine addresses of shared or global memory.

They do what the port does for such an access when nobody is told of it, in a third of the calls; whatever else there is
takes the ``general`` step. What an instruction asks of memory is learned from its body.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.memory.addresses import last_along, space_of
from warpsim.machine.memory.global_access import in_one_allocation
from warpsim.machine.memory.word_access import in_rows, rows_view
from warpsim.machine.plan import Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, DType, as_array
from warpsim.program.program import Addr, Instruction, Reg
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

View = Callable[["Machine", Group, Affine, int, DType], Array | None]
"""The elements of memory at affine addresses plus an offset; None if the general step is needed."""
ELEMENT = object()


class _Asked:
    """In place of memory: notes what a body asks of it."""

    def __init__(self) -> None:
        self.loads: list[tuple[str, object, ScalarType, int]] = []
        self.stores: list[tuple[str, object, ScalarType, tuple[object, ...]]] = []

    def load(self, space: str, address: object, type: ScalarType, count: int = 1) -> tuple[object, ...]:
        """Note a load."""
        self.loads.append((space, address, type, count))
        return (ELEMENT,) * count

    def store(self, space: str, address: object, type: ScalarType, values: tuple[object, ...]) -> None:
        """Note a store."""
        self.stores.append((space, address, type, values))


def bind_access(instruction: Instruction, general: Step) -> Step:
    """The step of an access: the ``general`` one, or one that first tries the shorter way."""
    form, operands = instruction.form, instruction.operands
    if instruction.guard is not None or form.ports != {"memory"} or len(operands) != 2:
        return general
    reads = instruction.traits.access is Access.LOAD
    register, address = operands if reads else operands[::-1]
    if not (isinstance(address, Addr) and isinstance(address.base, Reg) and isinstance(register, Reg)):
        return general
    if address.coordinates or address.base.register.type.bits < 32 or register.negated:
        return general
    if reads:
        return _load(instruction, address, address.base, register, general)
    if instruction.traits.access is Access.STORE:
        return _store(instruction, address, address.base, register, general)
    return general


def _load(instruction: Instruction, address: Addr, base: Reg, target: Reg, general: Step) -> Step:
    asked, place = _Asked(), object()
    if instruction.form.function(instruction.op, place, memory=asked) is not ELEMENT or len(asked.loads) != 1:
        return general
    space, where, kind, count = asked.loads[0]
    view = _READ.get(space_of(space))
    if view is None or where is not place or count != 1 or not _alike(kind, target):
        return general
    at, offset, d, dtype = base.register.index, address.offset, target.register.index, kind.dtype

    def step(machine: Machine, group: Group) -> object:
        start = group.env[at]
        if type(start) is Affine and machine.window.memory_accessed is None:
            found = view(machine, group, start, offset, dtype)
            if found is not None:
                found = found.copy()
                if start.strides == FLAT and len(group.selection.shape) == 1:
                    found = found.reshape(1)
                group.env[d] = found
                group.dirty.add(d)
                return None
        return general(machine, group)

    return step


def _store(instruction: Instruction, address: Addr, base: Reg, source: Reg, general: Step) -> Step:
    asked, place, value = _Asked(), object(), object()
    if instruction.form.function(instruction.op, place, value, memory=asked) is not None or len(asked.stores) != 1:
        return general
    space, where, kind, values = asked.stores[0]
    view = _WRITTEN.get(space_of(space))
    if view is None or where is not place or values != (value,) or not _alike(kind, source):
        return general
    at, offset, s, dtype = base.register.index, address.offset, source.register.index, kind.dtype

    def step(machine: Machine, group: Group) -> object:
        start, stored, window = group.env[at], group.env[s], machine.window
        if type(start) is not Affine or start.strides == FLAT or stored is None:
            return general(machine, group)
        if window.memory_accessed is not None or window.memory_written is not None:
            return general(machine, group)
        found = view(machine, group, start, offset, dtype)
        if found is None:
            return general(machine, group)
        machine.launch.memory.version += 1
        array = as_array(stored)
        found[...] = last_along(array if array.dtype is dtype else array.view(dtype), found.shape)
        return None

    return step


def _alike(kind: ScalarType, register: Reg) -> bool:
    return register.register.type.dtype.itemsize == kind.dtype.itemsize and kind.dtype.kind != "V"


def _shared(
    machine: Machine, group: Group, start: Affine, offset: int, dtype: DType, *, write: bool = False
) -> Array | None:
    space, selection = machine.batch.shared, group.selection
    if dtype.itemsize != 4 or not selection.all_ctas or (space.companion is not None and not space.companion.settled):
        return None
    if not in_rows(space, start, offset, 4, write=write):
        return None
    if write and space.shared:
        space.own()
    return rows_view(space, start, start.base + offset, machine.batch.shape.extents, dtype)


def _global(
    machine: Machine, group: Group, start: Affine, offset: int, dtype: DType, *, write: bool = False
) -> Array | None:
    if start.dtype.itemsize != 8 or (start.strides != FLAT and len(group.selection.shape) == 1):
        return None
    found = in_one_allocation(machine.launch.memory, start, offset, dtype.itemsize)
    if found is None:
        return None
    allocation, pattern = found
    if allocation.companion is not None:
        return None
    if write:
        if allocation.read_only or not pattern.disjoint:
            return None
        allocation.own()
    return np.ndarray(pattern.shape, dtype, allocation.data, start.base + offset - allocation.start, start.strides)


_READ: dict[str, View] = {"shared": _shared, "global": _global}
_WRITTEN: dict[str, View] = {"shared": partial(_shared, write=True), "global": partial(_global, write=True)}
