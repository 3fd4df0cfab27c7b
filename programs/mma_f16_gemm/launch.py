"""An f16 matrix product with cp.async, ldmatrix and mma.sync (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["mma_f16_gemm"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (128, 64, 96))
if m % 64 or n % 64 or k % 32 or not k:
    sys.exit("m and n are multiples of 64, k is one of 32")
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
c = np.zeros((m, n), np.float32)
result = kernel((n // 64, m // 64), (128,), (a, b, c, m, n, k))
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
