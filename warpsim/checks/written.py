"""Which bytes of shared, local and global memory have been written.

Every memory that starts undefined has a shadow with a 1 for each written bit. Rows of words that are written in
every column are remembered, so that fully written memory costs nothing.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace, in_a_row
from warpsim.machine.values import Affine, Array, Place, spread
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import distinct

ALL = np.uint32(0xFFFFFFFF)
FEW = 1024
"""Most addresses that are remembered as written."""


class WrittenBits(WordSpace):
    """The shadow of a `WordSpace`. Its own shadow has a 1 for each bit that a store has left undefined.

    ``full`` marks rows written in every column, ``open`` counts the others. As long as nothing else is written, ``full`` says it all, and
    the words are not made.
    """

    def __init__(self, size: int, n_columns: int) -> None:
        super().__init__(size, n_columns)
        self.full = np.zeros(self.n_words, np.bool_)
        self.open = self.n_words
        self._marked = 0
        self._looks = 0

    def __getattr__(self, name: str) -> Array:
        found = super().__getattr__(name)
        self.words[self.full] = ALL
        return found

    @property
    def settled(self) -> bool:
        """Everything is written in every column."""
        return not self.open

    def __deepcopy__(self, memo: dict[int, object]) -> WrittenBits:
        copied = super().__deepcopy__(memo)
        assert isinstance(copied, WrittenBits)
        copied.full = self.full.copy()
        return copied

    def grow(self, size: int) -> None:
        """Grow to at least ``size`` bytes per column; new bytes are undefined."""
        super().grow(size)
        self._follow()

    def spare(self) -> None:
        """Scratch words for an access of any size at address 0."""
        super().spare()
        self._follow()

    def _follow(self) -> None:
        if len(self.words) > len(self.full):
            full = np.zeros(len(self.words), np.bool_)
            full[: len(self.full)] = self.full
            self.full = full
            self._recount()

    def mark(self, place: Place, columns: Array, nbytes: int, active: Array | None, *, rows: bool) -> None:
        """Mark ``nbytes`` at each ``place`` of ``columns`` (broadcast) as written; ``rows``: by all columns alike."""
        if type(place) is int and self.covers(place, place + nbytes):
            return
        if (one := self._one_place(place, columns, nbytes, active)) is not None:
            self.own()
            self.words[place >> 2 : place + nbytes >> 2, columns.item()] = ALL
            self._marked += len(one)
            return
        if not self.open or (type(place) is not int and self._is_full(place, nbytes)):
            return
        self.own()
        if rows and active is None and nbytes >= 4:
            first = np.asarray(place).reshape(-1) >> 2
            for k in range(nbytes // 4):
                if self.made:
                    self.words[first + k] = ALL
                self.full[first + k] = True
            self._recount()
            return
        if isinstance(place, int) and active is None and nbytes >= 4:
            self._mark_run(slice(place >> 2, place + nbytes >> 2), in_a_row(columns.reshape(-1)))
            return
        for view, index in self._places(place, columns, nbytes, active):
            view[index] = view.dtype.type(ALL & ((1 << 8 * view.dtype.itemsize) - 1))
            self._marked += index.size

    def _mark_run(self, rows: slice, columns: Array | slice) -> None:
        self.words[rows, columns] = ALL
        if isinstance(columns, slice) and columns == slice(0, self.n_columns):
            self.full[rows] = True
            self._recount()
        else:
            self._marked += self.words[rows, columns].size

    def forget(self, first: int, nbytes: int, columns: Array) -> None:
        """Make ``nbytes`` from ``first`` (whole words) of these columns undefined again."""
        low, high = first >> 2, first + nbytes + 3 >> 2
        if nbytes:
            self.own()
            self.words[low:high, columns] = 0
            if self.shadow is not None:
                self.shadow.own()
                self.shadow.words[low:high, columns] = 0
            self.full[low:high] = False
            self.views.clear()
            self._recount()

    def clear(self, place: Array, columns: Array, nbytes: int, active: Array | None, *, rows: bool) -> None:
        """Make what `mark` marked undefined again; with ``rows``, whole rows of words."""
        self.own()
        if rows:
            for k in range(max(nbytes // 4, 1)):
                self.words[(place >> 2) + k] = 0
        else:
            for view, index in self._places(place, columns, nbytes, active):
                view[index] = 0
        self.reopen()

    def move(self, source: int, target: int, nbytes: int, columns: Array) -> None:
        """Copy the written state of words."""
        super().move(source, target, nbytes, columns)
        self.full[target >> 2 : target + nbytes + 3 >> 2] = False
        self.views.clear()
        self._recount()

    def reopen(self) -> None:
        """Recompute: bits were cleared from outside, so no row counts as full."""
        if self.made:
            self.full[:] = False
            self.views.clear()
        self._recount()

    def lacks(self, place: Place, columns: Array, nbytes: int, active: Array | None, *, rows: bool) -> bool:
        """Whether any of these bytes was never written."""
        if (one := self._one_place(place, columns, nbytes, active)) is not None:
            return bool((one != ALL).any())
        if not self.open or self._is_full(place, nbytes):
            return False
        first = np.asarray(place) >> 2
        if rows and nbytes >= 4:
            index = distinct(first)
            self._refresh(distinct(np.concatenate([index + k for k in range(nbytes // 4)])))
            if self._is_full(place, nbytes):
                return False
        else:
            low, high = int(first.min()), int(first.max()) + nbytes // 4 + 1
            if self._marked * 2 >= (high - low) * self.n_columns:
                self._marked = 0
                self._refresh(np.arange(low, min(high, len(self.full))))
                if self._is_full(place, nbytes):
                    return False
        for view, index in self._places(place, columns, nbytes, active):
            if (view[index] != view.dtype.type(ALL & ((1 << 8 * view.dtype.itemsize) - 1))).any():
                return True
        return False

    def _one_place(self, place: Place, columns: Array, nbytes: int, active: Array | None) -> Array | None:
        """The bits themselves, for whole words at one address of one column, as in a CTA that runs separately."""
        if columns.size != 1 or self.n_columns == 1 or nbytes < 4 or active is not None or not isinstance(place, int):
            return None
        return self.words[place >> 2 : place + nbytes >> 2, columns.item()]

    def look_again(self) -> None:
        """Recompute the full rows, after words were marked from outside."""
        self._looks += 1
        if self._looks & (self._looks - 1) == 0:
            self._refresh(np.arange(len(self.full)))

    def covers(self, low: int, high: int) -> bool:
        """Whether the rows of ``[low, high)`` are known to be full; False may mean that nobody has checked."""
        if (low, high) in self.views:
            return True
        full = bool(np.logical_and.reduce(self.full[low >> 2 : high + 3 >> 2]))
        if full:
            self.keep((low, high), [])
        return full

    def _is_full(self, place: Place, nbytes: int) -> bool:
        if self.open == len(self.full):
            return False
        if isinstance(place, int):
            return self.covers(place, place + nbytes)
        asked = (nbytes, place.dtype.char, place.tobytes()) if place.size <= FEW else None
        if asked in self.views:
            return True
        full = self._are_full(place, nbytes)
        if full and asked is not None:
            self.keep(asked, [])
        return full

    def _are_full(self, place: Array, nbytes: int) -> bool:
        first = np.asarray(place) >> 2
        low, high = int(first.min()), int(first.max()) + max(nbytes // 4, 1)
        if self.full[low:high].all():
            return True
        if nbytes == 16 and high <= len(self.full) & -4 and not (first & 3).any():
            fours = self.full[: len(self.full) & -4].view(np.uint32)
            return bool((fours.take(first >> 2) == 0x01010101).all())
        return all(bool(self.full[first + k].all()) for k in range(max(nbytes // 4, 1)))

    def _refresh(self, rows: Array) -> None:
        rows = rows[~self.full[rows]]
        if len(rows) and self.made:
            self.full[rows[(self.words[rows] == ALL).all(axis=1)]] = True
            self._recount()

    def _recount(self) -> None:
        self.open = len(self.full) - int(np.count_nonzero(self.full))

    def _places(self, place: Place, columns: Array, nbytes: int, active: Array | None) -> list[tuple[Array, Array]]:
        """Views of the bits as elements, and the flat indices of an access in them."""
        at = np.asarray(place, np.int64)
        if active is not None:
            shape = np.broadcast(at, columns, active).shape
            at, columns, mask = (spread(x, shape) for x in (at, columns, active))
            at, columns = at[mask], columns[mask]
        if nbytes < 4:
            return [(self.flat.view(f"u{nbytes}"), self.element_index(at, columns, nbytes))]
        index = (at >> 2) * self.n_columns + columns
        return [(self.flat, index + k * self.n_columns) for k in range(nbytes // 4)]


# ---- global memory ------------------------------------------------------------------------------


def nothing_written(memory: GlobalMemory, address: int) -> None:
    """Mark the allocation at an address as unwritten."""
    allocation = memory.at(address)
    if allocation is not None:
        allocation.shadow = Allocation(
            address, np.zeros(allocation.data.size, np.uint8), allocation.name, read_only=False, anchored=False
        )


def all_written(memory: GlobalMemory, address: int) -> None:
    """Mark the whole allocation at an address as written."""
    allocation = memory.at(address)
    if allocation is not None:
        allocation.shadow = None


def some_written(memory: GlobalMemory, address: int, nbytes: int) -> None:
    """Mark bytes of one allocation as written."""
    allocation = memory.find(address, address + nbytes)
    if allocation is not None and allocation.shadow is not None:
        allocation.own_shadow().data[address - allocation.start :][:nbytes] = 0xFF


def mark_written(memory: GlobalMemory, address: int, index: Array | slice, written: Array | None) -> None:
    """Set which bits of some bytes of the allocation at an address are written; None for all."""
    allocation = memory.at(address)
    if allocation is None or (allocation.shadow is None and (written is None or written.all())):
        return
    allocation.own_shadow().data[index] = 0xFF if written is None else written


LEFT, LOOSE = 1, 2
"""Marks of undefined bytes that a store has left, and of those that may be a structure's padding where a kernel loads them."""


