"""Shared memory that is written while a wgmma in flight reads it: what the product computes from it is undefined."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.checks.undefined_bits import transfer_of
from warpsim.checks.undefined_memory import muted
from warpsim.checks.undefined_products import Unfinished, without
from warpsim.checks.undefined_registers import origins, put, together, undefined
from warpsim.checks.written import WrittenBits
from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.selection import Selection
from warpsim.machine.state.group import Group, Stack
from warpsim.machine.values import Array, Value
from warpsim.program.program import Instruction
from warpsim.records import frozen


@frozen(eq=False)
class Issued:
    """A wgmma in flight: its threads, where they stood, and the ``operands`` by which it finds its matrices."""

    instruction: Instruction
    selection: Selection
    plan: FunctionPlan
    place: tuple[Stack, int, int, int, int]
    operands: dict[int, Value]

    @classmethod
    def of(cls, group: Group, instruction: Instruction, slots: tuple[int, ...]) -> Issued:
        """The one that a group starts, whose operands but A stand in these slots."""
        place = group.stack, group.block, group.at, group.local_base, group.generation
        env = group.env
        operands = {slot: group.fetch(slot) if (value := env[slot]) is None else value for slot in slots}
        return cls(instruction, group.selection, group.plan, place, operands)

    def linked(self, instruction: Instruction, at: int) -> Issued:
        """Another product of the same chain, which stands in another place of the block."""
        stack, block, _, base, generation = self.place
        found: Issued = attrs.evolve(self, instruction=instruction, place=(stack, block, at, base, generation))
        return found

    def threads(self, machine: Machine) -> Group:
        """A group of its threads that stands where it was issued."""
        then = machine.group(self.selection, self.plan, *self.place)
        for slot, value in self.operands.items():
            then.env[slot] = value
        return then


def overwritten(machine: Machine, wgmma: Issued, threads: Array, part: Unfinished, origin: Finding) -> bool:
    """Make undefined what a wgmma in flight computes in ``threads`` (a mask of its own) from bytes that others write.
    False, with nothing done, if that is all of it, or if the threads write themselves or have called a function since."""
    then, flow = wgmma.threads(machine), transfer_of(wgmma.plan, wgmma.instruction)
    written = machine.batch.shared.shadow
    assert isinstance(written, WrittenBits)
    for slot in {*flow.written, *flow.factors}:  # what they contribute is known
        then.env[slot] = then.plan.zeros[slot]
    with muted(machine), without(written, [part]):
        found = flow.accumulated(machine, then, written)
    shape, positions = then.selection.shape, then.selection.positions[threads]
    bits = {slot: np.broadcast_to(each, shape)[threads] for slot, each in found.items()}
    if all(each.all() for each in bits.values()):
        return False
    theirs = [(group, np.isin(group.selection.positions, positions)) for group in machine.batch.groups()]
    theirs = [(group, mine) for group, mine in theirs if mine.any()]
    if sum(np.count_nonzero(mine) for _, mine in theirs) < len(positions):
        return False
    if any(group.plan is not then.plan or len(group.stack) != len(then.stack) for group, _ in theirs):
        return False
    known, file = origins(machine), np.zeros(machine.batch.shape.n, "u4")
    for group, mine in theirs:
        for slot, each in bits.items():
            file[positions] = each
            new, old = np.where(mine, file[group.selection.positions], np.uint32(0)), undefined(group, slot)
            if new.any():
                put(group, slot, new if old is None else together(old, new))
                if old is None or known.get(group, slot) is None:
                    known.put(group, slot, origin)
    return True
