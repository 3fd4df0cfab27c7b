"""Operands of the tensor cores: bits of f16, bf16, tf32 and narrower floats as f32 values with their exponents."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import numpy as np

from warpsim.numerics.bits import Array
from warpsim.numerics.workspace import WORKSPACE

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
"""Bits of the exponent and of the fraction."""
NARROW = frozenset(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"))
RAISED = 48
"""Added to the exponents of types with at most five bits of exponent, so that sums of two fit 8 bits; a zero has 0."""
LEAST_SUM = 2 * (RAISED - 14)
"""The least sum of two such exponents; with a zero, sums are below."""
ZERO = -1000
"""The exponent of a zero of bf16 and tf32, whose others are from -126 to 128."""
_WHOLE = {"e3m2": 6, "e2m3": 6, "e2m1": 6}
"""Bits from the sign of a narrow type down to the end of its byte in a register: padding stands above, e2m1 has some below."""


_LOW = {"e2m1": 2}
"""Bits of padding below."""
FEW = 768
"""Operands (or words of them) up to which decoding by table is faster."""


@attrs.frozen(eq=False)
class Factors:
    """Operands as ``[K, ...]``: values (f32), exponents (u8, raised, or i16) and whether an Inf or NaN is among them."""

    values: Array
    exponents: Array
    special: bool

    def of(self, index: Any) -> Factors:
        """A part of them."""
        return Factors(self.values[index], self.exponents[index], self.special)


def decode(bits: Array, kind: str, name: str = "") -> Factors:
    """What the tensor core reads.

    Args:
        bits: ``[K, ...]`` unsigned: elements (u16; u8, of which e3m2 and e2m3 take the low six bits and e2m1 the low four;
            u32 for tf32), or ``[K / 2 or 4, ...]`` u32 words as registers hold them, the lowest element first.
        kind: the type.
        name: where in the workspace the result may lie; by default it is the caller's own.
    """
    return _looked_up(bits, kind) if bits.size <= FEW and kind != "tf32" else _shifted(bits, kind, name)


def _shifted(bits: Array, kind: str, name: str, *, by_place: bool = False) -> Factors:
    """By shifts in place: an f16 becomes an f32 by the power of two between their biases. Of words the first elements of
    all come first where ``by_place``, then the second ones."""
    exponent, fraction = FORMATS[kind]

    def room(what: str, shape: tuple[int, ...], dtype: Any) -> Array:
        return WORKSPACE.take(f"{what} of {name}", shape, dtype) if name else np.empty(shape, dtype)

    if bits.dtype.itemsize == 4 and kind != "tf32":
        slot = 8 if kind in NARROW else 16
        top = _WHOLE.get(kind, slot)
        per = 32 // slot
        raw = room("values", (per, *bits.shape) if by_place else (len(bits), per, *bits.shape[1:]), np.int32)
        for place in range(per):
            out = raw[place] if by_place else raw[:, place]
            np.left_shift(bits.view(np.int32), np.int32(32 - slot * place - top), out=out)
        raw = raw.reshape(-1, *bits.shape[1:])
    else:
        width = 32 if kind == "tf32" else 1 + exponent + fraction
        raw = room("values", bits.shape, np.int32)
        np.left_shift(bits, np.uint32(32 - width), out=raw.view(np.uint32), dtype=np.uint32)
    if exponent < 8:
        raw >>= np.int32(8 - exponent)
    raw &= np.int32(-(1 << 31) | ((1 << exponent + fraction) - 1) << 23 - fraction)
    field = room("exponents", raw.shape, np.uint8)
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
    """The same for few operands, where the number of calls is what counts."""
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
    """Values and exponents of all bits, those above a narrow type ignored."""
    width = 8 if kind in NARROW else 16
    factors = _shifted(np.arange(1 << width, dtype=f"u{width // 8}"), kind, "")
    return factors.values, factors.exponents


def _name_specials(values: Array, kind: str) -> bool:
    """Put Inf and NaN in the place of what their bits would be as numbers; whether there are any."""
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
    """fp8 converted to f16, which is exact: what is subnormal in e4m3 is not in f16. The even runs of ``together`` of K come
    first, then the odd ones."""
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
    """Sparse A ``[K / 2, ...]`` with zeros in the places between, and where it stored something.

    Args:
        stored: elements.
        positions: the place of each among K.
    """
    shape = (2 * len(stored), *stored.shape[1:])
    full, present = np.zeros(shape, stored.dtype), np.zeros(shape, np.bool_)
    np.put_along_axis(full, positions, stored, axis=0)
    np.put_along_axis(present, positions, values=True, axis=0)
    return full, present
