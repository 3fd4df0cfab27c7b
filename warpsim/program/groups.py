"""Statements that take several lines, or share one, by their shape: where registers of the function are left out. Of those that
are alike one is checked, and the others are parsed when their code is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpsim.program.names import Scope
from warpsim.program.program import CARRY, Instruction, Operand
from warpsim.program.statements import Group
from warpsim.ptx import ast
from warpsim.ptx.outline import HOLE


def instructions(made: Sequence[ast.Statement]) -> list[ast.Instruction]:
    """The instructions of a group."""
    return [each for each in _inside(made) if isinstance(each, ast.Instruction)]


def group_of(
    made: Sequence[ast.Statement], code: Sequence[Instruction], scope: Scope, kinds: Mapping[str, str]
) -> Group | None:
    """The group of statements and their code, given their own scope and what stands for the names of their function; None
    where others that look alike may mean something else."""
    declared = [each for each in _inside(made) if not isinstance(each, ast.Instruction)]
    variables = [each for each in declared if isinstance(each, ast.Variable) and each.space == "reg"]
    items = [item for each in variables for item in each.declarators]
    if len(variables) < len(declared) or len(code) != len(instructions(made)):
        return None
    if any(item.count is not None or kinds.get(item.name, "").startswith(HOLE) for item in items):
        return None
    block = isinstance(made[0], ast.Block)
    own = scope.symbols.keys() if block else ()
    for instruction in code:
        names = [instruction.guard[0].name] if instruction.guard is not None else []
        for o in (leaf for operand in instruction.operands for leaf in _leaves(operand)):
            if o.variable is not None or o.parameter is not None or o.function or o.targets:
                return None
            names += [o.register.name] if o.register is not None else []
        if not all(name in own or name == CARRY or kinds.get(name, "").startswith(HOLE) for name in names):
            return None
    return Group(block, tuple(variables), tuple(code))


def _inside(made: Sequence[ast.Statement]) -> Sequence[ast.Statement]:
    """What stands in the only block, or the statements."""
    return made[0].statements if len(made) == 1 and isinstance(made[0], ast.Block) else made


def _leaves(o: Operand) -> Iterator[Operand]:
    """An operand and all parts of it."""
    yield o
    for each in (*([o.base] if o.base is not None else ()), *o.coordinates, *(o.elements or ())):
        yield from _leaves(each)
