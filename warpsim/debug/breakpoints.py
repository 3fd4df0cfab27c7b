"""Breakpoints, watchpoints and catchpoints, the places that they name, and the names that a condition may use."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

import attrs

from warpsim.debug import expressions as ex
from warpsim.debug.errors import DebugError, number
from warpsim.debug.evaluation import CUDA
from warpsim.debug.watching import MemoryTarget, RegisterTarget, TileTarget
from warpsim.program.names import SPECIALS
from warpsim.program.program import Function, Instruction, Program

LineColumn = tuple[int, int]
"""Line and column of an instruction."""


@attrs.define(eq=False)
class Breakpoint:
    """Stops every warp that reaches a place.

    ``lines`` are the PTX lines of ``place``. ``hits`` counts how often it was reached with ``condition`` true; the next
    ``ignore`` hits do not stop.
    """

    number: int
    place: str
    locations: frozenset[LineColumn]
    condition: str | None
    ignore: int
    temporary: bool
    enabled: bool = True
    hits: int = 0

    @property
    def lines(self) -> tuple[int, ...]:
        """The PTX lines, ascending."""
        return tuple(sorted({line for line, _ in self.locations}))


@attrs.define(eq=False)
class Watchpoint:
    """Stops when an expression's value changes or is read.

    For a register, ``scope`` selects the threads: the ``lane`` or the ``warp`` that was in focus when the watchpoint
    was set, or ``any``.
    """

    number: int
    expression: str
    read: bool
    write: bool
    scope: str
    target: RegisterTarget | MemoryTarget | TileTarget
    enabled: bool = True
    hits: int = 0


@attrs.define(eq=False)
class Catchpoint:
    """Stops at an event or a broken rule, given by name."""

    number: int
    what: str
    enabled: bool = True
    hits: int = 0


Point = Breakpoint | Watchpoint | Catchpoint


def line_column(instruction: Instruction) -> LineColumn:
    """The place of an instruction."""
    return instruction.span.line, instruction.span.column


def resolve(program: Program, place: int | str, function: str | None = None) -> frozenset[LineColumn]:
    """Find the instructions at a place: a PTX line, ``file.cu:12``, a label, a function, ``op:mma.sync*``.

    Labels are looked up in ``function`` first.

    Raises:
        DebugError: there is no such place; the message says what there is.
    """
    text = place.strip() if isinstance(place, str) else str(number("place", place))
    if not isinstance(place, str) or (text.isascii() and text.isdigit()):
        return _at_line(program, _line_number(text))
    if text.startswith("op:"):
        return _by_opcode(program, text[3:])
    source = re.fullmatch(r"(.+):([0-9]+)", text)
    if source is not None and source[1] not in program.functions:
        return _at_source(program, source[1], _line_number(source[2]))
    if text in program.functions:
        code = program.functions[text].code
        return frozenset({line_column(code[0])}) if code else frozenset()
    return _at_label(program, text, function)


def _line_number(text: str) -> int:
    if len(text) > 9:
        raise DebugError(f"there is no line {text[:20]}...")
    return int(text)


def _code(program: Program) -> Iterator[tuple[Function, Instruction]]:
    for function in program.functions.values():
        for instruction in function.code:
            yield function, instruction


def _at_line(program: Program, line: int) -> frozenset[LineColumn]:
    if not 1 <= line <= len(program.lines):
        raise DebugError(f"there is no line {line}: the module has {len(program.lines)} lines")
    here = frozenset(line_column(i) for _, i in _code(program) if i.span.line == line)
    if here:
        return here
    later = [i for _, i in _code(program) if i.span.line > line]
    if not later:
        raise DebugError(f"there is no instruction at or after line {line}")
    return _at_line(program, min(i.span.line for i in later))


def _by_opcode(program: Program, pattern: str) -> frozenset[LineColumn]:
    found = frozenset(line_column(i) for _, i in _code(program) if fnmatch.fnmatchcase(i.text, pattern))
    if not found:
        raise DebugError(f"no instruction matches {pattern!r}; opcodes: {_some({i.text for _, i in _code(program)})}")
    return found


def _at_source(program: Program, file: str, line: int) -> frozenset[LineColumn]:
    """The first instruction of each run compiled from a source line, or from the next line that has code."""
    lines: dict[int, set[LineColumn]] = {}
    files: set[str] = set()
    before: tuple[str, tuple[str, int] | None] | None = None
    for function, instruction in _code(program):
        source = instruction.source
        here = (function.name, source)
        if source is not None:
            files.add(source[0])
            if here != before and _same_file(source[0], file):
                lines.setdefault(source[1], set()).add(line_column(instruction))
        before = here
    if not files:
        raise DebugError("the module has no line information: compile with -lineinfo")
    if not lines:
        raise DebugError(f"no code from {file}; files with code: {_some(files)}")
    later = [number for number in lines if number >= line]
    if not later:
        raise DebugError(f"{file} has no code at or after line {line}")
    return frozenset(lines[min(later)])


def _same_file(known: str, asked: str) -> bool:
    known, asked = known.replace(os.sep, "/"), asked.replace(os.sep, "/")
    return known == asked or known.endswith("/" + asked)


def _at_label(program: Program, name: str, function: str | None) -> frozenset[LineColumn]:
    wanted, _, label = name.rpartition(":")
    functions = [f for f in program.functions.values() if not wanted or f.name == wanted]
    functions.sort(key=lambda f: f.name != function)
    for candidate in functions:
        at = candidate.labels.get(label)
        if at is not None and at < len(candidate.code):
            return frozenset({line_column(candidate.code[at])})
    labels = {known for f in functions for known in f.labels}
    raise DebugError(
        f"no function, label or line {name!r}; functions: {_some(set(program.functions))}; labels: {_some(labels)}"
    )


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return (", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")) or "none"


def check_condition(condition: str, program: Program, locations: frozenset[LineColumn]) -> None:
    """Check a condition of a breakpoint at some instructions.

    Raises:
        DebugError: it is no expression, or has a name that stands for nothing in each of their functions.
    """
    node = ex.parse(condition)
    functions = [f for f in program.functions.values() if any(line_column(i) in locations for i in f.code)]
    missing = [unknown_name(node, function, program) for function in functions]
    if missing and all(missing):
        raise DebugError(f"no register, variable or parameter {missing[0]} in {functions[0].name}")


def unknown_name(node: ex.Node, function: Function, program: Program) -> str | None:
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
