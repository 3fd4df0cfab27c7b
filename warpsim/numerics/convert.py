"""Conversions between number formats, with the hardware's rounding, saturation and NaNs.

Modes are ``rn rz rm rp rna`` (to a format) and ``rni rzi rmi rpi`` (to an integral value). Small formats and directed
modes go through integer arithmetic on the bits (`round_bits`); common conversions take NumPy's shortest path.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from warpsim.numerics.arrays import BF16, EXPONENT, F16, F32, F64, Array, DType, join, lookup, words
from warpsim.numerics.floating import canonical, narrow
from warpsim.records import frozen

_NAMES = {F16: "f16", BF16: "bf16", F32: "f32", F64: "f64"}
_INTEGRAL: dict[str, np.ufunc] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def has_nan(x: Array) -> bool:
    """Whether any value is NaN; cheaper than isnan, which allocates an array."""
    return bool(x.size) and bool(np.isnan(np.minimum.reduce(x, axis=None)))


# ---- to and from integers -----------------------------------------------------------------------


def integer_to_integer(x: Array, dtype: DType) -> Array:
    """Clamp to the target's range."""
    own, info = np.iinfo(x.dtype), np.iinfo(dtype)
    return np.clip(x, max(int(info.min), int(own.min)), min(int(info.max), int(own.max))).astype(dtype)


def to_integer(x: Array, dtype: DType, mode: str) -> Array:
    """Round f16, f32 or f64 to an integer and clamp. NaN gives 0, or only the top bit set if either side has 64 bits."""
    r = _INTEGRAL[mode](x)
    info = np.iinfo(dtype)
    if dtype.itemsize < 8:
        wide = np.minimum(np.maximum(r.astype(F64), float(info.min)), float(info.max))
        out = wide.astype(np.int32 if dtype.kind == "i" or dtype.itemsize < 4 else np.int64).astype(dtype)
    else:
        out = _to_64(r.astype(F64), dtype)
    if has_nan(r):
        top = 1 << (dtype.itemsize * 8 - 1)
        nan = np.array(top if 8 in (dtype.itemsize, x.dtype.itemsize) else 0, f"u{dtype.itemsize}").view(dtype)
        out = np.where(np.isnan(x), nan, out)
    return out


def _to_64(r: Array, dtype: DType) -> Array:
    info = np.iinfo(dtype)
    over, under = r >= float(info.max), r <= float(info.min)
    inside = np.where(over | under | np.isnan(r), 0.0, r)
    if dtype.kind == "i":
        out = inside.astype(np.int64)
    else:
        upper = inside >= 2.0**63
        low = np.where(upper, inside - 2.0**63, inside).astype(np.int64).view(np.uint64)
        out = np.where(upper, low + np.uint64(1 << 63), low)
    return np.where(over, dtype.type(info.max), np.where(under, dtype.type(info.min), out))


def integer_to_float(x: Array, dtype: DType, mode: str) -> Array:
    """Convert an integer to float, rounded once."""
    if dtype == F64:
        return x.astype(F64) if x.dtype.itemsize < 8 or mode == "rn" else _directed_double(x, mode)
    if dtype == F32 and mode == "rn":
        return x.astype(F32)
    exact = x.astype(F64) if x.dtype.itemsize < 8 else _odd_double(x)
    return narrow(exact, mode) if dtype == F32 else to_half(exact, dtype, mode)


def _magnitude(x: Array) -> Array:
    u = x.view(np.uint64)
    return np.where(x < 0, ~u + np.uint64(1), u) if x.dtype.kind == "i" else u


def _odd_double(x: Array) -> Array:
    """Convert a 64-bit integer to f64, rounded to odd."""
    magnitude = _magnitude(x)
    sticky = np.where(magnitude & np.uint64(0x7FF), np.uint64(0x800), np.uint64(0))
    cut = np.where(magnitude >> np.uint64(53), magnitude & ~np.uint64(0x7FF) | sticky, magnitude)
    r = cut.astype(F64)
    return np.where(x < 0, -r, r) if x.dtype.kind == "i" else r


def _directed_double(x: Array, mode: str) -> Array:
    """Convert a 64-bit integer to f64 in a directed mode: truncate to 53 bits, then step up if the mode requires it."""
    magnitude = _magnitude(x)
    lost = np.uint64(0x7FF) >> np.minimum(_leading_zeros(magnitude), np.uint64(11))
    kept, negative = magnitude & ~lost, x < 0
    up = (magnitude != kept) & (negative if mode == "rm" else ~negative) & (mode != "rz")
    r = kept.astype(F64)
    r = np.where(up, r + (lost.astype(F64) + 1.0), r)
    return np.where(negative, -r, r)


