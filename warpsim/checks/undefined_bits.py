"""How undefined bits pass through an instruction, with one rule per kind of instruction, and where they are reported.

A rule is a closure ``rule(machine, group, active)`` that returns the undefined bits of each destination register.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.undefined import deciding, moves_by, read_unwritten, scale_of
from warpsim.checks.undefined_memory import AtOnce, UndefinedMemory, muted
from warpsim.checks.undefined_registers import PADDING, RULE, lanes_of, ones, origins, report_use, undefined
from warpsim.graph.moves import Fate
from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Access, Ending, Family
from warpsim.machine.binding.operand_slots import commit_of, guard_of, source_getter, value_getter
from warpsim.machine.binding.ports import PORTS
from warpsim.machine.binding.warp_steps import spread, warp_ports
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.global_memory import LOCAL_WINDOW
from warpsim.machine.values import Array, as_array, retype
from warpsim.program.program import Instruction, Operand

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group


def destinations_of(instruction: Instruction) -> list[int]:
    """The registers that an instruction writes."""
    return [r for o in instruction.outputs for r in o.registers]


Rule = Callable[["Machine", "Group", "Array | None"], Any]
"""Bits of the results of a step that are undefined: per destination, None for none."""


def rule_of(plan: FunctionPlan, instruction: Instruction) -> Rule:
    """How an instruction propagates undefined bits: ``rule(group, active)`` returns them by destination register."""
    traits = instruction.traits
    if traits.multiplies or traits.stores:
        return lambda machine, group, active: {}
    if traits.access is Access.ATOMIC:
        return _atomic_rule(plan, instruction)
    moves = moves_by(instruction)
    if moves.fate is Fate.MOVED:
        return _move_rule(plan, instruction, moves.moved)
    return (_bitwise_rule if moves.fate is Fate.BITWISE else _any_rule)(plan, instruction)


def _bits_of(group: Group, operand: Operand) -> Any:
    """A source operand's undefined bits, in the type with which the instruction reads it."""
    if operand.elements is not None:
        return tuple([_bits_of(group, e) for e in operand.elements])
    bits, dtype = _undefined(group, operand), operand.type.dtype
    if bits is None:
        return np.zeros(1, dtype)
    return bits if dtype.kind == "b" else retype(bits, dtype)


def _undefined(group: Group, operand: Operand) -> Array | None:
    """The undefined bits of an operand that is a register."""
    return None if operand.register is None else undefined(group, operand.register.index)


def _any(group: Group, operands: tuple[Operand, ...]) -> Array | None:
    """A mask of lanes in which any of these operands has an undefined bit."""
    mask: Array | None = None
    for operand in operands:
        for slot in operand.registers:
            bits = undefined(group, slot)
            if bits is not None:
                mask = lanes_of(bits) if mask is None else mask | lanes_of(bits)
    return mask


def _any_rule(plan: FunctionPlan, instruction: Instruction) -> Rule:
    operands = instruction.inputs
    written = destinations_of(instruction)
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
    return [source_getter(plan, o) for o in instruction.inputs]


def _move_rule(plan: FunctionPlan, instruction: Instruction, moved: frozenset[int]) -> Rule:
    """Run the body on the undefined bits, unless a source that decides where they go is undefined."""

    form, op = instruction.form, instruction.op
    operands = instruction.inputs
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
            result = form.function(op, *arguments, **{p: PORTS[p](machine, group, active) for p in form.ports})
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
            return np.zeros(1, f"u{dtype.itemsize}" if dtype.kind not in "bV" else dtype)
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
    operands = instruction.inputs
    getters = _getters(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)
    otherwise = _any_rule(plan, instruction)
    sources = [-1 if o.register is None else o.register.index for o in operands]

    def rule(machine: Machine, group: Group, active: Array | None) -> Any:
        if commit is None:
            return otherwise(machine, group, active)
        values = [as_array(get(machine, group)) for get in getters]
        bits = [_bits_of(group, o) for o in operands]
        unsure = list(dict.fromkeys(source for source, b in zip(sources, bits, strict=True) if b.any()))
        first = form.function(op, *values)
        changed: Any = None
        for flips in product((False, True), repeat=len(unsure)):
            turned = {source for source, flip in zip(unsure, flips, strict=True) if flip}
            tried = [v ^ b.view(v.dtype) if source in turned else v for source, v, b in zip(sources, values, bits, strict=True)]  # fmt: skip
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


