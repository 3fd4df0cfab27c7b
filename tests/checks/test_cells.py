"""Cells of accesses: what copies share, and when they part."""

import copy

import pytest

from warpsim.checks.cells import Cells


@pytest.mark.parametrize("first", [0, 1])
def test_copies_write_to_cells_of_their_own(first):
    """Whichever of two copies writes, the other keeps what was there."""
    cells = Cells(64, 2)
    cells.of("write")[0] = 1
    both = [cells, copy.deepcopy(cells)]
    both[first].of("write")[0] = 2

    assert [int(one.kinds["write"][0]) for one in both] == ([2, 1] if first == 0 else [1, 2])
