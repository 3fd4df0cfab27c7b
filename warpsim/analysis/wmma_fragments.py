"""The fragment-mismatch rule: a register holds a different wmma fragment than an instruction expects.

Follows fragments from the instructions that make them through moves, over all paths through a function. A use is wrong
if every fragment that can reach it is wrong. Registers written by any other instruction are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from warpsim.analysis.dataflow import walk
from warpsim.analysis.flow import Block
from warpsim.errors import Finding
from warpsim.isa.traits import Matrix
from warpsim.program.program import Function, Instruction
from warpsim.records import frozen
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.analysis.facts import Facts

RULE = "fragment-mismatch"
ADVICE = "shape, layout and type of wmma.load, wmma.mma and wmma.store must agree (wmma.mma)"
State = dict[int, frozenset["Fragment"]]
NONE: frozenset[Fragment] = frozenset()


@frozen
class Fragment:
    """The contents of a register: operand ``a``, ``b`` or ``accumulator``, shape, layout (of a and b) and element type."""

    operand: str
    shape: str
    layout: str
    type: str
    maker: Instruction = attrs.field(eq=False, hash=False, default=None)

    def __str__(self) -> str:
        parts = [f"{self.operand}", f".{self.shape}", f".{self.layout}" if self.layout else "", f".{self.type}"]
        return " ".join(p for p in parts if p)


@frozen
class Mismatch:
    """A register of an instruction that can only hold wrong fragments."""

    register: str
    expected: Fragment
    found: Fragment

    @property
    def message(self) -> str:
        """A sentence that says what is wrong."""
        return f"register {self.register} is used as {self.expected}, but holds {self.found}"


def mismatches(function: Function, blocks: list[Block]) -> dict[int, Mismatch]:
    """The wrong uses in a function, by the instruction's index in its code."""
    if not any(i.traits.opaque_fragments for i in function.code):
        return {}
    start: State = {}
    states = walk(blocks, start, lambda at, state: _after(function.code[at], state), _joined)
    return {at: wrong for at, state in states if (wrong := _wrong(function.code[at], state)) is not None}


def check_fragments(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    for index, wrong in mismatches(facts.function, facts.blocks).items():
        yield facts.finding(
            RULE, facts.function.code[index], wrong.message, other=wrong.found.maker, advice=ADVICE,
            values={"register": wrong.register},
        )  # fmt: skip


def _joined(one: State, other: State) -> State:
    return {r: one.get(r, NONE) | other.get(r, NONE) for r in (*one, *other)}


def _after(instruction: Instruction, state: State) -> State:
    """The state after an instruction."""
    made, new = _made(instruction), NONE
    if made is not None:
        new = frozenset([made])
    elif instruction.traits.copies and instruction.operands[1].register is not None:
        new = state.get(instruction.operands[1].register.index, NONE)
    if not new and (instruction.guard is not None or state.keys().isdisjoint(instruction.writes)):
        return state
    after = dict(state)
    for register in instruction.writes:
        after[register] = new if instruction.guard is None else new | state.get(register, NONE)
    return after


def _made(instruction: Instruction) -> Fragment | None:
    """The fragment that an instruction writes to its destination."""
    op, traits = instruction.op, instruction.traits
    if not traits.opaque_fragments:
        return None
    if traits.matrix is Matrix.LOAD:
        operand = op.modifiers[1]
        if operand == "c":
            return Fragment("accumulator", op.shape, "", op.type.name, instruction)
        return Fragment(operand, op.shape, op.layout, op.type.name, instruction)
    if traits.matrix is Matrix.MULTIPLY:
        return Fragment("accumulator", _shape(instruction), "", _name(op.get("dtype"), "s32"), instruction)
    return None


def _expected(instruction: Instruction) -> list[tuple[int, Fragment]]:
    """The fragments expected in source operands, by position."""
    op, traits = instruction.op, instruction.traits
    if not traits.opaque_fragments or traits.matrix is Matrix.LOAD:
        return []
    if traits.matrix is Matrix.STORE:
        return [(1, Fragment("accumulator", op.shape, "", op.type.name))]
    shape = _shape(instruction)
    kind = "b1" if "b1" in op.modifiers else "f16"
    a, b = _name(op.get("atype"), kind), _name(op.get("btype"), kind)
    left, right = op.get("alayout") or "row", op.get("blayout") or "col"
    return [
        (1, Fragment("a", shape, left, a)),
        (2, Fragment("b", shape, right, b)),
        (3, Fragment("accumulator", shape, "", _name(op.get("ctype"), "s32"))),
    ]


def _shape(instruction: Instruction) -> str:
    return next(w for w in instruction.text.split(".") if w[0] == "m" and w[1:2].isdigit())


def _name(type: object, default: str) -> str:
    return type.name if isinstance(type, ScalarType) else default


def _wrong(instruction: Instruction, state: State) -> Mismatch | None:
    """The first register whose possible fragments all differ from the expected one."""
    for place, expected in _expected(instruction):
        for register in instruction.operands[place].registers:
            fragments = state.get(register, NONE)
            if fragments and expected not in fragments:
                parts = instruction.operands[place].parts
                name = next(p.register.name for p in parts if p.register and p.register.index == register)
                return Mismatch(name, expected, sorted(fragments, key=str)[0])
    return None
