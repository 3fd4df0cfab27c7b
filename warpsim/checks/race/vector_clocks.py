"""Vector clocks: per CTA, the time before which the accesses of each of its threads are known; clocks of lanes, and of reads by wgmma."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import pairwise

import attrs
import numpy as np

from warpsim.machine.selection import Shape
from warpsim.machine.values import Array

Rows = dict[int, Array]
"""CTA -> ``[n_threads]`` times."""
Past = tuple[int, int]
"""Times of the last barriers of the CTA and the warp."""


@attrs.define(eq=False)
class Numbering:
    """Thread (and agent) numbers in a launch: the first of each batch, its CTAs, their number, and the total."""

    bases: list[int] = attrs.field(factory=list)
    batches: list[tuple[Array, int, int]] = attrs.field(factory=list)

    def enter(self, ctas: Array, shape: Shape) -> int:
        """The number of a new batch's first thread."""
        base = self.bases[-1] + self.batches[-1][2] if self.bases else 0
        self.bases.append(base)
        self.batches.append((ctas, shape.n_ctas, rows_of(shape) * shape.n_ctas))
        return base

    def owner(self, number: int) -> tuple[int, int]:
        """The width and the first thread of the batch of a thread or CTA."""
        at = bisect.bisect(self.bases, number) - 1
        return self.batches[at][1], self.bases[at]

    def owners(self, threads: Array) -> Array:
        """The batch of each thread."""
        return np.searchsorted(np.array(self.bases), threads, "right") - 1


def by_column(values: Array, columns: Array) -> Iterator[tuple[int, Array]]:
    """The values of each column."""
    if not len(values):
        return
    order = np.argsort(columns, kind="stable")
    values, columns = values[order], columns[order]
    changes = np.flatnonzero(columns[1:] != columns[:-1]) + 1
    for low, high in pairwise((0, *changes.tolist(), len(values))):
        yield int(columns[low]), values[low:high]


def rows_of(shape: Shape) -> int:
    """Number of threads and agents of a CTA."""
    return shape.n_threads + -(-shape.n_threads // 128)


def join(into: Rows, rows: Rows) -> None:
    """Take the later of each time."""
    for cta, row in rows.items():
        old = into.get(cta)
        into[cta] = row if old is None else np.maximum(old, row)


def grouped(keys: Array) -> tuple[Array, Array]:
    """The distinct keys and the index of each, without sorting if they are close together."""
    low = int(keys.min())
    size = int(keys.max()) - low + 1
    if size > 4 * len(keys):
        distinct, group = np.unique(keys, return_inverse=True)
        return distinct, group.reshape(-1)
    places: Array = np.zeros(size, np.int64)
    places[keys - low] = 1
    distinct = np.flatnonzero(places)
    places[distinct] = np.arange(len(distinct))
    return distinct + low, places[keys - low]


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


THREADS = 128


class WgmmaReads:
    """The times before which threads know what the agents of their CTA have read: those of their own warpgroup since they
    last waited, of all since the last barrier of the CTA.
    """

    def __init__(self, n_threads: int, width: int) -> None:
        self.n_threads = n_threads
        self.waited: Array = np.zeros((n_threads, width), np.int64)
        self.met: Array = np.zeros((-(-n_threads // THREADS), width), np.int64)

    def widen(self, width: int) -> None:
        """Give each CTA its own times."""
        self.waited, self.met = (np.repeat(times, width, axis=1) for times in (self.waited, self.met))

    def wait(self, index: Array, now: int) -> None:
        """Note that threads (flat indices) have waited for the wgmma of their warpgroups."""
        self.waited.reshape(-1)[index] = now

    def barrier(self, columns: Array) -> None:
        """Note that all threads of CTAs have met."""
        latest = np.maximum.reduceat(self.waited[:, columns], np.arange(0, self.n_threads, THREADS), axis=0)
        self.met[:, columns] = np.maximum(self.met[:, columns], latest)

    def learn(self, column: int, row: Array) -> None:
        """Note what all threads of a CTA have learnt from others: a row of times."""
        self.met[:, column] = np.maximum(self.met[:, column], row[self.n_threads :])

    def own(self, index: Array) -> tuple[Array, Array]:
        """The agent of each thread's warpgroup, as a place behind the threads, and the time when the thread waited."""
        agents = self.n_threads + index // self.waited.shape[1] // THREADS
        return agents, self.waited.reshape(-1)[index]

    def ordered(self, index: Array, agents: Array, times: Array) -> Array:
        """A mask of the reads by agents (places behind the threads; others are none) that the threads at ``index`` know."""
        width = self.waited.shape[1]
        threads, columns = index // width, index % width
        which = agents - self.n_threads
        own = np.where(threads // THREADS == which, self.waited[threads, columns], 0)
        found: Array = times < np.maximum(own, self.met[np.maximum(which, 0), columns])
        return found & (which >= 0)
