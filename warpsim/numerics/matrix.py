"""The tensor cores' dot product: align, truncate, add exactly, round once.

Every product is exact. All terms of a block (the products and C) are truncated toward zero to F fraction bits below the
largest exponent among the nonzero ones, added exactly, and rounded once: toward zero to f32, to nearest even to f16.

Operands are ``[K, ...]`` arrays whose other axes broadcast to those of C. A batch of small tiles has the batch last,
``[K, M, 1, W]`` and ``[K, 1, N, W]``, so that the inner loops run along it; large tiles are ``[K, W, M, 1]`` and ``[K,
W, 1, N]``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from warpsim.numerics.arrays import F16, F32, F64, WORKSPACE, Array
from warpsim.records import frozen

PRODUCTS = 1 << 18
"""Products per piece of work: few NumPy calls matter more than the second-level cache."""
ABSENT = -(1 << 14)
"""The exponent of a sum without a nonzero term, in 64-bit arithmetic."""


@frozen
class Unit:
    """A tensor core: fraction bits kept while aligning, bytes of K per block, the least exponent that terms are aligned
    to with f32 and f16 results, the fraction bits of an f32 result, and the least exponent of an f32 C."""

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
"""By the least capability (times ten) of a generation. sm_90 was measured on an H100, the others are from public
models."""
WGMMA_FP8 = Unit(13, 32, -133, -21, 13)
"""fp8 of wgmma: 13 fraction bits, also of an f32 result (measured on an H100; the text promises more)."""


def unit_of(sm: int) -> Unit:
    """The tensor core of a GPU."""
    return UNITS[max(n for n in UNITS if n <= max(sm, 70))]


def dot_add(
    a: Array, b: Array, c: Array, kind: str | tuple[str, str], unit: int | Unit, present: Array | None = None
) -> Array:
    """Compute ``A . B + C`` of float operands in the GPU's blocks.

    Args:
        a: bits ``[K, ...]``, as `decode` takes them.
        b: bits of B, in the same form.
        c: f32 or f16, which is also the result's type.
        kind: the type of A and B, or a pair of types.
        unit: the tensor core, or a capability times ten.
        present: for sparse A that went through `expand`, a mask of the stored elements. A block covers stored elements.
    """
    kinds = (kind, kind) if isinstance(kind, str) else kind
    unit = unit_of(unit) if isinstance(unit, int) else unit
    nbytes = {"tf32": 4, "f16": 2, "bf16": 2}.get(kinds[0], 1)
    left, right = decode(a, kinds[0], "a"), decode(b, kinds[1], "b")
    return multiply_add(left, right, c, unit, max(unit.block_bytes // nbytes, 1), present)


def multiply_add(
    left: Factors, right: Factors, c: Array, unit: Unit, block: int, present: Array | None = None
) -> Array:
    """Compute the same for decoded operands, ``block`` stored elements of K at a time."""
    k, step = len(left.values), block if present is None else 2 * block
    with np.errstate(all="ignore"):
        np.setbufsize(4096)  # broadcast operands are copied into buffers; errstate restores the size
        if k <= step:
            return _block(left, right, c, unit, present)
        for first in range(0, k, step):
            rows = slice(first, first + step)
            c = _block(left.of(rows), right.of(rows), c, unit, None if present is None else present[rows])
    return c


def _block(left: Factors, right: Factors, c: Array, unit: Unit, present: Array | None) -> Array:
    work = _narrow if left.exponents.dtype == np.uint8 else _wide
    special = left.special or right.special or not np.isfinite(c).all()
    if not special and left.values.shape[-1] == right.values.shape[-2] == 1:
        found = _whole_numbers(left.values, right.values, c, unit)
        if found is not None:
            return found
    limit = PRODUCTS // len(left.values)
    if c.size <= limit and not special:
        return work(left.values, left.exponents, right.values, right.exponents, c, unit)
    finite = right
    if special and present is not None:  # zeros that fill gaps must not meet an Inf
        finite = Factors(np.where(np.isfinite(right.values), right.values, F32.type(0)), right.exponents, special=True)
    out = np.empty(c.shape, c.dtype)
    for piece in pieces(c.shape, limit):
        a, b, held = _cut(left, piece), _cut(finite, piece), c[piece]
        found = work(a.values, a.exponents, b.values, b.exponents, held, unit)
        if special:
            stored = None if present is None else _cut_axes(present, piece)
            set_specials(found, plain_sum(a.values, _cut_axes(right.values, piece), stored) + held)
        out[piece] = found
    return out


def pieces(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Slices of the leading axes that divide an array into pieces of at most ``limit`` elements (or of one element)."""
    inner = 1
    for extent in shape[1:]:
        inner *= extent
    if inner <= limit or len(shape) == 1:
        step = max(limit // max(inner, 1), 1)
        for at in range(0, shape[0], step):
            yield (slice(at, at + step),)
    else:
        for at in range(shape[0]):
            for rest in pieces(shape[1:], limit):
                yield (slice(at, at + 1), *rest)


def _cut_axes(array: Array, piece: tuple[slice, ...]) -> Array:
    axes = [s if extent > 1 else slice(None) for s, extent in zip(piece, array.shape[1:], strict=False)]
    return array[(slice(None), *axes)]


def _cut(factors: Factors, piece: tuple[slice, ...]) -> Factors:
    return Factors(_cut_axes(factors.values, piece), _cut_axes(factors.exponents, piece), factors.special)


def _whole_numbers(av: Array, bv: Array, c: Array, unit: Unit) -> Array | None:
    """Compute tiles ``[K, W, M, 1]`` and ``[K, W, 1, N]`` of small integers, all of whose sums are exact in f32 with no
    term losing bits, as a matrix product. None for anything else, which sixteen elements mostly reveal."""
    few = av.reshape(-1)[:16]
    if (np.rint(few) != few).any():
        return None
    most_a, most_b, most_c = (max(-float(x.min()), float(x.max())) for x in (av, bv, c))
    if len(av) * most_a * most_b + most_c >= 1 << min(unit.fraction, unit.kept) + 1:
        return None
    if any((np.rint(x) != x).any() for x in (av, bv, c)):
        return None
    sums = np.matmul(av[..., 0].transpose(1, 2, 0), bv[:, :, 0].transpose(1, 0, 2))
    sums += c
    sums += F32.type(0)
    return sums.astype(c.dtype, copy=False)


# ---- in f32 and s32 ------------------------------------------------------------------------------


def _narrow(av: Array, ae: Array, bv: Array, be: Array, c: Array, unit: Unit) -> Array:
    """For types whose nonzero products lie between 2**-28 and 2**32, so that nothing leaves the range of f32."""
    emax = _largest_sums(ae, be, c.shape)
    none = emax < LEAST_SUM if int(emax.min()) < LEAST_SUM else None
    emax += np.uint8(127 - 2 * RAISED)
    np.maximum(emax, _exponents(c, unit), out=emax)
    if c.dtype == F16:
        np.maximum(emax, np.uint8(127 + unit.floor16), out=emax)
    return _rounded(av, bv, c, none, emax, unit)


def _wide(av: Array, ae: Array, bv: Array, be: Array, c: Array, unit: Unit) -> Array:
    """For bf16 and tf32, whose C is f32: also in f32, except where products overflow or results are subnormal."""
    top = _largest_sums(ae, be, c.shape)
    least = int(top.min())
    none = top < ZERO // 2 if least < ZERO // 2 else None
    if none is not None:
        least = int(np.where(none, 0, top).min())
    if least < -100 or int(top.max()) > 125:
        return _in_f64(av, bv, top, c, unit)
    top += np.int16(127)
    np.maximum(top, _exponents(c, unit), out=top)
    np.maximum(top, np.int16(unit.fraction), out=top)  # less only if no product is nonzero
    return _rounded(av, bv, c, none, top, unit)


def _largest_sums(ae: Array, be: Array, shape: tuple[int, ...]) -> Array:
    """The largest exponent of each output's products."""
    narrow = ae.dtype == np.uint8
    sums = WORKSPACE.take("sums8" if narrow else "sums16", (len(ae), *shape), ae.dtype)
    np.add(ae, be, out=sums)
    return np.maximum.reduce(sums, axis=0)


def _exponents(c: Array, unit: Unit) -> Array:
    """Exponents of C plus 127, in 8 bits; a zero has the least."""
    if c.dtype == F16:
        raw = c.view(np.uint16)
        field = np.maximum(raw >> np.uint16(10) & np.uint16(31), 1) + np.uint16(127 - 15)
        return np.where(raw & np.uint16(0x7FFF) == 0, np.uint16(0), field).astype(np.uint8)
    field = (c.view(np.uint32) >> np.uint32(23)).astype(np.uint8)  # drops the sign
    if unit.least_c > -126:
        return np.where(c == 0, np.uint8(0), np.maximum(field, np.uint8(127 + unit.least_c)))
    return field


def _rounded(av: Array, bv: Array, c: Array, none: Array | None, emax: Array, unit: Unit) -> Array:
    """The rounded sum, aligned to exponents ``emax`` (plus 127).

    Products times the power of two that makes their quantum 1 are exact in f32 and truncated by the cast to s32; as
    many as fit are added at once. C is added in f64, because the total may need 33 bits.
    """
    take, shape, fraction = WORKSPACE.take, c.shape, unit.fraction
    bits = take("scales", shape, np.int32)
    np.subtract(np.int32(254 + fraction), emax, out=bits, dtype=np.int32)
    bits <<= np.int32(23)
    scale = bits.view(F32)
    products = take("products", (len(av), *shape), F32)
    np.multiply(av, bv, out=products)
    products *= scale
    at_once = 1 << (29 - fraction)
    whole = np.add.reduce(products[:at_once], axis=0, dtype=np.int32, out=take("whole", shape, np.int32))
    total = take("total", shape, F64)
    total[...] = whole
    for first in range(at_once, len(av), at_once):
        total += np.add.reduce(products[first : first + at_once], axis=0, dtype=np.int32, out=whole)
    kept = np.multiply(c, scale, out=take("kept", shape, F32))
    total += np.trunc(kept, out=kept)
    back = np.subtract(np.int32(254 << 23), bits, out=bits).view(F32)
    if c.dtype == F16:
        total *= back
        d = total.astype(F16)
        raw = d.view(np.uint16)
        raw *= raw != 0x8000  # a vanishing result is +0
    else:
        mask = total.view(np.int64)
        mask &= -(1 << 52 - unit.kept)  # toward zero
        d = total.astype(F32)
        d *= back
    return d if none is None else np.where(none, _alone(c, unit), d)


def _alone(c: Array, unit: Unit) -> Array:
    """The result if no product is nonzero: C."""
    if c.dtype == F32 and unit.kept < 23:
        c = (c.view(np.int32) & np.int32(-(1 << 23 - unit.kept))).view(F32)
    return c + c.dtype.type(0)


# ---- in f64 ----------------------------------------------------------------------------------------


def _in_f64(av: Array, bv: Array, top: Array, c: Array, unit: Unit) -> Array:
    """For exponents of any size (their C is f32); ``top`` is the largest of the products."""
    exponent = np.where(top < ZERO // 2, ABSENT, top.astype(np.int32))
    shift = unit.fraction - aligned_exponent(exponent, c, unit)
    products = av.astype(F64) * bv.astype(F64)
    products *= power_of_two(shift)
    total = np.add.reduce(products, axis=0, dtype=np.int64).astype(F64)
    return rounded(total, exponent == ABSENT, c, shift, unit)


def aligned_exponent(top: Array, c: Array, unit: Unit) -> Array:
    """The exponent that all terms are aligned to: the largest of the products, C (f32), and the unit's floor."""
    ce = np.maximum(((c.view(np.uint32) >> np.uint32(23)).astype(np.int32) & 0xFF) - 127, unit.least_c)
    return np.maximum(np.maximum(top, np.where(c == 0, ABSENT, ce)), unit.floor32)


def power_of_two(exponent: Array) -> Array:
    """2 to an integer power, as f64."""
    return ((exponent + 1023).astype(np.int64) << 52).view(F64)


def rounded(total: Array, absent: Array, c: Array, shift: Array, unit: Unit) -> Array:
    """Round the aligned sum of the products and C (f32) toward zero."""
    total += np.trunc(c.astype(F64) * power_of_two(shift))
    total.view(np.int64)[...] &= -(1 << 52 - unit.kept)
    value = total * power_of_two(-shift)
    tiny = np.abs(value) < 2.0**-126
    if tiny.any():
        value = np.where(tiny, np.trunc(value * 2.0**149) * 2.0**-149, value)
    return np.where(absent, _alone(c, unit), value.astype(F32) + F32.type(0))  # a vanishing result is +0


# ---- Inf and NaN -----------------------------------------------------------------------------------


def plain_sum(av: Array, bv: Array, present: Array | None = None) -> Array:
    """Sum products in f64, in order of k; only those of stored elements."""
    total: Array = np.float64(0)  # type: ignore[assignment]
    for k in range(len(av)):
        product = np.multiply(av[k], bv[k], dtype=F64)
        total = total + (product if present is None else np.where(present[k], product, 0))
    return total


def set_specials(d: Array, terms: Array) -> None:
    """Set outputs with an Inf or NaN among their terms, whose sum is ``terms``: Inf of that sign, or the canonical NaN."""
    bad = ~np.isfinite(terms)
    if bad.any():
        d[bad] = terms[bad].astype(d.dtype)
        d.view(np.uint16 if d.dtype == F16 else np.uint32)[np.isnan(terms)] = 0x7FFF if d.dtype == F16 else 0x7FFFFFFF


FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 10),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "e3m2": (3, 2),
    "e2m3": (2, 3),
    "e2m1": (2, 1),
}
"""Exponent bits and fraction bits."""
NARROW = frozenset(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"))
RAISED = 48
"""Added to the exponents of types with at most five exponent bits, so that sums of two fit in 8 bits; a zero has 0."""
LEAST_SUM = 2 * (RAISED - 14)
"""The least sum of two such nonzero exponents; sums with a zero are below it."""
ZERO = -1000
"""The exponent of a zero in bf16 and tf32; other exponents are -126 to 128."""
WHOLE = {"e3m2": 6, "e2m3": 6, "e2m1": 6}
"""Bits from a narrow type's sign to the low end of its byte in a register: padding is above, and for e2m1 also below."""


_LOW = {"e2m1": 2}
"""Bits of padding below."""
FEW = 768
"""Number of operands (or words of them) up to which decoding by table is faster."""


@frozen(eq=False)
class Factors:
    """Operands as ``[K, ...]``: values (f32), exponents (u8, raised, or i16), and whether any is an Inf or NaN."""

    values: Array
    exponents: Array
    special: bool

    def of(self, index: slice | tuple[slice | int, ...]) -> Factors:
        """An indexed part."""
        return Factors(self.values[index], self.exponents[index], self.special)


def decode(bits: Array, kind: str, name: str = "") -> Factors:
    """Decode operands as the tensor core does.

    Args:
        bits: ``[K, ...]`` unsigned: elements (u16; u8, of which e3m2 and e2m3 use the low six bits and e2m1 the low
            four; u32 for tf32), or ``[K / 2 or 4, ...]`` u32 words as in registers, the lowest element first.
        kind: the type.
        name: the workspace slot for the result; by default it is a fresh array.
    """
    return _looked_up(bits, kind) if bits.size <= FEW and kind != "tf32" else _shifted(bits, kind, name)


def _shifted(bits: Array, kind: str, name: str, *, by_place: bool = False) -> Factors:
    """Decode by shifts in place: scaling by the power of two between their biases turns an f16 into an f32. With
    ``by_place``, the first elements of all words come first, then the second ones."""
    exponent, fraction = FORMATS[kind]

    def scratch(what: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return WORKSPACE.take(f"{what} of {name}", shape, dtype) if name else np.empty(shape, dtype)

    if bits.dtype.itemsize == 4 and kind != "tf32":
        slot = 8 if kind in NARROW else 16
        top = WHOLE.get(kind, slot)
        per = 32 // slot
        raw = scratch("values", (per, *bits.shape) if by_place else (len(bits), per, *bits.shape[1:]), np.int32)
        for place in range(per):
            out = raw[place] if by_place else raw[:, place]
            np.left_shift(bits.view(np.int32), np.int32(32 - slot * place - top), out=out)
        raw = raw.reshape(-1, *bits.shape[1:])
    else:
        width = 32 if kind == "tf32" else 1 + exponent + fraction
        raw = scratch("values", bits.shape, np.int32)
        np.left_shift(bits, np.uint32(32 - width), out=raw.view(np.uint32), dtype=np.uint32)
    if exponent < 8:
        raw >>= np.int32(8 - exponent)
    raw &= np.int32(-(1 << 31) | ((1 << exponent + fraction) - 1) << 23 - fraction)
    field = scratch("exponents", raw.shape, np.uint8)
    field[...] = np.right_shift(raw, np.int32(23), out=WORKSPACE.take("fields", raw.shape, np.int32))  # drops the sign
    values = raw.view(F32)
    bias, most = (1 << exponent - 1) - 1, int(field.max(initial=0))
    special = most == (1 << exponent) - 1 and kind in ("f16", "bf16", "tf32", "e5m2", "e4m3")
    subnormal = int(field.min(initial=1)) == 0
    if subnormal:
        np.maximum(field, np.uint8(1), out=field)
    if exponent == 8:
        wide = field.astype(np.int16)
        wide -= np.int16(127)
        if subnormal:
            wide[values == 0] = ZERO
        return Factors(values, wide, special)
    values *= F32.type(2.0 ** (127 - bias))
    field += np.uint8(RAISED - bias)
    if subnormal:
        field *= values != 0
    if special:
        special = _name_specials(values, kind)
    return Factors(values, field, special)


def _looked_up(bits: Array, kind: str) -> Factors:
    """Decode a few operands, for which the number of calls dominates."""
    slot, low = (8, _LOW.get(kind, 0)) if kind in NARROW else (16, 0)
    values, exponents = _every(kind)
    if bits.dtype.itemsize == 4:
        parts = np.ascontiguousarray(bits).reshape(*bits.shape, 1).view(f"u{slot // 8}")
        index = parts.transpose(0, -1, *range(1, bits.ndim)).reshape(-1, *bits.shape[1:])
        if low:
            index = index >> np.uint8(low)
    else:
        index = bits
    found = values[index]
    return Factors(found, exponents[index], not np.isfinite(found).all())


@functools.cache
def _every(kind: str) -> tuple[Array, Array]:
    """Values and exponents of every bit pattern; bits above a narrow type are ignored."""
    width = 8 if kind in NARROW else 16
    factors = _shifted(np.arange(1 << width, dtype=f"u{width // 8}"), kind, "")
    return factors.values, factors.exponents


def _name_specials(values: Array, kind: str) -> bool:
    """Insert Inf and NaN in place of the numbers that their bits would be; returns whether there are any."""
    size = np.abs(values)
    if kind == "e4m3":
        found = size == 480
        values[found] = np.nan
        return bool(found.any())
    infinite, nan = size == 65536, size > 65536
    values[infinite] *= np.inf
    values[nan] = np.nan
    return True


def unpacked(bits: Array, kind: str, together: int, name: str) -> Factors:
    """Convert fp8 to f16, which is exact: subnormals of e4m3 are normal in f16. The even runs of ``together`` along K
    come first, then the odd ones."""
    if bits.dtype.itemsize == 1:
        runs = bits.reshape(-1, 2, together, *bits.shape[1:])
        bits = runs.swapaxes(0, 1).reshape(bits.shape)
        factors = decode(bits, kind, name)
    elif together == 4:
        factors = decode(np.concatenate([bits[::2], bits[1::2]]), kind, name)
    else:
        factors = _shifted(bits, kind, name, by_place=True)
    if kind == "e5m2":
        return factors
    field = factors.exponents
    if (field == RAISED - 6).any():  # subnormal, or next to it
        field = (factors.values.view(np.int32) >> np.int32(23)).astype(np.uint8)
        np.minimum(field, np.uint8(127 + 16), out=field)
        field -= np.uint8(127 - RAISED)
        field *= factors.values != 0
    return Factors(factors.values, field, factors.special)


def expand(stored: Array, positions: Array) -> tuple[Array, Array]:
    """Expand sparse A ``[K / 2, ...]`` with zeros for missing elements; also returns a mask of the stored ones.

    Args:
        stored: elements.
        positions: the k of each element.
    """
    shape = (2 * len(stored), *stored.shape[1:])
    full, present = np.zeros(shape, stored.dtype), np.zeros(shape, np.bool_)
    np.put_along_axis(full, positions, stored, axis=0)
    np.put_along_axis(present, positions, values=True, axis=0)
    return full, present
