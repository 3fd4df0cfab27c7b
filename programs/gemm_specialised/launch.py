"""A persistent, warp-specialised f16 product: a producer drives TMA, two consumers take turns (nvcc, sm_90a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_specialised"]
rng = np.random.default_rng(0)
m, n, k, ctas = map(int, sys.argv[1:] or (192, 128, 128, 2))
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))  # both with k innermost
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(x, global_dim=(k, len(x)), global_strides=(2 * k,), box_dim=(64, 64), swizzle="128B")
    for x in (a, b)
)
map_c = warpsim.TensorMap(c, global_dim=(n, m), global_strides=(4 * n,), box_dim=(64, 64))
result = kernel((ctas,), (384,), (map_a, map_b, map_c, m, n, k), shared_mem=5 * 16384)
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
