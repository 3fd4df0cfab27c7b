"""A moving average: cp.async fills the next tile while the present one is used (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["copy_pipeline"]
ctas, tiles = map(int, sys.argv[1:] or (2, 5))
if tiles < 1:
    sys.exit("each CTA has at least one tile")
n = ctas * tiles * 256
x = np.random.default_rng(0).integers(-8, 8, n + 4).astype(np.float32)
y = np.zeros(n, np.float32)
result = kernel((ctas,), (256,), (x, y, tiles))
assert np.array_equal(y, sum(x[i : i + n] for i in range(4)) / 4)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
