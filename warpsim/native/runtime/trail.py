"""The way of the warps that are shown from near, as a region leaves it (`warpsim.native.codegen.trail`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from warpsim.graph.nodes import LANES
from warpsim.machine.hooks import RegionSteps, SharedLanes
from warpsim.numerics.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsim.machine.machine import Machine
    from warpsim.native.runtime.lane_tables import WarpTables
    from warpsim.native.runtime.scratch import Scratch

ROW = 1 << 15
"""Words of a warp's row."""
ROWS = 256
"""Most warps that are shown."""
MATRIX = 8
"""Rows of a matrix in shared memory."""
LANES_WORDS = LANES // 2
"""Words of the addresses of all lanes."""


class Trace(NamedTuple):
    """What an access at a step leaves in a piece: a word with the first address and above it the lanes, where the others follow at
    ``strides`` (to the next lane, to the next row, lanes of a row); else a word with the lanes, then the addresses of all. So many
    lanes access memory ``together``: those of a matrix."""

    at: int
    writes: bool
    word: int
    together: int
    strides: tuple[int, int, int] | None = None


class Piece(NamedTuple):
    """Steps ``[first, last)`` of a block, and how many words they leave."""

    block: int
    first: int
    last: int
    words: int
    traces: list[Trace]


def shown(machine: Machine) -> Array | None:
    """The columns of the CTAs of a launch that are shown from near, if there are any, where a batch has all of these, and somebody wants to know."""
    near, ctas = machine.launch.near, machine.batch.ctas
    if near is None or not len(near) or machine.hooks.region_recorded is None:
        return None
    places = np.minimum(np.searchsorted(ctas, near), len(ctas) - 1)
    return places if np.array_equal(np.asarray(ctas)[places], near) else None


class TrailRows:
    """The rows of a call: of all warps of the CTAs ``columns``, in their order."""

    def __init__(self, scratch: Scratch, tables: WarpTables, columns: Array) -> None:
        per_cta = tables.n // tables.n_ctas
        self._warps = (columns[:, None] * per_cta + np.arange(per_cta)).reshape(-1)
        self._begins = np.arange(0, len(self._warps) * ROW, ROW)
        self._ends = scratch.array("trail_ends", tables.n, np.int64)[: tables.n]
        self._ends.fill(-1)
        self._ends[self._warps] = self._begins
        self._trail = scratch.array("trail", len(self._warps) * ROW, np.int64)

    def steps(
        self, pieces: Sequence[Piece], exits: Sequence[tuple[int, int]], lengths: Sequence[int]
    ) -> list[RegionSteps] | None:
        """The steps that all of them have taken; None if they went different ways. Blocks have so many instructions as ``lengths`` say."""
        sizes = self._ends[self._warps] - self._begins
        size = int(sizes[0])
        if (sizes != size).any():
            return None
        rows = self._trail[: len(sizes) * ROW].reshape(-1, ROW)[:, :size]
        first, at, begun = rows[0].tolist(), 0, list[int]()
        while at < size:
            begun.append(at)
            at += 1 if first[at] < 0 else pieces[first[at]].words
        if (rows[:, begun] != rows[0, begun]).any():
            return None
        found, known = list[RegionSteps](), dict[tuple[int, bytes], list[SharedLanes]]()
        for at in begun:
            if (number := first[at]) < 0:
                block, last = exits[-1 - number]
                found.append(RegionSteps(block, last, lengths[block], []))
                continue
            piece = pieces[number]
            words = rows[:, at : at + piece.words]
            key = number, words.tobytes() if piece.traces else b""
            if key not in known:
                known[key] = [lanes for trace in piece.traces for lanes in _lanes(words, trace)]
            found.append(RegionSteps(piece.block, piece.first, piece.last, known[key]))
        return found


def _lanes(words: Array, trace: Trace) -> list[SharedLanes]:
    lanes, word = np.arange(LANES), words[:, trace.word]
    if trace.strides is None:
        masks = word
        behind = np.ascontiguousarray(words[:, trace.word + 1 : trace.word + 1 + LANES_WORDS])
        addresses = behind.view(np.uint32).astype(np.int64)
    else:
        x, y, row = trace.strides
        masks = word >> 32
        addresses = word[:, None] + x * (lanes % row) + y * (lanes // row) & 0xFFFFFFFF
    here, parts = (
        (masks[:, None] >> lanes & 1) != 0,
        [slice(k, k + trace.together) for k in range(0, LANES, trace.together)],
    )
    return [SharedLanes(trace.at, trace.writes, addresses[:, part], here[:, part]) for part in parts]
