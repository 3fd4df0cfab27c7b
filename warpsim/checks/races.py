"""The race rule: two accesses to the same byte by different threads, at least one a write, that nothing orders.

Every access of a step comes here from the memory ports, as arrays over its lanes; what synchronises goes to `RaceClocks`.
`Order` knows what happens before what, `Cells` who was where last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.race_events import GPU, Note
from warpsim.checks.race_findings import IN_TURN, UNFENCED, RaceFindings
from warpsim.checks.race_strides import note_strided
from warpsim.checks.race_sync import alike
from warpsim.machine.events import ATOMIC, MemoryAccess
from warpsim.machine.selection import Rect
from warpsim.machine.values import Affine, Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer


class Races(RaceFindings):
    """The detector of a batch. Threads of shared cells are numbered in the batch, those of global cells in the launch."""

    # ---- accesses from the ports -------------------------------------------------------------

    def shared(
        self,
        machine: Machine,
        group: Group,
        place: Any,
        nbytes: int,
        columns: Array,
        active: Array | None,
        *,
        write: bool,
        reads: bool = False,
    ) -> None:
        """An access to shared memory: ``place`` broadcasts over the lanes with ``columns``; ``reads`` says that it is an
        atomic, which reads and writes."""
        selection = group.selection
        at = np.asarray(place, np.int64)
        if self.order.uniform:
            same = isinstance(selection, Rect) and selection.all_ctas and columns is selection.columns
            if same and alike(at) and (active is None or alike(active)):
                at = at.reshape(at.shape[:2]) if at.ndim == 4 else at.reshape(1, 1)
                threads = selection.threads[:, :, 0, 0]
                mask = None if active is None else active[:, :, 0, 0]
                self._lanes(machine, group, self.shared_cells, at, nbytes, threads, mask, write, None)
                if self.note.level:
                    self.strong(
                        group,
                        self.shared_cells,
                        np.asarray(place, np.int64),
                        active,
                        reads or not write,
                        write,
                        columns,
                    )
                return
            self.widen()
        shape = np.broadcast_shapes(at.shape, columns.shape)
        if len(shape) < len(selection.shape):
            shape = selection.shape
        at = np.broadcast_to(at, shape)
        where = np.broadcast_to(columns, shape)
        self._lanes(machine, group, self.shared_cells, at, nbytes, selection.positions, active, write, where)
        if self.note.level:
            self.strong(group, self.shared_cells, at, active, reads or not write, write, where)

    def rows(
        self,
        machine: Machine,
        group: Group,
        place: Array,
        nbytes: int,
        columns: Array,
        active: Array | None,
        write: bool,
    ) -> None:
        """Matrix rows ``[n, k, m]``: the whole warp accesses each of them."""
        warps = group.warps
        lanes = np.where(warps.active, warps.spread(group.selection.positions), -1)
        first = np.where(lanes < 0, self.shape.n, lanes).min(axis=1, keepdims=True)
        last = lanes.max(axis=1, keepdims=True)
        uniform = self.order.uniform
        if uniform and place.shape[2] == 1 and warps.dense and columns.size == self.n_ctas:
            n_ctas = self.n_ctas
            first, last, columns = first[:, :, :1] // n_ctas, last[:, :, :1] // n_ctas, np.zeros((1, 1, 1), np.int64)
        elif uniform:
            self.widen()
        last = first if write else last  # one thread stands for the warp, which writes each row together
        shape = np.broadcast_shapes(place.shape, first.shape, columns.shape)
        at, first, last, columns = (np.broadcast_to(x, shape) for x in (place, first, last, columns))
        if active is not None:
            mask = np.broadcast_to(active, shape)
            at, first, last, columns = at[mask], first[mask], last[mask], columns[mask]
        self.flat(machine, group, self.shared_cells, at, nbytes, first, last, write, columns)
        self.settle(machine, group, None, None)

    def spread(
        self, machine: Machine, group: Group, positions: Array, columns: Array, start: Array, nbytes: int, write: bool
    ) -> None:
        """Runs of bytes of shared memory that asynchronous copies of these threads access."""
        self.widen()
        step = min(nbytes & -nbytes, 16)
        at = (start[:, None] + np.arange(0, nbytes, step)).reshape(-1)
        who = np.repeat(positions, nbytes // step)
        self.flat(machine, group, self.shared_cells, at, step, who, who, write, np.repeat(columns, nbytes // step))
        self.settle(machine, group, None, None)

    def globals(self, machine: Machine, group: Group, allocation: Allocation, access: MemoryAccess) -> None:
        """An access to one allocation of global memory: absolute addresses that broadcast over the group."""
        if allocation.read_only:
            return
        cells = self.launch.cells.get(allocation.number)
        if cells is None:
            cells = self.launch.cells[allocation.number] = Cells(allocation.data.size, 1)
        weak = not self.note.level
        if weak and type(access.at) is Affine and access.active is None:
            lanes, write = group.selection, access.writes
            if note_strided(cells, allocation, access.at, access.nbytes, lanes, self.base, self.now, write=write):
                return
        threads = group.selection.positions + self.base
        place, mask, write = access.place, access.active, access.writes
        self._lanes(machine, group, cells, place - allocation.start, access.nbytes, threads, mask, write, allocation)
        if not weak:
            reads = access.kind == ATOMIC or not write
            self.strong(group, cells, place, mask, reads, write, None, allocation.start)

    def matrix(self, machine: Machine, group: Group, address: Array, columns: Array) -> None:
        """Shared memory that the warpgroups of the step read: element addresses ``[..., n, m]``."""
        self.widen()
        warps, n_ctas = group.warps, self.n_ctas
        start = np.asarray(warps.first_thread if warps.dense else warps.warp_threads)[::4].reshape(-1, 1)
        rows = address.reshape(-1, *address.shape[-2:]) & ~15
        if rows.shape[1:] == (1, 1):
            rows = np.unique(rows).reshape(-1, 1, 1)
        shape = np.broadcast_shapes(rows.shape, columns.shape, start.shape)
        at, where, first = (np.broadcast_to(x, shape) for x in (rows, columns, start))
        agents = (self.shape.n_threads + (first >> 7)) * n_ctas + where
        first, last = first * n_ctas + where, (first + 127) * n_ctas + where
        self.flat(machine, group, self.shared_cells, at, 16, first, last, False, where, agents)

    # ---- one step's lanes --------------------------------------------------------------------

    def _lanes(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        at: Array,
        nbytes: int,
        threads: Array,
        mask: Array | None,
        write: bool,
        where: Any,
    ) -> None:
        """Addresses that may be the same along axes of the group: only the first and last thread of those count."""
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
        self.flat(machine, group, cells, at, nbytes, first, last, write, where)

    def flat(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        at: Array,
        nbytes: int,
        first: Array,
        last: Array,
        write: bool,
        where: Any,
        agents: Array | None = None,
    ) -> None:
        """The accesses themselves: check each granule against its cells, then leave this step there (in the name of
        ``agents``, if given)."""
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
            self._granule(machine, group, cells, place, at, first, last, write, allocation, agents)

    def _granule(
        self,
        machine: Machine,
        group: Group,
        cells: Cells,
        index: Array,
        at: Array,
        first: Array,
        last: Array,
        write: bool,
        allocation: Allocation | None,
        agents: Array | None,
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
                self._check(machine, group, writes.take(index), at, first, last, write, True, allocation)
        if write:
            for kind in ("read", "other"):
                readers = cells.kinds.get(kind)
                if readers is not None:
                    self._check(machine, group, readers.take(index), at, first, last, True, False, allocation)
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
        """Keep two readers, of different warps where there are any."""
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
        """Which reads of shared memory a barrier, or that of the reader's warp, has ordered before these threads."""
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
        write: bool,
        was_write: bool,
        allocation: Allocation | None,
    ) -> None:
        """Compare the accesses with those that the cells remember."""
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
            if self.note.level and not local:  # nor do those of one CTA, whatever their scopes
                n_ctas, inside = self.n_ctas, theirs - self.base
                near = (inside >= 0) & (inside < order.rows * n_ctas) & (inside % n_ctas == ends[0] % n_ctas)
                kept = ~near | (self.launch.levels[times] == 0)
                chosen, theirs, times, ends = chosen[kept], theirs[kept], times[kept], [e[kept] for e in ends]
        if (
            self.note.level == GPU and not write and not local
        ):  # it reads what a fence has made visible, or what was before
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
        for some, excuse in ((bad & ~near, ""), (near, IN_TURN)):
            if some.any():
                which = int(np.flatnonzero(some)[0])
                told = not excuse and all(
                    self.hints.say(theirs[w], times[w], e[w]) for w, e in zip(wrong, ends, strict=False) if w.any()
                )
                self.report(
                    machine,
                    group,
                    (ends[0] if wrong[0][which] else ends[1])[some],
                    int(at[chosen[which]]),
                    int(theirs[which]),
                    int(times[which]),
                    write,
                    was_write,
                    allocation,
                    UNFENCED if told else excuse,
                )

    # ---- asynchronous copies -----------------------------------------------------------------

    def copies(self, machine: Machine, transfer: Transfer) -> None:
        """Asynchronous copies begin: accesses of the threads that started them."""
        self.copying = transfer.asynchronous
        for footprint, write in ((transfer.reads, False), (transfer.writes, True)):
            if footprint is not None:
                where = footprint.columns, footprint.start, footprint.nbytes
                self._copy(machine, transfer, *where, write, strong=write and transfer.reduces)
        self.copying = False

        if transfer.signal is not None:
            self._copy(machine, transfer, transfer.signal.columns, transfer.signal.address, 8, True, strong=True)

    def _copy(
        self,
        machine: Machine,
        transfer: Transfer,
        columns: Array,
        start: Array,
        nbytes: int,
        write: bool,
        *,
        strong: bool,
    ) -> None:
        """Accesses of copies; a reduction, and what counts at an mbarrier, is atomic."""
        outer = self.note
        if strong:
            self.note = Note(GPU)
            self.launch.begin(self.launch.events[-1], GPU)
        self.spread(machine, transfer.group, transfer.positions, columns, start, nbytes, write)
        self.note = outer

    def waited(self, transfer: Transfer, which: Array) -> None:
        """A thread has waited for copies that it started: only now are they ordered before what it does next."""
        if not len(which):
            return
        self.launch.begin(transfer.place, 0)
        cells, n_ctas = self.shared_cells, self.n_ctas
        for footprint, kind in ((transfer.writes, "write"), (transfer.reads, "read")):
            if footprint is None or kind not in cells.kinds:
                continue
            positions, columns, start = transfer.positions[which], footprint.columns[which], footprint.start[which]
            if self.order.uniform:
                first = positions % n_ctas == 0
                positions, columns, start = positions[first] // n_ctas, columns[first] * 0, start[first]
            at = start[:, None] + np.arange(0, footprint.nbytes, cells.granule)
            index = (at // cells.granule * cells.width + columns[:, None]).reshape(-1)
            mine = np.repeat(positions, at.shape[1])
            still = cells.kinds[kind][index] & THREAD == mine
            cells.of(kind)[index[still]] = self.now << SHIFT | mine[still]
