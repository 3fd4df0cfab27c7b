"""The happens-before relation: clocks of a batch's threads.

Time is the step number, which increases with every step of a launch. Steps run one after another, so an access by
thread t at time s happens before what thread u does now exactly if both have synchronised after s. Synchronisation of a
whole CTA, warp or cluster is one number per thread, the time of the last barrier. All other synchronisation (mbarriers,
barriers of some warps, flags with fences) passes on *knowledge*: per CTA, a row with the time, for each of its threads,
before which its accesses are known. Knowledge is immutable and shared between threads.

While every CTA of the batch does the same, clocks have a single column for all. After the threads of a CTA come agents,
one per warpgroup: its wgmma read shared memory in the agent's name, until a thread of the warpgroup has waited.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from warpsim.checks.knowledge import Numbering, Past, Rows, by_column, join, rows_of
from warpsim.machine.selection import Shape
from warpsim.machine.values import Array


class Order:
    """The clocks of a batch whose threads are numbered ``base + position`` in the launch.

    ``variables`` holds what was released through each sync variable, ``clusters`` the cluster of each CTA, ``numbers``
    the thread numbers of the launch; all three are shared by the batches of a launch.
    """

    def __init__(
        self,
        shape: Shape,
        base: int,
        variables: dict[Hashable, Rows],
        clusters: Array,
        numbers: Numbering,
    ) -> None:
        self.shape = shape
        self.base = base
        self.variables = variables
        self.uniform = True
        self.width = 1
        self.rows = rows_of(shape)
        self.cta_time = np.ones((self.rows, 1), np.int64)
        self.warp_time = np.zeros((self.rows, 1), np.int64)
        self.agent_time: Array | None = None
        self.part_time: Array | None = None
        self.part_mask: Array | None = None
        self.cluster_time: Array | None = None
        self.fence_time: dict[str, Array] = {}
        self.known: Array | None = None
        self.table: list[Rows] = [{}]
        self.pending: Array | None = None
        self.floor = 1
        self.clusters = clusters
        self.numbers = numbers

    # ---- storage -----------------------------------------------------------------------------

    def widen(self) -> None:
        """Give each CTA its own clocks."""
        if not self.uniform:
            return
        self.uniform, self.width = False, self.shape.n_ctas
        for name in ("cta_time", "warp_time", "agent_time", "part_time", "part_mask", "cluster_time"):
            array = getattr(self, name)
            if array is not None:
                setattr(self, name, np.repeat(array, self.width, axis=1))
        self.fence_time = {scope: np.repeat(a, self.width, axis=1) for scope, a in self.fence_time.items()}

    def _index(self, positions: Array) -> Array:
        return positions // self.shape.n_ctas if self.uniform else positions

    def _of(self, array: Array, positions: Array) -> Array:
        return array.reshape(-1)[self._index(positions)]

    def _fresh(self) -> Array:
        return np.zeros((self.rows, self.width), np.int64)

    def _settle(self) -> None:
        self.floor = int(self.cta_time.min())

    # ---- synchronisation ---------------------------------------------------------------------

    def cta_barrier(self, positions: Array | None, now: int) -> None:
        """Note that these threads (None: all) passed a barrier of their whole CTAs."""
        if positions is None:
            self.cta_time[...] = now
            self.floor = now
        else:
            self.cta_time.reshape(-1)[self._index(positions)] = now
            self._settle()
        if self.known is not None:
            self._share(np.arange(self.shape.n) if positions is None else positions)

    def _share(self, positions: Array) -> None:
        """Share what one thread of a CTA knows about other CTAs with all, after a barrier."""
        assert self.known is not None
        rows_of_threads, n_ctas = self.known, self.shape.n_ctas
        for column in np.unique(positions % n_ctas).tolist():
            numbers = np.unique(rows_of_threads[:, column])
            if not numbers.any():
                continue
            rows: Rows = {}
            for number in numbers.tolist():
                join(rows, self.table[number])
            rows.pop(self.base + column, None)
            rows_of_threads.reshape(-1)[positions[positions % n_ctas == column]] = self._number(rows)

    def warp_sync(self, positions: Array, masks: Array | None, now: int) -> None:
        """Note that these threads synchronised in their warps, or with the lanes of ``masks`` (uint32)."""
        if masks is not None:  # under a guard, other lanes are here too
            masks = np.broadcast_to(masks, positions.shape)
            inside = masks >> (positions // self.shape.n_ctas & 31).astype(masks.dtype) & 1 != 0
            positions, masks = positions[inside], masks[inside]
        if self.known is not None and len(np.unique(self.known.reshape(-1)[positions])) > 1:
            self._share_in_warps(positions, masks)
        index = self._index(positions)
        if masks is None:
            self.warp_time.reshape(-1)[index] = now
            return
        if self.part_time is None or self.part_mask is None:
            self.part_time, self.part_mask = self._fresh(), self._fresh()
        self.part_time.reshape(-1)[index] = now
        self.part_mask.reshape(-1)[index] |= masks.astype(np.int64)

    def _share_in_warps(self, positions: Array, masks: Array | None) -> None:
        """Share what one of the synchronising lanes knows about other CTAs with all of them."""
        assert self.known is not None
        known, n_ctas = self.known.reshape(-1), self.shape.n_ctas
        warps = (positions // n_ctas >> 5) * n_ctas + positions % n_ctas
        if masks is not None:  # lanes with the same mask synchronise
            warps = warps << 32 | masks.astype(np.int64)
        for _, mine in by_column(positions, warps):
            numbers = np.unique(known[mine])
            if len(numbers) > 1:
                rows: Rows = {}
                for number in numbers.tolist():
                    join(rows, self.table[number])
                known[mine] = self._number(rows)
        if len(self.table) > 4096:
            self._collect()

    def agent_wait(self, positions: Array, now: int) -> None:
        """Note that these threads waited for the wgmma of their warpgroups."""
        if self.agent_time is None:
            self.agent_time = self._fresh()
        self.agent_time.reshape(-1)[self._index(positions)] = now

    def cluster_barrier(self, positions: Array, now: int) -> None:
        """Note that these threads passed a barrier of their whole clusters."""
        if self.cluster_time is None:
            self.cluster_time = self._fresh()
        self.cluster_time.reshape(-1)[self._index(positions)] = now

    def fence(self, positions: Array, scope: str, now: int) -> None:
        """Note a fence: later strong writes may release earlier accesses, and earlier strong reads acquire."""
        for level in ("cta", "gpu") if scope == "gpu" else ("cta",):
            if level not in self.fence_time:
                self.fence_time[level] = self._fresh()
            self.fence_time[level].reshape(-1)[self._index(positions)] = now
        self.take_pending(positions)

    def take_pending(self, positions: Array) -> None:
        """Acquire what these threads have read from flags."""
        if self.pending is None:
            return
        flat = self.pending.reshape(-1)
        for number in np.unique(flat[positions]).tolist():
            if number:
                mine = positions[flat[positions] == number]
                self.acquire(self.table[number], mine)
                self.pending.reshape(-1)[mine] = 0

    def fenced(self, positions: Array, scope: str) -> Array:
        """The time of each thread's last fence of at least this scope, 0 if there was none."""
        times = self.fence_time.get(scope)
        return np.zeros(positions.shape, np.int64) if times is None else self._of(times, positions)

    # ---- knowledge ---------------------------------------------------------------------------

    def past_of(self, positions: Array) -> Past | None:
        """What these threads know, if it is the same for all and consists of barrier times only."""
        for times in (self.part_time, self.agent_time, self.known):
            if times is not None and self._of(times, positions).any():
                return None
        found = []
        for times in (self.cta_time, self.warp_time, self.cluster_time):
            mine = np.zeros(1, np.int64) if times is None else self._of(times, positions)
            if mine.min() != mine.max():
                return None
            found.append(int(mine[0]))
        return found[0], found[1], found[2]

    def publish_past(self, key: Hashable, positions: Array, own: Array, past: Past) -> None:
        """`publish` what threads knew when `past_of` was called."""
        self.widen()
        rows = self.variables.setdefault(key, {})
        n_ctas = self.shape.n_ctas
        last = dict(by_column(own, positions % n_ctas))
        for column, mine in by_column(positions, positions % n_ctas):
            row = np.full(self.rows, past[0])
            threads = mine // n_ctas
            for warp in np.unique(threads >> 5).tolist() if past[1] else ():
                part = row[warp * 32 : warp * 32 + 32]
                np.maximum(part, past[1], out=part)
            np.maximum.at(row, threads, last[column])
            join(rows, {self.base + column: row})
            for peer in self._peers(column) if past[2] else ():
                join(rows, {self.base + peer: np.full(self.rows, past[2])})

    def publish(self, key: Hashable, positions: Array, own: Array) -> None:
        """Release what threads know, and their own accesses before ``own``, through a sync variable."""
        self.widen()
        rows = self.variables.setdefault(key, {})
        n_ctas, n_threads = self.shape.n_ctas, self.shape.n_threads
        last = dict(by_column(own, positions % n_ctas))
        for column, mine in by_column(positions, positions % n_ctas):
            times, threads = last[column], mine // n_ctas
            row = np.full(self.rows, self.cta_time.reshape(-1)[mine].max())
            warp_times = self.warp_time.reshape(-1)[mine]
            for warp in np.unique(threads[warp_times > 0] >> 5).tolist():
                part = row[warp * 32 : warp * 32 + 32]
                np.maximum(part, warp_times[threads >> 5 == warp].max(), out=part)
            if self.part_time is not None and self.part_mask is not None:
                for position in mine[self.part_time.reshape(-1)[mine] > 0].tolist():
                    lanes = self.part_mask.reshape(-1)[position] >> np.arange(32) & 1
                    first = position // n_ctas & ~31
                    part = row[first : first + 32]
                    at = lanes[: len(part)].astype(np.bool_)
                    part[at] = np.maximum(part[at], self.part_time.reshape(-1)[position])
            np.maximum.at(row, threads, times)
            if self.agent_time is not None:
                np.maximum.at(row, n_threads + (threads >> 7), self.agent_time.reshape(-1)[mine])
            join(rows, {self.base + column: row})
            if self.cluster_time is not None:
                latest = int(self.cluster_time.reshape(-1)[mine].max())
                for peer in self._peers(column) if latest else ():
                    join(rows, {self.base + peer: np.full(self.rows, latest)})
        if self.known is not None:
            for number in np.unique(self.known.reshape(-1)[positions]).tolist():
                join(rows, self.table[number])

    def publish_apart(
        self, keys: list[Hashable], starts: Array, positions: Array, own: Any, past: Past | None = None
    ) -> bool:
        """`publish` or `publish_past` for many sync variables at once, each by threads of one CTA: those of
        ``positions[starts[k]:]`` release through ``keys[k]``. False if clocks contain more than barriers and warps.
        """
        self.widen()
        if past is not None:
            if past[2]:
                return False
        elif self.cluster_time is not None or (
            self.part_time is not None and self.part_time.reshape(-1)[positions].any()
        ):
            return False
        n_ctas, n_threads = self.shape.n_ctas, self.shape.n_threads
        threads = positions // n_ctas
        group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(positions)]))
        cta_times, warp_times = (
            (np.full(len(positions), time) for time in past[:2])
            if past is not None
            else (times.reshape(-1)[positions] for times in (self.cta_time, self.warp_time))
        )
        rows = np.repeat(np.maximum.reduceat(cta_times, starts)[:, None], self.rows, axis=1)
        warps = np.zeros((len(starts), -(-n_threads // 32)), np.int64)
        np.maximum.at(warps, (group, threads >> 5), warp_times)
        known = np.repeat(warps, 32, axis=1)[:, :n_threads]
        np.maximum(rows[:, :n_threads], known, out=rows[:, :n_threads])
        np.maximum.at(rows, (group, threads), own)
        if self.agent_time is not None and past is None:
            np.maximum.at(rows, (group, n_threads + (threads >> 7)), self.agent_time.reshape(-1)[positions])
        learnt = past is None and self.known is not None and self.known.reshape(-1)[positions].any()
        for k, key in enumerate(keys):
            into = self.variables.setdefault(key, {})
            start = int(starts[k])
            join(into, {self.base + int(positions[start]) % n_ctas: rows[k]})
            if learnt and self.known is not None:
                stop = int(starts[k + 1]) if k + 1 < len(starts) else len(positions)
                for number in np.unique(self.known.reshape(-1)[positions[start:stop]]).tolist():
                    join(into, self.table[number])
        return True

    def acquire(self, rows: Rows, positions: Array) -> None:
        """Acquire the contents of a sync variable."""
        self.widen()
        if self.known is None:
            self.known = self._fresh()
        self._learn("known", rows, positions)

    def expect(self, rows: Rows, positions: Array) -> None:
        """Acquire the contents of a sync variable with the threads' next fence."""
        self.widen()
        if self.pending is None:
            self.pending = self._fresh()
        self._learn("pending", rows, positions)

    def _learn(self, kind: str, rows: Rows, positions: Array) -> None:
        flat = getattr(self, kind).reshape(-1)
        held = flat[positions]
        same = len(held) and (held == held[0]).all()
        for number in held[:1].tolist() if same else np.unique(held).tolist():
            old = self.table[number]
            if all(cta in old and (old[cta] >= row).all() for cta, row in rows.items()):
                continue
            mine = positions if same else positions[held == number]
            new = dict(old)
            join(new, rows)
            flat[mine] = len(self.table)
            self.table.append(new)
        if len(self.table) > 4096:
            self._collect()

    def _collect(self) -> None:
        """Collect unused entries of the table."""
        arrays = [a for a in (self.known, self.pending) if a is not None]
        used = np.unique(np.concatenate([a.reshape(-1) for a in arrays]))
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

    def _peers(self, column: int) -> Iterable[int]:
        clusters = self.clusters
        found: Iterable[int] = np.flatnonzero(clusters == clusters[column]).tolist()
        return found

    # ---- the question ------------------------------------------------------------------------

    def unordered(self, threads: Array, times: Array, positions: Array) -> Array:
        """A mask of the accesses by ``threads`` (numbers in the launch) at ``times`` that do not happen before what the
        thread at each of ``positions`` does now.
        """
        n_ctas = self.shape.n_ctas
        theirs = threads - self.base
        inside = (theirs >= 0) & (theirs < self.rows * n_ctas)
        same_cta = inside & (theirs % n_ctas == positions % n_ctas)
        ordered = theirs == positions
        ordered |= same_cta & (times < self._of(self.cta_time, positions))
        same_warp = same_cta & (theirs // n_ctas >> 5 == positions // n_ctas >> 5)
        ordered |= same_warp & (times < self._of(self.warp_time, positions))
        if self.part_time is not None and self.part_mask is not None:
            named = self._of(self.part_mask, positions) >> (theirs // n_ctas & 31) & 1
            ordered |= same_warp & (named != 0) & (times < self._of(self.part_time, positions))
        if self.agent_time is not None:
            agent = self.shape.n_threads + (positions // n_ctas >> 7)
            ordered |= same_cta & (theirs // n_ctas == agent) & (times < self._of(self.agent_time, positions))
        if self.cluster_time is not None:
            clusters = self.clusters
            near = inside & (clusters[np.where(inside, theirs % n_ctas, 0)] == clusters[positions % n_ctas])
            ordered |= near & (times < self._of(self.cluster_time, positions))
        if self.known is not None and not ordered.all():
            self._ask(threads, times, positions, ordered)
        return ~ordered

    def _ask(self, threads: Array, times: Array, positions: Array, ordered: Array) -> None:
        """Mark the accesses that the threads have learnt of."""
        assert self.known is not None
        numbers = self.known.reshape(-1)[positions]
        left = np.flatnonzero(~ordered & (numbers > 0))
        at, n_ctas = threads[left] - self.base, self.shape.n_ctas
        inside = (at >= 0) & (at < self.rows * n_ctas)
        if inside.any():
            mine, at = left[inside], at[inside]
            pairs, group = _grouped(numbers[mine] * n_ctas + at % n_ctas)
            rows = [self.table[k // n_ctas].get(self.base + k % n_ctas) for k in pairs.tolist()]
            told = np.array([row is not None for row in rows])
            if told.any():
                latest = np.zeros((len(rows), self.rows), np.int64)
                latest[told] = np.stack([row for row in rows if row is not None])
                ordered[mine] |= times[mine] < latest[group, at // n_ctas]
        left = left[~inside]
        for number in np.unique(numbers[left]).tolist():
            mine = left[numbers[left] == number]
            for cta, row in self.table[number].items():
                n_ctas, base = self.numbers.owner(cta)
                at = threads[mine] - base
                here = (at >= 0) & (at < len(row) * n_ctas)
                here &= at % n_ctas == cta - base
                chosen = mine[here]
                ordered[chosen] |= times[chosen] < row[at[here] // n_ctas]


def _grouped(keys: Array) -> tuple[Array, Array]:
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
