"""What instructions for some lanes of a warp order: when each lane has last met each other one, itself or through others."""

from __future__ import annotations

import numpy as np

from warpsim.machine.values import Array

LANES = 32


class LanesMet:
    """The times ``[thread, column, lane]`` before which a thread knows the accesses of each lane of its warp."""

    def __init__(self, threads: int, width: int) -> None:
        self.width = width
        self.times = np.zeros((threads * width, LANES), np.int64)

    def widen(self, width: int) -> None:
        """Give each CTA its own times."""
        self.times, self.width = np.repeat(self.times, width, axis=0), width

    def meet(self, index: Array, masks: Array, now: int) -> None:
        """Note that threads (flat indices), all of a mask together, have met the lanes of their ``masks``."""
        if not len(index):
            return
        masks = masks.astype(np.int64)
        warps = (index // self.width // LANES) * self.width + index % self.width
        keys = warps << LANES | masks
        order = np.argsort(keys, kind="stable")
        index, masks, keys = index[order], masks[order], keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        named = masks[starts, None] >> np.arange(LANES) & 1 != 0
        known = np.where(named, now, np.maximum.reduceat(self.times[index], starts, axis=0))
        self.times[index] = np.repeat(known, np.diff(np.r_[starts, len(index)]), axis=0)

    def any_of(self, index: Array) -> bool:
        """Whether any of these threads has met others so."""
        return bool(self.times[index].any())

    def ordered(self, index: Array, lanes: Array, times: Array) -> Array:
        """A mask of the accesses by ``lanes`` of the same warps at ``times`` that the threads at ``index`` know."""
        found: Array = times < self.times[index, lanes]
        return found

    def known(self, index: Array) -> tuple[Array, Array, Array]:
        """What these threads know: which of them, of which thread of its CTA, and the time."""
        which, lane = np.nonzero(self.times[index])
        threads = index[which] // self.width // LANES * LANES + lane
        there = threads < len(self.times) // self.width
        which, lane = which[there], lane[there]
        return which, threads[there], self.times[index[which], lane]
