"""Loops that a counter alone ends: whether it ever does.

A register to which each lap adds the same stride takes, modulo ``2**n``, the values that equal it modulo the greatest
power of two in the stride, and no others. If the comparison that ends the loop is false for all of them, nothing ends it.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.analysis.flow import Block
from warpsim.isa.traits import Ending, Modular
from warpsim.program.program import Function, Instruction, Operand, Register

Array = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class Counter:
    """A loop of one block that is left where ``comparison`` of ``register`` and ``bound`` gives ``leaves``."""

    register: int
    name: str
    stride: int
    comparison: Instruction
    bound: Operand
    first: bool
    """The register is the comparison's first source."""
    leaves: bool

    def stays(self, now: Array, bound: Array) -> Array:
        """Where the loop is never left, whatever comes: by the values of register and bound at its head."""
        type = self.comparison.op.type
        word = np.dtype(f"u{type.bits // 8}")
        start, limit = np.broadcast_arrays(now.view(word), bound.view(word))
        bits, top = type.bits, word.type(1 << type.bits - 1)
        step = self.stride & -self.stride & (1 << bits) - 1
        rest = word.type((step or 1 << bits) - 1)  # bits that no lap changes
        low = start & rest
        high = low | ~rest
        values = [low, high, low ^ (top & ~rest), high ^ (top & ~rest), limit & ~rest | low]
        left = np.zeros(start.shape, bool)
        for value in values:
            sides = (value, limit) if self.first else (limit, value)
            given = [np.ascontiguousarray(side).view(type.dtype) for side in sides]
            left |= np.asarray(self.comparison.form.function(self.comparison.op, *given)) == self.leaves
        return ~left


def counter_of(function: Function, blocks: list[Block], head: int) -> Counter | None:
    """The counter of the loop of a single block, if nothing else ends it."""
    block = blocks[head]
    code = function.code[block.first : block.last]
    branch = code[-1]
    if branch.traits.ending is not Ending.BRANCH or branch.guard is None:
        return None
    if branch.targets != (block.first,):
        return None
    if any(i.traits.leaves or i.traits.stop is not None for i in code):
        return None
    predicate, negated = branch.guard
    made = _only(code, predicate.index)
    if made is None or not made.traits.compares or made.form.n_dest != 1:
        return None
    sources = made.operands[1:]
    for first in (True, False):
        counted, bound = sources if first else reversed(sources)
        stride = _stride(code, counted)
        register = counted.register
        if stride and register is not None and _fixed(code, bound) and _is_integer(made, register):
            return Counter(register.index, register.name, stride, made, bound, first, negated)
    return None


def _is_integer(comparison: Instruction, counted: Register) -> bool:
    type = comparison.op.type
    return type.kind in "usb" and type.bits == counted.type.bits and type.bits in (16, 32, 64)


def _only(code: tuple[Instruction, ...], register: int) -> Instruction | None:
    """The instruction that alone writes a register, in each lap."""
    writers = [i for i in code if register in i.writes]
    return writers[0] if len(writers) == 1 and writers[0].guard is None else None


def _stride(code: tuple[Instruction, ...], operand: Operand) -> int:
    """What each lap adds to a register; 0 if this is not known."""
    counted = operand.register
    made = _only(code, counted.index) if counted is not None else None
    if made is None or counted is None or made.form.n_dest != 1:
        return 0
    sources = made.operands[1:]
    if made.traits.modular not in (Modular.SUM, Modular.DIFFERENCE) or len(sources) != 2:
        return 0
    register, step = sources
    if made.traits.modular is Modular.SUM and register.constant is not None:
        register, step = step, register
    if register.register is not counted or step.constant is None:
        return 0
    if made.op.type.bits != counted.type.bits or "x2" in made.op.type.name:
        return 0
    half = 1 << step.type.bits - 1
    stride = (step.constant + half) % (2 * half) - half
    return stride if made.traits.modular is Modular.SUM else -stride


def _fixed(code: tuple[Instruction, ...], operand: Operand) -> bool:
    """Whether no lap changes an operand."""
    return operand.is_plain and not any(set(operand.registers) & set(i.writes) for i in code)


__all__ = ["Counter", "counter_of"]
