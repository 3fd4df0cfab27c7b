"""f32 and f64 arithmetic against exact rationals."""

import math
import struct
import sys
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


@settings(max_examples=120, deadline=None)
@given(FINITE, FINITE, FINITE)
def test_fma_is_rounded_once(a, b, c):
    """fma equals the nearest f32 of the exact value."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]
        want = nearest(exact)

    assert want == got or (exact == 0 and got == 0)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@settings(max_examples=60, deadline=None)
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


@pytest.mark.parametrize("type", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_sums_that_are_zero(type, mode):
    """x + x keeps the sign of a zero; of opposite terms the sum is +0, rounded down -0 (IEEE 754, 6.3)."""
    a, b = (np.array(x, type) for x in ([0.0, -0.0, 0.0, -0.0, 1.0, -1.5], [0.0, -0.0, -0.0, 0.0, -1.0, 1.5]))
    got = floating.add(a, b, mode)

    assert not got.any()
    assert np.signbit(got).tolist() == [False, True, *[mode == "rm"] * 4]


def test_double_rounding_at_a_tie():
    """1 + 2**-23 + 2**-24 - 2**-54 lies below a tie of f32 that double precision cannot tell from it."""
    a, b, c = np.float32(1 + 2**-15), np.float32((1 - 2**-15) * 2.0**-24), np.float32(1 + 2**-23)
    with np.errstate(all="ignore"):
        got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]

    assert c == got


def rounded(exact, mode):
    """A rational as f64: where it lies between two neighbours, the one that the mode names."""
    if mode in ("rm", "rp") and exact < 0:
        return -rounded(-exact, "rp" if mode == "rm" else "rm")
    if exact < 0:
        return -rounded(-exact, mode)
    n, d = exact.as_integer_ratio()
    place = max(n.bit_length() - d.bit_length() - 53, -1074)
    count, rest = divmod(exact, Fraction(2) ** place)
    while count >= 1 << 53:
        place += 1
        count, rest = divmod(exact, Fraction(2) ** place)
    half = Fraction(2) ** place / 2
    up = rest and (mode == "rp" or (mode == "rn" and (rest > half or (rest == half and count % 2))))
    result = (count + bool(up)) * Fraction(2) ** place
    if result >= Fraction(2) ** 1024:
        return math.inf if mode in ("rn", "rp") else sys.float_info.max
    return float(result)


def doubles(rng, n):
    """Numbers of all exponents, of few bits, subnormal, greatest and least."""
    bits = rng.integers(0, 2047 << 52, n).astype(np.uint64)
    bits[: n // 3] &= np.uint64(0xFFFE << 48)
    bits[n // 3 : n // 2] >>= rng.integers(0, 64, n // 2 - n // 3).astype(np.uint64)
    bits[-4:] = [1, (1 << 52) - 1, 1 << 52, (2047 << 52) - 1]
    return (bits | rng.integers(0, 2, n).astype(np.uint64) << np.uint64(63)).view(np.float64)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f64(mode):
    """Sums, products, fma and quotients of f64 are rounded once, over- and underflow too."""
    rng = np.random.default_rng(7)
    a, b = rng.permutation(doubles(rng, 400)), rng.permutation(doubles(rng, 400))
    with np.errstate(all="ignore"):
        c = np.where(rng.random(400) < 0.5, rng.permutation(doubles(rng, 400)), -a * b * (1 + 2.0**-52))
        c = np.where(np.isfinite(c), c, 1.0)
        near = np.where(rng.random(400) < 0.5, c, -a * (1 + rng.integers(-2, 3, 400) * 2.0**-52))
        near = np.where(np.isfinite(near), near, 1.0)
        found = {
            "a+c": (floating.add64(a, near, mode), lambda x, y, z, n: x + n),
            "a*b": (floating.mul64(a, b, mode), lambda x, y, z, n: x * y),
            "a*b+c": (floating.fma64(a, b, c, mode), lambda x, y, z, n: x * y + z),
            "a/b": (floating.div(a, np.where(b == 0, 1.0, b), mode), lambda x, y, z, n: x / (y or 1)),
        }
    for what, (results, exact) in found.items():
        for *operands, result in zip(a.tolist(), b.tolist(), c.tolist(), near.tolist(), results.tolist(), strict=True):
            wanted = exact(*map(Fraction, operands))
            assert result == rounded(wanted, mode), (what, operands, mode)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_quotients_near_the_least_normal_number(mode):
    """With .ftz a quotient is zero where it is below the least normal number once rounded to 24 bits: the range of exponents
    comes last."""
    top = 2**24
    pairs = [((top - 1) * 2.0**-140, 2.0**10), (2.0**-116, 2.0**10), ((top - 1) * 2.0**-140, 2.0**10 * (1 + 2.0**-23))]
    pairs += [(2.0**-116, 2.0**10 * (1 + 2.0**-23)), ((top - 3) * 2.0**-140, 2.0**10)]
    a, b = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    least = np.float32(2.0**-126)
    plain = []
    for x, y in pairs:
        units = Fraction(x) / Fraction(y) * Fraction(2) ** 150  # of the last of 24 bits, just below 2**-126
        rounded = -(-units.numerator // units.denominator) if mode == "rp" else units.numerator // units.denominator
        if mode == "rn":
            rounded = round(units)
        plain.append(float(least) if rounded >= top else 0.0)
    subnormal = np.where(a.astype(np.float64) / b >= 2.0**-126 - 2.0**-149, least, np.float32(0))

    assert floating.flush_quotient(subnormal, mode, a, b).tolist() == plain


def test_uniform_factors_beside_a_varying_addend():
    """Factors without the addend's axes: a sum that is the least normal number stays, one that only rounds to it is zero."""
    least = np.float32(2**-126)
    addends = np.array([least, -least, least, 3], np.float32).reshape(1, 4, 1, 1)
    factors = np.float32(0.25), np.float32(-(2**-148))
    product = Fraction(float(factors[0])) * Fraction(float(factors[1]))
    exact = [product + Fraction(float(c)) for c in addends.reshape(-1)]

    rounded = floating.fma(*factors, addends, "rn")
    found = floating.flush_product(rounded, "rn", *factors, addends).reshape(-1)

    assert abs(rounded).reshape(-1).tolist() == [2**-126] * 3 + [3]
    below = Fraction(1, 2**126) - Fraction(1, 2**151)  # what 24 bits still round to the least normal number
    assert found.tolist() == [
        float(r) if abs(x) >= below else 0 for r, x in zip(rounded.reshape(-1), exact, strict=True)
    ]
    assert found[0] == 0 != found[1]


