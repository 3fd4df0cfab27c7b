"""What threads know of others: times before which the accesses of each thread of a CTA are known, CTA by CTA."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.machine.selection import Shape
from warpsim.machine.values import Array

Rows = dict[int, Array]
"""CTA -> ``[n_threads]`` times."""
Past = tuple[int, int, int]
"""Times of the last barriers of the CTA, the warp and the cluster."""


def by_column(values: Array, columns: Array) -> Iterator[tuple[int, Array]]:
    """The values of each column."""
    if not len(values):
        return
    order = np.argsort(columns, kind="stable")
    values, columns = values[order], columns[order]
    starts = np.flatnonzero(np.r_[True, columns[1:] != columns[:-1]])
    for start, part in zip(starts.tolist(), np.split(values, starts[1:]), strict=True):
        yield int(columns[start]), part


def rows_of(shape: Shape) -> int:
    """How many threads and agents a CTA has."""
    return shape.n_threads + -(-shape.n_threads // 128)


def join(into: Rows, rows: Rows) -> None:
    """Add what ``rows`` know."""
    for cta, row in rows.items():
        old = into.get(cta)
        into[cta] = row if old is None else np.maximum(old, row)
