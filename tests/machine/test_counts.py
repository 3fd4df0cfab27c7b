"""What is executed is counted once, also where warps or lanes wait at the first instruction of a block and come again."""

import numpy as np
import pytest

import warpsim
from warpsim.debug import Session

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .u32 %r<4>; .reg .u64 %d; .reg .pred %p;
  mov.u32 %r0, %tid.x;
"""
WARPGROUP = "  bra.uni first;\nfirst:\n  wgmma.fence.sync.aligned;\n  add.u32 %r1, %r0, 1;\n  ret;\n}\n"
DIVERGED = (
    "  and.b32 %r1, %r0, 31;\n  setp.lt.u32 %p, %r1, 7;\n  @%p bra met;\n  add.u32 %r1, %r1, 1;\nmet:\n"
    "  bar.warp.sync 0xffffffff;\n  add.u32 %r2, %r1, 1;\n  ret;\n}\n"
)
APART = (
    "  and.b32 %r1, %r0, 31;\n  setp.lt.u32 %p, %r1, 7;\n  @%p bra one;\n  shfl.sync.idx.b32 %r2, %r0, 3, 31, 0xffffffff;\n"
    "  ret;\none:\n  shfl.sync.idx.b32 %r2, %r0, 3, 31, 0xffffffff;\n  ret;\n}\n"
)
GUARDED = (
    "  shr.u32 %r1, %r0, 5;\n  setp.eq.u32 %p, %r1, 1;\n  bra.uni first;\nfirst:\n"
    "  @%p bar.warp.sync 0xffffffff;\n  add.u32 %r2, %r0, 1;\n  ret;\n}\n"
)


@pytest.mark.parametrize(
    ("body", "warp_instructions", "thread_instructions"),
    [
        pytest.param(WARPGROUP, 4 * 5, 128 * 5, id="a warpgroup"),
        pytest.param(DIVERGED, 4 * 8, 128 * 7 + 4 * 25, id="lanes that diverged"),
        pytest.param(APART, 4 * 8, 128 * 6, id="lanes that meet at two places"),
        pytest.param(GUARDED, 4 * 7, 128 * 7, id="a guard"),
    ],
)
def test_counted_once(body, warp_instructions, thread_instructions):
    """Each instruction counts once for each warp, and group of its lanes, that executes it: in a launch, by its profile, and
    where every warp goes by itself."""
    kernel = warpsim.load(HEAD + body)["k"]
    launch = kernel((1,), (128,), (np.zeros(4, np.uint32),))
    profiled = kernel((1,), (128,), (np.zeros(4, np.uint32),), profile=True)
    session = Session(kernel, (1,), (128,), (np.zeros(4, np.uint32),), profile=True)
    session.cont()

    assert (launch.instructions, launch.thread_instructions) == (warp_instructions, thread_instructions)
    for result in (profiled, session.result):
        assert (result.instructions, result.thread_instructions) == (warp_instructions, thread_instructions)
        lines = result.profile.lines
        assert sum(line.counts.executions for line in lines) == warp_instructions
        assert sum(line.counts.lanes for line in lines) == thread_instructions
