"""The expression grammar of debug sessions: parses text into a tree. No Python is evaluated.

::

    expression   C operators with their precedence: || && | ^ & == != < <= > >= << >> + - * / % and unary - ~ ! &
    value        12  0x1f  1.5  0f3F800000  %r3  %tid.x  name  threadIdx.x  (expression)
    of an array  s[12]  s[4:8]  s.f32[12]  (elements of another type)  %r3[5]  (lane 5)
    of memory    global.f32[address]  shared.u32[64]  local.u8[0]  u64[address]  (a generic address)
    of bits      f16x2(%r5).hi  e4m3x4(%r5)[2]  f32(%r1)  s16(%r2)
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np

from warpsim.debug.errors import DebugError
from warpsim.errors import shown
from warpsim.types import TYPES

SPACES = ("global", "shared", "local", "const", "param", "generic")
LONGEST, DEEPEST = 4096, 64
DIGITS = 400
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<ptx>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b)
    | (?P<hex>0[xX][0-9a-fA-F]+)
    | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<int>[0-9]+)
    | (?P<name>%?[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<op>\|\||&&|==|!=|<=|>=|<<|>>|[-+*/%&|^~!<>()\[\].:])
    )""",
    re.VERBOSE | re.ASCII,
)
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)


@attrs.frozen
class Number:
    """A constant: an integer, or a float of its width; a decimal one has 64 bits."""

    value: int | float | np.floating[Any]


@attrs.frozen
class Name:
    """A register, a special register, a variable or a parameter, by name."""

    text: str


@attrs.frozen
class Memory:
    """The base of an index into memory: ``space.type``, or a variable with another element type."""

    base: str
    type: str


@attrs.frozen
class Index:
    """One element, or the elements from ``index`` up to ``stop``."""

    base: Node
    index: Node
    stop: Node | None = None


@attrs.frozen
class Field:
    """A part of packed bits, or a component of a vector."""

    base: Node
    name: str


@attrs.frozen
class Bits:
    """The bits of a value reinterpreted as a type."""

    type: str
    operand: Node


@attrs.frozen
class Unary:
    """A unary operator; ``&`` takes the address of a variable."""

    operator: str
    operand: Node


@attrs.frozen
class Binary:
    """A binary operator."""

    operator: str
    left: Node
    right: Node


Node = Number | Name | Memory | Index | Field | Bits | Unary | Binary


def parse(text: str) -> Node:
    """Parse an expression.

    Raises:
        DebugError: a syntax error; the message says what was expected, and where.
    """
    if not isinstance(text, str):
        raise DebugError(f"an expression is text, not {shown(text)}")
    if len(text) > LONGEST:
        raise DebugError(f"an expression has at most {LONGEST} characters")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.problem("something else", len(text) - len(text[at:].lstrip()))
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            at = found.end()
        self.tokens.append(("end", "", len(text)))
        self.at = self.depth = 0

    def problem(self, expected: str, place: int | None = None) -> DebugError:
        """Make the error for a token that does not fit."""
        if place is None:
            kind, word, place = self.tokens[self.at]
            expected = f"expected {expected}, not {'the end' if kind == 'end' else repr(word)}"
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return DebugError(f"{expected}\n    {shown}\n    {' ' * min(place, 120)}^")

    def take(self, *words: str) -> str | None:
        """Consume and return the next token if it is one of these operators."""
        kind, word, _ = self.tokens[self.at]
        if kind == "op" and word in words:
            self.at += 1
            return word
        return None

    def expect(self, word: str) -> None:
        """Consume a token that must come next."""
        if self.take(word) is None:
            raise self.problem(repr(word))

    def whole(self) -> Node:
        """Parse the whole text."""
        found = self.binary(0)
        if self.tokens[self.at][0] != "end":
            raise self.problem("an operator")
        return found

    def binary(self, level: int) -> Node:
        """Parse left-associative operators of one precedence."""
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while (operator := self.take(*_LEVELS[level])) is not None:
            left = Binary(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        """Parse signs and their operand."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise DebugError(f"an expression nests at most {DEEPEST} deep")
        operator = self.take("-", "~", "!", "&", "+")
        found = self.postfix(self.primary()) if operator is None else Unary(operator, self.unary())
        self.depth -= 1
        return found

    def primary(self) -> Node:
        """Parse a constant, a name, or a parenthesised expression."""
        kind, word, place = self.tokens[self.at]
        if self.take("("):
            found = self.binary(0)
            self.expect(")")
            return found
        if kind in ("int", "hex", "float", "ptx"):
            self.at += 1
            return Number(self.number(kind, word, place))
        if kind != "name":
            raise self.problem("a value")
        self.at += 1
        if word in TYPES and self.take("("):
            found = self.binary(0)
            self.expect(")")
            return Bits(word, found)
        return Name(word)

    def number(self, kind: str, word: str, place: int) -> int | float | np.floating[Any]:
        """Convert a constant's text to its value."""
        if len(word) > DIGITS:
            raise self.problem(f"a constant has at most {DIGITS} digits", place)
        if kind == "ptx":
            raw = bytes.fromhex(word[2:])
            return np.frombuffer(raw[::-1], f"<f{len(raw)}")[0]
        return float(word) if kind == "float" else int(word, 16 if kind == "hex" else 10)

    def postfix(self, base: Node) -> Node:
        """Parse indices and fields."""
        while True:
            if self.take("["):
                base = self.indexed(
                    Memory("generic", base.text) if isinstance(base, Name) and base.text in TYPES else base
                )
            elif self.take("."):
                kind, word, _ = self.tokens[self.at]
                if kind != "name":
                    raise self.problem("a field")
                self.at += 1
                if isinstance(base, Name) and word in TYPES:
                    base = Memory(base.text, word)
                    if self.tokens[self.at][1] != "[":
                        raise self.problem("'['")
                else:
                    base = Field(base, word)
            else:
                return base

    def indexed(self, base: Node) -> Node:
        """Parse the inside of brackets."""
        index = self.binary(0)
        stop = self.binary(0) if self.take(":") else None
        self.expect("]")
        return Index(base, index, stop)
