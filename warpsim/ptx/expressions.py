"""Parses operands, literals and constant expressions."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from warpsim.errors import Finding
from warpsim.ptx import ast
from warpsim.ptx.tokens import Stream, SyntaxProblem, is_normal

PRECEDENCE = {
    operator: level
    for level, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"),
    )
    for operator in operators.split()
}
"""Binding strength of each binary operator, in C's order."""

MAX_FINDINGS = 200
MAX_NESTING = 100
MOST_ELEMENTS = 1024
"""Most elements of a vector; those of instructions have fewer."""
MOST = {2: 64, 8: 21, 10: 19, 16: 16}
"""Digits by base of which any number fits 64 bits."""
_THREE = "tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid"
WITH_COMPONENTS = frozenset(f"%{name}" for name in _THREE.split())
"""Special registers with an x, y, z and w."""
AXES = dict(zip("xyzwrgba", "xyzwxyzw", strict=True))
"""The components of a vector, and what they are called otherwise."""
_SELECTOR = re.compile(r"b[0-7]{1,4}|h[0-3]{1,2}")


def decode_integer(text: str) -> tuple[int, bool]:
    """The 64 bits and unsignedness of an integer literal. The assembler drops what leaves them at the top, unless the
    top bit is set before another digit follows (tried with ptxas 13.0)."""
    unsigned = text.endswith("U")
    digits = text[:-1] if unsigned else text
    prefix, base = digits[:2].lower(), 10
    if prefix in ("0x", "0b"):
        digits, base = digits[2:], 16 if prefix == "0x" else 2
    elif digits[0] == "0":
        base = 8
    digits = digits.lstrip("0") or digits[:1]
    if len(digits) <= MOST[base]:
        return int(digits, base), unsigned
    value = 0
    for digit in digits:
        if value >> 63:
            raise ValueError(text[:40])
        value = (value * base + int(digit, base)) & 2**64 - 1
    return value, unsigned


def decode_float(text: str) -> tuple[int, int]:
    """The bits and width of a floating-point literal in hexadecimal."""
    return int(text[2:], 16), 32 if text[1] in "fF" else 64


ENDS = frozenset(",;}])|")
"""What may stand behind an operand."""


