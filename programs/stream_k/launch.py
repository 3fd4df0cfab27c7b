"""A stream-K f16 product: three CTAs share the k slices of two tiles evenly and add by TMA reductions (nvcc, sm_90a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["stream_k"]
rng = np.random.default_rng(0)
m, n, k, ctas = map(int, sys.argv[1:] or (128, 64, 320, 3))
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))  # both with k innermost
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(x, global_dim=(k, len(x)), global_strides=(2 * k,), box_dim=(64, 64), swizzle="128B")
    for x in (a, b)
)
map_c = warpsim.TensorMap(c, global_dim=(n, m), global_strides=(4 * n,), box_dim=(64, 64))
slices, tiles_m, tiles_n = (-(-size // 64) for size in (k, m, n))
total = tiles_m * tiles_n * slices
result = kernel((ctas,), (128,), (map_a, map_b, map_c, tiles_n, slices, -(-total // ctas), total))
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
