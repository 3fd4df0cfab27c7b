"""What the condition of a breakpoint may name: registers, variables and parameters of the functions where it is set."""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.debug import expressions as ex
from warpsim.debug.breakpoints import Spot, spot
from warpsim.debug.evaluation import CUDA
from warpsim.debug.given import DebugError
from warpsim.program.names import SPECIALS
from warpsim.program.program import Function, Program


def check(condition: str, program: Program, spots: frozenset[Spot]) -> None:
    """Check a condition of a breakpoint at some instructions.

    Raises:
        DebugError: it is no expression, or has a name that stands for nothing in each of their functions.
    """
    node = ex.parse(condition)
    functions = [f for f in program.functions.values() if any(spot(i) in spots for i in f.code)]
    missing = [unknown(node, function, program) for function in functions]
    if missing and all(missing):
        raise DebugError(f"no register, variable or parameter {missing[0]} in {functions[0].name}")


def unknown(node: ex.Node, function: Function, program: Program) -> str | None:
    """The first name of an expression that stands for nothing in a function."""
    known = {r.name for r in function.registers}
    known |= {p.name for p in (*function.params, *function.returns)}
    known |= {name for v in (*function.variables, *program.variables) for name in (v.name, v.unique)}
    known |= {f"%{name}" for name in SPECIALS}
    return next((name for name in _names(node) if name not in known), None)


def _names(node: ex.Node) -> Iterator[str]:
    """The names in an expression; those of special registers with their components: ``%tid.x``."""
    match node:
        case ex.Name(text):
            yield text
        case ex.Field(ex.Name(text), name) if f"{CUDA.get(text, text[1:])}.{name}" in SPECIALS:
            yield f"%{CUDA.get(text, text[1:])}.{name}"
        case ex.Memory(base, _) if base not in ex.SPACES:
            yield base
        case ex.Index(base, index, stop):
            for part in (base, index, stop):
                yield from () if part is None else _names(part)
        case ex.Field(operand, _) | ex.Bits(_, operand) | ex.Unary(_, operand):
            yield from _names(operand)
        case ex.Binary(_, left, right):
            yield from _names(left)
            yield from _names(right)
