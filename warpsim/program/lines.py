"""Reads the bodies of functions by line, as compilers write them: declarations first, then an instruction on a line.

Whatever stands there otherwise is parsed; where that does not do, the text is `Unusual`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from warpsim.errors import Span
from warpsim.program import shapes
from warpsim.program.blocks import Blocks
from warpsim.program.names import DIGITS, Label, Scope, numbered
from warpsim.program.program import Param, Register, Variable
from warpsim.program.resolve import RESERVED_NAMES
from warpsim.program.shapes import Shapes
from warpsim.program.statements import Group, Statement, Value, Written
from warpsim.ptx import ast
from warpsim.ptx.outline import HOLE, Body
from warpsim.ptx.parser import Parser

_DIGITS = tuple(map(str, range(1 << 12)))
"""The numbers of registers that are looked up at once."""
BLANKS = " \t\r\f\v"
_NAMES = re.compile(r"(%[\w$]+)", re.ASCII)
_NAMED = re.compile(rf"\s*(?:@!?{HOLE}pred\s+)?([a-zA-Z_][\w$]*(?:\.[\w:]+)*)(?=[\s;])", re.ASCII)
_LABEL = re.compile(r"[ \t]*([a-zA-Z_$][\w$]*):[ \t]*", re.ASCII)
_COUNT = r"(0|[1-9]\d{0,8})"
_PLACE = rf"\s+{_COUNT}\s+{_COUNT}\s+{_COUNT}"
_LOCATION = re.compile(
    rf"\s*\.loc{_PLACE}\s*(?:,\s*function_name\s+([a-zA-Z_$][\w$]*)\s*,\s*inlined_at{_PLACE}\s*)?", re.ASCII
)
_WORDS = rf"(?<![\w$.%{HOLE}])([a-zA-Z_$][\w$]*)"
_OFFSETS = r"(?<=[+\s])(-?(?:0|[1-9]\d{0,17}))(?=\s*\])"
_NUMBERS = r"(?<=[,{\s])(-?(?:0|[1-9]\d{0,17}))(?=\s*[,;}])"
WITHOUT_NUMBERS = re.compile(f"{_WORDS}|{_OFFSETS}", re.ASCII)
WITH_NUMBERS = re.compile(f"{_WORDS}|{_OFFSETS}|{_NUMBERS}", re.ASCII)


class Unusual(Exception):
    """A body is not laid out as compilers do it."""


_NUMBER = {int}


class _Odd:
    """A line that is none of those that are read by themselves."""


ODD = _Odd()
Source = tuple[int, int, int]


class Location(NamedTuple):
    """A ``.loc``: a place in a source, and the label of the function's name and the place that it is inlined at."""

    place: Source
    name: str
    inlined_at: Source | None


Grouped = Callable[[Sequence[ast.Statement], range, Mapping[str, str]], Group | None]
"""The group of statements, the places of their code, and what stands for the names of their function (`warpsim.program.late`)."""
Entry = Statement | str | Location | _Odd | None
"""A line: an instruction, the name of a label, a place in a source, another, or nothing."""


