"""An f16 product by wgmma over a ring of two stages that TMA fills (nvcc, sm_90a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_tma"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (128, 64, 256))
if m % 64 or n % 64 or k % 64:
    sys.exit("m, n and k are multiples of 64")
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))  # both with k innermost
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(x, global_dim=(k, len(x)), global_strides=(2 * k,), box_dim=(64, 64), swizzle="128B")
    for x in (a, b)
)
result = kernel((n // 64, m // 64), (128,), (map_a, map_b, c, n, k))
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
