"""How the 128 threads of a warpgroup hold wgmma operands: gather ``[n, 128, m]`` registers, scatter results.

Warp ``w`` holds rows ``16w`` to ``16w + 15``; within a warp, A and the accumulators lie as in mma's 16x8 tiles: with
``g = lane / 4`` and ``t = lane % 4``, tile ``j`` of 8 columns gives each lane columns ``8j + 2t`` and the next, of row ``g``
in the first pair and of row ``g + 8`` in the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _tiles(register: Array, n: int, m: int) -> Array:
    """``[4 (warp), 8 (g), 4 (t), W]`` of a register ``[n, 128, m]``."""
    full = np.broadcast_to(register, (n, 128, m))
    return full.transpose(1, 0, 2).reshape(4, 8, 4, n * m)


def gather_accumulator(registers: tuple[Array, ...], n: int, m: int) -> Array:
    """``[64, N, W]`` of ``N / 2`` registers of one element each."""
    out = np.empty((4, 2, 8, len(registers) // 4, 4, 2, n * m), registers[0].dtype)
    for number, register in enumerate(registers):
        out[:, number >> 1 & 1, :, number >> 2, :, number & 1] = _tiles(register, n, m)
    return out.reshape(64, len(registers) * 2, n * m)


def scatter_accumulator(matrix: Array, n: int, m: int) -> tuple[Array, ...]:
    """``N / 2`` registers ``[n, 128, m]`` of ``[64, N, W]``."""
    count = matrix.shape[1] // 2
    view = matrix.reshape(4, 2, 8, count // 4, 4, 2, n * m)
    return tuple([view[:, r >> 1 & 1, :, r >> 2, :, r & 1].reshape(128, n, m).transpose(1, 0, 2) for r in range(count)])


def gather_packed(registers: tuple[Array, ...], n: int, m: int) -> Array:
    """``[64, N, W]`` f16 of ``N / 4`` registers of two halves each."""
    parts = []
    for register in registers:
        bits = register.view(np.uint32)
        parts += [(bits >> np.uint32(s)).astype(np.uint16).view(np.float16) for s in (0, 16)]
    return gather_accumulator(tuple(parts), n, m)


def scatter_packed(matrix: Array, n: int, m: int) -> tuple[Array, ...]:
    """``N / 4`` registers of two halves each of ``[64, N, W]`` f16."""
    parts = [np.ascontiguousarray(r).view(np.uint16).astype(np.uint32) for r in scatter_accumulator(matrix, n, m)]
    return tuple([low | high << np.uint32(16) for low, high in zip(parts[::2], parts[1::2], strict=True)])


def gather_a(registers: tuple[Array, ...], n: int, m: int, dtype: np.dtype[Any]) -> Array:
    """``[K, 64, W]`` of the four registers of A; ``K`` elements of a row take 32 bytes."""
    per = 4 // dtype.itemsize
    out = np.empty((2, 4, per, 4, 2, 8, n * m), dtype)
    for number, register in enumerate(registers):
        tiles = _tiles(register.view(np.uint32), n, m).transpose(2, 0, 1, 3)
        for h in range(per):
            out[number >> 1, :, h, :, number & 1] = (tiles >> np.uint32(8 * dtype.itemsize * h)).astype(dtype)
    return out.reshape(8 * per, 64, n * m)


def sparse_positions(metadata: Array, selector: int, n: int, m: int, itemsize: int) -> Array:
    """Which k of the full row each stored element of A has: ``[K / 2, 64, W]`` (int64).

    A nibble describes a chunk: two 2-bit indices of 4 elements, for 32-bit types one of 2 elements.
    """
    tiles = _tiles(metadata.view(np.uint32), n, m)
    chunks = 16 if itemsize == 1 else 8
    nibbles: Array = np.empty((chunks, 4, 2, 8, n * m), np.int64)
    for chunk in range(chunks):
        for half in range(2):
            if itemsize == 1:
                lane, bit = 2 * (chunk // 8) + half, 4 * (chunk % 8)
            else:
                lane, bit = 2 * selector + chunk // 4, 16 * half + 4 * (chunk % 4)
            nibbles[chunk, :, half] = tiles[:, :, lane] >> np.uint32(bit) & np.uint32(15)
    nibbles = nibbles.reshape(chunks, 64, n * m)
    first = np.arange(chunks)[:, None, None]
    if itemsize == 4:
        return 2 * first + ((nibbles & 3) >> 1)
    pair = np.stack([4 * first + (nibbles & 3), 4 * first + (nibbles >> 2)], axis=1)
    return pair.reshape(2 * chunks, 64, n * m)
