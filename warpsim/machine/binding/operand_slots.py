"""Operands as closures over slots: reading a register, constant, symbol or address in the type that an instruction
needs, writing a result to registers of any width, and the guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from warpsim.isa.data_movement import Unpacked
from warpsim.isa.traits import Access
from warpsim.machine.memory.addresses import Address, Extent
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.specials import clock
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, NotAffine, Value, as_array, extend, retype
from warpsim.program.program import Instruction, Operand, Param
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

Argument: TypeAlias = "Value | Address | tuple[Argument, ...]"
"""What a body is called with: a value, an address, the elements of a vector."""
Getter: TypeAlias = "Callable[[Machine, Group], Argument]"
ArrayGetter: TypeAlias = "Callable[[Machine, Group], Array]"
ValueGetter: TypeAlias = "Callable[[Machine, Group], Value]"
AddressGetter: TypeAlias = "Callable[[Machine, Group], Address]"
Setter: TypeAlias = "Callable[[Machine, Group, Any, Array | None], None]"
"""Commits what a body returned, in the form of its destinations: a value, or a tuple of such."""
Guard: TypeAlias = "Callable[[Machine, Group], Array | Literal[False] | None]"
"""Which lanes execute an instruction: None for all, False for none."""
U64 = np.dtype(np.uint64)
U32 = np.dtype(np.uint32)


def place_operands(plan: FunctionPlan, instruction: Instruction) -> None:
    """Give the constants and special registers among its sources their slots."""
    for operand in instruction.inputs:
        base = operand.base
        if operand.register is not None or (base is not None and base.register is not None and not operand.coordinates):
            continue
        if base is None or base.parameter is None or parameter_of(plan, instruction) is None:
            _place(plan, operand)


def _place(plan: FunctionPlan, operand: Operand) -> None:
    if operand.base is not None:
        inside = operand.base, *operand.coordinates
    elif operand.elements is not None:
        inside = operand.elements
    else:
        plan.slot(operand)
        return
    for each in inside:
        if each.register is None:
            _place(plan, each)


def parameter_of(plan: FunctionPlan, instruction: Instruction) -> Param | None:
    """The kernel's parameter that a load names, if it is a constant of the launch."""
    if instruction.traits.access is not Access.LOAD or instruction.guard is not None:
        return None
    address = instruction.inputs[0]
    found = address.base.parameter if address.base is not None else None
    return found if found is not None and plan.function.entry and plan.within(instruction, address) is None else None


@overload
def value_getter(plan: FunctionPlan, operand: Operand) -> ArrayGetter: ...


@overload
def value_getter(plan: FunctionPlan, operand: Operand, *, linear: bool) -> ValueGetter: ...


def value_getter(plan: FunctionPlan, operand: Operand, *, linear: bool = False) -> ValueGetter:
    """A closure that returns an operand as an array of its type (or affine if ``linear``)."""
    dtype, slot = operand.type.dtype, plan.slot(operand)
    if slot is None:
        number = _number_getter(plan, operand)
        if linear:
            return lambda machine, group: Affine.constant(number(machine, group), dtype)
        return lambda machine, group: Affine.constant(number(machine, group), dtype).array()
    negated = operand.negated

    def get(machine: Machine, group: Group) -> Value:
        value = group.env[slot]
        if value is None:
            value = group.fetch(slot)
        if type(value) is Affine:
            if linear:
                try:
                    return value.view(dtype)
                except NotAffine:
                    pass
            value = value.array()
        if value.dtype is not dtype and value.dtype != dtype:
            value = value.view(dtype) if value.itemsize == dtype.itemsize else retype(value, dtype)
        return ~value if negated else value

    return get


def _number_getter(plan: FunctionPlan, operand: Operand) -> Callable[[Machine, Group], int]:
    """A closure for what no slot holds: an address in the frame, or a clock."""
    at, name = plan.in_frame(operand), operand.special
    if at is None:
        return lambda machine, group: clock(machine.launch, name)
    return lambda machine, group: group.local_base + at


def _address_in_slot(slot: int, kind: ScalarType, offset: int, within: Extent | None) -> AddressGetter:
    """An address in a register, or one that a launch has; one of fewer than 32 bits is extended."""
    dtype = U64 if kind.bits == 64 else U32
    narrow = np.dtype(f"u{kind.bytes}") if kind.bits < 32 else None

    def get(machine: Machine, group: Group) -> Address:
        value = group.env[slot]
        if value is None:
            value = group.fetch(slot)
        if narrow is not None:
            value = as_array(value).view(narrow).astype(U32)
        if type(value) is not Affine:
            if value.dtype is not dtype:
                value = value.view(dtype)
            if value.size == 1:
                value = Affine.constant(int(value.reshape(-1)[0]), dtype)
        elif value.dtype is not dtype and (value.strides != FLAT or value.base < 0):  # else it is the same number
            value = value.view(dtype)
        return Address(value, offset, (), within)

    return get


