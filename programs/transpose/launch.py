"""A transpose through a padded tile of shared memory, without bank conflicts (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["transpose"]
rows, columns = map(int, sys.argv[1:] or (70, 45))
x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
y = np.zeros((columns, rows), np.float32)
result = kernel((-(-columns // 32), -(-rows // 32)), (32, 8), (x, y, rows, columns))
assert np.array_equal(y, x.T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
