"""Which bytes of global memory regions access, for an observer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from warpsim.native.regions.options import spaces_of
from warpsim.native.runtime.compiled_region import Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpsim.machine.state.global_memory import GlobalMemory


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


def notify(observer: FootprintObserver, memory: GlobalMemory, accesses: list[Access], ranges: Any, mark: Any) -> None:
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


def _extents(ranges: Any) -> list[tuple[int, int]]:
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
