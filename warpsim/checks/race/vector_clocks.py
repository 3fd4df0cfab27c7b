"""Vector clocks: per CTA, the time before which the accesses of each of its threads are known; clocks of lanes, of reads by
wgmma and of copies, and of cluster barriers; and what threads have acquired through sync variables."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import pairwise

import attrs
import numpy as np

from warpsim.machine.selection import Shape
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.records import define

Rows = dict[int, Array]
"""CTA -> ``[n_threads]`` times."""
Past = tuple[int, int]
"""Times of the last barriers of the CTA and the warp."""


@define(eq=False)
class Numbering:
    """Thread (and reader) numbers in a launch: the first of each batch, its CTAs, their number, and the total. ``slots``: how
    many mbarriers of a CTA at which copies count are kept apart."""

    slots: int = 0
    bases: list[int] = attrs.field(factory=list)
    batches: list[tuple[Array, int, int]] = attrs.field(factory=list)

    def enter(self, ctas: Array, shape: Shape) -> int:
        """The number of a new batch's first thread."""
        base = self.bases[-1] + self.batches[-1][2] if self.bases else 0
        self.bases.append(base)
        self.batches.append((ctas, shape.n_ctas, self.rows(shape) * shape.n_ctas))
        return base

    def rows(self, shape: Shape) -> int:
        """Number of threads of a CTA, of its warpgroups as readers, and of slots."""
        return shape.n_threads + warpgroups(shape.n_threads) + self.slots

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


