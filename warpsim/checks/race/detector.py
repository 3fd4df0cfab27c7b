"""The race rule: two accesses to the same byte by different threads, at least one a write, that nothing orders.

Every access of a step arrives from the memory ports, as arrays over its lanes; synchronisation goes to `BatchClocks`.
`Order` is the happens-before relation, `Cells` the last accesses.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from warpsim.analysis.verified_loads import kept_bits
from warpsim.checks.async_global import GlobalSources, Source, changed, clashing, sources_of
from warpsim.checks.async_reuse import unfinished_reads
from warpsim.checks.cells import SHIFT, THREAD, Cells, cells_of, note_strided
from warpsim.checks.found import known_of
from warpsim.checks.race import RULE as RACE
from warpsim.checks.race import unused
from warpsim.checks.race.accesses import AccessChecks, Accesses
from warpsim.checks.race.clocks import CLUSTER, CTA, GPU, BatchClocks, LaunchRaces, Role, alike
from warpsim.checks.race.flags import FlagAccess, Flags
from warpsim.checks.race.order import BOTH
from warpsim.checks.race.reports import Reports, check_exit
from warpsim.checks.undefined_registers import travels
from warpsim.errors import Finding
from warpsim.isa.traits import Access
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.collectives import Members
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import ends_launch, present
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Footprint, GlobalTarget, Transfer
from warpsim.machine.values import Affine, Array, as_array
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction

OF_LAUNCH: Note[LaunchRaces] = Note(RACE)
RACES: Note[Races] = Note(RACE)
KEPT = 4096
"""Number of copies from an allocation that are kept until somebody writes near what they have read."""
WAITING = 256
"""Number of reads of shared memory that may wait."""


class Races:
    """The detector of a batch. Threads in shared cells are numbered within the batch, those in global cells within the
    launch."""

    def __init__(self, shared: LaunchRaces, machine: Machine) -> None:
        self.clocks = BatchClocks(shared, machine)
        self.flags = Flags(self.clocks)
        self.reports = Reports(self.clocks)
        self.checks = AccessChecks(self.clocks, self.reports)
        self.sources = GlobalSources()
        """What copies in flight read in global memory."""
        self._reads: list[tuple[MemoryAccess, Selection, int]] = []
        """Reads of shared memory that raced with nothing, and their times, recorded where anything but a barrier of the CTAs
        comes next."""
        self._quiet: bool | None = None
        """Whether barriers of the CTAs order all writes of shared memory before what comes now; None if that is not known."""

    def settle(self) -> None:
        """Record the reads that wait, before threads write shared memory, or synchronise otherwise than at a barrier of their
        CTAs."""
        self._quiet = None
        reads, self._reads = self._reads, []
        for access, selection, time in reads:
            self.checks.note_reads(*self._of_one_cta(access, selection), time)

    def all_passed(self) -> None:
        """Note that all threads passed a barrier of their CTAs: it orders the reads that wait before all that follows."""
        self._reads.clear()
        self.settle()
        self.clocks.launch.step = None
        self.clocks.cta_barrier(None)

    def _waits(self, access: MemoryAccess) -> bool:
        """Whether a read of shared memory need not be recorded yet."""
        clocks = self.clocks
        if access.writes or clocks.role.level or clocks.role.flag or clocks.clustered or clocks.launch.any_contents:
            return False
        if self._quiet is None:
            kinds, begin = clocks.shared_cells.kinds, clocks.order.floor << SHIFT
            self._quiet = all(kinds[k].max() < begin for k in ("write", "strong") if k in kinds)
        return self._quiet

    # ---- accesses from the ports -------------------------------------------------------------

    def shared(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check an access to shared memory, whose places broadcast over the lanes with its columns."""
        selection, columns, active = group.selection, access.columns, access.active
        kept = self._kept(machine, group)
        if self.clocks.order.uniform:
            same = isinstance(selection, Rect) and selection.all_ctas and columns is selection.columns
            if kept is None and same and alike(access.at) and (active is None or alike(active)):
                if len(self._reads) < WAITING and self._waits(access):
                    self._reads.append((access, selection, self.clocks.now))
                    return
                self.settle()
                self.checks.lanes(machine, group, *self._of_one_cta(access, selection))
                self._flag(group, self.clocks.shared_cells, access, access.places, columns)
                return
            self.settle()
            self.clocks.widen()
        at, cells, threads = access.places, self.clocks.shared_cells, selection.positions
        shape = np.broadcast_shapes(at.shape, columns.shape)
        if len(shape) < len(selection.shape):
            shape = selection.shape
        at, columns = np.broadcast_to(at, shape), np.broadcast_to(columns, shape)
        accesses = Accesses(cells, at, access.nbytes, threads, threads, columns, write=access.writes)
        self._lanes(machine, group, accesses, active, kept)
        self._flag(group, cells, access, at, columns)

    def _kept(self, machine: Machine, group: Group) -> Array | None:
        """What an atomic of part of a word leaves alone of it, as a mask of its bits; None if the access is of nothing of the kind."""
        if not self.clocks.role.level:
            return None
        here = present(group)
        mask = known_of(machine.launch.plan, kept_bits).get(here.span)
        if mask is None:
            return None
        kept = as_array(group.value(mask))
        if here.traits.access is Access.ATOMIC:
            comparand, new = (as_array(group.value(operand)) for operand in here.operands[-2:])
            kept = kept & ~(comparand ^ new)
        return kept

    def _lanes(
        self, machine: Machine, group: Group, accesses: Accesses, active: Array | None, kept: Array | None
    ) -> None:
        """Check accesses of lanes, of which the bytes that are ``kept`` do not count."""
        if kept is None:
            self.checks.lanes(machine, group, accesses, active)
            return
        for byte in range(accesses.nbytes):
            counts = kept >> 8 * byte & 255 != 255
            counts = np.broadcast_to(counts if active is None else counts & active, group.selection.shape)
            self.checks.lanes(machine, group, accesses._replace(at=accesses.at + byte, nbytes=1), counts)

    def _of_one_cta(self, access: MemoryAccess, selection: Selection) -> tuple[Accesses, Array | None]:
        """An access that is the same in all CTAs as that of one, and the lanes that make it."""
        at, active, threads = access.places, access.active, selection.threads[:, :, 0, 0]
        at = at.reshape(at.shape[:2]) if at.ndim == 4 else at.reshape(1, 1)
        accesses = Accesses(self.clocks.shared_cells, at, access.nbytes, threads, threads, write=access.writes)
        return accesses, None if active is None else active[:, :, 0, 0]

    def _flag(self, group: Group, cells: Cells, access: MemoryAccess, at: Array, columns: Array | None) -> None:
        start = 0 if access.allocation is None else access.allocation.start
        reads, writes = access.kind != WRITE and self.clocks.launch.access(-1).form.n_dest > 0, access.writes
        if self.clocks.role.flag if access.allocation is None else self.clocks.role.level:
            self.flags.strong(FlagAccess(group, cells, at, access.active, columns, start, reads, writes))

    def rows(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows ``[n, k, m]``: the whole warp accesses each of them."""
        warps, place, columns, write = group.warps, access.places, access.columns, access.writes
        lanes = np.where(warps.active, warps.spread(group.selection.positions), -1)
        first = np.where(lanes < 0, self.clocks.shape.n, lanes).min(axis=1, keepdims=True)
        last = lanes.max(axis=1, keepdims=True)
        uniform, active = self.clocks.order.uniform, access.active
        same = active is None or bool((active == active[:, :, :1]).all())
        if uniform and same and place.shape[2] == 1 and warps.dense and columns.size == self.clocks.n_ctas:
            active = None if active is None else active[:, :, :1]
            n_ctas = self.clocks.n_ctas
            first, last, columns = first[:, :, :1] // n_ctas, last[:, :, :1] // n_ctas, np.zeros((1, 1, 1), np.int64)
        elif uniform:
            self.clocks.widen()
        last = first if write else last  # one thread stands for the warp, which writes each row together
        shape = np.broadcast_shapes(place.shape, first.shape, columns.shape)
        at, first, last, columns = (np.broadcast_to(x, shape) for x in (place, first, last, columns))
        if active is not None:
            mask = np.broadcast_to(active, shape)
            at, first, last, columns = at[mask], first[mask], last[mask], columns[mask]
        if not write:
            self._look(machine, at, columns)
        accesses = Accesses(self.clocks.shared_cells, at, access.nbytes, first, last, columns, write=write)
        self.checks.flat(machine, group, accesses)
        self.reports.settle(machine, group, None, None)

    def _look(self, machine: Machine, address: Array, columns: Array) -> None:
        """Find rows that are undefined in this run."""
        again = machine.launch.notes.get(unused.AGAIN)
        if again is not None:
            again.look(address, columns, self.clocks.now, self.clocks.launch.access(-1))

    def globals(self, machine: Machine, group: Group, allocation: Allocation, access: MemoryAccess) -> None:
        """Check an access to one allocation of global memory: absolute addresses that broadcast over the group."""
        if allocation.read_only:
            return
        cells = cells_of(self.clocks.launch.cells, allocation)
        if cells.written and self.clocks.launch.access(-1).traits.constant:
            self._read_only(machine, group, cells, allocation, access)
        if access.writes and (self.sources.busy or allocation.number in self.clocks.launch.copied):
            place = access.places
            self._note_copied(allocation, int(place.min()), int(place.max()) + access.nbytes)
            if self.sources.busy:
                shape = group.selection.shape
                for use, found in self.sources.overlaps(place, access.nbytes, shape, access.active):
                    self.reports.report_source(machine, group, int(np.broadcast_to(place, shape)[found][0]), found, use)
        write, nbytes, selection, base = access.writes, access.nbytes, group.selection, self.clocks.base
        if (
            not self.clocks.role.level and type(access.at) is Affine and access.active is None and not cells.sets_aside
            and note_strided(cells, allocation, access.at, nbytes, selection, base, self.clocks.now, write=write)
        ):  # fmt: skip
            return
        threads = selection.positions + base
        accesses = Accesses(
            cells, access.places - allocation.start, nbytes, threads, threads, allocation=allocation, write=write
        )
        self._lanes(machine, group, accesses, access.active, self._kept(machine, group))
        self._flag(group, cells, access, access.places, None)

    def _read_only(
        self, machine: Machine, group: Group, cells: Cells, allocation: Allocation, access: MemoryAccess
    ) -> None:
        """Report loads of what this launch has written that may be answered by a cache which does not see writes."""
        shape, nbytes = group.selection.shape, access.nbytes
        cells.fit(nbytes)
        index = (np.broadcast_to(access.places, shape) - allocation.start) // cells.granule
        writers = [cells.of(kind) for kind in ("write", "strong") if kind in cells.kinds]
        runs = range(nbytes // cells.granule)  # clip: lanes that are not active may be anywhere
        seen = np.max([w.take(index + k, mode="clip") for w in writers for k in runs], axis=0)
        if access.active is not None:
            seen = np.where(access.active, seen, 0)
        if seen.any():
            self.reports.report_read_only(machine, group, allocation, access.places, seen)

    def matrix(self, machine: Machine, group: Group, address: Array, columns: Array, part: Array | None) -> None:
        """Check shared memory that the warpgroups of the step read: element addresses ``[..., n, m]``, by all threads or, given
        a ``part`` of each, by those of this warp."""
        self.clocks.widen()
        self.clocks.order.wgmma_reads()
        warps, n_ctas = group.warps, self.clocks.n_ctas
        start = warps.first_thread[::4].reshape(-1, 1)
        rows = address & ~15
        if part is not None:  # in the bits that the address of a row leaves free
            rows = rows | part
        rows = rows.reshape(-1, *rows.shape[-2:])
        if rows.shape[1:] == (1, 1):
            rows = distinct(rows).reshape(-1, 1, 1)
        start = start + 32 * (rows & 15)
        shape = np.broadcast_shapes(rows.shape, columns.shape, start.shape)
        at, where, first = (np.broadcast_to(x, shape).reshape(-1) for x in (rows & ~15, columns, start))
        if travels(machine.launch.settings.checks):  # what a copy in flight writes is undefined, not a race
            limits = int(at.min()), int(at.max()) + 16
            early = [found for found, _ in unfinished_reads(machine, at, where, limits, 16)]
            kept = np.delete(np.arange(at.size), np.concatenate(early)) if early else ...
            at, where, first = at[kept], where[kept], first[kept]
        self._look(machine, at, where)
        readers = (self.clocks.shape.n_threads + (first >> 7)) * n_ctas + where
        first, last = first * n_ctas + where, (first + (127 if part is None else 31)) * n_ctas + where
        self.checks.flat(machine, group, Accesses(self.clocks.shared_cells, at, 16, first, last, where, others=readers))

    # ---- asynchronous copies -----------------------------------------------------------------

    def copies(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting asynchronous copies as accesses of the threads that start them."""
        self.checks.copying = transfer.asynchronous
        copies = self._copies_of(transfer)
        for footprint, write in ((transfer.reads, False), (transfer.writes, True)):
            if footprint is not None:
                self._copy(machine, transfer, footprint, copies, write=write, strong=write and transfer.reduces)
        for source in sources_of(transfer):
            self._read_later(machine, transfer, source, copies)
        if transfer.target is not None:
            self._stored(machine, transfer, transfer.target)
        self.checks.copying = False

        signal = transfer.signal
        if signal is not None:
            word = Footprint(signal.columns, np.broadcast_to(signal.address, signal.columns.shape), 8)
            self._copy(machine, transfer, word, None, write=True, strong=True)
        transfer.began = self.clocks.now, self.clocks.order.past_of(transfer.positions), copies

    def _copies_of(self, transfer: Transfer) -> Array | None:
        """The places of copies that count at mbarriers; those of others are of the threads that wait for them."""
        if transfer.signal is None or not self.clocks.launch.numbers.slots or not len(transfer.positions):
            return None
        return self.clocks.copies_of(transfer.positions, transfer.signal.columns, transfer.signal.address)

    def _read_later(self, machine: Machine, transfer: Transfer, source: Source, copies: Array | None) -> None:
        """Check what copies read in global memory against earlier writes, and keep it until somebody writes near there."""
        extent = source.extent
        allocation = machine.launch.memory.find(extent.low, extent.high)
        if allocation is None or allocation.read_only:
            return
        cells, starters = (
            cells_of(self.clocks.launch.cells, allocation),
            source.starters(transfer.positions) + self.clocks.base,
        )
        if cells.written:
            at, runs, size = extent.runs()
            who = starters[runs]
            others = None if copies is None else source.starters(copies)[runs] + self.clocks.base
            accesses = Accesses(cells, at - allocation.start, size, who, who, allocation=allocation, others=others)
            self.checks.flat(machine, transfer.group, accesses)
            return
        if copies is not None:
            starters = source.starters(copies) + self.clocks.base
        kept = self.clocks.launch.copied.setdefault(allocation.number, [])
        kept.append((extent, starters, self.clocks.now))
        if len(kept) > KEPT:
            self._note_copied(allocation, allocation.start, allocation.end)

    def _note_copied(self, allocation: Allocation, low: int, high: int) -> None:
        """Note copies that have read memory in ``[low, high)`` as its readers."""
        kept = self.clocks.launch.copied.pop(allocation.number, None)
        if kept is None:
            return
        near = [one for one in kept if one[0].low < high and low < one[0].high]
        if len(near) < len(kept):
            far = [one for one in kept if one[0].low >= high or low >= one[0].high]
            self.clocks.launch.copied[allocation.number] = far
        cells = cells_of(self.clocks.launch.cells, allocation)
        for extent, starters, time in near:
            at, runs, size = extent.runs()
            cells.fit(size)
            who = np.repeat(starters[runs], size // cells.granule)
            index = (at - allocation.start)[:, None] // cells.granule + np.arange(size // cells.granule)
            self.checks.note_earlier_readers(cells, index.reshape(-1), who, time << SHIFT | who)

    def _stored(self, machine: Machine, transfer: Transfer, target: GlobalTarget) -> None:
        """Check what copies write in global memory."""
        allocation = machine.launch.memory.find(target.low, target.high)
        if allocation is None or allocation.read_only:
            return
        self._note_copied(allocation, target.low, target.high)
        group, (at, runs, size) = transfer.group, target.runs()
        if self.sources.busy and len(at):
            for use, found in self.sources.overlaps(at, size, at.shape, None):
                lanes = np.isin(group.selection.positions, transfer.positions[runs[found]])
                self.reports.report_source(machine, group, int(at[found][0]), lanes, use)
        outer, who = self.clocks.role, transfer.positions[runs] + self.clocks.base
        if transfer.reduces:
            self.clocks.role = Role(GPU)
            self.clocks.launch.begin(self.clocks.launch.events[-1], GPU)
        cells = cells_of(self.clocks.launch.cells, allocation)
        accesses = Accesses(cells, at - allocation.start, size, who, who, allocation=allocation, write=True)
        self.checks.flat(machine, group, accesses)
        masks: list[Array | None] = [None, None]
        if self.reports.doubts and not transfer.reduces:
            which = changed(machine, transfer, allocation)
            masks = [np.isin(group.selection.positions, transfer.positions[receivers]) for receivers in which]
        self.reports.settle(machine, group, *masks)
        self.clocks.role = outer

    def _copy(
        self, machine: Machine, transfer: Transfer, footprint: Footprint, copies: Array | None, *, write: bool,
        strong: bool = False
    ) -> None:  # fmt: skip
        """Check runs of bytes of shared memory that ``copies`` (places; None: the threads that start them) access; a
        reduction, and one that counts at an mbarrier, is atomic."""
        outer, group = self.clocks.role, transfer.group
        if strong:
            self.clocks.role = Role(GPU)
            self.clocks.launch.begin(self.clocks.launch.events[-1], GPU)
        self.clocks.widen()
        step = min(footprint.nbytes & -footprint.nbytes, 16)
        at = (footprint.start[:, None] + np.arange(0, footprint.nbytes, step)).reshape(-1)
        users = footprint.of_runs(transfer.positions)
        who, where = (np.repeat(x, footprint.nbytes // step) for x in (users, footprint.columns))
        others = None if copies is None else np.repeat(footprint.of_runs(copies), footprint.nbytes // step)
        accesses = Accesses(self.clocks.shared_cells, at, step, who, who, where, write=write, others=others)
        self.checks.flat(machine, group, accesses)
        self.reports.settle(machine, group, None, clashing(transfer) if self.reports.doubts else None)
        self.clocks.role = outer

    def signalled(self, transfer: Transfer, which: Array) -> None:
        """Release copies, and what their threads knew when they started them, to who waits for the phases in which they
        count at their mbarriers."""
        self.settle()
        signal, positions = transfer.signal, transfer.positions[which]
        assert signal is not None
        time, past, copies = transfer.began or (self.clocks.now, None, None)
        own, phases = np.full(len(positions), time + 1), transfer.phase[which].astype(np.int64)
        copies = None if copies is None else copies[which]
        self.clocks.release_to(
            positions, signal.columns[which], signal.address[which], own, phases, past, copies=copies
        )

    def waited(self, transfer: Transfer, which: Array) -> None:
        """Order copies that a thread has waited for before what it does next."""
        if not len(which):
            return
        self.clocks.launch.begin(transfer.place, 0)
        cells, n_ctas = self.clocks.shared_cells, self.clocks.n_ctas
        ends = [(transfer.writes, "write"), (transfer.reads, "read")]
        if self.clocks.launch.any_contents:
            ends.append((transfer.reads, "other"))
        for footprint, kind in ends:
            if footprint is None or kind not in cells.kinds:
                continue
            positions, columns, start = transfer.positions[which], footprint.columns[which], footprint.start[which]
            if self.clocks.order.uniform:
                first = positions % n_ctas == 0
                positions, columns, start = positions[first] // n_ctas, columns[first] * 0, start[first]
            at = start[:, None] + np.arange(0, footprint.nbytes, cells.granule)
            index = (at // cells.granule * cells.width + columns[:, None]).reshape(-1)
            mine = np.repeat(positions, at.shape[1])
            still = cells.kinds[kind][index] & THREAD == mine
            cells.of(kind)[index[still]] = self.clocks.now << SHIFT | mine[still]
            if kind == "other" and cells.has_aside("read"):
                cells.last_until(index, mine, self.clocks.now)


LARGEST_SCALAR = 8
"""The memory consistency model knows scalars of up to so many bytes (memory operations on vector data types)."""
_SCOPES = {None: GPU, "cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


def role_of(instruction: Instruction) -> Role:
    """How strong an instruction's accesses are, and what they release and acquire."""
    order, flag, element = instruction.traits.order, instruction.traits.mbarrier is None, instruction.op.get("type")
    if not order.strong:
        return Role()
    if not flag:
        return Role(GPU, order.release, order.acquire, flag, _SCOPES[instruction.traits.scope])
    nbytes = 0 if element is None else {"x2": 2, "x4": 1}.get(element.name[-2:], element.bytes)
    level = _SCOPES[order.scope]
    return Role(level, order.release, order.acquire, flag, nbytes=nbytes if nbytes <= LARGEST_SCALAR else 0)


def fence_scope(instruction: Instruction) -> str | None:
    """The scope of a fence: "cta" or "gpu" ("sc" if it is a fence.sc of that); "inits" if it is for initialised mbarriers only;
    None if it is for proxies."""
    fence = instruction.traits.fence
    if fence is None or fence.proxy is not None:
        return None
    if fence.mbarrier_init:
        return "inits"
    if instruction.traits.scope == "cta":
        return "cta"
    return "sc" if "sc" in instruction.op.modifiers or instruction.op.text.startswith("membar") else "gpu"


def phases_of(machine: Machine, columns: Array, place: Array) -> Array:
    """The parities of the current phases of mbarriers."""
    return mbarriers.phase(machine.batch.shared.gather(place, columns, np.dtype(np.uint64))).astype(np.int64)


def races_of(machine: Machine) -> Races:
    """The detector of the batch."""
    found = machine.batch.notes.get(RACES)
    if found is None:
        shared = machine.launch.notes.get(OF_LAUNCH)
        if shared is None:
            shared = machine.launch.notes[OF_LAUNCH] = LaunchRaces(machine.launch)
        found = machine.batch.notes[RACES] = Races(shared, machine)
    return found


class RaceWatcher(Watcher):
    """Passes events to the race detector of each batch."""

    apart = frozenset(
        {
            "memory_accessed", "memory_written", "rows_accessed", "fence", "warp_synchronised",
            "barrier_arrived", "barrier_left", "barrier_completed",
        }
    )  # fmt: skip

    def __init__(self, again: unused.Run | None = None) -> None:
        self._again = again
        self._roles: dict[int, Role] = {}
        self._in_doubt: list[tuple[Callable[[], Array], Array]] = []
        self._storing: Selection | None = None

    def at(self, machine: Machine, group: Group) -> Races:
        """The detector of the batch, at the time of the group's step, with all reads recorded."""
        races = self._begun(machine, group)
        races.settle()
        return races

    def _begun(self, machine: Machine, group: Group) -> Races:
        """The detector of the batch, at the time of the group's step."""
        races = races_of(machine)
        step = group.number, group.block, group.at, len(group.stack)
        if step != races.clocks.launch.step:
            races.clocks.launch.step = step
            instruction = present(group)
            role = self._roles.get(id(instruction))
            if role is None:
                role = self._roles[id(instruction)] = role_of(instruction)
                again = machine.launch.notes.get(unused.AGAIN)
                if again is not None and again.flags is not None and role.level:
                    tells, awaits = (instruction.span in flags for flags in again.flags)
                    role = self._roles[id(instruction)] = attrs.evolve(role, release=tells, acquire=awaits)
            races.clocks.begin(instruction, role)
        return races

    def at_new_step(self, machine: Machine) -> Races:
        """The detector of the batch, with all reads recorded, for an event that belongs to a new step."""
        races = races_of(machine)
        races.settle()
        races.clocks.launch.step = None
        return races

    def launch_began(self, launch: LaunchState) -> None:
        """Prepare to decide races of rows that may reach no result."""
        if self._again is not None:
            unused.begin(launch)

    def launch_ended(self, launch: LaunchState) -> None:
        """Decide them."""
        if self._again is not None:
            unused.decide(launch, self._again)

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Decide nothing in a launch that has failed."""
        if ends_launch(machine.launch, finding):
            unused.give_up(machine.launch)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check accesses of threads; copies were checked when they started."""
        if access.space == "local" or machine.delivering:
            return
        races = self._begun(machine, group)
        if access.allocation is not None:
            if races.clocks.role.level:
                races.settle()
            races.globals(machine, group, access.allocation, access)
        else:
            races.shared(machine, group, access)
        if access.differs is not None and races.reports.doubts:
            if self._storing is not group.selection:  # a store that faulted has left doubts behind
                self._in_doubt, self._storing = [], group.selection
            self._in_doubt.append((access.differs, access.differs()))

    def memory_written(self, machine: Machine, group: Group) -> None:
        """Forgive stores that changed nothing."""
        if self._in_doubt and self._storing is group.selection:
            changed, lost = self._in_doubt[0][1], self._in_doubt[0][0]()
            for differs, before in self._in_doubt[1:]:
                changed, lost = changed | before, lost | differs()
            self._in_doubt = []
            races_of(machine).reports.settle(machine, group, changed, lost)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows."""
        self.at(machine, group).rows(machine, group, access)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Check what wgmma reads."""
        if not machine.delivering:
            wgmma = machine.batch.wgmma
            part = None if wgmma is None else wgmma.readers
            self.at(machine, group).matrix(machine, group, address, columns, part)

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Note fences of the memory model."""
        scope = fence_scope(instruction)
        if scope is not None:
            clocks = self.at(machine, group).clocks
            if instruction.traits.scope == "cluster" and scope != "inits" and not clocks.clustered:
                scope = "cta"
            halves = BOTH.intersection(instruction.op.modifiers) or BOTH
            clocks.order.fence(clocks.threads_of(group.selection, active), scope, clocks.now, halves)
            clocks.launch.step = None

    def warp_synchronised(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Note lanes that have met."""
        self.at(machine, group).clocks.warp_sync(group, members, active)

    def tensor_allocated(self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array) -> None:
        """Note that all lanes know the address which their warp has stored."""
        self.at_new_step(machine)
        self.at(machine, group).clocks.warp_sync(group, None, None)

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note arrivals at a barrier that others need not reach."""
        if partial:
            races, barrier = self.at_new_step(machine), machine.batch.barrier(number)
            for arrived in [group] if barrier.partial else [*barrier.waiting, group]:
                races.clocks.barrier_arrive(arrived, number)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note threads that passed a barrier."""
        if group is None:
            races_of(machine).all_passed()
        else:
            self.at_new_step(machine).clocks.barrier_leave(group, number if partial else None)

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Note that a barrier which others need not reach has completed."""
        self.at_new_step(machine).clocks.barrier_reset(number, columns)

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Note arrivals at a cluster barrier."""
        barrier = machine.batch.cluster_barrier
        assert barrier is not None
        self.at(machine, group).clocks.cluster_arrive(group, barrier)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        clocks = self.at_new_step(machine).clocks
        clocks.launch.begin(None, 0)
        clocks.order.cluster_wait(clocks.threads_of(group.selection))

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Release through an mbarrier."""
        races = self.at(machine, group)
        for part in races.clocks.successive(positions, columns, place, phases.astype(np.int64)):
            races.clocks.mbarrier_arrive(*part)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Acquire through an mbarrier."""
        over = 1 - phases_of(machine, columns, place)
        self.at(machine, group).clocks.mbarrier_wait(positions, columns, place, over)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies as accesses of the threads that start them."""
        races = self.at(machine, transfer.group)
        if late(machine) or transfer.kind != "cp.async":
            races.copies(machine, transfer)
        races.sources.enter(machine, transfer)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Order copies before what their threads do next."""
        self.at_new_step(machine).waited(transfer, which)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that copies may be complete."""
        races_of(machine).sources.changed = True

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Release copies through their mbarriers."""
        races_of(machine).signalled(transfer, which)

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Order what wgmma read before what follows."""
        clocks = self.at(machine, group).clocks
        clocks.order.wgmma_wait(clocks.threads_of(group.selection), clocks.now)
        clocks.launch.step = None

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Note threads that exited."""
        if RACES not in machine.batch.notes:
            return  # nothing has happened
        races = self.at_new_step(machine)
        check_exit(races.clocks, machine, group)
        races.clocks.exited(group, machine.batch.alive)
