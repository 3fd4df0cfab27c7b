"""Where copies read global memory."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.machine.state.footprints import GlobalTarget
from warpsim.machine.state.transfers import BoxLoad, RunLoad, ThreadCopy, Transfer
from warpsim.machine.values import Array


@attrs.frozen(eq=False)
class Source:
    """What ``receivers`` of a copy get: each one of the runs or boxes of ``extent``, which have ``numbers``."""

    extent: GlobalTarget
    receivers: Array
    numbers: Array

    def unread(self, open: Array) -> Array:
        """Which runs or boxes some ``open`` receiver may still read."""
        found: Array = np.zeros(int(self.numbers.max()) + 1, np.bool_)
        found[self.numbers[open[self.receivers]]] = True
        return found

    def starters(self, positions: Array) -> Array:
        """The position of the thread that copies each run or box."""
        found = np.zeros(int(self.numbers.max()) + 1, np.int64)
        found[self.numbers] = positions[self.receivers]
        return found


def sources_of(transfer: Transfer) -> Iterator[Source]:
    """The sources in global memory of copies that have not acted yet."""
    work = transfer.work
    every = np.arange(len(transfer.positions))
    if not len(every):
        return
    if isinstance(work, BoxLoad):
        yield Source(GlobalTarget.of_boxes(work.boxes), every, work.to.lane)
    elif isinstance(work, RunLoad) and work.source is None:
        yield Source(GlobalTarget.of_runs(work.address, work.nbytes), every, work.to.lane)
    elif isinstance(work, ThreadCopy):
        places, taken = read_by_threads(transfer, work)
        aligned = places % work.nbytes == 0  # others fault
        for nbytes in np.unique(taken[aligned & (taken > 0)]).tolist():
            mine = np.flatnonzero(aligned & (taken == nbytes))
            yield Source(GlobalTarget.of_runs(places[mine], nbytes), mine, np.arange(len(mine)))


def read_by_threads(transfer: Transfer, work: ThreadCopy) -> tuple[Array, Array]:
    """Where the receivers of ``cp.async`` read, and how many bytes."""
    shape, take = transfer.group.selection.shape, work.take
    taken = np.array(work.nbytes) if take is None else take.reshape(()) if take.size == 1 else take
    places, taken = (np.broadcast_to(x, shape).reshape(-1)[work.lanes] for x in (work.src.places, taken))
    return places, taken
