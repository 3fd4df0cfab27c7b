"""What compiled code leaves to the interpreter, because somebody listens."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %laneid; mov.u32 %r2, 0;
L: shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; add.u32 %r1, %r1, %r3; add.u32 %r2, %r2, 1;
setp.lt.u32 %q, %r2, 50; @%q bra L;
st.global.u32 [%d1], %r1; ret; }"""


class Meetings(warpsim.Watcher):
    """Counts the collectives that warps executed."""

    def __init__(self):
        self.count = 0

    def warp_synchronised(self, machine, group, members):
        """One more."""
        self.count += 1


def test_a_later_launch_that_is_watched():
    """Code that an unwatched launch compiled does not hide the 50 shuffles from the watcher of the next."""
    kernel, words, watcher = warpsim.load(PTX)["k"], np.zeros(1, np.uint32), Meetings()
    kernel((1,), (32,), (words,), engine="compiled")
    kernel((1,), (32,), (words,), engine="compiled", watchers=[watcher])

    assert watcher.count == 50
