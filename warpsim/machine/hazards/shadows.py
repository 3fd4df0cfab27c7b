"""Undefined bits of registers: where they come from, how they spread, and where they matter.

A load that meets bytes which nobody wrote gives its destination a shadow: an unsigned integer of the register's width
with a 1 for each undefined bit. From there on, while a group holds shadows, the steps of this module take the place of
the plain ones: moves, shuffles and bit operations hand undefined bits on one by one, other operations make their whole
result undefined. Copying is no fault; it is reported where an undefined bit decides an address, a branch, a matrix
product or what is stored to global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.flow import registers_of
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending, Family, Undefined
from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.hazards.defined import AtOnce, UndefinedMemory
from warpsim.machine.hazards.shadow_rules import (
    bind_store_bits,
    destinations_of,
    ones,
    report_use,
    rule_of,
    shadow,
)
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Addr, Instruction, Reg, Vec
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.group import Group
    from warpsim.machine.plan import BoundBlock, FunctionPlan, Step

SHADOWED = object()
"""What a step gives back whose destination got undefined bits: the rest of the block runs with shadows."""


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
    may be the padding of a structure, for each element, and the address; or None.

    A copy in memory (cp.async) passes them on to where it copies to."""
    memory = group.batch.memory
    memory.undefined = False
    form = instruction.form
    if not form.n_dest and not instruction.traits.is_async(Family.CP_ASYNC):
        return None
    keywords = {**keywords, "memory": UndefinedMemory(memory)}
    if "async_groups" in keywords:
        keywords["async_groups"] = AtOnce()
    bits = form.function(instruction.op, *arguments, **keywords)
    padding = None
    if instruction.traits.access is Access.LOAD and instruction.op.type.kind in "bu" and instruction.op.type.bits <= 32:
        padding = _padding(group, instruction, arguments[0], keywords["memory"])
    memory.undefined = False
    return bits, padding, arguments[0]


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
        if other is not instruction and other.traits.access is Access.LOAD:
            address = next(o for o in other.operands if isinstance(o, Addr))
            if address.base == own.base and abs(address.offset - own.offset) < 8:
                return True
    return False


def commit_loaded(
    group: Group, commit: Callable[..., None], instruction: Instruction, loaded: Any, active: Any
) -> object:
    """The shadow of a load's destination; ``loaded`` is what `loaded` gave."""
    bits, padding, address = loaded
    slots = destinations_of(instruction)
    if any(group.plan.function.registers[s].type.bits > 64 for s in slots):
        return None
    shadows = Shadows(group, group.plan)
    commit(shadows, bits, active)
    shadows.drop_defined(slots)
    group.batch.origins.loaded(group, instruction, address, slots)
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
        if last.traits.ending in (Ending.INDEXED_BRANCH, Ending.CALL):
            slots += [o.register.index for o in last.operands if isinstance(o, Reg)]
        for slot in slots:
            bits = shadow(group, slot)
            if bits is not None and bits.any():
                report_use(group, slot, bits, None, "the condition of a branch")


def _bind(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """A step for groups that hold shadows."""

    form, traits = instruction.form, instruction.traits
    operands = instruction.operands[form.n_dest :]
    addresses = sorted({r for o in instruction.operands if isinstance(o, Addr) for r in registers_of(o)})
    data = sorted({r for o in operands if not isinstance(o, Addr) for r in registers_of(o)})
    if "accumulator" in form.ports:
        data = sorted({*data, *destinations_of(instruction)})
    written = destinations_of(instruction)
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    guard_slot = instruction.guard[0].index if instruction.guard is not None else -1
    pure = not form.ports and form.scope is Scope.THREAD
    spread = rule_of(plan, instruction)
    stored = traits.undefined is Undefined.STORED
    before, after = bind_store_bits(plan, instruction) if stored else (None, None)

    def run(group: Group) -> Any:
        active = None
        unsure = None
        if guard is not None:
            unsure = shadow(group, guard_slot)
            active = guard(group)
            if unsure is not None and not pure:
                report_use(group, guard_slot, unsure, None, "the guard of an instruction")
                unsure = None
            if active is False and unsure is None:
                return None
            active = None if active is False else active
        for slot in addresses:
            bits = shadow(group, slot)
            if bits is not None:
                report_use(group, slot, bits, active, "an address")
        tainted = [slot for slot in data if shadow(group, slot) is not None]
        if not tainted and unsure is None:
            known = [slot for slot in written if shadow(group, slot) is not None]
            gone = step(group)
            if known and gone is not SHADOWED:
                _write(group, known, None, active)
            return gone
        if traits.undefined is Undefined.MULTIPLIED:
            for slot in tainted:
                report_use(group, slot, group.shadows[slot], active, "a matrix operand")
        new = spread(group, active) if tainted else {}
        origin = group.batch.origins.get(tainted[0] if tainted else guard_slot)
        old = {slot: group.shadows.get(slot) for slot in written}
        if before is not None and tainted:
            before(group, active)
        gone = step(group)
        if gone and gone is not SHADOWED:
            return gone
        if after is not None and tainted:
            after(group, active)
        for slot in written:
            bits = new.get(slot)
            _write(group, [slot], bits, active)
            if unsure is not None:
                held = group.shadows.get(slot, old[slot])
                whole = ones(plan, slot, unsure)
                group.shadows[slot] = whole if held is None else held | whole
            if slot in group.shadows and origin is not None:
                group.batch.origins.slots[slot] = origin
        return gone

    return run


def _write(group: Group, slots: list[int], bits: Array | None, active: Any) -> None:
    """The new undefined bits of registers, in the lanes that execute."""
    if bits is not None and bits.dtype.itemsize > 8:  # 128 bits count as defined
        bits = None
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


__all__ = ["SHADOWED", "Shadows", "check_end", "commit_loaded", "loaded", "shadow", "shadowed_steps"]
