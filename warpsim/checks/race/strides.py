"""Weak accesses to global memory in which each lane has its own granules at affine addresses.

Most accesses are of this kind. As long as all accesses to an allocation are, and none overlap except those of the same
lanes, they are kept unexpanded. Otherwise cells are checked and written through strided views. Other cases (another
thread was there before) are left to `Races`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.cells import THREAD, Cells, Strided
from warpsim.machine.memory.addresses import pattern_of
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.values import Affine, Array

if TYPE_CHECKING:
    from warpsim.machine.state.global_memory import Allocation


def note_strided(
    cells: Cells,
    allocation: Allocation,
    place: Affine,
    nbytes: int,
    selection: Selection,
    base: int,
    now: int,
    *,
    write: bool,
) -> bool:
    """Record this step in the cells if no lane touches another thread's bytes, now or earlier; otherwise do nothing and
    return False. ``base`` is the number of the batch's first thread.
    """
    pattern = pattern_of(place.strides, place.extents, nbytes)
    if not isinstance(selection, Rect) or pattern.shape != selection.shape or not pattern.disjoint:
        return False
    start = place.base - allocation.start
    if nbytes & (nbytes - 1) or start % nbytes or not pattern.aligned:
        return False
    cells.fit(nbytes)
    lanes = selection.axes, selection.batch_shape.extents, base
    note = Strided(start + pattern.low, start + pattern.high, start, place.strides, pattern.shape, nbytes, lanes, now)
    if cells.keep(note, write=write):
        return True
    order, threads = note.order, selection.positions + base
    epoch = note.epochs(threads)
    for kind in ("strong", "write", "read", "other") if write else ("strong", "write", "read"):
        held = cells.kinds.get(kind)
        if held is not None and not _own(note.view(held, cells.granule, order), epoch):
            return False
    note.view(cells.of("write" if write else "read"), cells.granule, order)[...] = epoch
    return True


def _own(seen: Array, epoch: Array) -> bool:
    """Whether the cells are unused, or used by the same lanes only."""
    if not np.bitwise_or.reduce(seen, axis=None):
        return True
    return not np.bitwise_or.reduce(seen ^ epoch, axis=None) & THREAD
