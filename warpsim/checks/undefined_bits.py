"""How undefined bits propagate, with one rule per kind of instruction, and where they are reported.

A rule is a closure ``rule(group, active)`` that returns the undefined bits of each destination register.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.flow import registers_of
from warpsim.checks.origins import REGISTER, Origins
from warpsim.checks.undefined_memory import AtOnce, UndefinedMemory, muted
from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Undefined
from warpsim.machine.address import Address
from warpsim.machine.binding.operand_slots import commit_of, source_getter
from warpsim.machine.binding.ports import port
from warpsim.machine.state.global_memory import LOCAL_WINDOW
from warpsim.machine.values import Array, as_array, retype
from warpsim.program.program import Addr, Instruction, Operand, Reg, Vec, called

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group

RULE = "uninitialised"
UNDEFINED = "undefined"
"""Companion of registers: an unsigned integer of the register's width with a 1 for each undefined bit."""
PADDING = "padding"
"""Companion of registers: True in lanes that have loaded what may be structure padding."""
WRITE_FIRST = "initialise the register on every path to here"


def undefined(group: Group, slot: int) -> Array | None:
    """The undefined bits of a register; None if it is defined."""
    return group.companion(UNDEFINED, slot)


def origins(machine: Machine) -> Origins:
    """The origins of undefined bits in registers."""
    found: Origins = machine.batch.notes[RULE]
    return found


def destinations_of(instruction: Instruction) -> list[int]:
    """The registers that an instruction writes."""
    return [r for o in instruction.operands[: instruction.form.n_dest] for r in registers_of(o)]


def report_use(machine: Machine, group: Group, slot: int, bits: Array, active: Array | None, use: str) -> None:
    """Report undefined bits of a register that matter here."""
    lanes = np.broadcast_to(bits != 0, group.selection.shape)
    if active is not None:
        lanes = lanes & active
    if not lanes.any():
        return
    name = group.plan.function.registers[slot].name
    other = origins(machine).get(group, slot)
    if other is None:
        report_unwritten(machine, group, slot, lanes, use)
        return
    source = other.values.get(REGISTER)
    if source is None:
        what, advice = (
            "uninitialised bytes",
            "initialise the memory on every path to here",
        )
    else:
        what, advice = (
            f"what comes from {called(str(source))}, which was never written",
            f"write {source} before line {other.line} reads it",
        )
    machine.fault(
        RULE,
        f"{called(name)} is used as {use}, but holds {what}",
        group,
        lanes,
        before=True,
        register=name,
        other=other,
        advice=advice,
    )


Rule = Callable[["Machine", "Group", "Array | None"], Any]
"""Bits of the results of a step that are undefined: per destination, None for none."""


def report_unwritten(machine: Machine, group: Group, slot: int, lanes: Any, use: str) -> None:
    """Report a register that matters here but was never written."""
    name = group.plan.function.registers[slot].name
    message = f"{called(name)} is used as {use} before anything wrote it"
    machine.fault(RULE, message, group, lanes, before=True, register=name, advice=WRITE_FIRST)


def ones(plan: FunctionPlan, slot: int, mask: Array) -> Array:
    """All bits of a register, in the lanes where ``mask`` is nonzero."""
    dtype = plan.function.registers[slot].type.dtype
    if dtype.kind == "b":
        return mask != 0
    unsigned = np.dtype(f"u{min(dtype.itemsize, 8)}").type
    return np.where(mask != 0, ~unsigned(0), unsigned(0))


def unwritten(plan: FunctionPlan) -> list[int]:
    """Registers that some path reads before any write.

    Accumulators of wgmma are excluded, because compilers leave them unwritten where scale-d is false.
    """
    accumulators = {
        slot
        for block in plan.blocks
        for instruction in block.instructions
        if "accumulator" in instruction.form.ports
        for slot in destinations_of(instruction)
    }
    given = {r.index for param in plan.function.params for r in param.registers}
    registers = plan.function.registers
    return [
        slot
        for slot in sorted(plan.blocks[0].live_in - accumulators - given)
        if slot < plan.n_registers and registers[slot].type.bits <= 64
    ]


def rule_of(plan: FunctionPlan, instruction: Instruction) -> Rule:
    """How an instruction propagates undefined bits: ``rule(group, active)`` returns them by destination register."""
    kind = instruction.traits.undefined
    if kind in (Undefined.MULTIPLIED, Undefined.STORED):
        return lambda machine, group, active: {}
    if kind is Undefined.COMBINED:
        return _atomic_rule(plan, instruction)
    if kind is Undefined.MOVES or (kind is Undefined.CONVERTS and _is_integer_move(instruction)):
        return _move_rule(plan, instruction, instruction.traits.moved)
    if kind is Undefined.BITWISE:
        return _bitwise_rule(plan, instruction)
    return _any_rule(plan, instruction)


def _is_integer_move(instruction: Instruction) -> bool:
    types = [o.type for o in instruction.operands if isinstance(o, Reg)]
    return all(t.dtype.kind in "iu" for t in types)


