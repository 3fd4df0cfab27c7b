"""Epochs of copies in flight on granules of each CTA's shared memory.

An access looks up the granules that it touches, regardless of the number of copies in flight. Epochs increase, so a row
of granules whose last epoch is older than the oldest copy in flight conflicts with none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from warpsim.machine.state.transfers import GRANULE, Footprint
from warpsim.machine.values import Array, spread

Overlaps = tuple[Array, ...]
"""(flat index of the access, address of the granule, column, epoch) of each granule where an access meets a copy."""


class EpochSheets:
    """Sheets of epochs: a copy epochs its bytes in the first sheet where no copy in flight holds any of them."""

    def __init__(self, size: int, n_columns: int) -> None:
        self._extent = size, n_columns
        self.sheets = [Epochs(size, n_columns)]

    def put(
        self, footprint: Footprint, number: int, oldest: int, holders: Callable[[Overlaps], Iterator[object]]
    ) -> None:
        """Epoch a copy's bytes. ``holders`` yields the copies, none older than ``oldest``, that still hold the
        granules."""
        start, columns, nbytes = footprint.start, footprint.columns, footprint.nbytes
        if not start.size:
            return
        for sheet in self.sheets:
            rows = sheet.rows[footprint.low // sheet.granule : (footprint.high - 1) // sheet.granule + 1]
            if np.maximum.reduce(rows, initial=0) < oldest:
                break
            overlap = sheet.overlaps(start, nbytes, columns, None, oldest)
            if overlap is None or next(holders(overlap), None) is None:
                break
        else:
            sheet = Epochs(*self._extent)
            self.sheets.append(sheet)
        sheet.put(footprint, number)

    def overlaps(
        self, place: Array, nbytes: int, columns: Array, active: Array | None, oldest: int
    ) -> Iterator[Overlaps]:
        """Where accesses to ``nbytes`` at ``place`` in ``columns`` (broadcast) meet copies with epoch ``oldest`` or
        newer."""
        for sheet in self.sheets:
            overlap = sheet.overlaps(place, nbytes, columns, active, oldest)
            if overlap is not None:
                yield overlap

    def meet(self, low: int, high: int, oldest: int) -> bool:
        """Whether any copy with epoch ``oldest`` or newer may hold any of ``[low, high)`` of any column."""
        for sheet in self.sheets:  # at every access of an mbarrier: no calls
            rows = sheet.rows[low // sheet.granule : (high - 1) // sheet.granule + 1]
            if np.maximum.reduce(rows, initial=0) >= oldest:
                return True
        return False

    def clear(self) -> None:
        """Clear everything, because nothing is in flight."""
        del self.sheets[1:]


class Epochs:
    """The epochs of copies, by granule and column; granules are as small as the smallest copy so far."""

    def __init__(self, size: int, n_columns: int) -> None:
        self.granule = GRANULE
        self.cells: Array = np.zeros((-(-size // GRANULE), n_columns), np.int32)
        self.rows: Array = np.zeros(len(self.cells), np.int32)

    def put(self, footprint: Footprint, number: int) -> None:
        """Epoch a copy's bytes."""
        start, columns, nbytes = footprint.start, footprint.columns, footprint.nbytes
        if nbytes % self.granule:
            self._fit(nbytes)
        count = -(-nbytes // self.granule)
        if footprint.at is not None:
            first = footprint.at // self.granule
            self.rows[first : first + count] = number
            self.cells[first : first + count, footprint.run] = number
            return
        rows = (start // self.granule)[:, None] + np.arange(count)
        self.rows[rows] = number
        self.cells[rows, columns[:, None]] = number

    def _fit(self, nbytes: int) -> None:
        wanted = min(nbytes & -nbytes, GRANULE)
        if wanted < self.granule:
            times, used = self.granule // wanted, np.flatnonzero(self.rows)
            finer: Array = np.zeros((len(self.cells), times, self.cells.shape[1]), np.int32)
            finer[used] = self.cells[used, None]
            self.cells = finer.reshape(-1, self.cells.shape[1])
            self.rows = np.repeat(self.rows, times)
            self.granule = wanted

    def overlaps(self, place: Array, nbytes: int, columns: Array, active: Array | None, oldest: int) -> Overlaps | None:
        """Where accesses to ``nbytes`` at ``place`` in ``columns`` (broadcast) meet copies with epoch ``oldest`` or
        newer."""
        first, count = place // self.granule, max(nbytes // self.granule, 1)
        last = len(self.rows) - 1
        low = min(max(int(np.minimum.reduce(first, axis=None)), 0), last)
        high = min(max(int(np.maximum.reduce(first, axis=None)) + count - 1, 0), last)
        if np.maximum.reduce(self.rows[low : high + 1]) < oldest:
            return None
        if (
            count <= 8
            and high - low > count
            and not any(
                np.maximum.reduce(self.rows.take(first + k, mode="clip"), axis=None) >= oldest for k in range(count)
            )
        ):
            return None
        rows = np.maximum(np.minimum(first[..., None] + np.arange(count), last), 0)
        numbers = self.cells[rows, columns[..., None]]
        found = numbers >= oldest
        if active is not None:
            found = found & active[..., None]
        index = found.reshape(-1).nonzero()[0]
        if not len(index):
            return None
        rows, wide, numbers = [spread(x, found.shape) for x in (rows, columns[..., None], numbers)]
        return (
            index // count,
            rows.reshape(-1)[index] * self.granule,
            wide.reshape(-1)[index].astype(np.int64),
            numbers.reshape(-1)[index],
        )
