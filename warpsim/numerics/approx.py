"""The GPU's approximate functions, to the bit: quadratic interpolation with a truncated squarer.

Tables and datapath were recovered from an H100 over all 2^32 inputs of each f32 function; other architectures are
assumed to be the same. All arithmetic is exact integer arithmetic followed by truncation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from warpsim.numerics.arrays import F32, Array, lookup
from warpsim.numerics.floating import canonical, flush, flush_product, fma64, mul, nan64

NAN, INF = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
SIGN = np.uint32(0x80000000)


PIECES = ("rcp", 128), ("ex2", 64), ("rsq", 128), ("sqrt", 128), ("lg2", 64), ("sin", 64), ("tanh", 51)
"""The functions, and how many pieces each has, in the order of the file."""


@lru_cache(maxsize=1)
def coefficients() -> dict[str, tuple[Array, ...]]:
    """Those of each function: constant, linear and quadratic, by piece."""
    stored = np.load(Path(__file__).with_name("tables.npy"), allow_pickle=False).astype(np.int64)
    parts = iter(np.split(stored, np.cumsum([pieces for _, pieces in PIECES for _ in range(3)])))
    return {name: (next(parts), next(parts), next(parts)) for name, _ in PIECES}


@lru_cache(maxsize=1)
def squares() -> Array:
    """The truncated square of every 17-bit number: partial products below 2^19 are dropped."""
    x, total = np.arange(1 << 16, dtype=np.int64), np.zeros(1 << 17, np.int64)
    for n in range(17):  # products of the highest bit: with itself, and with each of the bits that are not dropped
        cut, found = max(18 - n, 0), total[1 << n : 2 << n]
        np.left_shift(x[: 1 << n] >> cut, cut + n + 1, out=found)
        found += total[: 1 << n]
        found += (1 << 2 * n) if 2 * n >= 19 else 0
    total >>= 19
    return total


def _interpolate(name: str, segment: Array, xl: Array, r: int, a: int, b: int) -> Array:
    c0, c1, c2 = (lookup(table, segment) for table in coefficients()[name])
    return (c0 << 15) + r + a * c1 * xl + b * c2 * lookup(squares(), xl)


def _parts(x: Array) -> tuple[Array, Array, Array, Array]:
    bits = x.view(np.uint32)
    wide = bits.astype(np.int64)
    return bits, bits & SIGN, (wide >> 23) & 0xFF, wide & 0x7FFFFF


def _assemble(sign: Array | np.uint32, field: Array, mantissa: Array) -> Array:
    return sign | (field.astype(np.uint32) << np.uint32(23)) | mantissa.astype(np.uint32)


def rcp_ftz(x: Array) -> Array:
    """1/x as ``rcp.approx.ftz.f32``."""
    _, sign, e, m = _parts(x)
    y = _interpolate("rcp", m >> 16, (m & 0xFFFF) << 1, 8092, 2, 4) >> 17
    field = np.where(m == 0, 254 - e, 253 - e)
    out = np.where(field > 0, _assemble(sign, field, np.where(m == 0, 0, y & 0x7FFFFF)), sign)
    out = np.where(e == 0, sign | INF, out)
    out = np.where(e == 255, np.where(m == 0, sign, NAN), out)
    return out.view(F32)


def rsqrt_ftz(x: Array) -> Array:
    """``rsqrt.approx.ftz.f32``."""
    _, sign, e, m = _parts(x)
    odd = (e - 127) & 1
    y = _interpolate("rsq", odd << 6 | m >> 17, m & 0x1FFFF, 32766, 2, 8) >> 17
    exact = (odd == 0) & (m == 0)
    field = 126 - ((e - 127 - odd) >> 1) + exact
    out = _assemble(np.uint32(0), field, np.where(exact, 0, y & 0x7FFFFF))
    return _root_specials(out, sign, e, m, sign | INF, np.uint32(0))


def sqrt_ftz(x: Array) -> Array:
    """``sqrt.approx.ftz.f32``."""
    _, sign, e, m = _parts(x)
    odd = (e - 127) & 1
    y = _interpolate("sqrt", odd << 6 | m >> 17, m & 0x1FFFF, 32767, 1, 2) >> 17
    out = _assemble(np.uint32(0), 127 + ((e - 127 - odd) >> 1), y & 0x7FFFFF)
    return _root_specials(out, sign, e, m, sign, INF)


def _root_specials(out: Array, sign: Array, e: Array, m: Array, at_zero: Array, at_inf: Array | np.uint32) -> Array:
    out = np.where(e == 255, at_inf, out)
    out = np.where((sign != 0) | ((e == 255) & (m != 0)), NAN, out)
    return np.where(e == 0, at_zero, out).view(F32)


def ex2_ftz(x: Array) -> Array:
    """2**x as ``ex2.approx.ftz.f32``."""
    _, sign, e, m = _parts(x)
    t = (m | 0x800000) << 20 >> np.minimum(np.maximum(147 - e, 0), 63)
    t = np.where(sign != 0, -t - ((t & 0x7FFFFF) != 0), t)
    f = t & 0x7FFFFF
    y = (t - f) + (126 << 23) + (_interpolate("ex2", f >> 17, f & 0x1FFFF, 24456, 4, 4) >> 17)
    y = np.minimum(np.where(y < 1 << 23, 0, y), 255 << 23).astype(np.uint32)
    return np.where((e == 255) & (m != 0), NAN, y).view(F32)


def _normalise(magnitude: Array, top: int) -> tuple[Array, Array]:
    """An integer truncated to 24 significant bits, and its exponent field in units of 2**(top - 127)."""
    length = np.maximum((magnitude.astype(np.float64).view(np.int64) >> 52) - 1022, 0)
    shift = length - 24
    significand = np.where(shift >= 0, magnitude >> np.maximum(shift, 0), magnitude << np.maximum(-shift, 0))
    return significand, length - 1 + top


def lg2_ftz(x: Array) -> Array:
    """log2(x) as ``lg2.approx.ftz.f32``."""
    bits, sign, e, m = _parts(x)
    s = _interpolate("lg2", m >> 17, m & 0x1FFFF, 6696, 8, 16)
    t = ((e - 127) << 38) + (s >> 3)
    negative = t < 0
    magnitude = np.where(negative, ~t, t) >> 2
    significand, field = _normalise(magnitude, 127 - 36)
    out = _assemble(np.where(negative, SIGN, np.uint32(0)), field, significand & 0x7FFFFF)
    out = np.where(bits == 0x3F800000, np.uint32(0), out)
    out = np.where(e == 255, INF, out)
    out = np.where((sign != 0) | ((e == 255) & (m != 0)), NAN, out)
    return np.where(e == 0, SIGN | INF, out).view(F32)


def _turns(x: Array) -> Array:
    """x / 2 pi, with the product truncated to 24 bits (FMUL.RZ)."""
    return mul(x, np.array([0x3E22F983], np.uint32).view(F32), "rz")


def _wave(x: Array, quarter: int) -> Array:
    z = _turns(x)
    _, sign, e, m = _parts(z)
    significand = m | 0x800000
    shift = e - 127 + 2
    turn = np.where(shift >= 0, significand << np.clip(shift, 0, 25), significand >> np.clip(-shift, 0, 40))
    f25 = turn & 0x1FFFFFF
    q = ((f25 >> 23) + quarter) & 3
    f = f25 & 0x7FFFFF
    odd = (q & 1) != 0
    g = np.where(odd, 0x7FFFFF - f, f)
    s = _interpolate("sin", g >> 17, g & 0x1FFFF, 0, 16, 16)
    significand, field = _normalise(s, 127 - 41)
    out = np.where(s == 0, np.uint32(0), _assemble(np.uint32(0), field, significand & 0x7FFFFF))
    out = np.where(f == 0, np.where(odd, np.uint32(0x3F800000), np.uint32(0)), out)
    negative = q >= 2
    if quarter == 0:
        negative = negative ^ (sign != 0)
    out = out | np.where(negative, SIGN, np.uint32(0))
    bad = (x.view(np.uint32) & np.uint32(0x7F800000)) == INF
    return np.where(bad, NAN, out).view(F32)


def sin(x: Array) -> Array:
    """``sin.approx.f32``."""
    return _wave(x, 0)


def cos(x: Array) -> Array:
    """``cos.approx.f32``."""
    return _wave(x, 1)


_TANH_BASE = np.array([0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43], np.int64)
_TANH_LOG = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3], np.int64)


def tanh(x: Array) -> Array:
    """``tanh.approx.f32``."""
    bits, sign, e, m = _parts(x)
    b = e - 127
    at = np.clip(b + 8, 0, 10)
    k = lookup(_TANH_LOG, at)
    segment = lookup(_TANH_BASE, at) + (m >> (23 - k))
    xl = (m >> (6 - k)) & 0x1FFFF
    c0, c1, c2 = (lookup(table, segment) for table in coefficients()["tanh"])
    s = (c0 << 17) + c1 * xl + 4 * c2 * lookup(squares(), xl)
    significand, field = _normalise(s, 127 - 41)
    out = _assemble(sign, field + np.minimum(b, 0), significand & 0x7FFFFF)
    out = np.where(b > 2, sign | np.uint32(0x3F800000), out)
    out = np.where(b < -8, bits, out)
    return np.where((e == 255) & (m != 0), NAN, out).view(F32)


# ---- f32 without ftz: what the assembler puts around the unit --------------------------------------

Unit = Callable[[Array], Array]

_SMALL, _LARGE = np.float32(2.0**-126), np.float32(2.0**126)


def _mul(a: Array, b: Array | np.float32) -> Array:
    return canonical(a * b)


def _mul_ftz(a: Array, b: Array) -> Array:
    return flush_product(_mul(a, b), "rn", a, b)


def rcp(x: Array, unit: Unit = rcp_ftz) -> Array:
    """``rcp.approx.f32``."""
    return _mul(*rcp_factors(x, unit))


def rcp_factors(x: Array, unit: Unit = rcp_ftz) -> tuple[Array, Array]:
    """The factors of the last multiplication in `rcp`."""
    k = _divisor_scale(x)
    return unit(_mul(x, k)), k


def _divisor_scale(x: Array) -> Array:
    """The powers of two by which divisors are scaled, so that the unit flushes neither them nor their reciprocals."""
    size = np.abs(x)
    return np.where(size < _SMALL, np.float32(2.0**24), np.where(size > _LARGE, np.float32(0.25), np.float32(1)))


def rsqrt(x: Array, unit: Unit = rsqrt_ftz) -> Array:
    """``rsqrt.approx.f32``."""
    return _root(x, unit, 4096)


def sqrt(x: Array, unit: Unit = sqrt_ftz) -> Array:
    """``sqrt.approx.f32``."""
    return _root(x, unit, 2.0**-12)


def _root(x: Array, unit: Unit, back: float) -> Array:
    """A root; small numbers are scaled by 2**24 before, and their roots by ``back`` after."""
    small = np.abs(x) < _SMALL
    scaled = _mul(x, np.where(small, np.float32(2.0**24), np.float32(1)))
    return _mul(unit(scaled), np.where(small, np.float32(back), np.float32(1)))


def lg2(x: Array, unit: Unit = lg2_ftz) -> Array:
    """``lg2.approx.f32``."""
    small = np.abs(x) < _SMALL
    y = unit(_mul(x, np.where(small, np.float32(2.0**24), np.float32(1))))
    return canonical(np.where(small, y + np.float32(-24), y).astype(F32))


def ex2(x: Array, unit: Unit = ex2_ftz) -> Array:
    """``ex2.approx.f32``."""
    small = x < np.float32(-126)
    y = unit(np.where(small, _mul(x, np.float32(0.5)), x).astype(F32))
    return np.where(small, _mul(y, y), y).astype(F32)


Factors = tuple[Array, Array]
"""The factors of a quotient's last multiplication: the unit's reciprocal and the dividend, scaled alike."""


def div(a: Array, b: Array, unit: Unit = rcp_ftz) -> Array:
    """``div.approx.f32``."""
    return _mul(*div_factors(a, b, unit))


def div_factors(a: Array, b: Array, unit: Unit = rcp_ftz) -> Factors:
    """The factors of `div`."""
    k = np.where(np.abs(b) < _SMALL, np.float32(2.0**24), np.float32(1))
    return unit(_mul(b, k)), _mul(a, k)


def div_ftz(a: Array, b: Array, unit: Unit = rcp_ftz) -> Array:
    """``div.approx.ftz.f32``."""
    return _mul_ftz(*div_ftz_factors(a, b, unit))


def div_ftz_factors(a: Array, b: Array, unit: Unit = rcp_ftz) -> Factors:
    """The factors of `div_ftz`."""
    return flush(a), unit(b)


def div_full(a: Array, b: Array, unit: Unit = rcp_ftz) -> Array:
    """``div.full.f32``."""
    return _mul(*div_full_factors(a, b, unit))


def div_full_factors(a: Array, b: Array, unit: Unit = rcp_ftz) -> Factors:
    """The factors of `div_full`."""
    k = _divisor_scale(b)
    return unit(_mul(b, k)), _mul(a, k)


def div_full_ftz(a: Array, b: Array, unit: Unit = rcp_ftz) -> Array:
    """``div.full.ftz.f32``."""
    return _mul_ftz(*div_full_ftz_factors(a, b, unit))


def div_full_ftz_factors(a: Array, b: Array, unit: Unit = rcp_ftz) -> Factors:
    """The factors of `div_full_ftz`."""
    a, b = flush(a), flush(b)
    k = np.where(np.abs(b) > _LARGE, np.float32(0.25), np.float32(1))
    return unit(_mul_ftz(b, k)), _mul_ftz(a, k)


# ---- f64: only the high word counts ------------------------------------------------------------------


def _double(sign: Array | np.uint32, field: Array, mantissa: Array) -> Array:
    """The high word of an f64 from sign bit, exponent field and 20 mantissa bits."""
    return sign | (field.astype(np.uint32) << np.uint32(20)) | mantissa.astype(np.uint32)


def _double_parts(x: Array) -> tuple[Array, Array, Array]:
    high = (x.view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    wide = high.astype(np.int64)
    return high & SIGN, (wide >> 20) & 0x7FF, (wide & 0xFFFFF) << 3


def _double_result(high: Array) -> Array:
    return (high.astype(np.uint64) << np.uint64(32)).view(np.float64)


def rcp_f64(x: Array) -> Array:
    """``rcp.approx.ftz.f64``."""
    sign, e, m = _double_parts(x)
    y = _interpolate("rcp", m >> 16, (m & 0xFFFF) << 1, 8092, 2, 4) >> 20
    field = np.where(m == 0, 2046 - e, 2045 - e)
    out = np.where(field > 0, _double(sign, field, np.where(m == 0, 0, y & 0xFFFFF)), sign)
    out = np.where(e == 0, sign | np.uint32(0x7FF00000), out)
    return _double_result(np.where(e == 2047, np.where(m == 0, sign, NAN), out).astype(np.uint32))


def rsqrt_ftz_f64(x: Array) -> Array:
    """``rsqrt.approx.ftz.f64``."""
    sign, e, m = _double_parts(x)
    odd = (e - 1023) & 1
    y = _interpolate("rsq", odd << 6 | m >> 17, m & 0x1FFFF, 32766, 2, 8) >> 20
    exact = (odd == 0) & (m == 0)
    field = 1022 - ((e - 1023 - odd) >> 1) + exact
    out = _double(np.uint32(0), field, np.where(exact, 0, y & 0xFFFFF))
    out = np.where(e == 2047, np.uint32(0), out)
    out = np.where((sign != 0) | ((e == 2047) & (m != 0)), NAN, out)
    return _double_result(np.where(e == 0, sign | np.uint32(0x7FF00000), out).astype(np.uint32))


def rsqrt_f64(x: Array) -> Array:
    """``rsqrt.approx.f64``: the unit and one refinement step, as the assembler emits it."""
    small = np.abs(x) < 2.0**-1022
    scaled = np.where(small, x * 2.0**54, x)
    y = rsqrt_ftz_f64(scaled)
    e = fma64(scaled, -(y * y), np.ones(1))
    half = fma64(e, np.full(1, 0.375), np.full(1, 0.5))
    r = fma64(half, y * e, y)
    r = np.where(small, r * 2.0**27, r)
    r = np.where(x == 0, np.copysign(np.inf, x), np.where(x == np.inf, 0.0, np.where(x < 0, np.nan, r)))
    return nan64(r, np.where(np.isnan(x), x, 0.0))


# ---- halves -------------------------------------------------------------------------------------


def truncate_f16(x: Array) -> Array:
    """Truncate f32 to f16 toward zero, keeping subnormals; 65536 and above become Inf, NaN becomes 0x7FFF."""
    bits, sign, e, m = _parts(x)
    field = e - 127 + 15
    significand = m | 0x800000
    normal = (np.clip(field, 0, 30) << 10) | (m >> 13)
    subnormal = significand >> np.clip(14 - field, 0, 40)
    out = np.where(field > 0, normal, subnormal)
    out = np.where(field >= 31, 0x7C00, out)
    out = out | (sign >> np.uint32(16)).astype(np.int64)
    out = np.where((bits & np.uint32(0x7FFFFFFF)) > INF, 0x7FFF, out)
    return out.astype(np.uint16)


def truncate_bf16(x: Array) -> Array:
    """The upper half of f32; NaN 0x7FFF."""
    bits = x.view(np.uint32)
    out = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where((bits & np.uint32(0x7FFFFFFF)) > INF, np.uint16(0x7FFF), out)
