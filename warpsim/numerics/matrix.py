"""The tensor cores' dot product: align, truncate, add exactly, round once; batches last.

Operands are ``[K, M, W]`` and ``[K, N, W]``, results ``[M, N, W]``. Every product is exact; all terms of a block (the
products and C) are cut toward zero to F fraction bits below the largest exponent among the nonzero ones, added
exactly, and rounded once: toward zero to f32, to nearest even to f16.
"""

from __future__ import annotations

from typing import Any

import attrs
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BF16 = np.dtype(ml_dtypes.bfloat16)
PRODUCTS = 1 << 18
ABSENT = -(1 << 14)
ABSENT_F16 = -60


@attrs.frozen
class Unit:
    """A tensor core: fraction bits kept while aligning, and bytes of K that one block takes."""

    fraction: int
    block_bytes: int
    floor32: int
    floor16: int


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
    """Values and exponents of f16, bf16 (u16) or tf32 (u32) bits; a zero has the exponent ABSENT."""
    if kind == "f16":
        value = bits.view(F16).astype(F32)
        field = (bits >> np.uint16(10)) & np.uint16(0x1F)
        bias = 15
    elif kind == "bf16":
        wide = bits.astype(np.uint32) << np.uint32(16)
        value, field, bias = wide.view(F32), (wide >> np.uint32(23)) & np.uint32(0xFF), 127
    else:
        wide = bits & np.uint32(0xFFFFE000)
        value, field, bias = wide.view(F32), (wide >> np.uint32(23)) & np.uint32(0xFF), 127
    if kind == "f16":
        small = np.maximum(field, 1).astype(np.int8) - np.int8(bias)
        return value, np.where(value == 0, np.int8(ABSENT_F16), small)
    exponent = np.maximum(field, 1).astype(np.int16) - np.int16(bias)
    return value, np.where(value == 0, np.int16(ABSENT), exponent)


def dot_add(a: Array, b: Array, c: Array, kind: str, sm: int) -> Array:
    """``A . B + C`` by the GPU's blocks, for float operands.

    Args:
        a: bits ``[K, M, W]`` (u16, or u32 for tf32).
        b: bits ``[K, N, W]``.
        c: ``[M, N, W]`` f32 or f16: its type is the result's.
        kind: ``f16``, ``bf16`` or ``tf32``.
        sm: capability times ten.
    """
    unit = unit_of(sm)
    step = max(unit.block_bytes // a.dtype.itemsize, 1)
    for k in range(0, a.shape[0], step):
        c = _block(a[k : k + step], b[k : k + step], c, kind, unit)
    return c


def _block(a: Array, b: Array, c: Array, kind: str, unit: Unit) -> Array:
    k, m, w = a.shape
    n = b.shape[1]
    out = np.empty((m, n, w), c.dtype)
    av, ae = decode(a, kind)
    bv, be = decode(b, kind)
    special = not (np.isfinite(av).all() and np.isfinite(bv).all() and np.isfinite(c).all())
    width = max(PRODUCTS // (k * m * n), 1)
    for at in range(0, w, width):
        part = slice(at, at + width)
        out[..., part] = _exact(av[..., part], ae[..., part], bv[..., part], be[..., part], c[..., part], kind, unit)
    if special:
        _specials(av, bv, c, out)
    return out


def _exact_f16(av: Array, ae: Array, bv: Array, be: Array, c: Array, unit: Unit) -> Array:
    """f16 products into f32: everything fits f32 and s32, and no result is subnormal.

    Exponents of products lie between -28 and 30, so C alone decides where it is large, and scales stay normal.
    """
    top = np.maximum.reduce(ae[:, :, None] + be[:, None], axis=0).astype(np.int32)
    absent = top < -28
    field = (c.view(np.int32) >> 23) & 0xFF
    emax = np.maximum(top, field - 127, out=field)
    if unit.fraction + 127 - int(emax.min()) > 254:
        np.maximum(emax, unit.fraction - 127, out=emax)
    scale = ((unit.fraction + 127 - emax) << 23).view(F32)
    products = av[:, :, None] * bv[:, None]
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


def _exact(av: Array, ae: Array, bv: Array, be: Array, c: Array, kind: str, unit: Unit) -> Array:
    small = c.dtype == F16
    if kind == "f16" and not small:
        return _exact_f16(av, ae, bv, be, c, unit)
    top = np.maximum.reduce(ae[:, :, None] + be[:, None], axis=0)
    absent = top < (-28 if kind == "f16" else ABSENT // 2)
    top = top.astype(np.int32)
    if small:
        cv = c.astype(F64)
        field = ((c.view(np.uint16) >> np.uint16(10)) & np.uint16(0x1F)).astype(np.int32)
        ce = np.maximum(field, 1) - 15
    else:
        cv = c.astype(F64)
        ce = np.maximum((c.view(np.uint32) >> np.uint32(23)).astype(np.int32) & 0xFF, 1) - 127
    emax = np.maximum(np.maximum(top, np.where(cv == 0, ABSENT, ce)), unit.floor16 if small else unit.floor32)
    shift = unit.fraction - emax
    if kind == "f16":
        scale32 = ((np.clip(shift + 127, 1, 254)) << 23).astype(np.int32).view(F32)
        products = av[:, :, None] * bv[:, None]
        products *= scale32
        total = np.add.reduce(products, axis=0, dtype=np.int32).astype(F64)
    else:
        scale64 = ((shift + 1023).astype(np.int64) << 52).view(F64)
        wide = av.astype(F64)[:, :, None] * bv.astype(F64)[:, None]
        wide *= scale64
        total = np.add.reduce(wide, axis=0, dtype=np.int64).astype(F64)
    scale = ((shift + 1023).astype(np.int64) << 52).view(F64)
    total += np.trunc(cv * scale)
    back = ((1023 - shift).astype(np.int64) << 52).view(F64)
    if small:
        result = (total * back).astype(F16)
    else:
        total.view(np.int64)[...] &= ~np.int64((1 << 29) - 1)
        value = total * back
        if kind != "f16":
            tiny = np.abs(value) < 2.0**-126
            value = np.where(tiny, np.trunc(value * 2.0**149) * 2.0**-149, value)
        result = value.astype(F32)
    return np.where(absent, c + c.dtype.type(0), result)


def _specials(av: Array, bv: Array, c: Array, out: Array) -> None:
    """Outputs that have an Inf or NaN among their terms: Inf of that sign, or the canonical NaN."""
    terms = np.add.reduce(av.astype(F64)[:, :, None] * bv.astype(F64)[:, None], axis=0) + c.astype(F64)
    bad = ~np.isfinite(terms)
    nan = np.isnan(terms)
    out[bad] = terms[bad].astype(out.dtype)
    out.view(np.uint16 if out.dtype == F16 else np.uint32)[nan] = 0x7FFF if out.dtype == F16 else 0x7FFFFFFF


def dot_ieee(a: Array, b: Array, c: Array, kind: str) -> Array:
    """The same in float64, rounded once."""
    av, bv = decode(a, kind)[0].astype(F64), decode(b, kind)[0].astype(F64)
    total = np.einsum("kmw,knw->mnw", av, bv) + c.astype(F64)
    return total.astype(c.dtype)


def dot_integer(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    """Integer products added to s32: wrapped, or clamped once."""
    total = np.zeros(c.shape, np.int64)
    for x, y in zip(a, b, strict=True):
        total += x.astype(np.int64)[:, None] * y.astype(np.int64)[None]
    total += c
    if saturate:
        total = np.clip(total, -(2**31), 2**31 - 1)
    return total.astype(np.int32)
