"""Steps of instructions that a warp or a warpgroup executes as one: operands as ``[n, 32, m]`` or ``[n, 128, m]``."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any, TypeAlias

import numpy as np

from warpsim.analysis.wgmma_order import moved, operand_registers
from warpsim.isa.ports import ReportPort
from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Allocation, Family, Stage
from warpsim.machine.asynchrony import wgmma
from warpsim.machine.binding.operand_slots import Argument, commit_of, guard_of, source_getter, value_getter
from warpsim.machine.binding.ports import PORTS, reporter
from warpsim.machine.collectives import split_by_guard
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.tensor import peers
from warpsim.machine.memory.tensor_allocation import Issuers, legal, place, refuse
from warpsim.machine.plan import ATTEND, FunctionPlan, Issue, Step, literal
from warpsim.machine.selection import Warps
from warpsim.machine.state.group import Group
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.values import Affine, Array, Value, as_array, repeated
from warpsim.program.program import Instruction, Operand

U32 = np.dtype(np.uint32)
Spread: TypeAlias = "Array | tuple[Spread, ...]"
"""An operand in warp view."""
Result: TypeAlias = "Array | tuple[Result, ...] | None"
"""What the body of a warp-wide instruction returns."""


def bind_warp(plan: FunctionPlan, instruction: Instruction) -> Step:
    """Bind an instruction of whole warps (or warpgroups), with operands as ``[n, 32, m]`` (``[n, 128, m]``)."""
    form, op, function = instruction.form, instruction.op, instruction.form.function
    wide = form.scope is Scope.WARPGROUP
    getters = [source_getter(plan, o) for o in instruction.inputs]
    constants = [_constant(o, wide=wide) for o in instruction.inputs]
    commit = commit_of(instruction)
    if "accumulator" in form.ports:
        accumulators = Accumulators(instruction.operands[0])
        read_accumulator, commit = accumulators.read, accumulators.write
    guard = guard_of(instruction)
    accumulates = "accumulator" in form.ports
    loads = not form.ports.isdisjoint(("memory", "tensor"))
    within = next((found for o in instruction.inputs if (found := plan.within(instruction, o)) is not None), None)

    def step(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        warps = group.warps
        arguments = [
            spread(warps, get(machine, group), wide=wide) if constant is None else constant
            for get, constant in zip(getters, constants, strict=True)
        ]
        keywords = warp_ports(machine, group, active, form)
        if within is not None:
            keywords["memory"].within = within  # type: ignore[attr-defined]
        if accumulates:
            keywords["accumulator"] = read_accumulator(machine, group)
        body = function if machine.bodies is None else machine.bodies.of(instruction)
        result = body(op, *arguments, **keywords)
        if commit is not None and result is not None:
            commit(machine, group, result if accumulates else collect(warps, result, wide=wide), active)
        if loads and machine.attention:
            machine.attention = False
            return ATTEND
        return None

    return step


def _constant(operand: Operand, *, wide: bool) -> Array | None:
    """An immediate in warp view."""
    if operand.constant is None or operand.negated:
        return None
    return repeated(as_array(literal(operand.constant, operand.type)), 128 if wide else 32)


def warp_ports(machine: Machine, group: Group, active: Array | None, form: Form) -> dict[str, object]:
    """The ports that a body of whole warps or warpgroups requests, except its accumulator."""
    warps, wide = group.warps, form.scope is Scope.WARPGROUP
    keywords = {
        p: PORTS[p](machine, group, None if p == "memory" else active)
        for p in form.ports
        if p not in ("active", "accumulator", "report")
    }
    if "active" in form.ports:
        keywords["active"] = _grouped(
            warps.active if active is None else warps.active & warps.spread(active), wide=wide
        )
    if "report" in form.ports:
        keywords["report"] = _reporter(warps, reporter(machine, group, active), wide=wide)
    return keywords


def _reporter(warps: Warps, report: ReportPort, *, wide: bool) -> ReportPort:
    """A reporter that takes lanes in warp view."""

    def collected(rule: str, message: str, lanes: Array | None = None, **more: Any) -> None:
        if lanes is not None:
            if wide:
                lanes = np.broadcast_to(lanes, (warps.n // 4, 128, warps.m)).reshape(warps.active.shape)
            lanes = warps.collect(np.broadcast_to(lanes, warps.active.shape))
        report(rule, message, lanes, **more)

    return collected


def spread(warps: Warps, value: Argument, *, wide: bool) -> Spread:
    """A group's operand in warp view (warpgroup view if ``wide``); an address with its offset added."""
    if type(value) is Affine:
        value = value.array()
    if type(value) is np.ndarray:
        if value.size == 1:
            return repeated(value, 128 if wide else 32)
        return _grouped(warps.spread(value), wide=True) if wide else warps.spread(value)
    if isinstance(value, Address):
        base = warps.spread(value.base)
        return _grouped(base if value.offset == 0 else base + np.array(value.offset).astype(base.dtype), wide=wide)
    if isinstance(value, tuple):
        return tuple([spread(warps, v, wide=wide) for v in value])
    return value


