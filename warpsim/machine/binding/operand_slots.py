"""Operands as closures over slots: reading a register, constant, symbol or address in the type that an instruction
needs, writing a result to registers of any width, and the guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from warpsim.analysis.loops import CLOCKS
from warpsim.errors import InternalError
from warpsim.isa.data_movement import Unpacked
from warpsim.machine.address import Address, Coordinate
from warpsim.machine.clocks import clock
from warpsim.machine.plan import FunctionPlan, literal
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.values import Affine, Array, NotAffine, Value, as_array, extend, retype
from warpsim.program.program import (
    Addr,
    FunctionRef,
    Imm,
    Instruction,
    Operand,
    Param,
    Reg,
    Special,
    SymbolAddress,
    Variable,
    Vec,
)
from warpsim.types import StateSpace

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

Argument: TypeAlias = "Value | Address | Operand | tuple[Argument, ...]"
"""What a body is called with: a value, an address, the elements of a vector; operands without a value as they are."""
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


def slot_of(plan: FunctionPlan, operand: Operand) -> int:
    """The slot that holds an operand's value."""
    if isinstance(operand, Reg):
        return operand.register.index
    if isinstance(operand, Imm):
        return plan.constant(literal(operand.bits, operand.type))
    if isinstance(operand, Special):
        return plan.special(operand.name)
    if isinstance(operand, SymbolAddress):
        return _symbol_slot(plan, operand)
    if isinstance(operand, FunctionRef):
        return plan.constant(Affine.constant(plan.kernel.image.function_address(operand.name), U64))
    raise InternalError(f"operand {operand!r} has no value")


def _symbol_slot(plan: FunctionPlan, operand: SymbolAddress) -> int:
    """The slot of an address that is the same for all threads (`in_frame` says which are not)."""
    symbol = operand.symbol
    dtype = operand.type.dtype if operand.type.dtype.kind in "iu" else np.dtype(f"u{operand.type.dtype.itemsize}")
    if isinstance(symbol, Param):
        return plan.special(f"param+{symbol.offset + operand.offset}:{dtype.itemsize}")
    return plan.constant(Affine.constant(plan.kernel.address(symbol) + operand.offset, dtype))


@overload
def value_getter(plan: FunctionPlan, operand: Operand) -> ArrayGetter: ...


@overload
def value_getter(plan: FunctionPlan, operand: Operand, *, linear: bool) -> ValueGetter: ...


def value_getter(plan: FunctionPlan, operand: Operand, *, linear: bool = False) -> ValueGetter:
    """A closure that returns an operand as an array of its type (or affine if ``linear``)."""
    if isinstance(operand, Special) and operand.name in CLOCKS:
        dtype, name = operand.type.dtype, operand.name
        return lambda machine, group: (
            Affine.constant(clock(machine.launch, name), dtype)
            if linear
            else np.array([clock(machine.launch, name)], np.uint64).astype(dtype)
        )
    if isinstance(operand, SymbolAddress) and in_frame(plan, operand):
        return _frame_getter(plan, operand, linear=linear)
    slot = slot_of(plan, operand)
    dtype = U64 if isinstance(operand, FunctionRef) else operand.type.dtype  # type: ignore[union-attr]
    negated = isinstance(operand, Reg) and operand.negated

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
            value = retype(value, dtype)
        return ~value if negated else value

    return get


def in_frame(plan: FunctionPlan, operand: SymbolAddress) -> bool:
    """Whether a symbol's address differs by thread, because it is in a function's frame."""
    symbol = operand.symbol
    if isinstance(symbol, Param):
        return not plan.function.entry
    return isinstance(symbol, Variable) and symbol.space in (StateSpace.LOCAL, StateSpace.PARAM)


def _frame_getter(plan: FunctionPlan, operand: SymbolAddress, *, linear: bool) -> ValueGetter:
    offset = plan.offset(operand.symbol) + operand.offset  # type: ignore[arg-type]
    dtype = operand.type.dtype

    def get(machine: Machine, group: Group) -> Value:
        value = Affine.constant(group.local_base + offset, dtype)
        return value if linear else value.array()

    return get


