"""The dot product of wgmma: the blocks of `matrix`, fp8 with fewer bits, sparse A by gathering B."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsim.numerics import matrix

Array = NDArray[Any]
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FP8: dict[str, tuple[Any, int, int]] = {"e4m3": (ml_dtypes.float8_e4m3fn, 3, 7), "e5m2": (ml_dtypes.float8_e5m2, 2, 15)}
FRACTION = 13
"""Fraction bits kept below the largest exponent, and in an f32 result (measured on an H100; the text says more)."""
PRODUCTS = 1 << 20


def dot_float(a: Array, b: Array, c: Array, types: tuple[str, str], sm: int) -> Array:
    """``A . B + C`` of bits ``[K, M, W]``, ``[K, N, W]`` and f32 or f16 ``[M, N, W]``, as the GPU rounds."""
    if types[0] not in FP8:
        return matrix.dot_add(a, b, c, types[0], max(sm, 90))
    out = np.empty(np.broadcast_shapes(c.shape), c.dtype)
    (av, ae), (bv, be) = decode_fp8(a, types[0]), decode_fp8(b, types[1])
    width = max(PRODUCTS // (a.shape[0] * a.shape[1] * b.shape[1]), 1)
    for at in range(0, c.shape[2], width):
        part = slice(at, at + width)
        out[..., part] = _block_fp8(av[..., part], ae[..., part], bv[..., part], be[..., part], c[..., part])
    return out


def dot_ieee(a: Array, b: Array, c: Array, types: tuple[str, str]) -> Array:
    """The same in float64, rounded once."""
    av, bv = (_values(x, kind).astype(F64) for x, kind in zip((a, b), types, strict=True))
    return (np.einsum("kmw,knw->mnw", av, bv) + c.astype(F64)).astype(c.dtype)


def _values(bits: Array, kind: str) -> Array:
    return decode_fp8(bits, kind)[0] if kind in FP8 else matrix.decode(bits, kind)[0]


def dot_integer(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    """Integer ``A . B + C``, wrapped or clamped once; float64 sums of such products are exact."""
    product = np.matmul(a.transpose(2, 1, 0).astype(F64), b.transpose(2, 0, 1).astype(F64))
    total = product.astype(np.int64).transpose(1, 2, 0) + c
    if saturate:
        total = np.clip(total, -(2**31), 2**31 - 1)
    return total.astype(np.int32)


def dot_binary(a: Array, b: Array, c: Array) -> Array:
    """Counts of common set bits, added to s32; bytes ``[K / 8, M, W]`` and ``[K / 8, N, W]``."""
    return dot_integer(np.unpackbits(a, axis=0), np.unpackbits(b, axis=0), c, False)


def decode_fp8(bits: Array, kind: str) -> tuple[Array, Array]:
    """Values (f32) and exponents (int32) of fp8 bytes; a zero has the exponent ABSENT."""
    dtype, mantissa, bias = FP8[kind]
    value = np.ascontiguousarray(bits).view(dtype).astype(F32)
    field = (bits.astype(np.int32) & 0x7F) >> mantissa
    return value, np.where(value == 0, matrix.ABSENT, np.maximum(field, 1) - bias)


def _block_fp8(av: Array, ae: Array, bv: Array, be: Array, c: Array) -> Array:
    small = c.dtype == F16
    terms = av[:, :, None].astype(F64) * bv[:, None]
    top = np.maximum.reduce(ae[:, :, None] + be[:, None], axis=0)
    absent = top < matrix.ABSENT // 2
    cv = c.astype(F64)
    if small:
        ce = np.maximum((c.view(np.uint16) >> 10 & 0x1F).astype(np.int32), 1) - 15
    else:
        ce = np.maximum((c.view(np.uint32) >> 23 & 0xFF).astype(np.int32), 1) - 127
    emax = np.maximum(top, np.where((cv == 0) & ~absent, matrix.ABSENT, ce))
    scale = ((FRACTION - emax + 1023).astype(np.int64) << 52).view(F64)
    bad = terms.sum(axis=0) + cv
    total = np.trunc(terms * scale).sum(axis=0) + np.trunc(cv * scale)
    value = total * ((emax - FRACTION + 1023).astype(np.int64) << 52).view(F64)
    special = ~np.isfinite(bad)
    value = np.where(special, bad, value)
    if small:
        result = (value + 0.0).astype(F16)
        result.view(np.uint16)[np.isnan(bad)] = 0x7FFF
        return result
    cut = np.where(special, value, (value.view(np.int64) & -(1 << 39)).view(F64))
    result = (cut + 0.0).astype(F32)
    result.view(np.uint32)[np.isnan(bad)] = 0x7FFFFFFF
    return result


def select_rows(b: Array, positions: Array) -> Array:
    """The rows of B ``[K, N, W]`` that each stored element of sparse A meets: ``[K / 2, N, M * W]``."""
    k, m, w = positions.shape
    columns = np.arange(w)
    picked = b.transpose(0, 2, 1)[positions, columns]
    return np.ascontiguousarray(picked.reshape(k, m * w, -1).transpose(0, 2, 1))
