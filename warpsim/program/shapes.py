"""Instructions by their shape: a line from which registers, symbols and numbers are left out. Lines of one shape are legal
alike, so that one of them is checked, and the others are made from it.

A hole is `HOLE` and what stands there: the type of a register, `NUMBER`, `LABEL`, or what kind of parameter or variable. What
must not be left out of a line stays in it: a number that the instruction limits, a name that is something else, ``%tid``.
"""

from __future__ import annotations

import functools
import re
import threading
import time
import weakref
from collections.abc import Iterator

from warpsim.errors import Span
from warpsim.isa import matching
from warpsim.isa.traits import Ending
from warpsim.program.blocks import expanded
from warpsim.program.names import FunctionBuilder, Label, Prototype, Scope, Symbol, TargetList
from warpsim.program.problems import Problems
from warpsim.program.program import Operand, Param, Register, Variable
from warpsim.program.resolve import Resolver
from warpsim.program.statements import FIRST, PARTS, WHOLE, Group, Shape, Statement
from warpsim.program.stored import Shelf
from warpsim.program.typecheck import Checker
from warpsim.ptx import ast
from warpsim.ptx.outline import HOLE
from warpsim.ptx.parser import Parser
from warpsim.ptx.tokens import SyntaxProblem
from warpsim.types import TYPES, StateSpace

NUMBER, LABEL = "N", "L"
ENTRY, FUNC, RESULT = "PE", "PF", "PR"
"""A parameter of a kernel, one of a function, and a function's result."""
SPACES = {f"V{space.value}": space for space in StateSpace}
"""A variable, by its space."""
MOST = 100
"""Most holes of a shape."""
KEPT = 1 << 15
"""Most shapes, and most lines, that are kept."""
NAME = re.compile(r"%[\w$]+", re.ASCII)
_HOLE = re.compile(rf"{HOLE}(\w+)|%[\w$]+", re.ASCII)
_LITERAL = re.compile(r"(?<![\w$.%])(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(\d+))", re.ASCII)
BASES = (16, 2, 8, 10)
_NAMED = re.compile(r"\s*(?:@\S+\s+)?\S+")
_COMPUTED = re.compile(r"[*/<>&^~?(]|\w\s*[-+|]", re.ASCII)


def _limited(name: str) -> bool | None:
    root, *modifiers = name.split(".")
    found = matching.candidates(root, tuple(modifiers))
    if not found or found[0].traits.ending is Ending.CALL:
        return None
    return any(typed.limit is not None for one in found for typed in one.operands)


class Shapes:
    """The shapes of modules with one header. ``lines`` are the statements, by their text, that name nothing of their module."""

    def __init__(self, target: tuple[str, ...], version: tuple[int, int]) -> None:
        self.module = ast.Module(version, target, 64, ())
        self.parser = Parser("", "", matching.is_name)
        self.lines: dict[str, Statement] = {}
        self.known: dict[str, Shape | None] = {}
        self.groups: dict[str, Group] = {}
        self._shelf = Shelf(target, version)
        self._lock = threading.Lock()
        weakref.finalize(self, self._shelf.keep)

    def find(self, text: str) -> Shape | None:
        """A shape; None if its lines have to be looked at one by one."""
        known = self.known.get(text)
        if known is not None:
            return known
        with self._lock:
            if text not in self.known:
                if len(self.known) > KEPT:
                    self.known.clear()
                kept = self._shelf.find(text)
                if kept is None:
                    begin = time.perf_counter()
                    kept = (self._made(text),)
                    self._shelf.add(text, kept[0], time.perf_counter() - begin)
                self.known[text] = kept[0]
            return self.known[text]

    def limited(self, name: str) -> bool | None:
        """Whether an instruction limits a number; None for a call, and for what is no instruction."""
        limits = self._shelf.limits
        if name not in limits:
            limits[name] = _limited(name)
        return limits[name]

    def keep(self, line: str, statement: Statement) -> None:
        """Keep a statement that names nothing of its module."""
        if len(self.lines) > KEPT:
            self.lines.clear()
        self.lines[line] = statement

    def keep_group(self, text: str, group: Group) -> None:
        """Keep a group."""
        if len(self.groups) > KEPT:
            self.groups.clear()
        self.groups[text] = group

    def _made(self, text: str) -> Shape | None:
        """Check one line of a shape."""
        holes = _Holes()
        line = _HOLE.sub(holes.fill, text)
        if len(holes.expected) > MOST or (holes.numbers and _mistakable(text)):
            return None
        builder, scope, problems = FunctionBuilder("", entry=HOLE + ENTRY in text), Scope(None), _First("", line)
        scope.symbols, scope.labels, builder.results = holes.symbols, holes.labels, frozenset(holes.results)
        builder.registers = [Register("", at, TYPES["b32"]) for at in range(holes.names)]
        resolver = Resolver(self.module, problems)
        try:
            (node,) = self.parser.statements(line, 1)
            if not isinstance(node, ast.Instruction) or expanded(node, scope, builder, resolver) != [node]:
                return None
            made = Checker(resolver, builder, problems, self.module).check(node, scope, ())
        except (SyntaxProblem, ValueError):
            made = None
        if made is None or self.parser.expressions.findings:
            self.parser.expressions.findings.clear()
            return None
        found = [hole for operand in made.operands for hole in _found(operand)]
        if made.guard is not None:
            found.append(("name", made.guard[0].index))
        if sorted(hole for hole in found if hole != ("name", holes.names)) != sorted(holes.expected):
            return None
        column = node.span.column - (len(made.guard[0].name) if made.guard is not None else 0)
        return Shape(made, column, tuple([hole_of(operand, holes.names) for operand in made.operands]))


