"""Matrix products that a GPU has no unit for, as its assembler emulates them.

Read from the machine code for an H100 and compared with its results; axes as in `matrix`.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.numerics import matrix
from warpsim.numerics.arrays import F16, F32, F64, Array
from warpsim.numerics.floating import canonical, fma
from warpsim.numerics.matrix import LEAST_SUM, RAISED, Unit, decode, unpacked

ADA = Unit(13, 16, -132, -20, 13)
"""fp8 of sm_89: 13 fraction bits, also of an f32 result."""


def dot_fp8(a: Array, b: Array, c: Array, kinds: tuple[str, str], sm: int, present: Array | None = None) -> Array:
    """``A . B + C`` of narrow floats by ``mma``: native on sm_89 and sm_120, else two sums of f16 products and an
    addition.

    An H100 unpacks the low pair of each four bytes, and the high pair, into f16 and multiplies first one, then the
    other; C is added with an ordinary rounded addition.

    Args:
        a: bits ``[K, ...]``, as `operands.decode` takes them.
        b: bits of B, in the same form.
        c: f32 or f16, which is also the result's type.
        kinds: types of A and B, such as ``("e4m3", "e5m2")``.
        sm: capability times ten.
        present: for sparse A that went through `operands.expand`, a mask of the stored elements.
    """
    if sm == 89:
        return matrix.dot_add(a, b, c, kinds, ADA, present)
    if sm >= 120:
        return matrix.dot_add(a, b, c, kinds, sm, present)
    with np.errstate(all="ignore"):
        together = 2 if present is None else 4
        left, right = (unpacked(x, kind, together, name) for x, kind, name in zip((a, b), kinds, "ab", strict=True))
        half, unit = len(left.values) // 2, matrix.unit_of(sm)
        if present is not None:
            present = present.reshape(-1, 2, together, *present.shape[1:]).swapaxes(0, 1).reshape(present.shape)
        total = np.zeros(c.shape, c.dtype)
        for rows in (slice(0, half), slice(half, None)):
            stored = None if present is None else present[rows]
            total = matrix.multiply_add(left.of(rows), right.of(rows), total, unit, half, stored)
        if c.dtype == F32:
            return canonical(c + total)
        return _canonical_f16((c.astype(F32) + total.astype(F32)).astype(F16))


def _canonical_f16(value: Array) -> Array:
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.view(np.uint16)).view(F16)


def dot_quads(a: Array, b: Array, c: Array, result: np.dtype[np.generic], sm: int) -> Array:
    """``mma.m8n8k4`` of f16: f32 arithmetic of single threads since sm_80, before that the unit of a V100.

    Args:
        a: bits ``[4, ...]`` (u16).
        b: bits of B, in the same form.
        c: f32 or f16; the axes after K broadcast to it.
        result: f32 or f16.
        sm: capability times ten.
    """
    if sm < 80:
        volta = matrix.unit_of(70)
        if c.dtype == F16 and result == F32:  # a subnormal f16 keeps the least exponent of f16
            volta, c = attrs.evolve(volta, least_c=-14), c.astype(F32)
        return matrix.dot_add(a, b, c, "f16", volta)
    left, right = a.view(F16).astype(F32), b.view(F16).astype(F32)
    wide = c.astype(F32)
    if result == F32:
        total = np.zeros(c.shape, F32)
        for x, y in zip(left, right, strict=True):
            total = fma(x, y, total)
        return canonical(wide + total)
    low = fma(left[1], right[1], left[0] * right[0])
    high = fma(left[3], right[3], left[2] * right[2])
    return _canonical_f16(((wide + low) + high).astype(F16))


# ---- scaled blocks ----------------------------------------------------------------------------------


def scale_factors(bits: Array, kind: str) -> tuple[Array, Array]:
    """Significands (f64, NaN for a NaN) and exponents of ue8m0 or ue4m3 bytes."""
    if kind == "ue8m0":
        return np.where(bits == 0xFF, np.nan, 1.0), bits.astype(np.int32) - 127
    field, fraction = (bits >> np.uint8(3)) & np.uint8(15), (bits & np.uint8(7)).astype(F64)
    significand = np.where(field > 0, 1 + fraction / 8, fraction / 8)
    return np.where(bits & 0x7F == 0x7F, np.nan, significand), np.maximum(field, 1).astype(np.int32) - 7


def dot_scaled(
    a: Array,
    b: Array,
    c: Array,
    kinds: tuple[str, str],
    scales: tuple[Array, Array],
    sm: int,
    present: Array | None = None,
) -> Array:
    """kind::mxf8f6f4: the fused sum, with each product scaled by its two ue8m0 scales.

    ``scales`` are bytes ``[M, 1, W]`` and ``[1, N, W]``, each valid for all of K; the rest is as in `dot_fp8`.
    """
    unit = matrix.unit_of(sm)
    (sa, ea), (sb, eb) = (scale_factors(s, "ue8m0") for s in scales)
    raised = ea + eb
    if _moderate(raised, c) and np.isfinite(sa).all() and np.isfinite(sb).all():
        lowered, back = ((matrix.power_of_two(e)).astype(F32) for e in (-raised, raised))
        d = matrix.dot_add(a, b, c * lowered, kinds, unit, present)
        return np.multiply(d, back, out=d, where=np.isfinite(d))
    left, right = (decode(x, kind) for x, kind in zip((a, b), kinds, strict=True))
    top = np.maximum.reduce(left.exponents + right.exponents, axis=0).astype(np.int32)
    top = np.where(top < LEAST_SUM, matrix.ABSENT, top - 2 * RAISED + raised)
    shift = unit.fraction - matrix.aligned_exponent(top, c, unit)
    terms = left.values.astype(F64) * right.values.astype(F64)
    with np.errstate(all="ignore"):
        aligned = np.trunc(terms * matrix.power_of_two(np.maximum(raised + shift, -1000)))
        total = np.add.reduce(np.where(np.isfinite(aligned), aligned, 0), axis=0)
        d = matrix.rounded(total, top == matrix.ABSENT, c, shift, unit)
        matrix.set_specials(d, matrix.plain_sum(left.values, right.values, present) * sa * sb + c)
    return d


MODERATE = 60
"""Exponents with which sums of narrow products stay normal in f32, in all of their bits."""


def _moderate(raised: Array, c: Array) -> bool:
    """Whether products scaled by ``2 ** raised`` and C can be summed unscaled, with no other bit in the result."""
    exponent = (c.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32) - 127
    far = np.where(c == 0, 0, exponent - raised)
    return bool(np.abs(raised).max(initial=0) <= MODERATE and np.abs(far).max(initial=0) <= MODERATE)


GROUP = Unit(35, 32, -139, -139)
"""kind::mxf4 and mxf4nvf4: fraction bits of the sum of groups."""


def dot_groups(a: Array, b: Array, c: Array, scales: tuple[Array, Array], scale_type: str) -> Array:
    """kind::mxf4 and mxf4nvf4: four groups of products (six if K is 96), each summed exactly, scaled, and aligned to 35 bits.

    ``a`` and ``b`` are e2m1, one per byte, and finite, so that zeros can stand for the elements that sparse A omits.
    ``scales`` are bytes ``[S, M, 1, W]`` and ``[S, 1, N, W]``, where S is a number of equal parts of K.
    """
    count = 6 if len(a) == 96 else 4
    sums, some = _group_sums(decode(a, "e2m1").values, decode(b, "e2m1").values, count)
    (sa, ea), (sb, eb) = (scale_factors(s.repeat(count // len(s), axis=0), scale_type) for s in scales)
    factor, exponent = sa * sb, ea + eb
    top = np.maximum.reduce(np.where(some & (factor != 0), exponent, matrix.ABSENT), axis=0)
    shift = GROUP.fraction - matrix.aligned_exponent(top, c, GROUP)
    with np.errstate(all="ignore"):
        aligned = np.trunc(sums * factor * matrix.power_of_two(np.clip(exponent + shift, -1000, 1000)))
        total = np.add.reduce(np.where(np.isfinite(aligned), aligned, 0), axis=0)
        d = matrix.rounded(total, top == matrix.ABSENT, c, shift, GROUP)
        matrix.set_specials(d, (sums * factor).sum(axis=0) + c)
    return d


def _group_sums(left: Array, right: Array, count: int) -> tuple[Array, Array]:
    """The exact sums of ``count`` groups of e2m1 products, and whether any product of each is not zero."""
    if left.shape[-1] == right.shape[-2] == 1:  # large tiles, see `matrix`
        x = left[..., 0].reshape(count, -1, *left.shape[1:-1]).transpose(0, 2, 3, 1)
        y = right[:, :, 0].reshape(count, -1, right.shape[1], right.shape[3]).transpose(0, 2, 1, 3)
        there = np.matmul((x != 0).astype(F32), (y != 0).astype(F32)) > 0
        return np.matmul(x, y).astype(F64), there  # multiples of 1/4 below 2**12, exact in any order
    terms = left.astype(F64) * right
    groups = terms.reshape(count, -1, *terms.shape[1:])
    return groups.sum(axis=1), (groups != 0).any(axis=1)
