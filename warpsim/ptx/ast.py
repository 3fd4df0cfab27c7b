"""The syntax tree of a PTX module: uniform, without knowledge of any opcode.

Every node carries the span of its first character, so that later phases can point at the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import attrs

from warpsim.errors import Span
from warpsim.records import frozen

# ---- operands -----------------------------------------------------------------------------------


@frozen
class Integer:
    """An integer literal or folded constant expression; ``unsigned`` if it had a U suffix."""

    value: int
    unsigned: bool
    span: Span = attrs.field(eq=False)


@frozen
class Float:
    """A float literal as bits of its own width: 32 for ``0f``, 64 for ``0d`` and decimals."""

    bits: int
    width: int
    span: Span = attrs.field(eq=False)


@frozen
class Name:
    """An identifier in operand position: register, label, symbol, function or special register.

    Special registers keep their component: ``%tid.x`` is one name.
    """

    text: str
    span: Span = attrs.field(eq=False)


@frozen
class Sink:
    """The ``_`` destination."""

    span: Span = attrs.field(eq=False)


@frozen
class Negated:
    """``!p`` as an operand."""

    operand: Name
    span: Span = attrs.field(eq=False)


@frozen
class Negative:
    """``-name``: a minus in front of a name (``-sym`` in old texts)."""

    operand: Operand
    span: Span = attrs.field(eq=False)


@frozen
class Vector:
    """``{a, b, ...}``."""

    elements: tuple[Operand, ...]
    span: Span = attrs.field(eq=False)


@frozen
class Pair:
    """``d|p``: two destinations in one operand."""

    first: Operand
    second: Operand
    span: Span = attrs.field(eq=False)


@frozen
class SymbolOffset:
    """``name+4`` outside brackets, and ``local0[4]`` (a subscripted symbol)."""

    symbol: Name
    offset: int
    span: Span = attrs.field(eq=False)
    subscript: bool = attrs.field(default=False, eq=False)


@frozen
class Component:
    """``r.x``: one element of a vector register."""

    base: Name
    component: str
    span: Span = attrs.field(eq=False)


@frozen
class Address:
    """``[base + offset]``; ``base`` is None for ``[imm]``. ``extra`` holds what follows a comma:
    ``[tensor_map, {c0, c1}]``."""

    base: Name | None
    offset: int
    span: Span = attrs.field(eq=False)
    extra: tuple[Operand, ...] = ()


@frozen
class Group:
    """``(a, b)``: the parenthesised lists of ``call``."""

    elements: tuple[Operand, ...]
    span: Span = attrs.field(eq=False)


Operand = (
    Integer | Float | Name | Sink | Negated | Negative | Vector | Pair | SymbolOffset | Component | Address | Group
)

# ---- statements ---------------------------------------------------------------------------------

_WORD = re.compile(r"[,:+-]|[^\s,:+-]+(?:::[^\s,:+-]+)*")


@frozen
class Guard:
    """``@p`` or ``@!p``."""

    register: Name
    negated: bool
    span: Span = attrs.field(eq=False)


@frozen
class Instruction:
    """``@p opcode.modifier.modifier a, b;``.

    ``opcode`` is the first word (``mma``, ``cp``, ``wgmma``), ``modifiers`` are the following dotted words without
    their dots (``cp.async.bulk`` has ``async`` and ``bulk``; ``::`` stays inside a word: ``shared::cta``). ``text`` is
    the instruction as written.
    """

    guard: Guard | None
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    span: Span = attrs.field(eq=False)


@frozen
class Label:
    """``name:``."""

    name: str
    span: Span = attrs.field(eq=False)


@frozen
class Initialiser:
    """One leaf of an initialiser list: a literal, or the address of a symbol (``generic`` for ``generic(sym)``;
    ``mask`` for ``0xFF(sym)``, which selects a byte)."""

    value: Integer | Float | None
    symbol: Name | None
    offset: int
    generic: bool
    mask: int | None
    span: Span = attrs.field(eq=False)


@frozen
class Numbers:
    """Consecutive leaves that are numbers: integers of 64 bits, or the bits of floating-point literals of a ``width``."""

    values: tuple[int, ...]
    width: int
    """0 for integers."""
    span: Span = attrs.field(eq=False)


class Leaf(NamedTuple):
    """An `Initialiser` among many: the address of a symbol and what is added to it, or an integer (without a symbol)."""

    symbol: str | None
    offset: int
    generic: bool
    mask: int | None


@frozen
class Addresses:
    """Consecutive leaves, some of them addresses; ``text`` is what they were written as."""

    values: tuple[Leaf, ...]
    text: str = attrs.field(eq=False, repr=False)
    span: Span = attrs.field(eq=False)

    def first(self) -> Initialiser:
        """The first leaf, as if it stood alone."""
        (symbol, offset, generic, mask), span = self.values[0], self.span
        if symbol is None:
            return Initialiser(Integer(offset, unsigned=False, span=span), None, 0, generic, mask, span)
        return Initialiser(None, Name(symbol, span), offset, generic, mask, span)

    def places(self) -> list[Span]:
        """Where each leaf stands."""
        found = []
        line, column = self.span.line, self.span.column
        for part in self.text.split(","):
            blank = part[: len(part) - len(part.lstrip())]
            line += blank.count("\n")
            column = len(blank) - blank.rfind("\n") if "\n" in blank else column + len(blank)
            word = part.strip()
            found.append(Span(self.span.file, line, column, len(word)))
            rest = part[len(blank) :]
            line += rest.count("\n")
            column = len(rest) - rest.rfind("\n") + 1 if "\n" in rest else column + len(rest) + 1
        return found


@frozen
class Field:
    """A field of a texture, sampler or surface, and its initial value: ``filter_mode = nearest``."""

    name: str
    value: Integer | Float | Name
    span: Span = attrs.field(eq=False)


InitialiserTree = Initialiser | Numbers | Addresses | Field | tuple["InitialiserTree", ...]


@frozen
class Declarator:
    """One declared name. ``count`` is N of ``%r<N>`` or None; ``dimensions`` of ``x[4][8]`` (None for ``[]``)."""

    name: str
    count: int | None
    dimensions: tuple[int | None, ...]
    initialiser: InitialiserTree | None
    span: Span = attrs.field(eq=False)


@frozen
class Variable:
    """``.space .align N .type declarators``, at module level, in a body, or as a parameter.

    ``linkage`` is visible, extern, weak, common or None; ``vector`` is 1, 2 or 4; ``pointer`` is ``(space or None,
    alignment or None)`` of a parameter's ``.ptr``; ``attributes`` are those of ``.attribute(...)``.
    """

    space: str
    type: str
    declarators: tuple[Declarator, ...]
    span: Span = attrs.field(eq=False)
    linkage: str | None = None
    align: int | None = None
    vector: int = 1
    pointer: tuple[str | None, int | None] | None = None
    attributes: tuple[str, ...] = ()


@frozen
class Directive:
    """A directive with plain arguments: ``.maxntid 256, 1, 1``, ``.pragma "nounroll"``, ``.file``, ``.loc``,
    ``.branchtargets``, ``.calltargets``, ``.alias``, ``.noreturn``. A label in front of it is a separate Label
    statement."""

    name: str
    arguments: tuple[int | str, ...]
    span: Span = attrs.field(eq=False)


@frozen
class CallPrototype:
    """``.callprototype (.param .b32 _) _ (.param .b64 _)``; its label precedes it."""

    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    noreturn: bool
    span: Span = attrs.field(eq=False)


@frozen
class Block:
    """``{ ... }``: a scope for registers, variables and labels; ``end`` is its closing brace."""

    statements: tuple[Statement, ...]
    span: Span = attrs.field(eq=False)
    end: Span = attrs.field(eq=False)


def statements(data: str) -> tuple[str, ...]:
    """The statements of a section, one a line, with a blank between words."""
    lines = [_WORD.findall(line.partition("//")[0]) for line in data.split("\n")]
    return tuple([" ".join(words).replace(" ,", ",").replace(" :", ":") for words in lines if words])


@frozen
class Section:
    """``.section .debug_info { ... }``: kept as text, a statement a line, and never interpreted."""

    name: str
    data: str = attrs.field(eq=statements)
    span: Span = attrs.field(eq=False)


Statement = Instruction | Label | Variable | Directive | CallPrototype | Block | Section


@frozen
class Function:
    """``.entry`` or ``.func``; ``body`` is None for a declaration; ``heading`` is the token that ends its heading."""

    name: str
    entry: bool
    linkage: str | None
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    directives: tuple[Directive, ...]
    body: Block | None
    span: Span = attrs.field(eq=False)
    heading: Span = attrs.field(eq=False)
    attributes: tuple[str, ...] = ()


@frozen
class Module:
    """A whole module. ``items`` keeps the order of everything after the three header directives."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[Function | Variable | Directive | Section, ...]
    file: str = attrs.field(eq=False, default="<ptx>")
    source: str = attrs.field(eq=False, repr=False, default="")
