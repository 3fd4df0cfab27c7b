"""Asynchronous copies in flight: what they do, for which receivers, and their progress.

A `Transfer` is what one step started, for a number of receivers; each of its arrays has one element per receiver. Its
``work`` describes what is left to do; `warpsim.machine.asynchrony.transfers` does it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import attrs
import numpy as np

from warpsim.isa.ports import Choose, TensorCoreWork, TensorRuns
from warpsim.layout import mbarriers
from warpsim.layout.boxes import Boxes, Form, straight
from warpsim.layout.tensor_map import Fields
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.group import Group
from warpsim.machine.state.word_space import WordSpace, in_a_row
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import SharedByCopies, define, frozen
from warpsim.types import ScalarType

ALIGNMENT = 128
"""Alignment of a box in shared memory, in bytes."""
GRANULE = 16
"""Bytes that copies write at once if possible."""


@frozen(eq=False)
class Footprint(SharedByCopies):
    """Runs ``[start, start + nbytes)`` of bytes in the shared memory of a column: one per receiver, or several, whose
    ``receiver`` is then given. ``at`` is where all of them begin, ``run`` their columns as an index."""

    columns: Array
    start: Array
    nbytes: int
    receiver: Array | None = None
    low: int = attrs.field(init=False)
    high: int = attrs.field(init=False)
    at: int | None = attrs.field(init=False)
    run: slice | Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        low, high = 0, -self.nbytes
        if len(self.start) == 1:
            low = high = self.start.item()
        elif len(self.start):
            low, high = int(np.minimum.reduce(self.start)), int(np.maximum.reduce(self.start))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high + self.nbytes)
        object.__setattr__(self, "at", low if low == high else None)
        object.__setattr__(self, "run", in_a_row(self.columns))

    def of_runs(self, values: Array) -> Array:
        """What belongs to the receiver of each run."""
        return values if self.receiver is None else values[self.receiver]

    def holders(self, address: Array, columns: Array, open: Array) -> Array:
        """A mask of the bytes that are in a run of an open receiver."""
        keys = self.columns << 32 | self.start
        order = np.argsort(keys, kind="stable")
        wanted = columns << 32 | address
        return _within(
            keys[order], self.of_runs(open)[order], np.maximum(wanted - self.nbytes + 1, columns << 32), wanted
        )


@define(eq=False)
class GlobalTarget(SharedByCopies):
    """Global memory that copies write (or read), within ``[low, high)``: ``boxes`` of a tensor, or ``nbytes`` at each
    receiver's address, of them those in ``kept``.
    """

    low: int
    high: int
    boxes: Boxes | None = None
    address: Array | None = None
    nbytes: int = 0
    kept: Array | None = None
    _runs: tuple[Array, Array, int] | None = None

    CACHES: ClassVar[frozenset[str]] = frozenset({"_runs"})

    @classmethod
    def of_boxes(cls, boxes: Boxes) -> GlobalTarget:
        """Boxes of a tensor."""
        return cls(*boxes.span(), boxes)

    @classmethod
    def of_runs(cls, address: Array, nbytes: int, kept: Array | None = None) -> GlobalTarget:
        """Runs of bytes."""
        return cls(int(address.min()), int(address.max()) + nbytes, None, address, nbytes, kept)

    def _spread(self) -> tuple[Array, Array, int]:
        """The addresses of elements, their receivers, and the element size."""
        if self.boxes is not None:
            return self.boxes.spread()
        assert self.address is not None
        if self.kept is not None:
            receiver, byte = self.kept.nonzero()
            return self.address[receiver] + byte, receiver, 1
        size = min(self.nbytes & -self.nbytes, GRANULE)
        address = (self.address[:, None] + np.arange(0, self.nbytes, size)).reshape(-1)
        return address, np.repeat(np.arange(len(self.address)), self.nbytes // size), size

    def forget(self) -> None:
        """Drop what can be computed again."""
        self._runs = None

    def runs(self) -> tuple[Array, Array, int]:
        """Addresses (ascending), receivers and size of runs; of 16 bytes if whole ones are written."""
        if self._runs is None:
            found = None if self.boxes is None else self.boxes.granules(GRANULE)
            if found is not None:
                order = np.argsort(found[0], kind="stable")
                self._runs = found[0][order], found[1][order], GRANULE
                return self._runs
            address, receiver, size = self._spread()
            whole = distinct(receiver << 44 | address // GRANULE)
            if len(whole) * GRANULE == len(address) * size:
                address, receiver, size = (whole & (1 << 44) - 1) * GRANULE, whole >> 44, GRANULE
            order = np.argsort(address, kind="stable")
            self._runs = address[order], receiver[order], size
        return self._runs

    def holders(self, address: Array, open: Array) -> Array:
        """A mask of the bytes that an open receiver writes."""
        starts, receivers, size = self.runs()
        return _within(starts, open[receivers], address - size + 1, address)


def _within(keys: Array, open: Array, first: Array, last: Array) -> Array:
    """For each pair of bounds, whether a key between them (keys are sorted) is open."""
    before = np.concatenate(([0], np.cumsum(open)))
    found: Array = before[np.searchsorted(keys, last, "right")] > before[np.searchsorted(keys, first, "left")]
    return found


Which = Array
"""Indices of receivers."""


@frozen(eq=False)
class Tile:
    """Loads of one plain tiled map to one place of each receiver's CTA."""

    form: Form
    writes: Footprint
    signal: Signal


