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


def test_elements_that_are_not_stored():
    """Where A is sparse, an infinity in B counts only for the rows that store an element of its k."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (2, 3, 8)).astype(bfloat16), rng.integers(-8, 9, (2, 8, 5)).astype(bfloat16)
    present = rng.permuted(np.tile([True, True, False, False], (2, 3, 2)).reshape(2, 3, 2, 4), axis=3).reshape(2, 3, 8)
    a[~present] = 0
    b[0, 3], b[1, 6] = np.inf, -np.inf
    c = np.ones((2, 3, 5), np.float32)
    got = dot_ieee(a.view(np.uint16), b.view(np.uint16), c, ("bf16", "bf16"), present)
    for batch, m, n in np.ndindex(c.shape):
        terms = [float(a[batch, m, k]) * float(b[batch, k, n]) for k in range(8) if present[batch, m, k]]
        assert np.array_equal(got[batch, m, n], np.float32(sum(terms) + 1), equal_nan=True)
