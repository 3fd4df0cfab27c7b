"""A histogram with shared-memory atomics, merged with global ones (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["histogram"]
n = int(*(sys.argv[1:] or (10001,)))
data = np.random.default_rng(0).integers(0, 256, n).astype(np.uint8)
hist = np.zeros(256, np.uint32)
result = kernel((4,), (256,), (data, n, hist))
assert np.array_equal(hist, np.bincount(data, minlength=256))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
