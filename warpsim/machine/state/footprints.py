"""The bytes that an operation in flight touches, and whether an access overlaps them."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from warpsim.layout.boxes import Boxes
from warpsim.machine.values import Array

GRANULE = 16
"""Bytes that copies write at once if possible."""


@attrs.frozen(eq=False)
class Footprint:
    """Runs ``[start, start + nbytes)`` of bytes in the shared memory of a column, one per receiver."""

    columns: Array
    start: Array
    nbytes: int
    low: int = attrs.field(init=False)
    high: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        low, high = 0, -self.nbytes
        if len(self.start) == 1:
            low = high = self.start.item()
        elif len(self.start):
            low, high = int(self.start.min()), int(self.start.max())
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high + self.nbytes)

    def __deepcopy__(self, memo: object) -> Footprint:
        return self  # immutable

    def holders(self, address: Array, columns: Array, open: Array) -> Array:
        """A mask of the bytes that are in a run of an open receiver."""
        keys = self.columns << 32 | self.start
        order = np.argsort(keys, kind="stable")
        wanted = columns << 32 | address
        return _within(keys[order], open[order], np.maximum(wanted - self.nbytes + 1, columns << 32), wanted)


@attrs.define(eq=False)
class GlobalTarget:
    """Global memory that copies write (or read), within ``[low, high)``: ``boxes`` of a tensor, or ``nbytes`` at each
    receiver's address.
    """

    low: int
    high: int
    boxes: Boxes | None = None
    address: Array | None = None
    nbytes: int = 0
    _runs: tuple[Array, Array, int] | None = None

    CACHES: ClassVar[frozenset[str]] = frozenset({"_runs"})

    def __deepcopy__(self, memo: object) -> GlobalTarget:
        return self  # immutable

    @classmethod
    def of_boxes(cls, boxes: Boxes) -> GlobalTarget:
        """Boxes of a tensor."""
        return cls(*boxes.span(), boxes)

    @classmethod
    def of_runs(cls, address: Array, nbytes: int) -> GlobalTarget:
        """Runs of bytes."""
        return cls(int(address.min()), int(address.max()) + nbytes, None, address, nbytes)

    def _spread(self) -> tuple[Array, Array, int]:
        """The addresses of elements, their receivers, and the element size."""
        if self.boxes is not None:
            return self.boxes.spread()
        assert self.address is not None
        size = min(self.nbytes & -self.nbytes, GRANULE)
        address = (self.address[:, None] + np.arange(0, self.nbytes, size)).reshape(-1)
        return address, np.repeat(np.arange(len(self.address)), self.nbytes // size), size

    def forget(self) -> None:
        """Drop what can be computed again."""
        self._runs = None

    def runs(self) -> tuple[Array, Array, int]:
        """Addresses (ascending), receivers and size of runs; of 16 bytes if whole ones are written."""
        if self._runs is None:
            found = None if self.boxes is None else self.boxes.granules(GRANULE)
            if found is not None:
                order = np.argsort(found[0], kind="stable")
                self._runs = found[0][order], found[1][order], GRANULE
                return self._runs
            address, receiver, size = self._spread()
            whole = np.unique(receiver << 44 | address // GRANULE)
            if len(whole) * GRANULE == len(address) * size:
                address, receiver, size = (whole & (1 << 44) - 1) * GRANULE, whole >> 44, GRANULE
            order = np.argsort(address, kind="stable")
            self._runs = address[order], receiver[order], size
        return self._runs

    def holders(self, address: Array, open: Array) -> Array:
        """A mask of the bytes that an open receiver writes."""
        starts, receivers, size = self.runs()
        return _within(starts, open[receivers], address - size + 1, address)


def _within(keys: Array, open: Array, first: Array, last: Array) -> Array:
    """For each pair of bounds, whether a key between them (keys are sorted) is open."""
    before = np.concatenate(([0], np.cumsum(open)))
    found: Array = before[np.searchsorted(keys, last, "right")] > before[np.searchsorted(keys, first, "left")]
    return found
