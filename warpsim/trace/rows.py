"""The warps that a trace shows, the intervals in which they wait, and asynchronous operations from issue to visibility."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.selection import Selection
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.records import define, frozen

KEPT = 4096
"""Number of selections whose rows are cached."""


@frozen
class Crew:
    """Warps that act together: their rows, and the lanes of each as bits."""

    rows: tuple[int, ...]
    lanes: tuple[int, ...]


class Rows:
    """The warps of some CTAs as the rows of a picture, CTA by CTA."""

    def __init__(self, launch: LaunchState, ctas: Iterable[int]) -> None:
        self.ctas = np.array(sorted(set(ctas)), np.int64)
        self.launch = launch
        self.n_threads = math.prod(launch.block)
        self.per_cta = -(-self.n_threads // 32)
        self.crews: list[Crew] = []
        self._numbers: dict[Crew, int] = {}
        self._known: dict[tuple[int, int], tuple[Selection, BatchState, int]] = {}

    def index(self, machine: Machine) -> Array:
        """The position of each CTA of a batch among those shown, -1 for others."""
        numbers = np.asarray(machine.batch.ctas)
        at = np.minimum(np.searchsorted(self.ctas, numbers), len(self.ctas) - 1)
        return np.where(self.ctas[at] == numbers, at, -1)

    def crew(self, machine: Machine, selection: Selection) -> int:
        """The crew number of a group's threads; -1 if none of them is shown."""
        key = id(selection), id(machine.batch)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            positions = selection.positions.reshape(-1)
            known = self._known[key] = selection, machine.batch, self.number(machine, positions)
        return known[2]

    def number(self, machine: Machine, positions: Array) -> int:
        """The crew number of some threads of a batch."""
        n_ctas = machine.batch.shape.n_ctas
        place = self.index(machine)[positions % n_ctas]
        threads, place = positions[place >= 0] // n_ctas, place[place >= 0]
        if not len(threads):
            return -1
        lanes = np.zeros(len(self.ctas) * self.per_cta, np.uint32)
        bits = np.uint32(1) << (threads & 31).astype(np.uint32)
        np.bitwise_or.at(lanes, place * self.per_cta + (threads >> 5), bits)
        rows = np.flatnonzero(lanes)
        return self._crew(tuple(rows.tolist()), tuple(lanes[rows].tolist()))

    def everyone(self) -> int:
        """The crew number of all threads shown."""
        rows = range(len(self.ctas) * self.per_cta)
        return self._crew(tuple(rows), tuple(map(self.whole, rows)))

    def _crew(self, rows: tuple[int, ...], lanes: tuple[int, ...]) -> int:
        crew = Crew(rows, lanes)
        found = self._numbers.get(crew)
        if found is None:
            found = self._numbers[crew] = len(self.crews)
            self.crews.append(crew)
        return found

    def names(self) -> list[tuple[int, int, int, int]]:
        """CTA and warp of each row."""
        return [(*self.launch.cta_of(cta), warp) for cta in self.ctas.tolist() for warp in range(self.per_cta)]

    def whole(self, row: int) -> int:
        """The existing lanes of a row's warp, as bits."""
        return (1 << min(32, self.n_threads - 32 * (row % self.per_cta))) - 1


class Waits:
    """Intervals in which warps wait, opened and closed per row."""

    def __init__(self, n_rows: int) -> None:
        self.spans: list[tuple[tuple[int, ...], int, int, str]] = []
        """Rows, first step, last step, and what for."""
        self._n_rows = n_rows
        self._since: dict[str, Array] = {}

    def open(self, what: str, rows: tuple[int, ...], now: int) -> None:
        """Start waiting on these rows, unless they are waiting already."""
        since = self._since.setdefault(what, np.full(self._n_rows, -1, np.int64))
        chosen = np.array(rows, np.int64)
        since[chosen] = np.where(since[chosen] < 0, now, since[chosen])

    def close(self, what: str, rows: Iterable[int], now: int, label: str = "") -> None:
        """End waiting on these rows."""
        since = self._since.get(what)
        if since is None:
            return
        chosen = np.array(list(rows), np.int64)
        chosen = chosen[since[chosen] >= 0]
        for start in np.unique(since[chosen]).tolist():
            if now > start:
                mine = tuple(chosen[since[chosen] == start].tolist())
                self.spans.append((mine, start, now, label or what))
        since[chosen] = -1

    def end(self, now: int) -> None:
        """End the launch: warps that still wait have waited in vain."""
        for what in list(self._since):
            self.close(what, range(self._n_rows), now + 1, f"{what}, which was never over")


