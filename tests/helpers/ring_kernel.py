"""A launch of ``tests/debug/kernels/ring.cu``, as nvcc compiles it with and without debug information."""

import io
from pathlib import Path

import numpy as np

import warpsim
from warpsim.cli.debug.shell import Shell
from warpsim.debug import Session

KERNELS = Path(__file__).parents[1] / "debug" / "kernels"
STEP = np.dtype([("scale", "<f4"), ("shift", "<i4"), ("bias", "<u8")])
"""``struct Step``, as the compiler lays it out: 0, 4 and 8 of 16 bytes."""
N = 100
SCALE, SHIFT = 0.5, -7
WEIGHTS = [1, 2, 3, 4, 3, 2, 1]


def started(name):
    """A session at the start of the kernel: ``x[i]`` is ``i + 1``."""
    kernel = warpsim.load(KERNELS / name)["_Z7stencilPKfPfi4Step"]
    device = kernel.device(None)
    bias = device.array(np.array([100, 200], np.float32))
    step = np.zeros((), STEP)
    step["scale"], step["shift"], step["bias"] = SCALE, SHIFT, bias.ptr
    x, y = np.arange(1, N + 1, dtype=np.float32), np.zeros(N, np.float32)
    return Session(kernel, 2, 64, (x, y, N, step[()]), device=device)


class Talk:
    """A dialogue about a session: what each command prints."""

    def __init__(self, name):
        self.session, self.out = started(name), io.StringIO()
        self.shell = Shell(self.session, self.out, colour=False)

    def __call__(self, *lines):
        """What the last of some commands prints."""
        for line in lines:
            self.out.truncate(self.out.seek(0))
            self.shell.obey(line)
        return self.out.getvalue().rstrip("\n")
