"""The tensor cores' dot product: align, truncate, add exactly, round once; batches last.

Operands are ``[K, M, W]`` and ``[K, N, W]``, results ``[M, N, W]``. Every product is exact; all terms of a block (the
products and C) are cut toward zero to F fraction bits below the largest exponent among the nonzero ones, added
exactly, and rounded once: toward zero to f32, to nearest even to f16.
"""

from __future__ import annotations

import functools
from typing import Any

import attrs
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsim.numerics.floating import fma64

Array = NDArray[Any]
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BF16 = np.dtype(ml_dtypes.bfloat16)
PRODUCTS = 1 << 18
ABSENT = -(1 << 14)
ABSENT_F16 = -60
NARROW: dict[str, tuple[Any, int, int, int]] = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 3, 7),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 2, 15),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6, 2, 3),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6, 3, 1),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 1, 1),
}
"""Types of at most eight bits: dtype, bits, bits of the fraction, bias."""


@attrs.frozen
class Unit:
    """A tensor core: fraction bits kept while aligning, bytes of K that one block takes, the least exponent that terms
    are aligned to with f32 and f16 results, the fraction bits of an f32 result, and the least exponent of an f32 C."""

    fraction: int
    block_bytes: int
    floor32: int
    floor16: int
    kept: int = 23
    least_c: int = -126


UNITS: dict[int, Unit] = {
    70: Unit(23, 8, -131, -19),
    75: Unit(24, 16, -132, -20),
    80: Unit(24, 16, -132, -20),
    90: Unit(25, 32, -133, -21),
}
"""By the least capability (times ten) of a generation; sm_90 is measured on an H100, the others are from public models."""


def unit_of(sm: int) -> Unit:
    """The tensor core of a GPU."""
    return UNITS[max(n for n in UNITS if n <= max(sm, 70))]


def decode(bits: Array, kind: str) -> tuple[Array, Array]:
    """Values (f32) and exponents of f16, bf16 (u16), tf32 (u32) or narrower (u8) bits; a zero has the exponent ABSENT.

    e3m2 and e2m3 stand in the low six bits of a byte, e2m1 in the low four."""
    if kind in NARROW:
        values, exponents = _narrow_table(kind)
        return values[bits], exponents[bits]
    if kind == "f16":
        value = bits.view(F16).astype(F32)
        field = (bits >> np.uint16(10)) & np.uint16(0x1F)
        small = np.maximum(field, 1).astype(np.int8) - np.int8(15)
        return value, np.where(value == 0, np.int8(ABSENT_F16), small)
    wide = bits.astype(np.uint32) << np.uint32(16) if kind == "bf16" else bits & np.uint32(0xFFFFE000)
    value, field = wide.view(F32), (wide >> np.uint32(23)) & np.uint32(0xFF)
    exponent = np.maximum(field, 1).astype(np.int16) - np.int16(127)
    return value, np.where(value == 0, np.int16(ABSENT), exponent)


@functools.cache
def _narrow_table(kind: str) -> tuple[Array, Array]:
    dtype, width, mantissa, bias = NARROW[kind]
    table = np.arange(256, dtype=np.uint8) & np.uint8((1 << width) - 1)
    value = table.view(dtype).astype(F32)
    field = np.maximum(table.astype(np.int16) >> mantissa & ((1 << (width - 1 - mantissa)) - 1), 1) - np.int16(bias)
    return value, np.where(value == 0, np.int16(ABSENT), field)


