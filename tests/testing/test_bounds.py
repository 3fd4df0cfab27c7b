"""Bounds hold for what the instructions compute, and are near it: Python's fractions are the oracle."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.testing import assert_close, exact_matmul, product_bound, sum_bound
from warpsim.testing.assertions import UNIT


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


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@pytest.mark.parametrize(("dtype", "k", "accumulator", "text"), [
    (np.float16, 16, np.float32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    (np.float16, 16, np.float16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
    (ml_dtypes.bfloat16, 16, np.float32, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    (np.float32, 8, np.float32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    (E4M3, 32, np.float32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    (E5M2, 32, np.float16, "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16"),
    (E4M3, 32, np.float32, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"),
], ids=lambda v: v.split("aligned.")[1] if isinstance(v, str) else "")  # fmt: skip
def test_the_bound_of_products_holds_and_is_near(dtype, k, accumulator, text):
    """Random products lie within the bound, as fractions say, and come within a two-hundredth of it; one percent more
    than the bound fails.
    """
    rng = np.random.default_rng(2)
    rows = 64 if text.startswith("wgmma") else 16
    a, b = (
        (rng.normal(size=s) * 2.0 ** rng.integers(-3, 4, s)).astype(np.float32 if dtype is np.float32 else dtype)
        for s in ((rows, k), (k, 8))
    )
    if dtype is np.float32:  # the tensor core ignores the low 13 bits
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    c = rng.normal(size=(rows, 8)).astype(accumulator)
    d = warpsim.mma(text, a=a, b=b, c=c)
    kind = "f16" if accumulator is np.float16 else "f32"
    bound = product_bound(a, b, c, result=kind, instruction=text.partition(".")[0])
    exact = exact_matmul(a, b, c)

    assert_close(d, exact, bound)
    terms = (Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[3], b[:, 5], strict=True))
    error = abs(sum(terms, Fraction(float(c[3, 5]))) - Fraction(float(d[3, 5])))
    assert error <= Fraction(float(bound[3, 5]))
    assert float((np.abs(d.astype(np.float64) - exact) / bound).max()) > 0.005
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
