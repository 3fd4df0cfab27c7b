"""Binding of wgmma instructions, and of other instructions that use their registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.analysis.wgmma_order import moved, operand_registers
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family, Stage
from warpsim.machine.asynchrony import wgmma
from warpsim.machine.issue import Issue
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


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
    return lambda machine, group: wgmma.start(machine, group, issue)


def watch_registers(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """Wrap another instruction's ``step`` to check the wgmma in flight, if it uses their registers."""
    if instruction.form.scope is Scope.WARPGROUP:
        return step
    reads, writes = (
        np.array(sorted({plan.wgmma_rows[s] for s in slots if s in plan.wgmma_rows}), np.int64)
        for slots in (instruction.reads, instruction.writes)
    )
    if not (len(reads) or len(writes)):
        return step

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
            for rows, written in ((reads, False), (writes, True)):
                if len(rows):
                    accessed(machine, group, rows, written)
        return step(machine, group)

    return watched


def _skipped(group: Group, slot: int, *, negated: bool) -> bool:
    """Whether no thread of the group passes a guard."""
    value = as_array(group.read(slot)).view(np.bool_)
    return not (~value if negated else value).any()
