"""Conversions against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

from warpsim.numerics import convert, floating
from warpsim.numerics.convert import round_bits, to_f16

MODES = ["rn", "rz", "rm", "rp"]
BF16 = np.dtype(ml_dtypes.bfloat16)


class Format(NamedTuple):
    """Bits of exponent and fraction, and the magnitudes of the greatest number, of infinity and of NaN."""

    exponent: int
    fraction: int
    greatest: int
    infinity: int | None
    nan: int | None

    @property
    def bias(self) -> int:
        """Half of the exponents."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        """All bits."""
        return 1 + self.exponent + self.fraction


def _of(dtype: type[np.generic], *, infinite: bool, nan: int | None) -> Format:
    """A format by what NumPy and ml_dtypes say of it; the code after the greatest number is infinity."""
    info = ml_dtypes.finfo(dtype)
    greatest = int.from_bytes(np.array(info.max, dtype).tobytes(), "little")
    return Format(info.nexp, info.nmant, greatest, greatest + 1 if infinite else None, nan)


FORMATS = {
    "f16": _of(np.float16, infinite=True, nan=0x7FFF),
    "bf16": _of(ml_dtypes.bfloat16, infinite=True, nan=0x7FFF),
    "tf32": Format(8, 10, 0x3FBFF, 0x3FC00, 0x3FFFF),
    "f32": _of(np.float32, infinite=True, nan=0x7FFFFFFF),
    "f64": _of(np.float64, infinite=True, nan=None),
    "e4m3": _of(ml_dtypes.float8_e4m3fn, infinite=False, nan=0x7F),
    "e5m2": _of(ml_dtypes.float8_e5m2, infinite=True, nan=0x7F),
    "e2m3": _of(ml_dtypes.float6_e2m3fn, infinite=False, nan=None),
    "e3m2": _of(ml_dtypes.float6_e3m2fn, infinite=False, nan=None),
    "e2m1": _of(ml_dtypes.float4_e2m1fn, infinite=False, nan=None),
}
"""NaNs as the PTX ISA makes them."""


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


def _wanted(value: float, name: str, mode: str, relu: bool, finite: bool) -> int:
    """The code of a conversion with its modifiers (PTX ISA: cvt)."""
    form = FORMATS[name]
    if math.isnan(value):
        return form.greatest if form.nan is None else form.nan
    negative = math.copysign(1, value) < 0
    if relu and negative:
        return 0
    sign = negative << (form.width - 1)
    limit = form.greatest if finite or form.infinity is None else form.infinity
    if math.isinf(value):
        return sign | limit
    magnitude = _round(Fraction(value), form, mode)
    if magnitude > form.greatest:
        stays = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        magnitude = form.greatest if stays else limit
    return sign | magnitude


def _with_specials(seed: int, n: int = 200) -> np.ndarray:
    """f32 with zeros, infinities, NaNs, subnormals and the greatest of both signs, and those next to the limits of formats."""
    edge = [
        0.0,
        2.0**-149,
        2.0**-127,
        3.4028235e38,
        65504,
        65520,
        65535,
        448,
        464,
        480,
        57344,
        61440,
        65536,
        7.5,
        28,
        6,
        5,
        7,
    ]
    words = [0x7F800000, 0x7FFFFFFF, 0x7F800001, 0x7F7F8000, 0x7F7FFFFF, 0x7F7FF000, 0x7F7FE000]
    x = np.concatenate([_singles(seed, n), np.array(edge, np.float32), np.array(words, np.uint32).view(np.float32)])
    return np.concatenate([x, (x.view(np.uint32) ^ np.uint32(0x80000000)).view(np.float32)])


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("finite", [False, True])
def test_halves_with_modifiers(name: str, relu: bool, finite: bool) -> None:
    """.relu makes negative numbers 0, .satfinite infinities and overflow the greatest number; NaN stays canonical."""
    x = _with_specials(7)
    for mode in MODES:
        found = convert.half_bits(x, name, mode, relu=relu, finite=finite)
        assert found.dtype == np.uint16
        assert found.tolist() == [_wanted(v, name, mode, relu, finite) for v in x.tolist()]


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("relu", [False, True])
def test_small_formats_with_modifiers(name: str, relu: bool) -> None:
    """To nearest even, clamped; what has no NaN takes its greatest number for one, without the sign (cuda_fp4.h, cuda_fp6.h)."""
    x = _with_specials(8)
    found = convert.round_bits(x, name, "rn", finite=True, relu=relu)
    assert found.tolist() == [_wanted(v, name, "rn", relu, True) for v in x.tolist()]


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("relu", [False, True])
def test_pairs_of_small_formats(name: str, relu: bool) -> None:
    """Two codes widen to the halves of a register; with .relu, what is negative and no NaN becomes 0."""
    form = FORMATS[name]
    codes = np.arange(1 << form.width, dtype=np.uint32)
    found = convert.small_to_half2(codes, codes[::-1], name, relu=relu)

    def widened(code: int) -> int:
        magnitude, negative = code & ((1 << (form.width - 1)) - 1), code >> (form.width - 1)
        top = form.greatest if form.infinity is None else form.infinity
        if magnitude > top:
            return 0x7FFF
        value = math.inf if magnitude == form.infinity else float(_value(magnitude, form))
        return 0 if relu and negative else int(np.array(-value if negative else value, np.float16).view(np.uint16))

    assert found.tolist() == [
        widened(a) | widened(b) << 16 for a, b in zip(codes.tolist(), codes[::-1].tolist(), strict=True)
    ]


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("finite", [False, True])
def test_tf32(mode: str, relu: bool, finite: bool) -> None:
    """Ten bits of the fraction; the 13 bits below are 0, and of a NaN, too (an H100)."""
    x = _with_specials(9)
    found = convert.tf32(x, mode, relu=relu, finite=finite)
    assert found.dtype == np.uint32
    assert found.tolist() == [_wanted(v, "tf32", mode, relu, finite) << 13 for v in x.tolist()]


@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("finite", [False, True])
def test_to_powers_of_two(mode: str, finite: bool) -> None:
    """ue8m0: the power of two below or above a magnitude, from 2^-127 on; NaN is 0xFF, and so is what is beyond 2^127 unless
    .satfinite clamps it."""
    x = _with_specials(10)
    x = np.concatenate(
        [
            x,
            np.exp2(np.arange(-149.0, 128)).astype(np.float32),
            np.array([2.0**-127 + 2.0**-149, 2.0**-126 - 2.0**-149], np.float32),
        ]
    )

    def code(value: float) -> int:
        if math.isnan(value):
            return 0xFF
        if math.isinf(value):
            return 0xFE if finite else 0xFF
        size = Fraction(abs(value))
        low = max(math.frexp(value)[1] - 1, -127) if value else -127
        up = mode == "rp" and size > Fraction(2) ** low
        return min(low + up + 127, 0xFE if finite else 0xFF)

    found = convert.to_ue8m0(x, mode, finite=finite)
    assert found.dtype == np.uint8
    assert found.tolist() == [code(v) for v in x.tolist()]


def test_from_powers_of_two() -> None:
    """ue8m0 to bf16 is exact; 0xFF is a NaN."""
    codes = np.arange(256, dtype=np.uint8)
    found = convert.from_ue8m0(codes)
    assert [float(v) for v in found[:255].view(BF16)] == [2.0 ** (k - 127) for k in range(255)]
    assert found[255] == 0x7FFF


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("type", ["f16", "bf16", "f32", "f64"])
def test_integral_values(type: str, mode: str) -> None:
    """A whole number of the same format, with the sign of the argument; NaNs are canonical (in f64 they stay)."""
    dtype = {"f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}[type]
    form = FORMATS[type]
    x = np.concatenate([_with_specials(11), np.arange(-9, 9, 0.5, np.float32)]).astype(dtype)
    rounding = {"rni": round, "rzi": int, "rmi": math.floor, "rpi": math.ceil}[mode]
    found = convert.round_integral(x, mode).view(f"u{dtype.itemsize}")
    for value, code, given in zip(
        x.astype(np.float64).tolist(), found.tolist(), x.view(f"u{dtype.itemsize}").tolist(), strict=True
    ):
        if math.isnan(value):
            assert code == (given if form.nan is None else form.nan)
            continue
        whole = value if math.isinf(value) else float(rounding(Fraction(value)))
        wanted = np.array(math.copysign(whole, value)).astype(dtype).view(found.dtype)
        assert code == int(wanted), (value, mode)


FLOATS = {"f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_between_formats(source: str, target: str) -> None:
    """Every pair, in every mode where that loses bits; a NaN is canonical in halves and in f32 from f16 (H100)."""
    form = FORMATS[target]
    x = _with_specials(12).astype(np.float64) * (1 + 2.0**-40)
    x = x[~np.isnan(x)].astype(FLOATS[source])
    widens = FORMATS[source].fraction <= form.fraction and FORMATS[source].exponent <= form.exponent
    for mode in ["rn"] if widens else MODES:
        found = convert.float_to_float(x, FLOATS[target], mode)
        assert found.dtype == FLOATS[target]
        wanted = [_wanted(float(v), target, mode, False, False) for v in x]
        assert found.view(f"u{found.itemsize}").tolist() == wanted
    word = f"u{FLOATS[source].itemsize}"
    width, infinity = FORMATS[source].width, FORMATS[source].infinity
    nans = np.array([infinity | 1, infinity | 5 | 1 << (width - 1), (1 << (width - 1)) - 1], np.uint64).astype(word)
    found = convert.float_to_float(np.concatenate([nans, nans[:1] & 0]).view(FLOATS[source]), FLOATS[target], "rn")
    assert np.isnan(found[:3].astype(np.float64)).all()
    assert found[3] == 0
    if target in ("f16", "bf16") and source != "f64":
        assert found[:3].view(np.uint16).tolist() == [0x7FFF] * 3
    if (source, target) == ("f16", "f32"):
        assert found[:3].view(np.uint32).tolist() == [0x7FFFFFFF] * 3
    if target == "f64" and source != "f64":
        shift = 52 - FORMATS[source].fraction
        quiet = [0x7FF8000000000000 | 1 << shift, 0xFFF8000000000000 | 5 << shift]
        assert found[:2].view(np.uint64).tolist() == quiet


def test_clamped_to_one() -> None:
    """.sat: 0 to 1, without a negative zero or NaN."""
    for dtype in FLOATS.values():
        x = np.array([-np.inf, -1, -0.0, 0, 0.5, 1, 1.5, np.inf, np.nan]).astype(dtype)
        found = floating.saturate(x).astype(np.float64)
        assert found.tolist() == [0, 0, 0, 0, 0.5, 1, 1, 1, 0]
        assert not np.signbit(found).any()


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize("signed", [False, True])
def test_packed_integers(bits: int, signed: bool) -> None:
    """cvt.pack: clamped to the field, as its bits."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = [-(1 << 31), low - 1, low, low + 1, -1, 0, 1, high - 1, high, high + 1, (1 << 31) - 1]
    found = convert.pack_saturated(np.array(values, np.int32), bits, signed=signed)
    assert found.dtype == np.uint32
    assert found.tolist() == [min(max(v, low), high) & ((1 << bits) - 1) for v in values]


