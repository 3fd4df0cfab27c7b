"""Bounds hold for what the instructions compute, and are near it: Python's fractions are the oracle."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.testing import assert_close, exact_matmul, product_bound, sum_bound
from warpsim.testing.bounds import UNIT


def test_exact_products_are_exact():
    """Every element is the sum of fractions, rounded once."""
    rng = np.random.default_rng(1)
    a, b = (
        rng.normal(size=s).astype(np.float32) * np.float32(2.0) ** rng.integers(-30, 30, s) for s in ((3, 9), (9, 4))
    )
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = rng.normal(size=(3, 4)).astype(np.float32)

    found = exact_matmul(a, b, c)

    for i in range(3):
        for j in range(4):
            total = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True))
            assert found[i, j] == float(total + Fraction(float(c[i, j])))


@pytest.mark.parametrize(("kind", "dtype", "text"), [
    ("f16", np.float16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ("bf16", ml_dtypes.bfloat16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
])  # fmt: skip
def test_the_bound_of_mma_holds_and_is_near(kind, dtype, text):
    """Random products lie within the bound, operands made to lose what is cut come within two bits of a fiftieth of it,
    and one unit more than the bound fails."""
    rng = np.random.default_rng(2)
    a = (rng.normal(size=(16, 16)) * 2.0 ** rng.integers(-6, 7, (16, 16))).astype(dtype)
    b = (rng.normal(size=(16, 8)) * 2.0 ** rng.integers(-6, 7, (16, 8))).astype(dtype)
    c = rng.normal(size=(16, 8)).astype(np.float32)
    d = warpsim.mma(text, a=a, b=b, c=c)
    exact, bound = exact_matmul(a, b, c), product_bound(a, b, c)

    assert_close(d, exact, bound)
    worst = float((np.abs(d - exact) / bound).max())
    assert worst > 0.005
    with pytest.raises(AssertionError, match="the bound at"):
        assert_close(exact + 1.01 * bound, exact, bound)


def test_the_bound_of_sums_holds():
    """Sums in f32 in two orders stay within the bound, which is no more than terms times a rounding."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 64)).astype(np.float32)
    exact = np.array([float(sum(Fraction(float(v)) for v in row)) for row in values])
    bound = sum_bound(values, axis=1)
    forward, backward = np.zeros(50, np.float32), np.zeros(50, np.float32)
    for i in range(64):
        forward, backward = forward + values[:, i], backward + values[:, 63 - i]

    assert_close(forward, exact, bound)
    assert_close(backward, exact, bound)
    assert (bound <= 64 * UNIT["f32"] * np.abs(values).sum(axis=1)).all()


def test_shapes_that_differ():
    """Fewer elements than were wanted are no match, whatever they broadcast to."""
    with pytest.raises(AssertionError, match=r"result: shape \(1,\) is not \(2,\)"):
        assert_close(np.ones(1), np.ones(2), np.ones(2))