def _bits_of(group: Group, operand: Operand) -> Any:
    """A source operand's undefined bits, in the type with which the instruction reads it."""
    if isinstance(operand, Vec):
        return tuple([_bits_of(group, e) for e in operand.elements])
    if isinstance(operand, Reg):
        bits = undefined(group, operand.register.index)
        if bits is not None:
            return bits if operand.type.dtype.kind == "b" else retype(bits, operand.type.dtype)
    dtype = operand.type.dtype  # type: ignore[union-attr]
    return np.zeros(1, dtype)


def _any(group: Group, operands: tuple[Operand, ...]) -> Array | None:
    """A mask of lanes in which any of these operands has an undefined bit."""
    mask: Array | None = None
    for operand in operands:
        for slot in registers_of(operand):
            bits = undefined(group, slot)
            if bits is not None:
                mask = bits != 0 if mask is None else mask | (bits != 0)
    return mask


def _any_rule(plan: FunctionPlan, instruction: Instruction) -> Rule:
    operands = instruction.operands[instruction.form.n_dest :]
    written = [s for s in destinations_of(instruction) if plan.function.registers[s].type.bits <= 64]
    together = instruction.form.scope is not Scope.THREAD

    def rule(machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        mask = _any(group, operands)
        if mask is None:
            return {}
        if together:
            warps = group.warps
            lanes = warps.spread(np.broadcast_to(mask, group.selection.shape)) & warps.active
            mask = warps.collect(np.broadcast_to(lanes.any(axis=1, keepdims=True), lanes.shape).copy())
        return {slot: ones(plan, slot, mask) for slot in written}

    return rule


def _getters(plan: FunctionPlan, instruction: Instruction) -> list[Any]:
    return [source_getter(plan, o) for o in instruction.operands[instruction.form.n_dest :]]


def _move_rule(plan: FunctionPlan, instruction: Instruction, moved: tuple[int, ...]) -> Rule:
    """Run the body on the undefined bits, unless a source that decides where they go is undefined."""

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    decide = tuple([o for k, o in enumerate(operands) if k not in moved])
    otherwise = _any_rule(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)
    wide = form.scope is Scope.WARP

    def rule(machine: Machine, group: Group, active: Array | None) -> Any:
        if _any(group, decide) is not None or commit is None:
            return otherwise(machine, group, active)
        arguments = [_bits_of(group, o) if k in moved else get(machine, group) for k, (o, get) in enumerate(zip(operands, getters, strict=True))]  # fmt: skip
        if not wide:
            result = form.function(op, *arguments, **{p: port(machine, p, group, active) for p in form.ports})
        else:
            warps = group.warps
            keywords: dict[str, Any] = {"active": warps.active, "report": lambda *_, **__: None}
            keywords = {p: keywords[p] for p in form.ports}
            result = form.function(op, *[warps.spread(a) for a in arguments], **keywords)
            result = tuple([warps.collect(r) for r in result]) if isinstance(result, tuple) else warps.collect(result)
        if isinstance(result, tuple) and form.n_dest == 2:  # d|p: the predicate depends only on what decides
            result = (result[0], np.zeros(1, np.bool_))
        into = Into(group)
        commit(machine, into, result, None)  # type: ignore[arg-type]
        return into.bits(written)

    return rule


class Into:
    """A group whose registers are replaced by their undefined bits."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.env: dict[int, Any] = {}
        self.dirty: set[int] = set()

    def read(self, slot: int) -> Array:
        """A register's undefined bits."""
        found = undefined(self.group, slot)
        if found is None:
            dtype = self.group.plan.function.registers[slot].type.dtype
            return np.zeros(1, dtype if dtype.kind == "b" else f"u{dtype.itemsize}")
        return found

    def bits(self, slots: list[int]) -> dict[int, Array]:
        """What was written, as unsigned integers."""
        return {slot: _unsigned(self.env[slot]) for slot in slots if slot in self.env}


def _unsigned(value: Any) -> Array:
    array = as_array(value)
    return array if array.dtype.kind == "b" or array.dtype.itemsize > 8 else array.view(f"u{array.dtype.itemsize}")


def _bitwise_rule(plan: FunctionPlan, instruction: Instruction) -> Rule:
    """A result bit is undefined if flipping undefined source bits flips it."""

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)
    otherwise = _any_rule(plan, instruction)

    def rule(machine: Machine, group: Group, active: Array | None) -> Any:
        if commit is None or form.n_dest != 1:
            return otherwise(machine, group, active)
        values = [as_array(get(machine, group)) for get in getters]
        bits = [_bits_of(group, o) for o in operands]
        unsure = [k for k, b in enumerate(bits) if b.any()]
        first = form.function(op, *values)
        changed: Any = None
        for turned in product((False, True), repeat=len(unsure)):
            tried = [v ^ bits[k].view(v.dtype) if k in unsure and turned[unsure.index(k)] else v for k, v in enumerate(values)]  # fmt: skip
            differs = form.function(op, *tried) ^ first
            changed = differs if changed is None else changed | differs
        into = Into(group)
        commit(machine, into, changed, None)  # type: ignore[arg-type]
        return into.bits(written)

    return rule


