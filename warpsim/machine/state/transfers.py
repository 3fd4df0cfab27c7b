"""Asynchronous copies in flight: what they do, for which receivers, and their progress.

A `Transfer` is what one step started, for a number of receivers; each of its arrays has one element per receiver. Its
``work`` describes what is left to do; `warpsim.machine.asynchrony.moves` does it.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.isa.ports import Choose
from warpsim.layout.boxes import Boxes
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.footprints import Footprint, GlobalTarget
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.program.program import Instruction
from warpsim.types import ScalarType

Which = Array
"""Indices of receivers."""


@attrs.frozen(eq=False)
class Receivers:
    """The receivers of copies to shared memory: lane, column, start there, and mbarrier of each."""

    lane: Array
    columns: Array
    start: Array
    bar_columns: Array
    bar: Array

    def __deepcopy__(self, memo: object) -> Receivers:
        return self  # immutable


# ---- what there is to do ------------------------------------------------------------------------


@attrs.frozen(eq=False)
class ThreadCopy:
    """``cp.async``: ``nbytes`` from global to shared memory; ``take`` bytes (None: all) are read, the rest become zero.
    Addresses and ``take`` are those of the transfer's group, whose ``lanes`` are the receivers.
    """

    lanes: Array
    dst: Address
    src: Address
    nbytes: int
    take: Array | None


@attrs.frozen(eq=False)
class RemoteStore:
    """``st.async`` and ``red.async``: values of the transfer's group, stored in the cluster's shared memory, or combined
    with it.
    """

    dst: Address
    type: ScalarType
    values: tuple[Array, ...]
    operation: str | None


@attrs.frozen(eq=False)
class BoxLoad:
    """Boxes of a tensor, copied to shared memory."""

    boxes: Boxes
    to: Receivers

    def __deepcopy__(self, memo: object) -> BoxLoad:
        return self  # immutable


@attrs.frozen(eq=False)
class BoxStore:
    """Boxes copied from shared memory to a tensor, or combined with it; ``taken`` holds what was read."""

    boxes: Boxes
    source: Footprint
    taken: Array
    reduction: Choose | None


@attrs.frozen(eq=False)
class RunLoad:
    """Runs of bytes copied to shared memory (or combined with it) from global memory or from shared memory
    (``source``).
    """

    to: Receivers
    nbytes: int
    address: Array
    source: Footprint | None
    reduction: Choose | None
    type: ScalarType | None

    def __deepcopy__(self, memo: object) -> RunLoad:
        return self  # immutable


@attrs.frozen(eq=False)
class RunStore:
    """Runs of bytes copied from shared to global memory, or combined with it; ``taken`` holds what was read."""

    address: Array
    source: Footprint
    taken: Array
    reduction: Choose | None
    type: ScalarType | None


Work = ThreadCopy | RemoteStore | BoxLoad | BoxStore | RunLoad | RunStore | None


# ---- transfers ----------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Signal:
    """The mbarrier of each receiver, and what completion counts there: bytes, or ``arrivals``."""

    columns: Array
    address: Array
    nbytes: Array
    arrivals: int = 0
    keys: Array = attrs.field(init=False)
    """One number per mbarrier."""

    @keys.default
    def _keys(self) -> Array:
        return self.columns << 32 | self.address

    def __deepcopy__(self, memo: object) -> Signal:
        return self  # immutable


@attrs.define(eq=False)
class Transfer:
    """Copies of one step, started by threads of ``group``, which stands there until the copies have acted, at
    ``positions`` of the batch. ``asynchronous``: they use the async proxy; ``reduces``: they combine with memory.
    ``work`` is gone once they have acted.
    """

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
    number: Array = attrs.field(factory=lambda: np.zeros(0, np.int64))
    phase: Array = attrs.field(factory=lambda: np.zeros(0, np.int64))
    """The group of each receiver, and the phase of its mbarrier when the copy began."""
    place: Instruction | None = None
    serial: int = 0
    undefined: tuple[Array, ...] | None = None
    """A shadow of the values that a `RemoteStore` carries."""
    began: tuple[int, tuple[int, int] | None] | None = None
    """For watchers: when the copies started, and what their threads knew of others then."""
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
        self.open = np.ones(len(self.positions), np.bool_)
        self.fetched = ~self.open
        self.landed = ~self.open
        self.free = ~self.open

    def join(self, numbers: Array) -> None:
        """Make the copies part of these groups."""
        self.number = numbers
        self.first = int(numbers.min()) if numbers.size else 0

    def release(self, which: Which) -> None:
        """Note that sources may be overwritten."""
        self.free[which] = True
        self.released = bool(self.free.all())

    def complete(self, which: Which) -> None:
        """Note that copies are complete."""
        self.open[which] = False
        self.over = not self.open.any()

    def lanes(self, which: Which) -> Array:
        """A mask of the lanes of the group that started some of the copies."""
        selection = self.group.selection
        started = np.zeros(selection.batch_shape.n, np.bool_)
        started[self.positions[which]] = True
        return started[selection.positions]


@attrs.define(eq=False)
class Transfers:
    """The copies of a batch, in start order.

    ``freed`` are stores that have read their sources; they have written, but the writes are not visible yet. ``groups``
    holds each thread's current group number, by kind.
    """

    open: list[Transfer] = attrs.field(factory=list)
    freed: list[Transfer] = attrs.field(factory=list)
    started: int = 0
    groups: dict[str, Array] = attrs.field(factory=dict)
