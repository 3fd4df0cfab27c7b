"""Variables of C++, their types and scopes, as the debug information of ``nvcc -G`` has them (DWARF in a module's sections)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from warpsim.program.c_types import NAMED, TRUTH, VOID, Array, CType, Member, Pointer, Scalar, Struct
from warpsim.program.dwarf import At, Entry, Tag, UnknownForm, entries, pairs, place
from warpsim.program.mangling import source_name
from warpsim.program.program import Program
from warpsim.ptx import ast
from warpsim.records import frozen
from warpsim.types import TYPES

FUNCTION = 40
"""Bits of an instruction's number in an address of code; above them is the number of its function, from 1."""
DATA = 1 << 62
"""Added to addresses of variables, whose number is above these bits, too."""
_KINDS = {2: "u", 4: "f", 5: "s", 6: "s", 7: "u", 8: "u", 0x10: "u"}
"""Kinds of PTX types by DWARF's encodings of base types."""
_NUMBERED = {
    f"{t.kind}{t.bits}": t for t in TYPES.values() if t.kind in "usf" and t.name in (f"{t.kind}{t.bits}", "f16")
}
_WORDS = {Tag.STRUCT: "struct", Tag.CLASS: "class", Tag.UNION: "union"}
_INNER = (Tag.BLOCK, Tag.INLINED)

Range: TypeAlias = tuple[int, int]
"""Instructions of a function, by the number of the first, and of the one behind the last."""
TEMPORARY = re.compile(r"param\d+|retval\d+|__local_depot\d+")
"""Variables of PTX in which a compiler keeps those of C++: arguments and results of calls, and the stack."""


@frozen(eq=False)
class Place:
    """Where a variable is while instructions from ``start`` up to ``stop`` come next: at an offset from a variable of PTX, or in
    a register."""

    of: str
    offset: int = 0
    register: bool = False
    start: int = 0
    stop: int = 1 << 62


