"""What a region has counted for a profile: where each counter is, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from warpsim.graph.nodes import LANES
from warpsim.machine.hooks import AccessCounts, RegionCounts
from warpsim.native.runtime.lane_tables import WarpTables
from warpsim.numerics.arrays import Array

LINE = 128
"""Addresses as far apart cost the same: they are in the same bank, and as far from the begin of a sector."""


class Word(IntEnum):
    """The words of accesses. WHOLE warps are not among WARPS, their lanes not among LANES. COST is in sectors, or in pieces with
    their passes in the upper half. Of the piece with MOST passes, MASK has the lanes, and addresses of all lanes follow."""

    LANES = 0
    WARPS = 1
    COST = 2
    WHOLE = 3
    MOST = 4
    ROW = 5
    CTA = 6
    MASK = 7
    ADDRESSES = 8


ACCESS = {"global": 4, "shared": 40, "local": 1}
"""How many words accesses of a space have."""


class Counter(NamedTuple):
    """A counter of a block, or of the step ``at`` of one, from a word on. "even" ones of lanes, warps and pieces
    stand for all accesses without conflicts that come to shared memory together."""

    what: str
    block: int
    at: int
    word: int
    nbytes: int = 0


def counts_of(
    counters: Iterable[Counter],
    words: Array,
    blocks: Sequence[int],
    entered: Sequence[int],
    tables: WarpTables,
    seconds: float,
) -> RegionCounts:
    """What a call of a region has counted: warps and threads that have ``entered`` each of its blocks, and in ``words`` the rest."""
    found: dict[str, dict[tuple[int, int], int]] = {}
    accesses: list[tuple[int, int, AccessCounts]] = []
    listed = words.tolist()
    for counter in counters:
        what, block, at, word, nbytes = counter
        size = ACCESS.get(what)
        if what == "even":
            lanes, warps, pieces = listed[word : word + 3]
            if warps:
                pieces = pieces or warps
                accesses.append((block, at, AccessCounts("shared", nbytes, lanes, warps, 0, pieces, pieces)))
        elif size is None:
            if listed[word]:
                found.setdefault(what, {})[block, at] = listed[word]
        elif any(listed[word : word + min(size, Word.MOST)]):
            accesses.append((block, at, _access(counter, listed[word : word + size], tables)))
    partial = found.get("partial", {})
    entries = {
        number: (entered[2 * k], entered[2 * k + 1], partial.get((number, 0), 0))
        for k, number in enumerate(blocks)
        if entered[2 * k]
    }
    diverged = {block: n for (block, _), n in found.get("diverged", {}).items()}
    return RegionCounts(seconds, entries, found.get("left out", {}), diverged, accesses)


def _access(counter: Counter, words: list[int], tables: WarpTables) -> AccessCounts:
    space, nbytes = counter.what, counter.nbytes
    if space == "local":
        return AccessCounts(space, nbytes, words[Word.LANES])
    warps, cost = words[Word.WARPS] + words[Word.WHOLE], words[Word.COST]
    lanes = words[Word.LANES] + LANES * words[Word.WHOLE]
    if space == "global":
        return AccessCounts(space, nbytes, lanes, warps, cost)
    pieces, passes = cost & 0xFFFFFFFF, cost >> 32
    most, row, mask = words[Word.MOST], words[Word.ROW], words[Word.MASK]
    if most <= 1:  # no banks conflict
        return AccessCounts(space, nbytes, lanes, warps, 0, pieces, passes, most)
    addresses = tuple([a if mask >> k & 1 else -1 for k, a in enumerate(words[Word.ADDRESSES :])])
    warp, cta = int(tables.threads[32 * row : 32 * row + 32].max()) >> 5, int(tables.columns[words[Word.CTA]])
    return AccessCounts(space, nbytes, lanes, warps, 0, pieces, passes, most, cta, warp, addresses)
