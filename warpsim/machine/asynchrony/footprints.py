"""Which bytes of shared memory an operation in flight touches, and whether an access meets them."""

from __future__ import annotations

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

    def holders(self, address: Array, columns: Array, open: Array) -> Array:
        """Which of these bytes lie in a run of a receiver that is open."""
        keys = self.columns << 32 | self.start
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], columns << 32 | address, "right") - 1
        receiver = order[np.maximum(at, 0)]
        inside = (at >= 0) & (self.columns[receiver] == columns) & (address < self.start[receiver] + self.nbytes)
        return inside & open[receiver]


class MatrixFootprint:
    """The elements that a wgmma reads: ``[elements, columns]`` byte addresses within ``limits``, ``itemsize`` bytes each."""

    def __init__(
        self, address: Array, columns: Array, limits: tuple[int, int], itemsize: int, n_columns: int, place: Any
    ) -> None:
        self.address, self.columns, self.itemsize = address, columns, itemsize
        self.low, self.high = limits
        self.place = place
        self.open = np.ones(n_columns, np.bool_)
        self._keys: Array | None = None

    def hits(self, place: Array, nbytes: int, columns: Array, active: Array | None) -> Array:
        """Which accesses of ``nbytes`` at ``place`` in ``columns`` (broadcast) meet an element that is still read."""
        own = self.address.shape[-1] > 1  # else the columns read at the same addresses
        if self._keys is None:
            self._keys = np.sort((self.address + (self.columns << 32 if own else 0)).reshape(-1))
        low = place + (columns << 32 if own else 0)
        found = np.searchsorted(self._keys, low - self.itemsize + 1) < np.searchsorted(self._keys, low + nbytes)
        found = found & self.open[columns]
        return found if active is None else found & active


__all__ = ["Footprint", "MatrixFootprint"]
