"""Addresses of variables by name, and one address for many lanes.

ptxas 13.0 makes STS, LDS, ATOMS and STL, LDL of these (sm_90), not generic accesses."""

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.0\n.target sm_90\n.address_size 64
.visible .global .u32 g;
.visible .entry k(.param .u64 out)
{ .shared .align 128 .b8 s[128]; .shared .align 8 .b64 bar; .local .align 8 .b8 l[16];
  .reg .pred p; .reg .u32 a<4>; .reg .b64 state, o; ld.param.u64 o, [out];
"""


@pytest.mark.parametrize(("body", "expected"), [
    ("st.u32 [s+4], 7; ld.u32 a1, [s+4]; ld.shared.u32 a2, [s+4]; add.u32 a1, a1, a2;", 14),
    ("st.v2.u32 [l], {3, 4}; ld.u32 a1, [l+4]; ld.local.u32 a2, [l]; mad.lo.u32 a1, a1, 10, a2;", 43),
    ("st.u32 [g], 9; ld.u32 a1, [g];", 9),
    ("st.u32 [s], 7; red.add.u32 [s], 1; atom.add.u32 a1, [s], 5; ld.u32 a2, [s]; mad.lo.u32 a1, a1, 100, a2;", 813),
    ("mbarrier.init.b64 [bar], 1; mbarrier.arrive.b64 state, [bar];"
     " mbarrier.test_wait.b64 p, [bar], state; selp.u32 a1, 1, 0, p;", 1),
])  # fmt: skip
def test_own_space(body: str, expected: int):
    """What is stored through the name comes back, through the name and through its own space."""
    out = np.zeros(1, np.uint32)
    warpsim.load(HEAD + body + "st.global.u32 [o], a1; ret; }")["k"]((1,), (1,), (out,), checks="all")

    assert out[0] == expected


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("threads", [64, 96, 128])
def test_one_address_from_parts_of_warps(space: str, threads: int):
    """Half of each warp stores different values to one place: the last lane's stays."""
    body = f"""
      .reg .u32 lane, tid; mov.u32 lane, %laneid; mov.u32 tid, %tid.x; mov.u32 a1, 0; setp.lt.u32 p, lane, 16;
      @!p bra late; st.{space}.u32 [{"g" if space == "global" else "s"}], tid; bra.uni end;
    late: nanosleep.u32 1;
    end: bar.sync 0; ld.{space}.u32 a1, [{"g" if space == "global" else "s"}];
    """
    out = np.zeros(1, np.uint32)
    warpsim.load(HEAD + body + "st.global.u32 [o], a1; ret; }")["k"]((1,), (threads,), (out,), checks="none")

    assert out[0] == threads - 17
