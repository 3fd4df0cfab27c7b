"""Binding: turns each typed instruction into a closure over slots that fetches, computes and commits.

The meaning comes from ``form.function``; everything around it (registers, guards, ports, the warp view) is in
``operand_slots``, ``thread_steps`` and ``warp_steps``. Nothing is looked up by name at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from warpsim.analysis.flow import blocks_of, unread
from warpsim.analysis.wgmma_order import wgmma_registers
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Ending
from warpsim.machine.barriers import bind_sync
from warpsim.machine.binding.operand_slots import guard_of, place_operands
from warpsim.machine.binding.rows import in_rows
from warpsim.machine.binding.thread_steps import bind_access, bind_parameter_load, bind_plain, bind_thread
from warpsim.machine.binding.warp_steps import bind_allocation, bind_warp, bind_wgmma, watch_registers
from warpsim.machine.binding.wgmma_chains import chain_products
from warpsim.machine.collectives import bind_gate
from warpsim.machine.control import bind_end, jump
from warpsim.machine.machine import Machine
from warpsim.machine.plan import ATTEND, BoundBlock, End, FunctionPlan, Step, mark_waits
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction
from warpsim.program.stored import derived

Wrapper: TypeAlias = "Callable[[Group, Instruction, Step, Step], Step]"


def with_register_events(block: BoundBlock, group: Group, wrapped: Wrapper | None) -> tuple[list[Step], End]:
    """The steps of a block, and its end, with the events around them, unless a watcher has ``wrapped`` them itself."""
    pairs = list(zip(block.steps, block.instructions, strict=False))
    steps = [_step(step, i) for step, i in pairs]
    if wrapped is not None:
        steps = [wrapped(group, i, step, usual) for (step, i), usual in zip(pairs, steps, strict=True)]
    if block.n_steps == len(block.instructions):
        return steps, block.end
    return steps, _end(block.end, block.instructions[-1])


def _registers(instruction: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The registers that it reads and writes; destinations that a guard may preserve count as written only."""
    reads, writes = instruction.reads, instruction.writes
    if instruction.guard is not None and writes:
        reads = reads[: -len(writes)]
    return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


def _step(step: Step, instruction: Instruction) -> Step:
    reads, writes = _registers(instruction)

    def reporting(machine: Machine, group: Group) -> object:
        hooks = machine.hooks
        if reads and hooks.registers_read is not None:
            hooks.registers_read(machine, group, reads)
        suspended = step(machine, group)
        if writes and hooks.registers_written is not None and (not suspended or suspended is ATTEND):
            hooks.registers_written(machine, group, writes)
        return suspended

    return reporting if reads or writes else step


def _end(end: End, instruction: Instruction) -> End:
    """Wrap a block's end: it writes no register, and the results of a call are reported when it returns."""
    reads = _registers(instruction)[0]
    if instruction.traits.ending is Ending.RETURN or not reads:
        return end

    def reporting(machine: Machine, group: Group) -> int | None:
        if machine.hooks.registers_read is not None:
            machine.hooks.registers_read(machine, group, reads)
        return end(machine, group)

    return reporting


def with_fence_event(instruction: Instruction, step: Step) -> Step:
    """A fence's ``step``, which changes no value, with its event."""
    guard = guard_of(instruction)

    def reporting(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        suspended = step(machine, group)
        if machine.hooks.fence is not None and active is not False and not suspended:
            machine.hooks.fence(machine, group, instruction, active)
        return suspended

    return reporting


def bind_function(plan: FunctionPlan) -> None:
    """Bind a function: the steps of a block are made when it first runs."""
    blocks, plan.place_of = blocks_of(plan.function)
    plan.flow = blocks
    slots, plan.on_wgmma_rows = derived(plan.function, "wgmma", lambda: wgmma_registers(plan.function, blocks))
    plan.unread = derived(plan.function, "unread", lambda: unread(plan.function, blocks))
    plan.wgmma_rows = {slot: row for row, slot in enumerate(slots)}
    mark_waits(plan, blocks)
    code = plan.function.code
    for block in blocks:
        plan.blocks.append(BoundBlock(plan.name, block, code[block.first : block.last]))
    for block, bound in zip(blocks, plan.blocks, strict=True):
        following = plan.place_of.get(block.last)
        body = bound.instructions
        if body and body[-1].traits.ending is not None:
            bound.end = bind_end(plan, body[-1], bound, following)
            body = body[:-1]
        else:
            bound.end = jump(following)
        for instruction in body:
            place_operands(plan, instruction)
        bound.bind_when_run(len(body), partial(_steps, plan, block.first, body), partial(in_rows, plan, body))


def _steps(plan: FunctionPlan, first: int, body: tuple[Instruction, ...]) -> list[Step]:
    """The steps of instructions, the first of which stands at a place of the function."""
    slots, issues, steps = len(plan.extras), len(plan.issues), []
    for number, instruction in enumerate(body, first):
        step = bind_step(plan, instruction, unread=number in plan.unread)
        if instruction.traits.fence is not None:
            step = with_fence_event(instruction, step)
        if number in plan.on_wgmma_rows:
            step = watch_registers(plan, instruction, step)
        steps.append(step)
    if len(plan.issues) > issues + 1:
        chain_products(plan, body, steps)
    assert len(plan.extras) == slots, "operands have their slots before a launch"
    return steps


def bind_step(plan: FunctionPlan, instruction: Instruction, *, unread: bool = False) -> Step:
    """Bind one instruction."""
    form = instruction.form
    if form.scope is Scope.THREAD:
        step = (
            bind_plain(plan, instruction)
            or bind_parameter_load(plan, instruction)
            or bind_access(plan, instruction, bind_thread(plan, instruction, unread=unread))
        )
        if instruction.traits.allocation is not None:
            step = bind_allocation(plan, instruction, step)
        if instruction.traits.synchronises:
            step = bind_gate(plan, instruction, step)
    elif form.scope is Scope.WARPGROUP:
        step = bind_gate(plan, instruction, bind_wgmma(plan, instruction, bind_warp(plan, instruction)))
    elif form.scope is Scope.WARP:
        step = bind_gate(plan, instruction, bind_warp(plan, instruction))
    else:
        step = bind_sync(plan, instruction)
    return step
