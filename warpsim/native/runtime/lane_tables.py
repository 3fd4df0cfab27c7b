"""Where the lanes of a group's warps lie: tables that compiled code reads, kept with the selection."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from warpsim.machine.selection import Axis, Rect, Selection, Shape
from warpsim.native.runtime.inputs import row_of
from warpsim.numerics.arrays import Array


class WarpTables:
    """The warps of a selection in the order CTA, warp.

    Row ``rows[k]`` of the tables is warp ``k``'s: its mask, the indices of its lanes along the thread axes, their numbers
    in the CTA, and in ``flat`` where they begin in the flat order of threads if they are 32 in a row, else -1. Entry
    ``ctas[k]`` says which column its CTA is, and its indices along the CTA axes. ``row`` lanes of each warp lie in a row
    of the threads."""

    def __init__(self, selection: Selection) -> None:
        if isinstance(selection, Rect):
            self._of_rect(selection)
        else:
            self._of_lanes(selection)
        self.n: int = len(self.rows)
        self.n_ctas: int = len(self.columns)
        self.row = row_of(selection)
        self._n_threads = selection.batch_shape.n_threads
        used = (
            self.rows,
            self.ctas,
            self.masks,
            self.t1,
            self.t0,
            self.flat,
            self.columns,
            self.c1,
            self.c0,
            self.threads,
        )
        self.pointers = np.array([array.ctypes.data for array in used], np.int64)

    def _of_rect(self, rect: Rect) -> None:
        (a1, s1, n1), (a0, s0, n0), (b1, r1, m1), (b0, r0, m0) = rect.axes
        _, width, _, columns = rect.batch_shape.extents
        i, j = (x.reshape(-1) for x in np.indices((n1, n0), np.int32))
        threads = ((a1 + s1 * i) * width + a0 + s0 * j).astype(np.int32)
        self._rows(threads, i, j)
        c1, c0 = (x.reshape(-1) for x in np.indices((m1, m0), np.int32))
        self.columns = ((b1 + r1 * c1) * columns + b0 + r0 * c0).astype(np.int32)
        self.c1, self.c0 = np.ascontiguousarray(c1), np.ascontiguousarray(c0)
        count, n_ctas = len(self.masks), m1 * m0
        self.rows = np.tile(np.arange(count, dtype=np.int32), n_ctas)
        self.ctas = np.repeat(np.arange(n_ctas, dtype=np.int32), count)

    def _rows(self, threads: Array, i: Array, j: Array) -> None:
        """Rows of threads in ascending order."""
        warps, where = np.unique(threads >> 5, return_inverse=True)
        slots = where * 32 + (threads & 31)
        count = len(warps)

        def spread(values: Array) -> Array:
            out = np.zeros(count * 32, np.int32)
            out[slots] = values
            return out

        self.t1, self.t0, self.threads = spread(i), spread(j), spread(threads)
        present = np.zeros(count * 32, np.uint32)
        present[slots] = np.uint32(1) << (threads & 31).astype(np.uint32)
        self.masks = np.bitwise_or.reduce(present.reshape(count, 32), axis=1).astype(np.uint32)
        order = spread(np.arange(len(threads), dtype=np.int32)).reshape(count, 32)
        self.flat = np.where(self.masks == 0xFFFFFFFF, order[:, 0], -1).astype(np.int32)

    def _of_lanes(self, selection: Selection) -> None:
        positions = selection.positions.reshape(-1)
        threads, ctas = selection.threads.reshape(-1).astype(np.int64), selection.ctas.reshape(-1)
        keys = ctas * (selection.batch_shape.n_threads + 31 >> 5) + (threads >> 5)
        warps, where = np.unique(keys, return_inverse=True)
        count = len(warps)
        slots = where.reshape(-1) * 32 + (threads & 31)
        self.t1, self.t0, self.threads = np.zeros((3, count * 32), np.int32)
        self.t0[slots] = np.arange(len(positions), dtype=np.int32)
        self.threads[slots] = threads
        present = np.zeros(count * 32, np.uint32)
        present[slots] = np.uint32(1) << (threads & 31).astype(np.uint32)
        self.masks = np.bitwise_or.reduce(present.reshape(count, 32), axis=1).astype(np.uint32)
        self.flat = np.full(count, -1, np.int32)
        own = np.zeros(count, np.int32)
        own[where.reshape(-1)] = ctas
        self.columns, numbers = np.unique(own, return_inverse=True)
        self.ctas = numbers.reshape(-1).astype(np.int32)
        self.c1, self.c0 = np.zeros(len(self.columns), np.int32), np.zeros(len(self.columns), np.int32)
        self.rows = np.arange(count, dtype=np.int32)

    @cached_property
    def wholes(self) -> Array:
        """For each row, the lanes that the warp has in the CTA, wherever they are."""
        numbers = self.threads.reshape(-1, 32).max(axis=1) >> 5
        sizes = np.minimum(self._n_threads - 32 * numbers, 32).astype(np.uint64)
        return ((np.uint64(1) << sizes) - np.uint64(1)).astype(np.uint32)

    @property
    def cta_starts(self) -> Array:
        """Where in the order of warps each CTA begins."""
        columns = self.columns[self.ctas]
        return np.flatnonzero(np.r_[True, columns[1:] != columns[:-1]])


def tables_of(selection: Selection) -> WarpTables:
    """The tables of a selection, made once."""
    found: WarpTables | None = getattr(selection, "_native", None)
    if found is None:
        found = (
            _of_axes(selection.batch_shape.extents, selection.axes)
            if isinstance(selection, Rect)
            else WarpTables(selection)
        )
        selection._native = found  # type: ignore[attr-defined]
    return found


@lru_cache(maxsize=64)
def _of_axes(extents: tuple[int, int, int, int], axes: tuple[Axis, ...]) -> WarpTables:
    return WarpTables(Rect(Shape(*extents), axes))
