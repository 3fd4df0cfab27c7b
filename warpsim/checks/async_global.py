"""Premature accesses to global memory that copies in flight have not written, or not read yet.

``cp.async.bulk.wait_group.read`` waits until a copy has read its source; its writes are visible after the full wait, or
at the end of the kernel. Copies are found through epochs on granules: stores by their tensor or runs of bytes, loads by
the memory around their sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs
import numpy as np

from warpsim.checks.epochs import EpochSheets, Overlaps
from warpsim.machine.hooks import ATOMIC, READ, WRITE, MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    Footprint,
    GlobalTarget,
    RunLoad,
    RunStore,
    ThreadCopy,
    Transfer,
)
from warpsim.machine.values import Array, spread
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import frozen


@frozen(eq=False)
class Source:
    """What ``receivers`` of a copy get: each one of the runs or boxes of ``extent``, which have ``numbers``."""

    extent: GlobalTarget
    receivers: Array
    numbers: Array

    def unread(self, open: Array) -> Array:
        """Which runs or boxes some ``open`` receiver may still read."""
        found: Array = np.zeros(int(self.numbers.max()) + 1, np.bool_)
        found[self.numbers[open[self.receivers]]] = True
        return found

    def starters(self, positions: Array) -> Array:
        """The position of the thread that copies each run or box."""
        found = np.zeros(int(self.numbers.max()) + 1, np.int64)
        found[self.numbers] = positions[self.receivers]
        return found


def sources_of(transfer: Transfer) -> Iterator[Source]:
    """The sources in global memory of copies that have not acted yet."""
    work = transfer.work
    every = np.arange(len(transfer.positions))
    if not len(every):
        return
    if isinstance(work, BoxLoad):
        yield Source(GlobalTarget.of_boxes(work.boxes), every, work.to.lane)
    elif isinstance(work, RunLoad) and work.source is None:
        yield Source(GlobalTarget.of_runs(work.address, work.nbytes), every, work.to.lane)
    elif isinstance(work, ThreadCopy):
        places, taken = read_by_threads(transfer, work)
        aligned = places % work.nbytes == 0  # others fault
        for nbytes in distinct(taken[aligned & (taken > 0)]).tolist():
            mine = np.flatnonzero(aligned & (taken == nbytes))
            yield Source(GlobalTarget.of_runs(places[mine], nbytes), mine, np.arange(len(mine)))


def read_by_threads(transfer: Transfer, work: ThreadCopy) -> tuple[Array, Array]:
    """Where the receivers of ``cp.async`` read, and how many bytes."""
    shape, take = transfer.group.selection.shape, work.take
    taken = np.array(work.nbytes) if take is None else take.reshape(()) if take.size == 1 else take
    places, taken = (np.broadcast_to(x, shape).reshape(-1)[work.lanes] for x in (work.src.places, taken))
    return places, taken


WORD, BYTE = np.dtype(np.uint32), np.dtype(np.uint8)


def _bytes_of(machine: Machine, transfer: Transfer) -> tuple[Array, Array, Array]:
    """Addresses, values and receivers of all bytes that copies store, ordered by address."""
    work = transfer.work
    assert isinstance(work, (BoxStore, RunStore))
    start, columns = work.source.start, work.source.columns[:, None]
    receivers = np.arange(len(start))
    if isinstance(work, BoxStore):
        place, inside = work.boxes.elements(receivers)
        elements = machine.batch.shared.gather(work.boxes.shared(start), columns, work.boxes.dtype)
        place, size = work.boxes.fields.address + place, work.boxes.dtype.itemsize
    else:
        part = WORD if work.kept is None else BYTE
        steps, size = np.arange(0, work.source.nbytes, part.itemsize), part.itemsize
        place, elements = (
            work.address[:, None] + steps,
            machine.batch.shared.gather(start[:, None] + steps, columns, part),
        )
        inside = np.ones(place.shape, np.bool_) if work.kept is None else work.kept
    fetched = work.taken.view(np.uint8).reshape(*place.shape, size)
    values = np.ascontiguousarray(elements).view(np.uint8).reshape(*place.shape, size)
    values = np.where(transfer.fetched[:, None, None], fetched, values)[inside]
    address = place[inside][:, None] + np.arange(size)
    receiver = np.broadcast_to(np.nonzero(inside)[0][:, None], address.shape).reshape(-1)
    order = np.argsort(address.reshape(-1), kind="stable")
    return address.reshape(-1)[order], values.reshape(-1)[order], receiver[order]


def changed(machine: Machine, transfer: Transfer, allocation: Allocation) -> tuple[Array, Array]:
    """Masks of the receivers that change memory as it will be when the stores in flight have acted, and of those that
    store other bytes than another receiver does at the same place."""
    address, values, receiver = _bytes_of(machine, transfer)
    old = allocation.data[address - allocation.start].copy()
    state = machine.batch.transfers
    for other in (*state.freed, *state.open):
        if other.target is None or other.landed.all() or other.reduces:
            continue
        places, theirs, receivers = _bytes_of(machine, other)
        left = ~other.landed[receivers]
        places, theirs = places[left], theirs[left]
        if not len(places):  # boxes outside the tensor
            continue
        at = np.minimum(np.searchsorted(places, address, "right"), len(places)) - 1
        overlap = (at >= 0) & (places[at] == address)
        old[overlap] = theirs[at[overlap]]
    changes, differs = (np.zeros(len(transfer.positions), np.bool_) for _ in range(2))
    changes[receiver[values != old]] = True
    same = np.flatnonzero((address[1:] == address[:-1]) & (values[1:] != values[:-1]))
    differs[receiver[np.r_[same, same + 1]]] = True
    return changes, differs


def clashing(transfer: Transfer) -> Array | None:
    """A mask of the lanes of a step that copy to one place what comes from different places; None if nothing is known."""
    work, to = transfer.work, transfer.writes
    if not isinstance(work, ThreadCopy) or to is None:
        return None
    source, taken = read_by_threads(transfer, work)
    order = np.lexsort((taken, source, to.start, to.columns))
    columns, start, source, taken = to.columns[order], to.start[order], source[order], taken[order]
    same = (columns[1:] == columns[:-1]) & (start[1:] == start[:-1])
    differs = np.flatnonzero(same & ((source[1:] != source[:-1]) | (taken[1:] != taken[:-1])))
    return transfer.lanes(order[np.r_[differs, differs + 1]])


EARLY = "async-read-early"
ADVICE = "use cp.async.bulk.wait_group without .read: .read waits only until the sources have been read"


@frozen(eq=False)
class Use:
    """Global memory that a copy writes, or reads as its ``source``. It may outlive the copy's batch, and so keeps no more of
    the copy than the mask of the receivers that are ``incomplete``."""

    extent: GlobalTarget
    around: tuple[int, int]
    incomplete: Array
    reduces: bool
    place: Instruction | None
    source: Source | None = None

    @property
    def open(self) -> Array:
        """A mask of the runs or boxes that are still used."""
        return self.incomplete if self.source is None else self.source.unread(self.incomplete)


class GlobalUses:
    """What the copies of a batch in flight use, by the memory around it."""

    def __init__(self) -> None:
        self.uses: dict[int, Use] = {}
        self._ranges: dict[tuple[int, int], EpochSheets | None] = {}
        self._last = 0
        self.changed = False
        """Whether copies may have completed."""

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        if self.changed:
            self.settle()
        return bool(self.uses)

    def add(self, use: Use) -> None:
        """Add a use."""
        self._last += 1
        self.uses[self._last] = use
        sheets = self._ranges.setdefault(use.around, None)
        if sheets is not None:
            self._put(sheets, self._last, use)

    def near(self, low: int, high: int) -> bool:
        """Whether memory ``[low, high)`` may be among what is in flight."""
        for start, end in self._ranges:  # noqa: SIM110  at every copy: no calls
            if start < high and low < end:
                return True
        return False

    def settle(self) -> None:
        """Drop copies that are complete."""
        self.changed = False
        self.uses = {number: use for number, use in self.uses.items() if use.incomplete.any()}
        if not self.uses:
            self._ranges = {}

    def _put(self, sheets: EpochSheets, number: int, use: Use) -> None:
        (address, _, size), low = use.extent.runs(), use.around[0]
        footprint = Footprint(np.zeros(len(address), np.int64), address - low, size)
        sheets.put(footprint, number, next(iter(self.uses)), partial(self._holders, low=low))

    def _holders(self, overlap: Overlaps, low: int) -> Iterator[tuple[Use, Array]]:
        """The uses that still hold granules, and the accesses (flat indices) that touch them."""
        index, address, _, numbers = overlap
        for number in distinct(numbers).tolist():
            use = self.uses.get(number)
            if use is not None:
                which = numbers == number
                held = use.extent.holders(address[which] + low, use.open)
                if held.any():
                    yield use, index[which][held]

    def overlaps(
        self, place: Array, nbytes: int, shape: tuple[int, ...], active: Array | None
    ) -> Iterator[tuple[Use, Array]]:
        """The uses that accesses to ``nbytes`` at each ``place`` (broadcast to ``shape``) meet, and masks of those."""
        low, high = (int(each.reduce(place, axis=None)) for each in (np.minimum, np.maximum))
        at = spread(place, shape)
        for start, end, sheets in self._near(low, high + nbytes):
            if low >= start and high < end:
                inside, near = active, at - start
            else:
                inside = (at + nbytes > start) & (at < end)
                inside = inside if active is None else inside & active
                near = np.clip(at, start, end - 1) - start
            for overlap in sheets.overlaps(near, nbytes, np.zeros(1, np.int64), inside, next(iter(self.uses))):
                for use, index in self._holders(overlap, start):
                    lanes = np.zeros(shape, np.bool_)
                    lanes.reshape(-1)[index] = True
                    yield use, lanes

    def _near(self, low: int, high: int) -> list[tuple[int, int, EpochSheets]]:
        """The memory in use that overlaps ``[low, high)``."""
        found = []
        for (start, end), sheets in list(self._ranges.items()):
            if low < end and start < high:
                if sheets is None:
                    sheets = self._ranges[start, end] = EpochSheets(end - start, 1)
                    for number, use in self.uses.items():
                        if use.around == (start, end):
                            self._put(sheets, number, use)
                found.append((start, end, sheets))
        return found


class GlobalStores(GlobalUses):
    """The bulk stores of a batch in flight."""

    def enter(self, copy: Transfer) -> None:
        """Add a copy that writes global memory."""
        if copy.target is not None:
            around = copy.target.low, copy.target.high
            self.add(Use(copy.target, around, copy.open, copy.reduces, copy.place))

    def inherit(self, machine: Machine, ended: GlobalStores) -> None:
        """Take over the stores of a batch that has ended before its threads have waited for them."""
        ended.settle()
        for use in ended.uses.values():
            allocation = machine.launch.memory.find(use.extent.low, use.extent.high)
            if allocation is not None:
                use.extent.forget()
                self.add(attrs.evolve(use, around=(allocation.start, allocation.end)))

    def touch(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check accesses of the step's lanes."""
        for use, lanes in self.overlaps(access.places, access.nbytes, group.selection.shape, access.active):
            if not (access.kind == ATOMIC and use.reduces):  # each reduction is atomic
                first = int(np.broadcast_to(access.places, lanes.shape)[lanes][0])
                self._report(machine, group, access.kind, first, lanes, use)

    def read_by_copies(self, machine: Machine, transfer: Transfer) -> None:
        """Check what new copies read."""
        work = transfer.work
        if type(work) is BoxLoad and not self.near(*work.boxes.span()):
            return
        for source in sources_of(transfer):
            if self._reaches(source.extent):
                self._compare(machine, transfer, READ, source.extent, source.starters(transfer.positions))

    def written_by_copies(self, machine: Machine, transfer: Transfer, target: GlobalTarget) -> None:
        """Check what new copies write, unless that is there already."""
        if self.near(target.low, target.high) and not self._apart(target):
            access = ATOMIC if transfer.reduces else WRITE
            self._compare(machine, transfer, access, target, transfer.positions)

    def _apart(self, target: GlobalTarget) -> bool:
        """Whether boxes touch none of those that are in flight, as a rule."""
        return target.boxes is not None and target.boxes.apart([use.extent.boxes for use in self.uses.values()])

    def _reaches(self, extent: GlobalTarget) -> bool:
        """Whether memory may be among what copies in flight use."""
        return self.near(extent.low, extent.high)

    def _compare(
        self, machine: Machine, transfer: Transfer, access: int, extent: GlobalTarget, starters: Array
    ) -> None:
        """Check new copies, whose runs or boxes of ``extent`` these threads (positions in the batch) start."""
        group, (place, runs, size) = transfer.group, extent.runs()
        allocation = machine.launch.memory.find(extent.low, extent.high) if access == WRITE else None
        changes: Array | None = None
        for use, found in self.overlaps(place, size, place.shape, None) if len(place) else ():
            first, who = int(place[found][0]), starters[runs[found]]
            if access == ATOMIC and use.reduces:
                continue  # each reduction is atomic
            if allocation is not None and not use.reduces:
                if changes is None:
                    changes = transfer.positions[changed(machine, transfer, allocation)[0]]
                if not np.isin(who, changes).any():
                    continue
            self._report(machine, group, access, first, np.isin(group.selection.positions, who), use)

    def _report(self, machine: Machine, group: Group, access: int, first: int, lanes: Array, use: Use) -> None:
        verb = "read" if access == READ else "written"
        message = f"global address 0x{first:x} is {verb} while an unfinished copy writes it"
        machine.fault(EARLY, message, group, lanes, address=first, advice=ADVICE, other=use.place)


class GlobalSources(GlobalUses):
    """The loads of a batch in flight, from global memory."""

    def enter(self, machine: Machine, copy: Transfer) -> None:
        """Add a copy that reads global memory, and has not acted yet."""
        for source in sources_of(copy):
            extent = source.extent
            allocation = machine.launch.memory.find(extent.low, extent.high)
            around = (extent.low, extent.high) if allocation is None else (allocation.start, allocation.end)
            if allocation is None or not allocation.read_only:
                self.add(Use(extent, around, copy.open, copy.reduces, copy.place, source))