def _leading_zeros(x: Array) -> Array:
    count = np.zeros(x.shape, np.uint64)
    for i in range(11):
        count = count + (x < np.uint64(1 << (63 - i)))
    return count


# ---- between floating-point formats -------------------------------------------------------------


def round_integral(x: Array, mode: str) -> Array:
    """Round to an integral value of the same format. NaN becomes canonical; in f64 it becomes quiet."""
    if x.dtype == F64:
        return _INTEGRAL[mode](x)
    if x.dtype == F32:
        return canonical(_INTEGRAL[mode](x))
    return to_half(_INTEGRAL[mode](x.astype(F32)), x.dtype, "rn")


def to_half(x: Array, dtype: DType, mode: str) -> Array:
    """Convert f32 or f64 to f16 or bf16, rounded once; NaN becomes 0x7FFF."""
    if x.dtype == F32 and mode == "rn":
        if dtype == F16:
            out = x.astype(F16).view(np.uint16)
        else:
            bits = x.view(np.uint32)
            out = ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype(
                np.uint16
            )
    else:
        out = round_bits(x, _NAMES[dtype], mode).astype(np.uint16)
    if has_nan(x):
        out = np.where(np.isnan(x), np.uint16(0x7FFF), out)
    return out.view(dtype)


def float_to_float(x: Array, dtype: DType, mode: str) -> Array:
    """Convert between f16, bf16, f32 and f64, rounded once, with the NaN that the instruction produces."""
    if dtype == x.dtype:
        nan = x.dtype.itemsize == 2 and has_nan(x)
        return np.where(np.isnan(x), np.uint16(0x7FFF), x.view(np.uint16)).view(dtype) if nan else x
    if x.dtype == F64:
        return _from_double(x, dtype, mode)
    if x.dtype == BF16:
        if dtype == F16:
            return to_half(x.astype(F32), F16, mode)
        single = (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(F32)
        return single if dtype == F32 else quiet_double(single)
    if dtype == F64:
        return quiet_double(x)
    if dtype == F32:
        return canonical(x.astype(F32))
    return to_half(x.astype(F32) if x.dtype == F16 else x, dtype, mode)


def quiet_double(x: Array) -> Array:
    """Convert f16 or f32 to f64; NaN keeps sign and payload and becomes quiet."""
    out = x.astype(F64)
    if has_nan(x):
        form, u = FORMATS[_NAMES[x.dtype]], words(x).astype(np.uint64)
        payload = (u & np.uint64((1 << form.fraction) - 1)) << np.uint64(52 - form.fraction)
        sign = u >> np.uint64(form.width - 1) << np.uint64(63)
        nan = sign | np.uint64(0x7FF8000000000000) | payload
        out = np.where(np.isnan(x), nan, out.view(np.uint64)).view(F64)
    return out


def _from_double(x: Array, dtype: DType, mode: str) -> Array:
    if dtype == F32 and mode == "rn" and not has_nan(x):
        return x.astype(F32)
    code = round_bits(x, _NAMES[dtype], mode)
    return code.astype(f"u{dtype.itemsize}").view(dtype)


def double_to_flushed(x: Array, mode: str) -> Array:
    """Convert f64 to f32 with .ftz: zero of the same sign where the number, rounded to 24 bits with no least exponent, is
    subnormal. So 2^-126 - 2^-150 becomes 0 even where f32 would round it up to 2^-126: ptxas compares the f64 itself."""
    rounded = _from_double(x, F32, mode)
    scaled = _from_double(x * 2.0**64, F32, mode)
    zero = np.copysign(np.float32(0), rounded)
    return np.where(np.abs(scaled) < np.float32(2.0**-62), zero, rounded).astype(F32)


def canonical_single(x: Array) -> Array:
    """f32 with NaN replaced by 0x7FFFFFFF; copies only if there is a NaN."""
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), x.view(np.uint32)).view(F32) if has_nan(x) else x


# ---- .relu, .satfinite and packed formats -------------------------------------------------------


def half_bits(x: Array, name: str, mode: str, *, relu: bool, finite: bool) -> Array:
    """Convert f32 to the bits (u16) of f16 or bf16; ``finite`` clamps overflow, ``relu`` clamps negative results to 0."""
    if not finite and not relu:
        return to_half(x, F16 if name == "f16" else BF16, mode).view(np.uint16)
    return round_bits(x, name, mode, finite=finite, relu=relu).astype(np.uint16)


