"""Reads by wgmma: until which time each thread knows those of each warpgroup to be over. A warpgroup's wgmma are one agent.

Barriers of the CTA do not wait for wgmma. They only tell all threads what some of them have waited for before.
"""

from __future__ import annotations

import numpy as np

from warpsim.machine.values import Array

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
