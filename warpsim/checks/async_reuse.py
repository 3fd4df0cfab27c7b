"""async-read-early, async-smem-overwrite: accesses to memory that copies and wgmma in flight still write or read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import attrs
import numpy as np

from warpsim.checks.async_global import GlobalStores
from warpsim.checks.epochs import EpochSheets, Overlaps
from warpsim.checks.overwritten import Issued, overwritten
from warpsim.checks.race import RULE as RACE
from warpsim.checks.undefined_loads import read_early
from warpsim.checks.undefined_products import EARLY, Unfinished
from warpsim.checks.undefined_registers import UNFINISHED, travels
from warpsim.isa.traits import Access
from warpsim.isa.traits import Matrix as Moves
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.asynchrony.wgmma import Matrix
from warpsim.machine.asynchrony.wgmma_chains import Chain
from warpsim.machine.hooks import RegionAccesses
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import party, present
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array, as_array
from warpsim.machine.watcher import ATOMIC, READ, WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import define, frozen

OVERWRITE = "async-smem-overwrite"
RULES = frozenset({EARLY, OVERWRITE})
ADVICE = {
    EARLY: "wait for the copy (wait_group, or the phase of its mbarrier) before touching its destination",
    OVERWRITE: "wait until the operation has read its source before writing there again",
}
UNWAITED: Note[GlobalStores] = Note("async")
IN_FLIGHT: Note[InFlight] = Note("async")
_NEVER = np.iinfo(np.int32).max


class MatrixFootprint:
    """The elements that a wgmma reads: byte addresses ``[elements, columns]``, ``itemsize`` bytes each; ``tickets`` of the
    ``warpgroup``, by CTA (0: of another one)."""

    def __init__(
        self, address: Array, columns: Array, itemsize: int, tickets: Array, warpgroup: int, then: Issued
    ) -> None:
        self.address, self.columns, self.itemsize = address, columns, itemsize
        self.tickets, self.warpgroup, self.then = tickets, warpgroup, then
        self._keys: Array | None = None

    def hits(self, access: SharedAccess, done: Array) -> Array:
        """A mask of accesses that touch an element still being read; ``done`` tickets are complete."""
        n_ctas = len(self.tickets)
        open = self.tickets > done[self.warpgroup * n_ctas :][:n_ctas]
        own = self.address.shape[-1] > 1  # otherwise all columns read the same addresses
        if self._keys is None:
            self._keys = np.sort((self.address + (self.columns << 32 if own else 0)).reshape(-1))
        low = access.place + (access.columns << 32 if own else 0)
        first, last = (np.searchsorted(self._keys, at) for at in (low - self.itemsize + 1, low + access.nbytes))
        found = (first < last) & open[access.columns]
        return found if access.active is None else found & access.active

    def spoiled(self, machine: Machine, access: SharedAccess, found: Array, what: str) -> bool:
        """Make undefined what the wgmma computes from the bytes ``found`` to be written; False if that is all of it."""
        if not travels(machine.launch.settings.checks):
            return False
        place, columns = (np.broadcast_to(each, found.shape)[found] for each in (access.place, access.columns))
        rule = OVERWRITE, present(access.group), self.then.instruction
        message = f"shared address 0x{int(place[0]):x} {what}"
        origin = attrs.evolve(party(machine.launch, machine.batch, access.group, message), values={UNFINISHED: rule})
        threads, ctas = np.divmod(self.then.selection.positions, machine.batch.shape.n_ctas)
        mine = (threads >> 7 == self.warpgroup) & np.isin(ctas, columns)
        part = Unfinished(place & ~3, columns, access.nbytes, rule[1])
        return overwritten(machine, self.then, mine, part, origin)


@define(eq=False)
class MatrixReads:
    """What wgmma read that ``warpgroups`` began together, within ``limits`` of shared memory: the ``matrices`` in ``columns``, or the
    addresses of one and the bytes at each (`Watcher.tile_read`), each of the product behind it, as where the last of these stands;
    ``tickets`` as `Starting.tickets`. The elements are found where an access meets the limits."""

    limits: list[tuple[int, int]]
    matrices: Sequence[tuple[Matrix | tuple[Array, int], Instruction, int]]
    columns: Array
    warpgroups: list[int]
    tickets: Array
    then: Issued
    _footprints: list[MatrixFootprint] | None = None

    def footprints(self, n_ctas: int) -> list[MatrixFootprint]:
        """The elements."""
        if self._footprints is None:
            self._footprints = []
            apart = self.columns.shape[0] > 1
            for matrix, instruction, at in self.matrices:
                address, nbytes = matrix.read()[:2] if isinstance(matrix, Matrix) else matrix
                then, (*_, rows, width) = self.then.linked(instruction, at), address.shape
                for i, number in enumerate(self.warpgroups):
                    owners = self.columns[i if apart else 0]
                    part = address[..., i if rows > 1 else 0, :].reshape(-1, width)
                    mine = self.tickets[number * n_ctas : (number + 1) * n_ctas]
                    if apart:  # these CTAs only: others may be here in another iteration
                        mine, every = np.zeros(n_ctas, np.int64), mine
                        mine[owners] = every[owners]
                    self._footprints.append(MatrixFootprint(part, owners, nbytes, mine, number, then))
        return self._footprints


@frozen(eq=False)
class SharedAccess:
    """Accesses of ``nbytes`` at each ``place`` of shared memory in ``columns`` (broadcast), one per lane of the step; ``by``: one
    per thread at these positions (empty: by a warpgroup); ``rows``: one per matrix row ``[n, k, m]`` of the warps."""

    group: Group
    kind: int
    place: Array
    nbytes: int
    columns: Array
    active: Array | None = None
    by: Array | None = None
    rows: bool = False

    @classmethod
    def of(cls, group: Group, access: MemoryAccess, *, rows: bool) -> SharedAccess:
        """What an event tells of."""
        return cls(group, access.kind, access.places, access.nbytes, access.columns, access.active, rows=rows)

    def travels(self, machine: Machine) -> bool:
        """Whether what is undefined of these goes on as values of registers. A debugger stops at once, where the copy can be looked at;
        and a load that is early is a race, too."""
        traits, settings = present(self.group).traits, machine.launch.settings
        loads = self.kind == READ and (traits.access is Access.LOAD or traits.matrix is Moves.LOAD)
        return (
            loads and travels(settings.checks) and not settings.by_warp and (self.rows or RACE not in settings.checks)
        )

    def lanes(self, found: Array) -> Array | None:
        """The lanes of the step that make some of the accesses."""
        selection = self.group.selection
        if self.by is not None:
            return np.isin(selection.positions, self.by[found]) if len(self.by) else None
        if self.rows:
            warps = self.group.warps
            return as_array(warps.collect(found.any(axis=1, keepdims=True) & warps.active))
        return np.broadcast_to(found, selection.shape) if found.ndim == len(selection.shape) else None

    def report(self, machine: Machine, rule: str, what: str, other: Instruction | None, found: Array) -> None:
        """Report some of the accesses."""
        address = int(np.broadcast_to(self.place, found.shape)[found][0])
        message, lanes, advice = f"shared address 0x{address:x} {what}", self.lanes(found), ADVICE[rule]
        machine.fault(rule, message, self.group, lanes, address=address, advice=advice, other=other)


def _limits(places: Array, nbytes: int) -> tuple[int, int]:
    """The first byte of accesses, and the end of the last."""
    return int(np.minimum.reduce(places, axis=None)), int(np.maximum.reduce(places, axis=None)) + nbytes


class SharedUses:
    """The operations of a batch in flight. ``matrices`` are those of wgmma."""

    def __init__(self, size: int, n_ctas: int) -> None:
        self.matrices: list[MatrixReads] = []
        self._extent = size, n_ctas
        self._copies: dict[int, Transfer] = {}
        self._sheets: dict[str, EpochSheets] = {}
        self._oldest = {"writes": _NEVER, "reads": _NEVER}

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return bool(self._copies or self.matrices)

    def enter(self, copy: Transfer) -> None:
        """Record the bytes of a copy."""
        self._copies[copy.serial] = copy
        for kind, footprint in (("writes", copy.writes), ("reads", copy.reads)):
            if footprint is not None:
                if kind not in self._sheets:
                    self._sheets[kind] = EpochSheets(*self._extent)
                sheets, oldest = self._sheets[kind], self._oldest[kind]
                sheets.put(footprint, copy.serial, oldest, partial(self._holders, kind))
                if copy.serial < oldest:
                    self._oldest[kind] = copy.serial

    def settle(self) -> None:
        """Drop the copies that have finished reading and writing here."""
        kept: dict[int, Transfer] = {}
        self._oldest = oldest = {"writes": _NEVER, "reads": _NEVER}
        for copy in self._copies.values():
            writes = copy.writes is not None
            if copy.over or (copy.released and not writes):
                continue
            kept[copy.serial] = copy
            if writes and oldest["writes"] == _NEVER:
                oldest["writes"] = copy.serial
            if copy.reads is not None and oldest["reads"] == _NEVER and not copy.released:
                oldest["reads"] = copy.serial
        self._copies = kept
        for kind, sheets in self._sheets.items():
            if oldest[kind] == _NEVER and len(sheets.sheets) > 1:
                sheets.clear()

    def written(self, low: int, high: int) -> bool:
        """Whether copies in flight may write to ``[low, high)`` of any column."""
        oldest = self._oldest["writes"]
        return oldest != _NEVER and self._sheets["writes"].meet(low, high, oldest)

    def meets(self, low: int, high: int) -> bool:
        """Whether anything in flight may touch ``[low, high)`` of any column."""
        for reads in self.matrices:
            for start, end in reads.limits:
                if start < high and low < end:
                    return True
        for kind in self._oldest:
            oldest = self._oldest[kind]
            for sheet in self._sheets[kind].sheets if oldest != _NEVER else ():  # as `EpochSheets.meet`: no calls
                first, last = low // sheet.granule, (high - 1) // sheet.granule
                rows = sheet.rows
                if (
                    rows.item(first) if first == last else np.maximum.reduce(rows[first : last + 1], initial=0)
                ) >= oldest:
                    return True
        return False

    def touch(self, machine: Machine, access: SharedAccess) -> None:
        """Check other accesses."""
        self._compare(machine, access, "writes")
        if access.kind == READ:
            return
        self._compare(machine, access, "reads")
        if self.matrices:
            (low, high), wgmma = _limits(access.place, access.nbytes), machine.batch.wgmma
            assert wgmma is not None, "it reads"
            met = [r for r in self.matrices if any(start < high and low < end for start, end in r.limits)]
            for matrix in [matrix for reads in met for matrix in reads.footprints(machine.batch.shape.n_ctas)]:
                found = matrix.hits(access, wgmma.done)
                what = "is written while a wgmma in flight reads it"
                if found.any() and not matrix.spoiled(machine, access, found, what):
                    access.report(machine, OVERWRITE, what, matrix.then.instruction, found)

    def _compare(self, machine: Machine, access: SharedAccess, kind: str) -> None:
        """Compare accesses with what copies in flight write, or read."""
        if self._oldest[kind] == _NEVER:
            return
        place, columns, active = access.place, access.columns, access.active
        for overlap in self._sheets[kind].overlaps(place, access.nbytes, columns, active, self._oldest[kind]):
            for copy, index in self._holders(kind, overlap):
                if access.kind == ATOMIC and copy.reduces and kind == "writes":
                    continue  # each reduction is atomic
                found = np.zeros(
                    np.broadcast_shapes(*(x.shape for x in (place, columns, active) if x is not None)), np.bool_
                )
                found.reshape(-1)[index] = True
                if kind == "writes" and access.travels(machine):
                    places, owners = (np.broadcast_to(each, found.shape)[found] for each in (place, columns))
                    if read_early(machine, access.group, Unfinished(places & ~3, owners, access.nbytes, copy.place)):
                        continue
                what = f"is {'read' if access.kind == READ else 'written'} while an unfinished copy {kind} it"
                access.report(machine, EARLY if kind == "writes" else OVERWRITE, what, copy.place, found)

    def unfinished(self, address: Array, nbytes: int, columns: Array) -> Iterator[tuple[Array, Transfer]]:
        """Which of these accesses (flat indices, broadcast) read what copies in flight still write, and the copies."""
        for overlap in self._sheets["writes"].overlaps(address, nbytes, columns, None, self._oldest["writes"]):
            for copy, index in self._holders("writes", overlap):
                yield index, copy

    def _holders(self, kind: str, overlap: Overlaps) -> Iterator[tuple[Transfer, Array]]:
        """The copies that still write (or read) granules, and the accesses (flat indices) that touch them."""
        index, address, owners, numbers = overlap
        for number in distinct(numbers).tolist():
            copy = self._copies.get(number)
            if copy is None:
                continue
            footprint = copy.writes if kind == "writes" else copy.reads
            open = copy.open if kind == "writes" else copy.open & ~copy.free
            if footprint is not None and open.any():
                which = numbers == number
                held = footprint.holders(address[which], owners[which], open)
                if held.any():
                    yield copy, index[which][held]


def unfinished_reads(
    machine: Machine, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
) -> Iterator[tuple[Array, Transfer]]:
    """Which reads within ``limits`` (flat indices, broadcast) are of what copies in flight still write, and the copies."""
    if IN_FLIGHT not in machine.batch.notes:
        return
    found = machine.batch.notes[IN_FLIGHT]
    found.settle()
    if found.shared.written(*limits):
        yield from found.shared.unfinished(address, nbytes, columns)


class InFlight:
    """A batch's operations in flight: copies and wgmma in shared memory, stores to global memory. Those of batches that
    have ended are the launch's."""

    def __init__(self, machine: Machine) -> None:
        n_ctas = machine.batch.shape.n_ctas
        self.shared = SharedUses(machine.batch.shared.size, n_ctas)
        self.stores = GlobalStores()
        self.released = self.completed = self.stored = False
        """Whether copies may have released their sources, and completed, those to global memory among them."""

    def settle(self) -> None:
        """Drop completed operations."""
        if self.released or self.completed:
            self.shared.settle()
            if self.stored:
                self.stores.settle()
            self.released = self.completed = self.stored = False


