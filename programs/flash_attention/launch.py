"""Flash attention forward on mma.sync: scores become the A fragments of the second product in registers (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["flash_attention"]
rng = np.random.default_rng(0)
width = 32
queries, keys = map(int, sys.argv[1:] or (64, 96))
if queries % 32 or keys % 16 or not keys:
    sys.exit("the number of queries is a multiple of 32, that of keys of 16")
q, k, v = (rng.standard_normal((n, width)).astype(np.float16) for n in (queries, keys, keys))
out = np.zeros((queries, width), np.float16)
scale = width**-0.5 * np.log2(np.e)
result = kernel((queries // 32,), (64,), (q, k, v, out, keys, scale))
scores = np.exp2(q.astype(np.float64) @ k.astype(np.float64).T * scale)
np.testing.assert_allclose(out, scores @ v / scores.sum(axis=1, keepdims=True), atol=2e-3)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