def dot_add(
    a: Array,
    b: Array,
    c: Array,
    kind: str | tuple[str, str],
    unit: int | Unit,
    positions: Array | None = None,
) -> Array:
    """``A . B + C`` by the GPU's blocks, for float operands.

    Args:
        a: bits ``[K, M, W]`` (u16; u32 for tf32; u8 for narrower types).
        b: bits ``[K, N, W]``.
        c: ``[M, N, W]`` f32 or f16: its type is the result's.
        kind: ``f16``, ``bf16``, ``tf32``, or a pair of types of fewer bits.
        unit: the tensor core, or a capability times ten.
        positions: sparse A: the row of B ``[K of A, M, W]`` that each stored element meets.
    """
    kinds = (kind, kind) if isinstance(kind, str) else kind
    unit = unit_of(unit) if isinstance(unit, int) else unit
    step = max(unit.block_bytes // a.dtype.itemsize, 1)
    (av, ae), right = decode(a, kinds[0]), decode(b, kinds[1])
    for k in range(0, a.shape[0], step):
        part = slice(k, k + step)
        bv, be = (select(x, part, positions) for x in right)
        c = _block(av[part], ae[part], bv, be, c, kinds[0], unit)
    return c


def select(b: Array, part: slice, positions: Array | None) -> Array:
    """Rows of B as ``[K, 1, N, W]``, or as ``[K, M, N, W]`` those that the stored elements of sparse A meet."""
    if positions is None:
        return b[part, None]
    return np.take_along_axis(b[:, None], positions[part, :, None], axis=0)


def _block(av: Array, ae: Array, bv: Array, be: Array, c: Array, kind: str, unit: Unit) -> Array:
    k, m, w = av.shape
    n = bv.shape[2]
    out = np.empty((m, n, w), c.dtype)
    special = not (np.isfinite(av).all() and np.isfinite(bv).all() and np.isfinite(c).all())
    width = max(PRODUCTS // (k * m * n), 1)
    exact = _exact_f16 if kind == "f16" and c.dtype == F32 and unit.least_c == -126 else _exact
    for at in range(0, w, width):
        part = slice(at, at + width)
        out[..., part] = exact(av[..., part], ae[..., part], bv[..., part], be[..., part], c[..., part], unit)
    if special:
        specials(av, bv, c, out)
    return out


def _exact_f16(av: Array, ae: Array, bv: Array, be: Array, c: Array, unit: Unit) -> Array:
    """f16 products into f32: everything fits f32 and s32, and no result is subnormal.

    Exponents of products lie between -28 and 30, so C alone decides where it is large, and scales stay normal.
    """
    top = np.maximum.reduce(ae[:, :, None] + be, axis=0).astype(np.int32)
    absent = top < -28
    field = (c.view(np.int32) >> 23) & 0xFF
    emax = np.maximum(top, field - 127, out=field)
    if unit.fraction + 127 - int(emax.min()) > 254:
        np.maximum(emax, unit.fraction - 127, out=emax)
    scale = ((unit.fraction + 127 - emax) << 23).view(F32)
    products = av[:, :, None] * bv
    products *= scale
    total = np.add.reduce(products, axis=0, dtype=np.int32).astype(F64)
    total += np.trunc(c * scale)
    total.view(np.int64)[...] &= -(1 << 29)
    emax += 127 - unit.fraction
    if int(emax.min()) < 1:
        np.maximum(emax, 1, out=emax)
    result = total.astype(F32)
    result *= (emax << 23).view(F32)
    if absent.any():
        result = np.where(absent, c + F32.type(0), result)
    return result


def _exact(av: Array, ae: Array, bv: Array, be: Array, c: Array, unit: Unit) -> Array:
    """Any types; products as integers: of f16 in s32, of others in s64."""
    half = ae.dtype == np.int8
    top = np.maximum.reduce(ae[:, :, None] + be, axis=0)
    top = np.where(top < (-28 if half else ABSENT // 2), ABSENT, top.astype(np.int32))
    emax = aligned_exponent(top, c, unit)
    shift = unit.fraction - emax
    if half:
        scale32 = ((np.clip(shift + 127, 1, 254)) << 23).astype(np.int32).view(F32)
        products = av[:, :, None] * bv
        products *= scale32
        total = np.add.reduce(products, axis=0, dtype=np.int32).astype(F64)
    else:
        wide = av.astype(F64)[:, :, None] * bv.astype(F64)
        wide *= power_of_two(shift)
        total = np.add.reduce(wide, axis=0, dtype=np.int64).astype(F64)
    return rounded(total, top == ABSENT, c, shift, unit)


def aligned_exponent(top: Array, c: Array, unit: Unit) -> Array:
    """The exponent that all terms are aligned to: the largest of the products' and C's, and the unit's floor."""
    if c.dtype == F16:
        field = ((c.view(np.uint16) >> np.uint16(10)) & np.uint16(0x1F)).astype(np.int32)
        ce, floor = np.maximum(field, 1) - 15, unit.floor16
    else:
        ce = np.maximum(((c.view(np.uint32) >> np.uint32(23)).astype(np.int32) & 0xFF) - 127, unit.least_c)
        floor = unit.floor32
    return np.maximum(np.maximum(top, np.where(c == 0, ABSENT, ce)), floor)


def power_of_two(exponent: Array) -> Array:
    """2 to an integer, as f64."""
    return ((exponent + 1023).astype(np.int64) << 52).view(F64)


def rounded(total: Array, absent: Array, c: Array, shift: Array, unit: Unit) -> Array:
    """The aligned sum of the products and C as the result's type: to nearest even for f16, toward zero for f32."""
    total += np.trunc(c.astype(F64) * power_of_two(shift))
    if c.dtype == F16:
        result = (total * power_of_two(-shift)).astype(F16)
    else:
        total.view(np.int64)[...] &= -(1 << 52 - unit.kept)
        value = total * power_of_two(-shift)
        tiny = np.abs(value) < 2.0**-126
        if tiny.any():
            value = np.where(tiny, np.trunc(value * 2.0**149) * 2.0**-149, value)
        result = value.astype(F32)
    if unit.kept == 23:
        return np.where(absent, c + c.dtype.type(0), result)
    return result


def specials(av: Array, bv: Array, c: Array, out: Array) -> None:
    """Outputs that have an Inf or NaN among their terms: Inf of that sign, or the canonical NaN."""
    terms = np.add.reduce(av.astype(F64)[:, :, None] * bv.astype(F64), axis=0) + c.astype(F64)
    bad = ~np.isfinite(terms)
    nan = np.isnan(terms)
    out[bad] = terms[bad].astype(out.dtype)
    out.view(np.uint16 if out.dtype == F16 else np.uint32)[nan] = 0x7FFF if out.dtype == F16 else 0x7FFFFFFF


def dot_ieee(a: Array, b: Array, c: Array, kind: str | tuple[str, str], positions: Array | None = None) -> Array:
    """The same in float64, rounded once."""
    kinds = (kind, kind) if isinstance(kind, str) else kind
    av, bv = decode(a, kinds[0])[0].astype(F64), decode(b, kinds[1])[0].astype(F64)
    if positions is None:
        total = np.einsum("kmw,knw->mnw", av, bv)
    else:
        total = np.einsum("kmw,kmnw->mnw", av, select(bv, slice(None), positions))
    return (total + c.astype(F64)).astype(c.dtype)


def dot_integer(a: Array, b: Array, c: Array, saturate: bool, positions: Array | None = None) -> Array:
    """Integer products added to s32: wrapped, or clamped once.

    Operands of at most eight bits and K of at most 256: f32 sums stay below 2**24 and are exact in any order."""
    left = np.ascontiguousarray(a.transpose(2, 1, 0), F32)
    if positions is None:
        sums = np.matmul(left, np.ascontiguousarray(b.transpose(2, 0, 1), F32))
    else:
        right = np.ascontiguousarray(select(b, slice(None), positions).transpose(3, 1, 0, 2), F32)
        sums = np.matmul(left[:, :, None], right)[:, :, 0]
    total = sums.astype(np.int32).transpose(1, 2, 0)
    if saturate:
        return np.clip(total.astype(np.int64) + c, -(2**31), 2**31 - 1).astype(np.int32)
    return total + c


def dot_bits(a: Array, b: Array, c: Array, exclusive: bool) -> Array:
    """Population counts of words ``[K, M, W]`` and ``[K, N, W]`` combined by xor or and, added to s32."""
    for left, right in zip(a, b, strict=True):
        both = left[:, None] ^ right[None] if exclusive else left[:, None] & right[None]
        c = c + np.bitwise_count(both).astype(np.int32)
    return c


def dot_f64(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """A chain of fmas in ascending k, in the rounding mode given; payloads of NaN go through."""
    for left, right in zip(a, b, strict=True):
        c = fma64(left[:, None], right[None], c, rounding)
    return c
