"""How undefined bits spread: one rule for each kind of instruction, and where they are reported.

A rule is a closure ``rule(group, active)`` that gives the undefined bits of each destination register.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.flow import registers_of
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Undefined
from warpsim.machine.binding.operand_slots import commit_of, source_getter
from warpsim.machine.binding.ports import port
from warpsim.machine.hazards.defined import UndefinedMemory
from warpsim.machine.hazards.origins import REGISTER
from warpsim.machine.memory.global_memory import LOCAL_WINDOW
from warpsim.machine.values import Array, as_array, retype
from warpsim.program.program import Instruction, Operand, Reg, Vec

if TYPE_CHECKING:
    from warpsim.machine.group import Group
    from warpsim.machine.plan import FunctionPlan

RULE = "uninitialised"


def shadow(group: Group, slot: int) -> Array | None:
    """The undefined bits of a register; None where it is defined."""
    if group.env[slot] is None and slot < group.plan.n_registers:
        group.fetch(slot)
    return group.shadows.get(slot)


def destinations_of(instruction: Instruction) -> list[int]:
    """The registers that an instruction writes."""
    return [r for o in instruction.operands[: instruction.form.n_dest] for r in registers_of(o)]


def report_use(group: Group, slot: int, bits: Array, active: Any, use: str) -> None:
    """Undefined bits of a register matter here."""
    lanes = np.broadcast_to(bits != 0, group.selection.shape)
    if active is not None:
        lanes = lanes & active
    if not lanes.any():
        return
    name = group.plan.function.registers[slot].name
    other = group.batch.origins.get(slot)
    if other is None:
        group.batch.fault(
            RULE, f"register {name} is used as {use} before anything wrote it", group, lanes, register=name
        )
        return
    source = other.values.get(REGISTER)
    if source is None:
        what, advice = (
            "bytes that nothing has written",
            "write the memory on every path that leads here, before it is read",
        )
    else:
        what, advice = (
            f"what was register {source}, which nothing wrote",
            f"write {source} before line {other.line} stores it",
        )
    group.batch.fault(
        RULE,
        f"register {name} is used as {use}, and holds {what}",
        group,
        lanes,
        register=name,
        other=other,
        advice=advice,
    )


def ones(plan: FunctionPlan, slot: int, mask: Array) -> Array:
    """Every bit of a register in the lanes where ``mask`` is not zero."""
    dtype = plan.function.registers[slot].type.dtype
    if dtype.kind == "b":
        return mask != 0
    unsigned = np.dtype(f"u{min(dtype.itemsize, 8)}").type
    return np.where(mask != 0, ~unsigned(0), unsigned(0))


def unwritten(plan: FunctionPlan) -> list[int]:
    """Registers that some path reads before anything writes them.

    Accumulators of wgmma are left out: compilers leave them unwritten where scale-d is false."""
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


def undefine(group: Group) -> None:
    """The group enters a function: registers that are read before they are written hold nothing, whatever the frame kept."""
    plan, frame = group.plan, group.frame
    if plan.unwritten is None:
        plan.unwritten = unwritten(plan)
    for slot in plan.unwritten:
        bits = frame.shadows.get(slot)
        if bits is None or bits.size != group.batch.shape.n:
            none = ones(plan, slot, np.zeros(group.batch.shape.extents, np.bool_))
            bits = none if bits is None else none | bits
        whole = ones(plan, slot, np.ones(1, np.bool_))
        bits.reshape(-1)[group.selection.positions.reshape(-1)] = whole
        frame.shadows[slot] = bits


def rule_of(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], Any]:
    """How an instruction spreads undefined bits: ``rule(group, active)`` gives them by destination register."""
    kind = instruction.traits.undefined
    if kind in (Undefined.MULTIPLIED, Undefined.STORED):
        return lambda group, active: {}
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


def _shadow_of(group: Group, operand: Operand) -> Any:
    """A source operand's undefined bits, in the type in which the instruction reads it."""
    if isinstance(operand, Vec):
        return tuple([_shadow_of(group, e) for e in operand.elements])
    if isinstance(operand, Reg):
        bits = shadow(group, operand.register.index)
        if bits is not None:
            return bits if operand.type.dtype.kind == "b" else retype(bits, operand.type.dtype)
    dtype = operand.type.dtype  # type: ignore[union-attr]
    return np.zeros(1, dtype)


def _any(group: Group, operands: tuple[Operand, ...]) -> Array | None:
    """The lanes in which any of these operands has an undefined bit."""
    mask: Array | None = None
    for operand in operands:
        for slot in registers_of(operand):
            bits = shadow(group, slot)
            if bits is not None:
                mask = bits != 0 if mask is None else mask | (bits != 0)
    return mask


def _any_rule(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], Any]:
    operands = instruction.operands[instruction.form.n_dest :]
    written = [s for s in destinations_of(instruction) if plan.function.registers[s].type.bits <= 64]
    together = instruction.form.scope is not Scope.THREAD

    def rule(group: Group, active: Any) -> dict[int, Array]:
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