@frozen(eq=False)
class Symbol:
    """A variable of C++. ``known`` says where its type comes from: ``PTX``, or the accesses of a module; it is empty for debug
    information."""

    name: str
    type: CType
    places: tuple[Place, ...]
    parameter: bool = False
    known: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it is a name of PTX that means what it means there."""
        return self.known == "PTX" and self.name == self.places[0].of

    def place(self, at: int) -> Place | None:
        """Where it is when the instruction ``at`` comes next."""
        return next((place for place in self.places if place.start <= at < place.stop), None)


@frozen(eq=False)
class Scope:
    """The variables of a block, the blocks in it, and its instructions. ``function`` is the name of one whose body this is;
    where that was inlined, ``call`` is the line of the call."""

    symbols: tuple[Symbol, ...]
    scopes: tuple[Scope, ...] = ()
    ranges: tuple[Range, ...] = ()
    function: str = ""
    call: tuple[str, int] | None = None

    def holds(self, at: int) -> bool:
        """Whether an instruction is in it."""
        return any(start <= at < stop for start, stop in self.ranges)


WIDTHS = {".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8}
_LABEL = re.compile(r"\s*([\w$%.]+)\s*:\s*")
_TERM = re.compile(r"\s*([-+]?)\s*([\w$%.]+)")


class Sections:
    """The sections of a module (PTX ISA: Debugging Directives), as bytes. A label is its offset in its section, a section's name 0; ``symbols`` are the
    addresses of labels of code and of variables."""

    def __init__(self, sections: Iterable[ast.Section], symbols: Mapping[str, int]) -> None:
        self.labels = dict(symbols)
        data: dict[str, list[tuple[int, list[str]]]] = {}
        for section in sections:
            lines, at = data.setdefault(section.name, []), 0
            self.labels.setdefault(section.name, 0)
            for line in section.data.split("\n"):
                text = line.partition("//")[0]
                while label := _LABEL.match(text):
                    self.labels[label[1]] = at
                    text = text[label.end() :]
                words = text.split(maxsplit=1)
                if words and words[0] in WIDTHS:
                    width, items = WIDTHS[words[0]], words[1].split(",")
                    lines.append((width, items))
                    at += width * len(items)
        self.data = {
            name: b"".join(_bytes(item, width, self.labels) for width, items in lines for item in items)
            for name, lines in data.items()
        }

    def text(self, label: str, offset: int = 0) -> str:
        """The text of ``.debug_str`` at a label."""
        data, start = self.data.get(".debug_str", b""), self.labels.get(label, 0) + offset
        return data[start : data.find(b"\0", start)].decode("utf-8", "replace")


def _bytes(item: str, width: int, values: Mapping[str, int]) -> bytes:
    """A number, or a sum of numbers and symbols; a symbol that stands for nothing is 0."""
    total = 0
    for sign, word in _TERM.findall(item):
        value = int(word.rstrip("U"), 0) if word[0].isdigit() else values.get(word, 0)
        total += -value if sign == "-" else value
    return (total & (1 << 8 * width) - 1).to_bytes(width, "little")


class DebugInfo:
    """What the sections of a module say. ``bodies`` are the scopes of functions by name, ``types`` those with a name."""

    def __init__(self, program: Program) -> None:
        self.functions = list(program.functions.values())
        self.files = program.files
        in_order = [v.name for v in program.variables]
        for function in self.functions:
            in_order += [*(p.name for p in function.params), *(v.name for v in function.variables)]
        self.names = list(dict.fromkeys(in_order))
        addresses = {name: DATA + (n << FUNCTION) for n, name in enumerate(self.names)}
        for number, function in enumerate(self.functions):
            addresses.update({label: (number + 1 << FUNCTION) + at for label, at in function.labels.items()})
        self.shared = {v.name for f in self.functions for v in f.variables if not v.in_frame}
        self.shared |= {v.name for v in program.variables}
        texts = Sections(program.sections, addresses)
        self.text, self.sections = texts.text, texts.data
        self.by_offset: dict[int, Entry] = {}
        self.made: dict[int, CType] = {}
        self.types: dict[str, CType] = {}
        self.globals: list[Symbol] = []
        self.bodies: dict[str, Scope] = {}
        with contextlib.suppress(UnknownForm, RecursionError):  # of another compiler: names and accesses serve
            units = entries(self.sections)
            for unit in units:
                self._note(unit)
            for unit in units:
                self.base = unit.number(At.LOW)
                self._unit(unit.children, "")

    def _note(self, entry: Entry) -> None:
        self.by_offset[entry.offset] = entry
        for child in entry.children:
            self._note(child)

    def _unit(self, children: Iterable[Entry], prefix: str) -> None:
        """Read the entries of a unit, or of a namespace in it."""
        for entry in children:
            name = prefix + self._text(entry, At.NAME)
            if entry.tag == Tag.VARIABLE:
                symbol = self._symbol(entry, prefix)
                self.globals += [symbol] if symbol is not None else []
            elif entry.tag == Tag.SUBPROGRAM:
                self._function(entry)
            elif entry.tag == Tag.NAMESPACE:
                self._unit(entry.children, f"{name}::" if name != prefix else prefix)
            elif name and entry.tag in (*_WORDS, Tag.TYPEDEF, Tag.ENUMERATION):
                self.types.setdefault(name, self.type(entry.offset))

    # ---- scopes ------------------------------------------------------------------------------

    def _function(self, entry: Entry) -> None:
        number = (entry.number(At.LOW) >> FUNCTION) - 1
        if not 0 <= number < len(self.functions):
            return
        scope = self._scope(entry)
        fixed, rest = _without(scope, self.shared)
        made = attrs.evolve(rest, symbols=(*rest.symbols, *fixed), ranges=(), function=self._text(entry, At.NAME))
        self.bodies.setdefault(self.functions[number].name, made)

    def _scope(self, entry: Entry) -> Scope:
        symbols, scopes = list[Symbol](), list[Scope]()
        for child in entry.children:
            if child.tag in (Tag.VARIABLE, Tag.PARAMETER):
                symbol = self._symbol(child)
                symbols += [symbol] if symbol is not None else []
            elif child.tag in _INNER:
                scopes.append(self._scope(child))
        inlined = entry.tag == Tag.INLINED
        call = (self.files.get(entry.number(At.CALL_FILE), ""), entry.number(At.CALL_LINE)) if inlined else None
        name = self._text(entry, At.NAME) if inlined else ""
        return Scope(tuple(symbols), tuple(scopes), self._ranges(entry), name, call)

    def _ranges(self, entry: Entry) -> tuple[Range, ...]:
        if At.RANGES in entry.attributes:
            listed = self.sections.get(".debug_ranges", b"")
            found = [(low, high) for low, high, _ in pairs(listed, entry.number(At.RANGES), self.base, places=False)]
        else:
            low, high = entry.number(At.LOW), entry.number(At.HIGH)
            found = [(low, high if high >> FUNCTION else low + high)] if low else []
        return tuple([(_number(low), _number(high)) for low, high in found])

    def _symbol(self, entry: Entry, prefix: str = "") -> Symbol | None:
        """A variable; None for the declaration of one that is elsewhere."""
        name = self._text(entry, At.NAME)
        if not name or (At.LOCATION not in entry.attributes and entry.number(At.DECLARATION)):
            return None
        found = self._places(entry)
        type = self.type(self._attribute(entry, At.TYPE))
        return Symbol(prefix + source_name(name), type, found, parameter=entry.tag == Tag.PARAMETER)

    def _places(self, entry: Entry) -> tuple[Place, ...]:
        given = entry.attributes.get(At.LOCATION)
        if isinstance(given, bytes):
            made = self._place(given)
            return () if made is None else (made,)
        if not isinstance(given, int):
            return ()
        found = []
        for low, high, expression in pairs(self.sections.get(".debug_loc", b""), given, self.base, places=True):
            made = self._place(expression)
            if made is not None:
                found.append(attrs.evolve(made, start=_number(low), stop=_number(high)))
        return tuple(found)

    def _place(self, expression: bytes) -> Place | None:
        found = place(expression)
        if found is None:
            return None
        base, offset = found
        if isinstance(base, str):
            return Place(base, register=True)
        number = (base - DATA) >> FUNCTION
        return Place(self.names[number], offset + _number(base)) if 0 <= number < len(self.names) else None

    # ---- types -------------------------------------------------------------------------------

    def type(self, offset: int | None) -> CType:
        """The type that an entry describes."""
        if offset is None or offset not in self.by_offset:
            return VOID
        if offset not in self.made:
            self.made[offset] = VOID  # an entry that is part of itself has no size
            self.made[offset] = self._type(self.by_offset[offset])
        return self.made[offset]

    def _type(self, entry: Entry) -> CType:
        name, inner = self._text(entry, At.NAME), self._attribute(entry, At.TYPE)
        match entry.tag:
            case Tag.BASE:
                return self._base(entry, name)
            case Tag.POINTER:
                return Pointer(lambda: self.type(inner))
            case Tag.REFERENCE | Tag.RVALUE_REFERENCE:
                return Pointer(lambda: self.type(inner), sign="&")
            case Tag.ARRAY:
                return self._array(entry, self.type(inner))
            case Tag.STRUCT | Tag.CLASS | Tag.UNION:
                return self._struct(entry, name)
            case Tag.ENUMERATION:
                size = entry.number(At.BYTE_SIZE, 4)
                words = {c.number(At.CONST_VALUE): c.text(At.NAME) for c in entry.children if c.tag == Tag.ENUMERATOR}
                return Scalar(name, TYPES[f"s{8 * size}" if f"s{8 * size}" in TYPES else "s32"], words)
            case Tag.TYPEDEF:
                return _named(self.type(inner), name)
            case Tag.CONST | Tag.VOLATILE:
                word = "const" if entry.tag == Tag.CONST else "volatile"
                qualified = self.type(inner)
                return _named(qualified, f"{word} {qualified.name}") if isinstance(qualified, Scalar) else qualified
        return self.type(inner)

    def _base(self, entry: Entry, name: str) -> CType:
        encoding, size = entry.number(At.ENCODING), entry.number(At.BYTE_SIZE)
        type = _NUMBERED.get(f"{_KINDS.get(encoding, 'u')}{8 * size}")
        if type is None:
            return Struct(name, size, ())
        return Scalar(name, type, TRUTH if encoding == 2 else {}, encoding in (6, 8))

    def _array(self, entry: Entry, of: CType) -> CType:
        for child in reversed(entry.children):
            if child.tag == Tag.SUBRANGE:
                default = child.number(At.UPPER_BOUND, -1) + 1
                of = Array(of, child.number(At.COUNT, default))
        return of

    def _struct(self, entry: Entry, name: str) -> CType:
        if name in NAMED:
            return Scalar(name, TYPES[NAMED[name]])
        members = []
        for child in entry.children:
            at = child.attributes.get(At.MEMBER_LOCATION, 0 if entry.tag == Tag.UNION else None)
            offset = place(b"\x03" + bytes(8) + at) if isinstance(at, bytes) else None
            at = offset[1] if offset is not None else at
            if (
                child.tag in (Tag.MEMBER, Tag.INHERITANCE)
                and isinstance(at, int)
                and At.BIT_SIZE not in child.attributes
            ):
                members.append(Member(child.text(At.NAME), self.type(self._attribute(child, At.TYPE)), at))
        return Struct(name, entry.number(At.BYTE_SIZE), tuple(members), _WORDS[Tag(entry.tag)])

    # ---- attributes --------------------------------------------------------------------------

    def _origin(self, entry: Entry) -> Entry | None:
        """The entry of which this one is an instance."""
        return self.by_offset.get(entry.number(At.ORIGIN, entry.number(At.SPECIFICATION, -1)))

    def _attribute(self, entry: Entry, name: At) -> int | None:
        if name in entry.attributes:
            return entry.number(name)
        origin = self._origin(entry)
        return None if origin is None else self._attribute(origin, name)

    def _text(self, entry: Entry, name: At) -> str:
        origin = self._origin(entry)
        return entry.text(name) or ("" if origin is None else self._text(origin, name))


def _number(address: int) -> int:
    return address & (1 << FUNCTION) - 1


def _named(type: CType, name: str) -> CType:
    return attrs.evolve(type, name=name) if isinstance(type, (Scalar, Struct)) and type is not VOID else type


def _without(scope: Scope, fixed: set[str]) -> tuple[list[Symbol], Scope]:
    """The variables of a block and those in it that exist all the time, and the block without them."""
    found = [s for s in scope.symbols if scope.call is None and s.places and s.places[0].of in fixed]
    inner = [_without(each, fixed) for each in scope.scopes]
    kept = tuple([symbol for symbol in scope.symbols if symbol not in found])
    rest = attrs.evolve(scope, symbols=kept, scopes=tuple([each for _, each in inner]))
    return [*found, *(symbol for symbols, _ in inner for symbol in symbols)], rest
