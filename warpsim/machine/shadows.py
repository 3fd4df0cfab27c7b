"""Undefined bits of registers: where they come from, how they spread, and where they matter.

A load that meets bytes which nobody wrote gives its destination a shadow: an unsigned integer of the register's width
with a 1 for each undefined bit. From there on, while a group holds shadows, the steps of this module take the place of
the plain ones: moves, shuffles and bit operations hand undefined bits on one by one, other operations make their whole
result undefined. Copying is no fault; it is reported where an undefined bit decides an address, a branch, a matrix
product or what is stored to global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.machine.defined import AtOnce, UndefinedMemory
from warpsim.machine.flow import registers_of
from warpsim.machine.memory import LOCAL_WINDOW
from warpsim.machine.reporting import party
from warpsim.machine.values import Array, as_array, retype
from warpsim.program.program import Addr, Instruction, Operand, Reg, Vec
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.group import Group
    from warpsim.machine.plan import BoundBlock, FunctionPlan, Step

SHADOWED = object()
"""What a step gives back whose destination got undefined bits: the rest of the block runs with shadows."""
RULE = "uninitialised"
MOVES: dict[str, tuple[int, ...]] = {
    "mov": (0, 1, 2, 3),
    "shl": (0,),
    "shr": (0,),
    "shf": (0, 1),
    "prmt": (0, 1),
    "bfe": (0,),
    "bfi": (0, 1),
    "selp": (0, 1),
    "shfl": (0,),
    "movmatrix": (0,),
    "cvt": (0,),
}
"""Instructions that only move the bits of these sources; the other sources decide where to."""
BITWISE = frozenset({"and", "or", "xor", "not", "lop3"})
MATRIX = frozenset({"mma", "wmma", "wgmma"})
STORES = frozenset({"st", "stmatrix"})


class Shadows:
    """The shadows of a group, as the setters of destinations see them."""

    def __init__(self, group: Group, plan: FunctionPlan) -> None:
        self.env = group.shadows
        self.dirty: set[int] = set()
        self._plan = plan

    def read(self, slot: int) -> Array:
        """A register's undefined bits."""
        found = self.env.get(slot)
        if found is None:
            dtype = self._plan.function.registers[slot].type.dtype
            return np.zeros(1, dtype if dtype.kind == "b" else f"u{dtype.itemsize}")
        return found

    def drop_defined(self, slots: list[int]) -> None:
        """Forget registers that are defined in every lane."""
        for slot in slots:
            bits = self.env.get(slot)
            if bits is not None and (bits.dtype.itemsize > 8 or not bits.any()):
                del self.env[slot]