class Expressions:
    """Parses operands. ``findings`` are the problems of the whole text so far."""

    def __init__(self, stream: Stream) -> None:
        self.s = stream
        self.findings: list[Finding] = []
        self.nesting = 0

    def note(self, problem: SyntaxProblem) -> None:
        """Record a problem; parsing continues."""
        span = problem.span
        last = self.findings[-1] if self.findings else None
        repeated = last is not None and (last.line, last.column) == (span.line, span.column)
        if len(self.findings) < MAX_FINDINGS and not repeated:
            self.findings.append(
                Finding(
                    problem.rule,
                    problem.message,
                    advice=problem.advice,
                    file=span.file,
                    line=span.line,
                    column=span.column,
                    text=self.s.line_text(span.line),
                )
            )

    def operand(self) -> ast.Operand:
        """Parse one operand of an instruction."""
        s = self.s
        kind, text = s.kind, s.text
        if kind == "word" and (text != "WARP_SZ" or s.texts[s.i + 1] in ENDS):
            return self._name_operand()
        if text == "[":
            return self._address()
        if text == "{":
            return self._pair(self._vector())
        if text == "!" and s.kinds[s.i + 1] == "word":
            span = s.span()
            s.skip()
            name_span = s.span()
            return ast.Negated(ast.Name(s.word("a predicate register"), name_span), span)
        if text == "-" and s.kinds[s.i + 1] == "word" and s.texts[s.i + 1] != "WARP_SZ":
            span = s.span()
            s.skip()
            return ast.Negative(self._name_operand(), span)
        return self.literal()

    def _name_operand(self) -> ast.Operand:
        s = self.s
        span = s.span()
        text = s.take()
        if text == "_":
            return self._pair(ast.Sink(span))
        if s.kind == "dotted":
            component = s.text[1:]
            if component in AXES and text in WITH_COMPONENTS:
                s.skip()
                return ast.Name(f"{text}.{AXES[component]}", span)
            if component in AXES or _SELECTOR.fullmatch(component):
                s.skip()
                return ast.Component(ast.Name(text, span), component, span)
            raise s.problem(f"found {s.shown()} after the operand {text}")
        name = ast.Name(text, span)
        if s.text == "[":
            s.skip()
            offset = self.constant()
            s.expect("]")
            return ast.SymbolOffset(name, offset, span, subscript=True)
        if s.accept("+"):
            return ast.SymbolOffset(name, self.constant(), span)
        if s.text == "-":
            raise s.problem(f"found '-' after the operand {text}", f"write {text}+-4")
        if s.text == "|":
            return self._pair(name)
        return name

    def _pair(self, first: ast.Operand) -> ast.Operand:
        s = self.s
        if s.text != "|":
            return first
        s.skip()
        span = s.span()
        if isinstance(first, ast.Sink) and s.text == "_":
            raise s.problem("found '_' for both destinations")
        second: ast.Operand
        second = ast.Sink(span) if s.accept("_") else ast.Name(s.word("a register after |"), span)
        return ast.Pair(first, second, span)

    def _address(self) -> ast.Operand:
        s = self.s
        span = s.span()
        s.expect("[")
        base: ast.Name | None = None
        offset = 0
        if s.kind == "word":
            base_span = s.span()
            base = ast.Name(s.take(), base_span)
            if s.accept("+"):
                offset = self.constant()
            elif s.text == "-":
                raise s.problem("found '-' in an address", "write [reg+-imm]")
        else:
            offset = self.constant()
        if base is not None and s.text == "," and s.texts[s.i - 1] != base.text:
            raise s.problem("found ',' after an offset: the address of a tensor map has none")
        extra: list[ast.Operand] = []
        self.enter()
        while s.accept(","):
            extra.append(self.operand())
        self.nesting -= 1
        s.expect("]")
        s.accept(".unified")  # PTX: a hint on ld/ldu of .param or .global that the address is the same in all threads
        return ast.Address(base, offset, span, tuple(extra))

    def _vector(self) -> ast.Operand:
        s = self.s
        span = s.span()
        s.expect("{")
        self.enter()
        elements: list[ast.Operand] = []
        while s.text != "}":
            elements.append(self.operand())
            if not s.accept(","):
                break
            if len(elements) == MOST_ELEMENTS:
                raise s.problem(f"a vector has more than {MOST_ELEMENTS} elements")
            if s.text == "}":
                raise s.problem("found '}' where an element was expected after the comma")
        s.expect("}")
        self.nesting -= 1
        return ast.Vector(tuple(elements), span)

    def group(self) -> ast.Group:
        """Parse ``(a, b)``: names, numbers and sinks."""
        s = self.s
        span = s.span()
        s.expect("(")
        elements: list[ast.Operand] = []
        if not s.accept(")"):
            elements.append(self._argument())
            while s.accept(","):
                elements.append(self._argument())
            s.expect(")")
        return ast.Group(tuple(elements), span)

    def _argument(self) -> ast.Operand:
        s = self.s
        span = s.span()
        if s.kind != "word" or s.text == "WARP_SZ":
            return self.literal()
        name = s.take()
        return ast.Sink(span) if name == "_" else ast.Name(name, span)

    # ---- numbers -----------------------------------------------------------------------------

    def integer(self, bits: int = 32) -> int:
        """Parse a plain integer literal of at most ``bits`` bits."""
        s = self.s
        if s.accept("WARP_SZ"):
            return 32
        if s.kind != "integer":
            raise s.problem(f"found {s.shown()} where a number was expected")
        text = s.text
        value = int(text) if len(text) < 9 and text.isdecimal() and text[0] != "0" else self.decode(text)[0]
        if value >> bits:
            raise s.problem(f"{s.shown()} does not fit {bits} bits", rule="directive")
        s.i += 1
        return value

    def decode(self, text: str) -> tuple[int, bool]:
        """`decode_integer`, as a problem of the text where the number is too large."""
        try:
            return decode_integer(text)
        except ValueError:
            raise self.s.problem(f"{text[:40]} is not a 64-bit number") from None

    def literal(self) -> ast.Integer | ast.Float:
        """Parse an integer or floating-point literal, or a constant expression."""
        s = self.s
        span = s.span()
        if s.kind == "integer" and s.texts[s.i + 1] in (",", ";", "}", "]", ")"):
            number, unsigned = self.decode(s.take())
            return ast.Integer(number, unsigned, span)
        if s.text[:2] in ("0f", "0F", "0d", "0D") and s.kind == "float":
            return ast.Float(*decode_float(s.take()), span)
        value = self._conditional()
        if isinstance(value, Whole):
            return ast.Integer(value.value, unsigned=False, span=span)
        return ast.Float(int(struct.unpack("<Q", struct.pack("<d", value))[0]), 64, span)

    def _decimal(self) -> float:
        """A number with a decimal point or an exponent: zero, or a normal number of 64 bits."""
        s = self.s
        value = float(s.text)
        if not is_normal(value, s.text):
            raise s.problem(f"{s.shown()} is not a normal 64-bit number", "write its bits, as 0d0000000000000001")
        s.skip()
        return value

    def constant(self) -> int:
        """Parse a constant integer expression."""
        span = self.s.span()
        value = self._conditional()
        if isinstance(value, Whole):
            return value.value
        raise SyntaxProblem("found a floating-point number where an integer was expected", span)

    def enter(self) -> None:
        """Count one more open bracket; reject unbounded nesting."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.s.problem(f"operands nest deeper than {MAX_NESTING}")

    def _conditional(self) -> Constant:
        self.enter()
        value = self._binary(0)
        if self.s.accept("?"):
            yes = self._conditional()
            self.s.expect(":")
            value = self._computed(choice, value, yes, self._conditional())
        self.nesting -= 1
        return value

    def _binary(self, least: int) -> Constant:
        s = self.s
        value = self._unary()
        while (level := PRECEDENCE.get(s.text, -1)) >= least:
            operator = s.take()
            value = self._computed(binary, operator, value, self._binary(level + 1))
        return value

    def _computed(self, operation: Callable[..., Constant], *operands: str | Constant) -> Constant:
        try:
            return operation(*operands)
        except ValueError as why:
            raise self.s.problem(str(why)) from None

    def _unary(self) -> Constant:
        self.enter()
        value = self._primary()
        self.nesting -= 1
        return value

    def _primary(self) -> Constant:
        s = self.s
        text = s.text
        if s.kind == "integer":
            bits, unsigned = self.decode(s.take())
            return literal(bits, unsigned=unsigned)
        if s.kind == "float" and text[:2] not in ("0f", "0F", "0d", "0D"):
            return self._decimal()
        if text in SIGNS:
            sign = s.take()
            return self._computed(unary, sign, self._unary())
        if s.accept("("):
            return self._bracketed()
        if s.accept("WARP_SZ"):
            return signed(32)
        raise s.problem(f"found {s.shown()} where an operand was expected")

    def _bracketed(self) -> Constant:
        """What stands behind an opening bracket: an expression, or a cast and what it applies to."""
        s = self.s
        if s.text not in (".s64", ".u64"):
            value = self._conditional()
            s.expect(")")
            return value
        type = s.take()
        s.expect(")")
        return self._computed(cast, type, self._unary())


MASK, SIGN = 2**64 - 1, 1 << 63


class Whole(NamedTuple):
    """An integer: its 64 bits, and whether it is a .u64 or a .s64."""

    bits: int
    unsigned: bool = False

    @property
    def value(self) -> int:
        """The number."""
        return self.bits if self.unsigned else self.bits - 2 * (self.bits & SIGN)


Constant = Whole | float


def signed(value: int) -> Whole:
    """A .s64 with the low 64 bits of a number."""
    return Whole(value & MASK)


def literal(bits: int, *, unsigned: bool) -> Whole:
    """A literal: a .s64 unless it ends in U or does not fit one."""
    return Whole(bits, unsigned or bits >= SIGN)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _truncated,
    "|": operator.or_, "^": operator.xor, "&": operator.and_,
}  # fmt: skip
REAL: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SIGNS = frozenset("-+~!")


def binary(symbol: str, left: Constant, right: Constant) -> Constant:
    """``left symbol right``.

    Raises:
        ValueError: the operator does not apply; the message says why.
    """
    if isinstance(left, Whole) and isinstance(right, Whole):
        return _integers(symbol, left, right)
    if isinstance(left, Whole) or isinstance(right, Whole):
        raise ValueError(f"{symbol} has an integer on one side and a floating-point number on the other")
    if symbol in COMPARISONS:
        return signed(COMPARISONS[symbol](left, right))
    if symbol not in REAL:
        raise ValueError(f"{symbol} does not apply to floating-point constants")
    if symbol == "/" and not right:
        raise ValueError("division by zero in a constant expression")
    return REAL[symbol](left, right)


def _integers(symbol: str, left: Whole, right: Whole) -> Whole:
    if symbol in "/%" and not right.bits:
        raise ValueError("division by zero in a constant expression")
    if symbol == "||":
        return signed(bool(left.bits or right.bits))
    if symbol == "&&":
        return signed(bool(left.bits and right.bits))
    if symbol == "%":
        return Whole(left.bits % right.bits, unsigned=True)
    if symbol in ("<<", ">>"):
        count = right.bits & 63
        return Whole((left.value << count if symbol == "<<" else left.value >> count) & MASK, left.unsigned)
    unsigned = left.unsigned or right.unsigned  # the usual conversions
    a, b = Whole(left.bits, unsigned).value, Whole(right.bits, unsigned).value
    if symbol in COMPARISONS:
        return signed(COMPARISONS[symbol](a, b))
    value = ARITHMETIC[symbol](a, b)
    if symbol == "/" and value == SIGN and not unsigned:
        raise ValueError("the quotient does not fit 64 bits")
    return Whole(value & MASK, unsigned)


def unary(sign: str, value: Constant) -> Constant:
    """``sign value``.

    Raises:
        ValueError: it does not apply; the message says why.
    """
    if not isinstance(value, Whole):
        if sign not in "+-":
            raise ValueError(f"{sign} does not apply to floating-point constants")
        return -value if sign == "-" else value
    if sign == "!":
        return signed(not value.bits)
    if sign == "~":
        return Whole(~value.bits & MASK, unsigned=True)
    return Whole(-value.bits & MASK, value.unsigned) if sign == "-" else value


def choice(condition: Constant, yes: Constant, no: Constant) -> Whole:
    """``condition ? yes : no``.

    Raises:
        ValueError: one of them is no integer.
    """
    if not (isinstance(condition, Whole) and isinstance(yes, Whole) and isinstance(no, Whole)):
        raise ValueError("? applies to integer constants only")
    return yes if condition.bits else no


def cast(name: str, value: Constant) -> Whole:
    """``(.s64) value`` or ``(.u64) value``."""
    if isinstance(value, Whole):
        return Whole(value.bits, name == ".u64")
    raise ValueError(f"({name}) does not apply to floating-point constants")
