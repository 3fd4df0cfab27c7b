"""Whether the order of warps or CTAs may have been observable, by the extents of their accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.native.runtime.compiled_region import Access
from warpsim.native.runtime.lane_tables import WarpTables

Distinct = Callable[[int, int], bool]


def conflicts(
    accesses: list[Access], once: list[bool], ranges: Any, tables: WarpTables, distinct: Distinct, *, warps: bool
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
    accesses: list[Access], once: list[bool], low: Any, high: Any, starts: Any, distinct: Distinct | None
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


def _disjoint(low: Any, high: Any, starts: Any) -> bool:
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
