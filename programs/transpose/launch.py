"""A transpose through a padded tile of shared memory, without bank conflicts (nvcc)."""

from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["transpose"]
rows, columns = 70, 45
x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
y = np.zeros((columns, rows), np.float32)
result = kernel((2, 3), (32, 8), (x, y, rows, columns))
assert np.array_equal(y, x.T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