def loaded(group: Group, instruction: Instruction, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """A step has just met bytes that nobody wrote: the undefined bits of what it loaded, and which lanes have loaded what
    may be the padding of a structure, for each element; or None.

    A copy in memory (cp.async) passes them on to where it copies to."""
    memory = group.batch.memory
    memory.undefined = False
    form = instruction.form
    if not form.n_dest and form.root != "cp":
        return None
    keywords = {**keywords, "memory": UndefinedMemory(memory)}
    if "async_groups" in keywords:
        keywords["async_groups"] = AtOnce()
    bits = form.function(instruction.op, *arguments, **keywords)
    padding = None
    if form.root == "ld" and instruction.op.type.kind in "bu" and instruction.op.type.bits <= 32:
        padding = _padding(group, instruction, arguments[0], keywords["memory"])
    memory.undefined = False
    return bits, padding


def _padding(group: Group, instruction: Instruction, address: Any, memory: Any) -> list[Array] | None:
    """The lanes whose element has written bytes beside it in its aligned eight bytes, for each element; None where
    nothing beside it is loaded with it, as the words of a structure are."""
    space = getattr(instruction.op, "space", None) or ""
    if space.split("::")[0] not in ("shared", "local") or not _in_a_row(group, instruction):
        return None
    size, target = instruction.op.type.bytes, instruction.operands[0]
    place = as_array(address[0]).astype(np.int64) + address[1]
    found = []
    for k in range(len(target.elements) if isinstance(target, Vec) else 1):
        around = memory.load(space, ((place + k * size) & ~7, 0), TYPES["b64"])[0]
        found.append(np.asarray(around != np.uint64(0xFFFFFFFFFFFFFFFF)))
    return found


def _in_a_row(group: Group, instruction: Instruction) -> bool:
    """Whether the block loads from the same base less than eight bytes away, too."""
    own = next(o for o in instruction.operands if isinstance(o, Addr))
    if isinstance(instruction.operands[0], Vec):
        return True
    for other in group.plan.blocks[group.block].instructions:
        if other is not instruction and other.form.root == "ld":
            address = next(o for o in other.operands if isinstance(o, Addr))
            if address.base == own.base and abs(address.offset - own.offset) < 8:
                return True
    return False


def commit_loaded(
    group: Group, commit: Callable[..., None], instruction: Instruction, loaded: Any, active: Any
) -> object:
    """The shadow of a load's destination; ``loaded`` is what `loaded` gave."""
    bits, padding = loaded
    slots = _destinations(instruction)
    if any(group.plan.function.registers[s].type.bits > 64 for s in slots):
        return None
    shadows = Shadows(group, group.plan)
    commit(shadows, bits, active)
    shadows.drop_defined(slots)
    origin = party(group, "loaded here from memory that nothing has written")
    for slot in slots:
        group.batch.origins[slot] = origin
    if padding is not None and len(padding) == len(slots):
        group.padding.update(zip(slots, padding, strict=True))
    return SHADOWED


def shadowed_steps(plan: FunctionPlan, block: BoundBlock, steps: list[Step]) -> list[Step]:
    """Steps of a block for groups that hold shadows, around the plain ones."""
    return [_bind(plan, instruction, step) for instruction, step in zip(block.instructions, steps, strict=False)]


def check_end(group: Group, block: BoundBlock) -> None:
    """Report a branch that undefined bits decide, and forget shadows that nobody reads."""
    last = block.instructions[-1]
    if len(block.steps) < len(block.instructions):
        slots = [last.guard[0].index] if last.guard is not None else []
        if last.form.root in ("brx", "call"):
            slots += [o.register.index for o in last.operands if isinstance(o, Reg)]
        for slot in slots:
            bits = shadow(group, slot)
            if bits is not None and bits.any():
                _report(group, slot, bits, None, "the condition of a branch")


def shadow(group: Group, slot: int) -> Array | None:
    """The undefined bits of a register; None where it is defined."""
    if group.env[slot] is None and slot < group.plan.n_registers:
        group.fetch(slot)
    return group.shadows.get(slot)


def _destinations(instruction: Instruction) -> list[int]:
    return [r for o in instruction.operands[: instruction.form.n_dest] for r in registers_of(o)]


def _report(group: Group, slot: int, bits: Array, active: Any, use: str) -> None:
    """Undefined bits of a register matter here."""
    lanes = np.broadcast_to(bits != 0, group.selection.shape)
    if active is not None:
        lanes = lanes & active
    if not lanes.any():
        return
    name = group.plan.function.registers[slot].name
    other = group.batch.origins.get(slot)
    group.batch.fault(
        RULE, f"register {name} is used as {use}, and holds bytes that nothing has written", group, lanes,
        register=name, other=other, advice="write the memory on every path that leads here, before it is read",
    )  # fmt: skip


def _bind(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """A step for groups that hold shadows."""
    from warpsim.machine.bind import guard_of

    form, root = instruction.form, instruction.form.root
    operands = instruction.operands[form.n_dest :]
    addresses = sorted({r for o in instruction.operands if isinstance(o, Addr) for r in registers_of(o)})
    data = sorted({r for o in operands if not isinstance(o, Addr) for r in registers_of(o)})
    if "accumulator" in form.ports:
        data = sorted({*data, *_destinations(instruction)})
    written = _destinations(instruction)
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    guard_slot = instruction.guard[0].index if instruction.guard is not None else -1
    pure = not form.ports and form.scope is Scope.THREAD
    spread = _rule_of(plan, instruction)
    after = _store_bits(plan, instruction) if root in STORES else None

    def run(group: Group) -> Any:
        active = None
        unsure = None
        if guard is not None:
            unsure = shadow(group, guard_slot)
            active = guard(group)
            if unsure is not None and not pure:
                _report(group, guard_slot, unsure, None, "the guard of an instruction")
                unsure = None
            if active is False and unsure is None:
                return None
            active = None if active is False else active
        for slot in addresses:
            bits = shadow(group, slot)
            if bits is not None:
                _report(group, slot, bits, active, "an address")
        tainted = [slot for slot in data if shadow(group, slot) is not None]
        if not tainted and unsure is None:
            known = [slot for slot in written if shadow(group, slot) is not None]
            gone = step(group)
            if known and gone is not SHADOWED:
                _write(group, known, None, active)
            return gone
        if root in MATRIX:
            for slot in tainted:
                _report(group, slot, group.shadows[slot], active, "a matrix operand")
        new = spread(group, active) if tainted else {}
        origin = group.batch.origins.get(tainted[0] if tainted else guard_slot)
        old = {slot: group.shadows.get(slot) for slot in written}
        gone = step(group)
        if gone and gone is not SHADOWED:
            return gone
        if after is not None and tainted:
            after(group, active)
        for slot in written:
            bits = new.get(slot)
            _write(group, [slot], bits, active)
            if unsure is not None:
                before = group.shadows.get(slot, old[slot])
                whole = _ones(plan, slot, unsure)
                group.shadows[slot] = whole if before is None else before | whole
            if slot in group.shadows and origin is not None:
                group.batch.origins[slot] = origin
        return gone

    return run


def _write(group: Group, slots: list[int], bits: Array | None, active: Any) -> None:
    """The new undefined bits of registers, in the lanes that execute."""
    for slot in slots:
        group.padding.pop(slot, None)
        if active is not None:
            old = group.shadows.get(slot)
            if old is None and bits is None:
                continue
            some = old if old is not None else bits
            assert some is not None
            none = some.dtype.type(0)
            bits = np.where(active, none if bits is None else bits, none if old is None else old)
        if bits is None or not bits.any():
            group.shadows.pop(slot, None)
        else:
            group.shadows[slot] = bits


def _ones(plan: FunctionPlan, slot: int, mask: Array) -> Array:
    """Every bit of a register in the lanes where ``mask`` is not zero."""
    dtype = plan.function.registers[slot].type.dtype
    if dtype.kind == "b":
        return mask != 0
    size = min(dtype.itemsize, 8)
    return np.where(mask != 0, np.iinfo(f"u{size}").max, 0).astype(f"u{size}")


def _rule_of(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], Any]:
    """How an instruction spreads undefined bits: ``rule(group, active)`` gives them by destination register."""
    root = instruction.form.root
    if root in MATRIX:
        return lambda group, active: {}
    if root in STORES:
        return lambda group, active: {}
    if root in ("atom", "red"):
        return _atomic_rule(plan, instruction)
    if root in MOVES and (root != "cvt" or _is_integer_move(instruction)):
        return _move_rule(plan, instruction, MOVES[root])
    if root in BITWISE:
        return _bitwise_rule(plan, instruction)
    return _any_rule(plan, instruction)


def _is_integer_move(instruction: Instruction) -> bool:
    types = [o.type for o in instruction.operands if isinstance(o, Reg)]
    return all(t.dtype.kind in "iu" for t in types) and "sat" not in instruction.op.modifiers


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
    written = [s for s in _destinations(instruction) if plan.function.registers[s].type.bits <= 64]
    together = instruction.form.scope is not Scope.THREAD

    def rule(group: Group, active: Any) -> dict[int, Array]:
        mask = _any(group, operands)
        if mask is None:
            return {}
        if together:
            warps = group.warps
            lanes = warps.spread(np.broadcast_to(mask, group.selection.shape)) & warps.active
            mask = warps.collect(np.broadcast_to(lanes.any(axis=1, keepdims=True), lanes.shape).copy())
        return {slot: _ones(plan, slot, mask) for slot in written}

    return rule


def _getters(plan: FunctionPlan, instruction: Instruction) -> list[Any]:
    from warpsim.machine.bind import source_getter

    return [source_getter(plan, o) for o in instruction.operands[instruction.form.n_dest :]]


def _move_rule(plan: FunctionPlan, instruction: Instruction, moved: tuple[int, ...]) -> Callable[[Group, Any], Any]:
    """The body itself moves the undefined bits, unless what decides where to is undefined."""
    from warpsim.machine.bind import commit_of, port

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    decide = tuple([o for k, o in enumerate(operands) if k not in moved])
    otherwise = _any_rule(plan, instruction)
    commit = commit_of(instruction)
    written = _destinations(instruction)
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
    from warpsim.machine.bind import commit_of

    form, op = instruction.form, instruction.op
    operands = instruction.operands[form.n_dest :]
    getters = _getters(plan, instruction)
    commit = commit_of(instruction)
    written = _destinations(instruction)
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


def _store_bits(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group, Any], None]:
    """Undefined bits go to shared and local memory with the value, and are reported in global memory."""
    form, op = instruction.form, instruction.op
    address_of = _getters(plan, instruction)[0]
    value = instruction.operands[form.n_dest + 1]

    def after(group: Group, active: Any) -> None:
        address = address_of(group)
        if form.scope is not Scope.THREAD:
            return
        where = _global_lanes(group, op, address)
        if where is not False:
            _report_value(group, (value,), _both(where, active), "the value of a store to global memory")
        if where is not None:
            memory = group.batch.memory
            memory.group, memory.active = group, active
            form.function(op, address, _shadow_of(group, value), memory=UndefinedMemory(memory))
            memory.undefined = False

    return after


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
                _report(group, part.register.index, whole, lanes, use)


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


__all__ = ["SHADOWED", "Shadows", "check_end", "commit_loaded", "loaded", "shadow", "shadowed_steps"]
