"""Vector clocks: per CTA, the time before which the accesses of each of its threads are known."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import pairwise

import attrs
import numpy as np

from warpsim.machine.selection import Shape
from warpsim.machine.values import Array

Rows = dict[int, Array]
"""CTA -> ``[n_threads]`` times."""
Past = tuple[int, int]
"""Times of the last barriers of the CTA and the warp."""


@attrs.define(eq=False)
class Numbering:
    """Thread (and agent) numbers in a launch: the first of each batch, its CTAs, their number, and the total."""

    bases: list[int] = attrs.field(factory=list)
    batches: list[tuple[Array, int, int]] = attrs.field(factory=list)

    def enter(self, ctas: Array, shape: Shape) -> int:
        """The number of a new batch's first thread."""
        base = self.bases[-1] + self.batches[-1][2] if self.bases else 0
        self.bases.append(base)
        self.batches.append((ctas, shape.n_ctas, rows_of(shape) * shape.n_ctas))
        return base

    def owner(self, number: int) -> tuple[int, int]:
        """The width and the first thread of the batch of a thread or CTA."""
        at = bisect.bisect(self.bases, number) - 1
        return self.batches[at][1], self.bases[at]

    def owners(self, threads: Array) -> Array:
        """The batch of each thread."""
        return np.searchsorted(np.array(self.bases), threads, "right") - 1


def by_column(values: Array, columns: Array) -> Iterator[tuple[int, Array]]:
    """The values of each column."""
    if not len(values):
        return
    order = np.argsort(columns, kind="stable")
    values, columns = values[order], columns[order]
    changes = np.flatnonzero(columns[1:] != columns[:-1]) + 1
    for low, high in pairwise((0, *changes.tolist(), len(values))):
        yield int(columns[low]), values[low:high]


def rows_of(shape: Shape) -> int:
    """Number of threads and agents of a CTA."""
    return shape.n_threads + -(-shape.n_threads // 128)


def join(into: Rows, rows: Rows) -> None:
    """Take the later of each time."""
    for cta, row in rows.items():
        old = into.get(cta)
        into[cta] = row if old is None else np.maximum(old, row)


def grouped(keys: Array) -> tuple[Array, Array]:
    """The distinct keys and the index of each, without sorting if they are close together."""
    low = int(keys.min())
    size = int(keys.max()) - low + 1
    if size > 4 * len(keys):
        distinct, group = np.unique(keys, return_inverse=True)
        return distinct, group.reshape(-1)
    places: Array = np.zeros(size, np.int64)
    places[keys - low] = 1
    distinct = np.flatnonzero(places)
    places[distinct] = np.arange(len(distinct))
    return distinct + low, places[keys - low]
