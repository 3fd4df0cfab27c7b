"""An e4m3 product by wgmma with TMA, promoted to f32 and scaled every 128 elements of k (nvcc, sm_90a)."""

from pathlib import Path

import ml_dtypes
import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_fp8_scaled"]
rng = np.random.default_rng(0)
n, k = 64, 384
a, b = (rng.integers(-2, 3, (n, k)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))  # both with k innermost
scale_a, scale_b = np.float32([[1] * n, [0.5] * n, [2] * n]), np.float32([1, 4, 0.25])
c = np.zeros((n, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(x, data_type="UINT8", global_dim=(k, n), global_strides=(k,), box_dim=(128, 64), swizzle="128B")
    for x in (a, b)
)
result = kernel((1,), (128,), (map_a, map_b, scale_a, scale_b, c, n, k))
blocks = [(a[:, i : i + 128].astype(np.float32) @ b[:, i : i + 128].astype(np.float32).T) for i in range(0, k, 128)]
assert np.array_equal(c, sum(block * scale_a[i][:, None] * scale_b[i] for i, block in enumerate(blocks)))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
