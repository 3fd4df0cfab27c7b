"""An f16 product by tcgen05.mma of a pair of CTAs: each holds half of A and half of B (nvcc, sm_100a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_tcgen05_pair"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (256, 128, 256))
if m % 256 or n % 64 or k % 64:
    sys.exit("m is a multiple of 256, n and k of 64")
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))  # both with k innermost
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(x, global_dim=(k, len(x)), global_strides=(2 * k,), box_dim=(64, rows), swizzle="128B")
    for x, rows in ((a, 128), (b, 32))
)
result = kernel((m // 128, n // 64), (128,), (map_a, map_b, c, n, k), cluster=(2, 1, 1))
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
