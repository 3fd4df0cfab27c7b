"""Helpers of the video instructions: byte and half selection, saturation, secondary operations, merging."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def select(word: Array, selector: str | None, *, signed: bool) -> Array:
    """Extend a byte (``b2``), a half (``h0``) or all of 32-bit registers to int64."""
    bits, at = (32, 0) if selector is None else ((8, 8) if selector[0] == "b" else (16, 16))
    if selector is not None:
        at *= int(selector[1:])
    return extend(word.view(np.uint32) >> np.uint32(at), bits, signed=signed)


def extend(value: Array, bits: int, *, signed: bool) -> Array:
    """The low bits as int64."""
    kind = "i" if signed else "u"
    return value.astype(f"u{bits // 8}").view(f"{kind}{bits // 8}").astype(np.int64)


def lanes(a: Array, b: Array, width: int, selector: str | None, first: int, *, signed: bool) -> list[Array]:
    """The elements that a selector of ``vadd2`` or ``vadd4`` picks from b:a, lowest first, as int64.

    Digits name elements, the highest result first; without a selector, an operand supplies its own elements.
    """
    count = 32 // width
    order = [first + i for i in range(count)] if selector is None else [int(c) for c in reversed(selector[1:])]
    out = []
    for index in order:
        source, place = (a, index) if index < count else (b, index - count)
        out.append(extend(source.view(np.uint32) >> np.uint32(width * place), width, signed=signed))
    return out


def clamp(value: Array, bits: int, *, signed: bool) -> Array:
    """Clamp to a range."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return np.clip(value, low, high)


def clamp_part(value: Array, bits: int, *, signed: bool) -> Array:
    """Clamp to a byte or half that is merged: as on an H100, every negative value becomes the largest one."""
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    return np.where((value < 0) | (value > high), high, value)


def merge(c: Array, value: Array, selector: str) -> Array:
    """c with a byte or half replaced by the low bits of a value; ``h1`` takes the value's own upper half, as an H100
    does.
    """
    if selector == "h1":
        return (c.view(np.uint32) & np.uint32(0xFFFF)) | (value.astype(np.uint32) & np.uint32(0xFFFF0000))
    bits = 8 if selector[0] == "b" else 16
    at = bits * int(selector[1:])
    mask = np.uint32(((1 << bits) - 1) << at)
    return (c.view(np.uint32) & ~mask) | (value.astype(np.uint32) << np.uint32(at) & mask)


def pack(parts: list[Array], c: Array, width: int, mask: set[int] | None) -> Array:
    """Join elements; those that the mask leaves out come from c."""
    out: Any = np.uint32(0)
    for i, part in enumerate(parts):
        field = np.uint32(((1 << width) - 1) << (width * i))
        chosen = mask is None or i in mask
        out = out | ((part.astype(np.uint32) << np.uint32(width * i)) & field if chosen else c.view(np.uint32) & field)
    return out
