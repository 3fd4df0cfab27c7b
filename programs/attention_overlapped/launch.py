"""Attention forward: TMA loads, wgmma of the next scores while the softmax of the last ones runs (nvcc, sm_90a)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["attention_overlapped"]
rng = np.random.default_rng(0)
width = 64
rows, keys = map(int, sys.argv[1:] or (128, 192))
if rows % 64 or keys % 64:
    sys.exit("the numbers of queries and keys are multiples of 64")
q, k, v = (rng.standard_normal((n, width)).astype(np.float16) for n in (rows, keys, keys))
out = np.zeros((rows, width), np.float16)
maps = [
    warpsim.TensorMap(x, global_dim=(width, len(x)), global_strides=(2 * width,), box_dim=(64, 64), swizzle="128B")
    for x in (q, k, v)
]
scale = width**-0.5 * np.log2(np.e)
result = kernel((rows // 64,), (128,), (*maps, out, keys, scale), shared_mem=5 * 8192)
scores = np.exp2(q.astype(np.float64) @ k.astype(np.float64).T * scale)
np.testing.assert_allclose(out, scores @ v / scores.sum(axis=1, keepdims=True), atol=2e-3)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