@pytest.mark.parametrize("type", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_that_is_zero(type, mode):
    """A product of zero and a zero keep their sign if it is the same; what cancels is +0, rounded down -0 (IEEE 754, 6.3)."""
    rows = [
        (0.0, 5.0, 0.0, False), (-0.0, 5.0, -0.0, True), (0.0, -5.0, -0.0, True), (-0.0, -5.0, 0.0, False),
        (0.0, 5.0, -0.0, mode == "rm"), (-0.0, 5.0, 0.0, mode == "rm"), (2.0, 3.0, -6.0, mode == "rm"), (-2.0, 3.0, 6.0, mode == "rm"),
        (0.0, 2.0**1000 if type is np.float64 else 2.0**100, 0.0, False), (-0.0, 2.0**1000 if type is np.float64 else 2.0**100, 0.0, mode == "rm"),
    ]  # fmt: skip
    a, b, c = (np.array(column, type) for column in list(zip(*rows, strict=True))[:3])
    with np.errstate(all="ignore"):
        found = floating.fma(a, b, c, mode)

    assert not found.any()
    assert np.signbit(found).tolist() == [row[3] for row in rows]


def root(exact, bits, mode):
    """The square root of a rational to so many bits, in a mode."""
    n, d = exact.as_integer_ratio()
    place = (n.bit_length() - d.bit_length()) // 2 - bits - 2
    while True:
        scaled = exact / Fraction(4) ** place
        low = math.isqrt(scaled.numerator // scaled.denominator)
        if low.bit_length() == bits:
            break
        place += 1
    rest = scaled - low * low
    up = rest and (mode == "rp" or (mode == "rn" and rest > low + Fraction(1, 4)))
    return (low + bool(up)) * Fraction(2) ** place


@pytest.mark.parametrize("type", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_roots(type, mode):
    """Square roots of all sizes, of squares and of their neighbours."""
    rng, bits = np.random.default_rng(9), 24 if type is np.float32 else 53
    high = 254 << 23 if type is np.float32 else 2046 << 52
    word = np.uint32 if type is np.float32 else np.uint64
    x = rng.integers(1, high, 60).astype(word).view(type)
    whole = (rng.integers(1, 1 << bits // 2, 30).astype(type) ** 2) * type(4.0) ** rng.integers(-20, 20, 30).astype(
        type
    )
    x = np.concatenate(
        [
            x,
            whole,
            np.nextafter(whole, type(0)),
            np.nextafter(whole, type(np.inf)),
            np.array([1, 2, 3], word).view(type),
        ]
    )
    found = floating.sqrt(x, mode)

    for value, result in zip(x.tolist(), found.tolist(), strict=True):
        assert Fraction(result) == root(Fraction(value), bits, mode), (value, mode)
    with np.errstate(invalid="ignore"):
        special = floating.sqrt(np.array([0.0, -0.0, np.inf, -1.0], type), mode)
    assert special[:3].tolist() == [0.0, 0.0, math.inf]
    assert np.signbit(special[:2]).tolist() == [False, True]
    assert np.isnan(special[3])


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_sums_next_to_one(mode):
    """A tiny part moves the sum to the neighbour that the mode names, at 1 and at powers of two as well."""
    for one in (1.0, 2.0, 0.5, 3.0, -1.0, -2.0):
        for tiny in (2.0**-60, -(2.0**-60)):
            found = float(floating.add64(np.array([one]), np.array([tiny]), mode)[0])
            assert found == rounded(Fraction(one) + Fraction(tiny), mode)


@pytest.mark.parametrize("is_least", [False, True])
@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("many", [1, 5000])
def test_extremes(type, is_least, many):
    """-0 is less than +0; a number wins over a NaN, and two NaNs of f32 are the canonical one, however many lanes there are."""
    numbers = [-math.inf, -2.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    pairs = [(a, b) for a in numbers for b in numbers]
    a, b = (np.tile(np.array(column, type), many) for column in zip(*pairs, strict=True))
    found = floating.extreme(a, b, is_least=is_least)[: len(pairs)]
    for (x, y), value in zip(pairs, found.tolist(), strict=True):
        if math.isnan(x) and math.isnan(y):
            assert math.isnan(value)
        elif math.isnan(x) or math.isnan(y):
            assert value == (y if math.isnan(x) else x)
        elif x == y == 0:
            negative = [math.copysign(1, v) < 0 for v in (x, y)]
            assert (math.copysign(1, value) < 0) == (any(negative) if is_least else all(negative))
        else:
            assert value == (min(x, y) if is_least else max(x, y))
    if type is np.float32:
        assert found[-1:].view(np.uint32)[0] == 0x7FFFFFFF
