"""The proxy-fence rule: memory written through the generic proxy and accessed through the async proxy without a fence
in between, and tensor maps that a kernel changes.

Loads, stores, atomics and cp.async use the generic proxy, wgmma and bulk copies the async proxy. A write is fenced by
``fence.proxy.async`` of the thread that wrote, of an accessing thread that has synchronised since the write, or of any
thread of the CTA if a CTA barrier ordered it after the write. Only launches of modules that use the async proxy are
tracked.

The thread that changes a tensor map releases it with ``fence.proxy.tensormap::generic.release``
(``tensormap.cp_fenceproxy`` includes it). Before a CTA uses the map, one of its threads acquires it by address. Maps among
the parameters need neither.
"""

from __future__ import annotations

import bisect
from operator import itemgetter
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.checks.async_global import sources_of
from warpsim.checks.cells import LARGEST, SHIFT, THREAD, Cells, Log, cells_of
from warpsim.checks.race import RULE as RACE
from warpsim.errors import Finding
from warpsim.isa.traits import Family, Mbarrier
from warpsim.machine.asynchrony.wgmma_chains import Chain
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import finding_at, present
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Footprint, GlobalTarget, Transfer
from warpsim.machine.values import Array, spread
from warpsim.machine.watcher import READ, WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.checks.race.clocks import BatchClocks

RULE = "proxy-fence"
OF_LAUNCH: Note[LaunchProxies] = Note(RULE)
PROXIES: Note[Proxies] = Note(RULE)
ADVICE = "add fence.proxy.async after the generic accesses, before the barrier that the issuing thread waits at (async proxy)"
MAP_BYTES = 128
MAP_ADVICE = (
    "fence.proxy.tensormap::generic.release of the thread that changed the map, and of a thread of the CTA that uses it"
    " fence.proxy.tensormap::generic.acquire with its address (membar-fence)"
)


@frozen
class Earlier:
    """The access through the generic proxy, a ``write`` or a ``read``: its thread, and whether a barrier has ordered what
    its CTA does now after it."""

    kind: str
    instruction: Instruction
    warp: int
    lane: int
    met: bool

    def finding(self, machine: Machine, message: str) -> Finding:
        """The access as the other party of a finding."""
        place = finding_at(machine.launch, self.instruction)
        found: Finding = attrs.evolve(place, message=message, warp=self.warp, lanes=(self.lane,))
        return found


@frozen(eq=False)
class Uses:
    """Accesses of a step through the async proxy: of ``nbytes`` at each of ``at``, in ``columns`` of the ``cells`` of shared
    memory or of an ``allocation``, by ``users`` (the first of ``lanes`` threads each)."""

    group: Group
    cells: Cells
    at: Array
    columns: Array
    nbytes: int
    users: Array
    lanes: int = 1
    allocation: Allocation | None = None
    write: bool = False

    @property
    def space(self) -> str:
        """Where they are."""
        return "shared" if self.allocation is None else "global"


def report_access(
    machine: Machine, uses: Uses, earlier: Earlier, at: int, starters: Array | None, *, apart: bool
) -> None:
    """Report that the threads at ``starters`` (None: all) access what was read or written earlier. ``apart``: there are fences, which
    nothing orders before the access."""
    group, allocation, kind, write = uses.group, uses.allocation, earlier.kind, uses.write
    event = earlier.instruction
    by_copy = event.traits.is_async(Family.CP_ASYNC)
    copied = by_copy and present(group).traits.is_async(Family.WGMMA)
    # compilers put data where an mbarrier or a tensor map was, after just a barrier
    reused = event.traits.tensor_map or event.traits.does(Mbarrier.INIT | Mbarrier.INVAL)
    # libraries hand over stages that they have read through just an mbarrier
    handed = kind == "read" and not earlier.met
    # cuda::memcpy_async loads over what was read, and Triton's sanitizer fills buffers before copies load them: after a
    # barrier the access is done, on GPUs so far
    over = write and earlier.met and allocation is None
    severity = "note" if copied or reused or handed else "warning" if over else "error"
    was = "written" if kind == "write" else "read"
    how = "by cp.async" if by_copy else "through the generic proxy"
    name = f"shared address 0x{at:x}" if allocation is None else f"byte {at} of {allocation.name}"
    message = (
        f"{name} is {'written' if write else 'read'} through the async proxy; warp {earlier.warp}, lane {earlier.lane}"
        f" has {was} it {how} in line {event.span.line}, with no proxy fence in between"
        f"{', only one that nothing orders before this access' * apart}"
    )
    lanes, other = (
        None if starters is None else np.isin(group.selection.positions, starters),
        earlier.finding(machine, f"{was} here"),
    )
    machine.fault(RULE, message, group, lanes, severity=severity, other=other, address=at, advice=ADVICE)


