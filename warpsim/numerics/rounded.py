"""Correctly rounded functions of f32 numbers.

They replace the units of `approx` where the assembler computes the value itself. Everything is done in integers, so
that all systems give the same bits, and one number at a time, because constants are few.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from math import isqrt

import numpy as np

from warpsim.numerics import approx
from warpsim.numerics.arrays import Array
from warpsim.numerics.floating import flush

BITS = 400
"""Fraction bits of intermediate values: enough, because no f32 argument has a function value this close to a tie."""
ONE = 1 << BITS


def nearest(x: Fraction) -> int:
    """The bits of the f32 nearest to a rational, ties to even."""
    size = abs(x)
    if size == 0:
        return 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = max(exponent, -126) - 23
    steps = round(size / Fraction(2) ** unit)
    bits = min(steps + ((unit + 149) << 23), 0x7F800000)
    return int(bits | (x < 0) << 31)


def _series(x: int, first: int, ratio: Callable[[int], tuple[int, int]]) -> int:
    """The sum of fixed-point terms from ``first`` on; each is the previous one times x times ratio(k)."""
    total = term = first
    k = 1
    while term:
        up, down = ratio(k)
        term = (term * x * up >> BITS) // down
        total += term
        k += 1
    return total


def _atanh(x: int) -> int:
    """The inverse hyperbolic tangent of at most 1/3."""
    square, power, total, k = x * x >> BITS, x, 0, 1
    while power:
        total += power // k
        power, k = power * square >> BITS, k + 2
    return total


@cache
def _ln2() -> int:
    return 2 * _atanh(ONE // 3)


@cache
def _pi(more: int) -> int:
    """pi with ``more`` bits beyond the usual ones (Machin)."""
    one = 1 << (BITS + more)

    def arctan(n: int) -> int:
        power, total, k = one // n, 0, 1
        while power:
            total += power // k if k & 2 == 0 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    return 4 * (4 * arctan(5) - arctan(239))


def _turned(x: Fraction, quarter: int) -> Fraction:
    """The sine of x plus ``quarter`` right angles."""
    more = 160  # multiples of pi are subtracted from numbers up to 2^128
    scaled = (x.numerator << (BITS + more)) // x.denominator
    right = _pi(more) >> 1
    turns, rest = divmod(scaled, right)
    angle, quadrant = rest >> more, (turns + quarter) & 3
    square = -(angle * angle >> BITS)
    if quadrant & 1:
        value = _series(square, ONE, lambda k: (1, (2 * k - 1) * 2 * k))
    else:
        value = _series(square, angle, lambda k: (1, 2 * k * (2 * k + 1)))
    return Fraction(-value if quadrant & 2 else value, ONE)


def _ex2(x: Fraction) -> Fraction:
    whole = max(min(x.numerator // x.denominator, 200), -200)
    rest = min(max(x - whole, Fraction(0)), Fraction(1))
    power = _series((rest.numerator * _ln2()) // rest.denominator, ONE, lambda k: (1, k))
    return Fraction(power, ONE) * Fraction(2) ** whole


def _lg2(x: Fraction) -> Fraction:
    whole = x.numerator.bit_length() - x.denominator.bit_length()
    ratio = (x / Fraction(2) ** whole - 1) / (x / Fraction(2) ** whole + 1)
    return whole + Fraction(2 * _atanh((ratio.numerator << BITS) // ratio.denominator), _ln2())


def _sqrt(x: Fraction) -> Fraction:
    return Fraction(isqrt((x.numerator << 2 * BITS) // x.denominator), ONE)


def _rsqrt(x: Fraction) -> Fraction:
    return _sqrt(1 / x)


@lru_cache(maxsize=4096)
def _value(function: Callable[[Fraction], Fraction], x: float) -> int:
    return nearest(function(Fraction(x)))


def _rounding(unit: Callable[[Array], Array], function: Callable[[Fraction], Fraction]) -> Callable[[Array], Array]:
    """A unit with correctly rounded results; it handles zeros, infinities, NaNs and flushing itself."""

    def rounded(x: Array) -> Array:
        given, out = flush(x).reshape(-1), np.array(unit(x), np.float32)
        bits = out.reshape(-1).view(np.uint32)
        for at in np.flatnonzero((given != 0) & np.isfinite(given) & np.isfinite(out.reshape(-1))):
            bits[at] = _value(function, float(given[at]))
        return flush(out)

    return rounded


rcp_ftz = _rounding(approx.rcp_ftz, lambda x: 1 / x)
rsqrt_ftz = _rounding(approx.rsqrt_ftz, _rsqrt)
sqrt_ftz = _rounding(approx.sqrt_ftz, _sqrt)
ex2_ftz = _rounding(approx.ex2_ftz, _ex2)
lg2_ftz = _rounding(approx.lg2_ftz, _lg2)
sin = _rounding(approx.sin, lambda x: _turned(x, 0))
cos = _rounding(approx.cos, lambda x: _turned(x, 1))
