"""Constant expressions: signed and unsigned integers of 64 bits, and floating-point numbers.

PTX ISA, 4.5.6 (Summary of Constant Expression Evaluation Rules). Where ptxas 13.0 has another signedness than the table, it
decides: ``%`` is unsigned, ``& | ^`` are signed if both sides are, and ``?:`` has that of the side that it takes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

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
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
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
