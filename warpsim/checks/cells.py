"""The last accesses to every granule of a memory: a weak and a strong writer, a strong and two weak readers; and logs that copies
of a state share.

A cell is ``time << 32 | thread``, 0 if unused. Granules are as large as the smallest access so far, so that adjacent
bytes of different threads never share one. Most accesses to global memory give each lane its own granules at affine
addresses. As long as all accesses to an allocation do, and none overlap except those of the same lanes, they are kept
unexpanded; otherwise cells are checked and written through strided views.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar, overload

import numpy as np

from warpsim.machine.memory.addresses import pattern_of
from warpsim.machine.selection import Axis, Rect, Selection, Shape
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.word_space import WIDEST
from warpsim.machine.values import Affine, Array
from warpsim.records import frozen

SHIFT = 32
THREAD = (1 << SHIFT) - 1
LARGEST = 16
MOST = 64
"""Number of accesses kept unexpanded, and of steps between two limits."""
MOST_ASIDE = 1 << 14
"""Number of accesses set aside that `Cells.limit` leaves."""


Lanes = tuple[tuple[Axis, ...], tuple[int, ...], int]
"""The axes of a selection, the extents of its batch, and the number of the batch's first thread."""


@frozen
class Strided:
    """An access in which each lane has its own bytes, at ``start`` plus strides from the beginning of an allocation,
    between ``low`` and ``high``."""

    low: int
    high: int
    start: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    nbytes: int
    lanes: Lanes
    now: int

    @property
    def order(self) -> list[int]:
        """The axes in memory order."""
        return sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]))

    def same_bytes(self, other: Strided) -> bool:
        """Whether each lane accesses the same bytes as in another access."""
        return (self.start, self.strides, self.nbytes, self.lanes) == (
            other.start,
            other.strides,
            other.nbytes,
            other.lanes,
        )

    def epochs(self, threads: Array) -> Array:
        """Its epochs for the cells, in memory order."""
        order = self.order
        epoch: Array = np.empty((*[self.shape[axis] for axis in order], 1), np.int64)
        np.bitwise_or(threads.transpose(order)[..., None], self.now << SHIFT, out=epoch)
        return epoch

    def view(self, held: Array, granule: int, order: list[int]) -> Array:
        """Its cells, in memory order."""
        shape = (*[self.shape[axis] for axis in order], self.nbytes // granule)
        steps = (*[self.strides[axis] // granule * 8 for axis in order], 8)
        return np.ndarray(shape, np.int64, held, self.start // granule * 8, steps)


class Cells:
    """Cells for ``size`` bytes in ``width`` columns (``[granules * width]``, columns innermost).

    ``narrow``: there were strong accesses of less than gpu scope; ``elements``: the sum of the different sizes of strong accesses.
    Accesses that do not overlap are kept unexpanded until a cell is inspected.
    """

    def __init__(self, size: int, width: int) -> None:
        self.size = max(size, WIDEST)
        self.width = width
        self.granule = LARGEST
        self.narrow, self.elements = False, 0
        self._kinds: dict[str, Array] = {}
        self._kept: dict[str, list[Strided]] = {}
        self._owned: set[str] = set()
        self._aside: dict[str, list[tuple[Array, Array]]] = {}

    CACHES = frozenset({"_owned"})

    def __deepcopy__(self, memo: object) -> Cells:
        """Copies share the cells of each kind until one of them requests write access."""
        copied = copy.copy(self)
        copied._kinds, copied._owned = dict(self._kinds), set()
        copied._kept = {kind: list(notes) for kind, notes in self._kept.items()}
        copied._aside = {kind: list(notes) for kind, notes in self._aside.items()}
        self._owned.clear()
        return copied

    @property
    def kinds(self) -> dict[str, Array]:
        """The existing cells of each kind (see `of`)."""
        if self._kept:
            self._settle()
        return self._kinds

    @property
    def written(self) -> bool:
        """Whether anything has been written."""
        return any(kind in cells for kind in ("write", "strong") for cells in (self._kinds, self._kept))

    def keep(self, note: Strided, *, write: bool) -> bool:
        """Keep an access unexpanded if that suffices; False if cells are needed."""
        if self._kinds:
            return False
        kind, others = "write" if write else "read", [other for notes in self._kept.values() for other in notes]
        meeting = [other for other in others if other.low < note.high and note.low < other.high]
        if len(others) >= MOST or not all(note.same_bytes(other) for other in meeting):
            self._settle()
            return False
        notes = self._kept.setdefault(kind, [])
        self._kept[kind] = [*[other for other in notes if not any(other is m for m in meeting)], note]
        return True

    def _settle(self) -> None:
        """Expand the kept accesses into the cells."""
        kept, self._kept = self._kept, {}
        for kind, notes in kept.items():
            held = self.of(kind)
            for note in notes:
                axes, extents, base = note.lanes
                threads = Rect(Shape(*extents), axes).positions + base
                note.view(held, self.granule, note.order)[...] = note.epochs(threads)

    def fit(self, nbytes: int) -> None:
        """Reduce granules to at most ``nbytes``."""
        wanted = nbytes & -nbytes
        if wanted < self.granule:
            times = self.granule // wanted
            for name, cells in self._kinds.items():
                rows = cells.reshape(-1, self.width)
                used = np.flatnonzero(rows.any(axis=1))  # most of a large memory is untouched
                finer = np.zeros((len(rows), times, self.width), cells.dtype)
                finer[used] = rows[used, None]
                self._have(name, finer.reshape(-1))
            for notes in self._aside.values():
                for k, (index, epochs) in enumerate(notes):
                    rows, columns = np.divmod(index[:, None], self.width)
                    finer = (rows * times + np.arange(times)) * self.width + columns
                    notes[k] = finer.reshape(-1), np.repeat(epochs, times)
            self.granule = wanted

    def of(self, kind: str) -> Array:
        """Writable cells of a kind: ``write``, ``strong`` (atomics and other strong writes), ``seen`` (the last strong
        read), ``read``, ``other`` (a second reader), ``remote`` (the last access by another CTA), or ``lead`` and ``past`` (see `RaceFlags`)."""
        found = self.kinds.get(kind)
        if found is None:
            rows = -(-self.size // LARGEST) * (LARGEST // self.granule)
            return self._have(kind, np.zeros(rows * self.width, np.int64))
        return found if kind in self._owned else self._have(kind, found.copy())

    def _have(self, kind: str, cells: Array) -> Array:
        self._kinds[kind] = cells
        self._owned.add(kind)
        return cells

    def widen(self, width: int) -> None:
        """Give CTAs that shared a column their own columns: thread ``t`` becomes ``t * width + column``."""
        for name, cells in self.kinds.items():
            used = np.flatnonzero(cells)
            kept = cells[used, None]
            if name != "past":
                wide = (kept >> SHIFT << SHIFT | (kept & THREAD) * width) + np.arange(width)
                kept = np.where(kept <= 0, kept, wide)
            new = np.zeros((len(cells), width), cells.dtype)
            new[used] = kept
            self._have(name, new.reshape(-1))
        for notes in self._aside.values():
            for k, (index, epochs) in enumerate(notes):
                wide = epochs >> SHIFT << SHIFT | (epochs & THREAD) * width
                index, wide = ((each[:, None] + np.arange(width)).reshape(-1) for each in (index * width, wide))
                notes[k] = index, wide
        self.width = width

    # ---- accesses set aside ------------------------------------------------------------------

    def forget(self, kind: str, index: Array, epochs: Array, slots: Sequence[str]) -> None:
        """Set accesses aside that the cells of no slot remember: `beside` finds them."""
        gone = epochs != 0
        for slot in slots:
            seen = self.of(slot).take(index)
            gone &= (seen == 0) | ((seen ^ epochs) & THREAD != 0)
        if gone.any():
            self._aside.setdefault(kind, []).append((index[gone], epochs[gone]))

    def limit(self, kind: str) -> None:
        """Drop the oldest accesses that were set aside, from time to time."""
        if len(self._aside.get(kind, ())) > MOST:
            where, epochs = self._all_aside(kind)
            self._aside[kind] = [(where[-MOST_ASIDE:], epochs[-MOST_ASIDE:])]

    @property
    def sets_aside(self) -> bool:
        """Whether any accesses were set aside."""
        return bool(self._aside)

    def has_aside(self, kind: str) -> bool:
        """Whether accesses of a kind were set aside."""
        return bool(self._aside.get(kind))

    def beside(self, kind: str, index: Array, floor: int) -> tuple[Array, Array]:
        """Which of these cells accesses were set aside from, and their epochs: not those from before a time."""
        where, epochs = self._all_aside(kind)
        late = epochs >> SHIFT >= floor
        where, epochs = where[late], epochs[late]
        self._aside[kind] = [(where, epochs)] if len(where) else []
        order = np.argsort(index, kind="stable")
        low, high = (np.searchsorted(index[order], where, side) for side in ("left", "right"))
        n = high - low
        ranks = np.arange(n.sum()) - np.repeat(n.cumsum() - n, n)
        return order[np.repeat(low, n) + ranks], np.repeat(epochs, n)

    def settled(self, kind: str, index: Array) -> None:
        """Forget what was set aside from cells that all later accesses are compared with a writer of."""
        where, epochs = self._all_aside(kind)
        left = ~np.isin(where, index)
        self._aside[kind] = [(where[left], epochs[left])]

    def last_until(self, index: Array, threads: Array, now: int) -> None:
        """Move reads of threads that were set aside to the present."""
        where, epochs = self._all_aside("read")
        mine = np.isin(where << SHIFT | epochs & THREAD, index << SHIFT | threads)
        self._aside["read"] = [(where, np.where(mine, now << SHIFT | epochs & THREAD, epochs))]

    def _all_aside(self, kind: str) -> tuple[Array, Array]:
        notes = self._aside.get(kind) or [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        where, epochs = zip(*notes, strict=True)
        return np.concatenate(where), np.concatenate(epochs)


def cells_of(memory: dict[int, Cells], allocation: Allocation) -> Cells:
    """The cells of an allocation, by its number."""
    if allocation.number not in memory:
        memory[allocation.number] = Cells(allocation.data.size, 1)
    return memory[allocation.number]


T = TypeVar("T")


class Log(Sequence[T]):
    """The first ``n`` of entries that copies may share. Appending after another copy has done so makes a private copy."""

    __slots__ = ("entries", "n")

    def __init__(self, *entries: T) -> None:
        self.entries: list[T] = list(entries)
        self.n = len(entries)

    def append(self, *entries: T) -> int:
        """Append entries; returns the index of the first."""
        index = self.n
        if len(self.entries) != index:
            self.entries = self.entries[:index]
        self.entries += entries
        self.n = index + len(entries)
        return index

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self.entries[: self.n][index]
        return self.entries[range(self.n)[index]]  # those behind belong to another copy

    def __deepcopy__(self, memo: object) -> Log[T]:
        copied: Log[T] = Log()
        copied.entries, copied.n = self.entries, self.n
        return copied

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        return None, {"entries": self.entries[: self.n], "n": self.n}


def note_strided(
    cells: Cells,
    allocation: Allocation,
    place: Affine,
    nbytes: int,
    selection: Selection,
    base: int,
    now: int,
    *,
    write: bool,
) -> bool:
    """Record this step in the cells if no lane touches another thread's bytes, now or earlier; otherwise do nothing and
    return False. ``base`` is the number of the batch's first thread."""
    pattern = pattern_of(place.strides, place.extents, nbytes)
    if not isinstance(selection, Rect) or pattern.shape != selection.shape or not pattern.disjoint:
        return False
    start = place.base - allocation.start
    if nbytes & (nbytes - 1) or start % nbytes or not pattern.aligned:
        return False
    cells.fit(nbytes)
    lanes = selection.axes, selection.batch_shape.extents, base
    note = Strided(start + pattern.low, start + pattern.high, start, place.strides, pattern.shape, nbytes, lanes, now)
    if cells.keep(note, write=write):
        return True
    order, threads = note.order, selection.positions + base
    epoch = note.epochs(threads)
    for kind in ("strong", "write", "read", "other", "seen") if write else ("strong", "write", "read"):
        held = cells.kinds.get(kind)
        if held is not None and not _own(note.view(held, cells.granule, order), epoch):
            return False
    note.view(cells.of("write" if write else "read"), cells.granule, order)[...] = epoch
    return True


def _own(seen: Array, epoch: Array) -> bool:
    """Whether the cells are unused, or used by the same lanes only."""
    if not np.bitwise_or.reduce(seen, axis=None):
        return True
    return not np.bitwise_or.reduce(seen ^ epoch, axis=None) & THREAD
