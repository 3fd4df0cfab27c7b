"""The expression grammar of debug sessions: parses text into a tree. No Python is evaluated.

::

    expression   C operators with their precedence: || && | ^ & == != < <= > >= << >> @ + - * / % and unary - ~ ! & *
    value        12  0x1f  1.5  0f3F800000  %r3  %tid.x  name  space::name  threadIdx.x  (expression)
    of C types   ring[1].a[3]  p->next  *tile@8 (8 elements from there on)  (float*)p  sizeof(ring)
    of an array  s[12]  s[4:8]  s.f32[12]  (elements of another type)  %r3[5]  (lane 5)
    of memory    global.f32[address]  shared.u32[64]  local.u8[0]  u64[address]  (a generic address)
    of bits      f16x2(%r5).hi  e4m3x4(%r5)[2]  f32(%r1)  s16(%r2)
"""

from __future__ import annotations

import re

import numpy as np

from warpsim.debug.errors import DebugError
from warpsim.errors import shown
from warpsim.program.c_types import NAMED
from warpsim.records import frozen
from warpsim.types import TYPES

SPACES = ("global", "const", "shared", "local", "param", "generic")
LONGEST, DEEPEST = 4096, 64
DIGITS = 400
NUMBERS = {*NAMED, "unsigned", "void", "half"}
"""Types of C that begin a cast."""
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<ptx>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b)
    | (?P<hex>0[xX][0-9a-fA-F]+)
    | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<int>[0-9]+)
    | (?P<name>%?[A-Za-z_$][A-Za-z0-9_$]*(?:::[A-Za-z_$][A-Za-z0-9_$]*)*)
    | (?P<op>\|\||&&|==|!=|<=|>=|<<|>>|->|[-+*/%&|^~!<>()\[\].:@])
    )""",
    re.VERBOSE | re.ASCII,
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "@", "+ -", "* / %")
_PRECEDENCE = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators.split()}


@frozen
class Number:
    """A constant: an integer, or a float of its width; a decimal one has 64 bits."""

    value: int | float | np.floating


@frozen
class Name:
    """A register, a special register, a variable or a parameter, by name."""

    text: str


@frozen
class Memory:
    """The base of an index into memory: ``space.type``, or a variable with another element type."""

    base: str
    type: str


@frozen
class Index:
    """One element, or the elements from ``index`` up to ``stop``."""

    base: Node
    index: Node
    stop: Node | None = None


@frozen
class Field:
    """A part of packed bits, or a component of a vector."""

    base: Node
    name: str


@frozen
class Bits:
    """The bits of a value reinterpreted as a type."""

    type: str
    operand: Node


@frozen
class Cast:
    """A value as a type of C; ``sizeof`` of a type is one without an operand."""

    type: str
    stars: int
    operand: Node | None


@frozen
class Operation:
    """An operator and its one or two operands; ``&`` of one is the address of a variable, ``*`` what a pointer points to,
    ``@`` of two an array of elements."""

    operator: str
    left: Node
    right: Node | None = None


Node = Number | Name | Memory | Index | Field | Bits | Cast | Operation


def parse(text: str) -> Node:
    """Parse an expression.

    Raises:
        DebugError: a syntax error; the message says what was expected, and where.
    """
    if not isinstance(text, str):
        raise DebugError(f"an expression is text, not {shown(text)}")
    if len(text) > LONGEST:
        raise DebugError(f"an expression has at most {LONGEST} characters")
    parser = _Parser(text)
    found = parser.expression()
    if parser.kind != "end":
        raise parser.expected("an operator")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.depth = text, list[tuple[str, str, int]](), 0, 0
        start = 0
        while start < len(text.rstrip()):
            found = _TOKEN.match(text, start)
            if found is None:
                raise self.problem("something else", len(text) - len(text[start:].lstrip()))
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            start = found.end()
        self.tokens.append(("end", "", len(text)))

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def word(self) -> str:
        return self.tokens[self.at][1]

    def problem(self, said: str, place: int) -> DebugError:
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return DebugError(f"{said}\n    {shown}\n    {' ' * min(place, 120)}^")

    def expected(self, what: str) -> DebugError:
        kind, word, place = self.tokens[self.at]
        return self.problem(f"expected {what}, not {'the end' if kind == 'end' else repr(word)}", place)

    def take(self, *operators: str) -> bool:
        """Consume the next token if it is one of these operators."""
        found = self.kind == "op" and self.word in operators
        self.at += found
        return found

    def expect(self, operator: str) -> None:
        if not self.take(operator):
            raise self.expected(repr(operator))

    def name(self, what: str) -> str:
        if self.kind != "name":
            raise self.expected(what)
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expression(self, level: int = 0) -> Node:
        """Left-associative operators of at least a level of precedence."""
        left = self.unary()
        while self.kind == "op" and _PRECEDENCE.get(operator := self.word, -1) >= level:
            self.at += 1
            left = Operation(operator, left, self.expression(_PRECEDENCE[operator] + 1))
        return left

    def unary(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise DebugError(f"an expression nests at most {DEEPEST} deep")
        operator = self.word
        found = Operation(operator, self.unary()) if self.take(*"-~!&+*") else self.postfix(self.primary())
        self.depth -= 1
        return found

    def primary(self) -> Node:
        if self.take("("):
            type = self.type()
            if type is not None:
                return Cast(*type, self.unary())
            found = self.expression()
            self.expect(")")
            return found
        if self.kind in ("int", "hex", "float", "ptx"):
            self.at += 1
            return Number(self.number(*self.tokens[self.at - 1]))
        word = self.name("a value")
        if word == "sizeof":
            type = self.type() if self.take("(") else None
            return Cast(*type, None) if type is not None else Operation("sizeof", self.sized())
        if word in TYPES and self.take("("):
            found = self.expression()
            self.expect(")")
            return Bits(word, found)
        return Name(word)

    def sized(self) -> Node:
        """What ``sizeof`` or ``sizeof (`` stands before."""
        if self.tokens[self.at - 1][1] != "(":
            return self.unary()
        found = self.expression()
        self.expect(")")
        return found

    def type(self) -> tuple[str, int] | None:
        """The type of C before a closing parenthesis, and its stars; None, and nothing consumed, if none stands here."""
        start, words = self.at, list[str]()
        while self.kind == "name" and not self.word.startswith("%"):
            words.append(self.name("a type"))
        stars = 0
        while words and self.take("*", "&"):
            stars += 1
        name = " ".join(word for word in words if word not in ("const", "volatile", "struct", "class"))
        if words and (stars or name in NUMBERS or "struct" in words) and self.take(")"):
            return name, stars
        self.at = start
        return None

    def number(self, kind: str, word: str, place: int) -> int | float | np.floating:
        if len(word) > DIGITS:
            raise self.problem(f"a constant has at most {DIGITS} digits", place)
        if kind == "ptx":
            raw = bytes.fromhex(word[2:])
            return np.frombuffer(raw[::-1], f"<f{len(raw)}")[0]
        return float(word) if kind == "float" else int(word, 16 if kind == "hex" else 10)

    def postfix(self, base: Node) -> Node:
        """Indices and fields."""
        while True:
            if self.take("["):
                if isinstance(base, Name) and base.text in TYPES:
                    base = Memory("generic", base.text)
                index = self.expression()
                base = Index(base, index, self.expression() if self.take(":") else None)
                self.expect("]")
            elif self.take("->"):
                base = Field(Operation("*", base), self.name("a member"))
            elif self.take("."):
                word = self.name("a field")
                if not (isinstance(base, Name) and word in TYPES):
                    base = Field(base, word)
                    continue
                base = Memory(base.text, word)
                if self.word != "[":
                    raise self.expected("'['")
            else:
                return base