def _address_in_register(base: Reg, offset: int) -> AddressGetter:
    """An address in a register; one of fewer than 32 bits is extended."""
    slot, dtype = base.register.index, (U64 if base.register.type.bits == 64 else U32)
    narrow = np.dtype(f"u{base.register.type.bytes}") if base.register.type.bits < 32 else None

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
        elif value.dtype is not dtype:
            value = value.view(dtype)
        return Address(value, offset)

    return get


def address_getter(plan: FunctionPlan, operand: Addr) -> AddressGetter:
    """A closure that returns an address in the form that the memory port takes."""
    base, offset = operand.base, operand.offset
    if base is None:
        fixed = Address(Affine.constant(0, U64), offset)
        return lambda machine, group: fixed
    if isinstance(base, Reg):
        return _address_in_register(base, offset)
    if isinstance(base, Param) and plan.function.entry:
        at = base.offset + offset
        return lambda machine, group: Address(Affine.constant(machine.launch.param_address + at, U64))
    if isinstance(base, Param) or base.space in (StateSpace.LOCAL, StateSpace.PARAM):
        at = plan.offset(base) + offset + (LOCAL_WINDOW if operand.generic else 0)
        return lambda machine, group: Address(Affine.constant(group.local_base + at, U64))
    window = SHARED_WINDOW if operand.generic and base.space is StateSpace.SHARED else 0
    fixed = Address(Affine.constant(plan.kernel.address(base) + window, U64), offset)
    return lambda machine, group: fixed


def _coordinate_getter(plan: FunctionPlan, operand: Operand) -> Callable[[Machine, Group], Coordinate]:
    if isinstance(operand, Vec):
        parts = [value_getter(plan, e) for e in operand.elements]
        return lambda machine, group: tuple([g(machine, group) for g in parts])
    return value_getter(plan, operand)


def source_getter(plan: FunctionPlan, operand: Operand, *, linear: bool = False) -> Getter:
    """A closure for any source operand."""
    if isinstance(operand, Addr):
        get_address = address_getter(plan, operand)
        if not operand.coordinates:
            return get_address
        rest = [_coordinate_getter(plan, c) for c in operand.coordinates]

        def get(machine: Machine, group: Group) -> Address:
            start = get_address(machine, group)
            return Address(start.base, start.offset, tuple([g(machine, group) for g in rest]))

        return get
    if isinstance(operand, Vec):
        parts = [source_getter(plan, e) for e in operand.elements]
        return lambda machine, group: tuple([g(machine, group) for g in parts])
    if isinstance(operand, (Reg, Imm, Special, SymbolAddress, FunctionRef)):
        return value_getter(plan, operand, linear=linear)
    return lambda machine, group: operand


def destination(operand: Operand) -> Setter:
    """A closure that commits a result to a destination: ``set(group, value, active or None)``."""
    if isinstance(operand, Vec):
        return _vector_destination([destination(e) for e in operand.elements])
    if not isinstance(operand, Reg):
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
    """Likewise, of the elements of a vector; those that are None stay as they are."""

    def set_all(machine: Machine, group: Group, value: Any, active: Array | None) -> None:
        if isinstance(value, Unpacked):
            value = value.parts(len(parts))
        for part, element in zip(parts, value, strict=True):
            if element is not None:
                part(machine, group, element, active)

    return set_all


def commit_of(instruction: Instruction) -> Setter | None:
    """A closure that commits everything a body returned."""
    setters = [destination(o) for o in instruction.operands[: instruction.form.n_dest]]
    if not setters:
        return None
    if len(setters) == 1:
        return setters[0]

    def commit(machine: Machine, group: Group, value: Any, active: Array | None) -> None:
        for setter, part in zip(setters, value, strict=True):
            if part is not None:
                setter(machine, group, part, active)

    return commit


def guard_of(plan: FunctionPlan, instruction: Instruction) -> Guard:
    """A closure that returns None (all lanes), False (no lane) or a mask of the executing lanes."""
    assert instruction.guard is not None
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
