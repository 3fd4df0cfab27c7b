"""Device printf: every eighth lane of a warp says hello (nvcc)."""

from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["hello"]
lanes = np.zeros(32, np.int32)
result = kernel((1,), (32,), (lanes,))
assert np.array_equal(lanes, np.arange(32))
assert result.stdout.startswith("hello from warp 0, lane 0\nhello from warp 0, lane 8\n")
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
