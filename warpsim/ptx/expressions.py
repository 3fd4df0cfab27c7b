"""Operands, literals and constant expressions."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from warpsim.ptx import ast
from warpsim.ptx.stream import Stream

LEVELS: tuple[tuple[str, ...], ...] = (
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
MAX_NESTING = 100
_SELECTOR = re.compile(r"b[0-7]{1,4}|h[0-3]{1,2}")
ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92, "'": 39, '"': 34, "a": 7, "b": 8, "f": 12, "v": 11}


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a) or bool(b)),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
}


def decode_integer(text: str) -> tuple[int, bool]:
    """Value and unsignedness of an integer literal."""
    unsigned = text.endswith("U")
    digits = text[:-1] if unsigned else text
    if digits[:2] in ("0x", "0X"):
        value = int(digits, 16)
    elif digits[:2] in ("0b", "0B"):
        value = int(digits, 2)
    elif len(digits) > 1 and digits[0] == "0":
        value = int(digits, 8)
    else:
        value = int(digits)
    return value, unsigned


def decode_float(text: str) -> tuple[int, int]:
    """Bits and width of a floating-point literal."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16), 32
    if text[:2] in ("0d", "0D"):
        return int(text[2:], 16), 64
    return int(struct.unpack("<Q", struct.pack("<d", float(text)))[0]), 64