def _global_lanes(group: Group, op: Any, address: Address) -> Any:
    """The lanes whose address is in global memory: None for all, False for none."""
    words = op.text.split(".")
    if "global" in words:
        return None
    if any(w.split("::")[0] in ("shared", "local", "param") for w in words):
        return False
    place = address.places
    mask = np.broadcast_to(place < LOCAL_WINDOW, group.selection.shape)
    return None if mask.all() else mask if mask.any() else False


Effect = Callable[["Machine", "Group", "Array | None"], None]


def bind_store_bits(plan: FunctionPlan, instruction: Instruction) -> tuple[Effect | None, Effect | None]:
    """The effects of a store of undefined bits, before and after it: a report if it goes to global memory, and
    propagation to shared and local memory.
    """
    form, op = instruction.form, instruction.op
    getters = _getters(plan, instruction)
    value = instruction.operands[form.n_dest + 1]

    parts = value.elements if isinstance(value, Vec) else (value,)
    if form.scope is not Scope.THREAD:
        return None, None

    def before(machine: Machine, group: Group, active: Array | None) -> None:
        where = _global_lanes(group, op, getters[0](machine, group))
        if where is not False:
            _report_value(machine, group, (value,), _both(where, active), "the value of a store to global memory")

    def after(machine: Machine, group: Group, active: Array | None) -> None:
        address = getters[0](machine, group)
        where = _global_lanes(group, op, address)
        if where is None:
            return
        rest = [get(machine, group) for get in getters[2:]]
        form.function(op, address, _bits_of(group, value), *rest, **bit_ports(machine, group, form, active))
        own = active if where is False else ~where if active is None else active & ~where
        for part in parts:
            bits = undefined(group, part.register.index) if isinstance(part, Reg) else None
            if bits is not None and isinstance(part, Reg):
                lanes = np.broadcast_to(bits != 0 if own is None else (bits != 0) & own, group.selection.shape)
                origins(machine).stored(machine, group, instruction, address, lanes, part.register.index)

    return before, after


def bit_ports(
    machine: Machine, group: Group, form: Form, active: Array | None, *, combines: bool = False
) -> dict[str, Any]:
    """The ports of a single-thread body that is to move undefined bits: memory transfers such bits, and copies are done
    at once.
    """
    ports = {p: port(machine, p, group, active) for p in form.ports}
    return {**ports, **stand_ins(machine, group, form, active, combines=combines)}


def stand_ins(
    machine: Machine, group: Group, form: Form, active: Array | None, *, combines: bool = False
) -> dict[str, Any]:
    """The ports of a form that move undefined bits instead of values."""
    names = form.ports & {"memory", "async_groups", "bulk"}
    if not names:
        return {}
    memory = UndefinedMemory(machine, group, active, combines=combines)
    return {name: memory if name == "memory" else AtOnce(memory) for name in names}


def _both(where: Any, active: Array | None) -> Any:
    return where if active is None else active if where is None else where & active


def _report_value(machine: Machine, group: Group, operands: tuple[Operand, ...], lanes: Any, use: str) -> None:
    """Report a value that leaves the thread without any defined byte, unless it comes from beside one: compilers copy
    structures with their padding.
    """
    for operand in operands:
        for part in operand.elements if isinstance(operand, Vec) else (operand,):
            bits = undefined(group, part.register.index) if isinstance(part, Reg) else None
            if bits is not None and isinstance(part, Reg):
                read = bits if bits.dtype.kind == "b" else retype(bits, np.dtype(f"u{part.type.dtype.itemsize}"))
                whole = (np.ascontiguousarray(read)[..., None].view(np.uint8) != 0).all(axis=-1)
                padding = group.companion(PADDING, part.register.index)
                if padding is not None:
                    whole = whole & ~padding
                report_use(machine, group, part.register.index, whole, lanes, use)


def _atomic_rule(plan: FunctionPlan, instruction: Instruction) -> Rule:
    """Report an atomic's undefined operands in global memory; elsewhere they make memory and the result undefined."""
    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    whole = _any_rule(plan, instruction)
    getters = _getters(plan, instruction)

    def rule(machine: Machine, group: Group, active: Array | None) -> Any:
        where = _global_lanes(group, op, getters[0](machine, group))
        if where is not None:
            bits = [_bits_of(group, o) if not isinstance(o, Addr) else get(machine, group) for o, get in zip(operands, getters, strict=True)]  # fmt: skip
            with muted(machine):
                form.function(op, *bits, **bit_ports(machine, group, form, active, combines=True))
        if where is not False:
            _report_value(
                machine, group, operands[1:], _both(where, active), "the operand of an atomic on global memory"
            )
            return {}
        return whole(machine, group, active)

    return rule
