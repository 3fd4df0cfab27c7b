"""An e4m3 product by wgmma with TMA, promoted to f32 and scaled every 128 elements of k (nvcc, sm_90a)."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_fp8_scaled"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (64, 64, 384))
if m % 64 or n % 64 or k % 128:
    sys.exit("m and n are multiples of 64, k is one of 128")
a, b = (rng.integers(-2, 3, (size, k)).astype(ml_dtypes.float8_e4m3fn) for size in (m, n))  # both with k innermost
scale_a, scale_b = (np.exp2(rng.integers(-2, 3, shape)).astype(np.float32) for shape in ((k // 128, m), k // 128))
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(
        x, data_type="UINT8", global_dim=(k, len(x)), global_strides=(k,), box_dim=(128, 64), swizzle="128B"
    )
    for x in (a, b)
)
result = kernel((n // 64, m // 64), (128,), (map_a, map_b, scale_a, scale_b, c, m, n, k))
blocks = [(a[:, i : i + 128].astype(np.float32) @ b[:, i : i + 128].astype(np.float32).T) for i in range(0, k, 128)]
assert np.array_equal(c, sum(block * scale_a[i][:, None] * scale_b[i] for i, block in enumerate(blocks)))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