class AsyncReuse(Watcher):
    """Compares accesses with the copies and wgmma in flight."""

    compiled = frozenset({"memory_accessed", "rows_accessed"})

    def batch_began(self, machine: Machine) -> None:
        """Start with nothing in flight."""
        machine.launch.notes.setdefault(UNWAITED, GlobalStores())
        machine.batch.notes[IN_FLIGHT] = InFlight(machine)

    def batch_ended(self, machine: Machine) -> None:
        """Keep the stores that nobody has waited for: only the end of the kernel completes them for other CTAs."""
        machine.launch.notes[UNWAITED].inherit(machine, machine.batch.notes[IN_FLIGHT].stores)

    def _in_flight(self, machine: Machine) -> InFlight:
        found = machine.batch.notes[IN_FLIGHT]
        if found.released or found.completed:
            found.settle()
        return found

    def _stores(self, machine: Machine) -> list[GlobalStores]:
        """The stores in flight: those of batches that have ended, and of others."""
        launch, found = machine.launch, []
        stores = launch.notes[UNWAITED]
        if stores.uses and (not stores.changed or stores.busy):
            found.append(stores)
        for batch in launch.batches:
            stores = batch.notes[IN_FLIGHT].stores
            if stores.uses and (not stores.changed or stores.busy):
                found.append(stores)
        return found

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check accesses of threads."""
        found = machine.batch.notes[IN_FLIGHT]  # at every access: no calls
        if found.released or found.completed:
            found.settle()
        shared = found.shared
        if access.space == "global":
            for stores in self._stores(machine):
                stores.touch(machine, group, access)
        elif access.space != "local" and not (machine.delivering and late(machine)):
            at = access.at
            if type(at) is int:
                met = shared.meets(at, at + access.nbytes)
            else:
                places = at if type(at) is np.ndarray else access.places
                met = shared.busy and shared.meets(*_limits(places, access.nbytes))
            if met:
                shared.touch(machine, SharedAccess.of(group, access, rows=False))

    def region_accessed(self, machine: Machine, accesses: RegionAccesses) -> None:
        """Follow the accesses of compiled code one by one where they may meet anything in flight."""
        shared, stores = self._in_flight(machine).shared, self._stores(machine)
        accesses.followed |= (shared.busy and any(shared.meets(*part) for part in accesses.extents("shared"))) or (
            bool(stores) and any(each.near(*part) for part in accesses.extents("global") for each in stores)
        )

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows."""
        shared = self._in_flight(machine).shared
        if shared.busy:
            shared.touch(machine, SharedAccess.of(group, access, rows=True))

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Follow products that read what copies still write."""
        shared = self._in_flight(machine).shared
        for low, high in chain.tiles.limits:
            chain.followed |= shared.written(low, high)

    def wgmma_chain_started(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Note their matrices."""
        found, warps, tiles = self._in_flight(machine), group.warps, chain.tiles
        matrices = [
            (matrix, issue.instruction, at)
            for issue, at, each in zip(chain.issues, chain.places, tiles.products, strict=True)
            for matrix in each
        ]
        then = Issued.of(group, chain.issues[-1].instruction, chain.slots)
        reads = MatrixReads(tiles.limits, matrices, warps.columns, warps.warpgroups, chain.tickets, then)
        found.shared.matrices.append(reads)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Note matrices read by wgmma; one being started keeps reading until it completes."""
        found = self._in_flight(machine)
        wgmma = machine.batch.wgmma
        if wgmma is not None and wgmma.starting is not None:
            issue, tickets, before = wgmma.starting.issue, wgmma.starting.tickets, found.shared.matrices
            if before and before[-1].tickets is tickets:  # its other matrix
                then = before[-1].then
            else:
                then = Issued.of(group, issue.instruction, issue.slots_other)
            matrix = (address, nbytes), then.instruction, group.at
            before.append(MatrixReads([limits], [matrix], columns, group.warps.warpgroups, tickets, then))
        if not travels(machine.launch.settings.checks) and found.shared.written(*limits):
            nobody = np.zeros(0, np.int64)
            found.shared.touch(machine, SharedAccess(group, READ, address, nbytes, columns, by=nobody))

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Drop completed wgmma."""
        shared, wgmma = machine.batch.notes[IN_FLIGHT].shared, machine.batch.wgmma
        if wgmma is None:
            return
        shared.matrices = [reads for reads in shared.matrices if np.logical_or.reduce(reads.tickets > wgmma.done)]

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check new copies against those in flight."""
        found, writes = machine.batch.notes[IN_FLIGHT], ATOMIC if transfer.reduces else WRITE
        if found.released or found.completed:
            found.settle()
        shared = found.shared
        for to, kind in (transfer.writes, writes), (transfer.reads, READ):
            if to is not None and shared.meets(to.low, to.high):
                access = SharedAccess(
                    transfer.group, kind, to.start, to.nbytes, to.columns, by=to.of_runs(transfer.positions)
                )
                shared.touch(machine, access)
        for stores in self._stores(machine) if transfer.asynchronous else ():
            if transfer.target is None:
                stores.read_by_copies(machine, transfer)
            else:
                stores.written_by_copies(machine, transfer, transfer.target)

    def async_started(self, machine: Machine, transfer: Transfer) -> None:
        """Record the bytes of copies."""
        found = machine.batch.notes[IN_FLIGHT]
        found.shared.enter(transfer)
        if transfer.target is not None:
            found.stores.enter(transfer)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that sources may be free."""
        if len(which):
            machine.batch.notes[IN_FLIGHT].released = True

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that copies may be complete."""
        found = machine.batch.notes[IN_FLIGHT]
        found.completed = True
        found.stored = found.stored or transfer.target is not None
