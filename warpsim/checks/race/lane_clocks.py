"""What instructions for some lanes of a warp order: when each lane has last met each other one, itself or through others."""

from __future__ import annotations

import numpy as np

from warpsim.machine.values import Array

LANES = 32


class LaneClocks:
    """The times ``[thread, column, lane]`` before which a thread knows the accesses of each lane of its warp."""

    def __init__(self, threads: int, width: int) -> None:
        self.width = width
        self.times = np.zeros((threads * width, LANES), np.int64)

    def widen(self, width: int) -> None:
        """Give each CTA its own times."""
        self.times, self.width = np.repeat(self.times, width, axis=0), width

    def meet(self, index: Array, masks: Array, now: int) -> None:
        """Note that threads (flat indices) have met the lanes of their ``masks``, wherever those execute it."""
        warps, columns = index // self.width // LANES, index % self.width
        keys, group = np.unique((warps * self.width + columns) << LANES | masks.astype(np.int64), return_inverse=True)
        named = keys[:, None] >> np.arange(LANES) & 1 != 0
        warps, columns = np.divmod(keys >> LANES, self.width)
        lanes = (warps[:, None] * LANES + np.arange(LANES)) * self.width + columns[:, None]
        rows = self.times.take(lanes, axis=0, mode="clip")
        known = np.where(named, now, np.where(named[..., None], rows, 0).max(axis=1))
        self.times[index] = known[group.reshape(-1)]

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
