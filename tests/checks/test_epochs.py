"""Which copies in flight an access meets: random copies of every size and random accesses, byte by byte."""

import numpy as np
import pytest

from warpsim.checks.epochs import EpochSheets
from warpsim.machine.state.transfers import Footprint

SIZE, COLUMNS = 256, 4


def runs(rng):
    """Runs of one size in some columns, aligned to it: one after another, or anywhere."""
    nbytes = int(rng.choice([4, 8, 16, 16, 32, 48]))
    unit = nbytes & -nbytes
    columns = np.flatnonzero(rng.random(COLUMNS) < 0.6)
    start = rng.integers(0, (SIZE - nbytes) // unit + 1, len(columns)) * unit
    if rng.random() < 0.5:
        start[:] = start[:1].sum()
    return Footprint(columns, start, nbytes)


@pytest.mark.parametrize("seed", range(25))
def test_what_an_access_meets(seed):
    """Every copy that has not ended and holds one of its bytes, and no other."""
    rng = np.random.default_rng(seed)
    claims, open = EpochSheets(SIZE, COLUMNS), {}
    for number in range(1, 14):
        for ended in [k for k in open if rng.random() < 0.2]:
            del open[ended]
        oldest, copy = min(open, default=number), runs(rng)
        if not open:
            claims.clear()
        claims.put(copy, number, oldest, lambda overlap: (k for k in np.unique(overlap[3]).tolist() if k in open))
        if len(copy.start):
            open[number] = copy
        nbytes, n = int(rng.choice([1, 2, 4, 8, 16])), int(rng.integers(1, 9))
        place, columns = rng.integers(0, SIZE // nbytes, n) * nbytes, rng.integers(0, COLUMNS, n)
        active = None if rng.random() < 0.5 else rng.random(n) < 0.6
        overlap = claims.overlaps(place, nbytes, columns, active, min(open, default=number + 1))
        found = {
            (int(k), int(epoch)) for index, _, _, epochs in overlap for k, epoch in zip(index, epochs, strict=True)
        }
        expected = {
            (k, number)
            for k in range(n)
            for number, copy in open.items()
            for column, start in zip(copy.columns, copy.start, strict=True)
            if (active is None or active[k]) and column == columns[k]
            if start < place[k] + nbytes and place[k] < start + copy.nbytes
        }
        assert {one for one in found if one[1] in open} == expected
