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


def test_a_branch_that_lanes_promise_to_take_together():
    """Lanes of a warp that part at one with .uni are found where code could run it."""
    text = PTX.replace("@%q bra L;", "@%q bra L; setp.lt.u32 %q, %r4, 16; @%q bra.uni E; add.u32 %r1, %r1, 1; E:")
    text = text.replace("%laneid;", "%laneid; mov.u32 %r4, %laneid;")
    result = warpsim.load(text)["k"]((1,), (32,), (np.zeros(1, np.uint32),), engine="compiled", on_finding="collect")

    assert [(f.rule, f.lanes) for f in result.findings if f.rule == "nonuniform-operand"] == [
        ("nonuniform-operand", tuple(range(16)))
    ]


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


class Accesses(warpsim.Watcher):
    """Keeps the addresses of shared memory and the fences, in order."""

    def __init__(self):
        self.found = []

    def fence(self, machine, group, instruction, active):
        """One more."""
        self.found.append((instruction.text, group.selection.n))

    def memory_accessed(self, machine, group, access):
        """One more."""
        if access.space == "shared":
            self.found.append((access.kind, np.broadcast_to(access.places, group.selection.shape).reshape(-1).tolist()))


def test_who_follows_accesses_sees_each(done):
    """Code holds none of them; what computes their addresses is compiled."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>; .shared .align 8 .b32 s[64];
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; mov.u32 %r3, 0;
M: mov.u32 %r5, 0;
L: mad.lo.u32 %r2, %r2, 5, 3; and.b32 %r2, %r2, 63; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
shl.b32 %r6, %r2, 2; mov.u32 %r7, s; add.u32 %r7, %r7, %r6; st.shared.u32 [%r7], %r1; membar.cta; ld.shared.u32 %r2, [%r7];
membar.gl;
add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 3; @%p2 bra M;
mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r2; ret; }"""
    seen = []
    for engine in ("compiled", "interpreter"):
        words, watcher = np.zeros(64, np.uint32), Accesses()
        result = warpsim.load(text)["k"]((1,), (64,), (words,), engine=engine, watchers=[watcher])
        seen.append((words.tolist(), result.instructions, watcher.found))
    assert seen[0] == seen[1]
    assert any(code.region.loops for code in done)
    assert not any(code.accesses for code in done)


WGMMA = (
    """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<6>; .reg .b64 %d<5>; .reg .pred %p<3>; .reg .f32 %f<8>;
.shared .align 128 .b8 s[4096];
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 16; add.u64 %d1, %d1, %d2; mov.u32 %r2, s;
add.u32 %r4, %r2, 0; mad.lo.u32 %r4, %r1, 16, %r4; st.shared.v4.b32 [%r4], {%r1, %r1, %r1, %r1}; fence.proxy.async;
shr.u32 %r3, %r2, 4; cvt.u64.u32 %d3, %r3; or.b64 %d3, %d3, 68720001024;
mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f2; mov.f32 %f4, %f3; setp.eq.u32 %p2, %r1, %r1; bar.sync 0; FIRST
"""
    + (MULTIPLY := "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d3, %d3, %p2, 1, 1, 0, 0;")
    + """
AGAIN wgmma.commit_group.sync.aligned; BEFORE wgmma.wait_group.sync.aligned 0;
mul.f32 %f1, %f1, %f2; add.f32 %f2, %f2, %f3; fma.rn.f32 %f3, %f1, %f2, %f4; mov.f32 %f5, %f3; mul.f32 %f5, %f5, %f5;
setp.gt.f32 %p1, %f5, 0f40000000; @%p1 bra E; add.f32 %f4, %f4, %f1; mul.f32 %f4, %f4, %f3; add.f32 %f4, %f4, %f5;
E: LAST st.global.v4.f32 [%d1], {%f1, %f2, %f3, %f4}; ret; }"""
)
FENCE = "wgmma.fence.sync.aligned;"
TAIL = MULTIPLY + " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize(
    ("first", "again", "before", "last", "rules"),
    [
        (FENCE, "", "", "", set()),
        (FENCE, "", "", FENCE + TAIL, set()),
        ("", "", "", "", {"wgmma-missing-fence"}),
        (FENCE, "", "", TAIL, {"wgmma-missing-fence"}),
        (FENCE, "mul.f32 %f1, %f1, %f1; add.f32 %f2, %f2, %f2; add.f32 %f3, %f3, %f1;" + MULTIPLY, "", "", None),
        (FENCE, "", "mul.f32 %f1, %f1, %f1; add.f32 %f2, %f2, %f2; add.f32 %f3, %f3, %f1;", "", {"wgmma-in-flight"}),
        (FENCE, "", "mov.f32 %f5, %f1; mov.f32 %f1, %f2; mov.f32 %f2, %f5; mul.f32 %f6, %f7, %f7;", "", None),
    ],
)
def test_registers_of_wgmma(first, again, before, last, rules, done):
    """Code may use them between products, and what is found of fences and products in flight is as ever."""
    text = WGMMA
    for name, part in (("FIRST", first), ("AGAIN", again), ("BEFORE", before), ("LAST", last)):
        text = text.replace(name, part.replace(";", ";\n"))
    found = []
    for engine in ("compiled", "interpreter"):
        words = np.zeros((128, 4), np.uint32)
        result = warpsim.load(text)["k"]((1,), (128,), (words,), engine=engine, on_finding="collect")
        findings = [(f.rule, f.severity, f.line, f.message, f.lanes, str(f.other)) for f in result.findings]
        found.append((words.tolist(), result.instructions, findings))
    assert found[0] == found[1]
    assert rules is None or {f[0] for f in found[0][2]} == rules
    assert any(code.region.wgmma is not None for code in done)


COPIES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<6>; .reg .pred %p<4>; .shared .align 128 .b8 s[4096];
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 16; add.u64 %d2, %d1, %d2; mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 16, %r2; setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, 0; mov.u32 %r5, 0;
cp.async.cg.shared.global [%r3], [%d2], 16; cp.async.commit_group;
cp.async.cg.shared.global [%r3+1024], [%d2], 16; cp.async.commit_group;
cp.async.wait_group 1;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d1+2048], [%r2+3072], 128; @%p1 cp.async.bulk.commit_group;
bar.sync 0;
L: ld.shared.u32 %r6, [%r3+STAGE]; ld.global.u32 %r7, [%d2+PLACE]; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7;
add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra L;
cp.async.wait_all; @%p1 cp.async.bulk.wait_group 0; st.global.u32 [%d2+1024], %r4; ret; }"""


@pytest.mark.parametrize(("stage", "place", "good"), [(0, 0, True), (1024, 0, False), (0, 2048, False)])
def test_copies_in_flight(stage, place, good, done):
    """Code accesses memory while copies are in flight, unless these may still write there."""
    text = COPIES.replace("STAGE", str(stage)).replace("PLACE", str(place)).replace(";", ";\n")
    found = []
    for engine in ("compiled", "interpreter"):
        words = np.arange(1024, dtype=np.uint32)
        launch = {"engine": engine, "checks": "none+async-read-early", "on_finding": "collect"}
        result = warpsim.load(text)["k"]((1,), (64,), (words,), **launch)
        findings = [(f.rule, f.line, f.message, f.lanes, str(f.other)) for f in result.findings]
        found.append((words.tolist(), result.instructions, findings))
    assert found[0] == found[1]
    assert bool(found[0][2]) != good
    assert any(code.region.loops and code.spaces == {"global", "shared"} for code in done) == good
