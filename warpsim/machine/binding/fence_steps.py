"""Fences: they change no value here, and are only reported to the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def bind_fence(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """Wrap a fence's ``step`` so that it is reported to the hooks."""
    guard = guard_of(plan, instruction) if instruction.guard is not None else None

    def told(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        suspended = step(machine, group)
        if machine.hooks.fence is not None and active is not False and not suspended:
            machine.hooks.fence(machine, group, instruction, active)
        return suspended

    return told