Effect = Callable[["Machine", "Group", "Array | None"], "Callable[[], None] | None"]
"""Acts before a step, and returns what there is to do after it."""


def bind_store_bits(plan: FunctionPlan, instruction: Instruction) -> Effect | None:
    """The effect of a store of undefined bits: a report if it goes to global memory; after it, they are in shared and
    local memory.
    """
    form, op = instruction.form, instruction.op
    getters = _getters(plan, instruction)
    value = instruction.operands[form.n_dest + 1]
    if form.scope is not Scope.THREAD:
        return _warp_store(plan, instruction)

    def store(machine: Machine, group: Group, active: Array | None) -> Callable[[], None] | None:
        address = getters[0](machine, group)
        where = _global_lanes(group, op, address)
        if where is not False:
            _report_value(machine, group, (value,), _both(where, active), "the value of a store to global memory")
        if where is None:
            return None
        bits, rest = _bits_of(group, value), [get(machine, group) for get in getters[2:]]
        _note_stored(machine, group, instruction, address, (value,), _elsewhere(where, active))
        return lambda: form.function(op, address, bits, *rest, **bit_ports(machine, group, form, active))

    return store


def _warp_store(plan: FunctionPlan, instruction: Instruction) -> Effect:
    """Of matrices, which go to shared memory: the lanes of a warp store each other's bits."""
    form, op = instruction.form, instruction.op
    getters = _getters(plan, instruction)
    _, value = instruction.operands

    def store(machine: Machine, group: Group, active: Array | None) -> Callable[[], None] | None:
        address = getters[0](machine, group)
        arguments = [spread(group.warps, a, wide=False) for a in (address, _bits_of(group, value))]
        _note_stored(machine, group, instruction, address, (value,), active)

        def finish() -> None:
            ports = {**warp_ports(machine, group, active, form), **stand_ins(machine, group, form, None)}
            form.function(op, *arguments, **ports)

        return finish

    return store


def _elsewhere(where: Any, active: Array | None) -> Array | None:
    """The active lanes whose address is not in global memory."""
    return active if where is False else ~where if active is None else active & ~where


def _note_stored(
    machine: Machine, group: Group, instruction: Instruction, address: Address, values: Any, lanes: Array | None
) -> None:
    """Note undefined registers that go to shared or local memory."""
    for value in values:
        for part in value.parts:
            bits = _undefined(group, part)
            if bits is not None and part.register is not None:
                mask = lanes_of(bits) if lanes is None else lanes_of(bits) & lanes
                mask = np.broadcast_to(mask, group.selection.shape)
                origins(machine).stored(machine, group, instruction, address, mask, part.register.index)


def bit_ports(
    machine: Machine, group: Group, form: Form, active: Array | None, *, combines: bool = False
) -> dict[str, Any]:
    """The ports of a single-thread body that is to move undefined bits: memory transfers such bits, and copies are done
    at once.
    """
    ports = {p: PORTS[p](machine, group, active) for p in form.ports}
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
        for part in operand.parts:
            bits = _undefined(group, part)
            if bits is not None and part.register is not None:
                read = bits if bits.dtype.kind in "bV" else retype(bits, np.dtype(f"u{part.type.dtype.itemsize}"))
                whole = (np.ascontiguousarray(read)[..., None].view(np.uint8) != 0).all(axis=-1)
                padding = group.shadow(PADDING, part.register.index)
                if padding is not None:
                    whole = whole & ~padding
                report_use(machine, group, part.register.index, whole, lanes, use)


