"""What the order of accesses is found out by."""

import numpy as np
import pytest

from warpsim.checks.knowledge import grouped


@pytest.mark.parametrize("span", [1, 3, 200, 10**12])
def test_keys_are_grouped_as_by_sorting(span):
    """Close together or far apart, distinct keys come in order, and each key finds its own."""
    rng = np.random.default_rng(span % 1000)
    for n in (1, 2, 70, 1000):
        keys = rng.integers(-span, span, n) + 5 * 10**12
        distinct, group = grouped(keys)
        assert distinct.tolist() == sorted(set(keys.tolist()))
        assert (distinct[group] == keys).all()
