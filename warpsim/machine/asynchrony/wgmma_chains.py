"""Chains of ``wgmma``: products that a straight line of code starts one after the other on the same accumulators, as those who look on see them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from warpsim.layout import descriptors
from warpsim.machine.asynchrony.wgmma import Matrix, matrix_of
from warpsim.machine.values import Array
from warpsim.records import define, frozen

if TYPE_CHECKING:
    from warpsim.machine.plan import Issue


@frozen(eq=False)
class Tiles:
    """What the descriptors of a chain name: of each product A (unless registers hold it) and B; the ``limits`` of all A and of all B,
    and the addresses ``[..., n, m]`` of their ``chunks`` of 16 bytes; and the ``tables`` ``[products, matrices, n, m]`` (see
    `descriptors.word_places`), None where something has to be said about a descriptor."""

    products: list[list[Matrix]]
    limits: list[tuple[int, int]]
    chunks: list[Array]
    tables: Array | None
    held: object = None

    @classmethod
    def of(
        cls, bits: list[Array], shapes: list[tuple[int, int, int, bool]], n_columns: int, extent: tuple[int, int]
    ) -> Tiles:
        """Those of descriptors, A and B of one product after those of another, of matrices ``(k, extent, itemsize, transposed)``."""
        per, cycle = len(shapes), itertools.cycle(shapes)
        found = [matrix_of(b, *shape[:3], transposed=shape[3]) for b, shape in zip(bits, cycle, strict=False)]
        products = [found[first : first + per] for first in range(0, len(found), per)]
        limits = [(min(m.low for m in alike), max(m.high for m in alike)) for alike in zip(*products, strict=True)]
        if any(not matrix.elements or any(e.problem or e.moved_span for e in matrix.elements) for matrix in found):
            return cls(products, limits, [], None)
        words = [[e.words(n_columns) for e in matrix.elements] for matrix in found]
        tables = [
            np.broadcast_to(np.array([at for _, at in each], np.int64)[matrix.which], extent)
            for each, matrix in zip(words, found, strict=True)
        ]
        chunks = [_chunks(alike) for alike in zip(*products, strict=True)]
        return cls(products, limits, chunks, np.ascontiguousarray(tables).reshape(len(products), per, *extent), words)


def _chunks(matrices: Iterable[Matrix]) -> Array:
    read = [matrix.read()[0] & -descriptors.CHUNK for matrix in matrices]
    across = np.broadcast_shapes(*(address.shape[-2:] for address in read))
    return np.concatenate([np.broadcast_to(a.reshape(-1, *a.shape[-2:]), (a[..., 0, 0].size, *across)) for a in read])


@define(eq=False)
class Chain:
    """Products that are about to start together, or do: their places in the block, the slots of their operands but A, what they read,
    and the numbers of the last one (as `Starting.tickets`). A listener sets ``followed`` where it has to see each of them, which then start one by one."""

    issues: tuple[Issue, ...]
    places: tuple[int, ...]
    slots: tuple[int, ...]
    rows_a: Array
    tiles: Tiles
    tickets: Array
    followed: bool = False
