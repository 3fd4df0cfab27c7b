"""An f16 matrix product with cp.async, ldmatrix and mma.sync (nvcc)."""

from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["mma_f16_gemm"]
rng = np.random.default_rng(0)
a, b = rng.integers(-3, 4, (128, 96)).astype(np.float16), rng.integers(-3, 4, (96, 64)).astype(np.float16)
c = np.zeros((128, 64), np.float32)
result = kernel((1, 2), (128,), (a, b, c, 128, 64, 96))
assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
