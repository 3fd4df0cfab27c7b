"""Which copy laid out a tile: random copies over rows of shared memory, against what each row has of whom."""

from types import SimpleNamespace

import numpy as np
import pytest

from warpsim.checks.matrices import ROW, TileSwizzles
from warpsim.machine.state.transfers import Footprint

ROWS, CTAS = 12, 3
COPIES = [SimpleNamespace(text=f"copy {k}") for k in range(4)]


class Touched:
    """Rows that threads have written since, by CTA."""

    def __init__(self, rows):
        self.rows = rows

    def wrote(self, at, columns):
        """A mask of places."""
        return self.rows[at // ROW, columns]


@pytest.mark.parametrize("seed", range(12))
def test_who_made_a_tile(seed):
    """The copy with this swizzle that wrote every row of it in some CTA, where no thread has written since."""
    rng = np.random.default_rng(seed)
    swizzles, last = TileSwizzles(ROWS * ROW, CTAS), {}
    for _ in range(rng.integers(1, 9)):
        copy, span, ctas = (
            COPIES[rng.integers(4)],
            int(rng.choice([0, 64, 128])),
            np.flatnonzero(rng.random(CTAS) < 0.7),
        )
        first, count = rng.integers(0, ROWS - 3), rng.integers(1, 5)
        start = np.full(len(ctas), first * ROW)
        swizzles.copied(copy, Footprint(ctas, start, int(count * ROW - rng.choice([0, 100]))), span)
        last |= {(row, cta): (copy, span) for row in range(first, min(first + count, ROWS)) for cta in ctas}
    for _ in range(20):
        touched = rng.random((ROWS, CTAS)) < rng.choice([0, 0.1])
        rows = np.unique(rng.integers(0, ROWS, rng.integers(1, 4)))
        ctas, span = np.flatnonzero(rng.random(CTAS) < 0.6), int(rng.choice([64, 128]))
        makers = [
            last[rows[0], cta][0]
            for cta in ctas
            if all(last.get((row, cta), (None, 0))[1] == span and not touched[row, cta] for row in rows)
        ]
        found = swizzles.made_by(rows * ROW + 16 * rng.integers(0, 8), ctas, span, Touched(touched))
        assert found is (makers[0] if makers else None)
