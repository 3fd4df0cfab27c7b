"""Where copies read global memory, and copies that store what is there already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.state.footprints import GlobalTarget
from warpsim.machine.state.transfers import BoxLoad, BoxStore, RunLoad, RunStore, ThreadCopy, Transfer
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation


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


WORD = np.dtype(np.uint32)


def _bytes_of(machine: Machine, transfer: Transfer) -> tuple[Array, Array, Array]:
    """Addresses, values and receivers of all bytes that copies store, ordered by address."""
    work = transfer.work
    assert isinstance(work, (BoxStore, RunStore))
    start, columns = work.source.start, work.source.columns[:, None]
    receivers = np.arange(len(start))
    if isinstance(work, BoxStore):
        place, inside = work.boxes.elements(receivers)
        elements = machine.batch.shared.gather(work.boxes.shared(start), columns, work.boxes.dtype)
        place, size = work.boxes.fields.address + place, work.boxes.dtype.itemsize
    else:
        steps, size = np.arange(0, work.source.nbytes, WORD.itemsize), WORD.itemsize
        place, elements = (
            work.address[:, None] + steps,
            machine.batch.shared.gather(start[:, None] + steps, columns, WORD),
        )
        inside = np.ones(place.shape, np.bool_)
    fetched = work.taken.view(np.uint8).reshape(*place.shape, size)
    values = np.ascontiguousarray(elements).view(np.uint8).reshape(*place.shape, size)
    values = np.where(transfer.fetched[:, None, None], fetched, values)[inside]
    address = place[inside][:, None] + np.arange(size)
    receiver = np.broadcast_to(np.nonzero(inside)[0][:, None], address.shape).reshape(-1)
    order = np.argsort(address.reshape(-1), kind="stable")
    return address.reshape(-1)[order], values.reshape(-1)[order], receiver[order]


def changed(machine: Machine, transfer: Transfer, allocation: Allocation) -> tuple[Array, Array]:
    """Masks of the receivers that change memory as it will be when the stores in flight have acted, and of those that
    store other bytes than another receiver does at the same place.
    """
    address, values, receiver = _bytes_of(machine, transfer)
    old = allocation.data[address - allocation.start].copy()
    state = machine.batch.transfers
    for other in (*state.freed, *state.open):
        if other.target is None or other.landed.all() or other.reduces:
            continue
        places, theirs, receivers = _bytes_of(machine, other)
        left = ~other.landed[receivers]
        places, theirs = places[left], theirs[left]
        at = np.minimum(np.searchsorted(places, address, "right"), len(places)) - 1
        met = (at >= 0) & (places[at] == address)
        old[met] = theirs[at[met]]
    changes, differs = (np.zeros(len(transfer.positions), np.bool_) for _ in range(2))
    changes[receiver[values != old]] = True
    same = np.flatnonzero((address[1:] == address[:-1]) & (values[1:] != values[:-1]))
    differs[receiver[np.r_[same, same + 1]]] = True
    return changes, differs


def clashing(transfer: Transfer) -> Array | None:
    """A mask of the lanes of a step that copy to one place what comes from different places; None if nothing is known."""
    work, to = transfer.work, transfer.writes
    if not isinstance(work, ThreadCopy) or to is None:
        return None
    source, taken = read_by_threads(transfer, work)
    order = np.lexsort((taken, source, to.start, to.columns))
    columns, start, source, taken = to.columns[order], to.start[order], source[order], taken[order]
    same = (columns[1:] == columns[:-1]) & (start[1:] == start[:-1])
    differs = np.flatnonzero(same & ((source[1:] != source[:-1]) | (taken[1:] != taken[:-1])))
    return transfer.lanes(order[np.r_[differs, differs + 1]])
