"""Checks the accesses of one step against the cells, which remember the last accesses, then records the step there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.race_events import GPU
from warpsim.checks.race_findings import IN_TURN, UNFENCED, RaceFindings
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group


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
        where: Any,
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
        where: Any,
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
        strong = self.note.level
        for kind in ("write", "strong"):
            writes = cells.kinds.get(kind)
            if writes is not None and (kind == "write" or strong < GPU or cells.narrow):
                self._check(
                    machine, group, writes.take(index), at, first, last, allocation, write=write, was_write=True
                )
        if write:
            for kind in ("read", "other"):
                readers = cells.kinds.get(kind)
                if readers is not None:
                    self._check(
                        machine, group, readers.take(index), at, first, last, allocation, write=True, was_write=False
                    )
            writes = cells.of("strong" if strong else "write")
            writes[index] = stamp
            cells.narrow |= 0 < strong < GPU
            if not strong:
                apart = (first != last) | (writes.take(index) != stamp)
                if apart.any():
                    self.doubt_step(machine, at[apart], np.r_[first[apart], last[apart]], allocation)
        elif agents is not None:
            agents = agents.reshape(-1)
            self._note_readers(cells, index, agents, agents, self.now << SHIFT | agents)
        elif not strong:
            self._note_readers(cells, index, first, last, stamp)

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

    def _is_stale(self, cells: Cells, kept: Array, threads: Array, n_ctas: int) -> Any:
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
        threads = seen & THREAD
        suspect = (seen != 0) & ((threads != first) | (threads != last))
        if self.note.level and suspect.any():  # strong accesses that reach each other do not race
            levels = self.launch.levels[seen >> SHIFT]
            if self.note.level == GPU:
                suspect &= levels < GPU
            elif allocation is None:
                suspect &= levels == 0
        if not suspect.any():
            return
        chosen = np.flatnonzero(suspect)
        theirs, times = threads[chosen], seen[chosen] >> SHIFT
        local = allocation is None
        if local and order.uniform:
            n_ctas = self.n_ctas
            theirs = theirs * n_ctas + self.base
            ends = [first[chosen] * n_ctas, last[chosen] * n_ctas]
        else:
            shift = 0 if local else self.base
            theirs = theirs + (self.base if local else 0)
            ends = [first[chosen] - shift, last[chosen] - shift]
            if self.note.level and not local:  # nor do those of the same CTA, whatever their scopes
                n_ctas, inside = self.n_ctas, theirs - self.base
                near = (inside >= 0) & (inside < order.rows * n_ctas) & (inside % n_ctas == ends[0] % n_ctas)
                kept = ~near | (self.launch.levels[times] == 0)
                chosen, theirs, times, ends = chosen[kept], theirs[kept], times[kept], [e[kept] for e in ends]
        if (
            self.note.level == GPU and not write and not local
        ):  # it reads what a fence has made visible, or what was there before
            kept = self.launch.fenced(theirs) <= times
            chosen, theirs, times, ends = chosen[kept], theirs[kept], times[kept], [e[kept] for e in ends]
            if not len(chosen):
                return
        wrong = [order.unordered(theirs, times, who) for who in (ends if first is not last else ends[:1])]
        bad = np.logical_or.reduce(wrong)
        near = bad & False
        if self.copying and write and not was_write:  # lanes of the warp of the thread that starts the copy
            n_ctas = self.n_ctas
            readers = theirs - self.base
            near = bad & (readers % n_ctas == ends[0] % n_ctas) & (readers // n_ctas >> 5 == ends[0] // n_ctas >> 5)
        for some, reason in ((bad & ~near, ""), (near, IN_TURN)):
            if some.any():
                which = int(np.flatnonzero(some)[0])
                told = not reason and all(
                    self.hints.say(theirs[w], times[w], e[w]) for w, e in zip(wrong, ends, strict=False) if w.any()
                )
                self.report(
                    machine,
                    group,
                    (ends[0] if wrong[0][which] else ends[1])[some],
                    int(at[chosen[which]]),
                    int(theirs[which]),
                    int(times[which]),
                    allocation,
                    UNFENCED if told else reason,
                    write=write,
                    was_write=was_write,
                )