@frozen(eq=False)
class Receivers(SharedByCopies):
    """The receivers of copies to shared memory: lane, column, start there, and mbarrier of each."""

    lane: Array
    columns: Array
    start: Array
    bar_columns: Array
    bar: Array
    _footprints: dict[int, Footprint] = attrs.field(init=False, factory=dict)
    _signals: dict[int, Signal] = attrs.field(init=False, factory=dict)

    CACHES: ClassVar[frozenset[str]] = frozenset({"_footprints", "_signals"})

    def footprint(self, nbytes: int) -> Footprint:
        """What copies of so many bytes write."""
        if nbytes not in self._footprints:
            self._footprints[nbytes] = Footprint(self.columns, self.start, nbytes)
        return self._footprints[nbytes]

    def signal(self, nbytes: int) -> Signal:
        """Their completion."""
        if nbytes not in self._signals:
            self._signals[nbytes] = Signal(self.bar_columns, self.bar, np.array([nbytes]))
        return self._signals[nbytes]

    def tile(self, fields: Fields, size: int) -> Tile | None:
        """Loads of a map to ``size`` bytes of shared memory, if they are such."""
        start = int(self.start[0]) if len(self.start) else -1
        form = straight(fields, start) if start >= 0 and start % ALIGNMENT == 0 else None
        if form is None:
            return None
        writes = self.footprint(form.extent)
        return None if writes.at is None or writes.high > size else Tile(form, writes, self.signal(form.nbytes))


@frozen(eq=False)
class LastingMap:
    """A tensor map that cannot change, loads of it by their receivers, and boxes by what names them: loops ask again."""

    fields: Fields
    tiles: dict[Receivers, Tile] = attrs.field(factory=dict)
    boxes: dict[Hashable, Boxes] = attrs.field(factory=dict)


# ---- what there is to do ------------------------------------------------------------------------


@frozen(eq=False)
class ThreadCopy:
    """``cp.async``: ``nbytes`` from global to shared memory; ``take`` bytes (None: all) are read, the rest become zero.
    Addresses and ``take`` are those of the transfer's group, whose ``lanes`` are the receivers."""

    lanes: Array
    dst: Address
    src: Address
    nbytes: int
    take: Array | None


@frozen(eq=False)
class RemoteStore:
    """``st.async`` and ``red.async``: values of the transfer's group, stored in the cluster's shared memory, or combined
    with it."""

    dst: Address
    type: ScalarType
    values: tuple[Array, ...]
    operation: str | None


@frozen(eq=False)
class BoxLoad(SharedByCopies):
    """Boxes of a tensor, copied to shared memory."""

    boxes: Boxes
    to: Receivers


@frozen(eq=False)
class BoxStore:
    """Boxes copied from shared memory to a tensor, or combined with it; ``taken`` holds what was read."""

    boxes: Boxes
    source: Footprint
    taken: Array
    reduction: Choose | None


@frozen(eq=False)
class RunLoad(SharedByCopies):
    """Runs of bytes copied to shared memory (or combined with it) from global memory or from shared memory
    (``source``). ``ignored`` ``[2, lanes]``: bytes at either end that may be outside."""

    to: Receivers
    nbytes: int
    address: Array
    source: Footprint | None
    reduction: Choose | None
    type: ScalarType | None
    ignored: Array | None = None


@frozen(eq=False)
class RunStore:
    """Runs of bytes copied from shared to global memory, or combined with it; ``taken`` holds what was read. ``kept``
    ``[receivers, bytes]``: the bytes that are stored (None: all).
    """

    address: Array
    source: Footprint
    taken: Array
    reduction: Choose | None
    type: ScalarType | None
    kept: Array | None = None


Work = ThreadCopy | RemoteStore | BoxLoad | BoxStore | RunLoad | RunStore | TensorCoreWork | None


@frozen(eq=False)
class TensorUse:
    """The tensor memory that tcgen05 operations read and write. ``pipes`` tells the tensor cores of the receivers apart, by a
    column."""

    cta_group: int
    pipes: Array
    reads: tuple[TensorRuns, ...] = ()
    writes: tuple[TensorRuns, ...] = ()


# ---- mbarriers ----------------------------------------------------------------------------------


