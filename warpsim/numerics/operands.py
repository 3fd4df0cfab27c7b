"""Tensor core operands: bits of f16, bf16, tf32 and narrower floats as f32 values with their exponents."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import numpy as np

from warpsim.numerics.arrays import WORKSPACE
from warpsim.numerics.bits import Array

F32 = np.dtype(np.float32)
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
"""Bits from a narrow type's sign to the low end of its byte in a register: padding is above, and for e2m1 also below.
"""


_LOW = {"e2m1": 2}
"""Bits of padding below."""
FEW = 768
"""Number of operands (or words of them) up to which decoding by table is faster."""


@attrs.frozen(eq=False)
class Factors:
    """Operands as ``[K, ...]``: values (f32), exponents (u8, raised, or i16), and whether any is an Inf or NaN."""

    values: Array
    exponents: Array
    special: bool

    def of(self, index: Any) -> Factors:
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
    ``by_place``, the first elements of all words come first, then the second ones.
    """
    exponent, fraction = FORMATS[kind]

    def scratch(what: str, shape: tuple[int, ...], dtype: Any) -> Array:
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
    come first, then the odd ones.
    """
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