def stochastic_bits(x: Array, name: str, random: Array, n: int, *, relu: bool, finite: bool) -> Array:
    """Convert f32 to codes (u32), rounded by the low ``n`` bits of ``random`` (PTX ISA, cvt.rs)."""
    cut = random & np.uint32((1 << n) - 1), n
    return round_bits(x, name, "rs", finite=finite, relu=relu, random=cut).astype(np.uint32)


def small_to_half2(low: Array, high: Array, name: str, *, relu: bool) -> Array:
    """Convert two codes to f16x2 registers."""
    parts = (to_f16(code, name) for code in (low, high))
    return join(*(relu_bits(part, "f16") if relu else part for part in parts))


def to_ue8m0(x: Array, mode: str, *, finite: bool) -> Array:
    """Convert f32 magnitudes to powers of two (u8), rounded up (``rp``) or down (``rz``); NaN is 0xFF."""
    bits = x.view(np.uint32) & np.uint32(0x7FFFFFFF)
    code = bits >> np.uint32(23)
    if mode == "rp":
        subnormal = (code == 0) & (bits > np.uint32(1 << 22))
        code = np.where(code == 0, subnormal.astype(np.uint32), code + ((bits & np.uint32(0x7FFFFF)) != 0))
    code = np.minimum(code, np.uint32(0xFE)) if finite else np.minimum(code, np.uint32(0xFF))
    return np.where(bits > np.uint32(EXPONENT[F32]), np.uint32(0xFF), code).astype(np.uint8)


def from_ue8m0(code: Array) -> Array:
    """Convert powers of two to bf16 bits (u16); 0xFF is NaN."""
    wide = code.astype(np.uint16)
    return np.where(wide == 0xFF, np.uint16(0x7FFF), np.where(wide == 0, np.uint16(0x40), wide << np.uint16(7)))


