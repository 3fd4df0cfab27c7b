"""What regions report of global memory: the union of what their CTAs access."""

import itertools
import random

import numpy as np

from warpsim.native.runtime.extents import _extents


def test_ranges_that_meet_are_one():
    """Whatever their order; empty ones are nothing."""
    draw = random.Random(1)
    for _ in range(50):
        ranges = [[(at := draw.randrange(60)), at + draw.choice([-3, 0, 1, 2, 9])] for _ in range(draw.randrange(1, 9))]
        found = _extents(np.array(ranges, np.int64).reshape(-1, 1, 2))

        covered = {byte for low, high in ranges for byte in range(low, high)}
        assert {byte for low, high in found for byte in range(low, high)} == covered
        assert all(low < high for low, high in found)
        assert all(high < low for (_, high), (low, _) in itertools.pairwise(found))


def test_nothing():
    """No CTA has accessed anything."""
    assert _extents(np.zeros((3, 2, 2), np.int64)) == []
