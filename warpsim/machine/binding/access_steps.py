"""Steps of plain loads and stores: whole registers, at affine addresses of shared or global memory.

They do what the port does for such an access when nobody watches it, in a third of the calls; anything else takes
the ``general`` step. What an instruction asks of memory is learned from its body.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.binding.operand_slots import Guard, guard_of
from warpsim.machine.memory.addresses import last_along, space_of
from warpsim.machine.memory.global_access import in_one_allocation
from warpsim.machine.memory.word_access import in_rows, rows_view
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, DType, as_array
from warpsim.program.program import Instruction, Operand
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

View = Callable[["Machine", Group, Affine, int, DType, int], "list[Array] | None"]
"""Views of consecutive elements of memory at affine addresses plus an offset; None if the general step is needed."""


class _Asked:
    """In place of memory: notes what a body asks of it."""

    def __init__(self) -> None:
        self.accesses: list[tuple[Access, str, object, ScalarType, tuple[object, ...]]] = []

    def load(self, space: str, address: object, type: ScalarType, count: int = 1) -> tuple[object, ...]:
        """Note a load."""
        loaded = tuple([object() for _ in range(count)])
        self.accesses.append((Access.LOAD, space, address, type, loaded))
        return loaded

    def store(self, space: str, address: object, type: ScalarType, values: tuple[object, ...]) -> None:
        """Note a store."""
        self.accesses.append((Access.STORE, space, address, type, values))


def bind_access(plan: FunctionPlan, instruction: Instruction, general: Step) -> Step:
    """The step of an access: the ``general`` one, or one that first tries the shorter way."""
    form, operands, access = instruction.form, instruction.operands, instruction.traits.access
    if form.ports != {"memory"} or len(operands) != 2 or access not in (Access.LOAD, Access.STORE):
        return general
    data, address = operands if access is Access.LOAD else operands[::-1]
    start = address.base.register if address.base is not None else None
    if start is None or start.type.bits < 32 or address.coordinates:
        return general
    registers = [part.register for part in data.parts if part.register is not None and not part.negated]
    moved = _moved(instruction, data)
    if moved is None:
        return general
    space, kind, count = moved
    view = _VIEWS.get((access, space_of(space)))
    if view is None or len(registers) != count or any(r.type.dtype.itemsize != kind.bytes for r in registers):
        return general
    make = _load if access is Access.LOAD else _store
    slots = tuple([r.index for r in registers])
    step = make(view, start.index, address.offset, slots, kind.dtype, general)
    guard = guard_of(instruction)
    return step if guard is None else _guarded(guard, step, general)


def _moved(instruction: Instruction, data: Operand) -> tuple[str, ScalarType, int] | None:
    """The space, type and number of elements that an instruction loads or stores, if that is all it does."""
    asked, place, access = _Asked(), object(), instruction.traits.access
    value: object = object() if data.elements is None else tuple([object() for _ in data.elements])
    given = () if access is Access.LOAD else (value,)
    found = instruction.form.function(instruction.op, place, *given, memory=asked)
    if len(asked.accesses) != 1:
        return None
    kind, space, where, type, values = asked.accesses[0]
    whole = found if access is Access.LOAD else value
    if kind is not access or where is not place or (whole if isinstance(whole, tuple) else (whole,)) != values:
        return None
    return space, type, len(values)


def _guarded(guard: Guard, step: Step, general: Step) -> Step:
    def guarded(machine: Machine, group: Group) -> object:
        active = guard(machine, group)
        if active is False:
            return None
        return step(machine, group) if active is None else general(machine, group)

    return guarded


def _load(view: View, at: int, offset: int, slots: tuple[int, ...], dtype: DType, general: Step) -> Step:
    count = len(slots)

    def step(machine: Machine, group: Group) -> object:
        start = group.env[at]
        if type(start) is Affine and machine.hooks.memory_accessed is None:
            found = view(machine, group, start, offset, dtype, count)
            if found is not None:
                flat = start.strides == FLAT and len(group.selection.shape) == 1
                for slot, one in zip(slots, found, strict=True):
                    group.env[slot] = one.copy().reshape(1) if flat else one.copy()
                group.dirty.update(slots)
                return None
        return general(machine, group)

    return step


def _store(view: View, at: int, offset: int, slots: tuple[int, ...], dtype: DType, general: Step) -> Step:
    count = len(slots)

    def step(machine: Machine, group: Group) -> object:
        env, hooks, stored = group.env, machine.hooks, []
        start = env[at]
        if type(start) is not Affine or start.strides == FLAT:
            return general(machine, group)
        for slot in slots:
            value = env[slot]
            if value is None:
                return general(machine, group)
            stored.append(as_array(value))
        if hooks.memory_accessed is not None or hooks.memory_written is not None:
            return general(machine, group)
        found = view(machine, group, start, offset, dtype, count)
        if found is None:
            return general(machine, group)
        machine.launch.memory.version += 1
        for one, array in zip(found, stored, strict=True):
            one[...] = last_along(array if array.dtype is dtype else array.view(dtype), one.shape)
        return None

    return step


def _shared(
    machine: Machine, group: Group, start: Affine, offset: int, dtype: DType, count: int, *, write: bool = False
) -> list[Array] | None:
    space, selection = machine.batch.shared, group.selection
    if dtype.itemsize != 4 or not selection.all_ctas or (space.shadow is not None and not space.shadow.settled):
        return None
    if write and space.shared:
        space.own()
    first = start.base + offset
    asked = first, start.strides, start.extents, dtype.char, count, write
    found = space.views.get(asked)
    if found is None and in_rows(space, start, offset, 4 * count, write=write):
        extents = machine.batch.shape.extents
        found = space.keep(asked, [rows_view(space, start, first + 4 * k, extents, dtype) for k in range(count)])
    return found


def _global(
    machine: Machine, group: Group, start: Affine, offset: int, dtype: DType, count: int, *, write: bool = False
) -> list[Array] | None:
    if start.dtype.itemsize != 8 or (start.strides != FLAT and len(group.selection.shape) == 1):
        return None
    found = in_one_allocation(machine.launch.memory, start, offset, dtype.itemsize * count)
    if found is None:
        return None
    allocation, pattern = found
    if allocation.shadow is not None:
        return None
    if write:
        if allocation.read_only or not pattern.disjoint:
            return None
        allocation.own()
    data, first, strides = allocation.data, start.base + offset - allocation.start, start.strides
    return [np.ndarray(pattern.shape, dtype, data, first + k * dtype.itemsize, strides) for k in range(count)]


_VIEWS: dict[tuple[Access, str], View] = {
    (Access.LOAD, "shared"): _shared,
    (Access.LOAD, "global"): _global,
    (Access.STORE, "shared"): partial(_shared, write=True),
    (Access.STORE, "global"): partial(_global, write=True),
}
