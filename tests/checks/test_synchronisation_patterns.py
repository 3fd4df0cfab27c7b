"""Correct ways to synchronise, as nvcc compiles them from CUDA C++ (data/synchronisation.cu): no finding, right values."""

from pathlib import Path

import numpy as np
import pytest

import warpsim

RNG = np.random.default_rng(0)
FLOATS = RNG.standard_normal(4096).astype(np.float32)
INTS = RNG.integers(0, 256, 1 << 14).astype(np.int32)
BYTES = RNG.integers(0, 256, 10000).astype(np.uint8)


def zeros(n, dtype=np.int32):
    """A fresh output."""
    return np.zeros(n, dtype)


def rotated(n):
    """Sums over n rounds of a buffer of 256 read at an offset of 9."""
    return np.roll(INTS[: 256 * n].reshape(n, 256), -9, 1).sum(0)


CASES = {
    "threadfence_reduce": (16, 256, lambda: (FLOATS, zeros(16, "f4"), zeros(1, "f4"), 4096), (2, [FLOATS.sum()])),
    "threadfence_reduce_plain": (16, 256, lambda: (FLOATS, zeros(16, "f4"), zeros(1, "f4"), 4096), (2, [FLOATS.sum()])),
    "warp_shared": (4, 256, lambda: (INTS, zeros(1024)), None),
    "tile16": (4, 256, lambda: (INTS, zeros(1024)), None),
    "cuda_barrier": (4, 128, lambda: (INTS, zeros(512), 6), None),
    "producer_consumer": (4, 128, lambda: (INTS, zeros(256), 6), None),
    "pipeline_copy": (
        1,
        256,
        lambda: (INTS, zeros(256), 6),
        (1, INTS[:1536].reshape(6, 256)[:, ::-1].sum(0)),
    ),
    "cg_async": (1, 256, lambda: (INTS, zeros(256), 6), (1, rotated(6))),
    "flag_chain": (8, 64, lambda: (zeros(512), zeros(8), 8), None),
    "lookback": (8, 64, lambda: (INTS, zeros(8), zeros(8), zeros(512)), (3, np.cumsum(INTS[:512]))),
    "hist_warp": (8, 128, lambda: (BYTES, zeros(256, "u4"), 10000), (1, np.bincount(BYTES, minlength=256))),
    "spin_lock": (6, 32, lambda: (zeros(1), zeros(2), 5), (1, [30, 30])),
    "cluster_hist": (8, 64, lambda: (INTS, zeros(512)), None),
    "ballot_compact": (8, 128, lambda: (INTS, zeros(1024), zeros(1)), (2, [np.count_nonzero(INTS[:1024] & 1)])),
    "sem": (2, 128, lambda: (zeros(256), 3), (0, np.full(256, 12))),
}


@pytest.fixture(scope="module")
def module():
    """The compiled patterns."""
    return warpsim.load(Path(__file__).parent / "data" / "synchronisation.ptx")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n == "pipeline_copy")) for n in CASES])
def test_correct_patterns(module, name):
    """No rule is broken, and the result is that of the definition."""
    grid, block, make, expected = CASES[name]
    arguments = make()
    result = module[name](grid, block, arguments, checks="all", max_instructions=5_000_000)

    assert result.findings == ()
    if expected is not None:
        assert np.allclose(arguments[expected[0]], expected[1], atol=1e-2)
