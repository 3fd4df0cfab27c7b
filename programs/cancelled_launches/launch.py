"""Sums of rows by CTAs that cancel launches of others and do their work (nvcc, sm_100a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["cancelled_launches"]
n_rows, n = map(int, sys.argv[1:] or (24, 200))
if n_rows < 1:
    sys.exit("there is at least one row")
rows = np.random.default_rng(0).integers(-9, 10, (n_rows, n)).astype(np.float32)
sums = np.zeros(n_rows, np.float32)
result = kernel((n_rows,), (128,), (rows, sums, n))
assert np.array_equal(sums, rows.sum(axis=1))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
