"""Checks the accesses of one step against the cells, which remember the last accesses, then records the step there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.found import is_found
from warpsim.checks.race.clocks import CLUSTER, CTA, GPU, BatchClocks
from warpsim.checks.race.reports import ATOMS, EXITED, IN_PART, IN_TURN, IN_WORD, UNFENCED, Race, Reports
from warpsim.checks.race.unused import AGAIN, ROW, UNDECIDED, row_readers
from warpsim.checks.race.vector_clocks import ALL, INITS
from warpsim.isa.traits import Access, Mbarrier
from warpsim.machine.machine import Machine
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.records import frozen

READERS = "read", "other"
WORD = 4
"""Number of bytes that libcu++ compares and swaps for an atomic of fewer."""


@frozen(eq=False)
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
        epochs = seen[chosen]
        return cls(chosen, epochs & THREAD, epochs >> SHIFT, [first[chosen], last[chosen]])

    def moved(self, theirs: int, ends: int, scale: int) -> _Pairs:
        """With other numbers of the threads."""
        return _Pairs(self.chosen, self.theirs * scale + theirs, self.times, [e * scale + ends for e in self.ends])

    def only(self, kept: Array) -> _Pairs:
        """Some of the pairs."""
        return _Pairs(self.chosen[kept], self.theirs[kept], self.times[kept], [e[kept] for e in self.ends])


class Accesses(NamedTuple):
    """Accesses of a step to the memory of ``cells``: ``nbytes`` at each offset ``at`` (in ``columns`` of shared memory, or in
    an ``allocation``), by the ``first`` to the ``last`` of some threads each. They are remembered as those of ``others``, if
    given: of asynchronous operations. ``every``: all lanes, and in which shape of theirs these stand for them."""

    cells: Cells
    at: Array
    nbytes: int
    first: Array
    last: Array
    columns: Array | None = None
    allocation: Allocation | None = None
    write: bool = False
    others: Array | None = None
    every: tuple[Array, tuple[int, ...]] | None = None

    def apart(self, *more: Array) -> tuple[Accesses, list[Array]]:
        """The flat accesses of ``every`` lane, one by one, and what more is known of each."""
        assert self.every is not None
        threads, shape = self.every
        which = np.broadcast_to(np.arange(self.at.size).reshape(shape), threads.shape).reshape(-1)
        each = threads.reshape(-1)
        return self._replace(at=self.at[which], first=each, last=each, every=None), [one[which] for one in more]


class AccessChecks:
    """Checks the accesses of a batch against cells. ``copying``: they are those of a copy through the async proxy."""

    def __init__(self, clocks: BatchClocks, reports: Reports) -> None:
        self.clocks, self.reports = clocks, reports
        self.copying = False

    # ---- one step's lanes --------------------------------------------------------------------

    def lanes(self, machine: Machine, group: Group, accesses: Accesses, mask: Array | None) -> None:
        """Check accesses of lanes (``first``, ``last``: all of them) at addresses that may be the same along axes of the
        group: only the first and last thread of those count."""
        kept = self.clocks.role.level == 0 and not accesses.write
        self.flat(machine, group, self._ends(accesses, mask, kept=kept))

    def _ends(self, accesses: Accesses, mask: Array | None, *, kept: bool) -> Accesses:
        """Those that count; all of them if they are ``kept`` as readers of which a write may come after the ends only."""
        at, threads, columns, every = accesses.at, accesses.first, accesses.columns, None
        if mask is not None:
            mask = np.broadcast_to(mask, threads.shape)
            at = np.broadcast_to(at, threads.shape)[mask]
            columns = None if columns is None else np.broadcast_to(columns, threads.shape)[mask]
            first = last = threads[mask]
        else:
            if at.ndim != threads.ndim:
                at = at.reshape((1,) * threads.ndim) if at.size == 1 else at.reshape(threads.shape)
            first = last = threads
            if at.shape != threads.shape:
                launch = self.clocks.launch
                if launch.any_contents or (kept and launch.some_meet):
                    at = np.broadcast_to(at, threads.shape)
                    columns = None if columns is None else np.broadcast_to(columns, threads.shape)
                else:
                    every = threads, at.shape
                    first = threads[tuple([slice(0, 1) if n == 1 else slice(None) for n in at.shape])]
                    last = threads[tuple([slice(-1, None) if n == 1 else slice(None) for n in at.shape])]
        return accesses._replace(at=at, first=first, last=last, columns=columns, every=every)

    def flat(self, machine: Machine, group: Group, accesses: Accesses) -> None:
        """Check the accesses of each granule against its cells, then record this step there."""
        role, cells = self.clocks.role, accesses.cells
        if role.level:
            cells.narrow |= role.level < GPU
            cells.elements |= role.nbytes
        for each, index in self._granules(accesses):
            self._granule(machine, group, each, index)

    def note_reads(self, accesses: Accesses, mask: Array | None, time: int) -> None:
        """Record reads of lanes at an earlier time, which no access raced with."""
        for each, index in self._granules(self._ends(accesses, mask, kept=True)):
            self._note_readers(each.cells, index, each.first, each.last, time << SHIFT | each.last)

    def _granules(self, accesses: Accesses) -> Iterator[tuple[Accesses, Array]]:
        """The accesses, flat, with the cell of each, granule by granule; nothing if there are none."""
        cells, nbytes, others = accesses.cells, accesses.nbytes, accesses.others
        at, one = accesses.at.reshape(-1), accesses.first.reshape(-1)
        if not len(one):
            return
        last = one if accesses.last is accesses.first else accesses.last.reshape(-1)
        others = None if others is None else others.reshape(-1)
        accesses = accesses._replace(at=at, first=one, last=last, others=others)
        cells.fit(nbytes)
        index = at // cells.granule
        if cells.width > 1:
            index = index * cells.width + np.asarray(accesses.columns).reshape(-1)
        for k in range(nbytes // cells.granule):
            yield accesses, index + k * cells.width if k else index

    def _granule(self, machine: Machine, group: Group, accesses: Accesses, index: Array) -> None:
        cells, last, others = accesses.cells, accesses.last, accesses.others
        epoch = self.clocks.now << SHIFT | last
        if self.clocks.clustered and cells is self.clocks.shared_cells and cells.width > 1:
            remote = last % cells.width != index % cells.width
            if remote.any():
                cells.of("remote")[index[remote]] = epoch[remote]
        for kind, was_write in self._against(cells, write=accesses.write):
            seen = cells.of(kind).take(index)
            if kind == "strong" and "seen" in cells.kinds and accesses.allocation is not None:
                seen = self._not_seen(accesses, index, seen)
            self._check(machine, group, accesses, index, seen, was_write=was_write)
        if self.clocks.launch.any_contents or (self.clocks.launch.some_meet and accesses.write):
            self._check_forgotten(machine, group, accesses, index)
        if accesses.write:
            self._note_writers(machine, group, accesses, index, epoch)
            self._note_copies(accesses, index)
            return
        if others is not None:
            self._note_readers(cells, index, others, others, self.clocks.now << SHIFT | others)
        elif not self.clocks.role.level or self.clocks.launch.any_contents:
            self._note_readers(cells, index, accesses.first, last, epoch)
        if self.clocks.role.level:
            cells.of("seen")[index] = epoch

    def _check_forgotten(self, machine: Machine, group: Group, accesses: Accesses, index: Array) -> None:
        """Check accesses against those that the cells had no room for."""
        cells, weak = accesses.cells, not self.clocks.role.level
        floor = 0 if accesses.allocation is not None or self.clocks.clustered else self.clocks.order.floor
        for kind, against in (("read", accesses.write), ("strong", self.clocks.role.level < GPU or cells.narrow)):
            if not against or not cells.has_aside(kind):
                continue
            which, epochs = cells.beside(kind, index, floor)
            if len(which):
                first = accesses.first[which]
                last = first if accesses.last is accesses.first else accesses.last[which]
                some = accesses._replace(at=accesses.at[which], first=first, last=last, every=None)
                self._check(machine, group, some, index[which], epochs, was_write=kind == "strong")
            if accesses.write and weak:
                cells.settled(kind, index)

    def _not_seen(self, accesses: Accesses, index: Array, strong: Array) -> Array:
        """The strong writes in cells, less those that a strong read has seen which happens before these accesses: what is observed
        comes first in causality order, too."""
        seen = accesses.cells.of("seen").take(index)
        near = np.minimum(*(self.clocks.launch.levels[each >> SHIFT] for each in (strong, seen))) < GPU
        some = np.flatnonzero((strong != 0) & (seen > strong) & ~near)
        ends = (each[some] - self.clocks.base for each in (accesses.first, accesses.last))
        late = [self.clocks.order.unordered(seen[some] & THREAD, seen[some] >> SHIFT, end) for end in ends]
        left = strong.copy()
        left[some[~np.logical_or(*late)]] = 0
        return left

    def _against(self, cells: Cells, *, write: bool) -> Iterator[tuple[str, bool]]:
        """What an access can race with, and whether that wrote: strong accesses of the whole GPU and of one size do not race."""
        apart = self.clocks.role.level < GPU or cells.narrow or cells.elements & (cells.elements - 1)
        for kind in ("write", "strong"):
            if kind in cells.kinds and (kind == "write" or apart):
                yield kind, True
        for kind in ("read", "other", "seen") if write else ():
            if kind in cells.kinds and (kind != "seen" or apart):
                yield kind, False

    def _note_writers(self, machine: Machine, group: Group, accesses: Accesses, index: Array, epoch: Array) -> None:
        """Keep the last writer. Several that write to one place in one step race, unless they are strong and their scope
        has all of them."""
        cells, strong = accesses.cells, self.clocks.role.level
        writes = cells.of("strong" if strong else "write")
        before = writes.take(index) if strong and self.clocks.launch.any_contents else None
        writes[index] = epoch
        if before is not None:
            for each in (before, epoch):
                cells.forget("strong", index, each, ("strong",))
        if strong and (strong == GPU or (accesses.allocation is None and not self.clocks.clustered)):
            return
        apart = self._apart(accesses, writes.take(index))
        if apart.any():
            if accesses.every is not None:
                accesses, (index,) = accesses.apart(index)
                apart = self._apart(accesses, writes.take(index))
            threads = np.stack([accesses.first[apart], accesses.last[apart], writes.take(index[apart]) & THREAD])
            self.reports.together(machine, group, accesses.at[apart], threads, accesses.allocation)

    def _apart(self, accesses: Accesses, writers: Array) -> Array:
        """Which writes race with those of the last ``writers`` in this step."""
        first, last, writers = accesses.first, accesses.last, writers & THREAD
        if not self.clocks.role.level:
            return (first != writers) | (last != writers)
        base = 0 if accesses.allocation is None else self.clocks.base
        ends = [self._distance(writers - base, end - base) for end in (first, last)]
        return np.maximum(*ends) > self.clocks.role.level

    def _note_copies(self, accesses: Accesses, index: Array) -> None:
        """Keep copies as the last writers in place of the threads that start them."""
        if accesses.others is not None:
            kind = "strong" if self.clocks.role.level else "write"
            accesses.cells.of(kind)[index] = self.clocks.now << SHIFT | accesses.others

    def _note_readers(self, cells: Cells, index: Array, first: Array, last: Array, epoch: Array) -> None:
        """Keep two readers, of different warps if possible, and set others aside where they may be all that a write does not
        wait for: all of them where any contents are meant, else the latest in shared memory."""
        launch = self.clocks.launch
        if not (launch.any_contents or (launch.some_meet and cells is self.clocks.shared_cells)):
            self._note_two(cells, index, first, last, epoch)
            return
        before = [cells.of(slot).take(index) for slot in READERS]
        self._note_two(cells, index, first, last, epoch)
        for each in (*before, epoch):
            cells.forget("read", index, each, READERS)
        if not launch.any_contents:
            cells.limit("read")

    def _note_two(self, cells: Cells, index: Array, first: Array, last: Array, epoch: Array) -> None:
        fresh = "read" not in cells.kinds
        reads = cells.of("read")
        old = None if fresh else reads.take(index)
        reads[index] = epoch
        others = first != last
        if others.any():
            cells.of("other")[index[::-1]] = np.where(others, epoch & ~THREAD | first, epoch)[::-1]  # the first
            return
        lost = reads.take(index) != epoch
        if lost.any():
            cells.of("other")[index[lost][::-1]] = epoch[lost][::-1]
            return
        if old is None or not old.any():
            return
        alone = cells.width == 1 and self.clocks.order.uniform and cells is self.clocks.shared_cells
        n_ctas = 1 if alone else self.clocks.n_ctas
        before = old & THREAD
        second = cells.of("other")
        kept = second.take(index)
        far = before // (n_ctas * 32) != last // (n_ctas * 32)
        spare = (kept & THREAD == last) | self._is_stale(cells, kept, last, n_ctas)
        wanted = (old != 0) & (before != last) & (far | (kept == 0) | spare)
        if wanted.any():
            second[index[wanted]] = old[wanted]

    def note_earlier_readers(self, cells: Cells, index: Array, threads: Array, epoch: Array) -> None:
        """Keep readers whose turn was before that of the readers kept so far, as if they had been noted then."""
        read = cells.of("read").take(index)
        fresh = read == 0
        self._note_readers(cells, index[fresh], threads[fresh], threads[fresh], epoch[fresh])
        second, per_warp = cells.of("other"), self.clocks.n_ctas * 32
        warps, kept = (read & THREAD) // per_warp, second.take(index)
        near = (kept & THREAD) // per_warp == warps
        wanted = ~fresh & (read & THREAD != threads) & ((kept == 0) | (near & (warps != threads // per_warp)))
        before = kept[wanted]
        second[index[wanted]] = epoch[wanted]
        if self.clocks.launch.any_contents:
            cells.forget("read", index[wanted], before, READERS)
            cells.forget("read", index, epoch, READERS)

    def _is_stale(self, cells: Cells, kept: Array, threads: Array, n_ctas: int) -> Array | bool:
        """A mask of reads of shared memory that a CTA barrier, or that of the reader's warp, orders before these
        threads."""
        if cells is not self.clocks.shared_cells:
            return False
        order, times, theirs = self.clocks.order, kept >> SHIFT, kept & THREAD
        latest = order.cta_time.reshape(-1)[threads]
        near = theirs // (n_ctas * 32) == threads // (n_ctas * 32)
        near &= theirs % n_ctas == threads % n_ctas
        stale = times < np.where(near, np.maximum(latest, order.warp_time.reshape(-1)[threads]), latest)
        threads_end = self.clocks.shape.n_threads * cells.width  # barriers do not wait for wgmma
        return np.asarray(stale & (theirs < threads_end))

    # ---- checking ----------------------------------------------------------------------------

    def _check(
        self, machine: Machine, group: Group, accesses: Accesses, index: Array, seen: Array, *, was_write: bool
    ) -> None:
        """Compare the accesses with those in the cells of an ``index``."""
        order, allocation, write = self.clocks.order, accesses.allocation, accesses.write
        first, last = accesses.first, accesses.last
        top = int(seen.max()) if len(seen) else 0
        if not top or (allocation is None and not self.clocks.clustered and top < order.floor << SHIFT):
            return
        suspect = self._suspect(seen, first, last, allocation)
        if not suspect.any():
            return
        pairs = self._ordered_by_scope(_Pairs.of(np.flatnonzero(suspect), seen, first, last), allocation, write=write)
        if not len(pairs.chosen):
            return
        ends = pairs.ends if first is not last else pairs.ends[:1]
        kinds = self._kinds(pairs.times) if order.phases is not None and order.phases.relaxed else ALL
        wrong = self._unordered(pairs, ends, kinds)
        bad = wrong[0] if len(wrong) == 1 else wrong[0] | wrong[1]
        if not bad.any():
            return
        if accesses.every is not None:  # a finding names all lanes that take part
            accesses, (index, seen) = accesses.apart(index, seen)
            self._check(machine, group, accesses, index, seen, was_write=was_write)
            return
        near = bad & False
        if self.copying and write and not was_write:  # lanes of the warp of the thread that starts the copy
            n_ctas, readers, starter = self.clocks.n_ctas, pairs.theirs - self.clocks.base, pairs.ends[0]
            near = bad & (readers < self.clocks.shape.n) & (readers % n_ctas == starter % n_ctas)
            near &= readers // n_ctas >> 5 == starter // n_ctas >> 5
        gone = bad & False
        if order.left is not None:
            gone = bad & ~np.logical_or.reduce(self._unordered(pairs, ends, kinds, stayed=True))
        plain = bad & ~near & ~gone
        in_part = plain & self._in_part(pairs.times)
        plain &= ~in_part
        in_word = in_part & self._in_word(pairs.times) if in_part.any() else in_part
        rows = plain & self._read_rows(machine, accesses, pairs.times, was_write=was_write)
        here = pairs.ends[0] if len(wrong) == 1 else np.where(wrong[0], *pairs.ends)
        for some, reason in (
            (plain & ~rows, ""),
            (rows, ""),
            (in_part & ~in_word, IN_PART),
            (in_word, IN_WORD),
            (near & ~gone, IN_TURN),
            (gone, EXITED),
        ):
            if some.any():
                reads = self._rows(machine, pairs, here, rows, accesses, index) if some is rows else None
                cta, found = machine.batch.ctas[here % self.clocks.n_ctas], np.flatnonzero(some)
                which = int(found[np.lexsort((here[found], cta[found]))[0]])  # the thread that the finding names first
                cell, thread, time = index[pairs.chosen[which]], pairs.theirs[which], pairs.times[which]
                why = self._reason(reason, pairs, wrong, int(time))
                at = int(cell) // accesses.cells.width * accesses.cells.granule
                race = Race(at, int(thread), int(time), allocation, write, was_write, why, reads)
                self.reports.report(machine, group, here[some], race)

    def _read_rows(self, machine: Machine, accesses: Accesses, times: Array, *, was_write: bool) -> Array | bool:
        """Which of two accesses, now and at these times, are of matrix rows that are read and that may reach no result."""
        if accesses.write == was_write or accesses.allocation is not None or UNDECIDED not in machine.launch.notes:
            return False
        distinct, which = np.unique(-1 if was_write else times, return_inverse=True)
        readers = map(self.clocks.launch.access, distinct.tolist())
        found = [is_found(machine.launch.plan, reader, row_readers) for reader in readers]
        return np.array(found)[which.reshape(-1)]

    def _rows(
        self, machine: Machine, pairs: _Pairs, here: Array, some: Array, accesses: Accesses, index: Array
    ) -> Array:
        """What is read of the rows of ``some`` pairs, as `Undecided` has it: now, or from when nothing orders it before what is
        done ``here`` now. Nothing in a run that does not ask."""
        if AGAIN not in machine.launch.notes:
            return np.zeros((0, 4), np.int64)
        theirs, high = pairs.theirs[some], np.full(np.count_nonzero(some), self.clocks.now)
        low = np.zeros_like(high) if accesses.write else high
        while (low < high).any():
            middle = (low + high) // 2
            apart = self.clocks.order.unordered(theirs, middle, here[some])
            low, high = np.where(apart, low, middle + 1), np.where(apart, middle, high)
        cells, index = accesses.cells, index[pairs.chosen[some]]
        columns = index % cells.width if cells.width > 1 else np.full_like(index, -1)
        rows = index // cells.width * cells.granule & -ROW
        return np.unique(np.stack([rows, columns, high, np.full_like(high, self.clocks.now)], axis=1), axis=0)

    def _unordered(self, pairs: _Pairs, ends: list[Array], kinds: Array | int, *, stayed: bool = False) -> list[Array]:
        """For each end, a mask of the pairs that nothing orders; asked in one call, because most pairs are few."""
        if len(ends) == 1:
            return [self.clocks.order.unordered(pairs.theirs, pairs.times, ends[0], kinds, stayed=stayed)]
        theirs, times = np.concatenate((pairs.theirs, pairs.theirs)), np.concatenate((pairs.times, pairs.times))
        kinds = kinds if isinstance(kinds, int) else np.concatenate((kinds, kinds))
        both = self.clocks.order.unordered(theirs, times, np.concatenate(ends), kinds, stayed=stayed)
        return [both[: len(pairs.theirs)], both[len(pairs.theirs) :]]

    def _kinds(self, times: Array) -> Array:
        """Which accesses at these times initialised mbarriers, as cluster barriers tell them apart."""
        distinct, which = np.unique(times, return_inverse=True)
        inits = [self.clocks.launch.access(time).traits.does(Mbarrier.INIT) for time in distinct.tolist()]
        return np.where(np.array(inits)[which.reshape(-1)], INITS, ALL)

    def _suspect(self, seen: Array, first: Array, last: Array, allocation: Allocation | None) -> Array:
        """Which cells remember another thread, whose access does not reach these as a strong one."""
        threads = seen & THREAD
        suspect: Array = (seen != 0) & ((threads != first) | (threads != last))
        if self.clocks.role.level and suspect.any():  # strong accesses that reach each other do not race
            needed = CTA if allocation is None and not self.clocks.clustered else GPU
            suspect &= self._reach(seen >> SHIFT) < needed
        return suspect

    def _reach(self, times: Array) -> Array:
        """The scope of both a strong access now and those at these times: none where they are of different sizes, and
        so overlap in part."""
        launch, role = self.clocks.launch, self.clocks.role
        return np.where(self._in_part(times), 0, np.minimum(launch.levels[times], role.level))

    def _in_part(self, times: Array) -> Array:
        launch, role = self.clocks.launch, self.clocks.role
        return (launch.sizes[times] != role.nbytes) & (launch.sizes[times] > 0) & (role.nbytes > 0)

    def _in_word(self, times: Array) -> Array:
        """Which of two strong accesses, now and at these times, are a compare-and-swap of a word, and a load or store of part of
        it: so libcu++ makes atomics of 8 and 16 bits."""
        launch, size = self.clocks.launch, self.clocks.role.nbytes
        distinct, which = np.unique(times, return_inverse=True)
        found = []
        for then, nbytes in zip(map(launch.access, distinct.tolist()), launch.sizes[distinct].tolist(), strict=True):
            whole, part = (launch.access(-1), then)[:: 1 if size > nbytes else -1]
            swaps = whole.traits.access is Access.ATOMIC and "cas" in whole.op.modifiers and max(size, nbytes) == WORD
            found.append(swaps and part.traits.access is not Access.ATOMIC)
        return np.array(found)[which.reshape(-1)]

    def _distance(self, one: Array, other: Array) -> Array:
        """The scope that a strong access of each of ``one`` needs to reach the ``other`` (positions in the batch)."""
        one, other, clusters = one % self.clocks.n_ctas, other % self.clocks.n_ctas, self.clocks.order.clusters
        return np.where(one == other, CTA, np.where(clusters[one] == clusters[other], CLUSTER, GPU))

    def _ordered_by_scope(self, pairs: _Pairs, allocation: Allocation | None, *, write: bool) -> _Pairs:
        """The pairs by numbers of the launch, less those that scopes or fences order."""
        n_ctas, rows = self.clocks.n_ctas, self.clocks.order.rows
        if allocation is None:
            pairs = pairs.moved(self.clocks.base, 0, n_ctas if self.clocks.order.uniform else 1)
        else:
            pairs = pairs.moved(0, -self.clocks.base, 1)
        if self.clocks.role.level:
            theirs = pairs.theirs - self.clocks.base
            inside = (theirs >= 0) & (theirs < rows * n_ctas)
            needed = np.maximum(*[self._distance(np.where(inside, theirs, 0), end) for end in pairs.ends])
            needed[~inside] = GPU
            pairs = pairs.only(self._reach(pairs.times) < needed)
        if allocation is None:
            return pairs
        if self.clocks.role.level == GPU and not write:  # it reads what a fence has made visible, or what was before
            return pairs.only(self.clocks.launch.fenced(pairs.theirs) <= pairs.times)
        return pairs

    def _reason(self, reason: str, pairs: _Pairs, wrong: list[Array], time: int) -> str:
        """Why a race with an access at this time is no error, or which it is."""
        if not reason and self._is_signalled(pairs, wrong):
            return UNFENCED
        both = (self.clocks.launch.access(when).traits.access for when in (-1, time))
        return ATOMS if reason == IN_PART and all(access is Access.ATOMIC for access in both) else reason

    def _is_signalled(self, pairs: _Pairs, wrong: list[Array]) -> bool:
        """Whether flags said that all of these accesses are over."""
        return all(
            self.clocks.unfenced.say(pairs.theirs[w], pairs.times[w], e[w])
            for w, e in zip(wrong, pairs.ends, strict=False)
            if w.any()
        )