def spoil(memory: GlobalMemory, finding: Finding | None, places: Array, marks: Array) -> None:
    """Mark stored bytes at these addresses, which the host sees by copies alone, as undefined again; the finding is for the host that
    copies those which have marks, not 0."""
    owners = memory.owners(places, 1)
    for index in distinct(owners[owners >= 0]):
        allocation, mine = memory.allocation(int(index)), owners == index
        at = places[mine] - allocation.start
        allocation.own_shadow().data[at] = 0
        allocation.forget(at)
        if finding is not None and marks[mine].any():
            allocation.withhold((finding.file, finding.line, finding.column), finding, at, marks[mine])


def told(allocation: Allocation, first: int, read: Array) -> list[Finding]:
    """The findings withheld of bytes from address ``first`` on of which some (a mask) are read; they are told once."""
    found = list[Finding]()
    here = slice(first - allocation.start, first - allocation.start + read.size)
    for key, one in list((allocation.withheld or {}).items()):
        if allocation.shadow is not None and (read & (one.marks.data[here] > allocation.shadow.data[here])).any():
            said = f"{one.finding.message}; the host reads or copies what is stored here"
            found.append(attrs.evolve(one.finding, message=said))
            del allocation.withheld[key]  # type: ignore[union-attr]
    return found


def mark(bits: Allocation, place: Place | Affine, nbytes: int, active: Array | None) -> None:
    """Mark ``nbytes`` at each ``place`` (addresses, or affine) as written."""
    bits.own()
    if type(place) is Affine:
        view = _elements(bits, place, nbytes)
        view[...] = np.iinfo(view.dtype).max
        return
    at = _chosen(np.asarray(place), active) - bits.start
    if nbytes > 16:
        bits.data[at.reshape(-1, 1) + np.arange(nbytes)] = 0xFF
        return
    for k in range(nbytes):
        bits.data[at + k] = 0xFF


