"""Conversions against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from warpsim.numerics import convert
from warpsim.numerics.narrow import FORMATS, Format, round_bits, to_f16

MODES = ["rn", "rz", "rm", "rp"]
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The engine runs semantics with NumPy's floating-point warnings off."""
    with np.errstate(all="ignore"):
        yield


def _value(code: int, form: Format) -> Fraction:
    """The value of a finite magnitude."""
    field, fraction = code >> form.fraction, code & ((1 << form.fraction) - 1)
    significand = fraction + ((1 << form.fraction) if field else 0)
    return Fraction(significand) * Fraction(2) ** (max(field, 1) - form.bias - form.fraction)


def _round(x: Fraction, form: Format, mode: str) -> int:
    """The magnitude code that a rational rounds to; the code after the greatest stands for overflow."""
    n, d = abs(x.numerator), x.denominator  # a power of two
    if not n:
        return 0
    exponent = max(n.bit_length() - d.bit_length(), 1 - form.bias)
    shift = form.fraction - exponent  # to units of the last place
    count, rest = divmod(n << max(shift, 0), one := d << max(-shift, 0))
    low = count + (exponent + form.bias - 1 << form.fraction)  # a carry of the fraction goes to the exponent
    if low > form.greatest:
        low, rest = form.greatest, one
    if not rest or mode == "rz":
        return low
    if mode == "rn":
        return low + (2 * rest > one or (2 * rest == one and low & 1))
    return low + ((x < 0) == (mode == "rm"))


@pytest.mark.parametrize("name", ["e4m3", "e2m1", "f16"])
def test_the_rational_model(name: str) -> None:
    """Each code's value rounds to it, and what lies between two codes to the nearer one, or to the even one."""
    form = FORMATS[name]
    for code in range(0, form.greatest, 1 + form.greatest // 500):
        low, high = _value(code, form), _value(code + 1, form)
        assert [_round(low, form, mode) for mode in MODES] == [code] * 4
        assert _round((3 * low + high) / 4, form, "rn") == code
        assert _round((low + 3 * high) / 4, form, "rn") == code + 1
        assert _round((low + high) / 2, form, "rn") == code + (code & 1)
        assert [_round((low + high) / 2, form, mode) for mode in ("rz", "rm", "rp")] == [code, code, code + 1]
        assert [_round((low + high) / -2, form, mode) for mode in ("rz", "rm", "rp")] == [code, code + 1, code]


def _singles(seed: int, n: int = 600) -> np.ndarray:
    """f32 of all exponents, and neighbours of midpoints near 1 and near the small formats' limits."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32)
    near = (rng.integers(100, 146, n).astype(np.uint32) << np.uint32(23)) | (
        rng.integers(0, 1 << 10, n).astype(np.uint32) << np.uint32(13)
    )
    near += rng.integers(-1, 2, n).astype(np.uint32) | (rng.integers(0, 2, n).astype(np.uint32) << np.uint32(31))
    x = np.concatenate([bits, near]).view(np.float32)
    return x[np.isfinite(x)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_round_bits(name: str, mode: str) -> None:
    """f32 and f64 round to the neighbour that the mode names; overflow to infinity or the greatest finite value."""
    form, finite = FORMATS[name], name not in ("f16", "bf16")
    for x in (_singles(1), _singles(2).astype(np.float64) * (1 + 2.0**-40)):
        for value, code in zip(x.tolist(), round_bits(x, name, mode, finite=finite).tolist(), strict=True):
            sign = (math.copysign(1, value) < 0) << (form.width - 1)
            wanted = _round(Fraction(value), form, mode)
            if wanted > form.greatest:
                wanted = form.greatest if finite else form.infinity or 0
            assert code == sign | wanted, (value, mode)


def test_fast_halves() -> None:
    """The short ways to f16 and bf16 agree with the general one, and NaN is 0x7FFF."""
    x = np.concatenate([_singles(3, 20000), np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)])
    for dtype, name in ((np.dtype(np.float16), "f16"), (BF16, "bf16")):
        assert np.array_equal(convert.to_half(x, dtype, "rn").view(np.uint16), round_bits(x, name, "rn"))


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_small_values(name: str) -> None:
    """Every code of the small formats has the value of its fields as f16."""
    form = FORMATS[name]
    codes = np.arange(1 << form.width)
    half = to_f16(codes, name).view(np.float16)
    for code, value in zip(codes.tolist(), half.tolist(), strict=True):
        magnitude = code & ((1 << (form.width - 1)) - 1)
        if magnitude <= form.greatest:
            assert Fraction(value) == _value(magnitude, form) * (-1 if code != magnitude else 1)
        else:
            assert math.isinf(value) if magnitude == form.infinity else math.isnan(value)


@pytest.mark.parametrize("type", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_to_integer(type: str, mode: str) -> None:
    """Floats become the integer that the mode names, clamped to the type."""
    info = np.iinfo(type)
    rounding = {"rni": round, "rzi": int, "rmi": math.floor, "rpi": math.ceil}[mode]
    halves = np.arange(-700, 700, dtype=np.float32) / 2
    for x in (_singles(4), halves, _singles(5).astype(np.float64) * 1.5):
        wanted = [min(max(rounding(Fraction(v)), int(info.min)), int(info.max)) for v in x.tolist()]
        assert convert.to_integer(x, np.dtype(type), mode).tolist() == wanted


@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["u4", "i4", "u8", "i8"])
def test_from_integer(type: str, mode: str, source: str) -> None:
    """Integers round once, also those of 64 bits to f32 and to halves."""
    dtype = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "f16": np.dtype(np.float16), "bf16": BF16}[type]
    rng = np.random.default_rng(6)
    raw = rng.integers(0, 1 << 63, 400, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    raw >>= rng.integers(0, 64, 400).astype(np.uint64)
    raw[:4] = [0, 2**64 - 1, 1 << 63, 2**53 + 1]
    x = raw.astype(f"u{source[1]}").view(source)
    form = FORMATS[type]
    codes = convert.integer_to_float(x, dtype, mode).view(f"u{form.width // 8}").tolist()
    for value, code in zip(x.tolist(), codes, strict=True):
        magnitude = _round(Fraction(value), form, mode)
        wanted = (form.infinity or 0) if magnitude > form.greatest else magnitude
        assert code == wanted | (value < 0) << (form.width - 1), value