def _atomic_rule(plan: FunctionPlan, instruction: Instruction) -> Rule:
    """Report an atomic's undefined operands in global memory; elsewhere they become part of memory, and of what is read
    from it. The result is the old value, however undefined the operands are.
    """
    form, op = instruction.form, instruction.op
    operands = instruction.inputs
    getters = _getters(plan, instruction)
    commit = commit_of(instruction)
    written = destinations_of(instruction)

    def rule(machine: Machine, group: Group, active: Array | None) -> Any:
        address = getters[0](machine, group)
        where = _global_lanes(group, op, address)
        if where is not False:
            _report_value(
                machine, group, operands[1:], _both(where, active), "the operand of an atomic on global memory"
            )
        if where is None:
            return {}
        _note_stored(machine, group, instruction, address, operands[1:], _elsewhere(where, active))
        bits = [_bits_of(group, o) if o.base is None else get(machine, group) for o, get in zip(operands[1:], getters[1:], strict=True)]  # fmt: skip
        with muted(machine):
            old = form.function(op, address, *bits, **bit_ports(machine, group, form, active, combines=True))
        if commit is None or old is None:
            return {}
        into = Into(group)
        commit(machine, into, old, None)  # type: ignore[arg-type]
        return into.bits(written)

    return rule


class TransferFunction:
    """How undefined bits pass through one instruction; bound once per function."""

    def __init__(self, plan: FunctionPlan, instruction: Instruction) -> None:
        form, traits = instruction.form, instruction.traits
        sources = instruction.inputs
        self.instruction = instruction
        self.plan = plan
        self.warps = form.scope is not Scope.THREAD
        self.wide = form.scope is Scope.WARPGROUP
        self.written = destinations_of(instruction)
        self.addresses = sorted({r for o in instruction.operands if o.base is not None for r in o.registers})
        self.decides = deciding(instruction)
        """The registers that decide what it does, and what they are used as."""
        data = {r for o in sources if o.base is None for r in o.registers}
        self.data = sorted(data - self.decides.keys())
        scale = scale_of(instruction)
        self.adds = None if scale is None else value_getter(plan, scale)
        """Of a wgmma: the threads that add to their accumulator."""
        self.guard = guard_of(instruction)
        self.guard_slot = instruction.guard[0].index if instruction.guard is not None else -1
        self.pure = not form.ports and not self.warps
        self.multiplies = traits.multiplies
        self.metadata = _metadata(instruction)
        self.stores = bind_store_bits(plan, instruction) if traits.stores else None
        self.getters = [source_getter(plan, o) for o in sources]
        self.commit = commit_of(instruction)
        self.moves_memory = traits.is_async(Family.CP_ASYNC) or ("memory" in form.ports and bool(form.n_dest))
        """Whether what it reads from memory goes anywhere: to registers, or elsewhere in memory."""

    @cached_property
    def spread(self) -> Rule:
        """Its rule, found when something is undefined."""
        return rule_of(self.plan, self.instruction)


def _metadata(instruction: Instruction) -> tuple[int, Array] | None:
    """The register with the metadata of a sparse product, and a mask of the lanes of a warp that the selector names."""
    found = instruction.traits.metadata
    if found is None:
        return None
    words, selector = instruction.named[found.words].register, instruction.named[found.selector].constant
    if words is None or selector is None:
        return None
    return words.index, np.arange(32) % 4 // found.lanes == selector % (4 // found.lanes)


class Known:
    """What the rule knows about a function, for every launch."""

    def __init__(self, plan: FunctionPlan) -> None:
        given = {r.index for param in plan.function.params for r in param.registers}
        self.unwritten = sorted(read_unwritten(plan.function) - given)
        self.transfer_functions: dict[int, TransferFunction] = {}
        self._plan = plan
        self._loads: dict[int, dict[object, list[int]]] = {}

    def loads(self, block: int) -> dict[object, list[int]]:
        """By base, the offsets that the loads of a block add to it, in ascending order."""
        found = self._loads.get(block)
        if found is None:
            found = self._loads[block] = defaultdict(list)
            for instruction in self._plan.blocks[block].instructions:
                if instruction.traits.access is Access.LOAD:
                    address = instruction.address
                    assert address is not None
                    found[address.base].append(address.offset)
            for offsets in found.values():
                offsets.sort()
        return found


