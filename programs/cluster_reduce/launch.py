"""Row sums by clusters of four CTAs, which read one another's shared memory (nvcc, sm_90)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["cluster_reduce"]
rows, columns = map(int, sys.argv[1:] or (3, 1500))
x = np.random.default_rng(0).integers(-8, 8, (rows, columns)).astype(np.float32)
y = np.zeros(rows, np.float32)
result = kernel((4 * rows,), (128,), (x, y, columns))  # .reqnctapercluster says 4
assert np.array_equal(y, x.sum(axis=1))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
