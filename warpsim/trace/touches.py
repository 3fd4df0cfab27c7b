"""Which shared memory the CTAs shown access, as marks."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from warpsim.machine.hooks import SharedLanes
from warpsim.machine.machine import Machine
from warpsim.machine.state.batch import BatchState
from warpsim.machine.values import Affine, Array, Place
from warpsim.numerics.arrays import distinct
from warpsim.trace.rows import KEPT, Rows

HEIGHT = 256
"""Most blocks in the picture."""
NEAR = 4
"""Accesses of the same place within this many steps share a mark."""
MOST = 300_000
BITS = 20
"""Of the number of a block."""
LOW = (1 << BITS) - 1
TOGETHER = 1 << 18
"""So many runs of blocks touched become marks at once."""


@lru_cache(maxsize=16)
def known_runs(block: int, index: bytes) -> dict[Hashable, Array]:
    """The process-wide table of the runs of blocks that affine accesses of whole selections touch, where CTAs are at these positions."""
    return {}


class Touches:
    """Marks ``(first step, last step, position of the CTA, first block, last block, kind)``; kinds are 0 for reads, 1
    for writes, 2 for tiles that wgmma reads."""

    def __init__(self, size: int, rows: Rows) -> None:
        self.size = size
        self.rows = rows
        self.block = 16
        while self.block * HEIGHT < size:
            self.block *= 2
        self._runs = np.empty(0, np.int64)
        """Runs of blocks, ascending (`_packed`)."""
        self._steps, self._touched, self._size = array("q"), list[Array](), 0
        """Accesses that are not yet marks: their steps and runs, and how many of these."""
        self._last, self._open = np.empty(0, np.int64), np.empty(0, np.int64)
        """Of each run: the last step with such an access, and the number of its last mark."""
        self._begun: list[tuple[Array, Array]] = []
        """The first steps of marks, and their runs."""
        self._ends = np.empty(0, np.int64)
        self._count = 0
        """How many marks there would be if there were no limit."""
        self._known: dict[Hashable, Array] = {}
        """The runs of accesses, by what decides them, of CTAs of one batch."""
        self._affine: dict[Hashable, Array] = {}
        self._batch: BatchState | None = None
        self._index = np.empty(0, np.int64)
        """The position of each of its CTAs among those shown."""

    def touch(
        self,
        machine: Machine,
        kind: int,
        at: Place | Affine,
        columns: Array,
        active: Array | None,
        shape: tuple[int, ...],
        now: int,
    ) -> None:
        """Mark accesses of up to 16 bytes at each place; ``at``, ``columns`` and ``active`` broadcast to ``shape``."""
        if self._batch is not machine.batch:
            self._batch, self._known = machine.batch, {}
            self._index = self.rows.index(machine)
            self._affine = known_runs(self.block, self._index.tobytes())
        place: object = at
        known = self._known
        if type(at) is Affine:
            place = at.base, at.strides, at.extents
            known = self._affine if active is None else known
        elif isinstance(at, np.ndarray):
            place = at.shape, at.tobytes()
        lanes = None if active is None else (active.shape, active.tobytes())
        key = kind, place, columns.shape, columns.tobytes(), lanes, shape
        found = known.get(key)
        if found is None:
            if len(known) >= KEPT:
                known.clear()
            found = known[key] = _packed(kind, self._keys(at, columns, active, shape))
        self.add(found, now)

    def lanes(self, access: SharedLanes, mine: Array, index: Array) -> Array:
        """The runs that lanes touch of the warps ``mine``, each in the CTA of a position shown."""
        keys = index[:, None] << BITS | access.addresses[mine] >> self.block.bit_length() - 1
        return _packed(int(access.writes), distinct(keys[access.here[mine]]))

    def add(self, touched: Array, now: int) -> None:
        """Mark them at a step."""
        if len(touched):
            self._steps.append(now)
            self._touched.append(touched)
            self._size += len(touched)
            if self._size > TOGETHER:
                self._mark()

    def _keys(self, place: Place | Affine, columns: Array, active: Array | None, shape: tuple[int, ...]) -> Array:
        """The blocks accessed, ascending; the upper bits of each are the CTA's position."""
        index, owners, shift = self._index, np.asarray(columns), self.block.bit_length() - 1
        at = place.array().view(np.int64) if type(place) is Affine else np.asarray(place, np.int64)
        alike = at.size == 1 or (at.ndim == 4 and at.shape[2:] == (1, 1))  # the same in all CTAs
        if active is None and alike and owners.ndim == 4 and owners.shape[:2] == (1, 1):
            blocks = distinct(at.reshape(-1) >> shift)
            ctas = distinct(index[owners.reshape(-1)])
            return (ctas[ctas >= 0][:, None] << BITS | blocks).reshape(-1)
        here = index[owners]
        keys = here << BITS | at >> shift
        if active is None and (here >= 0).all():
            return distinct(keys)
        mask = here >= 0 if active is None else (here >= 0) & active
        return distinct(np.broadcast_to(keys, shape)[np.broadcast_to(mask, shape)])

    def _mark(self) -> None:
        """Let the marks of what was touched go on, or begin new ones."""
        if not self._size:
            return
        runs, steps = np.concatenate(self._touched), np.repeat(self._steps, [len(one) for one in self._touched])
        before = self._runs
        self._runs = np.unique(np.concatenate([before, *{id(one): one for one in self._touched}.values()]))
        self._steps, self._touched, self._size = array("q"), [], 0
        kept, runs = np.searchsorted(self._runs, before), np.searchsorted(self._runs, runs)
        last, opened = np.full(len(self._runs), -1 - NEAR), np.full(len(self._runs), -1)
        last[kept], opened[kept] = self._last, self._open
        self._last, self._open = last, opened
        order = np.argsort(runs.astype(np.uint16) if len(self._runs) <= 1 << 16 else runs, kind="stable")
        runs, steps = runs[order], steps[order]
        first = np.diff(runs, prepend=-1) != 0
        before = np.where(first, self._last[runs], np.roll(steps, 1))
        new = steps - before > NEAR
        parts = np.flatnonzero(first | new)
        ends = steps[np.append(parts[1:], len(steps)) - 1]
        begun = np.flatnonzero(new[parts])
        begun = begun[np.argsort(order[parts[begun]])]
        runs, numbers = runs[parts], self._open[runs[parts]]
        numbers[begun] = np.arange(self._count, self._count + len(begun))
        kept = begun[: max(MOST - self._count, 0)]
        self._begun.append((steps[parts[kept]], self._runs[runs[kept]]))
        self._ends = np.append(self._ends, ends[kept])
        self._count += len(begun)
        self._ends[numbers[numbers < MOST]] = ends[numbers < MOST]
        self._last[runs], self._open[runs] = ends, numbers  # of several parts of a run, the last

    @property
    def marks(self) -> list[tuple[int, ...]]:
        """The marks so far."""
        self._mark()
        if not self._begun:
            return []
        steps, runs = (np.concatenate(part) for part in zip(*self._begun, strict=True))
        fields = [steps, self._ends, runs >> 2 * BITS + 2, runs >> BITS + 2 & LOW, runs >> 2 & LOW, runs & 3]
        return list(zip(*[field.tolist() for field in fields], strict=True))


def _packed(kind: int, keys: Array) -> Array:
    """The runs that blocks make, each as a number: the CTA's position, the first block, the last, and the kind of access."""
    if not len(keys):
        return keys
    ends = np.ones(len(keys) + 1, np.bool_)
    np.not_equal(keys[1:], keys[:-1] + 1, out=ends[1:-1])
    return keys[ends[:-1]] << BITS + 2 | (keys[ends[1:]] & LOW) << 2 | kind
