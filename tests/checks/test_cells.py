"""Cells of accesses: what copies share, and when they part."""

import copy

import numpy as np
import pytest

from warpsim.checks.cells import SHIFT, THREAD, Cells


@pytest.mark.parametrize("first", [0, 1])
def test_copies_write_to_cells_of_their_own(first):
    """Whichever of two copies writes, the other keeps what was there."""
    cells = Cells(64, 2)
    cells.of("write")[0] = 1
    both = [cells, copy.deepcopy(cells)]
    both[first].of("write")[0] = 2

    assert [int(one.kinds["write"][0]) for one in both] == ([2, 1] if first == 0 else [1, 2])


def test_accesses_set_aside_follow_their_cells():
    """What no slot remembers is found under smaller granules and in columns of CTAs: by byte 8 to 15, thread 3, time 5."""
    cells = Cells(64, 1)
    cells.fit(8)
    cells.of("read")[2] = 7 << SHIFT | 3
    cells.forget("read", np.array([1, 2, 3]), np.array([5 << SHIFT | 3, 5 << SHIFT | 3, 5 << SHIFT]), ("read", "other"))

    def found(*index, floor=0):
        which, epochs = cells.beside("read", np.array(index), floor)
        return [(index[k], e >> SHIFT, e & THREAD) for k, e in zip(which.tolist(), epochs.tolist(), strict=True)]

    assert found(0, 1, 2, 3) == [(1, 5, 3), (3, 5, 0)]
    cells.settled("read", np.array([3]))
    cells.fit(4)
    assert found(1, 2, 3, 4) == [(2, 5, 3), (3, 5, 3)]
    cells.widen(2)
    assert found(6, 7) == [(6, 5, 6), (7, 5, 7)]
    cells.last_until(np.array([7]), np.array([7]), 9)
    assert found(6, 7) == [(6, 5, 6), (7, 9, 7)]
    cells.settled("read", np.array([7]))
    assert found(4, 5, 6, 7) == [(4, 5, 6), (5, 5, 7), (6, 5, 6)]
    assert found(4, 5, 6, floor=6) == []
    assert not cells.has_aside("read")
