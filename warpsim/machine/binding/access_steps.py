"""Steps of plain loads and stores: whole registers, at affine addresses of shared or global memory.

They do what the port does for such an access when nobody is told of it, in a third of the calls; whatever else there is
takes the ``general`` step. What an instruction asks of memory is learned from its body.
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
from warpsim.program.program import Instruction
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

View = Callable[["Machine", Group, Affine, int, DType, int], "list[Array] | None"]
"""Views of consecutive elements of memory at affine addresses plus an offset; None if the general step is needed."""


class _Asked:
    """In place of memory: notes what a body asks of it."""

    def __init__(self) -> None:
        self.loads: list[tuple[str, object, ScalarType, tuple[object, ...]]] = []
        self.stores: list[tuple[str, object, ScalarType, tuple[object, ...]]] = []

    def load(self, space: str, address: object, type: ScalarType, count: int = 1) -> tuple[object, ...]:
        """Note a load."""
        loaded = tuple([object() for _ in range(count)])
        self.loads.append((space, address, type, loaded))
        return loaded

    def store(self, space: str, address: object, type: ScalarType, values: tuple[object, ...]) -> None:
        """Note a store."""
        self.stores.append((space, address, type, values))


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
    asked = (_loaded if access is Access.LOAD else _stored)(instruction)
    if asked is None:
        return general
    space, kind, count = asked
    view = _VIEWS.get((access, space_of(space)))
    if view is None or len(registers) != count or any(r.type.dtype.itemsize != kind.bytes for r in registers):
        return general
    make = _load if access is Access.LOAD else _store
    slots = tuple([r.index for r in registers])
    step = make(view, start.index, address.offset, slots, kind.dtype, general)
    return step if instruction.guard is None else _guarded(guard_of(plan, instruction), step, general)


def _loaded(instruction: Instruction) -> tuple[str, ScalarType, int] | None:
    """The space, type and number of elements that an instruction loads, if that is all it does."""
    asked, place = _Asked(), object()
    found = instruction.form.function(instruction.op, place, memory=asked)
    if len(asked.loads) != 1 or asked.stores:
        return None
    space, where, kind, loaded = asked.loads[0]
    whole = found if isinstance(found, tuple) else (found,)
    return (space, kind, len(loaded)) if where is place and whole == loaded else None


def _stored(instruction: Instruction) -> tuple[str, ScalarType, int] | None:
    """The same for what it stores."""
    asked, place, source = _Asked(), object(), instruction.operands[1]
    value = object() if source.elements is None else tuple([object() for _ in source.elements])
    instruction.form.function(instruction.op, place, value, memory=asked)
    if len(asked.stores) != 1 or asked.loads:
        return None
    space, where, kind, stored = asked.stores[0]
    whole = value if isinstance(value, tuple) else (value,)
    return (space, kind, len(stored)) if where is place and whole == stored else None


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
