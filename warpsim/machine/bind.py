"""Binding: each typed instruction becomes a closure over slots that fetches, computes and commits.

Semantics come from ``form.function``; here is everything around them: reading registers as the operand's type,
guards, extension to wider registers, ports, and the warp view. Nothing is looked up by name while running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.errors import InternalError
from warpsim.isa.data_movement import Unpacked
from warpsim.isa.spec import Scope
from warpsim.machine.accumulators import bind_accumulators
from warpsim.machine.control import bind_end, bind_sync
from warpsim.machine.flow import ENDS, KEEP, Block, blocks_of, reads_and_writes
from warpsim.machine.gate import bind_gate
from warpsim.machine.group import Group
from warpsim.machine.plan import BoundBlock, FunctionPlan, Step, literal, mark_waits
from warpsim.machine.proxies import bind_proxies
from warpsim.machine.shadows import commit_loaded, loaded
from warpsim.machine.values import FLAT, Affine, Array, NotAffine, as_array, extend, retype
from warpsim.machine.warpgroups import SharedMatrix
from warpsim.machine.wgmma_steps import bind_wgmma, rows_of, watch_registers
from warpsim.machine.wmma_provenance import mismatches, watch_fragments
from warpsim.program.program import (
    Addr,
    Discard,
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
from warpsim.types import TYPES, StateSpace

Getter = Callable[[Group], Any]
U64 = np.dtype(np.uint64)
U32 = np.dtype(np.uint32)
VOLATILE = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})


def bind_function(plan: FunctionPlan) -> None:
    """Make the steps of a function."""
    blocks, plan.place_of = blocks_of(plan.function)
    plan.wgmma_rows = rows_of(plan.function)
    wrong = mismatches(plan.function, blocks)
    mark_waits(plan.function, blocks)
    code = plan.function.code
    for block in blocks:
        bound = BoundBlock(block, code[block.first : block.last])
        plan.blocks.append(bound)
    for block, bound in zip(blocks, plan.blocks, strict=True):
        following = plan.place_of.get(block.last)
        body = bound.instructions
        if body and body[-1].form.root in ENDS:
            bound.end = bind_end(plan, body[-1], bound, following)
            body = body[:-1]
        else:
            bound.end = _fall(following)
        unread = _unread(plan, block, body)
        for number, instruction in enumerate(body):
            step = bind_proxies(plan, instruction, bind_step(plan, instruction, number in unread))
            step = watch_fragments(wrong.get(block.first + number), step)
            bound.steps.append(watch_registers(plan, instruction, step))


def _unread(plan: FunctionPlan, block: Block, body: tuple[Instruction, ...]) -> set[int]:
    """Instructions of a block whose results nobody reads."""
    live: set[int] = set() if block.successors or KEEP not in plan.function.directives else set(range(plan.n_registers))
    for successor in block.successors:
        live |= plan.blocks[successor].live_in
    if len(body) < block.last - block.first:
        live |= set(reads_and_writes(plan.function.code[block.last - 1])[0])
    found = set()
    for number in range(len(body) - 1, -1, -1):
        reads, writes = reads_and_writes(body[number])
        if writes and not any(w in live for w in writes):
            found.add(number)
        if body[number].guard is None:
            live -= set(writes)
        live |= set(reads)
    return found


def _fall(following: int | None) -> Callable[[Group], int | None]:
    def end(group: Group) -> int | None:
        if following is None:
            group.batch.launch.finish(group)
        return following

    return end


# ---- operands -----------------------------------------------------------------------------------


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
    symbol = operand.symbol
    dtype = operand.type.dtype if operand.type.dtype.kind in "iu" else np.dtype(f"u{operand.type.dtype.itemsize}")
    if isinstance(symbol, Param):
        if plan.function.entry:
            return plan.special(f"param+{symbol.offset + operand.offset}:{dtype.itemsize}")
        return plan.special(f"frame+{plan.offset(symbol) + operand.offset}:{dtype.itemsize}")
    if isinstance(symbol, Variable) and symbol.space in (StateSpace.LOCAL, StateSpace.PARAM):
        return plan.special(f"frame+{plan.offset(symbol) + operand.offset}:{dtype.itemsize}")
    return plan.constant(Affine.constant(plan.kernel.address(symbol) + operand.offset, dtype))


def value_getter(plan: FunctionPlan, operand: Operand, linear: bool = False) -> Getter:
    """A closure that gives an operand as an array of its type (or affine where ``linear``)."""
    if isinstance(operand, Special) and operand.name in VOLATILE:
        dtype, name = operand.type.dtype, operand.name
        return lambda group: (
            Affine.constant(group.batch.launch.clock(name), dtype)
            if linear
            else np.array([group.batch.launch.clock(name)], np.uint64).astype(dtype)
        )
    if isinstance(operand, SymbolAddress) and _in_frame(plan, operand):
        return _frame_getter(plan, operand, linear)
    slot = slot_of(plan, operand)
    dtype = operand.type.dtype  # type: ignore[union-attr]
    negated = isinstance(operand, Reg) and operand.negated

    def get(group: Group) -> Any:
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


def _in_frame(plan: FunctionPlan, operand: SymbolAddress) -> bool:
    symbol = operand.symbol
    if isinstance(symbol, Param):
        return not plan.function.entry
    return isinstance(symbol, Variable) and symbol.space in (StateSpace.LOCAL, StateSpace.PARAM)


def _frame_getter(plan: FunctionPlan, operand: SymbolAddress, linear: bool) -> Getter:
    offset = plan.offset(operand.symbol) + operand.offset  # type: ignore[arg-type]
    dtype = operand.type.dtype

    def get(group: Group) -> Any:
        value = Affine.constant(group.local_base + offset, dtype)
        return value if linear else value.array()

    return get


def address_getter(plan: FunctionPlan, operand: Addr) -> Getter:
    """A closure that gives ``(base, offset)`` as the memory port takes it."""
    base, offset = operand.base, operand.offset
    if base is None:
        pair = (Affine.constant(0, U64), offset)
        return lambda group: pair
    if isinstance(base, Reg):
        slot, dtype = base.register.index, (U64 if base.register.type.bits == 64 else U32)

        def get(group: Group) -> Any:
            value = group.env[slot]
            if value is None:
                value = group.need(slot, "an address")
            if type(value) is not Affine:
                if value.dtype is not dtype:
                    value = value.view(dtype)
                if value.size == 1:
                    value = Affine.constant(int(value.reshape(-1)[0]), dtype)
            elif value.dtype is not dtype:
                value = value.view(dtype)
            return value, offset

        return get
    if isinstance(base, Param) and plan.function.entry:
        at = base.offset + offset
        return lambda group: (Affine.constant(group.batch.launch.param_address + at, U64), 0)
    if isinstance(base, Param) or base.space in (StateSpace.LOCAL, StateSpace.PARAM):
        at = plan.offset(base) + offset
        return lambda group: (Affine.constant(group.local_base + at, U64), 0)
    fixed = (Affine.constant(plan.kernel.address(base), U64), offset)
    return lambda group: fixed


def source_getter(plan: FunctionPlan, operand: Operand, linear: bool = False) -> Getter:
    """A closure for any source operand."""
    if isinstance(operand, Addr):
        get_address = address_getter(plan, operand)
        if not operand.coordinates:
            return get_address
        rest = [source_getter(plan, c) for c in operand.coordinates]
        return lambda group: (*get_address(group), tuple([g(group) for g in rest]))
    if isinstance(operand, Vec):
        parts = [source_getter(plan, e) for e in operand.elements]
        return lambda group: tuple([g(group) for g in parts])
    if isinstance(operand, (Reg, Imm, Special, SymbolAddress, FunctionRef)):
        return value_getter(plan, operand, linear)
    return lambda group: operand


# ---- destinations -------------------------------------------------------------------------------

Setter = Callable[[Group, Any, Any], None]


def destination(operand: Operand) -> Setter:
    """A closure that commits a result to a destination: ``set(group, value, active or None)``."""
    if isinstance(operand, Vec):
        parts = [destination(e) for e in operand.elements]

        def set_all(group: Group, value: Any, active: Any) -> None:
            if isinstance(value, Unpacked):
                value = value.parts(len(parts))
            for part, element in zip(parts, value, strict=True):
                if element is not None:
                    part(group, element, active)

        return set_all
    if not isinstance(operand, Reg):
        return lambda group, value, active: None
    slot, width, signed = operand.register.index, operand.register.type.dtype.itemsize, operand.type.signed
    read_dtype = operand.register.type.dtype

    def set_one(group: Group, value: Any, active: Any) -> None:
        if type(value) is not Affine and value.dtype.itemsize != width:
            value = (
                extend(value, signed, width) if value.dtype.itemsize < width else retype(value, np.dtype(f"u{width}"))
            )
        elif type(value) is Affine and value.dtype.itemsize != width:
            value = extend(value.array(), signed, width)
        if active is not None:
            value = as_array(value)
            old = as_array(group.read(slot))
            if old.dtype != value.dtype:
                old = old.view(value.dtype) if old.dtype.itemsize == width else old.view(read_dtype).astype(value.dtype)
            value = np.where(active, value, old)
        group.env[slot] = value
        group.dirty.add(slot)

    return set_one


def commit_of(instruction: Instruction) -> Setter | None:
    """A closure that commits everything a body returned."""
    setters = [destination(o) for o in instruction.operands[: instruction.form.n_dest]]
    if not setters:
        return None
    if len(setters) == 1:
        return setters[0]

    def commit(group: Group, value: Any, active: Any) -> None:
        for setter, part in zip(setters, value, strict=True):
            if part is not None:
                setter(group, part, active)

    return commit


# ---- steps --------------------------------------------------------------------------------------


def bind_step(plan: FunctionPlan, instruction: Instruction, unread: bool = False) -> Step:
    """The closure of one instruction."""
    form = instruction.form
    if form.scope is Scope.THREAD:
        special = _bind_special_case(plan, instruction)
        if special is not None:
            return special
        step = _bind_plain(plan, instruction) or _bind_thread(plan, instruction, unread)
        if form.root in ("wmma", "tensormap"):
            step = bind_gate(plan, instruction, step)
    elif form.root == "wgmma":
        step = bind_gate(plan, instruction, bind_wgmma(plan, instruction, _bind_warp(plan, instruction)))
    elif form.scope in (Scope.WARP, Scope.WARPGROUP):
        step = bind_gate(plan, instruction, _bind_warp(plan, instruction))
    else:
        step = bind_sync(plan, instruction)
    return step


def _bind_special_case(plan: FunctionPlan, instruction: Instruction) -> Step | None:
    """Loads of kernel parameters by name: constants of the launch."""
    form = instruction.form
    if form.root != "ld" or instruction.guard is not None or not plan.function.entry:
        return None
    address = instruction.operands[form.n_dest]
    if not (isinstance(address, Addr) and isinstance(address.base, Param)):
        return None
    offset = address.base.offset + address.offset
    target = instruction.operands[0]
    regs = target.elements if isinstance(target, Vec) else (target,)
    setters = [destination(r) for r in regs]
    types = [getattr(r, "type", None) for r in regs]
    first = next(t for t in types if t is not None)

    def step(group: Group) -> None:
        for k, setter in enumerate(setters):
            setter(group, group.batch.launch.param(offset + k * first.bytes, first), None)

    return step


def guard_of(plan: FunctionPlan, instruction: Instruction) -> Callable[[Group], Any]:
    """A closure that gives None (all lanes), False (no lane) or the mask of the lanes that execute."""
    assert instruction.guard is not None
    register, negated = instruction.guard
    slot = register.index

    def active(group: Group) -> Any:
        value = group.env[slot]
        if value is None:
            value = group.fetch(slot)
        if value.size == 1:
            return None if bool(value.reshape(-1)[0]) != negated else False
        mask = ~value if negated else value
        if mask.all():
            return None
        return mask if mask.any() else False

    return active


def _bind_plain(plan: FunctionPlan, instruction: Instruction) -> Step | None:
    """The common case: registers in, one register out, no ports, no guard."""
    form, op = instruction.form, instruction.op
    if form.ports or instruction.guard is not None or form.n_dest != 1:
        return None
    target, sources = instruction.operands[0], instruction.operands[1:]
    if not isinstance(target, Reg) or not 1 <= len(sources) <= 3:
        return None
    if not all(isinstance(s, (Reg, Imm, Special, SymbolAddress)) for s in sources):
        return None
    if any(
        (isinstance(s, Reg) and s.negated)
        or (isinstance(s, Special) and s.name in VOLATILE)
        or (isinstance(s, SymbolAddress) and _in_frame(plan, s))
        for s in sources
    ):
        return None
    slots = [slot_of(plan, s) for s in sources]
    dtypes = [s.type.dtype for s in sources]  # type: ignore[union-attr]
    d, width, signed = target.register.index, target.register.type.dtype.itemsize, target.type.signed
    function, linear = form.function, form.linear
    pairs = list(zip(slots, dtypes, strict=True))

    def step(group: Group) -> None:
        env = group.env
        values = []
        affine = linear
        for slot, dtype in pairs:
            value = env[slot]
            if value is None:
                value = group.fetch(slot)
            if type(value) is not Affine:
                if value.dtype is not dtype and value.dtype != dtype:
                    value = retype(value, dtype)
                if affine and value.size > 1:
                    affine = False
            values.append(value)
        if affine:
            try:
                result = function(op, *[_lift(v, dtype) for v, (_, dtype) in zip(values, pairs, strict=True)])
            except NotAffine:
                pass
            else:
                if result.dtype.itemsize != width:
                    result = (
                        extend(result.array(), signed, width)
                        if result.dtype.itemsize < width
                        else result.astype(f"u{width}")
                    )
                env[d] = result
                group.dirty.add(d)
                return
        for k, value in enumerate(values):
            if type(value) is Affine:
                array = value.array()
                dtype = dtypes[k]
                values[k] = array if array.dtype is dtype else retype(array, dtype)
        result = function(op, *values)
        if result.dtype.itemsize != width:
            result = (
                extend(result, signed, width)
                if result.dtype.itemsize < width
                else retype(result, np.dtype(f"u{width}"))
            )
        env[d] = result
        group.dirty.add(d)

    return step


def _lift(value: Any, dtype: np.dtype[Any]) -> Affine:
    """A value as affine of a type; arrays of one integer become uniform."""
    if type(value) is Affine:
        return value.view(dtype)
    if dtype.kind not in "iu" or dtype.itemsize > 8:
        raise NotAffine
    return Affine.constant(int(value.reshape(-1)[0]), dtype)


def _bind_thread(plan: FunctionPlan, instruction: Instruction, unread: bool) -> Step:
    """Any element-wise instruction, with ports and guards."""
    form, op, function = instruction.form, instruction.op, instruction.form.function
    linear = form.linear and instruction.guard is None
    getters = [source_getter(plan, o, linear) for o in instruction.operands[form.n_dest :]]
    if form.root == "st" and "global" in op.text.split("."):
        getters = [_needed(g, o) for g, o in zip(getters, instruction.operands, strict=True)]
    commit = commit_of(instruction)
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    ports = tuple(sorted(form.ports))
    loads = "memory" in ports

    def step(group: Group) -> object:
        active = None
        if guard is not None:
            active = guard(group)
            if active is False:
                return None
        batch = group.batch
        memory = batch.memory
        memory.group = group
        memory.active = active
        memory.unused = unread
        memory.undefined = False
        arguments = [get(group) for get in getters]
        if ports:
            result = function(op, *arguments, **{p: port(batch, p, group, active) for p in ports})
        elif linear:
            try:
                result = function(op, *arguments)
            except NotAffine:
                result = function(op, *[as_array(a) for a in arguments])
        else:
            result = function(op, *arguments)
        if commit is not None and result is not None:
            commit(group, result, active)
        if loads and memory.undefined:
            bits = loaded(group, instruction, arguments, {p: port(batch, p, group, active) for p in ports})
            return None if commit is None or bits is None else commit_loaded(group, commit, instruction, bits, active)
        return None

    return step


def _needed(get: Getter, operand: Operand) -> Getter:
    """A getter of a value that leaves the thread: its registers must have been written."""
    parts = operand.elements if isinstance(operand, Vec) else (operand,)
    slots = [o.register.index for o in parts if isinstance(o, Reg)]

    def checked(group: Group) -> Any:
        for slot in slots:
            if group.env[slot] is None:
                group.need(slot, "the value of a store to global memory")
        return get(group)

    return checked


def port(batch: Any, name: str, group: Group, active: Any) -> Any:
    """A port of the batch, or the lanes that take part."""
    if name == "active":
        shape = group.selection.shape
        return np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
    if name == "lane":
        lane: Array = (group.selection.threads & 31).astype(np.int64)
        return lane
    if name == "report":
        return lambda rule, message, lanes=None, **more: batch.launch.report(batch, rule, message, group, lanes, more)
    if name == "shared_matrix":
        return SharedMatrix(group)
    return batch.ports[name]


def _bind_warp(plan: FunctionPlan, instruction: Instruction) -> Step:
    """An instruction of whole warps (or warpgroups): operands as ``[n, 32, m]`` (``[n, 128, m]``)."""
    form, op, function = instruction.form, instruction.op, instruction.form.function
    wide = form.scope is Scope.WARPGROUP
    getters = [source_getter(plan, o) for o in instruction.operands[form.n_dest :]]
    commit = commit_of(instruction)
    if "accumulator" in form.ports:
        read_accumulator, commit = bind_accumulators(instruction.operands[0])
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    ports = tuple(sorted(form.ports - {"active", "accumulator"}))
    wants_active = "active" in form.ports
    accumulates = "accumulator" in form.ports
    reports = "report" in ports and not wide

    def reporter(warps: Any, report: Any) -> Any:
        """Lanes come in warp view."""

        def collected(rule: str, message: str, lanes: Any = None, **more: Any) -> None:
            if lanes is not None:
                lanes = warps.collect(np.broadcast_to(lanes, warps.active.shape))
            report(rule, message, lanes, **more)

        return collected

    def spread(warps: Any, value: Any) -> Any:
        if isinstance(value, tuple):
            if len(value) >= 2 and isinstance(value[1], int) and not isinstance(value[0], (tuple, int)):
                base = warps.spread(value[0])
                lifted = base if value[1] == 0 else base + np.array(value[1]).astype(base.dtype)
                rest = tuple([spread(warps, v) for v in value[2:]])
                return (grouped(lifted), *rest) if rest else grouped(lifted)
            return tuple([spread(warps, v) for v in value])
        if isinstance(value, (np.ndarray, Affine)):
            return grouped(warps.spread(value))
        return value

    def grouped(array: Array) -> Array:
        if not wide:
            return array
        n, _, m = array.shape
        if array.strides[1] == 0 and n == 1:
            return np.broadcast_to(array[:, :1], (1, 128, m))
        return array.reshape(n // 4, 128, m)

    def collect(warps: Any, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([collect(warps, v) for v in value])
        if value is None:
            return None
        if wide:
            n, _, m = value.shape
            value = value[:, :32] if value.strides[1] == 0 else value.reshape(n * 4, 32, m)
        return warps.collect(value)

    def step(group: Group) -> object:
        active = None
        if guard is not None:
            active = guard(group)
            if active is False:
                return None
        batch = group.batch
        batch.memory.group = group
        batch.memory.active = None
        batch.memory.undefined = False
        warps = group.warps
        arguments = [spread(warps, get(group)) for get in getters]
        keywords = {p: port(batch, p, group, active) for p in ports}
        if wants_active:
            mask = warps.active if active is None else warps.active & warps.spread(active)
            keywords["active"] = grouped(mask)
        if reports:
            keywords["report"] = reporter(warps, keywords["report"])
        if accumulates:
            keywords["accumulator"] = read_accumulator(group)
        result = function(op, *arguments, **keywords)
        if commit is not None and result is not None:
            commit(group, result if accumulates else collect(warps, result), active)
        if batch.memory.undefined:
            bits = loaded(group, instruction, arguments, keywords)
            if commit is not None and bits is not None:
                return commit_loaded(group, commit, instruction, (collect(warps, bits[0]), None), active)
        return None

    return step


__all__ = ["FLAT", "TYPES", "Discard", "bind_function", "bind_step"]
