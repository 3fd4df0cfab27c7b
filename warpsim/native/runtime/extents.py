"""What the extents of accesses tell: whether the order of warps or CTAs could be observed, and what an observer is notified of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.native.regions.options import spaces_of
from warpsim.native.runtime.compiled_region import Access
from warpsim.native.runtime.lane_tables import WarpTables
from warpsim.numerics.arrays import Array

Distinct = Callable[[int, int], bool]


def conflicts(
    accesses: list[Access], once: list[bool], ranges: Array, tables: WarpTables, distinct: Distinct, *, warps: bool
) -> bool:
    """Whether the order of ``warps`` (else of CTAs) may have been observable: one may have stored where another loaded
    or stored. ``distinct`` says whether no byte of global memory between two addresses was stored twice."""
    for space in ("global", "shared") if warps else ("global",):
        chosen = [k for k, e in enumerate(accesses) if e.space in (space, "generic")]
        if not any(accesses[k].kind != "load" for k in chosen):
            continue
        starts = tables.cta_starts if space == "shared" else np.zeros(1, np.int64)
        if _conflict_within(
            [accesses[k] for k in chosen],
            [once[k] for k in chosen],
            ranges[:, chosen, 0],
            ranges[:, chosen, 1],
            starts,
            distinct if space == "global" else None,
        ):
            return True
    return False


def _conflict_within(
    accesses: list[Access], once: list[bool], low: Array, high: Array, starts: Array, distinct: Distinct | None
) -> bool:
    """The same within one space; warps of one CTA lie between two ``starts``."""
    first, last = np.minimum.reduceat(low, starts, axis=0), np.maximum.reduceat(high, starts, axis=0)
    seen: set[tuple[int, ...]] = set()
    for k, access in enumerate(accesses):
        if access.kind == "load":
            continue
        over: Any = ((first < last[:, k : k + 1]) & (first[:, k : k + 1] < last)).any(axis=0)
        over[k] = True
        together = tuple(np.flatnonzero(over).tolist())
        if together in seen:
            continue
        seen.add(together)
        if together == (k,) and once[k]:
            continue  # its lanes store in the order CTA, warp, lane, as in a step
        kinds = {accesses[i].commutes for i in together}
        if len(kinds) == 1 and kinds != {""}:
            continue  # atomics that commute
        lows, highs = low[:, together].min(axis=1), high[:, together].max(axis=1)
        if _disjoint(lows, highs, starts):
            continue
        if distinct is not None and {accesses[i].kind for i in together} == {"store"}:
            here = highs > lows
            if distinct(int(lows[here].min()), int(highs[here].max())):
                continue
        return True
    return False


def _disjoint(low: Array, high: Array, starts: Array) -> bool:
    """Whether no two warps of a CTA have bytes in common between their extremes."""
    cta = np.zeros(len(low), np.int64)
    cta[starts[1:]] = 1
    cta = np.cumsum(cta)
    here = high > low
    low, high, cta = low[here], high[here], cta[here]
    same = cta[1:] == cta[:-1]
    if not (same & (low[1:] < high[:-1])).any():
        return True
    order = np.lexsort((low, cta))
    low, high, cta = low[order], high[order], cta[order]
    return not ((cta[1:] == cta[:-1]) & (low[1:] < np.maximum.accumulate(high)[:-1])).any()


def keeps_constants(accesses: list[Access], ranges: Array) -> bool:
    """Whether nothing was stored near what was loaded as memory that nobody stores to."""
    constants = [k for k, e in enumerate(accesses) if e.constant]
    written = [k for k, e in enumerate(accesses) if e.space == "global" and e.kind != "load"]
    if not (constants and written):
        return True
    asked = {*constants, *written}  # one at a time: NumPy is slow along short rows
    low = {k: int(ranges[:, k, 0].min()) for k in asked}
    high = {k: int(ranges[:, k, 1].max()) for k in asked}
    return not any(low[k] < high[w] and low[w] < high[k] for k in constants for w in written)


class FootprintObserver(Protocol):
    """Notified after each region of extents ``[low, high)`` of global addresses, which do not overlap."""

    def extents_read(self, memory: GlobalMemory, extents: list[tuple[int, int]]) -> None:
        """All that was read lies in there."""

    def extents_written(
        self, memory: GlobalMemory, extents: list[tuple[int, int]], mark: Callable[[int, int, int], None] | None
    ) -> None:
        """All that was stored lies in there; ``mark(first, last, marks)`` sets a byte of ``marks`` to 1 for each stored byte of
        the host's memory from ``first`` to ``last``. None where only the extents are known."""

    def extents_reduced(self, memory: GlobalMemory, extents: list[tuple[int, int]], reduction: tuple[str, str]) -> None:
        """All that a reduction (its operation and type) has changed lies in there."""


def notify(
    observer: FootprintObserver,
    memory: GlobalMemory,
    accesses: list[Access],
    ranges: Array,
    mark: Callable[[int, int, int], None],
) -> None:
    """Notify of a region that is done: ``ranges`` ``[n, accesses, 2]`` are the least and the greatest address of each
    access."""
    chosen = [(k, e) for k, e in enumerate(accesses) if "global" in spaces_of(e.space)]
    reads = [k for k, e in chosen if e.kind == "load"]
    writes = [k for k, e in chosen if e.kind == "store"]
    atomics = [(k, e) for k, e in chosen if e.kind == "atomic"]
    if reads and (found := _extents(ranges[:, reads])):
        observer.extents_read(memory, found)
    if writes and (found := _extents(ranges[:, writes])):
        observer.extents_written(memory, found, None if atomics else mark)  # the log holds what both have changed
    for k, access in atomics:
        if found := _extents(ranges[:, k : k + 1]):
            observer.extents_reduced(memory, found, (access.commutes, access.type))


def extents_in(space: str, accesses: list[Access], ranges: Array) -> list[tuple[int, int]]:
    """The memory of a space that some accesses may have touched; ``ranges`` as for `notify`."""
    return _extents(ranges[:, [k for k, e in enumerate(accesses) if space in spaces_of(e.space)]])


def _extents(ranges: Array) -> list[tuple[int, int]]:
    """Merge overlapping ranges."""
    low, high = ranges[..., 0].reshape(-1), ranges[..., 1].reshape(-1)
    there = low < high
    low, high = low[there], high[there]
    if not len(low):
        return []
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    cuts = np.flatnonzero(low[1:] > high[:-1])
    return list(zip(low[np.r_[0, cuts + 1]].tolist(), high[np.r_[cuts, len(high) - 1]].tolist(), strict=True))
