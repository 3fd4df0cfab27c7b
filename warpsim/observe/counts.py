"""What accesses by warps cost in the memory system: shared memory bank passes, global memory sectors.

A warp's access to shared memory is made in pieces of at most 128 bytes: all lanes for accesses of up to 4 bytes, half a
warp for 8, a quarter for 16, eight 16-byte rows of a matrix. A piece takes as many passes as its busiest bank has
distinct words to deliver; lanes that access the same word share it. Global memory is accessed in 32-byte sectors.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.machine.state.group import Group

Array = NDArray[Any]
BANKS = 32
"""Number of banks, of 4 bytes each."""
SECTOR = 32


@attrs.frozen(eq=False)
class Lanes:
    """Lanes of accesses, one row per warp.

    ``address`` and ``here`` are ``[rows, lanes]``. Each row stands for ``weight`` warps in different CTAs that do the
    same. ``warps`` are warp numbers in the CTA, ``columns`` CTA columns.
    """

    address: Array
    here: Array
    weight: int
    warps: Array
    columns: Array


def warp_rows(group: Group, place: Any, active: Any, *, of_rows: bool = False) -> Lanes:
    """The lanes of a group's access, by warp. With ``of_rows``, ``place`` and ``active`` are already in warp view (rows
    of matrices).
    """
    warps = group.warps
    at, mask = np.asarray(place, np.int64), None if active is None else np.asarray(active)
    if of_rows:
        present = np.ones((warps.n, at.shape[1], warps.m), np.bool_)
    else:
        at = warps.spread(at.reshape(1) if at.ndim == 0 else at)
        present = warps.active
        mask = None if mask is None else warps.spread(mask)
    alike = warps.dense and at.shape[2] == 1 and (mask is None or mask.shape[2] == 1)
    here = present[:, :, :1] if alike else present
    if mask is not None:
        here = here & mask
    shape = np.broadcast_shapes(at.shape, here.shape)
    numbers = warps.first_thread >> 5 if warps.dense else warps.warp_threads >> 5
    columns = np.arange(shape[2])[None] if warps.dense else warps.warp_ctas[:, None]
    return Lanes(
        np.moveaxis(np.broadcast_to(at, shape), 1, 2).reshape(-1, shape[1]),
        np.moveaxis(np.broadcast_to(here, shape), 1, 2).reshape(-1, shape[1]),
        warps.m if alike else 1,
        np.broadcast_to(numbers[:, None], (shape[0], shape[2])).reshape(-1),
        np.broadcast_to(columns, (shape[0], shape[2])).reshape(-1),
    )


@attrs.frozen(eq=False)
class Passes:
    """Passes of each piece (``[rows, pieces]``), 0 where no lane takes part; ``words``, ``[rows * pieces, 32]``, are -1
    for none.
    """

    passes: Array
    words: Array


def bank_passes(lanes: Lanes, nbytes: int) -> Passes:
    """Passes of accesses in which each lane (or matrix row) has ``nbytes``."""
    rows, count = lanes.address.shape
    per = max(nbytes // 4, 1)
    words = (lanes.address >> 2)[:, :, None] + np.arange(per)
    words = np.where(lanes.here[:, :, None], words, -1).reshape(rows, count * per)
    words = words.reshape(-1, BANKS)  # lanes come in warps, and rows of a matrix in eights
    ordered = np.sort(words, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    piece = np.nonzero(new)[0]
    each = np.bincount(piece * BANKS + ordered[new] % BANKS, minlength=len(words) * BANKS)
    return Passes(each.reshape(-1, BANKS).max(axis=1).reshape(rows, -1), words)


def worst(lanes: Lanes, found: Passes, nbytes: int) -> tuple[int, int, int, tuple[tuple[int, tuple[int, ...]], ...]]:
    """The piece with most passes: its row, passes, bank, and the addresses in it with the lanes (rows) that access
    them.
    """
    index = int(np.argmax(found.passes.reshape(-1)))
    row, piece = divmod(index, found.passes.shape[1])
    words = found.words[index]
    distinct = np.unique(words[words >= 0])
    bank = int(np.argmax(np.bincount(distinct % BANKS, minlength=BANKS)))
    per, first = max(nbytes // 4, 1), piece * BANKS
    wanted = [
        (int(word) * 4, tuple(sorted({(first + int(at)) // per for at in np.flatnonzero(words == word)})))
        for word in distinct[distinct % BANKS == bank]
    ]
    return row, int(found.passes.reshape(-1)[index]), bank, tuple(wanted)


def sectors(lanes: Lanes) -> int:
    """Sectors of global memory that the warps touch, counted once per warp."""
    numbers = np.sort(np.where(lanes.here, lanes.address // SECTOR, -1), axis=1)
    new = numbers >= 0
    new[:, 1:] &= numbers[:, 1:] != numbers[:, :-1]
    return int(np.count_nonzero(new)) * lanes.weight
