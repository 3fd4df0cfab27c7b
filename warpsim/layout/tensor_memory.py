"""Where the lanes of a warp find their elements in tensor memory: the shapes of ``tcgen05.ld`` and ``tcgen05.st`` (PTX ISA: Data
Movement Shape).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.numerics.arrays import Array
from warpsim.records import frozen

LANES, COLUMNS = 128, 512
BLOCK = 32
"""Columns are allocated in multiples of these."""
BLOCKS = COLUMNS // BLOCK
QUARTER = 32
"""Lanes that a warp reaches: those of its number in its warpgroup."""


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


_ROWS: dict[str, tuple[int, int, Callable[[Array, Array], Array], Callable[[Array, Array], Array]]] = {
    # shape: registers per repetition, columns per repetition, row and column of register r of thread t
    "32x32b": (1, 1, lambda r, t: t, lambda r, t: r),
    "16x64b": (1, 2, lambda r, t: t // 4 + t % 2 * 8, lambda r, t: 2 * r + t // 2 % 2),
    "16x128b": (2, 4, lambda r, t: t // 4 + r % 2 * 8, lambda r, t: 4 * (r // 2) + t % 4),
    "16x256b": (4, 8, lambda r, t: t // 4 + r // 2 % 2 * 8, lambda r, t: 8 * (r // 4) + 2 * (t % 4) + r % 2),
    "16x32bx2": (1, 1, lambda r, t: t, lambda r, t: r),
}
SHAPES = tuple(_ROWS)


def registers(shape: str, num: int) -> int:
    """Registers per thread of a shape that is repeated ``num`` times."""
    return _ROWS[shape][0] * num


@functools.lru_cache(256)
def tile(shape: str, num: int, *, packed: bool = False, split: int | None = None) -> Tile:
    """The cells of a shape repeated ``num`` times along the columns; ``split`` is the offset of the second half of 16x32bx2."""
    per, width, row, column = _ROWS[shape]
    r, t = np.arange(per * num)[:, None], np.arange(32)
    rows, columns = np.broadcast_arrays(row(r, t), column(r, t))
    return Tile(
        32 if shape == "32x32b" else 16,
        width * num * (2 if packed else 1),
        (0,) if split is None else (0, split),
        np.ascontiguousarray(rows),
        np.ascontiguousarray(columns),
        packed,
    )