SPACES = ("shared", "global")
FENCES = 8
"""So many fences of a thread are remembered."""
PAGE = 10
"""Parts of shared memory in which accesses are looked for have so many bits of an address."""
KINDS = {"write": 0, "read": 1}
MOST_RECENT = 64
"""So many accesses wait to be noted."""
FEW = 8
"""So many different places are compared one by one."""


class Fenced:
    """The latest proxy fences of each thread: when they were executed (``times``), when the thread had last passed a barrier of
    its CTA then (``met``), and the times of the race rule (``steps``), whose clocks say what they happen before."""

    def __init__(self, n: int) -> None:
        self.times, self.met, self.steps = np.zeros((3, n, FENCES), np.int64)
        self.number: Array = np.zeros(n, np.int64)

    def add(self, positions: Array, time: int, met: Array, step: int) -> None:
        """Note fences that threads execute now."""
        slot = self.number[positions] % FENCES
        self.number[positions] += 1
        self.times[positions, slot], self.met[positions, slot], self.steps[positions, slot] = time, met, step

    def by_writers(self, clocks: BatchClocks, users: tuple[Array, ...], writers: Array, times: Array) -> Array:
        """Which writes their threads have fenced before what one of the ``users`` of each does now, or have fenced too often since."""
        later = self.times[writers] > times[:, None]
        first = np.where(later, self.steps[writers], np.iinfo(np.int64).max).min(axis=1)
        apart = [clocks.order.unordered(writers + clocks.base, first, user) for user in users]
        found: Array = later.all(axis=1) | ~np.logical_and.reduce(apart)
        return found

    def apart(self, clocks: BatchClocks, users: Array, writer: int, time: int) -> bool:
        """Whether no fence that covers the write (of a thread of the batch) happens before what any of the ``users``, threads of one
        CTA, does now: one of the writer, or of the CTA after a barrier. False where too much has been forgotten."""
        n_ctas = clocks.n_ctas
        theirs = np.arange(len(self.number) // n_ctas) * n_ctas + users[0] % n_ctas
        who, which = np.nonzero(self.met[theirs] > time)
        own = np.flatnonzero(self.times[writer] > time)
        if len(own) == FENCES:
            return False
        threads = np.concatenate([np.full(len(own), writer), theirs[who]])
        steps = np.concatenate([self.steps[writer, own], self.steps[theirs[who], which]])
        return all(
            clocks.order.unordered(threads + clocks.base, steps, np.full(len(threads), user)).all() for user in users
        )


class LaunchProxies:
    """State shared by the batches of a launch: time, and the last generic accesses to global memory."""

    def __init__(self) -> None:
        self.events: Log[Instruction | None] = Log(None)
        self.cells: dict[int, Cells] = {}
        """By allocation number."""
        self.bases: list[int] = []
        self.batches: list[Proxies] = []

    def owner(self, thread: int) -> Proxies:
        """The batch of a thread."""
        return self.batches[bisect.bisect(self.bases, thread) - 1]

    def access(self, kind: str, time: int, thread: int) -> Earlier:
        """An access through the generic proxy: a ``write`` or a ``read``."""
        event, owner = self.events[time], self.owner(thread)
        assert event is not None
        position = thread - owner.base
        at = position // owner.n_ctas
        return Earlier(kind, event, at >> 5, at & 31, bool(owner.cta_time[position] > time))

    def fenced(self, threads: Array, space: str) -> Array:
        """The time of the last fence of threads of any batch."""
        if len(self.batches) == 1:
            return self.batches[0].fence_time[space][threads]
        out = np.zeros(len(threads), np.int64)
        owners = np.searchsorted(np.array(self.bases), threads, "right") - 1
        for number in distinct(owners).tolist():
            mine = owners == number
            out[mine] = self.batches[number].fence_time[space][threads[mine] - self.bases[number]]
        return out


class Proxies:
    """The state of a batch."""

    def __init__(self, shared: LaunchProxies, machine: Machine) -> None:
        self.shared_state = shared
        self.n = n = machine.batch.shape.n
        self.n_ctas = n_ctas = machine.batch.shape.n_ctas
        self.base = shared.bases[-1] + n if shared.bases else 0
        shared.bases.append(self.base)
        shared.batches.append(self)
        self._cells = Cells(machine.batch.shared.size, n_ctas)
        self._recent: dict[tuple[bool, int, int, Rect], int] = {}
        self._synced: dict[Selection, int] = {}
        """When threads last accessed one place (whether they wrote, its address and size), and synchronised: not noted yet."""
        self.touched = np.zeros((2, (machine.batch.shared.size >> PAGE) + 1), np.bool_)
        """Which parts of shared memory have been written and read (`KINDS`) in any CTA. Views of the rows are not kept: a snapshot
        would copy them apart."""
        self.isolated = machine.launch.cluster == (1, 1, 1)
        self.writers = np.zeros(n, np.bool_)
        self._settled: int | None = 0
        self.fence_time = {space: np.zeros(n, np.int64) for space in SPACES}
        self.fence_sync = {space: np.zeros(n, np.int64) for space in SPACES}
        self.sync_time = np.zeros(n, np.int64)
        self.floor = {space: np.zeros(n_ctas, np.int64) for space in SPACES}
        self.cta_time = np.zeros(n, np.int64)
        self.fenced: dict[str, Fenced] = {}
        self.clocks: BatchClocks | None = None
        """Those of the race rule, if it is checked, which order fences exactly."""
        self._fence_step = 0
        self.maps_released = np.zeros(n, np.int64)
        """When each thread last released its changes of tensor maps."""
        self.maps_acquired: dict[int, Array] = {}
        """When each CTA last acquired which map."""
        self.maps_visible: dict[tuple[int, int], int] = {}
        """The last change, as its cell, that a CTA (by column) was found to see of the map at an address."""

    def __getstate__(self) -> dict[str, object]:
        self._note_recent()
        self._note_synced()
        return dict(vars(self))

    def tick(self, instruction: Instruction | None) -> int:
        """The time of a new event."""
        return self.shared_state.events.append(instruction)

    @property
    def cells(self) -> Cells:
        """The last accesses to shared memory."""
        if self._recent:
            self._note_recent()
        return self._cells

    # ---- the generic proxy -------------------------------------------------------------------

    def generic(
        self,
        group: Group,
        access: MemoryAccess,
        instruction: Instruction,
        *,
        rows: bool = False,
        synchronises: bool = False,
    ) -> None:
        """Note an access of lanes to shared memory, a store to global memory, or matrix ``rows`` ``[n, k, m]`` of warps; and that the
        threads synchronise with others by it."""
        selection = group.selection
        if (
            type(access.at) is int
            and access.active is None
            and type(selection) is Rect
            and access.columns is selection.columns
        ):
            # all threads access one place, as at every wait for an mbarrier: noted later, if at all, and without calls
            write = access.kind != READ
            use, recent, synced = (write, access.at, access.nbytes, selection), self._recent, self._synced
            if (use not in recent or selection not in synced) and max(len(recent), len(synced)) >= MOST_RECENT:
                self._note_recent()
                self._note_synced()
                recent, synced = self._recent, self._synced
            recent[use] = time = self.shared_state.events.append(instruction, None)
            if synchronises:
                synced[selection] = time + 1
            self.touched[0 if write else 1, access.at >> PAGE] = True
            return
        at = access.at if type(access.at) is np.ndarray else access.places
        columns, threads, cells, write = access.columns, selection.positions, self.cells, access.kind != READ
        if access.allocation is not None:
            cells = cells_of(self.shared_state.cells, access.allocation)
            at, columns = at - access.allocation.start, np.zeros(1, np.int64)
        if rows:
            threads = group.warps.first_thread.reshape(-1, 1, 1) * self.n_ctas + columns
        elif not write and access.active is None and columns.shape[:2] == (at.shape[:2] or (1, 1)) == (1, 1):
            threads = threads[-1:, -1:]  # all read the same, and the last is remembered
        shape = np.broadcast(at, threads).shape if rows else threads.shape
        if rows or access.active is not None:
            at, columns, threads = (spread(x, shape) for x in (at, columns, threads))
        if access.active is not None:
            mask = spread(access.active, shape)
            at, columns, threads = at[mask], columns[mask], threads[mask]
        self._leave(cells, at, access.nbytes, columns, threads, instruction, write=write)
        if synchronises:
            self.synchronised(group)

    def _note_recent(self) -> None:
        """Note such accesses: the last thread of each CTA is remembered."""
        recent, self._recent, cells = self._recent, {}, self._cells
        for (write, at, nbytes, selection), time in sorted(recent.items(), key=itemgetter(1)):
            threads = selection.positions
            if nbytes % cells.granule:
                cells.fit(nbytes)
            kept = cells.of("write" if write else "read").reshape(-1, cells.width)
            if write:
                self.writers[threads] = True
                self._settled = None
            first = at // cells.granule
            epoch = time << SHIFT | threads[-1, -1].reshape(-1) + self.base
            kept[first : first + nbytes // cells.granule, selection.run] = epoch

    def _leave(
        self,
        cells: Cells,
        at: Array,
        nbytes: int,
        columns: Array,
        threads: Array,
        instruction: Instruction,
        *,
        write: bool,
    ) -> None:
        cells.fit(nbytes)
        epoch = (self.shared_state.events.append(instruction) << SHIFT | (threads + self.base)).reshape(-1)
        index = spread(at // cells.granule * cells.width + columns, threads.shape).reshape(-1)
        kind = "write" if write else "read"
        kept = cells.of(kind)
        if cells is self._cells:
            if at.size:
                low, high = int(np.minimum.reduce(at, axis=None)), int(np.maximum.reduce(at, axis=None))
                self.touched[KINDS[kind], low >> PAGE : (high + nbytes - 1 >> PAGE) + 1] = True
            if write:
                self.writers[threads] = True
                self._settled = None
        for k in range(nbytes // cells.granule):
            kept[index + k * cells.width] = epoch

    def landed(self, transfer: Transfer, which: Array) -> None:
        """Note completed ``cp.async`` copies; only a later fence covers what they wrote."""
        if transfer.writes is None:
            return
        nbytes = transfer.writes.nbytes
        step = min(nbytes & -nbytes, 16)
        at = transfer.writes.start[which][:, None] + np.arange(0, nbytes, step)
        where, threads = (spread(x[which][:, None], at.shape) for x in (transfer.writes.columns, transfer.positions))
        self._leave(self.cells, at, step, where, threads, transfer.place or present(transfer.group), write=True)

    # ---- the async proxy ---------------------------------------------------------------------

    def copies(self, machine: Machine, transfer: Transfer) -> None:
        """Check what starting bulk copies read and write."""
        group, positions = transfer.group, transfer.positions
        if self.shared_state.cells:
            self._between_globals(machine, transfer)
        for footprint, write in ((transfer.reads, False), (transfer.writes, True)):
            if footprint is None or not footprint.start.size:
                continue
            low, high = footprint.low, footprint.high
            pages = slice(low >> PAGE if low > 0 else 0, (high - 1 >> PAGE) + 1)
            if not np.logical_or.reduce(self.touched[: 1 + write, pages], axis=None):
                continue
            cells, wanted = self.cells, ("write", "read")[: 1 + write]
            known = [(kind, seen) for kind, seen in cells.kinds.items() if kind in wanted]
            kinds = [kind for kind, seen in known if np.logical_or.reduce(self._part(seen, low, high))]
            if not kinds:
                continue
            step = footprint.nbytes & -footprint.nbytes & LARGEST - 1 or LARGEST
            if step < cells.granule:
                cells.fit(step)
            if self._all_passed and self._all_covered(kinds, footprint, clear=write):
                continue
            at = footprint.start[:, None] + np.arange(0, footprint.nbytes, step)
            users = footprint.of_runs(positions)
            where, users = (spread(x[:, None], at.shape) for x in (footprint.columns, users))
            self._meet(machine, Uses(group, self.cells, at, where, step, users, write=write))

    def _all_covered(self, kinds: list[str], footprint: Footprint, *, clear: bool) -> bool:
        """Whether what these cells of a footprint tell of is fenced; then they may be ``clear``."""
        cells, blocks = self._cells, self._blocks(footprint)
        if not blocks:
            return False
        for kind in kinds:
            seen = cells.kinds[kind]
            for block in blocks:
                if not self._covered(seen, *block):
                    return False
        for low, high, columns in blocks if clear else ():
            for kind in kinds:
                self._part(cells.of(kind), low, high).reshape(-1, self.n_ctas)[:, columns] = 0
        return True

    def _blocks(self, footprint: Footprint) -> list[tuple[int, int, Array | slice]]:
        """Runs of a footprint that begin at the same places: first byte, end, and columns; none if there are many."""
        if footprint.at is not None:
            every = footprint.run == slice(0, self.n_ctas) if type(footprint.run) is slice else False
            return [(footprint.low, footprint.high, slice(None) if every else footprint.run)]
        starts = distinct(footprint.start).tolist()
        if len(starts) > FEW:
            return []
        found: list[tuple[int, int, Array | slice]] = []
        for start in starts:
            columns = footprint.columns[footprint.start == start]
            every = len(columns) == self.n_ctas and bool((columns == np.arange(self.n_ctas)).all())
            found.append((start, start + footprint.nbytes, slice(None) if every else columns))
        return found

    def _covered(self, seen: Array, low: int, high: int, columns: Array | slice) -> bool:
        """Whether what these cells tell of is fenced: by each thread itself, or after a barrier of its CTA."""
        cells = self._part(seen, low, high).reshape(-1, self.n_ctas)[:, columns]
        newest = np.maximum.reduce(cells)
        if self.isolated and np.logical_and.reduce(newest >> SHIFT < self.floor["shared"][columns]):
            return True
        fenced = self.fence_time["shared"].take((cells & THREAD) - self.base, mode="clip")
        return bool(np.logical_and.reduce((fenced > cells >> SHIFT) | (cells == 0), axis=None))

    def matrix(
        self,
        machine: Machine,
        group: Group,
        address: Array,
        columns: Array,
        limits: tuple[int, int],
        *,
        tell: bool = True,
    ) -> bool:
        """Check shared memory that the warpgroups of the step read: element addresses ``[..., n, m]`` within ``limits``. Whether
        there was something to ``tell``."""
        if self._all_passed and self._is_settled(*limits):
            return False
        n_ctas, first = self.n_ctas, group.warps.first_thread[::4].reshape(-1, 1)
        rows = address.reshape(-1, *address.shape[-2:]) & ~15
        shape = np.broadcast(rows, columns, first).shape
        at, where, users = (spread(x, shape) for x in (rows, columns, first * n_ctas + columns))
        return self._meet(machine, Uses(group, self.cells, at, where, 16, users, lanes=128), tell=tell)

    @property
    def _all_passed(self) -> bool:
        """Whether nothing need be asked of the order of fences: it is not known, or a barrier has followed the last."""
        return self.clocks is None or self._fence_step < self.clocks.order.floor

    def _is_settled(self, low: int, high: int) -> bool:
        """Whether all generic writes to ``[low, high)`` of shared memory are fenced for everyone: by each writing
        thread, or after a barrier of each CTA."""
        if not self._touched("write", low, high):
            return True
        seen = self.cells.kinds["write"]
        newest = int(self._part(seen, low, high).max(initial=0))
        if not newest:
            return True
        if self._settled is None:
            self._settled = int(self.fence_time["shared"][self.writers].min(initial=self._now))
            if self.isolated:
                self._settled = max(self._settled, int(self.floor["shared"].min()))
        return newest >> SHIFT < self._settled

    def wrote(self, at: Array, columns: Array) -> Array:
        """A mask of addresses in columns where threads have written any of 16 bytes since a bulk copy did."""
        seen, granule = self.cells.kinds.get("write"), self.cells.granule
        if seen is None:
            return np.zeros(np.broadcast_shapes(at.shape, columns.shape), np.bool_)
        parts = np.arange(LARGEST // granule)
        index = (at // granule)[..., None] + parts
        found: Array = (seen[index * self.cells.width + columns[..., None]] != 0).any(axis=-1)
        return found

    def _touched(self, kind: str, low: int, high: int) -> bool:
        """Whether threads may have accessed ``[low, high)`` of shared memory."""
        pages = slice(low >> PAGE if low > 0 else 0, (high - 1 >> PAGE) + 1)
        return bool(np.logical_or.reduce(self.touched[KINDS[kind], pages]))

    def _part(self, seen: Array, low: int, high: int) -> Array:
        """The cells of ``[low, high)`` of shared memory in all columns."""
        granule, width = self._cells.granule, self._cells.width
        return seen[low // granule * width : -(-high // granule) * width]

    @property
    def _now(self) -> int:
        return self.shared_state.events.n

    def _between_globals(self, machine: Machine, transfer: Transfer) -> None:
        """Check what starting bulk copies read and write of global memory."""
        group, positions = transfer.group, transfer.positions
        for source in sources_of(transfer):
            self._globals(machine, group, source.extent, source.starters(positions), write=False)
        if transfer.target is not None:
            self._globals(machine, group, transfer.target, positions, write=True)

    def _globals(self, machine: Machine, group: Group, extent: GlobalTarget, starters: Array, *, write: bool) -> None:
        """Check the runs or boxes of global memory that bulk copies of these threads access."""
        allocation = machine.launch.memory.find(extent.low, extent.high)
        cells = None if allocation is None else self.shared_state.cells.get(allocation.number)
        if allocation is None or cells is None:
            return
        low, high = (place - allocation.start for place in (extent.low, extent.high))
        if cells.kinds["write"][low // cells.granule : -(-high // cells.granule)].any():
            at, runs, size = extent.runs()
            where, users = np.zeros(1, np.int64), starters[runs]
            uses = Uses(group, cells, at - allocation.start, where, size, users, allocation=allocation, write=write)
            self._meet(machine, uses)

    def _meet(self, machine: Machine, uses: Uses, *, tell: bool = True) -> bool:
        """Compare async accesses with earlier generic ones. Whether there was something to ``tell``."""
        cells, found = uses.cells, False
        cells.fit(uses.nbytes)
        index = (uses.at // cells.granule * cells.width + uses.columns).reshape(-1)
        place = index[:, None] + cells.width * np.arange(uses.nbytes // cells.granule)
        for kind in ("write", "read") if uses.write else ("write",):
            seen = cells.kinds.get(kind)
            if seen is not None:
                found |= self._check(machine, uses, seen[place], kind, tell=tell)
                if uses.write:
                    cells.of(kind)[place] = 0
        return found

    def _check(self, machine: Machine, uses: Uses, seen: Array, kind: str, *, tell: bool) -> bool:
        """Compare async accesses with what the cells of each have ``seen`` of generic ones."""
        run, part = np.nonzero(seen)
        if not len(run):
            return False
        times, threads, users = seen[run, part] >> SHIFT, seen[run, part] & THREAD, uses.users.reshape(-1)[run]
        n_ctas, space = self.n_ctas, uses.space
        bad = self.shared_state.fenced(threads, space) <= times
        inside = (threads >= self.base) & (threads < self.base + self.n)
        column = users % n_ctas
        near = inside & ((threads - self.base) % n_ctas == column)
        bad &= ~(near & (self.floor[space][column] > times))
        if bad.any():
            bad[bad] = ~self._fenced_by_user(users[bad], threads[bad] - self.base, times[bad], space, uses.lanes)
        apart = not bad.any()
        if apart and kind == "write":  # what reads race with, race reports
            bad = self._fenced_apart(users, threads - self.base, times, near, uses)
        if not (tell and bad.any()):
            return bool(bad.any())
        which = int(np.flatnonzero(bad)[0])
        earlier = self.shared_state.access(kind, int(times[which]), int(threads[which]))
        at = int(uses.at.reshape(-1)[run[which]]) + uses.cells.granule * int(part[which])
        report_access(machine, uses, earlier, at, users[bad] if uses.lanes == 1 else None, apart=apart)
        return True

    def _fenced_apart(self, users: Array, writers: Array, times: Array, near: Array, uses: Uses) -> Array:
        """Which accesses to what ``near`` threads of the CTA wrote are fenced only by threads whose fence nothing orders before them."""
        bad = np.zeros(len(users), np.bool_)
        if self._all_passed or uses.space not in self.fenced:
            return bad
        some = np.flatnonzero(near)
        ends = users[some], users[some] + (uses.lanes - 1) * self.n_ctas
        fenced, clocks = self.fenced[uses.space], self.clocks
        assert clocks is not None
        some = some[~fenced.by_writers(clocks, ends, writers[some], times[some])]
        some = some[~self._fenced_by_user(users[some], writers[some], times[some], uses.space, uses.lanes)]
        if len(some):
            asked, which = np.unique(np.stack([users, writers, times])[:, some], axis=1, return_inverse=True)
            found = [
                fenced.apart(clocks, np.array([user, user + (uses.lanes - 1) * self.n_ctas]), writer, time)
                for user, writer, time in asked.T.tolist()
            ]
            bad[some] = np.array(found, np.bool_)[which.reshape(-1)]
        return bad

    def _fenced_by_user(self, users: Array, writers: Array, times: Array, space: str, lanes: int) -> Array:
        """Whether an accessing thread has synchronised after the write, or shares the writer's warp, and has fenced
        since."""
        n_ctas = self.n_ctas
        thread, column, writer = users // n_ctas, users % n_ctas, writers // n_ctas
        synced = self._latest(self.fence_sync[space], lanes)[thread // lanes, column]
        together = max(lanes, 32)
        near = (writers % n_ctas == column) & (writer // together == thread // together)
        at_all = self._latest(self.fence_time[space], 32 if lanes > 1 else 1)
        fenced = at_all[np.where(near, writer, 0) >> 5 if lanes > 1 else thread, column]
        found: Array = (synced > times) | (near & (fenced > times))
        return found

    def _latest(self, times: Array, lanes: int) -> Array:
        """The latest of each ``lanes`` consecutive threads, ``[n / lanes, n_ctas]``."""
        rows = times.reshape(-1, self.n_ctas)
        if lanes == 1:
            return rows
        latest: Array = np.maximum.reduceat(rows, np.arange(0, len(rows), lanes), axis=0)
        return latest

    # ---- order -------------------------------------------------------------------------------

    def fence(self, positions: Array, spaces: tuple[str, ...]) -> None:
        """Note ``fence.proxy.async`` of threads."""
        self._note_synced()
        now = self.tick(None)
        if self.clocks is not None:
            self._fence_step = self.clocks.now_apart()
        for space in spaces:
            self.fence_time[space][positions] = now
            self.fence_sync[space][positions] = self.sync_time[positions]
            np.maximum.at(self.floor[space], positions % self.n_ctas, self.cta_time[positions])
            if self.clocks is not None:
                fenced = self.fenced.setdefault(space, Fenced(self.n))
                fenced.add(positions, now, self.cta_time[positions], self._fence_step)
        self._settled = None

    def barrier(self, group: Group | None) -> None:
        """Note that threads (None: all) passed a barrier of their CTA."""
        if group is None:
            self._note_synced()
            self.cta_time[...] = self.sync_time[...] = self.tick(None)
        else:
            self.synchronised(group)
            self.cta_time[group.selection.positions] = self._synced[group.selection]

    def synchronised(self, group: Group) -> None:
        """Note that threads synchronised with others in some way: later, if at all."""
        if len(self._synced) > MOST_RECENT:
            self._note_synced()
        self._synced[group.selection] = self.shared_state.events.append(None)

    def _note_synced(self) -> None:
        synced, self._synced = self._synced, {}
        for selection, time in sorted(synced.items(), key=itemgetter(1)):
            self.sync_time[selection.positions] = time

    # ---- tensor maps ---------------------------------------------------------------------------

    def acquire_maps(self, addresses: Array, columns: Array) -> None:
        """Acquire the maps at these addresses for CTAs."""
        now = self.tick(None)
        for address, column in zip(addresses.tolist(), columns.tolist(), strict=True):
            self.maps_acquired.setdefault(address, np.zeros(self.n_ctas, np.int64))[column] = now

    def check_maps(
        self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None
    ) -> None:
        """Report changes of the maps at ``addresses`` that no such pair of fences made visible to the CTAs (at
        ``columns``, one for each address) that use them. What a CTA was once allowed to use, it may use again until it changes."""
        memory, shared = machine.launch.memory, self.shared_state
        if not shared.cells:
            return
        first = addresses.item(0)
        if (addresses == first).all():
            allocation = memory.find(first, first + MAP_BYTES)
            if allocation is None or allocation.number not in shared.cells:
                return
        owners = memory.owners(addresses, MAP_BYTES)
        for owner in distinct(owners[owners >= 0]).tolist():
            allocation, mine = memory.allocation(owner), np.flatnonzero(owners == owner)
            cells = shared.cells.get(allocation.number)
            if cells is None or "write" not in cells.kinds:
                continue
            first = (addresses[mine] - allocation.start) // cells.granule
            changes = cells.kinds["write"][first[:, None] + np.arange(MAP_BYTES // cells.granule)].max(axis=1)
            new: dict[tuple[int, int], list[int]] = {}
            uses = zip(addresses[mine].tolist(), columns[mine].tolist(), changes.tolist(), strict=True)
            for address, column, change in uses:
                if self.maps_visible.get((address, column)) != change:
                    new.setdefault((address, change), []).append(column)
            for (address, change), users in new.items():
                lacking, of = self._lacking(address, change, np.array(users))
                if not lacking:
                    self.maps_visible.update({(address, column): change for column in users})
                    continue
                earlier = shared.access("write", change >> SHIFT, change & THREAD)
                message = (
                    f"the tensor map at byte {address - allocation.start} of {allocation.name} was changed in line"
                    f" {earlier.instruction.span.line}, and the CTA uses it without a"
                    f" fence.proxy.tensormap::generic.{lacking}"
                )
                other = earlier.finding(machine, "changed here")
                lanes = np.isin(group.selection.positions % self.n_ctas, of)
                lanes = lanes if active is None else lanes & active
                machine.fault(RULE, message, group, lanes, address=address, other=other, advice=MAP_ADVICE)

    def _lacking(self, address: int, change: int, columns: Array) -> tuple[str, Array]:
        """Which fence a change of a map lacks to be visible to CTAs, if any: a release, or an acquire by each of them; and to which it
        is not."""
        time, thread = change >> SHIFT, change & THREAD
        event, owner = self.shared_state.events[time], self.shared_state.owner(thread)
        if event is None:
            return "", columns[:0]
        if "cp_fenceproxy" not in event.text and int(owner.maps_released[thread - owner.base]) <= time:
            return "release of the thread that changed it", columns
        acquired = self.maps_acquired.get(address)
        left = columns if acquired is None else columns[acquired[columns] <= time]
        return "acquire of its own" if left.size else "", left


class ProxyFences(Watcher):
    """Passes events to the proxy state of each batch."""

    def batch_began(self, machine: Machine) -> None:
        """Make a state for each batch."""
        shared = machine.launch.notes.get(OF_LAUNCH)
        if shared is None:
            shared = machine.launch.notes[OF_LAUNCH] = LaunchProxies()
        machine.batch.notes[PROXIES] = proxies = Proxies(shared, machine)
        if RACE in machine.launch.settings.checks:
            from warpsim.checks.race.detector import races_of

            proxies.clocks = races_of(machine).clocks

    def _proxies(self, machine: Machine) -> Proxies:
        return machine.batch.notes[PROXIES]

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note accesses through the generic proxy."""
        instruction, proxies = group.instruction, machine.batch.notes[PROXIES]
        traits = instruction.traits
        synchronises = traits.polls or traits.scope == "cluster"
        if access.kind == WRITE if access.allocation is not None else access.space != "local":
            proxies.generic(group, access, instruction, synchronises=synchronises)
        elif synchronises:
            proxies.synchronised(group)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note matrix rows."""
        self._proxies(machine).generic(group, access, present(group), rows=True)

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Follow products that read what may have no fence."""
        proxies, columns = self._proxies(machine), group.warps.columns
        for limits, address in zip(chain.tiles.limits, chain.tiles.chunks, strict=True):
            chain.followed |= proxies.matrix(machine, group, address, columns, limits, tell=False)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Check what wgmma reads through the async proxy."""
        if not machine.delivering:
            self._proxies(machine).matrix(machine, group, address, columns, limits)

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Note proxy fences; other fences synchronise."""
        traits = instruction.traits
        if traits.fence is not None and traits.fence.proxy == "async":
            named = tuple([space for space in SPACES if space in traits.spaces])
            positions = group.selection.positions
            chosen = positions if active is None else positions[spread(active, positions.shape)]
            self._proxies(machine).fence(chosen.reshape(-1), named or SPACES)
        else:
            self._proxies(machine).synchronised(group)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note threads that passed a barrier."""
        if partial and group is not None:
            self._proxies(machine).synchronised(group)
        else:
            self._proxies(machine).barrier(group)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        self._proxies(machine).synchronised(group)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies through the async proxy."""
        if transfer.asynchronous:
            machine.batch.notes[PROXIES].copies(machine, transfer)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that cp.async has written through the generic proxy."""
        if transfer.kind == "cp.async":
            self._proxies(machine).landed(transfer, which)

    def map_changed(self, machine: Machine, group: Group, positions: Array) -> None:
        """Note released changes of tensor maps."""
        proxies = self._proxies(machine)
        proxies.maps_released[positions] = proxies.tick(None)

    def map_acquired(self, machine: Machine, group: Group, addresses: Array, columns: Array) -> None:
        """Note acquired tensor maps."""
        self._proxies(machine).acquire_maps(addresses, columns)

    def changing_map_used(
        self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None
    ) -> None:
        """Check the use of tensor maps."""
        machine.batch.notes[PROXIES].check_maps(machine, group, addresses, columns, active)
