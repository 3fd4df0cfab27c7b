"""Tests of kernels/axpy.cu, without a GPU."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import warpsim
from warpsim.testing import Launch, arrays, assert_ulps, fuzz

PTX = Path(__file__).parents[1] / "kernels" / "axpy.ptx"
THREADS = 128


@pytest.fixture(scope="module")
def axpy():
    """The kernel."""
    return warpsim.load(PTX)["axpy"]


def blocks(n):
    """CTAs for n elements."""
    return -(-n // THREADS)


@pytest.mark.parametrize("n", [1, 127, 128, 1000])
def test_against_numpy(axpy, n):
    """The result is that of float64, rounded: one unit in the last place is for the rounding."""
    x, y = np.linspace(-1, 1, n, dtype=np.float32), np.linspace(3, 5, n, dtype=np.float32)
    exact = np.float64(2.5) * x + y

    axpy(blocks(n), THREADS, (n, 2.5, x, y))

    assert_ulps(y, exact.astype(np.float32), 1)


def test_bits(axpy, snapshot):
    """The bits are those that `python -m pytest --warpsim-record` wrote beside this file, for a reviewer to read."""
    x, y = np.linspace(-1, 1, 5, dtype=np.float32), np.full(5, 3, np.float32)

    axpy(1, THREADS, (5, 1 / 3, x, y))

    assert y == snapshot("y")


def test_any_launch(axpy):
    """No launch breaks a rule, and none depends on the order of warps."""
    launches = st.integers(1, 300).flatmap(
        lambda n: st.builds(lambda x, y: Launch(blocks(n), THREADS, (n, 0.5, x, y)), arrays(n), arrays(n))
    )
    fuzz(axpy, launches, runs=15)
