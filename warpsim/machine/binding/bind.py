"""Binding: turns each typed instruction into a closure over slots that fetches, computes and commits.

The meaning comes from ``form.function``; everything around it (registers, guards, ports, the warp view) is in
``operand_slots``, ``thread_steps`` and ``warp_steps``. Nothing is looked up by name at run time.
"""

from __future__ import annotations

from warpsim.analysis.flow import KEEP, Block, blocks_of, returned_by, used_registers
from warpsim.analysis.wgmma_order import wgmma_registers
from warpsim.isa.spec import Scope
from warpsim.machine.barriers import bind_sync
from warpsim.machine.binding.access_steps import bind_access
from warpsim.machine.binding.step_events import with_fence_event
from warpsim.machine.binding.thread_steps import bind_parameter_load, bind_plain, bind_thread
from warpsim.machine.binding.warp_steps import bind_warp
from warpsim.machine.binding.wgmma_steps import bind_wgmma, watch_registers
from warpsim.machine.control import bind_end, jump
from warpsim.machine.gate import bind_gate
from warpsim.machine.plan import BoundBlock, FunctionPlan, Step, mark_waits
from warpsim.program.program import Instruction


def bind_function(plan: FunctionPlan) -> None:
    """Bind the steps of a function."""
    blocks, plan.place_of = blocks_of(plan.function)
    plan.wgmma_rows = {slot: row for row, slot in enumerate(wgmma_registers(plan.function, blocks))}
    plan.flow = blocks
    used = used_registers(plan.function)
    plan.unread = frozenset().union(*(_unread(plan, blocks, block, used) for block in blocks))
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
        for number, instruction in enumerate(body, block.first):
            step = bind_step(plan, instruction, unread=number in plan.unread)
            if instruction.traits.fence is not None:
                step = with_fence_event(instruction, step)
            if plan.wgmma_rows:
                step = watch_registers(plan, instruction, step)
            bound.steps.append(step)


def _unread(plan: FunctionPlan, blocks: list[Block], block: Block, used: frozenset[int]) -> set[int]:
    """Instructions of a block, by index in the function, whose results are never read."""
    live: set[int] = set() if block.successors or KEEP not in plan.function.directives else set(range(plan.n_registers))
    for successor in block.successors:
        live |= blocks[successor].live_in
    live |= set(returned_by(plan.function))
    found = set()
    for at in range(block.last - 1, block.first - 1, -1):
        instruction = plan.function.code[at]
        reads, writes = instruction.reads, instruction.writes
        if instruction.form.n_dest and (live.isdisjoint(writes) or used.isdisjoint(writes)):
            found.add(at)
        if instruction.guard is None:
            live.difference_update(writes)
        live.update(reads)
    return found


def bind_step(plan: FunctionPlan, instruction: Instruction, *, unread: bool = False) -> Step:
    """Bind one instruction."""
    form = instruction.form
    if form.scope is Scope.THREAD:
        step = (
            bind_plain(plan, instruction)
            or bind_parameter_load(plan, instruction)
            or bind_access(plan, instruction, bind_thread(plan, instruction, unread=unread))
        )
        if instruction.traits.synchronises:
            step = bind_gate(plan, instruction, step)
    elif form.scope is Scope.WARPGROUP:
        step = bind_gate(plan, instruction, bind_wgmma(plan, instruction, bind_warp(plan, instruction)))
    elif form.scope is Scope.WARP:
        step = bind_gate(plan, instruction, bind_warp(plan, instruction))
    else:
        step = bind_sync(plan, instruction)
    return step
