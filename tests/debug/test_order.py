"""A session in another legal order: that of a launch with the same seed, forward and back."""

import numpy as np
import pytest

import warpsim
from state_equality import difference
from warpsim.debug import Session

ARRIVALS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .u32 %r<4>; .reg .u64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r0, %r3, 256, %r0;
  and.b32 %r2, %r0, 31;
  setp.lt.u32 %p, %r2, 9;
  @%p bra few;
  atom.global.add.u32 %r1, [%rd0], 1;
  bra.uni both;
few:
  atom.global.add.u32 %r1, [%rd0], 1;
both:
  mul.wide.u32 %rd1, %r1, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2+4], %r0;
  ret;
}
"""
SIZE = 1 + 4 * 256


@pytest.mark.parametrize("seed", range(6))
def test_order_of_a_seed(seed):
    """Who comes first is as in the launch; going to and fro changes nothing of it."""
    kernel = warpsim.load(ARRIVALS)["k"]
    expected, out = np.zeros(SIZE, np.uint32), np.zeros(SIZE, np.uint32)
    launch = kernel((4,), (256,), (expected,), schedule=seed)
    session = Session(kernel, (4,), (256,), (out,), schedule=seed)
    session.goto(5)
    there = session.timeline.state.copy()
    session.step(3)
    session.goto(9)
    session.goto(5)
    assert difference(session.timeline.state, there) is None
    session.break_at("few", condition="%tid.x == 224")
    assert session.cont().focus.warp == 7
    assert session.stop.focus.lane == 0
    session.delete()
    for stop in (session.cont(), session.cont()):
        assert stop.reason == "end"

    assert out.tolist() == expected.tolist()
    assert sorted(out[1:]) == list(range(SIZE - 1))
    assert session.result.instructions == launch.instructions


@pytest.mark.parametrize("seed", range(4))
def test_stops_inside_turns(seed):
    """A turn that a stop interrupts goes on as far as it would have, also where it ends inside a block."""
    kernel = warpsim.load(ARRIVALS.replace("both:\n", "both:\n" + "  add.u32 %r2, %r2, 1;\n" * 60))["k"]
    expected, out = np.zeros(SIZE, np.uint32), np.zeros(SIZE, np.uint32)
    kernel((2,), (256,), (expected,), schedule=seed)
    session = Session(kernel, (2,), (256,), (out,), schedule=seed)
    step = 0
    while session.result is None:
        step += 29
        session.goto(step)

    assert out.tolist() == expected.tolist()


def test_orders_differ():
    """Seeds are orders of their own: the tests above would not see one order for all."""
    kernel = warpsim.load(ARRIVALS)["k"]
    found = set()
    for seed in range(4):
        out = np.zeros(SIZE, np.uint32)
        session = Session(kernel, (4,), (256,), (out,), schedule=seed)
        session.cont()
        found.add(out.tobytes())

    assert len(found) > 1
