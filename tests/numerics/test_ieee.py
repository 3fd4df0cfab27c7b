"""numerics="ieee": products and sums in float64, in the order of K, rounded once."""

import operator
from functools import reduce

import numpy as np
from ml_dtypes import bfloat16

from warpsim.numerics.plain_matrix import dot_ieee


def test_order_of_the_sum():
    """Sums in which the order shows (2**60 swallows 1) come out as Python's floats add them, one after another."""
    rng = np.random.default_rng(0)
    values = np.array([2.0**60, -(2.0**60), 1, -1, 3, 2.0**-20], bfloat16)
    a, b = rng.choice(values, (3, 8, 16)), rng.choice(values, (3, 16, 8))
    c = rng.choice(values, (3, 8, 8)).astype(np.float32)
    expected = np.empty_like(c)
    backwards = np.empty_like(c)
    for at in np.ndindex(c.shape):
        batch, m, n = at
        products = [float(x) * float(y) for x, y in zip(a[batch, m], b[batch, :, n], strict=True)]
        # not sum(): since Python 3.12 that compensates
        expected[at] = reduce(operator.add, products) + float(c[at])
        backwards[at] = reduce(operator.add, products[::-1]) + float(c[at])

    assert not np.array_equal(expected, backwards)
    assert np.array_equal(dot_ieee(a.view(np.uint16), b.view(np.uint16), c, ("bf16", "bf16")), expected)
