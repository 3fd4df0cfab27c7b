"""The last accesses of every granule of a memory: a weak and a strong writer, and two readers.

A cell is ``time << 32 | thread``, 0 where nobody has been. Granules are as large as the smallest access so far, so that
neighbouring bytes of different threads never meet.
"""

from __future__ import annotations

import copy

import numpy as np

from warpsim.machine.state.word_space import WIDEST
from warpsim.machine.values import Array

SHIFT = 32
THREAD = (1 << SHIFT) - 1
LARGEST = 16


class Cells:
    """Cells of ``size`` bytes in ``width`` columns (``[granules * width]``, columns innermost).

    ``narrow`` says that there were strong writes of less than gpu scope."""

    def __init__(self, size: int, width: int) -> None:
        self.size = max(size, WIDEST)
        self.width = width
        self.granule = LARGEST
        self.narrow = False
        self.kinds: dict[str, Array] = {}
        self._owned: set[str] = set()

    CACHES = frozenset({"_owned"})

    def __deepcopy__(self, memo: object) -> Cells:
        """Both share the cells of each kind, until one of them asks for those to write to."""
        twin = copy.copy(self)
        twin.kinds, twin._owned = dict(self.kinds), set()
        self._owned.clear()
        return twin

    def fit(self, nbytes: int) -> None:
        """Granules of at most ``nbytes``."""
        wanted = nbytes & -nbytes
        if wanted < self.granule:
            times = self.granule // wanted
            for name, cells in self.kinds.items():
                rows = cells.reshape(-1, self.width)
                used = np.flatnonzero(rows.any(axis=1))  # most of a large memory nobody has touched
                finer = np.zeros((len(rows), times, self.width), cells.dtype)
                finer[used] = rows[used, None]
                self._have(name, finer.reshape(-1))
            self.granule = wanted

    def of(self, kind: str) -> Array:
        """The cells to write to: of ``write``, ``strong`` (atomics and other strong writes), ``read``, ``other`` (a second reader),
        ``remote`` (the last access of another CTA) or ``lead`` and ``past`` (see `RaceFlags`)."""
        found = self.kinds.get(kind)
        if found is None:
            rows = -(-self.size // LARGEST) * (LARGEST // self.granule)
            return self._have(kind, np.zeros(rows * self.width, np.int64))
        return found if kind in self._owned else self._have(kind, found.copy())

    def _have(self, kind: str, cells: Array) -> Array:
        self.kinds[kind] = cells
        self._owned.add(kind)
        return cells

    def widen(self, width: int) -> None:
        """Columns of their own for CTAs that so far shared one: thread ``t`` becomes ``t * width + column``."""
        for name, cells in self.kinds.items():
            used = np.flatnonzero(cells)
            kept = cells[used, None]
            if name != "past":
                wide = (kept >> SHIFT << SHIFT | (kept & THREAD) * width) + np.arange(width)
                kept = np.where(kept <= 0, kept, wide)
            new = np.zeros((len(cells), width), cells.dtype)
            new[used] = kept
            self._have(name, new.reshape(-1))
        self.width = width