class Lines(dict[str, Entry]):
    """The different lines of a body, in which registers are holes."""

    def __init__(self, blocks: Blocks, scope: Scope, shapes: Shapes) -> None:
        self.blocks, self.scope, self.shapes = blocks, scope, shapes

    def __missing__(self, line: str) -> Entry:
        found: Entry = self.shapes.lines.get(line)
        if found is None:
            text = line.rstrip(BLANKS)
            found = self._read(text) if text.endswith(";") else _mark(text)
        self[line] = found
        return found

    def _read(self, line: str) -> Entry:
        """Read a statement that was not seen before."""
        named = _NAMED.match(line)
        limits = None if named is None or line.count(";") != 1 or '"' in line else self.shapes.limited(named[1])
        if named is None or limits is None:
            return ODD
        for holes in (WITHOUT_NUMBERS,) if limits else (WITH_NUMBERS, WITHOUT_NUMBERS):
            values: list[Value] = []
            shape = self.shapes.find(
                line[: named.end()] + holes.sub(functools.partial(self._hole, values), line[named.end() :])
            )
            if shape is not None:
                found = Statement(shape, tuple(values))
                if not values or {*map(type, values)} == _NUMBER:
                    self.shapes.keep(line, found)
                return found
        return ODD

    def _hole(self, values: list[Value], match: re.Match[str]) -> str:
        """Leave a word or a number out of a line."""
        word = match[1]
        if word is None:
            values.append(int(match[0]))
            return HOLE + shapes.NUMBER
        kind, value = self._symbol(word)
        if value is None:
            return word
        values.append(value)
        return HOLE + kind

    def _symbol(self, word: str) -> tuple[str, Value | None]:
        """What a word is; None if it stays in its line."""
        builder = self.blocks.builder
        if word in ("_", "WARP_SZ") or self.scope.ranges.find(word) is not None:
            return "", None
        builder.at = len(builder.code)
        match self.blocks.resolver.lookup(self.scope, word, builder):
            case None:
                return shapes.LABEL, word
            case Param() as param if builder.entry:
                return shapes.ENTRY, param
            case Param() as param:
                return shapes.RESULT if word in builder.results else shapes.FUNC, param
            case Variable() as variable:
                return f"V{variable.space.value}", variable
        return "", None


@functools.lru_cache(maxsize=shapes.KEPT)
def _mark(line: str) -> str | Location | _Odd | None:
    """Read a line that is no statement."""
    if not line:
        return None
    if (label := _LABEL.fullmatch(line)) is not None:
        return label[1]
    if (place := _LOCATION.fullmatch(line)) is not None:
        file, at, column, name, *caller = place.groups()
        inlined = (int(caller[0]), int(caller[1]), int(caller[2])) if name else None
        return Location((int(file), int(at), int(column)), name or "", inlined)
    return ODD


class Kinds(dict[str, str]):
    """What stands for a name in a line: the hole for a register of a type, or the name."""

    def __init__(self, scope: Scope) -> None:
        self._rest = {}
        for prefix, (count, type, elements) in scope.ranges.by_prefix.items():
            if elements == 1:
                self._rest[prefix] = count, HOLE + type.name
                if prefix == prefix.rstrip(DIGITS):
                    self.update(dict.fromkeys(map(prefix.__add__, _DIGITS[:count]), HOLE + type.name))
        for name, symbol in scope.symbols.items():
            if name.startswith("%"):
                self[name] = HOLE + symbol.type.name if isinstance(symbol, Register) else name

    def __missing__(self, name: str) -> str:
        prefix, number = numbered(name)
        count, kind = self._rest.get(prefix, (0, name))
        found = self[name] = name if number is None or number >= count else kind
        return found