def warpgroups(n_threads: int) -> int:
    """Number of warpgroups, the last of which may be part of one."""
    return -(-n_threads // THREADS)


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


class AsyncClocks:
    """The times before which threads know what asynchronous operations of their CTA have done. Those are rows behind its
    threads: its warpgroups as readers through wgmma, known to a warpgroup since it last waited and to all since the last barrier
    of the CTA; and the mbarriers at which copies count, by slot: known to who has acquired a phase, and to all after a barrier."""

    def __init__(self, n_threads: int, width: int, rows: int) -> None:
        self.n_threads, self.groups = n_threads, warpgroups(n_threads)
        self.waited: Array = np.zeros((n_threads, width), np.int64)
        self.met: Array = np.zeros((rows - n_threads, width), np.int64)
        self.last: Array = np.full_like(self.met, -1)
        """The time of the last operation, -1 if there was none."""

    def widen(self, width: int) -> None:
        """Give each CTA its own times."""
        self.waited, self.met, self.last = (
            np.repeat(each, width, axis=1) for each in (self.waited, self.met, self.last)
        )

    def floor(self) -> int | None:
        """The time before which all threads know all operations; None if they know all."""
        left = self.met[self.last >= self.met]
        return int(left.min()) if left.size else None

    def wait(self, index: Array, now: int) -> None:
        """Note that threads (flat indices) have waited for the wgmma of their warpgroups."""
        self.waited.reshape(-1)[index] = now

    def barrier(self, columns: Array) -> None:
        """Note that all threads of CTAs have met."""
        latest = np.maximum.reduceat(self.waited[:, columns], np.arange(0, self.n_threads, THREADS), axis=0)
        self.met[: self.groups, columns] = np.maximum(self.met[: self.groups, columns], latest)

    def acquire(self, column: int, row: Array) -> None:
        """Note what all threads of a CTA have acquired from others: a row of times."""
        self.met[:, column] = np.maximum(self.met[:, column], row[self.n_threads :])

    def own(self, index: Array) -> tuple[Array, Array]:
        """The reader of each thread's warpgroup, as a place behind the threads, and the time when the thread waited."""
        readers = self.n_threads + index // self.waited.shape[1] // THREADS
        return readers, self.waited.reshape(-1)[index]

    def ordered(self, index: Array, readers: Array, times: Array) -> Array:
        """A mask of the reads by readers (places behind the threads; others are none) that the threads at ``index`` know."""
        width = self.waited.shape[1]
        threads, columns = index // width, index % width
        which = readers - self.n_threads
        own = np.where(threads // THREADS == which, self.waited[threads, columns], 0)
        found: Array = times < np.maximum(own, self.met[np.maximum(which, 0), columns])
        return found & (which >= 0)


SLOTS = 3
"""Phases kept: while a thread has arrived and not waited yet, it knows one phase, and others may be two ahead."""
ALL, INITS = 0, 1
"""What is released: all accesses, or the mbarriers that fence.mbarrier_init has covered."""


class ClusterPhases:
    """The clocks ``[thread, column]`` of a batch's cluster barriers; ``clusters`` is the cluster of each column. Phases
    count from 1; a thread that has waited for none is at 0."""

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
        before which its own accesses are, and those of the barriers of its CTA and its warp that it knows of."""
        threads, columns = np.divmod(index, len(self.begun))
        self.entered.reshape(-1)[index] = phases
        for phase, some in by_column(np.arange(len(index)), phases):
            here, there = threads[some], columns[some]
            fresh = distinct(there[self.begun[there] < phase])
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
                all_threads = into[: self.n_threads]
                np.maximum(all_threads, np.repeat(latest, 32, axis=0)[: self.n_threads], out=all_threads)

    def release_others(self, index: Array, others: Array, times: Array) -> None:
        """Release what threads that have just arrived know of others (threads or readers) of their CTAs."""
        phases = self.entered.reshape(-1)[index]
        np.maximum.at(
            self.released, (np.array([[ALL], [INITS]]), phases % SLOTS, others, index % len(self.begun)), times
        )

    def wait(self, index: Array) -> None:
        """Note that threads have waited for the phases that they entered."""
        self.waited.reshape(-1)[index] = self.entered.reshape(-1)[index]

    def ordered(self, theirs: Array, times: Array, index: Array, kinds: Array | int) -> Array:
        """A mask of the accesses by threads of the same clusters at ``times`` that happen before what the threads at
        ``index`` do now."""
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


MOST = 4096
"""Size of the table above which unused entries are collected."""


class Acquired:
    """What each thread of a batch has acquired, and what it will have acquired with its next fence."""

    def __init__(self, shape: Shape, rows: int, base: int, numbers: Numbering) -> None:
        self.shape, self.rows, self.base, self.numbers = shape, rows, base, numbers
        self.known: Array | None = None
        self.pending: Array | None = None
        """What the next fence of any scope will have acquired."""
        self.pending_far: Array | None = None
        """What only a fence of a scope beyond the CTA will: no thread of the same CTA has released it."""
        self.seen: Array | None = None
        """What the next fence.sc will: what those precede that are before flags which this thread has read, or others that it has met."""
        self.table: list[Rows] = [{}]

    def take_pending(self, positions: Array, scope: str) -> None:
        """Acquire what these threads have read from flags, by a fence of this scope ("sc": a fence.sc)."""
        far = () if scope == "cta" else (self.pending_far,) if scope == "gpu" else (self.pending_far, self.seen)
        for pending in (self.pending, *far):
            if pending is None:
                continue
            flat = pending.reshape(-1)
            held = flat[positions]
            flat[positions] = 0
            taken = [(self.table[number], positions[held == number]) for number in distinct(held).tolist() if number]
            for rows, mine in taken:  # numbers may change as threads acquire
                self.join("known", rows, mine)

    def join(self, kind: str, rows: Rows, positions: Array) -> None:
        """Join the clocks of a sync variable into those of threads: ``kind`` is "known", "pending", "pending_far" or "seen"."""
        if getattr(self, kind) is None:
            setattr(self, kind, np.zeros((self.rows, self.shape.n_ctas), np.int64))
        flat = getattr(self, kind).reshape(-1)
        held = flat[positions]
        same = len(held) and (held == held[0]).all()
        for number in held[:1].tolist() if same else distinct(held).tolist():
            old = self.table[number]
            if all(cta in old and (old[cta] >= row).all() for cta, row in rows.items()):
                continue
            mine = positions if same else positions[held == number]
            new = dict(old)
            join(new, rows)
            flat[mine] = len(self.table)
            self.table.append(new)
        if len(self.table) > MOST:
            self._collect()

    def share(self, positions: Array, clocks: AsyncClocks | None) -> None:
        """Share what one thread of a CTA knows about other CTAs, or has seen, with all, after a barrier."""
        for each in (self.known, self.seen):
            if each is not None:
                self._share(each, positions, clocks if each is self.known else None)

    def _share(self, rows_of_threads: Array, positions: Array, clocks: AsyncClocks | None) -> None:
        n_ctas = self.shape.n_ctas
        for column in distinct(positions % n_ctas).tolist():
            numbers = distinct(rows_of_threads[: self.shape.n_threads, column])
            if len(numbers) == 1 and self.base + column not in self.table[numbers[0]]:
                continue
            rows: Rows = {}
            for number in numbers.tolist():
                join(rows, self.table[number])
            own = rows.pop(self.base + column, None)
            if own is not None and clocks is not None:  # all else of the CTA is over
                clocks.acquire(column, own)
            rows_of_threads.reshape(-1)[positions[positions % n_ctas == column]] = self._number(rows)
        if len(self.table) > MOST:
            self._collect()

    def share_in_warps(self, positions: Array, masks: Array | None) -> None:
        """Share what one of the synchronising lanes knows about other CTAs, or has seen, with all of them."""
        for each in (self.known, self.seen):
            if each is not None and len(distinct(each.reshape(-1)[positions])) > 1:
                self._share_in_warps(each.reshape(-1), positions, masks)

    def _share_in_warps(self, known: Array, positions: Array, masks: Array | None) -> None:
        n_ctas = self.shape.n_ctas
        warps = (positions // n_ctas >> 5) * n_ctas + positions % n_ctas
        if masks is not None:  # lanes with the same mask synchronise
            warps = warps << 32 | masks.astype(np.int64)
        for _, mine in by_column(positions, warps):
            numbers = distinct(known[mine])
            if len(numbers) > 1:
                rows: Rows = {}
                for number in numbers.tolist():
                    join(rows, self.table[number])
                known[mine] = self._number(rows)
        if len(self.table) > MOST:
            self._collect()

    def _collect(self) -> None:
        """Collect unused entries of the table."""
        arrays = [a for a in (self.known, self.pending, self.pending_far, self.seen) if a is not None]
        used = distinct(np.concatenate([a.reshape(-1) for a in arrays]))
        kept = [0, *(k for k in used.tolist() if k)]
        order = np.zeros(len(self.table), np.int64)
        order[kept] = np.arange(len(kept))
        for array in arrays:
            array[...] = order[array]
        self.table = [self.table[k] for k in kept]

    def _number(self, rows: Rows) -> int:
        if not rows:
            return 0
        self.table.append(rows)
        return len(self.table) - 1

    def mark(self, threads: Array, times: Array, positions: Array, ordered: Array) -> None:
        """Mark the accesses that the threads have acquired."""
        assert self.known is not None
        numbers = self.known.reshape(-1)[positions]
        left = np.flatnonzero(~ordered & (numbers > 0))
        at, n_ctas = threads[left] - self.base, self.shape.n_ctas
        inside = (at >= 0) & (at < self.rows * n_ctas)
        if inside.any():
            mine, at = left[inside], at[inside]
            pairs, group = grouped(numbers[mine] * n_ctas + at % n_ctas)
            rows = [self.table[k // n_ctas].get(self.base + k % n_ctas) for k in pairs.tolist()]
            released = np.array([row is not None for row in rows])
            if released.any():
                latest = np.zeros((len(rows), self.rows), np.int64)
                latest[released] = np.stack([row for row in rows if row is not None])
                ordered[mine] |= times[mine] < latest[group, at // n_ctas]
        left = left[~inside]
        for number in distinct(numbers[left]).tolist():
            mine = left[numbers[left] == number]
            for cta, row in self.table[number].items():
                n_ctas, base = self.numbers.owner(cta)
                at = threads[mine] - base
                here = (at >= 0) & (at < len(row) * n_ctas)
                here &= at % n_ctas == cta - base
                chosen = mine[here]
                ordered[chosen] |= times[chosen] < row[at[here] // n_ctas]
