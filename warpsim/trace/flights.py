"""Asynchronous operations from issue to visibility."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.trace.rows import Rows


@attrs.define
class Flight:
    """An operation in one CTA. ``kind`` is cp.async, load, store or wgmma; ``low`` to ``high`` are its bytes in shared
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


@attrs.define(eq=False)
class Open:
    """A transfer in flight: its flights, the flight of each receiver, and how many receivers of each are pending."""

    transfer: Transfer
    flights: list[Flight]
    which: Array
    left: Array


class Flights:
    """Everything that was started in the CTAs shown."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.all: list[Flight] = []
        self._open: dict[int, Open] = {}
        self._wgmma: dict[tuple[int, int], list[tuple[int, Flight]]] = {}

    def start(self, machine: Machine, transfer: Transfer, instruction: int, now: int) -> None:
        """Start a flight for each CTA whose shared memory the copies read or write."""
        foot = transfer.writes or transfer.reads
        if foot is None or not len(transfer.positions):
            return
        place = self.rows.index(machine)[foot.columns]
        if (place < 0).all():
            return
        kind = transfer.kind if transfer.kind == "cp.async" else "store" if transfer.writes is None else "load"
        flights: list[Flight] = []
        which = np.full(len(place), -1)
        n_ctas = machine.batch.shape.n_ctas
        for number in np.unique(place[place >= 0]).tolist():
            mine = place == number
            first = int(transfer.positions[mine][0])
            crew = self.rows.number(machine, np.array([first]))
            row = self.rows.crews[crew].rows[0] if crew >= 0 else number * self.rows.per_cta + (first // n_ctas >> 5)
            flight = Flight(kind, instruction, row, number, now, foot.nbytes * int(mine.sum()))
            flight.low, flight.high = int(foot.start[mine].min()), int(foot.start[mine].max()) + foot.nbytes
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
