"""Sums and maxima by warp shuffles, shared memory and atomics (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["reduce_shfl"]
n = int(*(sys.argv[1:] or (5000,)))
rng = np.random.default_rng(0)
x, xi = rng.integers(-9, 10, n).astype(np.float32), rng.integers(-9, 10, n).astype(np.int32)
partial, total, mx = np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(4, np.float32)
result = kernel((4,), (256,), (x, xi, n, partial, total, mx))
assert (partial.sum(), total[0], mx.max()) == (x.sum(), xi.sum(), x.max())
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
