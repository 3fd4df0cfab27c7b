"""f32 and f64 arithmetic against exact rationals."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsim.numerics import floating

FINITE = (
    st.integers(0, 2**32 - 1)
    .map(lambda b: struct.unpack("<f", struct.pack("<I", b))[0])
    .filter(lambda x: x == x and abs(x) != float("inf"))
)


def nearest(exact):
    """An exact value as f32, to nearest even: by the neighbours of a first guess."""
    guess = (
        np.float32(float(exact)) if abs(exact) < Fraction(2) ** 128 else np.float32(np.inf if exact > 0 else -np.inf)
    )
    if not np.isfinite(guess):
        limit = Fraction(2) ** 128 - Fraction(2) ** 103
        return guess if abs(exact) >= limit else np.copysign(np.finfo(np.float32).max, guess)
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    around = [a for a in around if np.isfinite(a)]
    return min(around, key=lambda a: (abs(Fraction(float(a)) - exact), int(a.view(np.uint32)) & 1))


@settings(max_examples=300, deadline=None)
@given(FINITE, FINITE, FINITE)
def test_fma_is_rounded_once(a, b, c):
    """fma equals the nearest f32 of the exact value."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]
        want = nearest(exact)

    assert want == got or (exact == 0 and got == 0)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@settings(max_examples=100, deadline=None)
@given(a=FINITE, b=FINITE)
def test_directed_add(mode, a, b):
    """Directed sums lie on their side of the exact value, with no f32 between."""
    exact = Fraction(a) + Fraction(b)
    with np.errstate(all="ignore"):
        got = floating.add(np.array([a], np.float32), np.array([b], np.float32), mode)[0]
        if not np.isfinite(got):
            return
        value = Fraction(float(got))
        down = mode == "rm" or (mode == "rz" and exact > 0)
        beyond = np.nextafter(got, np.float32(np.inf if down else -np.inf))

    assert value <= exact if down else value >= exact
    assert not np.isfinite(beyond) or (Fraction(float(beyond)) > exact if down else Fraction(float(beyond)) < exact)


def test_double_rounding_in_the_subnormal_range():
    """A product and a sum whose double-precision value rounds the wrong way twice."""
    a, b, c = np.float32(1 + 2**-23), np.float32((1 - 2**-23) * 2.0**-75), np.float32((2**22 + 1) * 2.0**-149)
    a = np.float32(a * np.float32(2.0**-75))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    with np.errstate(all="ignore"):
        got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]
        want = nearest(exact)

    assert want == got


def test_nan_is_canonical():
    """Every NaN result of f32 is 0x7FFFFFFF."""
    x = np.array([0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        got = floating.add(x, np.ones(2, np.float32)).view(np.uint32)

    assert got.tolist() == [0x7FFFFFFF] * 2


def test_double_rounding_at_a_tie():
    """1 + 2**-23 + 2**-24 - 2**-54 lies below a tie of f32 that double precision cannot tell from it."""
    a, b, c = np.float32(1 + 2**-15), np.float32((1 - 2**-15) * 2.0**-24), np.float32(1 + 2**-23)
    with np.errstate(all="ignore"):
        got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]

    assert c == got
