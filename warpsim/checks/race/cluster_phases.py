"""Cluster barriers in the happens-before relation: what threads release when they arrive, phase by phase.

What a thread does between its arrival and its wait belongs to the next phase. So a wait is no point in time: it orders,
of each thread, the accesses before that thread's own arrival. An arrival with .relaxed releases only what a fence has
covered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.checks.race.vector_clocks import by_column
from warpsim.machine.values import Array

SLOTS = 3
"""Phases kept: while a thread has arrived and not waited yet, it knows one phase, and others may be two ahead."""
ALL, INITS = 0, 1
"""What is released: all accesses, or the mbarriers that fence.mbarrier_init has covered."""


class ClusterPhases:
    """The clocks ``[thread, column]`` of a batch's cluster barriers; ``clusters`` is the cluster of each column. Phases
    count from 1; a thread that has waited for none is at 0.
    """

    def __init__(self, n_threads: int, rows: int, clusters: Array) -> None:
        self.n_threads, self.clusters = n_threads, clusters
        width = len(clusters)
        self.released = np.zeros((2, SLOTS, rows, width), np.int64)
        """The time before which each thread's accesses are released, by kind and phase."""
        self.begun = np.zeros(width, np.int64)
        self.entered = np.zeros((rows, width), np.int64)
        self.waited = np.zeros((rows, width), np.int64)
        self.relaxed = False
        """Whether kinds differ."""

    def widen(self, clusters: Array) -> None:
        """Give each CTA its own clocks."""
        self.clusters, width = clusters, len(clusters)
        for name in ("released", "begun", "entered", "waited"):
            setattr(self, name, np.repeat(getattr(self, name), width, axis=-1))

    def peers(self, columns: Array) -> Array:
        """The columns in the clusters of these."""
        return np.flatnonzero(np.isin(self.clusters, self.clusters[columns]))

    def arrive(self, index: Array, phases: Array, released: tuple[Array, Array]) -> None:
        """Note that threads (flat indices) arrive for ``phases``. By kind, three times are ``released`` by each: that
        before which its own accesses are, and those of the barriers of its CTA and its warp that it knows of.
        """
        threads, columns = np.divmod(index, len(self.begun))
        self.entered.reshape(-1)[index] = phases
        for phase, some in by_column(np.arange(len(index)), phases):
            here, there = threads[some], columns[some]
            fresh = np.unique(there[self.begun[there] < phase])
            if len(fresh):
                peers = self.peers(fresh)
                self.begun[peers] = phase
                self.released[:, phase % SLOTS, :, peers] = self.released[:, (phase - 1) % SLOTS, :, peers]
            for kind in (ALL, INITS):
                own, cta, warp = released[kind][:, some]
                into = self.released[kind, phase % SLOTS]
                np.maximum.at(into, (here, there), own)
                all_over: Array = np.zeros(into.shape[1], np.int64)
                np.maximum.at(all_over, there, cta)
                latest = np.tile(all_over, (-(-self.n_threads // 32), 1))
                np.maximum.at(latest, (here >> 5, there), warp)
                threads = into[: self.n_threads]
                np.maximum(threads, np.repeat(latest, 32, axis=0)[: self.n_threads], out=threads)

    def release_others(self, index: Array, others: Array, times: Array) -> None:
        """Release what threads that have just arrived know of others (threads or agents) of their CTAs."""
        phases = self.entered.reshape(-1)[index]
        np.maximum.at(
            self.released, (np.array([[ALL], [INITS]]), phases % SLOTS, others, index % len(self.begun)), times
        )

    def wait(self, index: Array) -> None:
        """Note that threads have waited for the phases that they entered."""
        self.waited.reshape(-1)[index] = self.entered.reshape(-1)[index]

    def ordered(self, theirs: Array, times: Array, index: Array, kinds: Array | int) -> Array:
        """A mask of the accesses by threads of the same clusters at ``times`` that happen before what the threads at
        ``index`` do now.
        """
        phases = self.waited.reshape(-1)[index]
        released = self.released.reshape(2, SLOTS, -1)[kinds, phases % SLOTS, theirs]
        found: Array = (phases > 0) & (times < released)
        return found

    def known(self, index: Array) -> Iterator[tuple[int, Array]]:
        """What threads of one CTA know of each CTA of the cluster: a column, and its row of times."""
        phase = int(self.waited.reshape(-1)[index].max())
        if phase:
            for peer in self.peers(index[:1] % len(self.begun)).tolist():
                yield peer, self.released[ALL, phase % SLOTS, :, peer].copy()
