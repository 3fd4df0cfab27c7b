"""A product with a 2:4 sparse A by mma.sp: two of four neighbours are stored, metadata says which (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["gemm_sparse"]
rng = np.random.default_rng(0)
k = int(*(sys.argv[1:] or (96,)))
if k % 32:
    sys.exit("k is a multiple of 32")
stored = rng.integers(-3, 4, (16, k // 2)).astype(np.float16)
b = rng.integers(-3, 4, (8, k)).astype(np.float16)
first = rng.integers(0, 3, (16, k // 4))  # places of the two stored elements among four, increasing
second = first + 1 + rng.integers(0, 3, first.shape) % (3 - first)

dense = np.zeros((16, k // 4, 4), np.float16)
np.put_along_axis(dense, np.stack([first, second], -1), stored.reshape(16, -1, 2), axis=-1)

# With selector 0, lanes 0 and 1 of each four hold 16 columns each of rows lane / 4 (low half) and lane / 4 + 8 (high half).
nibbles = (first | second << 2).reshape(
    2, 8, k // 32, 2, 4
)  # half, row, slice, lane of the pair, group of four columns
halves = (nibbles << 4 * np.arange(4)).sum(-1)
meta = np.full((k // 32, 8, 4), 0x44444444, np.uint32)
meta[:, :, :2] = (halves[0] | halves[1] << 16).transpose(1, 0, 2)

c = np.zeros((16, 8), np.float32)
result = kernel((1,), (32,), (stored, meta.reshape(-1, 32), b, c, k))
assert np.array_equal(c, dense.reshape(16, k).astype(np.float32) @ b.astype(np.float32).T)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
