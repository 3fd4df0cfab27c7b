"""Asynchronous copies in flight: the shared memory that they read and write, and when their effects appear.

A `Transfer` is what one step started, for a number of receivers: all of its arrays have one element for each. With
eager effects it acts at once and is kept, until its completion is observed, only to name accesses that come too early.
With late ones (``async_effects="at_wait"``) it acts when a thread observes its completion: when the thread that started
it waits for its group, or when any thread looks at its mbarrier and nothing else is missing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.footprints import Footprint, GlobalTarget
from warpsim.machine.reporting import present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

Which = Array
"""Indices of receivers."""


@attrs.frozen(eq=False)
class Signal:
    """The mbarrier of each receiver, and what completion counts there: bytes, or ``arrivals``."""

    columns: Array
    address: Array
    nbytes: Array
    arrivals: int = 0
    keys: Array = attrs.field(init=False)
    """One number for each mbarrier."""

    @keys.default
    def _keys(self) -> Array:
        return self.columns << 32 | self.address


@attrs.define(eq=False)
class Transfer:
    """Copies of one step. ``fetch`` takes the source of some receivers, ``deliver`` writes what was taken;
    ``asynchronous`` where that goes through the async proxy; ``reduces`` where it is combined with what is there."""

    group: Group
    positions: Array
    deliver: Callable[[Which], None]
    fetch: Callable[[Which], None] | None = None
    writes: Footprint | None = None
    reads: Footprint | None = None
    kind: str = ""
    asynchronous: bool = True
    reduces: bool = False
    signal: Signal | None = None
    target: GlobalTarget | None = None
    number: Any = None
    phase: Any = None
    place: Instruction | None = None
    serial: int = 0
    open: Array = attrs.field(init=False)
    fetched: Array = attrs.field(init=False)
    free: Array = attrs.field(init=False)
    """Receivers that are not complete; whose source was taken; whose source may be written again."""

    def __attrs_post_init__(self) -> None:
        self.open = np.ones(len(self.positions), np.bool_)
        self.fetched = ~self.open
        self.free = ~self.open


class Transfers:
    """The copies of a batch, in the order in which they were started."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        settings = machine.launch.settings
        self.late = settings.async_effects == "at_wait"
        self.watched = machine.window.async_issued is not None
        self.open: list[Transfer] = []
        self.freed: list[Transfer] = []
        """Stores that have read their sources; what they write is there, but not yet to be seen."""
        self._started = 0
        self._groups: dict[str, Array] = {}

    # ---- start -------------------------------------------------------------------------------

    def start(self, transfer: Transfer) -> None:
        """Begin copies: they act now, or when their completion is observed."""
        if self.watched:
            transfer.place = present(transfer.group)
        if transfer.kind:
            transfer.number = self._group_numbers(transfer.kind)[transfer.positions]
        if transfer.signal is not None:
            transfer.phase = mbarriers.phase(self._words(transfer.signal.columns, transfer.signal.address))
        if self.machine.window.async_issued is not None:
            self.machine.window.async_issued(self.machine, transfer)
        if not self.late:
            self._act(transfer, np.arange(len(transfer.positions)))
            transfer.deliver, transfer.fetch = _nothing, None  # lets go of what was copied
        if self.late or self.watched:
            self.open.append(transfer)
            self._started += 1
            transfer.serial = self._started
            if self.machine.window.async_started is not None:
                self.machine.window.async_started(self.machine, transfer)
            self.machine.memory.globals.version += 1  # whoever sleeps at the mbarrier looks again

    # ---- groups ------------------------------------------------------------------------------

    def _group_numbers(self, kind: str) -> Array:
        """The present group of each thread of the batch."""
        found = self._groups.get(kind)
        if found is None:
            found = self._groups[kind] = np.zeros(self.machine.batch.shape.n, np.int64)
        return found

    def commit(self, kind: str) -> None:
        """Close the present group of the threads of the step."""
        if self.late or self.watched:
            self._group_numbers(kind)[self.lanes()] += 1

    def wait(self, kind: str, n: int, *, read_only: bool = False, everything: bool = False) -> None:
        """Complete (or only fetch) all but the ``n`` newest groups of the threads of the step."""
        freed = [] if read_only else self.freed
        if not any(t.kind == kind for t in [*self.open, *freed]):
            return
        limit = np.full(self.machine.batch.shape.n, -1, np.int64)
        lanes = self.lanes()
        limit[lanes] = np.iinfo(np.int64).max if everything else self._group_numbers(kind)[lanes] - n
        for transfer in [*freed, *self.open]:
            if transfer.kind == kind:
                due = np.flatnonzero(transfer.open & (transfer.number < limit[transfer.positions]))
                if self.machine.window.async_waited is not None:
                    self.machine.window.async_waited(self.machine, transfer, due[~transfer.free[due]])
                transfer.free[due] = True
                if not read_only:
                    self._complete(transfer, due)
                elif self.late:
                    self._fetch(transfer, due)
        self._sweep()

    def lanes(self) -> Array:
        """Flat positions of the threads that execute the present step."""
        memory = self.machine.memory
        positions = memory.group.selection.positions
        if memory.active is None:
            return positions.reshape(-1)
        chosen: Array = positions[np.broadcast_to(memory.active, positions.shape)]
        return chosen

    # ---- mbarriers ---------------------------------------------------------------------------

    def observe(self, columns: Array, address: Array, parity: Array) -> None:
        """Threads look whether the phase of ``parity`` of their mbarriers is over: complete what only they lack."""
        if not any(t.signal is not None for t in self.open):
            return
        keys, first = np.unique(columns << 32 | address, return_index=True)
        columns, address, parity = columns[first], address[first], parity[first]
        words = self._words(columns, address)
        if self.late:
            stop = self._ready(keys, words, mbarriers.phase(words) == parity)
        else:
            stop = self._ended(keys, mbarriers.phase(words))
        for number, transfer in enumerate(list(self.open)):
            if transfer.signal is not None:
                at, known = _find(keys, transfer.signal.keys)
                self._complete(transfer, np.flatnonzero(known & transfer.open & (number <= stop[at])))
        self._sweep()

    def _ended(self, keys: Array, phases: Array) -> Array:
        """The last transfer to each mbarrier whose phase is over, -1 where there is none: phases end in order."""
        stop = np.full(len(keys), -1, np.int64)
        for number, transfer in enumerate(self.open):
            if transfer.signal is not None:
                at, known = _find(keys, transfer.signal.keys)
                stop[at[known & transfer.open & (phases[at] != transfer.phase)]] = number
        return stop

    def _ready(self, keys: Array, words: Array, wanted: Array) -> Array:
        """The last transfer whose completion ends the present phase of each mbarrier, -1 where none does."""
        nbytes, arrivals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        stop = np.full(len(keys), -1, np.int64)
        tx, pending = mbarriers.tx_count(words), mbarriers.pending(words)
        for number, transfer in enumerate(self.open):
            signal = transfer.signal
            if signal is None:
                continue
            at, known = _find(keys, signal.keys)
            mine = np.flatnonzero(known & transfer.open)
            np.add.at(nbytes, at[mine], np.broadcast_to(signal.nbytes, at.shape)[mine])
            np.add.at(arrivals, at[mine], signal.arrivals)
            stop[wanted & (stop < 0) & (nbytes == tx) & (arrivals == pending)] = number
        return stop

    def _words(self, columns: Array, address: Array) -> Array:
        return self.machine.batch.shared.gather(address, columns, np.dtype(np.uint64))

    # ---- completion --------------------------------------------------------------------------

    def _act(self, transfer: Transfer, which: Which) -> None:
        self._fetch(transfer, which)
        outer, self.machine.delivering = self.machine.delivering, self.late or transfer.kind != "cp.async"
        transfer.deliver(which)
        self.machine.delivering = outer
        if transfer.signal is not None:
            self._count(transfer.signal, which)
            if self.machine.window.async_signalled is not None:
                self.machine.window.async_signalled(self.machine, transfer, which)
        self.machine.memory.globals.version += 1

    def _fetch(self, transfer: Transfer, which: Which) -> None:
        which = which[~transfer.fetched[which]]
        if transfer.fetch is not None and len(which):
            transfer.fetch(which)
        transfer.fetched[which] = True

    def _complete(self, transfer: Transfer, which: Which) -> None:
        if not len(which):
            return
        if transfer.signal is not None and transfer.signal.arrivals:
            self._complete_before(transfer, which)
        if self.late:
            self._act(transfer, which)
        if self.machine.window.async_visible is not None:
            self.machine.window.async_visible(self.machine, transfer, which)
        transfer.open[which] = False

    def _complete_before(self, arrival: Transfer, which: Which) -> None:
        """An arrival that was to follow the copies of its threads: those come first."""
        mine = np.zeros(self.machine.batch.shape.n, np.bool_)
        mine[arrival.positions[which]] = True
        for transfer in self.open:
            if transfer is arrival:
                return
            if transfer.kind == "cp.async":
                self._complete(transfer, np.flatnonzero(transfer.open & mine[transfer.positions]))

    def _count(self, signal: Signal, which: Which) -> None:
        """Count at the mbarriers, one receiver after the other where they share one."""
        columns, address = signal.columns[which], signal.address[which]
        nbytes = np.broadcast_to(signal.nbytes, signal.columns.shape)[which]
        keys = signal.keys[which]
        left = np.arange(len(which))
        while len(left):
            _, first = np.unique(keys[left], return_index=True)
            now = left[first]
            words = self._words(columns[now], address[now])
            if signal.arrivals:
                words = mbarriers.arrive(words, np.full(len(now), signal.arrivals))
            else:
                words = mbarriers.complete_bytes(words, nbytes[now])
            self.machine.fill("shared", address[now], columns[now], words)
            left = np.delete(left, first)

    def finish(self) -> None:
        """The batch has ended: what was to be written to global memory is written."""
        if self.late:
            for transfer in self.open:
                if transfer.signal is None and transfer.writes is None:
                    self._complete(transfer, np.flatnonzero(transfer.open))
        self.open = []

    def _sweep(self) -> None:
        kept = [t for t in self.open if t.open.any()]
        if not self.late:
            self.freed = [t for t in self.freed if t.open.any()] + [t for t in kept if t.target and t.free.all()]
            kept = [t for t in kept if not (t.target and t.free.all())]
        self.open = kept


def _nothing(which: Which) -> None:
    """What is left to do of a copy that has acted."""


def _find(keys: Array, wanted: Array) -> tuple[Array, Array]:
    """The index in sorted ``keys`` of each of ``wanted``, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