class _First(Problems):
    """The first problem of a line, which is looked at no further."""

    def add(self, rule: str, span: Span, message: str, *_: object, **__: object) -> None:
        """End looking at it."""
        raise SyntaxProblem(message, span, rule=rule)


Hole = tuple[str, int]


class _Holes:
    """Fills the holes of a shape with names and numbers, of which the symbols and labels are collected."""

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.labels: dict[str, Label | TargetList | Prototype] = {}
        self.results: list[str] = []
        self.expected: list[Hole] = []
        self.names = self.values = self.numbers = 0

    def fill(self, match: re.Match[str]) -> str:
        """What stands in one of the holes; names that are none stay."""
        kind = match[1]
        if kind is None or kind in TYPES:
            at, self.names = self.names, self.names + 1
            if kind is None:
                return match[0]
            self.expected.append(("name", at))
            name = f"%h{at}"
            self.symbols[name] = Register(name, at, TYPES[kind])
            return name
        at, self.values = self.values, self.values + 1
        self.expected.append(("value", at))
        name = f"h{at}"
        if kind == NUMBER:
            self.numbers += 1
            return str(FIRST + at)
        if kind == LABEL:
            self.labels[name] = Label(at)
        elif kind in SPACES:
            self.symbols[name] = Variable(name, name, SPACES[kind], TYPES["b8"], at, 1)
        else:
            self.symbols[name] = Param(name, TYPES["b8"], 1, 1, at)
            self.results += [name] * (kind == RESULT)
        return name


def _found(o: Operand) -> Iterator[Hole]:
    """The holes of an operand."""
    if o.register is not None:
        yield "name", o.register.index
    for number in (o.constant or 0, o.offset):
        if FIRST <= number < FIRST + MOST:
            yield "value", number - FIRST
    if o.parameter is not None:
        yield "value", o.parameter.offset
    if o.variable is not None:
        yield "value", o.variable.size
    for target in o.targets:
        yield "value", target
    for each in (*([o.base] if o.base is not None else ()), *o.coordinates, *(o.elements or ())):
        yield from _found(each)


def hole_of(o: Operand, names: int) -> tuple[Operand, int, str]:
    """How an operand of a line is made, which has so many names."""
    if o.register is not None and o.register.index < names:
        return o, o.register.index, f"{'!' * o.negated}{o.type.name}"
    return o, PARTS if any(_found(o)) else WHOLE, ""


def _mistakable(text: str) -> bool:
    """Whether a number that stays in a shape, or one computed from such, may be taken for that of a hole."""
    text = _HOLE.sub("", _NAMED.sub("", text, count=1))
    values = [
        int(digits, base)
        for found in _LITERAL.findall(text)
        for digits, base in zip(found, BASES, strict=True)
        if digits
    ]
    return any(FIRST <= value < FIRST + MOST for value in values) or _COMPUTED.search(text) is not None


@functools.lru_cache(maxsize=32)
def shapes_of(target: tuple[str, ...], version: tuple[int, int]) -> Shapes:
    """The shapes of all modules with this header."""
    return Shapes(target, version)