@define
class Flight:
    """An operation in one CTA. ``kind`` is cp.async, load, store, wgmma or tcgen05; ``low`` to ``high`` are its bytes in shared
    memory.

    It is ``issued`` by the warp of a ``row``, ``signalled`` at its mbarrier, ``free`` when its source may be written
    again, and ``visible`` to threads that have waited for it; each is a step, or -1 if it never happened.
    """

    kind: str
    instruction: int
    row: int
    cta: int
    issued: int
    nbytes: int = 0
    low: int = 0
    high: int = 0
    signalled: int = -1
    free: int = -1
    visible: int = -1


@define(eq=False)
class Open:
    """A transfer in flight: its flights, the flight of each receiver, and how many receivers of each are pending."""

    transfer: Transfer
    flights: list[Flight]
    which: Array
    left: Array


def _kind_of(transfer: Transfer) -> str:
    if transfer.tensor is not None:
        return "tcgen05"
    return transfer.kind if transfer.kind == "cp.async" else "store" if transfer.writes is None else "load"


class Flights:
    """Everything that was started in the CTAs shown."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.all: list[Flight] = []
        self._open: dict[int, Open] = {}
        self._wgmma: dict[tuple[int, int], list[tuple[int, Flight]]] = {}

    def start(self, machine: Machine, transfer: Transfer, instruction: int, now: int) -> None:
        """Start a flight for each CTA whose shared memory the copies read or write."""
        foot, tensor = transfer.writes or transfer.reads, transfer.tensor
        if (foot is None and tensor is None) or not len(transfer.positions):
            return
        place = self.rows.index(machine)[tensor.pipes if tensor is not None else foot.columns]  # type: ignore[union-attr]
        if (place < 0).all():
            return
        kind = _kind_of(transfer)
        flights: list[Flight] = []
        which = np.full(len(place), -1)
        n_ctas = machine.batch.shape.n_ctas
        for number in np.unique(place[place >= 0]).tolist():
            mine = place == number
            first = int(transfer.positions[mine][0])
            crew = self.rows.number(machine, np.array([first]))
            row = self.rows.crews[crew].rows[0] if crew >= 0 else number * self.rows.per_cta + (first // n_ctas >> 5)
            flight = Flight(kind, instruction, row, number, now)
            if foot is not None:
                start = foot.start[foot.of_runs(mine)]
                flight.nbytes = foot.nbytes * len(start)
                flight.low, flight.high = int(start.min()), int(start.max()) + foot.nbytes
            which[mine] = len(flights)
            flights.append(flight)
        self.all += flights
        left = np.bincount(which[which >= 0], minlength=len(flights))
        self._open[id(transfer)] = Open(transfer, flights, which, left)

    def signalled(self, transfer: Transfer, which: Array, now: int) -> None:
        """Note that copies have signalled their mbarriers."""
        for flight in self._of(transfer, which):
            flight.signalled = now

    def waited(self, transfer: Transfer, which: Array, now: int) -> None:
        """Note that the threads that started copies have waited for them."""
        for flight in self._of(transfer, which):
            flight.free = now

    def visible(self, transfer: Transfer, which: Array, now: int) -> None:
        """Note that copies are visible; those of one flight may become so one after another."""
        for flight in self._of(transfer, which):
            flight.visible = now
        known = self._open.get(id(transfer))
        if known is not None:
            places = known.which[which]
            known.left -= np.bincount(places[places >= 0], minlength=len(known.left))
            if (known.left <= 0).all():
                del self._open[id(transfer)]

    def _of(self, transfer: Transfer, which: Array) -> list[Flight]:
        known = self._open.get(id(transfer))
        if known is None:
            return []
        return [known.flights[at] for at in np.unique(known.which[which]).tolist() if at >= 0]

    # ---- wgmma -------------------------------------------------------------------------------

    def issue(self, machine: Machine, group: Group, issued: Array, instruction: int, now: int) -> None:
        """Note that warpgroups start a wgmma; ``issued`` is the number of the previous one, per warpgroup."""
        for column, flight in self._columns(machine, group, instruction, now):
            tickets = self._wgmma.setdefault((id(machine.batch), column), [])
            tickets.append((int(issued[column]) + 1, flight))
            self.all.append(flight)

    def done(self, machine: Machine, group: Group, done: Array, now: int) -> None:
        """Note that warpgroups have waited for their wgmma up to number ``done``."""
        for column in group.selection.warpgroups.tolist():
            tickets = self._wgmma.get((id(machine.batch), column), [])
            while tickets and tickets[0][0] <= done[column]:
                tickets.pop(0)[1].visible = now

    def _columns(self, machine: Machine, group: Group, instruction: int, now: int) -> list[tuple[int, Flight]]:
        index, n_ctas = self.rows.index(machine), machine.batch.shape.n_ctas
        found = []
        for column in group.selection.warpgroups.tolist():
            number = int(index[column % n_ctas])
            if number >= 0:
                row = number * self.rows.per_cta + column // n_ctas * 4
                found.append((column, Flight("wgmma", instruction, row, number, now)))
        return found
