"""Records which blocks of shared memory are read and written when."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.values import Array
from warpsim.trace.rows import Rows

HEIGHT = 256
"""Most blocks in the picture."""
NEAR = 4
"""Accesses of the same place within this many steps share a mark."""
MOST = 300_000


class Touches:
    """Marks ``(first step, last step, position of the CTA, first block, last block, kind)``; kinds are 0 for reads, 1
    for writes, 2 for tiles that wgmma reads.
    """

    def __init__(self, size: int, rows: Rows) -> None:
        self.size = size
        self.rows = rows
        self.block = 16
        while self.block * HEIGHT < size:
            self.block *= 2
        self.marks: list[list[int]] = []
        self._last: dict[tuple[int, int, int, int], list[int]] = {}

    def touch(self, machine: Machine, kind: int, place: Any, columns: Any, active: Any, shape: Any, now: int) -> None:
        """Mark accesses of up to 16 bytes at each ``place``; ``place``, ``columns`` and ``active`` broadcast to
        ``shape``.
        """
        index, at, owners = self.rows.index(machine), np.asarray(place, np.int64), np.asarray(columns)
        alike = at.size == 1 or (at.ndim == 4 and at.shape[2:] == (1, 1))  # the same in all CTAs
        if active is None and alike and owners.ndim == 4 and owners.shape[:2] == (1, 1):
            blocks = np.unique(at.reshape(-1) // self.block)
            ctas = np.unique(index[owners.reshape(-1)])
            keys = (ctas[ctas >= 0][:, None] << 32 | blocks[None]).reshape(-1)
        else:
            here = index[np.broadcast_to(owners, shape)]
            mask = here >= 0 if active is None else (here >= 0) & np.broadcast_to(active, shape)
            keys = np.unique(here[mask] << 32 | np.broadcast_to(at, shape)[mask] // self.block)
        self.add(kind, keys, now)

    def add(self, kind: int, keys: Array, now: int) -> None:
        """Mark blocks; the upper half of each key is the CTA's position."""
        if not len(keys):
            return
        runs = np.split(keys, np.flatnonzero(np.diff(keys) != 1) + 1)
        for run in runs:
            cta, first, last = int(run[0] >> 32), int(run[0] & 0xFFFFFFFF), int(run[-1] & 0xFFFFFFFF)
            key = cta, first, last, kind
            known = self._last.get(key)
            if known is not None and now - known[1] <= NEAR:
                known[1] = now
            elif len(self.marks) < MOST:
                self._last[key] = mark = [now, now, cta, first, last, kind]
                self.marks.append(mark)
