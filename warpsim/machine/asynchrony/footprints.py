"""Which bytes of shared memory an operation in flight touches, and whether an access meets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from warpsim.machine.values import Array


@attrs.frozen(eq=False)
class Footprint:
    """Runs ``[start, start + nbytes)`` of bytes, one for each receiver, in the shared memory of a column."""

    columns: Array
    start: Array
    nbytes: int
    low: int = attrs.field(init=False)
    high: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        empty = not len(self.start)
        object.__setattr__(self, "low", 0 if empty else int(self.start.min()))
        object.__setattr__(self, "high", 0 if empty else int(self.start.max()) + self.nbytes)

    def bitmap(self, open: Array, n_columns: int) -> Array:
        """Bytes ``[high - low, n_columns]`` of the receivers that are still open."""
        out = np.zeros((self.high - self.low, n_columns), np.bool_)
        which = np.flatnonzero(open)
        rows = (self.start[which] - self.low)[:, None] + np.arange(self.nbytes)
        out[rows, self.columns[which][:, None]] = True
        return out

    def parts(self) -> Iterator[tuple[Array, Array, int]]:
        """(addresses, columns, bytes) of accesses that make up the footprint."""
        yield self.start, self.columns, self.nbytes


class MatrixFootprint:
    """The elements that a wgmma reads: ``[elements, columns]`` byte addresses within ``limits``, ``itemsize`` bytes each."""

    def __init__(
        self, address: Array, columns: Array, limits: tuple[int, int], itemsize: int, n_columns: int, place: Any
    ) -> None:
        self.address, self.columns, self.itemsize = address, columns, itemsize
        self.n_columns = n_columns
        self.low, self.high = limits
        self.place = place
        self.open = np.ones(n_columns, np.bool_)
        self._bitmap: Array | None = None

    def bitmap(self) -> Array:
        """Bytes ``[high - low, n_columns]`` that are still read."""
        if self._bitmap is None:
            self._bitmap = np.zeros((self.high - self.low, self.n_columns), np.bool_)
            for k in range(self.itemsize):
                self._bitmap[self.address - self.low + k, self.columns] = True
        return self._bitmap & self.open


def hits(bitmap: Array, low: int, place: Array, nbytes: int, columns: Array, active: Array | None) -> Array:
    """Which accesses of ``nbytes`` at ``place`` in ``columns`` (broadcast) meet a byte of a bitmap that begins at ``low``."""
    shape = np.broadcast_shapes(place.shape, columns.shape, () if active is None else active.shape)
    found: Array = np.zeros(np.broadcast_shapes(place.shape, columns.shape), np.bool_)
    if nbytes > 16:  # long runs: count the marked bytes before each end
        sums = np.zeros((len(bitmap) + 1, bitmap.shape[1]), np.int64)
        np.cumsum(bitmap, axis=0, out=sums[1:])
        first, last = (np.clip(place - low + d, 0, len(bitmap)) for d in (0, nbytes))
        found = sums[last, columns] > sums[first, columns]
    else:
        for k in range(nbytes):
            row = place - low + k
            inside = (row >= 0) & (row < len(bitmap))
            found = found | (bitmap[np.where(inside, row, 0), columns] & inside)
    found = np.broadcast_to(found, shape)
    return found if active is None else found & active


__all__ = ["Footprint", "MatrixFootprint", "hits"]
