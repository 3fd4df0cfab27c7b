"""Sums and maxima by warp shuffles, shared memory and atomics (nvcc)."""

from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["reduce_shfl"]
n = 5000
x = np.ones(n, np.float32)
xi = np.ones(n, np.int32)
partial, total, mx = np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(4, np.float32)
result = kernel((4,), (256,), (x, xi, n, partial, total, mx))
assert partial.sum() == n
assert total[0] == n
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
