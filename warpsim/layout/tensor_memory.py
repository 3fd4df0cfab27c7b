"""Where the lanes of a warp find their elements in tensor memory: the shapes of ``tcgen05.ld`` and ``tcgen05.st`` (PTX ISA: Data
Movement Shape).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from warpsim.layout.fragment import Fragment, fragment, layout_of
from warpsim.numerics.arrays import Array
from warpsim.records import frozen

LANES, COLUMNS = 128, 512
BLOCK = 32
"""Columns are allocated in multiples of these."""
BLOCKS = COLUMNS // BLOCK
QUARTER = 32
"""Lanes that a warp reaches: those of its number in its warpgroup."""
Modes = tuple[tuple[int, int], ...]
"""(size, stride) of a layout, the fastest first."""


@frozen(eq=False)
class Tile:
    """What a warp moves: rectangles of ``lanes`` by ``columns`` cells at each of ``offsets`` (in columns), one below the other.

    Register ``r`` of thread ``t`` holds the cell in row ``row[r, t]`` of these and column ``column[r, t]``. If ``packed``, it
    holds the low halves of two neighbouring cells, of columns ``2 * column[r, t]`` and the next.
    """

    lanes: int
    columns: int
    offsets: tuple[int, ...]
    row: Array
    column: Array
    packed: bool

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return len(self.row)


_SHAPES: dict[str, tuple[int, int, Modes, Modes]] = {
    # shape: rows, columns per repetition, (size, stride) of lanes and of registers; strides are row + rows * column
    "32x32b": (32, 1, ((32, 1),), ()),
    "16x64b": (16, 2, ((2, 8), (2, 16), (8, 1)), ()),
    "16x128b": (16, 4, ((4, 16), (8, 1)), ((2, 8),)),
    "16x256b": (16, 8, ((4, 32), (8, 1)), ((2, 16), (2, 8))),
    "16x32bx2": (32, 1, ((32, 1),), ()),  # the rows of its halves one below the other
}
SHAPES = tuple(_SHAPES)


def registers(shape: str, num: int) -> int:
    """Registers per thread of a shape that is repeated ``num`` times."""
    return math.prod(size for size, _ in _SHAPES[shape][3]) * num


def _twice(modes: Modes, rows: int) -> Modes:
    """With columns twice as far from each other."""
    return tuple([(size, stride if stride < rows else 2 * stride) for size, stride in modes])


@functools.cache
def fragment_of(shape: str, num: int, *, packed: bool = False) -> Fragment:
    """Which lane holds which cell of a shape repeated ``num`` times; ``packed``: cells of 16 bits, two in a register."""
    rows, columns, lanes, values = _SHAPES[shape]
    values = (*values, (num, rows * columns))
    if packed:
        lanes, values = _twice(lanes, rows), ((2, rows), *_twice(values, rows))
    return fragment(rows, columns * num * (1 + packed), 16 if packed else 32, layout_of(*lanes), layout_of(*values))


@functools.cache
def tile(shape: str, num: int, *, packed: bool = False, split: int | None = None) -> Tile:
    """The cells of a shape repeated ``num`` times along the columns; ``split`` is the offset of the second half of 16x32bx2."""
    cells = fragment_of(shape, num)
    row, column = (np.ascontiguousarray(table.T) for table in cells.table())
    lanes, offsets = (cells.rows, (0,)) if split is None else (cells.rows // 2, (0, split))
    return Tile(lanes, cells.columns * (1 + packed), offsets, row, column, packed)
