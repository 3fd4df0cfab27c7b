"""Many lanes that arrive at once, against one lane after the other in plain integers."""

import numpy as np
import pytest

import warpsim

KERNEL = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u64 expected)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
.shared .align 8 .b8 bars[64];
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [expected];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
setp.ge.u32 %p1, %r1, 4; @%p1 bra READY;
mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd3, %rd4; ld.global.b32 %r4, [%rd4];
mov.u32 %r5, bars; shl.b32 %r6, %r1, 3; add.u32 %r5, %r5, %r6; mbarrier.init.shared.b64 [%r5], %r4;
READY: bar.sync 0;
mul.wide.u32 %rd4, %r3, 8; add.u64 %rd5, %rd2, %rd4; ld.global.v2.b32 {%r7, %r8}, [%rd5];
mov.u32 %r5, bars; shl.b32 %r6, %r7, 3; add.u32 %r5, %r5, %r6;
setp.eq.u32 %p2, %r8, 0; @%p2 bra DONE;
ARRIVE
mbarrier.pending_count.b64 %r9, %rd6;
mul.wide.u32 %rd4, %r3, 4; add.u64 %rd7, %rd1, %rd4; st.global.b32 [%rd7], %r9;
DONE: ret;
}
"""


def one_after_the_other(rows, expected, drop):
    """The pending counts that lanes find, by the text's rules."""
    pending, phases = list(expected), list(expected)
    found = []
    for bar, count in rows:
        if not count:
            found.append(0)
            continue
        found.append(pending[bar])
        pending[bar] -= count
        phases[bar] -= count if drop else 0
        if pending[bar] == 0:
            pending[bar] = phases[bar]
    return found


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_arrivals_of_many_lanes(seed, drop):
    """Lanes of several CTAs arrive at four objects with counts of their own: every lane sees what it would see alone."""
    rng = np.random.default_rng(seed)
    expected = rng.integers(60, 400, 4) if seed % 2 or drop else rng.integers(4, 40, 4)
    rows, counts = [], []
    for _ in range(3):  # CTAs
        left = expected.copy()
        cta = []
        for _ in range(64):
            bar = int(rng.integers(0, 4 if seed < 4 else 1))
            most = int(left[bar])
            count = min(int(rng.integers(0, 4)), most - 1 if drop else most)
            left[bar] -= count
            if left[bar] == 0:
                left[bar] = expected[bar]
            cta.append((bar, count))
        rows += cta
        counts += one_after_the_other(cta, expected.tolist(), drop)
    opcode = f"mbarrier.arrive{'_drop' if drop else ''}.shared.b64 %rd6, [%r5], %r8;"
    out = np.zeros(3 * 64, np.uint32)
    warpsim.load(KERNEL.replace("ARRIVE", opcode))["k"](
        (3,), (64,), (out, np.array(rows, np.uint32), expected.astype(np.uint32))
    )

    assert out.tolist() == counts