def address_getter(plan: FunctionPlan, base: Operand, offset: int, within: Extent | None) -> AddressGetter:
    """A closure that returns an address in the form that the memory port takes."""
    if within is not None and within.kind == "local":
        get = address_getter(plan, base, offset, None)

        def get_local(machine: Machine, group: Group) -> Address:
            address = get(machine, group)
            return Address(address.base, offset, (), within.moved(group.local_base))

        return get_local
    fixed, slot = plan.number(base), plan.slot(base)
    if fixed is not None:
        address = Address(Affine.constant(fixed, U64), offset, (), within)
        return lambda machine, group: address
    if slot is not None:
        return _address_in_slot(slot, base.type, offset, within)
    number = _number_getter(plan, base)
    return lambda machine, group: Address(Affine.constant(number(machine, group), U64), offset)


def source_getter(
    plan: FunctionPlan, operand: Operand, *, linear: bool = False, within: Extent | None = None
) -> Getter:
    """A closure for any source operand; an address is made from the variable ``within``."""
    if operand.base is not None:
        get_address = address_getter(plan, operand.base, operand.offset, within)
        if not operand.coordinates:
            return get_address
        if (get_tensor := _tensor_getter(plan, operand, get_address)) is not None:
            return get_tensor
        rest: list[Any] = [source_getter(plan, c) for c in operand.coordinates]

        def get(machine: Machine, group: Group) -> Address:
            start = get_address(machine, group)
            return Address(start.base, start.offset, tuple([g(machine, group) for g in rest]))

        return get
    if operand.elements is not None:
        parts = [source_getter(plan, e) for e in operand.elements]
        return lambda machine, group: tuple([g(machine, group) for g in parts])
    return value_getter(plan, operand, linear=linear)


def _tensor_getter(plan: FunctionPlan, operand: Operand, get_address: AddressGetter) -> AddressGetter | None:
    """A closure for an address in a tensor whose coordinates are integers in slots, which it leaves as they are."""
    elements = operand.coordinates[0].elements or () if len(operand.coordinates) == 1 else ()
    plain = [e for e in elements if not e.negated and e.type.dtype.kind in "iu" and e.type.bits == 32]
    slots = [slot for e in plain if (slot := plan.slot(e)) is not None]
    if not slots or len(slots) < len(elements):
        return None

    def get(machine: Machine, group: Group) -> Address:
        start, env, values = get_address(machine, group), group.env, tuple[Value, ...]()
        for slot in slots:
            value = env[slot]
            if value is None:
                value = group.fetch(slot)
            if value.dtype.kind not in "iu" or value.dtype.itemsize != 4:
                value = retype(as_array(value), U32)
            values += (value,)
        return Address(start.base, start.offset, (values,))

    return get


def destination(operand: Operand) -> Setter:
    """A closure that commits a result to a destination: ``set(group, value, active or None)``."""
    if operand.elements is not None:
        return _vector_destination([destination(e) for e in operand.elements])
    if operand.register is None:
        return lambda machine, group, value, active: None
    slot, register = operand.register.index, operand.register.type.dtype
    width, signed = register.itemsize, operand.type.signed

    def set_one(machine: Machine, group: Group, value: Value, active: Array | None) -> None:
        if value.dtype.itemsize != width:
            value = extend(as_array(value), width, signed=signed)
        if active is not None:
            value = as_array(value)
            old = as_array(group.read(slot))
            if old.dtype != value.dtype:
                old = old.view(value.dtype) if old.dtype.itemsize == width else old.view(register).astype(value.dtype)
            value = np.where(active, value, old)
        group.env[slot] = value
        group.dirty.add(slot)

    return set_one


def _vector_destination(parts: list[Setter]) -> Setter:
    """Likewise for several destinations; those whose result is None keep their value."""

    def set_all(machine: Machine, group: Group, value: Any, active: Array | None) -> None:
        if isinstance(value, Unpacked):
            value = value.parts(len(parts))
        for part, element in zip(parts, value, strict=True):
            if element is not None:
                part(machine, group, element, active)

    return set_all


def commit_of(instruction: Instruction) -> Setter | None:
    """A closure that commits everything a body returned."""
    setters = [destination(o) for o in instruction.outputs]
    if not setters:
        return None
    return setters[0] if len(setters) == 1 else _vector_destination(setters)


def guard_of(instruction: Instruction) -> Guard | None:
    """A closure that returns None (all lanes), False (no lane) or a mask of the executing lanes."""
    if instruction.guard is None:
        return None
    register, negated = instruction.guard
    slot = register.index

    def active(machine: Machine, group: Group) -> Array | Literal[False] | None:
        value = group.env[slot]
        if value is None:
            value = group.fetch(slot)
        if value.size == 1:
            return None if bool(value.reshape(-1)[0]) != negated else False
        assert type(value) is not Affine, "a predicate is an array"
        mask = ~value if negated else value
        if mask.all():
            return None
        return mask if mask.any() else False

    return active
