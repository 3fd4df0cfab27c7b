"""A bf16 product compiled by Triton for sm_90a: tensor descriptors, a pipeline of four stages, wgmma."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["matmul"]
rng = np.random.default_rng(0)
m, n, k = map(int, sys.argv[1:] or (128, 128, 160))
a, b = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
c = np.zeros((m, n), ml_dtypes.bfloat16)


def descriptor(array, box, swizzle):
    """What Triton passes for a tensor descriptor: the map, then shape and strides."""
    rows, columns = array.shape
    tensor = warpsim.TensorMap(
        array, global_dim=(columns, rows), global_strides=(2 * columns,), box_dim=box, swizzle=swizzle
    )
    return tensor, rows, columns, columns, 1


arguments = (*descriptor(a, (32, 64), "64B"), *descriptor(b, (32, 128), "64B"), *descriptor(c, (64, 64), "128B"))
result = kernel((-(-m // 64) * -(-n // 128),), (128,), (*arguments, m, n, k, None, None), shared_mem=49184)
assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16))
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