class Reading:
    """A function's body, which is read into its builder: its lines, to which the different ``statements`` refer, and the places of
    code that is ``odd``, none of these; what stands for names that begin with a percent sign."""

    def __init__(self, body: Body, blocks: Blocks, scope: Scope, parser: Parser, grouped: Grouped) -> None:
        """Read a body.

        Raises:
            Unusual: it is not laid out as compilers do it.
            SyntaxProblem: something is wrong in it.
        """
        self.blocks, self.scope, self.parser, self.line = blocks, scope, parser, body.line
        self.grouped = grouped
        self.text, texts = body.text, body.text.split("\n")
        module, builder = blocks.resolver.module, blocks.builder
        code, runs = builder.code, builder.runs
        self.shapes = shapes.shapes_of(module.target, module.version)
        first = _declarations(texts)
        blocks.add(self._parsed("\n".join(texts[:first]), 0), scope)
        if "WARP_SZ" in scope.symbols or any(_hides(name, symbol) for name, symbol in scope.symbols.items()):
            raise Unusual
        parts = _NAMES.split("\n".join(texts[first:]))
        self.kinds = Kinds(scope)
        parts[1::2] = map(self.kinds.__getitem__, parts[1::2])
        marked = "".join(parts).split("\n")
        self.odd = list(range(len(code)))
        lines, rest, at = Lines(blocks, scope, self.shapes), iter(marked), first - 1
        builder.begin(scope, blocks.places, first)
        for entry in map(lines.__getitem__, rest):
            at += 1
            if isinstance(entry, Statement):
                code.append(entry)
                continue
            if isinstance(entry, Location):
                self._locate(entry)
            elif isinstance(entry, str):
                if entry in scope.labels or entry in scope.symbols:
                    raise Unusual
                blocks.label(entry, scope)
            elif entry is not None:
                done, before = _end(texts, at), len(code)
                inner = [marked[at - first], *islice(rest, done - at - 1)]
                self._odd("\n".join(texts[at:done]), "\n".join(inner), at)
                self.odd += range(before, len(code))
                at = done - 1
            runs.append((len(code), scope, blocks.places, at + 1))
        self.statements = [entry for entry in lines.values() if isinstance(entry, Statement)]
        targets = {value for statement in self.statements for value in statement.values if isinstance(value, str)}
        if not all(isinstance(scope.labels.get(name), Label) for name in targets):
            raise Unusual

    def _locate(self, found: Location) -> None:
        """Follow a ``.loc``."""
        known = self.blocks.known.get(found.place) if found.inlined_at is None else None
        if known is not None and len(known) == 1:
            self.blocks.places = known
            return
        directives = self.parser.directives
        if found.inlined_at is not None:
            if found.inlined_at not in directives.places:
                raise Unusual
            if found.name not in directives.named:
                directives.named[found.name] = Span(self.parser.s.file, self.line, 1)
        self.blocks.locate(found.place, found.inlined_at)
        directives.places.add(found.place)

    def _parsed(self, text: str, at: int) -> list[ast.Statement]:
        """Parse lines."""
        return self.parser.statements(text, self.line + at, "entry" if self.blocks.builder.entry else "func")

    def _odd(self, text: str, shape: str, at: int) -> None:
        """Read what is not a line."""
        blocks, builder = self.blocks, self.blocks.builder
        group, before = self.shapes.groups.get(shape), len(builder.code)
        if group is not None:
            inner = Scope(self.scope) if group.block else self.scope
            blocks.add(group.declarations, inner)
        else:
            made = self._parsed(text, at)
            declared = [item.name for each in made if isinstance(each, ast.Variable) for item in each.declarators]
            if any(_shadows(name, blocks) for name in declared):
                raise Unusual
            blocks.add(made, self.scope)
            if self.parser.expressions.findings:
                return
            group = self.grouped(made, range(before, len(builder.code)), self.kinds)
            if group is None:
                return
            self.shapes.keep_group(shape, group)
            inner = builder.run(before)[1]
            builder.cut(before)
        builder.begin(inner, blocks.places)
        builder.code += [Written(group, text, self.line + at)] * len(group.kinds)


def _declarations(texts: list[str]) -> int:
    """How many lines at the beginning of a body declare something."""
    at = 0
    while at < len(texts) and (not (text := texts[at].strip()) or text[0] == "."):
        at = at + 1 if not text or text.startswith(".loc") else _end(texts, at)
    return at


def _end(texts: list[str], at: int) -> int:
    """Behind which line the statement or block ends that begins on one."""
    depth = 0
    for end in range(at, len(texts)):
        text = texts[end].rstrip()
        depth += text.count("{") + text.count("(") - text.count("}") - text.count(")")
        if depth <= 0 and (text.endswith((";", "}", ":")) or text.lstrip().startswith(".loc")):
            return end + 1
    return len(texts)


def _hides(name: str, symbol: object) -> bool:
    """Whether a name of a body is that of a special register, and is no register."""
    return name.startswith("%") and name[1:] in RESERVED_NAMES and not isinstance(symbol, Register)


def _shadows(name: str, blocks: Blocks) -> bool:
    """Whether a name that is declared between instructions means something else before."""
    special = name.startswith("%") and any(each.startswith(name[1:]) for each in RESERVED_NAMES)
    return special or name == "WARP_SZ" or name in blocks.resolver.globals
