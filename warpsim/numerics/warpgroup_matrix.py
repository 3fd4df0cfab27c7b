"""The products of wgmma, one warpgroup's tile after the other: align, truncate, add exactly, round once.

Operands are ``[W, K, M]`` and ``[W, K, N]``, results ``[W, M, N]``. The arithmetic is that of `matrix`, laid out for large
tiles: all products of a block of rows in one array, the innermost loop along N. Products of 16-bit floats, times the
power of two that makes their quantum 1, are exact in f32 and truncated by the cast to s32; C joins in f64.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsim.numerics import matrix

Array = NDArray[Any]
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FP8: dict[str, tuple[Any, int, int]] = {"e4m3": (ml_dtypes.float8_e4m3fn, 3, 7), "e5m2": (ml_dtypes.float8_e5m2, 2, 15)}
FRACTION8 = 13
"""Fraction bits kept with fp8 below the largest exponent, and in an f32 result (measured on an H100; the text says more)."""
PRODUCTS = 1 << 18
RAISED = 48
"""Added to the exponents of narrow floats, so that sums of two fit 8 bits; a zero has 0, which is below all others."""
WIDE_ZERO = -300
Terms = Callable[[Array, Array, Array, Array, Array, int], Array | None]


class _Workspace(threading.local):
    """Large temporaries that are used again: fresh ones cost page faults."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, str], Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array."""
        key, size = (name, np.dtype(dtype).str), int(np.prod(shape))
        found = self.buffers.get(key)
        if found is None or found.size < size:
            found = self.buffers[key] = np.empty(size, dtype)
        return found[:size].reshape(shape)


_WORKSPACE = _Workspace()


def dot_float(a: Array, b: Array, c: Array, types: tuple[str, str], sm: int) -> Array:
    """``A . B + C`` of bits ``[W, K, M]``, ``[W, K, N]`` and f32 or f16 ``[W, M, N]``, as the GPU rounds.

    ``b`` may be ``[W, K, M, N]``: the row of B that each element of sparse A meets."""
    av, ae = _decode(a, types[0])
    bv, be = _decode(b, types[1])
    av, ae = av[..., None], ae[..., None]
    if b.ndim == 3:
        bv, be = bv[:, :, None], be[:, :, None]
    terms: Terms = _narrow if types[0] in FP8 else _half if types[0] == "f16" else _wide
    fraction = FRACTION8 if types[0] in FP8 else matrix.unit_of(max(sm, 90)).fraction
    out = np.empty(c.shape, c.dtype)
    with np.errstate(all="ignore"):
        np.setbufsize(4096)  # broadcast operands are copied into buffers; errstate restores the size
        for w in range(len(a)):
            special = not (np.isfinite(av[w]).all() and np.isfinite(bv[w]).all() and np.isfinite(c[w]).all())
            for rows in _row_blocks(a.shape[1], a.shape[2], b.shape[-1]):
                of_b = rows if b.ndim == 4 else slice(None)
                parts = av[w][:, rows], ae[w][:, rows], bv[w][:, of_b], be[w][:, of_b], c[w][rows]
                found = terms(*parts, fraction)
                out[w][rows] = (
                    _fallback(a[w][:, rows], b[w][:, of_b], c[w][rows], types, sm) if found is None else found
                )
                if special:
                    _specials(parts[0], parts[2], parts[4], out[w][rows])
    return out