def _move_rule(plan: FunctionPlan, instruction: Instruction, moved: tuple[int, ...]) -> Callable[[Group, Any], Any]:
    """The body itself moves the undefined bits, unless what decides where to is undefined."""

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    decide = tuple([o for k, o in enumerate(operands) if k not in moved])
    otherwise = _any_rule(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)
    wide = form.scope is Scope.WARP

    def rule(group: Group, active: Any) -> Any:
        if _any(group, decide) is not None or commit is None:
            return otherwise(group, active)
        arguments = [_shadow_of(group, o) if k in moved else get(group) for k, (o, get) in enumerate(zip(operands, getters, strict=True))]  # fmt: skip
        if not wide:
            result = form.function(op, *arguments, **{p: port(group.batch, p, group, active) for p in form.ports})
        else:
            warps = group.warps
            keywords: dict[str, Any] = {"active": warps.active, "report": lambda *_, **__: None}
            keywords = {p: keywords[p] for p in form.ports}
            result = form.function(op, *[warps.spread(a) for a in arguments], **keywords)
            result = tuple([warps.collect(r) for r in result]) if isinstance(result, tuple) else warps.collect(result)
        if isinstance(result, tuple) and form.n_dest == 2:  # d|p: the predicate depends on what decides alone
            result = (result[0], np.zeros(1, np.bool_))
        into = _Into(group, plan)
        commit(into, result, None)  # type: ignore[arg-type]
        return {slot: _unsigned(into.env[slot]) for slot in written if slot in into.env}

    return rule


class _Into:
    """Takes what a commit writes."""

    def __init__(self, group: Group, plan: FunctionPlan) -> None:
        self.env: dict[int, Any] = {}
        self.dirty: set[int] = set()


def _unsigned(value: Any) -> Array:
    array = as_array(value)
    return array if array.dtype.kind == "b" or array.dtype.itemsize > 8 else array.view(f"u{array.dtype.itemsize}")


def _bitwise_rule(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], Any]:
    """A result bit is undefined where turning undefined source bits turns it."""

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)
    otherwise = _any_rule(plan, instruction)

    def rule(group: Group, active: Any) -> Any:
        if commit is None or form.n_dest != 1:
            return otherwise(group, active)
        values = [as_array(get(group)) for get in getters]
        bits = [_shadow_of(group, o) for o in operands]
        unsure = [k for k, b in enumerate(bits) if b.any()]
        first = form.function(op, *values)
        changed: Any = None
        for turned in product((False, True), repeat=len(unsure)):
            tried = [v ^ bits[k].view(v.dtype) if k in unsure and turned[unsure.index(k)] else v for k, v in enumerate(values)]  # fmt: skip
            differs = form.function(op, *tried) ^ first
            changed = differs if changed is None else changed | differs
        into = _Into(group, plan)
        commit(into, changed, None)  # type: ignore[arg-type]
        return {slot: _unsigned(into.env[slot]) for slot in written if slot in into.env}

    return rule


def _global_lanes(group: Group, op: Any, address: Any) -> Any:
    """The lanes whose address lies in global memory: None for all, False for none."""
    words = op.text.split(".")
    if "global" in words:
        return None
    if any(w.split("::")[0] in ("shared", "local", "param") for w in words):
        return False
    place = as_array(address[0]).view(np.int64) + address[1]
    mask = np.broadcast_to(place < LOCAL_WINDOW, group.selection.shape)
    return None if mask.all() else mask if mask.any() else False


Effect = Callable[["Group", Any], None]


def bind_store_bits(plan: FunctionPlan, instruction: Instruction) -> tuple[Effect | None, Effect | None]:
    """What a store of undefined bits does before and after it is made: they are reported where it goes to global memory, and
    go to shared and local memory with the value."""
    form, op = instruction.form, instruction.op
    address_of = _getters(plan, instruction)[0]
    value = instruction.operands[form.n_dest + 1]

    parts = value.elements if isinstance(value, Vec) else (value,)
    if form.scope is not Scope.THREAD:
        return None, None

    def before(group: Group, active: Any) -> None:
        where = _global_lanes(group, op, address_of(group))
        if where is not False:
            _report_value(group, (value,), _both(where, active), "the value of a store to global memory")

    def after(group: Group, active: Any) -> None:
        address = address_of(group)
        where = _global_lanes(group, op, address)
        if where is None:
            return
        memory = group.batch.memory
        memory.group, memory.active = group, active
        form.function(op, address, _shadow_of(group, value), memory=UndefinedMemory(memory))
        memory.undefined = False
        own = active if where is False else ~where if active is None else active & ~where
        for part in parts:
            bits = shadow(group, part.register.index) if isinstance(part, Reg) else None
            if bits is not None and isinstance(part, Reg):
                lanes = np.broadcast_to(bits != 0 if own is None else (bits != 0) & own, group.selection.shape)
                group.batch.origins.stored(group, instruction, address, lanes, part.register.index)

    return before, after


def _both(where: Any, active: Any) -> Any:
    return where if active is None else active if where is None else where & active


def _report_value(group: Group, operands: tuple[Operand, ...], lanes: Any, use: str) -> None:
    """Report what leaves the thread and has no defined byte, nor comes from beside one: compilers copy structures with
    their padding."""
    for operand in operands:
        for part in operand.elements if isinstance(operand, Vec) else (operand,):
            bits = shadow(group, part.register.index) if isinstance(part, Reg) else None
            if bits is not None and isinstance(part, Reg):
                read = bits if bits.dtype.kind == "b" else retype(bits, np.dtype(f"u{part.type.dtype.itemsize}"))
                whole = (np.ascontiguousarray(read)[..., None].view(np.uint8) != 0).all(axis=-1)
                if part.register.index in group.padding:
                    whole = whole & ~group.padding[part.register.index]
                report_use(group, part.register.index, whole, lanes, use)


def _atomic_rule(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], Any]:
    """What an atomic leaves in global memory is reported; its result is undefined with its operands."""
    operands = instruction.operands[instruction.form.n_dest :]
    whole = _any_rule(plan, instruction)
    getters = _getters(plan, instruction)

    def rule(group: Group, active: Any) -> Any:
        where = _global_lanes(group, instruction.op, getters[0](group))
        if where is not False:
            _report_value(group, operands[1:], _both(where, active), "the operand of an atomic on global memory")
            return {}
        return whole(group, active)

    return rule
