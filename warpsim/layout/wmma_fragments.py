"""wmma fragments of an H100, read off ``wmma.load`` of matrices whose elements are their own index.

Every fragment is a list of 8-row blocks. With ``g = lane / 4`` and ``t = lane % 4``, a multiplicand register holds
``per`` consecutive k of row (A) or column (B) ``g`` of its block; an accumulator pair holds columns ``2t, 2t + 1`` of
row ``g``, or, where the tile is 8 rows high and 32 wide, rows ``2t, 2t + 1`` of column ``g``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout.fragments import _lanes

Array = NDArray[Any]
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


def dimensions(shape: str) -> tuple[int, int, int]:
    """m, n and k of ``m16n8k16``."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def tiles(operand: str, shape: str, type: str) -> list[tuple[int, int]]:
    """For each register of a multiplicand: its first row (A) or column (B), and its first k."""
    m, n, k = dimensions(shape)
    extent = m if operand == "a" else n
    per = max(32 // BITS[type], 1)
    depth = 4 * per
    steps = range(0, k, depth)
    if len(steps) == 1:
        return [(r, 0) for r in range(0, extent, 8)]
    if operand == "b" and extent == 16:
        return [(r, s) for r in (0, 8) for s in steps]
    if extent == 8:
        return [(0, s) for s in steps]
    return [(block + r, s) for block in range(0, extent, 16) for s in steps for r in (0, 8)]


def registers(operand: str, shape: str, type: str) -> int:
    """How many registers a multiplicand has; f16 fragments repeat their tiles to fill eight."""
    return 8 if type == "f16" else len(tiles(operand, shape, type))


def accumulator(shape: str) -> list[tuple[int, int, bool]]:
    """For each pair of accumulators: first row, first column, and whether the pair runs down the rows."""
    m, n, _ = dimensions(shape)
    if (m, n) == (8, 32):
        return [(0, c, True) for c in range(0, 32, 8)]
    return [(r, c, False) for c in range(0, n, 8) for r in range(0, m, 8)]


def multiplicand_place(
    operand: str, shape: str, type: str, register: int, element: int, lane: Array
) -> tuple[Array, Array]:
    """Row (or column) and k of an element of a lane's register."""
    layout = tiles(operand, shape, type)
    first, k = layout[register % len(layout)]
    per = max(32 // BITS[type], 1)
    return (lane >> 2) + first, (lane & 3) * per + element + k


def accumulator_place(shape: str, register: int, lane: Array) -> tuple[Array, Array]:
    """Row and column of a lane's accumulator."""
    row, column, down = accumulator(shape)[register >> 1]
    g, pair = lane >> 2, 2 * (lane & 3) + (register & 1)
    return (pair + row, g + column) if down else (g + row, pair + column)


def gather(operand: str, shape: str, type: str, values: tuple[Array, ...], n: int, m: int) -> Array:
    """``[K, rows, W]`` of a multiplicand: bits of floats, values of integers, words of b1 (K in words)."""
    layout = tiles(operand, shape, type)
    bits = BITS[type]
    per = max(32 // bits, 1) if type != "b1" else 1
    depth = 4 * per
    extent = dimensions(shape)[0 if operand == "a" else 1]
    k = 4 if type == "b1" else dimensions(shape)[2]
    sample = {16: np.uint16, 32: np.uint32, 8: np.uint8, 4: np.uint8, 1: np.uint32, 64: np.float64}[bits]
    out = np.empty((k, extent, n * m), sample)
    for (first, start), value in zip(layout, values, strict=False):
        lanes = _lanes(value if bits == 64 else value.view(np.uint32), n, m)
        for h in range(per):
            part = lanes if per == 1 else (lanes >> np.uint32(h * bits)) & np.uint32((1 << bits) - 1)
            out[start + h : start + depth : per, first : first + 8] = part.astype(sample)
    if type == "s4":
        return ((out ^ np.uint8(8)) - np.uint8(8)).view(np.int8)
    return out.view(np.int8) if type == "s8" else out


def gather_accumulator(shape: str, values: tuple[Array, ...], n: int, m: int) -> Array:
    """``[M, N, W]`` of registers of one element each."""
    rows, columns, _ = dimensions(shape)
    out = np.empty((rows, columns, n * m), values[0].dtype)
    for number, value in enumerate(values):
        _part(out, shape, number)[...] = _lanes(value, n, m).transpose(1, 0, 2)
    return out


def scatter_accumulator(shape: str, matrix: Array, n: int, m: int) -> tuple[Array, ...]:
    """Registers ``[n, 32, m]`` of ``[M, N, W]``."""
    count = 2 * len(accumulator(shape))
    return tuple(_part(matrix, shape, r).reshape(32, n, m).transpose(1, 0, 2) for r in range(count))


def _part(matrix: Array, shape: str, register: int) -> Array:
    """``[8 (g), 4 (t), W]``: the elements of one accumulator register of all lanes."""
    row, column, down = accumulator(shape)[register >> 1]
    h = register & 1
    if down:
        return matrix[row + h : row + 8 : 2, column : column + 8].transpose(1, 0, 2)
    return matrix[row : row + 8, column + h : column + 8 : 2]
