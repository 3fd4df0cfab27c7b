"""The happens-before relation: clocks of a batch's threads.

Time is the step number, which increases with every step of a launch. Steps run one after another, so an access by
thread t at time s happens before what thread u does now exactly if both have synchronised after s. Synchronisation of a
whole CTA or warp is one number per thread, the time of the last barrier. `LaneClocks` has what instructions for some lanes
of a warp order, `ClusterPhases` what cluster barriers do.
All other synchronisation (mbarriers, barriers of some warps, flags with fences) passes on *vector clocks*: per CTA, a row with
the time, for each of its threads, before which its accesses are known. Rows are immutable and shared between threads.

While every CTA of the batch does the same, clocks have a single column for all. Behind the rows of
the threads of a CTA come those of its asynchronous operations (`AsyncClocks`).
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet

import numpy as np

from warpsim.checks.race.vector_clocks import (
    ALL,
    SLOTS,
    Acquired,
    AsyncClocks,
    ClusterPhases,
    LaneClocks,
    Numbering,
    Past,
    Rows,
    by_column,
    join,
)
from warpsim.machine.selection import Shape
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct

LEVELS = {"gpu": ("cta", "gpu"), "sc": ("cta", "gpu", "sc")}
"""The scopes of fences that a fence is."""
BOTH = frozenset({"acquire", "release"})
"""What a fence is, if it does not say that it is only half of it."""
NEVER = np.iinfo(np.int64).max
"""The time at which threads leave that have not exited."""


class Order:
    """The clocks of a batch whose threads are numbered ``base + position`` in the launch.

    ``variables`` holds what was released through each sync variable, ``clusters`` the cluster of each CTA, ``numbers``
    the thread numbers of the launch; all three are shared by the batches of a launch.
    """

    def __init__(
        self, shape: Shape, base: int, variables: dict[Hashable, Rows], clusters: Array, numbers: Numbering
    ) -> None:
        self.shape, self.rows, self.base, self.numbers = shape, numbers.rows(shape), base, numbers
        self.acquired = Acquired(shape, self.rows, base, numbers)
        self.asynchronous: AsyncClocks | None = None
        self.variables = variables
        self.uniform = True
        self.width = 1
        self.cta_time = np.ones((self.rows, 1), np.int64)
        self.warp_time = np.zeros((self.rows, 1), np.int64)
        self.given: Array | None = None
        """The time before which each thread has released what it did through a sync variable or at a cluster barrier."""
        self.left: Array | None = None
        """Of threads that have exited, the time before which they have released what they did; of others, no limit."""
        self.lane_clocks: LaneClocks | None = None
        self.phases: ClusterPhases | None = None
        self.fences: dict[str, Array] = {}
        """Of each thread's last fence, by scope: its time, and those of the barriers of the CTA and the warp before it."""
        self.floor = 1
        self.clusters = clusters

    # ---- storage -----------------------------------------------------------------------------

    def widen(self) -> None:
        """Give each CTA its own clocks."""
        if not self.uniform:
            return
        self.uniform, self.width = False, self.shape.n_ctas
        self.cta_time, self.warp_time = (np.repeat(a, self.width, axis=1) for a in (self.cta_time, self.warp_time))
        for clocks in (self.lane_clocks, self.asynchronous):
            if clocks is not None:
                clocks.widen(self.width)
        if self.given is not None:
            self.given = np.repeat(self.given, self.width, axis=1)
        if self.left is not None:
            self.left = np.repeat(self.left, self.width, axis=1)
        self.fences = {scope: np.repeat(a, self.width, axis=-1) for scope, a in self.fences.items()}
        if self.phases is not None:
            self.phases.widen(self.clusters)

    def _index(self, positions: Array) -> Array:
        return positions // self.shape.n_ctas if self.uniform else positions

    def _of(self, array: Array, positions: Array) -> Array:
        return array.reshape(-1)[self._index(positions)]

    def _settle(self) -> None:
        self.floor = int(self.cta_time[: self.shape.n_threads].min())
        known = None if self.asynchronous is None else self.asynchronous.floor()
        if known is not None:
            self.floor = min(self.floor, known)
        if self.left is not None:
            self.floor = min(self.floor, int(self.left.min()))

    # ---- synchronisation ---------------------------------------------------------------------

    def cta_barrier(self, positions: Array | None, now: int) -> None:
        """Note that these threads (None: all) passed a barrier of their whole CTAs."""
        if positions is None:
            self.cta_time[...] = now
        else:
            self.cta_time.reshape(-1)[self._index(positions)] = now
        if self.asynchronous is not None:
            every = np.arange(self.width)
            self.asynchronous.barrier(every if positions is None else distinct(self._index(positions) % self.width))
        if self.acquired.known is not None or self.acquired.seen is not None:
            self.acquired.share(np.arange(self.shape.n) if positions is None else positions, self.asynchronous)
        self._settle()

    def leave(self, positions: Array) -> None:
        """Note that these threads have exited: what others do later does not order what they did after they last met others or
        released something."""
        if self.left is None:
            self.left = np.full_like(self.cta_time, NEVER)
        index = self._index(positions)
        released = np.maximum(self.cta_time.reshape(-1)[index], self.warp_time.reshape(-1)[index])
        if self.lane_clocks is not None:
            released = np.maximum(released, self.lane_clocks.times[index].max(axis=1))
        if self.given is not None:
            released = np.maximum(released, self.given.reshape(-1)[index])
        self.left.reshape(-1)[index] = released

    def _give(self, positions: Array, times: Array) -> None:
        """Note that these threads release what they did before these times."""
        if self.given is None:
            self.given = np.zeros((self.rows, self.width), np.int64)
        np.maximum.at(self.given.reshape(-1), self._index(positions), times)

    def warp_sync(self, positions: Array, masks: Array | None, now: int) -> None:
        """Note that these threads synchronised in their warps, or with the lanes of ``masks`` (uint32)."""
        if masks is not None:  # under a guard, other lanes are here too
            masks = np.broadcast_to(masks, positions.shape)
            inside = masks >> (positions // self.shape.n_ctas & 31).astype(masks.dtype) & 1 != 0
            positions, masks = positions[inside], masks[inside]
        self.acquired.share_in_warps(positions, masks)
        index = self._index(positions)
        if masks is None:
            self.warp_time.reshape(-1)[index] = now
            return
        if self.lane_clocks is None:
            self.lane_clocks = LaneClocks(self.shape.n_threads, self.width)
        self.lane_clocks.meet(index, masks, now)

    def wgmma_reads(self) -> AsyncClocks:
        """The clocks of readers, from the first wgmma on."""
        clocks = self._begun()
        clocks.last[: clocks.groups] = NEVER
        return clocks

    def _begun(self) -> AsyncClocks:
        if self.asynchronous is None:
            self.asynchronous = AsyncClocks(self.shape.n_threads, self.width, self.rows)
        return self.asynchronous

    def copies_of(self, positions: Array, slots: Array, now: int) -> Array:
        """Places of copies that threads start now and that count at mbarriers in ``slots``: behind the threads, as such of another
        thread, because what a copy does happens before only what acquires its completion."""
        clocks, n_ctas = self._begun(), self.shape.n_ctas
        rows, columns = clocks.groups + slots, positions % n_ctas
        clocks.last[rows, columns] = now
        return (self.shape.n_threads + rows) * n_ctas + columns

    def publish_copies(self, key: Hashable, places: Array, times: Array) -> None:
        """Release copies at these places before ``times`` through a sync variable."""
        rows, n_ctas = self.variables.setdefault(key, {}), self.shape.n_ctas
        latest = dict(by_column(times, places % n_ctas))
        for column, mine in by_column(places, places % n_ctas):
            row = np.zeros(self.rows, np.int64)
            np.maximum.at(row, mine // n_ctas, latest[column])
            join(rows, {self.base + column: row})

    def wgmma_wait(self, positions: Array, now: int) -> None:
        """Note that these threads waited for the wgmma of their warpgroups."""
        self.wgmma_reads().wait(self._index(positions), now)

    def cluster_arrive(self, positions: Array, phases: Array, now: int, *, release: bool) -> None:
        """Note that threads arrive at the barriers of their clusters, for these phases."""
        if self.phases is None:
            self.phases = ClusterPhases(self.shape.n_threads, self.rows, self.clusters[: self.width])
        index, clocks = self._index(positions), self.phases
        everything = self._clocks(index, now) if release else self._at_fence(index, "gpu")
        clocks.relaxed |= not release
        self._give(positions, everything[0])
        clocks.arrive(index, phases, (everything, np.maximum(everything, self._at_fence(index, "inits"))))
        before = everything[0]
        if self.lane_clocks is not None:
            which, threads, times = self.lane_clocks.known(index)
            clocks.release_others(index[which], threads, np.where(times < before[which], times, 0))
        if self.asynchronous is not None:
            readers, times = self.asynchronous.own(index)
            clocks.release_others(index, readers, np.where(times < before, times, 0))
            for reader, times in enumerate(self.asynchronous.met[:, index % self.width], self.shape.n_threads):
                if times.any():
                    clocks.release_others(index, np.full_like(index, reader), np.where(times < before, times, 0))
        if self.acquired.known is not None and self.acquired.known.reshape(-1)[positions].any():
            released = positions[before > 0]
            for key, mine in self._meetings(positions):
                self.variables.pop((*key[:-1], key[-1] - SLOTS), None)
                rows = self.variables.setdefault(key, {})
                for number in distinct(self.acquired.known.reshape(-1)[np.intersect1d(mine, released)]).tolist():
                    join(rows, self.acquired.table[number])

    def cluster_wait(self, positions: Array) -> None:
        """Note that threads have waited at the barriers of their clusters."""
        assert self.phases is not None
        self.phases.wait(self._index(positions))
        if self.acquired.known is not None:
            for key, mine in self._meetings(positions):
                if key in self.variables:
                    self.acquire(self.variables[key], mine)

    def _meetings(self, positions: Array) -> list[tuple[tuple[int, str, int, int], Array]]:
        """The sync variables by which threads of whole clusters tell each other what they know, by phase."""
        assert self.phases is not None
        clusters, phases = self.clusters[positions % self.shape.n_ctas], self.phases.entered.reshape(-1)[positions]
        return [
            ((self.base, "cluster", cluster, phase), mine)
            for cluster, some in by_column(positions, clusters)
            for phase, mine in by_column(some, phases[np.isin(positions, some)])
        ]

    def fence(self, positions: Array, scope: str, now: int, halves: AbstractSet[str] = BOTH) -> None:
        """Note a fence of scope "cta" or "gpu" ("sc": a fence.sc of that): later strong writes may release earlier accesses,
        and earlier strong reads acquire, or one of these ``halves``; or one for mbarriers that these threads have
        initialised ("inits")."""
        index = self._index(positions)
        for level in () if "release" not in halves else LEVELS.get(scope, (scope,)):
            if level not in self.fences:
                self.fences[level] = np.zeros((3, self.rows, self.width), np.int64)
            self.fences[level].reshape(3, -1)[:, index] = self._clocks(index, now)
        if scope != "inits" and "acquire" in halves:
            self.acquired.take_pending(positions, scope)

    def observe(self, rows: Rows, positions: Array) -> None:
        """Note that threads have read a flag that was set behind fence.sc, which cover ``rows``. A fence.sc of who meets them comes after
        those: in the other order, the read would see what it precedes (memory consistency model, Fence-SC, causality)."""
        self.widen()
        self.acquired.join("seen", rows, positions)

    def _clocks(self, index: Array, now: int) -> Array:
        """The time, and those of the last barriers of the CTA and the warp of threads (flat indices)."""
        return np.stack([np.full(len(index), now), self.cta_time.reshape(-1)[index], self.warp_time.reshape(-1)[index]])

    def _at_fence(self, index: Array, scope: str) -> Array:
        """`_clocks` at each thread's last fence of at least this scope, 0 if there was none."""
        times = self.fences.get(scope)
        return np.zeros((3, len(index)), np.int64) if times is None else times.reshape(3, -1)[:, index]

    def fenced(self, positions: Array, scope: str) -> Array:
        """The time of each thread's last fence of at least this scope, 0 if there was none."""
        times = self.fences.get(scope)
        return np.zeros(positions.shape, np.int64) if times is None else self._of(times[0], positions)

    # ---- release and acquire -----------------------------------------------------------------

    def _fences_before(self, positions: Array, own: Array) -> Array | None:
        """The fences at the times ``own`` of these threads, if any has met others at a barrier since; as `_clocks`."""
        if all((self._of(times, positions) <= own).all() for times in (self.cta_time, self.warp_time)):
            return None
        return next((self.fences[s] for s in ("sc", "gpu", "cta") if (self.fenced(positions, s) == own).any()), None)

    def past_of(self, positions: Array, own: Array | None = None) -> Past | None:
        """What these threads know (before fences at ``own``), if it is the same for all and consists of barriers only."""
        waited = None if self.phases is None else self.phases.waited
        if self.asynchronous is not None:
            return None
        if any(times is not None and self._of(times, positions).any() for times in (self.acquired.known, waited)):
            return None
        if own is not None and self._fences_before(positions, own) is not None:
            return None
        if self.lane_clocks is not None and self.lane_clocks.any_of(self._index(positions)):
            return None
        cta, warp = (self._of(times, positions) for times in (self.cta_time, self.warp_time))
        if cta.min() != cta.max() or warp.min() != warp.max():
            return None
        return int(cta[0]), int(warp[0])

    def publish(self, key: Hashable, positions: Array, own: Array, past: Past | None = None) -> None:
        """Release threads' own accesses before ``own``, and what they know or, when `past_of` was called, knew, through a sync
        variable."""
        self.widen()
        self._give(positions, own)
        rows = self.variables.setdefault(key, {})
        n_ctas, n_threads = self.shape.n_ctas, self.shape.n_threads
        last = dict(by_column(own, positions % n_ctas))
        for column, mine in by_column(positions, positions % n_ctas):
            times, threads = last[column], mine // n_ctas
            barriers = self._barriers_of(mine, past)
            fences = self._fences_before(mine, times) if past is None else None
            if fences is not None:
                row = np.zeros(self.rows, np.int64)
                row[:n_threads] = released_since(fences[:, :n_threads, column], threads, *barriers)
            else:
                row = np.full(self.rows, barriers[0].max())
                for warp in distinct(threads[barriers[1] > 0] >> 5).tolist():
                    part = row[warp * 32 : warp * 32 + 32]
                    np.maximum(part, barriers[1][threads >> 5 == warp].max(), out=part)
            row[n_threads:] = 0 if self.asynchronous is None or past is not None else self.asynchronous.met[:, column]
            np.maximum.at(row, threads, times)
            if past is None:
                self._add_lanes_and_wgmma(row, mine)
            join(rows, {self.base + column: row})
            for peer, known in self.phases.known(mine) if self.phases is not None and past is None else ():
                join(rows, {self.base + peer: known})
        if past is None and self.acquired.known is not None:
            for number in distinct(self.acquired.known.reshape(-1)[positions]).tolist():
                join(rows, self.acquired.table[number])

    def _barriers_of(self, positions: Array, past: Past | None) -> tuple[Array, Array]:
        """The times of the last barriers of the CTA and the warp of threads, or those of the past."""
        cta, warp = (
            (times.reshape(-1)[positions] for times in (self.cta_time, self.warp_time))
            if past is None
            else (np.full(len(positions), time) for time in past)
        )
        return cta, warp

    def _add_lanes_and_wgmma(self, row: Array, mine: Array) -> None:
        """Add to a row what threads know of lanes of their warps, and of reads by wgmma."""
        if self.lane_clocks is not None:
            _, others, met = self.lane_clocks.known(mine)
            np.maximum.at(row, others, met)
        if self.asynchronous is not None:
            np.maximum.at(row, *self.asynchronous.own(mine))

    def publish_apart(
        self, keys: list[Hashable], starts: Array, positions: Array, own: Array, past: Past | None = None
    ) -> bool:
        """`publish` for many sync variables at once, each by threads of one CTA: those of
        ``positions[starts[k]:]`` release through ``keys[k]``. False if clocks contain more than barriers and warps."""
        self.widen()
        if past is None:
            if self._fences_before(positions, own) is not None:
                return False
            if self.lane_clocks is not None and self.lane_clocks.any_of(positions):
                return False
            if self.phases is not None and self.phases.waited.reshape(-1)[positions].any():
                return False
        self._give(positions, own)
        n_ctas, n_threads = self.shape.n_ctas, self.shape.n_threads
        threads = positions // n_ctas
        group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(positions)]))
        cta_times, warp_times = self._barriers_of(positions, past)
        rows = np.repeat(np.maximum.reduceat(cta_times, starts)[:, None], self.rows, axis=1)
        rows[:, n_threads:] = 0 if self.asynchronous is None else self.asynchronous.met[:, positions[starts] % n_ctas].T
        warps = np.zeros((len(starts), -(-n_threads // 32)), np.int64)
        np.maximum.at(warps, (group, threads >> 5), warp_times)
        known = np.repeat(warps, 32, axis=1)[:, :n_threads]
        np.maximum(rows[:, :n_threads], known, out=rows[:, :n_threads])
        np.maximum.at(rows, (group, threads), own)
        if self.asynchronous is not None and past is None:
            readers, waited = self.asynchronous.own(positions)
            np.maximum.at(rows, (group, readers), waited)
        has_acquired = (
            past is None and self.acquired.known is not None and self.acquired.known.reshape(-1)[positions].any()
        )
        for k, key in enumerate(keys):
            into = self.variables.setdefault(key, {})
            start = int(starts[k])
            join(into, {self.base + int(positions[start]) % n_ctas: rows[k]})
            if has_acquired and self.acquired.known is not None:
                stop = int(starts[k + 1]) if k + 1 < len(starts) else len(positions)
                for number in distinct(self.acquired.known.reshape(-1)[positions[start:stop]]).tolist():
                    join(into, self.acquired.table[number])
        return True

    def acquire(self, rows: Rows, positions: Array) -> None:
        """Acquire the contents of a sync variable."""
        self.widen()
        self.acquired.join("known", rows, positions)

    def expect(self, rows: Rows, positions: Array, *, peers: bool = False) -> None:
        """Acquire the contents of a sync variable with the threads' next fence: of a scope beyond the CTA, unless threads
        of the same CTA have released there, too, and not ``peers`` only."""
        self.widen()
        columns = positions % self.shape.n_ctas
        for column, mine in by_column(positions, columns):
            near = self.base + column in rows and not peers
            self.acquired.join("pending" if near else "pending_far", rows, mine)

    # ---- the question ------------------------------------------------------------------------

    def unordered(
        self, threads: Array, times: Array, positions: Array, kinds: Array | int = ALL, *, stayed: bool = False
    ) -> Array:
        """A mask of the accesses by ``threads`` (numbers in the launch) at ``times`` that do not happen before what the
        thread at each of ``positions`` does now; ``kinds`` as in `ClusterPhases`. ``stayed``: as if those that have
        exited had arrived at the barriers since."""
        n_ctas = self.shape.n_ctas
        theirs = threads - self.base
        inside = (theirs >= 0) & (theirs < self.rows * n_ctas)
        same_cta = inside & (theirs % n_ctas == positions % n_ctas)
        ordered = theirs == positions
        ordered |= same_cta & (theirs < self.shape.n) & (times < self._of(self.cta_time, positions))
        same_warp = same_cta & (theirs < self.shape.n) & (theirs // n_ctas >> 5 == positions // n_ctas >> 5)
        ordered |= same_warp & (times < self._of(self.warp_time, positions))
        if self.lane_clocks is not None:
            ordered |= same_warp & self.lane_clocks.ordered(self._index(positions), theirs // n_ctas & 31, times)
        if self.asynchronous is not None:
            ordered |= same_cta & self.asynchronous.ordered(self._index(positions), theirs // n_ctas, times)
        if self.phases is not None:
            clusters, here = self.clusters, np.where(inside, theirs, 0)
            near = inside & (clusters[here % n_ctas] == clusters[positions % n_ctas])
            ordered |= near & self.phases.ordered(self._index(here), times, self._index(positions), kinds)
        if self.acquired.known is not None and not ordered.all():
            self.acquired.mark(threads, times, positions, ordered)
        if self.left is not None and not stayed:
            released = times < self._of(self.left, np.where(inside, theirs, 0))
            ordered &= released | ~inside | (theirs == positions)
        return ~ordered


def released_since(fences: Array, threads: Array, cta: Array, warp: Array) -> Array:
    """Per thread of a CTA, the time before which ``threads`` release what it did: what they knew at their fences, and what
    the others did before fences of their own and the barrier, which libraries rely on.

    ``fences`` are the times of each thread's last fence, and of the barriers of the CTA and the warp before it; ``cta`` and
    ``warp`` the times of the last barriers of ``threads``.
    """
    at, cta_then, warp_then = fences
    released = np.maximum(np.minimum(at, cta.max()), cta_then[threads].max())
    for number in distinct(threads >> 5).tolist():
        lanes, inside = slice(number * 32, number * 32 + 32), threads >> 5 == number
        known = np.maximum(np.minimum(at[lanes], warp[inside].max()), warp_then[threads[inside]].max())
        released[lanes] = np.maximum(released[lanes], known)
    return np.asarray(released)
