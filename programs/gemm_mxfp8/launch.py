"""A product of e4m3 with a scale factor for every 32 elements (MXFP8), which tcgen05.mma takes from tensor memory (nvcc, sm_100a)."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_mxfp8"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (128, 64, 256))
if m % 128 or n % 64 or k % 128:
    sys.exit("m and k are multiples of 128, n of 64")
a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, k), (n, k)))
scale_a, scale_b = (rng.integers(126, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n))  # 1/2 to 4
c = np.zeros((m, n), np.float32)
map_a, map_b = (
    warpsim.TensorMap(
        x.view(np.uint8), global_dim=(k, len(x)), global_strides=(k,), box_dim=(128, rows), swizzle="128B"
    )
    for x, rows in ((a, 128), (b, 64))
)
result = kernel((n // 64, m // 128), (128,), (map_a, map_b, scale_a, scale_b, c, n, k))
x, y = (
    v.astype(np.float32) * np.repeat(2.0 ** (s.astype(np.float32) - 127), 32, axis=1)
    for v, s in ((a, scale_a), (b, scale_b))
)
assert np.array_equal(c, x @ y.T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
