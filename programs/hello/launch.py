"""Device printf: every eighth lane of a warp says hello (nvcc)."""

import sys
from pathlib import Path

import numpy as np

import warpsim

kernel = warpsim.load(Path(__file__).parent / "kernel.ptx")["hello"]
threads = int(*(sys.argv[1:] or (32,)))
lanes = np.zeros(threads, np.int32)
result = kernel((1,), (threads,), (lanes,))
assert np.array_equal(lanes, np.arange(threads) % 32)
said = [f"hello from warp {t // 32}, lane {t % 32}" for t in range(0, threads, 8)]
assert sorted(result.stdout.splitlines()) == sorted(said)
print(f"{result.instructions} warp-instructions in {result.seconds:.3f} s")
