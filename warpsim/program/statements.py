"""Instructions with holes, which `warpsim.program.shapes` makes, and how the holes are filled; groups of statements, which
`warpsim.program.late` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warpsim.program.program import Instruction, Operand, Param, Variable
from warpsim.ptx import ast
from warpsim.records import frozen

FIRST = 21001
"""The number in the first hole for one."""
WHOLE, PARTS = -1, -2
_PLAIN = {int, str}
Value = int | str | Param | Variable
"""What fills a hole: a number, the name of a label, a parameter, a variable."""


@frozen(eq=False)
class Shape:
    """An instruction with holes. Its registers have as index which they are of the names on the line that begin with a percent
    sign, and the carry flag is behind them; symbols and numbers are counted by themselves: the offset of a parameter, the size
    of a variable, the target of a branch, what a number has above `FIRST`."""

    instruction: Instruction
    column: int
    """Where its name begins, without the guard's register."""
    operands: tuple[tuple[Operand, int, str], ...]
    """Its operands; of those that are one hole for a register, which name that is and what else tells them apart; of others
    `WHOLE` where there is no hole, or `PARTS`."""


class Statement:
    """A shape, and what fills its holes but those for registers."""

    __slots__ = ("shape", "values")

    def __init__(self, shape: Shape, values: tuple[Value, ...]) -> None:
        self.shape, self.values = shape, values

    def sample(self) -> Instruction:
        """The instruction, with registers and branch targets that are none of a function."""
        i = self.shape.instruction
        if _PLAIN.issuperset(map(type, self.values)):
            return i
        operands = tuple([self.placed(o, lambda register: register, lambda label: 0) for o in i.operands])
        return Instruction(i.form, i.op, i.traits, operands, i.guard, i.span)

    def placed(self, o: Operand, place: Callable[[Operand], Operand], target: Callable[[str], int]) -> Operand:
        """An operand of the shape with its holes filled; ``place`` fills that of a register, ``target`` is where a label
        stands."""
        if o.register is not None:
            return place(o)
        if o.constant is not None:
            return Operand.number(o.type, self._number(o.constant))
        values = self.values
        base, coordinates, elements = o.base, o.coordinates, o.elements
        if base is not None:
            base = place(base) if base.register is not None else self.placed(base, place, target)
        if coordinates:
            coordinates = tuple([self.placed(each, place, target) for each in coordinates])
        if elements:
            elements = tuple(
                [place(each) if each.register is not None else self.placed(each, place, target) for each in elements]
            )
        return Operand(
            o.type,
            special=o.special,
            variable=o.variable and values[o.variable.size],  # type: ignore[arg-type]
            parameter=o.parameter and values[o.parameter.offset],  # type: ignore[arg-type]
            offset=o.offset and self._number(o.offset),
            generic=o.generic,
            base=base,
            coordinates=coordinates,
            elements=elements,
            targets=tuple([target(str(values[each])) for each in o.targets]) if o.targets else (),
        )

    def _number(self, number: int) -> int:
        """A number, or what fills the hole that it stands for."""
        at = number - FIRST
        return int(self.values[at]) if 0 <= at < len(self.values) else number  # type: ignore[arg-type]


class Group:
    """A statement, or a ``block`` of them with ``declarations`` of registers: so many instructions as it has ``kinds``."""

    def __init__(self, declarations: tuple[ast.Variable, ...], kinds: tuple[Instruction, ...], *, block: bool) -> None:
        self.block, self.declarations, self.kinds = block, declarations, kinds
        self.pieces: list[tuple[Piece, ...]] = []
        """Its instructions with holes, once they are made; of some groups there are none."""


class Piece(NamedTuple):
    """An instruction of a group. Its registers have as index which they are of the names in the group's text that begin with a
    percent sign, then of the names that are declared in it. ``line`` and ``column`` are where it stands without the names before
    it on its line: those from ``first`` until ``end``."""

    statement: Statement
    line: int
    column: int
    first: int
    end: int


class Written:
    """Text of a group, and the line that it begins on."""

    def __init__(self, group: Group, text: str, line: int) -> None:
        self.group, self.text, self.line = group, text, line
