"""Checks the accesses of one step against the cells, which remember the last accesses, then records the step there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.cluster_phases import ALL, INITS
from warpsim.checks.race_events import CLUSTER, GPU
from warpsim.checks.race_findings import IN_TURN, UNFENCED, RaceFindings
from warpsim.isa.traits import Mbarrier
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group


@attrs.frozen(eq=False)
class _Pairs:
    """Accesses and those that their cells remember: ``chosen`` of the step's, ``theirs`` are the threads that were there at
    ``times``, ``ends`` the first and last of those that are there now."""

    chosen: Array
    theirs: Array
    times: Array
    ends: list[Array]

    @classmethod
    def of(cls, chosen: Array, seen: Array, first: Array, last: Array) -> _Pairs:
        """Some of the accesses of a step."""
        stamps = seen[chosen]
        return cls(chosen, stamps & THREAD, stamps >> SHIFT, [first[chosen], last[chosen]])

    def moved(self, theirs: int, ends: int, scale: int) -> _Pairs:
        """With other numbers of the threads."""
        return _Pairs(self.chosen, self.theirs * scale + theirs, self.times, [e * scale + ends for e in self.ends])

    def only(self, kept: Array) -> _Pairs:
        """Some of the pairs."""
        return _Pairs(self.chosen[kept], self.theirs[kept], self.times[kept], [e[kept] for e in self.ends])


class RaceCells(RaceFindings):
    """The part of the detector that works on cells."""

    # ---- one step's lanes --------------------------------------------------------------------

    def lanes(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        at: Array,
        nbytes: int,
        threads: Array,
        mask: Array | None,
        where: Array | Allocation | None,
        *,
        write: bool,
    ) -> None:
        """Check addresses that may be the same along axes of the group: only the first and last thread of those count."""
        if mask is not None:
            mask = np.broadcast_to(mask, threads.shape)
            at = np.broadcast_to(at, threads.shape)[mask]
            where = np.broadcast_to(where, threads.shape)[mask] if isinstance(where, np.ndarray) else where
            first = last = threads[mask]
            if not len(first):
                return
        else:
            if at.ndim != threads.ndim:
                at = at.reshape((1,) * threads.ndim) if at.size == 1 else at.reshape(threads.shape)
            first = last = threads
            if at.shape != threads.shape:
                first = threads[tuple([slice(0, 1) if n == 1 else slice(None) for n in at.shape])]
                last = threads[tuple([slice(-1, None) if n == 1 else slice(None) for n in at.shape])]
        self.flat(machine, group, cells, at, nbytes, first, last, where, write=write)

    def flat(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        at: Array,
        nbytes: int,
        first: Array,
        last: Array,
        where: Array | Allocation | None,
        agents: Array | None = None,
        *,
        write: bool,
    ) -> None:
        """Check the accesses of each granule against its cells, then record this step there (in the name of ``agents``,
        if given).
        """
        at, one = at.reshape(-1), first.reshape(-1)
        first, last = one, one if last is first else last.reshape(-1)
        allocation = None if where is None or isinstance(where, np.ndarray) else where
        cells.fit(nbytes)
        per = nbytes // cells.granule
        index = at // cells.granule
        if cells.width > 1:
            index = index * cells.width + np.asarray(where).reshape(-1)
        for k in range(per):
            place = index + k * cells.width if k else index
            self._granule(machine, group, cells, place, at, first, last, allocation, agents, write=write)

    def _granule(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        index: Array,
        at: Array,
        first: Array,
        last: Array,
        allocation: Allocation | None,
        agents: Array | None,
        *,
        write: bool,
    ) -> None:
        stamp = self.now << SHIFT | last
        if self.clustered and cells is self.shared_cells and cells.width > 1:
            remote = last % cells.width != index % cells.width
            if remote.any():
                cells.of("remote")[index[remote]] = stamp[remote]
        for kind, was_write in self._against(cells, write=write):
            seen = cells.of(kind).take(index)
            self._check(machine, group, seen, at, first, last, allocation, write=write, was_write=was_write)
        strong = self.note.level
        if write:
            self._note_writers(machine, group, cells, index, at, first, last, stamp, allocation)
        elif agents is not None:
            agents = agents.reshape(-1)
            self._note_readers(cells, index, agents, agents, self.now << SHIFT | agents)
        elif not strong:
            self._note_readers(cells, index, first, last, stamp)

    def _against(self, cells: Cells, *, write: bool) -> Iterator[tuple[str, bool]]:
        """What an access can race with, and whether that wrote: strong accesses of the whole GPU do not race."""
        for kind in ("write", "strong"):
            if kind in cells.kinds and (kind == "write" or self.note.level < GPU or cells.narrow):
                yield kind, True
        for kind in ("read", "other") if write else ():
            if kind in cells.kinds:
                yield kind, False

    def _note_writers(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        index: Array,
        at: Array,
        first: Array,
        last: Array,
        stamp: Array,
        allocation: Allocation | None,
    ) -> None:
        """Keep the last writer."""
        strong = self.note.level
        writes = cells.of("strong" if strong else "write")
        writes[index] = stamp
        cells.narrow |= 0 < strong < GPU
        if not strong:
            apart = (first != last) | (writes.take(index) != stamp)
        elif strong < GPU and allocation is not None:
            reach = self.order.clusters if strong == CLUSTER else np.arange(self.n_ctas)
            low, high, kept = (
                reach[(threads - self.base) % self.n_ctas] for threads in (first, last, writes.take(index) & THREAD)
            )
            apart = (low != high) | (high != kept)
        else:
            return
        if apart.any():
            self.doubt_step(machine, group, at[apart], np.r_[first[apart], last[apart]], allocation)

    def _note_readers(self, cells: Cells, index: Array, first: Array, last: Array, stamp: Array) -> None:
        """Keep two readers, of different warps if possible."""
        fresh = "read" not in cells.kinds
        reads = cells.of("read")
        old = None if fresh else reads.take(index)
        reads[index] = stamp
        others = first != last
        if others.any():
            cells.of("other")[index] = np.where(others, self.now << SHIFT | first, stamp)
            return
        lost = reads.take(index) != stamp
        if lost.any():
            cells.of("other")[index[lost]] = stamp[lost]
            return
        if old is None or not old.any():
            return
        n_ctas = 1 if cells.width == 1 and self.order.uniform and cells is self.shared_cells else self.n_ctas
        before = old & THREAD
        second = cells.of("other")
        kept = second.take(index)
        far = before // (n_ctas * 32) != last // (n_ctas * 32)
        wanted = (old != 0) & (before != last) & (far | (kept == 0) | self._is_stale(cells, kept, last, n_ctas))
        if wanted.any():
            second[index[wanted]] = old[wanted]

    def _note_earlier_readers(self, cells: Cells, index: Array, threads: Array, stamp: Array) -> None:
        """Keep readers whose turn was before that of the readers kept so far, as if they had been noted then."""
        read = cells.of("read").take(index)
        fresh = read == 0
        self._note_readers(cells, index[fresh], threads[fresh], threads[fresh], stamp[fresh])
        second, per_warp = cells.of("other"), self.n_ctas * 32
        warps, kept = (read & THREAD) // per_warp, second.take(index)
        near = (kept & THREAD) // per_warp == warps
        wanted = ~fresh & (read & THREAD != threads) & ((kept == 0) | (near & (warps != threads // per_warp)))
        second[index[wanted]] = stamp[wanted]

    def _is_stale(self, cells: Cells, kept: Array, threads: Array, n_ctas: int) -> Array | bool:
        """A mask of reads of shared memory that a CTA barrier, or that of the reader's warp, orders before these
        threads.
        """
        if cells is not self.shared_cells:
            return False
        order, times, theirs = self.order, kept >> SHIFT, kept & THREAD
        latest = order.cta_time.reshape(-1)[threads]
        near = theirs // (n_ctas * 32) == threads // (n_ctas * 32)
        near &= theirs % n_ctas == threads % n_ctas
        return times < np.where(near, np.maximum(latest, order.warp_time.reshape(-1)[threads]), latest)

    # ---- checking ----------------------------------------------------------------------------

    def _check(
        self,
        machine: Machine,
        group: Group,
        seen: Array,
        at: Array,
        first: Array,
        last: Array,
        allocation: Allocation | None,
        *,
        write: bool,
        was_write: bool,
    ) -> None:
        """Compare the accesses with those in the cells."""
        order = self.order
        top = int(seen.max()) if len(seen) else 0
        if not top or (allocation is None and not self.clustered and top < order.floor << SHIFT):
            return
        suspect = self._suspect(seen, first, last, allocation)
        if not suspect.any():
            return
        pairs = self._ordered_by_scope(_Pairs.of(np.flatnonzero(suspect), seen, first, last), allocation, write=write)
        if not len(pairs.chosen):
            return
        ends = pairs.ends if first is not last else pairs.ends[:1]
        kinds = self._kinds(pairs.times) if order.phases is not None and order.phases.relaxed else ALL
        wrong = [order.unordered(pairs.theirs, pairs.times, who, kinds) for who in ends]
        bad = np.logical_or.reduce(wrong)
        near = bad & False
        if self.copying and write and not was_write:  # lanes of the warp of the thread that starts the copy
            n_ctas, readers, starter = self.n_ctas, pairs.theirs - self.base, pairs.ends[0]
            near = bad & (readers % n_ctas == starter % n_ctas) & (readers // n_ctas >> 5 == starter // n_ctas >> 5)
        for some, reason in ((bad & ~near, ""), (near, IN_TURN)):
            if some.any():
                which = int(np.flatnonzero(some)[0])
                told = not reason and self._told(pairs, wrong)
                self.report(
                    machine,
                    group,
                    (pairs.ends[0] if wrong[0][which] else pairs.ends[1])[some],
                    int(at[pairs.chosen[which]]),
                    int(pairs.theirs[which]),
                    int(pairs.times[which]),
                    allocation,
                    UNFENCED if told else reason,
                    write=write,
                    was_write=was_write,
                )

    def _kinds(self, times: Array) -> Array:
        """Which accesses at these times initialised mbarriers, as cluster barriers tell them apart."""
        distinct, which = np.unique(times, return_inverse=True)
        events = [self.launch.events[time] for time in distinct.tolist()]
        inits = [event is not None and event.traits.does(Mbarrier.INIT) for event in events]
        return np.where(np.array(inits)[which.reshape(-1)], INITS, ALL)

    def _suspect(self, seen: Array, first: Array, last: Array, allocation: Allocation | None) -> Array:
        """Which cells remember another thread, whose access does not reach these as a strong one."""
        threads = seen & THREAD
        suspect: Array = (seen != 0) & ((threads != first) | (threads != last))
        if self.note.level and suspect.any():  # strong accesses that reach each other do not race
            levels = self.launch.levels[seen >> SHIFT]
            if self.note.level == GPU:
                suspect &= levels < GPU
            elif allocation is None:
                suspect &= levels == 0
        return suspect

    def _ordered_by_scope(self, pairs: _Pairs, allocation: Allocation | None, *, write: bool) -> _Pairs:
        """The pairs by numbers of the launch, less those that scopes or fences order."""
        n_ctas, rows = self.n_ctas, self.order.rows
        if allocation is None:
            scale = n_ctas if self.order.uniform else 1
            return pairs.moved(self.base, 0, scale)
        pairs = pairs.moved(0, -self.base, 1)
        if self.note.level:  # nor do those of one CTA, whatever their scopes
            inside = pairs.theirs - self.base
            near = (inside >= 0) & (inside < rows * n_ctas) & (inside % n_ctas == pairs.ends[0] % n_ctas)
            pairs = pairs.only(~near | (self.launch.levels[pairs.times] == 0))
        if self.note.level == GPU and not write:  # it reads what a fence has made visible, or what was before
            pairs = pairs.only(self.launch.fenced(pairs.theirs) <= pairs.times)
        return pairs

    def _told(self, pairs: _Pairs, wrong: list[Array]) -> bool:
        """Whether flags said that all of these accesses are over."""
        return all(
            self.hints.say(pairs.theirs[w], pairs.times[w], e[w])
            for w, e in zip(wrong, pairs.ends, strict=False)
            if w.any()
        )
