"""What the checks cost: the workloads with no checks, the default ones and all: ``-k checks`` selects them."""

from pathlib import Path

import numpy as np
import pytest

import warpsim

HERE = Path(__file__).parent
F = np.float32
N = 1 << 20


def workloads():
    """Name, module, kernel, grid, block and a function that makes the arguments."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(N).astype(F), rng.standard_normal(N).astype(F)
    a, b = (rng.integers(-4, 5, (256, 256)).astype(F) for _ in range(2))
    h = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32)
    p, q = (rng.standard_normal((512, 512)).astype(np.float16).view(np.uint16) for _ in range(2))
    return {
        "saxpy": ("kernels_sm80", "w1_saxpy", N // 256, 256, lambda: (x, y.copy(), 2.0, N)),
        "sgemm": ("kernels_sm80", "w2_sgemm", (16, 16), (16, 16), lambda: (a, b, np.zeros((256, 256), F), 256)),
        "reduce": ("kernels_sm80", "w3_reduce", N // 256, 256, lambda: (x, np.zeros(N // 256, F), N)),
        "reduce_shared": ("kernels_noshfl_sm80", "w3n_reduce", N // 256, 256, lambda: (x, np.zeros(N // 256, F), N)),
        "mma": ("mma_sm80", "w5_mma", (8, 8), 128, lambda: (p, q, np.zeros((512, 512), F), 512, 512, 512)),
        "histogram": ("kernels_sm80", "w7_hist", 64, 256, lambda: (h, np.zeros(256, np.uint32), 1 << 18)),
    }


WORKLOADS = workloads()


@pytest.mark.parametrize("checks", ["none", "default", "all"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_checks(benchmark, name, checks):
    """One launch; docs/checks.md has the figures."""
    module, kernel, grid, block, arguments = WORKLOADS[name]
    launch = warpsim.load(HERE / f"{module}.ptx")[kernel]
    result = benchmark.pedantic(lambda: launch(grid, block, arguments(), checks=checks), rounds=5, warmup_rounds=1)

    assert result.findings == ()
