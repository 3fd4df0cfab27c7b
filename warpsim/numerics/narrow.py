"""Rounding to small floating-point formats by integer arithmetic on the bits: every mode, subnormals kept.

A format has exponent bits, fraction bits and a largest finite code. Codes of one sign are consecutive integers, so
rounding up adds one, and a code above the largest finite one has overflowed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.numerics.dispatch import lookup

Array = NDArray[Any]


@attrs.frozen
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


def round_bits(x: Array, target: str, mode: str, *, finite: bool = False) -> Array:
    """Convert f32 or f64 values to codes of ``target`` (int64), rounded once; ``finite`` clamps overflow and
    infinities.

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
    code = code + rounds_up(
        code, significand & ((np.int64(1) << shift) - 1), np.int64(1) << (shift - 1), negative, mode
    )
    code = np.where(code > form.greatest, _overflow(form, negative, mode, finite=finite), code)
    infinite = source.infinity
    assert infinite is not None, "f32 and f64 have infinities"
    if (magnitude >= infinite).any():
        limit = form.greatest if finite or form.infinity is None else form.infinity
        nan: Any = form.greatest if form.nan is None else form.nan
        if source.width == 64 and form.infinity is not None and not finite:
            nan = form.infinity | 1 << (form.fraction - 1) | (magnitude - infinite) >> (source.fraction - form.fraction)
        else:
            negative = negative & (magnitude <= infinite)
        code = np.where(magnitude == infinite, limit, np.where(magnitude > infinite, nan, code))
    return code | negative.astype(np.int64) << (form.width - 1)


def _overflow(form: Format, negative: Array, mode: str, *, finite: bool) -> Any:
    if finite or form.infinity is None or mode == "rz":
        return form.greatest
    if mode == "rn":
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


def _table(form: Format) -> Array:
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


@cache
def _table_of(source: str) -> Array:
    return _table(FORMATS[source])


def to_f16(code: Array, source: str) -> Array:
    """Convert codes of a format of at most 8 bits to f16 bits (u16)."""
    table = _table_of(source)
    return lookup(table, code & (len(table) - 1))
