"""y = a*x + y, one thread an element: the smallest real kernel (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["saxpy"]
n = int(*(sys.argv[1:] or (1000,)))
x = np.arange(n, dtype=np.float32)
y = np.ones(n, np.float32)
result = kernel((-(-n // 256),), (256,), (n, 2.5, x, y))
assert np.array_equal(y, np.float32(2.5) * x + 1)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
