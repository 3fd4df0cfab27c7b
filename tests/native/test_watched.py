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

    def warp_synchronised(self, machine, group, members, active):
        """One more."""
        self.count += 1


def test_a_later_launch_that_is_watched():
    """Code that an unwatched launch compiled does not hide the 50 shuffles from the watcher of the next."""
    kernel, words, watcher = warpsim.load(PTX)["k"], np.zeros(1, np.uint32), Meetings()
    kernel((1,), (32,), (words,), engine="compiled")
    kernel((1,), (32,), (words,), engine="compiled", watchers=[watcher])

    assert watcher.count == 50


DOUBTFUL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<12>; .reg .b64 %d<3>; .reg .pred %p<4>;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; and.b32 %r3, %r1, 31;
setp.lt.u32 %p1, %r3, 16; @%p1 mov.u32 %r9, 5; mov.u32 %r4, 0; mov.u32 %r2, %r1;
L: mad.lo.u32 %r2, %r2, 3, %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 20; @%p2 bra L;
"""


@pytest.mark.parametrize(
    ("use", "lanes"),
    [
        ("selp.u32 %r5, %r9, %r2, %p1; st.global.u32 [%d1], %r5; ret; }", None),
        ("add.u32 %r5, %r9, %r2; st.global.u32 [%d1], %r5; ret; }", range(16, 32)),
        (
            "setp.eq.u32 %p3, %r9, 5; @%p3 bra E; add.u32 %r2, %r2, 1; E: st.global.u32 [%d1], %r2; ret; }",
            range(16, 32),
        ),
    ],
)
def test_a_register_that_some_lanes_have_not_written(use, lanes, done):
    """Steps on it are interpreted, with the same findings; those between them are not."""
    found = []
    for engine in ("compiled", "interpreter"):
        words = np.zeros(64, np.uint32)
        result = warpsim.load(DOUBTFUL + use)["k"]((1,), (64,), (words,), engine=engine, on_finding="collect")
        findings = [(f.rule, f.line, f.message, tuple(f.lanes)) for f in result.findings]
        found.append((words.tolist(), result.instructions, dict(result.opcodes), findings))
    assert found[0] == found[1]
    assert [f[3] for f in found[0][3]] == ([] if lanes is None else [tuple(lanes)])
    assert any(code.region.loops for code in done)


MBARRIER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>; .shared .align 8 .b64 bar;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
@%p1 mbarrier.init.shared.b64 [bar], 64; WAIT
L: mad.lo.u32 %r2, %r2, 3, %r1; INSIDE add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra L;
@%p1 mbarrier.init.shared.b64 [bar], 64; st.global.u32 [%d1], %r2; ret; }"""


@pytest.mark.parametrize(
    ("wait", "inside", "good"), [("bar.sync 0;", "", True), ("", "bar.sync 0;", True), ("", "", False)]
)
def test_barriers_behind_an_mbarrier(wait, inside, good, done):
    """Making it again is an error unless threads have met in between: where they met in machine code is known, too."""
    found = []
    text = MBARRIER.replace("WAIT", wait).replace("INSIDE", inside)
    for engine in ("compiled", "interpreter"):
        words = np.zeros(64, np.uint32)
        launch = {"engine": engine, "checks": "none+mbarrier", "on_finding": "collect"}
        result = warpsim.load(text)["k"]((1,), (64,), (words,), **launch)
        found.append(
            (words.tolist(), result.instructions, [(f.rule, f.severity, f.line, f.lanes) for f in result.findings])
        )
    assert found[0] == found[1]
    assert any(code.region.loops for code in done)
    assert any(severity == "error" for _, severity, *_ in found[0][2]) != good