@pytest.mark.parametrize("source", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("target", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_between_integers(source: str, target: str) -> None:
    """cvt.sat clamps to the type."""
    own, info = np.iinfo(source), np.iinfo(target)
    values = sorted(
        {
            v
            for k in (own.min, own.max, info.min, info.max, 0)
            for v in (int(k) - 1, int(k), int(k) + 1)
            if own.min <= v <= own.max
        }
    )
    found = convert.integer_to_integer(np.array(values, source), np.dtype(target))
    assert found.dtype == np.dtype(target)
    assert found.tolist() == [min(max(v, int(info.min)), int(info.max)) for v in values]


@pytest.mark.parametrize("type", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("source", FLOATS)
def test_integers_of_nan(type: str, source: str) -> None:
    """0, or only the top bit where either side has 64 bits (an H100)."""
    dtype = np.dtype(type)
    x = np.array([np.nan, 1.0]).astype(FLOATS[source])
    top = 1 << (8 * dtype.itemsize - 1) if type[1] == "8" or source == "f64" else 0
    found = convert.to_integer(x, dtype, "rzi")
    assert found.view(f"u{dtype.itemsize}").tolist() == [top, 1]


NORMAL, ABOVE, HALFWAY = 0x3810000000000000, 0x380FFFFFE0000001, 0x380FFFFFF0000000
FLUSHED_BELOW = {"rn": (HALFWAY, HALFWAY), "rz": (NORMAL, NORMAL), "rm": (NORMAL, ABOVE), "rp": (ABOVE, NORMAL)}
"""The magnitudes of f64 from which on ``cvt.ftz.f32.f64`` does not flush, of positive and of negative numbers: what the code
of ptxas 13.0 for sm_90 compares with. An H100 flushed 0x380FFFFFE0000000 under .rp."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("negative", [False, True])
def test_flushed_from_double(mode: str, *, negative: bool) -> None:
    """A number is flushed if it rounds to less than the smallest normal one where exponents have no end."""
    bound = FLUSHED_BELOW[mode][negative]
    codes = [1, 0x000FFFFFFFFFFFFF, 0x36A0000000000000, bound - 1, bound, NORMAL, 0x7FEFFFFFFFFFFFFF]
    x = np.array([code | negative << 63 for code in codes], np.uint64).view(np.float64)

    result = convert.double_to_flushed(x, mode).view(np.uint32)

    last = _round(Fraction(float(x[-1])), FORMATS["f32"], mode)
    magnitudes = [0, 0, 0, 0, 0x00800000, 0x00800000, last]
    assert result.tolist() == [magnitude | negative << 31 for magnitude in magnitudes]
