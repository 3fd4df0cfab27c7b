"""Seven workloads, each beside NumPy on whole arrays in the same run: ``python -m pytest benchmarks --benchmark-only``."""

from pathlib import Path

import numpy as np
import pytest

import warpsim

HERE = Path(__file__).parent
F = np.float32
N = 1 << 20


@pytest.fixture(scope="module")
def data():
    """Inputs of all workloads."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal(N).astype(F),
        "y": rng.standard_normal(N).astype(F),
        "a": rng.integers(-4, 5, (256, 256)).astype(F),
        "b": rng.integers(-4, 5, (256, 256)).astype(F),
        "h": rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32),
        "p": rng.standard_normal((512, 512)).astype(np.float16),
        "q": rng.standard_normal((512, 512)).astype(np.float16),
    }


@pytest.fixture(scope="module")
def kernels():
    """The compiled kernels by name."""
    found = {}
    for name in ("kernels_sm80", "kernels_noshfl_sm80", "mma_sm80"):
        found.update(warpsim.load(HERE / f"{name}.ptx").kernels)
    return found


def test_saxpy(benchmark, kernels, data):
    """2^20 elements."""
    y = data["y"].copy()
    benchmark(kernels["w1_saxpy"], (N // 256,), (256,), (data["x"], y, 2.0, N))


def test_saxpy_numpy(benchmark, data):
    """The same in NumPy."""
    benchmark(lambda: F(2) * data["x"] + data["y"])


def test_saxpy_python(benchmark, data):
    """The same as a Python loop over 2^14 elements: a 64th of the work."""
    x, y = data["x"][: N >> 6].tolist(), data["y"][: N >> 6].tolist()
    benchmark.pedantic(lambda: [2.0 * a + b for a, b in zip(x, y, strict=True)], rounds=3)


def test_sgemm(benchmark, kernels, data):
    """256^3 through shared-memory tiles."""
    c = np.zeros((256, 256), F)
    benchmark(kernels["w2_sgemm"], (16, 16), (16, 16), (data["a"], data["b"], c, 256))
    assert np.array_equal(c, data["a"] @ data["b"])


def test_sgemm_numpy(benchmark, data):
    """The same in NumPy."""
    benchmark(lambda: data["a"] @ data["b"])


@pytest.mark.parametrize("name", ["w3_reduce", "w3n_reduce"])
def test_reduce(benchmark, kernels, data, name):
    """Block sums, by shuffles and by shared memory."""
    out = np.zeros(N // 256, F)
    benchmark(kernels[name], (N // 256,), (256,), (data["x"], out, N))


def test_mandelbrot(benchmark, kernels):
    """256 x 256 points, divergent."""
    out = np.zeros((256, 256), np.int32)
    benchmark(kernels["w4_mandel"], (16, 16), (16, 16), (out, 256, 256, 256))


def test_mma_gemm(benchmark, kernels, data):
    """512^3 through ldmatrix and mma.sync, exact."""
    c = np.zeros((512, 512), F)
    arguments = (data["p"].view(np.uint16), data["q"].view(np.uint16), c, 512, 512, 512)
    benchmark.pedantic(kernels["w5_mma"], ((8, 8), (128,), arguments), rounds=3)


def test_mma_gemm_numpy(benchmark, data):
    """The same in NumPy, rounded differently."""
    benchmark(lambda: data["p"].astype(F) @ data["q"].astype(F).T)


def test_histogram(benchmark, kernels, data):
    """Shared-memory atomics."""
    out = np.zeros(256, np.uint32)
    benchmark(kernels["w7_hist"], (64,), (256,), (data["h"], out, 1 << 18))


def test_one_cta(benchmark, kernels, data):
    """A launch of one CTA: what a launch costs at least."""
    benchmark(kernels["w1_saxpy"], (1,), (256,), (data["x"], data["y"].copy(), 2.0, 256))