def known_of(plan: FunctionPlan) -> Known:
    """What the rule knows about a function, cached."""
    found: Known | None = plan.notes.get(RULE)
    if found is None:
        found = plan.notes[RULE] = Known(plan)
    return found


def transfer_of(plan: FunctionPlan, instruction: Instruction) -> TransferFunction:
    """How undefined bits pass through an instruction of a function."""
    transfer_functions = known_of(plan).transfer_functions
    found = transfer_functions.get(id(instruction))
    if found is None:
        found = transfer_functions[id(instruction)] = TransferFunction(plan, instruction)
    return found


SCALE_D = "pass scale-d = false to the first wgmma of a sum, or zero the accumulators before its wgmma.fence"


def check_matrices(
    machine: Machine, group: Group, flow: TransferFunction, tainted: list[int], active: Array | None
) -> None:
    """Report undefined operands of a product; an accumulator of wgmma, in the threads that add to it."""
    for slot in tainted:
        bits = undefined(group, slot)
        assert bits is not None
        lanes = active
        if flow.metadata is not None and flow.metadata[0] == slot:
            warps = group.warps
            named = warps.collect(np.broadcast_to(flow.metadata[1][:, None], warps.active.shape))
            lanes = named if active is None else named & active
        report_use(machine, group, slot, bits, lanes, "a matrix operand")
    if flow.adds is None:
        return
    unwritten = [(slot, bits) for slot in flow.written if (bits := undefined(group, slot)) is not None]
    if not unwritten:
        return
    adds = np.broadcast_to(as_array(flow.adds(machine, group)).view(np.bool_), group.selection.shape)
    if active is not None:
        adds = adds & active
    for slot, bits in unwritten:
        if (lanes_of(bits) & adds).any():
            report_use(machine, group, slot, bits, adds, "an accumulator of wgmma", SCALE_D)
            return


def check_end(machine: Machine, group: Group, last: Instruction) -> None:
    """Report a branch on undefined bits."""
    slots = [last.guard[0].index] if last.guard is not None else []
    if last.traits.ending in (Ending.INDEXED_BRANCH, Ending.CALL):
        slots += [o.register.index for o in last.operands if o.register is not None]
    for slot in slots:
        bits = undefined(group, slot)
        if bits is not None and bits.any():
            report_use(machine, group, slot, bits, None, "the condition of a branch")
    if last.traits.ending is Ending.CALL:
        _enter(machine, group, last)
    elif last.traits.ending is Ending.RETURN and group.stack:
        caller, block = group.stack[-1][:2]
        results = [o.registers for o in caller.blocks[block].returns]
        given = [[r.index for r in p.registers] for p in group.plan.function.returns]
        _hand(machine, group, last, given, caller.name, results)


def _enter(machine: Machine, group: Group, call: Instruction) -> None:
    """Note the origins of undefined arguments of a function that is called by its name."""
    program = group.plan.kernel.program
    function = program.functions.get(program.aliases.get(call.callee, call.callee))
    if function is not None:
        given = [o.registers for o in call.operands[-1].parts]
        _hand(machine, group, call, given, function.name, [[r.index for r in p.registers] for p in function.params])


def _hand(
    machine: Machine, group: Group, last: Instruction, given: list[list[int]], name: str, taken: list[list[int]]
) -> None:
    """Note the origins of undefined registers that become registers of another function."""
    known = origins(machine)
    for sources, targets in zip(given, taken, strict=False):
        for source, target in zip(sources, targets, strict=False):
            if undefined(group, source) is not None:
                known.hand(name, target, known.read(machine, group, source, last))
