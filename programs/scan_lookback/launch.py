"""An inclusive scan in one pass with decoupled look-back: CTAs wait for what earlier ones publish (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["scan_lookback"]
ctas, threads = map(int, sys.argv[1:] or (12, 128))
if threads % 32:
    sys.exit("the number of threads is a multiple of 32")
x = np.random.default_rng(0).integers(0, 1000, ctas * threads).astype(np.uint32)
y = np.zeros_like(x)
states, ticket = np.zeros(ctas, np.uint64), np.zeros(1, np.uint32)
result = kernel((ctas,), (threads,), (x, y, states, ticket))
assert np.array_equal(y, np.cumsum(x, dtype=np.uint32))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
