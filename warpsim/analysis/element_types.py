"""Which types of elements a kernel reads and writes where a variable lies, or a pointer leads: what is left of C's types in PTX
without debug information.

Follows addresses through registers, whatever the order of the instructions, from the instructions that name a variable or load
a parameter to those that access memory.
"""

from __future__ import annotations

from collections import defaultdict

from warpsim.program.program import Function, Instruction, Operand
from warpsim.types import TYPES, ScalarType

Root = tuple[str, int]
"""A variable's unique name, and 0; or that of a parameter, and the offset of a pointer in it."""


def accessed(function: Function) -> dict[Root, set[ScalarType]]:
    """The types of the elements accessed at addresses that come from a variable or a parameter."""
    roots = _roots(function)
    uses = _uses(function)
    found = defaultdict(set)
    for instruction in function.code:
        at = instruction.address
        if instruction.traits.access is None or at is None or at.base is None:
            continue
        type = next((TYPES[word] for word in reversed(instruction.text.split(".")) if word in TYPES), None)
        if type is not None:
            for root in _of_operand(at.base, roots):
                found[root].add(_of_values(type, instruction, at, uses))
    return found


def element(types: set[ScalarType]) -> ScalarType | None:
    """The one type of numbers that all accesses agree on, if there is one. Accesses of untyped bits, or of several elements at once,
    agree with any type; integers are signed if some access is."""
    known = {type for type in types if type.kind != "b"}
    narrow = min((type.bits for type in known), default=0)
    best = [type for type in known if type.bits == narrow]
    if {type.kind for type in best} == {"u", "s"}:
        best = [type for type in best if type.kind == "s"]
    others = [type for type in types if narrow and (type.bits % narrow or (type.bits > narrow and type.kind == "f"))]
    return best[0] if len(best) == 1 and not others else None


def _roots(function: Function) -> dict[int, set[Root]]:
    """By register, what it may hold an address of."""
    roots: dict[int, set[Root]] = defaultdict(set)
    going = True
    while going:
        going = False
        for instruction in function.code:
            at = instruction.address
            if at is None:
                held = {root for operand in instruction.inputs for root in _of_operand(operand, roots)}
            elif at.base is not None and at.base.parameter is not None:
                held = {(at.base.parameter.unique, at.base.offset + at.offset)}
            else:
                continue
            for register in instruction.writes:
                going |= not held <= roots[register]
                roots[register] |= held
    return roots


def _of_operand(operand: Operand, roots: dict[int, set[Root]]) -> set[Root]:
    if operand.variable is not None:
        return {(operand.variable.unique, 0)}
    return {root for register in operand.registers for root in roots.get(register, ())}


def _uses(function: Function) -> dict[int, set[ScalarType]]:
    """By register, the types as which instructions compute with it where the type matters: sums have the same bits whatever
    the sign, and a test for equality has the same result."""
    found: dict[int, set[ScalarType]] = defaultdict(set)
    for instruction in function.code:
        parts = [part for operand in instruction.operands for part in operand.parts]
        plain = instruction.traits.compares and not {"eq", "ne"}.isdisjoint(instruction.text.split("."))
        signs = not plain and (instruction.traits.compares or len({part.type for part in parts}) > 1)
        for part in parts:
            if part.register is not None and (part.type.kind == "f" or (part.type.kind == "s" and signs)):
                found[part.register.index].add(part.type)
    return found


def _of_values(type: ScalarType, instruction: Instruction, at: Operand, uses: dict[int, set[ScalarType]]) -> ScalarType:
    """The type of an access: for an integer of PTX, that of the values, which may be floats, or have a sign."""
    if type.kind == "f":
        return type
    values = [part for operand in instruction.operands if operand is not at for part in operand.parts]
    indices = {part.register.index for part in values if part.register is not None}
    types = {used for index in indices for used in uses[index] if used.bits == type.bits and used.kind != "b"}
    return types.pop() if len(types) == 1 else type
