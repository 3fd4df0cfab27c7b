"""Matrix products that need no model of a tensor core: integers, bits, f64, and any type in float64.

Unless noted, operands and results have the axes of `numpy.matmul`: ``[..., M, K]``, ``[..., K, N]``, ``[..., M, N]``.
"""

from __future__ import annotations

import numpy as np

from warpsim.numerics.arrays import F32, F64, WORKSPACE, Array
from warpsim.numerics.floating import fma64
from warpsim.numerics.matrix import decode, plain_sum

AT_ONCE = 1 << 20
"""Elements of A and B converted at a time."""


def dot_ieee(a: Array, b: Array, c: Array, kinds: tuple[str, str], present: Array | None = None) -> Array:
    """Multiply and add bits of floats in float64, rounded once; for sparse A (`operands.expand`), only the stored
    elements."""
    left, right = (
        decode(np.moveaxis(x, axis, 0), kind).values for x, axis, kind in ((a, -1, kinds[0]), (b, -2, kinds[1]))
    )
    with np.errstate(all="ignore"):
        if present is None:
            total = _products(left.astype(F64), right.astype(F64))
        else:
            stored = np.moveaxis(present, -1, 0)[..., None]
            total = plain_sum(left[..., None], right[..., None, :], stored)
        return (total + c).astype(c.dtype)


def _products(left: Array, right: Array) -> Array:
    """Sum the products of ``[K, ..., M]`` and ``[K, ..., N]`` in order of K, which BLAS does not guarantee on every
    machine."""
    total = left[0][..., :, None] * right[0][..., None, :]
    term = np.empty_like(total)
    for row, column in zip(left[1:], right[1:], strict=True):
        np.multiply(row[..., :, None], column[..., None, :], out=term)
        np.add(total, term, out=total)
    return total


def dot_integer(a: Array, b: Array, c: Array, *, saturate: bool) -> Array:
    """Add integer products to s32, wrapping or clamped once; ``[W, ...]`` arrays, with the result in the memory order
    of ``c``.

    Operands have at most eight bits and K is at most 256, so f32 sums stay below 2**24 and are exact in any order.
    """
    total = np.empty_like(c)
    step = max(AT_ONCE // (a[0].size + b[0].size), 1) if len(c) else 1
    for first in range(0, len(c), step):
        part = slice(first, first + step)
        left, right = (_as_f32(name, x[part]) for name, x in (("left", a), ("right", b.swapaxes(-1, -2))))
        sums = np.matmul(left, right.swapaxes(-1, -2), out=WORKSPACE.take("dots", c[part].shape, F32))
        whole = WORKSPACE.take("whole", sums.shape, np.int32)
        whole[...] = sums
        total[part] = whole  # strided, if the batch is last in c
    wrapped: Array = np.add(total, c)
    if not saturate:
        return wrapped
    lost = wrapped ^ total
    lost &= wrapped ^ c  # negative if both terms have the sign opposite to the sum's
    if int(lost.min(initial=0)) < 0:
        ends = np.where(c < 0, np.int32(-(2**31)), np.int32(2**31 - 1))
        return np.where(lost < 0, ends, wrapped)
    return wrapped


def _as_f32(name: str, integers: Array) -> Array:
    found = WORKSPACE.take(name, integers.shape, F32)
    found[...] = integers
    return found


def nibbles(name: str, packed: Array, *, signed: bool) -> Array:
    """Unpack 4-bit integers from bytes ``[..., K / 2]``: those of the low halves, then those of the high ones, ``[...,
    K]``; in the workspace, by ``name``."""
    both = WORKSPACE.take(name, (*packed.shape[:-1], 2, packed.shape[-1]), np.uint8)
    np.left_shift(packed, np.uint8(4), out=both[..., 0, :])
    both[..., 1, :] = packed
    whole = both.view(np.int8) if signed else both
    whole >>= whole.dtype.type(4)
    return whole.reshape(*packed.shape[:-1], -1)


def dot_bits(a: Array, b: Array, c: Array, *, exclusive: bool) -> Array:
    """Population counts of words combined by xor or and, added to s32. ``[K, ...]`` arrays broadcast to C; K is at most
    15."""
    combine = np.bitwise_xor if exclusive else np.bitwise_and
    both, count = np.empty(c.shape, np.uint32), np.empty(c.shape, np.uint8)
    total = np.zeros(c.shape, np.uint16)
    for left, right in zip(a, b, strict=True):
        combine(left, right, out=both)
        total += np.bitwise_count(both, out=count)
    return c + total


def dot_common_bits(a: Array, b: Array, c: Array) -> Array:
    """Counts of common set bits of bytes ``[..., M, K / 8]`` and ``[..., K / 8, N]``, added to s32."""
    return dot_integer(np.unpackbits(a, axis=-1), np.unpackbits(b, axis=-2), c, saturate=False)


def dot_f64(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """A chain of fmas in ascending k, in the given rounding mode; NaN payloads propagate. Operands are ``[K, ...]``
    arrays that broadcast to C."""
    for left, right in zip(a, b, strict=True):
        c = fma64(left, right, c, rounding)
    return c
