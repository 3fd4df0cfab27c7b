"""Loads of boxes of a tensor that begin where data say: in their outer dimensions, where a box may lie anywhere.

What lies outside the tensor is filled in, and as many bytes arrive in any case. So such a load breaks no rule where nobody stores to
the tensor's memory; what it loads is not known.
"""

from __future__ import annotations

import attrs

from warpsim.machine.machine import Machine
from warpsim.machine.state.transfers import BoxLoad, Transfer
from warpsim.program.program import Instruction, Operand
from warpsim.records import define


def outer(instruction: Instruction) -> frozenset[int]:
    """The registers that are outer coordinates of a box that is loaded, and nothing else; the innermost is bound to 16 bytes."""
    if instruction.traits.asynchronous is None or len(instruction.operands) < 2:
        return frozenset()
    target, source, *others = instruction.operands
    if target.coordinates or not source.coordinates or source.base is None:
        return frozenset()
    first, *free = _coordinates(instruction)
    bound = {r for o in (target, source.base, first, *others) for r in o.registers}
    return frozenset(r for o in free for r in o.registers) - bound


def _coordinates(instruction: Instruction) -> list[Operand]:
    return [part for each in instruction.operands[1].coordinates for part in each.parts]


@define(eq=False)
class Boxes:
    """The loads of a launch whose boxes begin anywhere, by identity, and the beginnings of the arrays that they load from; and of those
    that are stored to (None: any)."""

    loads: dict[int, set[int | None]] = attrs.field(factory=dict)
    bound: set[int] = attrs.field(factory=set)
    stored: set[int | None] = attrs.field(factory=set)

    def issued(self, machine: Machine, transfer: Transfer) -> None:
        """Note the array that a load is from."""
        instruction = transfer.place or transfer.group.instruction
        if id(instruction) in self.loads and isinstance(transfer.work, BoxLoad):
            fields = transfer.work.boxes.fields
            last = sum((n - 1) * stride for n, stride in zip(fields.dims[1:], fields.strides, strict=True))
            end = fields.address + last + fields.dims[0] * fields.itemsize
            found = machine.launch.memory.find(fields.address, end)
            plain = len(_coordinates(instruction)) == fields.rank and not (fields.im2col or fields.interleave)
            self.loads[id(instruction)].add(found.start if plain and found is not None else None)

    def harmless(self, instruction: Instruction) -> bool:
        """Whether it does not matter where a load's boxes begin."""
        loaded = self.loads.get(id(instruction), set())
        sound = bool(loaded) and None not in loaded and id(instruction) not in self.bound
        return sound and self.stored.isdisjoint({None, *loaded})