def _grouped(array: Array, *, wide: bool) -> Array:
    if not wide:
        return array
    n, _, m = array.shape
    if array.strides[1] == 0 and n == 1:
        return repeated(array[:, :1], 128) if m == 1 else np.broadcast_to(array[:, :1], (1, 128, m))
    return array.reshape(n // 4, 128, m)


def collect(warps: Warps, value: Result, *, wide: bool) -> Result:
    """Results in warp view (warpgroup view if ``wide``), converted to the group's shape."""
    if isinstance(value, tuple):
        return tuple([collect(warps, v, wide=wide) for v in value])
    if value is None:
        return None
    if wide:
        n, _, m = value.shape
        value = value[:, :32] if value.strides[1] == 0 else value.reshape(n * 4, 32, m)
    return warps.collect(value)


class Accumulators:
    """The accumulator registers of wgmma, all at once: from a group's environment to one stack, and back."""

    def __init__(self, operand: Operand) -> None:
        self.slots = operand.registers
        first, count = self.slots[0], len(self.slots)
        self.run = slice(first, first + count) if list(self.slots) == list(range(first, first + count)) else None

    def read(self, machine: Machine, group: Group) -> Array:
        """Bits ``[registers, n, 128, m]``."""
        stacked = group.stacked or group.stacked_before(self.slots)
        if stacked is not None:
            stack, rows = stacked
            if len(rows) == len(self.slots) and all(map(is_, self._values(group), rows)):
                return stack
        shape = group.selection.shape
        stack = np.empty((*shape[2:], len(self.slots), *shape[:2]), U32)  # those of a CTA side by side
        if len(shape) == 4:
            stack = stack.transpose(2, 3, 4, 0, 1)
        for row, slot in enumerate(self.slots):
            value = group.env[slot]
            value = as_array(group.fetch(slot) if value is None else value)
            if value.ndim != len(shape):
                value = value.reshape((1,) * len(shape))
            stack[row] = value if value.dtype is U32 else value.view(U32)
        return _in_warpgroups(group, stack)

    def _values(self, group: Group) -> Iterable[Value | None]:
        return map(group.env.__getitem__, self.slots) if self.run is None else group.env[self.run]

    def write(self, machine: Machine, group: Group, stack: Array, active: Array | None) -> None:
        """Commit them in the ``active`` threads."""
        rows = list(_in_group(group, stack))
        if active is not None:
            rows = [
                np.where(active, row, as_array(group.read(slot)).view(row.dtype))
                for slot, row in zip(self.slots, rows, strict=True)
            ]
        if self.run is not None:
            group.env[self.run] = rows
        else:
            for slot, row in zip(self.slots, rows, strict=True):
                group.env[slot] = row
        group.dirty.update(self.slots)
        group.stacked = (stack.view(U32), rows) if active is None else None


def _in_warpgroups(group: Group, stack: Array) -> Array:
    warps, count = group.warps, len(stack)
    if warps.dense:
        return stack.reshape(count, warps.n // 4, 128, warps.m)
    out = np.zeros((count, warps.n * 32), stack.dtype)
    out[:, warps.slots] = stack
    return out.reshape(count, warps.n // 4, 128, 1)


def _in_group(group: Group, stack: Array) -> Array:
    warps, shape = group.warps, group.selection.shape
    if warps.dense:
        return stack.reshape(len(stack), *shape)
    return stack.reshape(len(stack), -1)[:, warps.slots].reshape(len(stack), *shape)


def bind_wgmma(plan: FunctionPlan, instruction: Instruction, execute: Step) -> Step:
    """The step of a wgmma instruction; ``execute`` computes a product at once."""
    traits = instruction.traits
    if traits.is_async(Family.WGMMA, Stage.FENCE):
        return wgmma.fence
    if traits.is_async(Family.WGMMA, Stage.COMMIT):
        return wgmma.commit
    if traits.is_async(Family.WGMMA, Stage.WAIT):
        n = instruction.operands[0].constant or 0
        return lambda machine, group: wgmma.wait(machine, group, n)
    slots_d, slots_a = operand_registers(instruction)
    used = set(slots_d) | set(slots_a)
    reads = instruction.reads
    issue = plan.issues[id(instruction)] = Issue(
        instruction,
        str(instruction.op.shape),
        tuple(dict.fromkeys(slots_d)),
        tuple(dict.fromkeys(s for s in reads if s not in used)),
        np.array([plan.wgmma_rows[s] for s in slots_d], np.int64),
        np.array([plan.wgmma_rows[s] for s in slots_a], np.int64),
        execute,
    )

    def started(machine: Machine, group: Group) -> object:
        wgmma.start(machine, group, issue)
        if machine.attention:
            machine.attention = False
            return ATTEND
        return None

    return started


def watch_registers(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """Wrap the ``step`` of another instruction on registers of wgmma to check those in flight."""
    if instruction.form.scope is Scope.WARPGROUP:
        return step
    numbers = plan.wgmma_rows
    reads = np.array(sorted({numbers[s] for s in instruction.reads if s in numbers}), np.int64)
    writes = np.array(sorted({numbers[s] for s in instruction.writes if s in numbers}), np.int64)
    touched = [(rows, written) for rows, written in ((reads, False), (writes, True)) if rows.size]
    move = moved(instruction)
    renames = move is not None and all(slot in plan.wgmma_rows for part in move for slot in part)
    guard = instruction.guard

    def watched(machine: Machine, group: Group) -> object:
        if machine.batch.wgmma is None or (guard is not None and _skipped(group, guard[0].index, negated=guard[1])):
            return step(machine, group)
        if renames and wgmma.rename(machine, group, reads, writes):
            return step(machine, group)
        accessed = machine.hooks.wgmma_registers_accessed
        if accessed is not None:
            for rows, written in touched:
                accessed(machine, group, rows, written)
        return step(machine, group)

    return watched


def _skipped(group: Group, slot: int, *, negated: bool) -> bool:
    """Whether no thread of the group passes a guard."""
    value = as_array(group.read(slot)).view(np.bool_)
    return not (~value if negated else value).any()


def bind_allocation(plan: FunctionPlan, instruction: Instruction, execute: Step) -> Step:
    """Put what waits for columns of tensor memory, or for a warp of the other CTA of a pair, before ``execute``. As a CTA has all
    columns to itself, it waits for its own warps only."""
    pair = "cta_group::2" in instruction.op.modifiers
    allocates = instruction.traits.allocation is Allocation.ALLOCATE
    columns = value_getter(plan, instruction.operands[1])
    guard = guard_of(instruction)

    def step(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        memory, warps = machine.batch.tensor_memory(), Issuers(machine, group, active)
        ready: Array = np.ones(len(warps.ctas), np.bool_)
        if allocates:
            asked = warps.of(columns(machine, group))
            ready = ~legal(asked) | (place(memory.owner.copy(), warps, asked) >= 0)
        if pair:
            ready &= _met(machine, group, memory, warps, instruction, ready)
        if ready.all():
            memory.admitted[warps.ctas] = False
            return execute(machine, group)
        if active is not None:
            return split_by_guard(machine, group, active)
        machine.count_entry(group, -1)
        if ready.any():
            goes, group = machine.divide(group, warps.lanes(ready))
            machine.push(goes)
        memory.waiting.append(group)
        return True

    return step


def _met(
    machine: Machine, group: Group, memory: TensorMemory, warps: Issuers, instruction: Instruction, ready: Array
) -> Array:
    """A mask of the warps whose pair of CTAs has met. Where that is so now, the others that wait for it try again."""
    ctas = warps.ctas
    other = peers(machine, ctas)
    alone = other < 0
    if alone.any():
        refuse(
            machine,
            group,
            warps.lanes(alone),
            f"{instruction.text} needs the other CTA of a pair, and this one's cluster has none",
            "launch clusters of an even number of CTAs, or use .cta_group::1",
        )
    here: Array = np.zeros(len(memory.owner), np.bool_)
    here[ctas[ready]] = True
    waiting = [g for g in memory.waiting if g.instruction.op.text == instruction.op.text]
    for group_there in waiting:
        here[group_there.selection.ctas.reshape(-1)] = True
    met = alone | here[other] | memory.admitted[ctas]
    wakes = met & ~alone & ~memory.admitted[ctas] & ready
    memory.admitted[other[wakes]] = True
    if wakes.any() and waiting:
        memory.waiting = [g for g in memory.waiting if not any(g is w for w in waiting)]
        for group_there in waiting:
            machine.push(group_there)
    return np.asarray(met)
