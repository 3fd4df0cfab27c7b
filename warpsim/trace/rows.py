"""The warps that a trace shows, and those that a group of threads belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.machine.machine import Machine
from warpsim.machine.selection import Selection

Array = NDArray[Any]
KEPT = 4096
"""Number of selections whose rows are cached."""


@attrs.frozen
class Crew:
    """Warps that act together: their rows, and the lanes of each as bits."""

    rows: tuple[int, ...]
    lanes: tuple[int, ...]


class Rows:
    """The warps of some CTAs as the rows of a picture, CTA by CTA."""

    def __init__(self, grid: tuple[int, int, int], n_threads: int, ctas: Iterable[int]) -> None:
        self.ctas = np.array(sorted(set(ctas)), np.int64)
        self.per_cta = -(-n_threads // 32)
        self.grid = grid
        self.n_threads = n_threads
        self.crews: list[Crew] = []
        self._numbers: dict[Crew, int] = {}
        self._known: dict[tuple[int, int], tuple[Any, Any, int]] = {}

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
        crew = Crew(tuple(rows.tolist()), tuple(lanes[rows].tolist()))
        found = self._numbers.get(crew)
        if found is None:
            found = self._numbers[crew] = len(self.crews)
            self.crews.append(crew)
        return found

    def cta(self, number: int) -> tuple[int, int, int]:
        """The coordinates of a CTA."""
        gx, gy, _ = self.grid
        return number % gx, number // gx % gy, number // (gx * gy)

    def names(self) -> list[tuple[int, int, int, int]]:
        """CTA and warp of each row."""
        return [(*self.cta(int(cta)), warp) for cta in self.ctas for warp in range(self.per_cta)]

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