def _row_blocks(k: int, m: int, n: int) -> list[slice]:
    step = max(min(PRODUCTS // (k * n), m), 1)
    return [slice(at, min(at + step, m)) for at in range(0, m, step)]


def _decode(bits: Array, kind: str) -> tuple[Array, Array]:
    """Values (f32) and exponents: raised, in 8 bits, for narrow floats; as they are, in 16, for the others."""
    if kind in FP8:
        dtype, mantissa, bias = FP8[kind]
        table = np.arange(256, dtype=np.uint8)
        value = table.view(dtype).astype(F32)
        field = np.maximum((table & 0x7F) >> mantissa, 1) - np.uint8(bias) + np.uint8(RAISED)
        return value[bits], np.where(value == 0, np.uint8(0), field)[bits]
    if kind == "f16":
        raised = np.maximum(bits >> np.uint16(10) & np.uint16(31), 1) + np.uint16(RAISED - 15)
        zero = bits & np.uint16(0x7FFF) == 0
        return bits.view(F16).astype(F32), np.where(zero, np.uint16(0), raised).astype(np.uint8)
    wide = bits.astype(np.uint32) << np.uint32(16) if kind == "bf16" else bits & np.uint32(0xFFFFE000)
    raw = np.maximum(wide >> np.uint32(23) & np.uint32(0xFF), 1).astype(np.int16) - np.int16(127)
    value = wide.view(F32)
    return value, np.where(value == 0, np.int16(WIDE_ZERO), raw)


def _half(av: Array, ae: Array, bv: Array, be: Array, c: Array, fraction: int) -> Array | None:
    """f16: every nonzero product lies between 2**-28 and 2**32, so that nothing leaves the range of f32."""
    top = _tops(av, ae, bv, be)
    none = top < 2 * (RAISED - 14) if int(top.min()) < 2 * (RAISED - 14) else None
    top += np.uint8(127 - 2 * RAISED)
    emax = np.maximum(top, _exponents(c), out=top)
    if c.dtype == F16:
        np.maximum(emax, np.uint8(127 + matrix.unit_of(90).floor16), out=emax)
    return _rounded(av, bv, c, none, emax, fraction)


def _wide(av: Array, ae: Array, bv: Array, be: Array, c: Array, fraction: int) -> Array | None:
    """bf16 and tf32 where f32 holds all that matters: products that overflow, or results that are subnormal, do not."""
    top = _tops(av, ae, bv, be)
    none = top < WIDE_ZERO // 2 - 110 if int(top.min()) < WIDE_ZERO // 2 - 110 else None
    if int(top.max()) > 125 or int((top if none is None else np.where(none, 0, top)).min()) < -100:
        return None
    top += np.int16(127)
    emax = np.maximum(top, _exponents(c), out=top)
    np.maximum(emax, np.int16(fraction), out=emax)  # less only where no product is left
    return _rounded(av, bv, c, none, emax, fraction)


def _tops(av: Array, ae: Array, bv: Array, be: Array) -> Array:
    """The largest exponent of the products of each output."""
    shape = np.broadcast_shapes(av.shape, bv.shape)
    sums = np.add(ae, be, out=_WORKSPACE.take("exponents", shape, ae.dtype))
    return np.maximum.reduce(sums, axis=0)


def _exponents(c: Array) -> Array:
    """Exponents of C plus 127 in 8 bits; of a zero, less than any other."""
    if c.dtype == F16:
        raw = c.view(np.uint16)
        field = np.maximum(raw >> np.uint16(10) & np.uint16(31), 1) + np.uint16(127 - 15)
        return np.where(raw & np.uint16(0x7FFF) == 0, np.uint16(0), field).astype(np.uint8)
    return (c.view(np.uint32) >> np.uint32(23)).astype(np.uint8)  # drops the sign


def _scales(emax: Array, fraction: int) -> Array:
    """2 to ``fraction - emax`` as f32, of exponents plus 127; in the workspace."""
    bits = _WORKSPACE.take("scales", emax.shape, np.int32)
    np.subtract(np.int32(254 + fraction), emax, out=bits, dtype=np.int32)
    bits <<= np.int32(23)
    return bits.view(F32)


def _reciprocal(scale: Array) -> Array:
    """1 / ``scale``, which is a power of two."""
    bits = _WORKSPACE.take("reciprocals", scale.shape, np.int32)
    return np.subtract(np.int32(254 << 23), scale.view(np.int32), out=bits).view(F32)


def _scaled_products(av: Array, bv: Array, scale: Array) -> Array:
    out = _WORKSPACE.take("products", np.broadcast_shapes(av.shape, bv.shape), F32)
    np.multiply(av, bv, out=out)
    out *= scale
    return out


def _rounded(av: Array, bv: Array, c: Array, none: Array | None, emax: Array, fraction: int) -> Array:
    scale = _scales(emax, fraction)
    products = _scaled_products(av, bv, scale)
    whole = np.add.reduce(products, axis=0, dtype=np.int32, out=_WORKSPACE.take("sums", scale.shape, np.int32))
    total = _WORKSPACE.take("totals", scale.shape, F64)
    total[...] = whole
    kept = np.multiply(c, scale, out=_WORKSPACE.take("kept", scale.shape, F32))
    total += np.trunc(kept, out=kept)
    back = _reciprocal(scale)
    if c.dtype == F16:
        d = (total * back).astype(F16)
    else:
        mask = total.view(np.int64)
        mask &= -(1 << 29)  # toward zero, to the 24 significant bits of f32
        d = total.astype(F32)
        d *= back
    return d if none is None else np.where(none, c + c.dtype.type(0), d)


def _narrow(av: Array, ae: Array, bv: Array, be: Array, c: Array, fraction: int) -> Array | None:
    """fp8: few bits are kept, so that f32 holds all sums."""
    top = _tops(av, ae, bv, be)
    none = top < 2 * RAISED - 28 if int(top.min()) < 2 * RAISED - 28 else None
    small = c.dtype == F16
    if none is not None and (small or (none & (np.abs(c) < 2.0**-126) & (c != 0)).any()):
        return None
    top += np.uint8(127 - 2 * RAISED)
    emax = np.maximum(top, _exponents(c), out=top)
    np.maximum(emax, np.uint8(fraction), out=emax)  # less only where no product is left
    scale = _scales(emax, fraction)
    products = _scaled_products(av, bv, scale)
    np.trunc(products, out=products)
    total = np.add.reduce(products, axis=0)
    kept = np.multiply(c, scale, out=_WORKSPACE.take("kept", scale.shape, F32))
    total += np.trunc(kept, out=kept)
    back = _reciprocal(scale)
    if small:
        return (total * back).astype(F16) + F16.type(0)
    mask = total.view(np.int32)
    mask &= -(1 << 23 - FRACTION8)
    total *= back
    if none is None:
        return total
    return np.where(none, (c.view(np.int32) & -(1 << 23 - FRACTION8)).view(F32) + F32.type(0), total)


def _fallback(a: Array, b: Array, c: Array, types: tuple[str, str], sm: int) -> Array:
    """Bits ``[K, M]`` and ``[K, N]`` (``[K, M, N]`` for sparse A) in float64."""
    if b.ndim == 3:
        a, b, c = a[:, None], np.ascontiguousarray(b.transpose(0, 2, 1)), np.ascontiguousarray(c.T)[None]
    else:
        a, b, c = (np.ascontiguousarray(x)[..., None] for x in (a, b, c))
    d = _block_fp8(a, b, c, types) if types[0] in FP8 else matrix.dot_add(a, b, c, types[0], max(sm, 90))
    return d[0].T if d.shape[0] == 1 and d.shape[2] > 1 else d[..., 0]


def _block_fp8(a: Array, b: Array, c: Array, types: tuple[str, str]) -> Array:
    (av, ae), (bv, be) = _decode(a, types[0]), _decode(b, types[1])
    small = c.dtype == F16
    terms = av[:, :, None].astype(F64) * bv[:, None]
    top = np.maximum.reduce(ae[:, :, None] + be[:, None], axis=0)
    absent = top < 2 * RAISED - 28
    cv = c.astype(F64)
    if small:
        ce = np.maximum((c.view(np.uint16) >> 10 & 0x1F).astype(np.int32), 1) - 15
    else:
        ce = np.maximum((c.view(np.uint32) >> 23 & 0xFF).astype(np.int32), 1) - 127
    exponent = np.where(absent, matrix.ABSENT, top.astype(np.int32) - 2 * RAISED)
    emax = np.maximum(exponent, np.where((cv == 0) & ~absent, matrix.ABSENT, ce))
    scale = ((FRACTION8 - emax + 1023).astype(np.int64) << 52).view(F64)
    total = np.trunc(terms * scale).sum(axis=0) + np.trunc(cv * scale)
    value = total * ((emax - FRACTION8 + 1023).astype(np.int64) << 52).view(F64)
    if small:
        return (value + 0.0).astype(F16)
    cut = (value.view(np.int64) & -(1 << 52 - FRACTION8)).view(F64)
    return (cut + 0.0).astype(F32)


def _specials(av: Array, bv: Array, c: Array, out: Array) -> None:
    """Outputs that have an Inf or NaN among their terms: Inf of that sign, or the canonical NaN."""
    terms = np.add.reduce(av.astype(F64) * bv.astype(F64), axis=0) + c.astype(F64)
    bad, nan = ~np.isfinite(terms), np.isnan(terms)
    out[bad] = terms[bad].astype(out.dtype)
    out.view(np.uint16 if out.dtype == F16 else np.uint32)[nan] = 0x7FFF if out.dtype == F16 else 0x7FFFFFFF


def dot_ieee(a: Array, b: Array, c: Array, types: tuple[str, str]) -> Array:
    """The same in float64, rounded once."""
    av, bv = (_decode(x, kind)[0].astype(F64) for x, kind in zip((a, b), types, strict=True))
    if b.ndim == 4:
        return (np.einsum("wkm,wkmn->wmn", av, bv) + c).astype(c.dtype)
    return (np.matmul(av.transpose(0, 2, 1), bv) + c).astype(c.dtype)


def dot_integer(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    """Integer ``A . B + C``, wrapped or clamped once; f32 sums of at most 256 products of bytes are exact."""
    product = np.matmul(a.transpose(0, 2, 1).astype(F32), b.astype(F32))
    total = product.astype(np.int64) + c
    if saturate:
        total = np.clip(total, -(2**31), 2**31 - 1)
    return total.astype(np.int32)


def dot_binary(a: Array, b: Array, c: Array) -> Array:
    """Counts of common set bits, added to s32; bytes ``[W, K / 8, M]`` and ``[W, K / 8, N]``."""
    return dot_integer(np.unpackbits(a, axis=1), np.unpackbits(b, axis=1), c, False)


def select_rows(b: Array, positions: Array) -> Array:
    """The rows of B ``[W, K, N]`` that each stored element ``[W, K / 2, M]`` of sparse A meets: ``[W, K / 2, M, N]``."""
    return b[np.arange(len(b))[:, None, None], positions]
