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
  .reg .u32 %r<4>; .reg .u64 %d; .reg .pred %p, %q;
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

GUARDED_APART = (
    "  and.b32 %r1, %r0, 1;\n  setp.ne.u32 %p, %r1, 0;\n  and.b32 %r1, %r0, 8;\n  setp.eq.u32 %q, %r1, 0;\n  @%q bra one;\n"
    "  @%p bar.warp.sync 0xaaaaaaaa;\n  ret;\none:\n  @%p bar.warp.sync 0xaaaaaaaa;\n  ret;\n}\n"
)


@pytest.mark.parametrize(
    ("body", "warp_instructions", "thread_instructions"),
    [
        pytest.param(WARPGROUP, 4 * 5, 128 * 5, id="a warpgroup"),
        pytest.param(DIVERGED, 4 * 8, 128 * 7 + 4 * 25, id="lanes that diverged"),
        pytest.param(APART, 4 * 8, 128 * 6, id="lanes that meet at two places"),
        pytest.param(GUARDED, 4 * 7, 128 * 7, id="a guard"),
        pytest.param(GUARDED_APART, 4 * 10, 128 * 8, id="a guard in two branches"),
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


def test_lanes_that_leave_a_loop_one_after_the_other():
    """A warp counts in each turn of a loop that one of its lanes makes, whichever lanes are left."""
    loop = (
        "  mul.lo.u32 %r1, %r0, 37;\n  and.b32 %r1, %r1, 15;\n  shr.u32 %r2, %r0, 5;\n  mad.lo.u32 %r1, %r1, %r2, %r1;\n"
        "again:\n  sub.u32 %r1, %r1, 1;\n  setp.gt.s32 %p, %r1, 0;\n  @%p bra again;\n  ret;\n}\n"
    )
    result = warpsim.load(HEAD + loop)["k"]((3,), (80,), (np.zeros(4, np.uint32),), engine="interpreter")

    turns = [max((t * 37 & 15) * (t // 32 + 1), 1) for t in range(80)]
    warps = [turns[first : first + 32] for first in range(0, 80, 32)]
    assert result.instructions == 3 * sum(6 + 3 * max(warp) for warp in warps)
    assert result.thread_instructions == 3 * sum(6 + 3 * own for own in turns)