def lacks(bits: Allocation, place: Place | Affine, nbytes: int, active: Array | None) -> bool:
    """Whether any of ``nbytes`` at these addresses was never written."""
    if type(place) is Affine:
        view = _elements(bits, place, nbytes)
        return bool((view != np.iinfo(view.dtype).max).any())
    at = _chosen(np.asarray(place), active) - bits.start
    return not all(bits.data[at + k].all() for k in range(nbytes))


def _chosen(place: Array, active: Array | None) -> Array:
    if active is None:
        return place
    places, chosen = np.broadcast_arrays(place, active)
    return places[chosen]


def _elements(bits: Allocation, place: Affine, nbytes: int) -> Array:
    size = min(nbytes, 8)
    shape = tuple([e if s else 1 for s, e in zip(place.strides, place.extents, strict=True)])
    steps = (*place.strides, size)
    return np.ndarray((*shape, nbytes // size), f"u{size}", bits.data, place.base - bits.start, steps)


def written_bits(allocation: Allocation) -> Allocation:
    """The shadow of an allocation."""
    assert allocation.shadow is not None
    return allocation.shadow


class WrittenBytes(Watcher):
    """Tracks global memory that began undefined, for this launch and the next."""

    compiled = frozenset({"shadow_accessed"})

    def launch_began(self, launch: LaunchState) -> None:
        """Drop shadows of fully written allocations."""
        for allocation in launch.memory.allocations:
            if allocation.shadow is not None and allocation.shadow.data.all():
                allocation.shadow = None

    def shadow_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark stores of lanes."""
        if access.kind == WRITE and access.allocation is not None:
            mark(written_bits(access.allocation), access.at, access.nbytes, access.active)

    def global_tile_written(self, machine: Machine, address: Array, nbytes: int) -> None:
        """Mark stores of bulk copies."""
        for allocation in machine.launch.memory.shadowed():
            inside = (address >= allocation.start) & (address + nbytes <= allocation.end)
            if inside.any():
                assert allocation.shadow is not None
                mark(allocation.shadow, address[inside], nbytes, None)

    def memory_allocated(self, machine: Machine, group: Group, allocation: Allocation) -> None:
        """Mark memory from malloc as unwritten."""
        nothing_written(machine.launch.memory, allocation.start)