class ExpressionParser:
    """The part of the parser that reads operands."""

    def __init__(self, stream: Stream) -> None:
        self.s = stream
        self.nesting = 0

    def operand(self) -> ast.Operand:
        """One operand of an instruction."""
        s = self.s
        kind, text = s.kind, s.text
        if kind == "word":
            return self._name_operand()
        if text == "[":
            return self._address()
        if text == "{":
            return self._vector()
        if text == "(":
            after = s.kinds[s.i + 1] if s.i + 1 < len(s.kinds) else "end"
            if after == "word" or s.peek(1) == ")":
                return self._group()
            return self.literal_group()
        if text == "!":
            span = s.span()
            s.skip()
            name_span = s.span()
            return ast.Negated(ast.Name(s.word("a predicate register"), name_span), span)
        if text == "-" and s.kinds[s.i + 1] == "word":
            span = s.span()
            s.skip()
            return ast.Negative(self._name_operand(), span)
        return self.literal()

    def literal_group(self) -> ast.Operand:
        """A parenthesised constant, or the argument list of a call that begins with a number."""
        s = self.s
        start = s.i
        depth = 0
        comma = False
        at = start
        while at < len(s.texts):
            t = s.texts[at]
            depth += (t == "(") - (t == ")")
            comma |= t == "," and depth == 1
            if depth == 0:
                break
            at += 1
        return (
            self._group()
            if comma or (s.texts[min(at + 1, len(s.texts) - 1)] in (";", ",") and self._call_list(start))
            else self.literal()
        )

    def _call_list(self, start: int) -> bool:
        at = start
        while at > 0 and self.s.texts[at] not in (";", "{", "}"):
            if self.s.texts[at] == "call":
                return True
            at -= 1
        return False

    def _name_operand(self) -> ast.Operand:
        s = self.s
        span = s.span()
        text = s.take()
        if text == "_":
            return self._pair(ast.Sink(span))
        if s.kind == "dotted":
            component = s.text[1:]
            if text.startswith("%") and component in ("x", "y", "z", "w") and self._is_special(text):
                s.skip()
                return ast.Name(f"{text}.{component}", span)
            if component in ("x", "y", "z", "w", "r", "g", "b", "a") or _SELECTOR.fullmatch(component):
                s.skip()
                return ast.Component(ast.Name(text, span), component, span)
            raise s.problem(f"found {s.shown()} after the operand {text}")
        name = ast.Name(text, span)
        if s.text == "[":
            s.skip()
            offset = self.constant()
            s.expect("]")
            return ast.SymbolOffset(name, offset, span)
        if s.text in ("+", "-"):
            sign = 1 if s.take() == "+" else -1
            return ast.SymbolOffset(name, sign * self.constant(), span)
        if s.text == "|":
            return self._pair(name)
        return name

    @staticmethod
    def _is_special(text: str) -> bool:
        return text in (
            "%tid",
            "%ntid",
            "%ctaid",
            "%nctaid",
            "%clusterid",
            "%nclusterid",
            "%cluster_ctaid",
            "%cluster_nctaid",
        )

    def _pair(self, first: ast.Operand) -> ast.Operand:
        s = self.s
        if s.text != "|":
            return first
        s.skip()
        span = s.span()
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
            if s.text == "[":
                s.skip()
                offset += self.constant()
                s.expect("]")
            if s.text == "+":
                s.skip()
                offset += self.constant()
            elif s.text == "-":
                raise s.problem("found '-' in an address", "write [reg+-imm]")
        else:
            offset = self.constant()
        extra: list[ast.Operand] = []
        while s.accept(","):
            extra.append(self.operand())
        s.expect("]")
        s.accept(".unified")  # PTX: a hint on ld/ldu of .param or .global that the address is the same in all threads
        return ast.Address(base, offset, span, tuple(extra))

    def _vector(self) -> ast.Operand:
        s = self.s
        span = s.span()
        s.expect("{")
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise s.problem("operands nest too deep")
        elements: list[ast.Operand] = []
        while s.text != "}":
            elements.append(self.operand())
            if not s.accept(","):
                break
        s.expect("}")
        self.nesting -= 1
        return ast.Vector(tuple(elements), span)

    def _group(self) -> ast.Operand:
        s = self.s
        span = s.span()
        s.expect("(")
        elements: list[ast.Operand] = []
        while s.text != ")":
            elements.append(self.operand())
            if not s.accept(","):
                break
        s.expect(")")
        return ast.Group(tuple(elements), span)

    # ---- numbers -----------------------------------------------------------------------------

    def integer(self) -> int:
        """A plain integer literal."""
        s = self.s
        if s.kind != "integer":
            raise s.problem(f"found {s.shown()} where a number was expected")
        return self._decode(s.take())[0]

    def _decode(self, text: str) -> tuple[int, bool]:
        try:
            return decode_integer(text)
        except ValueError:
            raise self.s.problem(f"{text[:40]} is no number") from None

    def literal(self) -> ast.Integer | ast.Float:
        """An integer or floating-point literal, or a constant expression."""
        s = self.s
        span = s.span()
        sign = s.text in ("-", "+")
        if s.kinds[s.i + sign] == "float":
            negative = sign and s.text == "-"
            if sign:
                s.skip()
            bits, width = decode_float(s.take())
            return ast.Float(bits ^ (1 << (width - 1)) if negative else bits, width, span)
        if s.kind == "integer" and s.texts[s.i + 1] in (",", ";", "}", "]", ")"):
            value, unsigned = self._decode(s.take())
            return ast.Integer(value, unsigned, span)
        return ast.Integer(self.constant(), False, span)

    def constant(self) -> int:
        """A constant expression of integers."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.s.problem("constant expressions nest too deep")
        value = self._binary(0)
        if self.s.accept("?"):
            yes = self.constant()
            self.s.expect(":")
            no = self.constant()
            value = yes if value else no
        self.nesting -= 1
        return value

    def _binary(self, level: int) -> int:
        if level == len(LEVELS):
            return self._unary()
        value = self._binary(level + 1)
        while self.s.text in LEVELS[level] and self.s.kind in ("operator", "word"):
            operator = self.s.take()
            right = self._binary(level + 1)
            if operator in "/%" and right == 0:
                raise self.s.problem("division by zero in a constant expression")
            value = OPERATIONS[operator](value, right)
            if abs(value) >> 128:
                raise self.s.problem("constant expression out of range")
        return value

    def _unary(self) -> int:
        s = self.s
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise s.problem("constant expressions nest too deep")
        try:
            text = s.text
            if text in ("-", "+", "~", "!"):
                s.skip()
                value = self._unary()
                return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[text]
            if text == "(":
                if s.peek(1) in (".s64", ".u64"):
                    s.skip()
                    cast = s.take()
                    s.expect(")")
                    value = self._unary() & (2**64 - 1)
                    return value - 2**64 if cast == ".s64" and value >> 63 else value
                s.skip()
                value = self.constant()
                s.expect(")")
                return value
            if s.kind == "integer":
                return self._decode(s.take())[0]
            if s.kind == "character":
                return self._character(s.take())
            if text == "WARP_SZ":
                s.skip()
                return 32
            raise s.problem(f"found {s.shown()} where an operand was expected")
        finally:
            self.nesting -= 1

    def _character(self, text: str) -> int:
        body = text[1:-1]
        if body[0] != "\\":
            return ord(body[0])
        if body[1] == "x":
            return int(body[2:], 16)
        return ESCAPES.get(body[1], ord(body[1]))
