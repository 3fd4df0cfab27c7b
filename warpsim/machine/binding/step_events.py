"""Steps that report events: fences, and, for launches whose watchers ask for it, the registers read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.isa.traits import Ending
from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.plan import ATTEND, BoundBlock, End, Step
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def with_register_events(block: BoundBlock) -> tuple[list[Step], End]:
    """The steps of a block, and its end, with the events around them."""
    steps = [_step(step, i) for step, i in zip(block.steps, block.instructions, strict=False)]
    if len(block.steps) == len(block.instructions):
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