def tf32(x: Array, mode: str, *, relu: bool = False, finite: bool = False) -> Array:
    """Round f32 to 10 fraction bits, as u32.

    ``rna`` only truncates NaN; its ``finite`` steps one back from every result beyond the finite values.
    """
    bits = x.view(np.uint32)
    if mode == "rna":
        special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        out = np.where(special, bits, bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        if finite:
            out = np.where((out & np.uint32(0x7F800000)) == np.uint32(0x7F800000), out - np.uint32(0x2000), out)
        return out
    magnitude = (bits & np.uint32(0x7FFFFFFF)).astype(np.int64)
    kept = magnitude >> 13
    kept = kept + rounds_up(kept, magnitude & 0x1FFF, 0x1000, (bits >> 31) != 0, mode)
    out = (kept << 13).astype(np.uint32)
    if finite:
        out = np.minimum(out, np.uint32(0x7F7FE000))
    out = np.where(magnitude > 0x7F800000, np.uint32(0x7FFFE000), out)
    negative = (bits >> np.uint32(31) != 0) & (magnitude <= 0x7F800000)
    if relu:
        return np.where(negative, np.uint32(0), out)
    return np.where(negative, out | np.uint32(0x80000000), out)


def pack_saturated(a: Array, dtype_bits: int, *, signed: bool) -> Array:
    """Clamp s32 to a field of a few bits, as u32."""
    low, high = (-(1 << (dtype_bits - 1)), (1 << (dtype_bits - 1)) - 1) if signed else (0, (1 << dtype_bits) - 1)
    return np.clip(a, low, high).astype(np.int32).view(np.uint32) & np.uint32((1 << dtype_bits) - 1)


@frozen
class Format:
    """A binary format; ``infinity`` and ``nan`` are magnitudes, None if the format has none."""

    exponent: int
    fraction: int
    greatest: int
    infinity: int | None
    nan: int | None

    @property
    def bias(self) -> int:
        """The exponent bias."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        """Total number of bits."""
        return 1 + self.exponent + self.fraction


FORMATS = {
    "f16": Format(5, 10, 0x7BFF, 0x7C00, 0x7FFF),
    "bf16": Format(8, 7, 0x7F7F, 0x7F80, 0x7FFF),
    "f32": Format(8, 23, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF),
    "f64": Format(11, 52, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, None),
    "e4m3": Format(4, 3, 0x7E, None, 0x7F),
    "e5m2": Format(5, 2, 0x7B, 0x7C, 0x7F),
    "e2m3": Format(2, 3, 0x1F, None, None),
    "e3m2": Format(3, 2, 0x1F, None, None),
    "e2m1": Format(2, 1, 0x7, None, None),
}
_SOURCES = {4: FORMATS["f32"], 8: FORMATS["f64"]}


def round_bits(
    x: Array,
    target: str,
    mode: str,
    *,
    finite: bool = False,
    relu: bool = False,
    random: tuple[Array, int] | None = None,
) -> Array:
    """Convert f32 or f64 values to codes of ``target`` (int64), rounded once; ``finite`` clamps overflow and infinities,
    ``relu`` negative results to 0. Mode ``rs`` adds ``random`` (bits, and how many) to the leading bits that are cut off, and
    rounds by the carry.

    NaN gives the target's NaN without sign, or the largest finite value if it has none (positive, too: CUDA's headers say so of
    the conversions to e2m1, e2m3 and e3m2); an f64 NaN keeps its sign and the leading bits of its payload.
    """
    source, form = _SOURCES[x.dtype.itemsize], FORMATS[target]
    word = x.view(np.int64) if x.dtype.itemsize == 8 else x.view(np.int32).astype(np.int64)
    negative = word < 0
    magnitude = word & ((1 << (source.width - 1)) - 1)
    field = magnitude >> source.fraction
    significand = magnitude & ((1 << source.fraction) - 1) | (field > 0).astype(np.int64) << source.fraction
    above = np.maximum(field, 1) - source.bias - (1 - form.bias)
    shift = np.minimum(source.fraction - form.fraction + np.maximum(-above, 0), 62)
    code = (significand >> shift) + (np.maximum(above, 0) << form.fraction)
    rest = significand & ((np.int64(1) << shift) - 1)
    if random is not None:
        bits, n = random
        code = code + ((rest >> (shift - n)) + bits.astype(np.int64) >> n)
    else:
        code = code + rounds_up(code, rest, np.int64(1) << (shift - 1), negative, mode)
    code = np.where(code > form.greatest, _overflow(form, negative, mode, finite=finite), code)
    infinite = source.infinity
    assert infinite is not None, "f32 and f64 have infinities"
    if (magnitude >= infinite).any():
        limit = form.greatest if finite or form.infinity is None else form.infinity
        nan: Array | int = form.greatest if form.nan is None else form.nan
        if source.width == 64 and form.infinity is not None and not finite:
            nan = form.infinity | 1 << (form.fraction - 1) | (magnitude - infinite) >> (source.fraction - form.fraction)
        else:
            negative = negative & (magnitude <= infinite)
        code = np.where(magnitude == infinite, limit, np.where(magnitude > infinite, nan, code))
    code = code | negative.astype(np.int64) << (form.width - 1)
    return relu_bits(code, target) if relu else code


def _overflow(form: Format, negative: Array, mode: str, *, finite: bool) -> Array | int:
    if finite or form.infinity is None or mode == "rz":
        return form.greatest
    if mode in ("rn", "rs"):
        return form.infinity
    return np.where(negative == (mode == "rm"), form.infinity, form.greatest)


def rounds_up(kept: Array, rest: Array, half: Array | int, negative: Array, mode: str) -> Array:
    """Whether a magnitude, from which ``rest`` (of ``2 * half``) was cut off, is rounded away from zero."""
    if mode == "rn":
        return (rest > half) | ((rest == half) & ((kept & 1) != 0))
    if mode == "rz":
        return np.zeros(1, np.bool_)
    return (rest != 0) & (negative == (mode == "rm"))


def relu_bits(code: Array, target: str) -> Array:
    """Replace negative codes (not NaN) by +0."""
    form = FORMATS[target]
    sign = 1 << (form.width - 1)
    top = form.greatest if form.infinity is None else form.infinity
    return np.where((code > sign - 1) & (code <= (sign | top)), 0, code)


@cache
def _table_of(source: str) -> Array:
    form = FORMATS[source]
    codes = np.arange(1 << form.width)
    magnitude = codes & ((1 << (form.width - 1)) - 1)
    field, fraction = magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)
    exponent = np.maximum(field, 1) - form.bias - form.fraction
    value = np.ldexp((fraction + np.where(field > 0, 1 << form.fraction, 0)).astype(np.float64), exponent)
    if form.infinity is not None:
        value[magnitude == form.infinity] = np.inf
    half = np.where(codes >> (form.width - 1) == 1, -value, value).astype(np.float16).view(np.uint16)
    if form.nan is not None:
        half[magnitude > (form.greatest if form.infinity is None else form.infinity)] = 0x7FFF
    return half


def to_f16(code: Array, source: str) -> Array:
    """Convert codes of a format of at most 8 bits to f16 bits (u16)."""
    table = _table_of(source)
    return lookup(table, code & (len(table) - 1))
