"""What threads have acquired through sync variables: numbers into a shared table of vector clocks."""

from __future__ import annotations

import numpy as np

from warpsim.checks.race.vector_clocks import Numbering, Rows, WgmmaReads, by_column, grouped, join
from warpsim.machine.selection import Shape
from warpsim.machine.values import Array

MOST = 4096
"""Size of the table above which unused entries are collected."""


class Acquired:
    """What each thread of a batch has acquired, and what it will have acquired with its next fence."""

    def __init__(self, shape: Shape, rows: int, base: int, numbers: Numbering) -> None:
        self.shape, self.rows, self.base, self.numbers = shape, rows, base, numbers
        self.known: Array | None = None
        self.pending: Array | None = None
        """What the next fence of any scope will have acquired."""
        self.pending_far: Array | None = None
        """What only a fence of a scope beyond the CTA will: no thread of the same CTA has released it."""
        self.table: list[Rows] = [{}]

    def take_pending(self, positions: Array, scope: str) -> None:
        """Acquire what these threads have read from flags, by a fence of this scope."""
        for pending in (self.pending,) if scope == "cta" else (self.pending, self.pending_far):
            if pending is None:
                continue
            flat = pending.reshape(-1)
            held = flat[positions]
            flat[positions] = 0
            taken = [(self.table[number], positions[held == number]) for number in np.unique(held).tolist() if number]
            for rows, mine in taken:  # numbers may change as threads learn
                self.learn("known", rows, mine)

    def learn(self, kind: str, rows: Rows, positions: Array) -> None:
        """Join the clocks of a sync variable into those of threads: ``kind`` is "known", "pending" or "pending_far"."""
        if getattr(self, kind) is None:
            setattr(self, kind, np.zeros((self.rows, self.shape.n_ctas), np.int64))
        flat = getattr(self, kind).reshape(-1)
        held = flat[positions]
        same = len(held) and (held == held[0]).all()
        for number in held[:1].tolist() if same else np.unique(held).tolist():
            old = self.table[number]
            if all(cta in old and (old[cta] >= row).all() for cta, row in rows.items()):
                continue
            mine = positions if same else positions[held == number]
            new = dict(old)
            join(new, rows)
            flat[mine] = len(self.table)
            self.table.append(new)
        if len(self.table) > MOST:
            self._collect()

    def share(self, positions: Array, wgmma: WgmmaReads | None) -> None:
        """Share what one thread of a CTA knows about other CTAs with all, after a barrier."""
        assert self.known is not None
        rows_of_threads, n_ctas = self.known, self.shape.n_ctas
        for column in np.unique(positions % n_ctas).tolist():
            numbers = np.unique(rows_of_threads[: self.shape.n_threads, column])
            if len(numbers) == 1 and self.base + column not in self.table[numbers[0]]:
                continue
            rows: Rows = {}
            for number in numbers.tolist():
                join(rows, self.table[number])
            own = rows.pop(self.base + column, None)
            if own is not None and wgmma is not None:  # all else of the CTA is over
                wgmma.learn(column, own)
            rows_of_threads.reshape(-1)[positions[positions % n_ctas == column]] = self._number(rows)
        if len(self.table) > MOST:
            self._collect()

    def share_in_warps(self, positions: Array, masks: Array | None) -> None:
        """Share what one of the synchronising lanes knows about other CTAs with all of them."""
        assert self.known is not None
        known, n_ctas = self.known.reshape(-1), self.shape.n_ctas
        warps = (positions // n_ctas >> 5) * n_ctas + positions % n_ctas
        if masks is not None:  # lanes with the same mask synchronise
            warps = warps << 32 | masks.astype(np.int64)
        for _, mine in by_column(positions, warps):
            numbers = np.unique(known[mine])
            if len(numbers) > 1:
                rows: Rows = {}
                for number in numbers.tolist():
                    join(rows, self.table[number])
                known[mine] = self._number(rows)
        if len(self.table) > MOST:
            self._collect()

    def _collect(self) -> None:
        """Collect unused entries of the table."""
        arrays = [a for a in (self.known, self.pending, self.pending_far) if a is not None]
        used = np.unique(np.concatenate([a.reshape(-1) for a in arrays]))
        kept = [0, *(k for k in used.tolist() if k)]
        order = np.zeros(len(self.table), np.int64)
        order[kept] = np.arange(len(kept))
        for array in arrays:
            array[...] = order[array]
        self.table = [self.table[k] for k in kept]

    def _number(self, rows: Rows) -> int:
        if not rows:
            return 0
        self.table.append(rows)
        return len(self.table) - 1

    def mark(self, threads: Array, times: Array, positions: Array, ordered: Array) -> None:
        """Mark the accesses that the threads have learnt of."""
        assert self.known is not None
        numbers = self.known.reshape(-1)[positions]
        left = np.flatnonzero(~ordered & (numbers > 0))
        at, n_ctas = threads[left] - self.base, self.shape.n_ctas
        inside = (at >= 0) & (at < self.rows * n_ctas)
        if inside.any():
            mine, at = left[inside], at[inside]
            pairs, group = grouped(numbers[mine] * n_ctas + at % n_ctas)
            rows = [self.table[k // n_ctas].get(self.base + k % n_ctas) for k in pairs.tolist()]
            told = np.array([row is not None for row in rows])
            if told.any():
                latest = np.zeros((len(rows), self.rows), np.int64)
                latest[told] = np.stack([row for row in rows if row is not None])
                ordered[mine] |= times[mine] < latest[group, at // n_ctas]
        left = left[~inside]
        for number in np.unique(numbers[left]).tolist():
            mine = left[numbers[left] == number]
            for cta, row in self.table[number].items():
                n_ctas, base = self.numbers.owner(cta)
                at = threads[mine] - base
                here = (at >= 0) & (at < len(row) * n_ctas)
                here &= at % n_ctas == cta - base
                chosen = mine[here]
                ordered[chosen] |= times[chosen] < row[at[here] // n_ctas]
