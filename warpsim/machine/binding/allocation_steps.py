"""Steps that allocate tensor memory: they wait for free columns, and those for a pair of CTAs for a warp of the other CTA.

As a CTA has all columns to itself, it waits for its own warps only.
"""

from __future__ import annotations

import numpy as np

from warpsim.isa.traits import Allocation
from warpsim.machine.binding.operand_slots import guard_of, value_getter
from warpsim.machine.collectives import split_by_guard
from warpsim.machine.machine import Machine
from warpsim.machine.memory.tensor import peers
from warpsim.machine.memory.tensor_allocation import Warps, legal, place, refuse
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.values import Array
from warpsim.program.program import Instruction


def bind_allocation(plan: FunctionPlan, instruction: Instruction, execute: Step) -> Step:
    """Put what waits for columns, or for the other CTA of a pair, before ``execute``."""
    pair = "cta_group::2" in instruction.op.modifiers
    allocates = instruction.traits.allocation is Allocation.ALLOCATE
    columns = value_getter(plan, instruction.operands[1])
    guard = guard_of(instruction)

    def step(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        memory, warps = machine.batch.tensor_memory(), Warps(machine, group, active)
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
    machine: Machine, group: Group, memory: TensorMemory, warps: Warps, instruction: Instruction, ready: Array
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
