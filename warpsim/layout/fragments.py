"""How lanes hold matrix operands: gather ``[n, 32, m]`` registers into matrices ``[.., .., W]`` and scatter them back.

All mma fragments of 16x8 tiles follow one rule (PTX ISA, matrix fragments for mma): with group ``g = lane / 4`` and
``t = lane % 4``, an A register holds ``per`` consecutive k of row ``g`` or ``g + 8``, a B register ``per`` consecutive
k of column ``g``, an accumulator pair two columns of a row. ``W`` runs over warps and CTAs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _lanes(register: Array, n: int, m: int) -> Array:
    """``[4 (t), 8 (g), W]`` of a register ``[n, 32, m]``."""
    full = np.broadcast_to(register, (n, 32, m))
    return full.transpose(1, 0, 2).reshape(8, 4, n * m).transpose(1, 0, 2)


def extent(registers: tuple[Array, ...]) -> tuple[int, int]:
    """Common ``n`` and ``m`` of registers that may be broadcast."""
    return max(r.shape[0] for r in registers), max(r.shape[2] for r in registers)


def gather_rows(registers: tuple[Array, ...], n: int, m: int, bits: int, halves: int) -> Array:
    """``[K, 8 * halves, W]``: an A operand (two row halves) or a B operand (one) of ``bits`` wide elements."""
    per = 32 // bits
    blocks = len(registers) // halves
    dtype = np.dtype(f"u{max(bits // 8, 1)}")
    out = np.empty((blocks, 4, per, halves, 8, n * m), dtype)
    for number, register in enumerate(registers):
        lanes = _lanes(register.view(np.uint32), n, m)
        for h in range(per):
            part = lanes if per == 1 else lanes >> np.uint32(h * bits)
            out[number // halves, :, h, number % halves] = part.astype(dtype)
    return out.reshape(blocks * 4 * per, halves * 8, n * m)


def gather_accumulator(registers: tuple[Array, ...], n: int, m: int) -> Array:
    """``[16, 8, W]`` of four registers of one element each."""
    out = np.empty((2, 8, 4, 2, n * m), registers[0].dtype)
    for number, register in enumerate(registers):
        out[number >> 1, :, :, number & 1] = _lanes(register, n, m).transpose(1, 0, 2)
    return out.reshape(16, 8, n * m)


def scatter_accumulator(matrix: Array, n: int, m: int) -> tuple[Array, ...]:
    """Four registers ``[n, 32, m]`` of ``[16, 8, W]``."""
    view = matrix.reshape(2, 8, 4, 2, n * m)
    return tuple([view[r >> 1, :, :, r & 1].reshape(32, n, m).transpose(1, 0, 2) for r in range(4)])


def gather_packed(registers: tuple[Array, ...], n: int, m: int) -> Array:
    """``[16, 8, W]`` f16 of two registers of two halves each."""
    parts = []
    for register in registers:
        bits = register.view(np.uint32)
        parts += [(bits >> np.uint32(s)).astype(np.uint16).view(np.float16) for s in (0, 16)]
    return gather_accumulator(tuple(parts), n, m)


def scatter_packed(matrix: Array, n: int, m: int) -> tuple[Array, ...]:
    """Two registers of two halves each of ``[16, 8, W]`` f16."""
    parts = [
        p.view(np.uint16).astype(np.uint32)
        for p in (np.ascontiguousarray(r) for r in scatter_accumulator(matrix, n, m))
    ]
    return parts[0] | (parts[1] << np.uint32(16)), parts[2] | (parts[3] << np.uint32(16))