class Objects(SharedByCopies):
    """mbarriers, each at an ``address`` of the CTA of a column; ``keys`` has one number for each. ``at`` is where all of them lie,
    each in a CTA of its own (None if they do not), and ``run`` is then the slice of their columns."""

    __slots__ = ("_every", "address", "at", "columns", "keys", "run")
    CACHES: ClassVar[frozenset[str]] = frozenset({"_every"})

    def __init__(self, columns: Array, address: Array) -> None:
        run = in_a_row(columns)
        alike = type(run) is slice and bool((address == address[0]).all())
        self.columns, self.address, self.run = columns, address, run
        self.keys = columns << 32 | address
        self.at: int | None = address.item(0) if alike else None
        self._every: tuple[Array, Array] | None = None

    @property
    def every(self) -> tuple[Array, Array]:
        """The index of each, and that it is there."""
        if self._every is None:
            self._every = np.arange(len(self.keys)), np.ones(len(self.keys), np.bool_)
        return self._every

    def words(self, space: WordSpace) -> Array:
        """Their words in shared memory."""
        if self.at is not None:
            return space.doubles(self.at, self.run)
        return space.gather(self.address, self.columns, np.dtype(np.uint64))


class Signal(Objects):
    """The mbarrier of each receiver, and what completion counts there: bytes (``one`` number, if it is the same for all), or
    ``arrivals``."""

    __slots__ = ("arrivals", "nbytes", "one")

    def __init__(self, columns: Array, address: Array, nbytes: Array, arrivals: int = 0) -> None:
        super().__init__(columns, address)
        self.nbytes, self.arrivals = nbytes, arrivals
        self.one: int | None = nbytes.item() if nbytes.size == 1 else None


# ---- transfers ----------------------------------------------------------------------------------


_NONE: Array = np.zeros(0, np.int64)
_LAST = np.iinfo(np.int64).max


@define(eq=False)
class Transfer:
    """Copies (or tcgen05 operations) of one step, started by threads of ``group``, which stands there until the copies have acted, at
    ``positions`` of the batch. ``asynchronous``: they use the async proxy; ``reduces``: they combine with memory.
    ``work`` is gone once they have acted."""

    group: Group
    positions: Array
    work: Work
    writes: Footprint | None = None
    reads: Footprint | None = None
    kind: str = ""
    asynchronous: bool = True
    reduces: bool = False
    signal: Signal | None = None
    target: GlobalTarget | None = None
    tensor: TensorUse | None = None
    after: str = ""
    """The kind of its threads' earlier operations that an arrival follows."""
    number: Array = _NONE
    words: Array = _NONE
    """The group of each receiver, and the word of its mbarrier when the copy began (of a commit, when it arrives)."""
    place: Instruction | None = None
    serial: int = 0
    undefined: tuple[tuple[Array, ...], ...] = ()
    """Shadows of the values that a `RemoteStore` carries."""
    began: tuple[int, tuple[int, int] | None, Array | None] | None = None
    known: Array | None = None
    """For watchers: when the copies started, what their threads knew of others then, and their places as other threads; and
    what those knew of tcgen05."""
    open: Array = attrs.field(init=False)
    fetched: Array = attrs.field(init=False)
    landed: Array = attrs.field(init=False)
    free: Array = attrs.field(init=False)
    """Masks of receivers: incomplete; source read; has acted; source may be overwritten."""
    first: int = attrs.field(init=False, default=0)
    """The lowest group of a receiver: waits for earlier ones need not look further."""
    over: bool = attrs.field(init=False, default=False)
    released: bool = attrs.field(init=False, default=False)
    """Whether all receivers are complete; whether all sources may be overwritten."""

    def __attrs_post_init__(self) -> None:
        masks = np.zeros((4, self.positions.size), np.bool_)
        masks[0] = True
        self.open, self.fetched, self.landed, self.free = masks

    @property
    def phase(self) -> Array:
        """The phase of each mbarrier then."""
        return mbarriers.phase(self.words)

    def join(self, numbers: Array) -> None:
        """Make the copies part of these groups."""
        self.number = numbers
        self.first = numbers.item(0) if numbers.size == 1 else int(np.minimum.reduce(numbers, initial=_LAST))

    def release(self, which: Which) -> None:
        """Note that sources may be overwritten."""
        self.free[which] = True
        self.released = bool(np.logical_and.reduce(self.free))

    def complete(self, which: Which) -> None:
        """Note that copies are complete."""
        self.open[which] = False
        self.over = not np.logical_or.reduce(self.open)

    def lanes(self, which: Which) -> Array:
        """A mask of the lanes of the group that started some of the copies."""
        selection = self.group.selection
        started = np.zeros(selection.batch_shape.n, np.bool_)
        started[self.positions[which]] = True
        return started[selection.positions]


@define(eq=False)
class Transfers:
    """The copies of a batch, in start order.

    ``freed`` are stores that have read their sources; they have written, but the writes are not visible yet. ``groups``
    holds each thread's current group number, by kind.
    """

    open: list[Transfer] = attrs.field(factory=list)
    freed: list[Transfer] = attrs.field(factory=list)
    started: int = 0
    groups: dict[str, Array] = attrs.field(factory=dict)
