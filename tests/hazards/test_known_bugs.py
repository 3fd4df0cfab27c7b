"""Bugs that real projects shipped, as small kernels, each with the program that its fix made of it."""

import pytest

ACCUMULATORS = "mov.b32 %r10, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
TILES = (
    ACCUMULATORS
    + """shl.b32 %r12, %r1, 4; add.u32 %r12, %r12, %r2;
st.shared.v4.b32 [%r12], {{%r10,%r10,%r10,%r10}}; st.shared.v4.b32 [%r12+2048], {{%r10,%r10,%r10,%r10}};{stored}
{fence}
bar.sync 0;
shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd9, %r12; or.b64 %rd9, %rd9, 0x1000080000; setp.ne.u32 %p4, %r10, %r10; mov.b32 %r11, 0x44444444;
wgmma.fence.sync.aligned;
"""
)
FENCED = TILES.format(fence="fence.proxy.async;", stored="")
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd9, %rd9, %r11, 0, %p4, 1, 1, 0, 0;"
DENSE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd9, %rd9, %p4, 1, 1, 0, 0;"
FROM_REGISTERS = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, {%r10,%r10,%r10,%r10}, %rd9, %p4, 1, 1, 0;"
)
COMMIT = "\nwgmma.commit_group.sync.aligned;"
WAIT = "\nwgmma.wait_group.sync.aligned 0;\n"
STORE = "st.global.f32 [%rd4], %f1;"
GROUP = {"block": 128}

START = "@%p1 mbarrier.init.shared.b64 [%r3], 1;\n{fence}\nbar.sync 0;\n"
FENCE = "@%p1 fence.mbarrier_init.release.cluster;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;\n"
LOAD = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r3];"
ARRIVED = "\n{0}: mbarrier.try_wait.parity.shared.b64 %p5, [%r3], {1};\n@!%p5 bra {0};\n"
READ = "ld.shared.u32 %r11, [%r5];"
TWICE = (
    START.format(fence=FENCE) + EXPECT + LOAD + ARRIVED.format("L", 0) + READ + "{before}\n{between}\n" + EXPECT + LOAD
)

RING = (
    "add.u32 %r13, %r3, 8; @%p1 mbarrier.init.shared.b64 [%r13], 32; mov.u32 %r20, 0; setp.ge.u32 %p7, %r1, 32; add.u32 %r5, %r5, -128;\n"
    + START.format(fence=FENCE)
    + """@%p7 bra CONSUME; @!%p1 bra D;
PRODUCE: setp.lt.u32 %p6, %r20, {first}; @%p6 bra FREE; sub.u32 %r21, %r20, {first}; and.b32 %r21, %r21, 1;
EMPTY: mbarrier.try_wait.parity.shared.b64 %p5, [%r13], %r21; @!%p5 bra EMPTY;
FREE: """
    + EXPECT
    + LOAD
    + """{copied}
add.u32 %r20, %r20, 1; setp.lt.u32 %p6, %r20, 4; @%p6 bra PRODUCE; bra D;
CONSUME: and.b32 %r21, %r20, 1;
FULL: mbarrier.try_wait.parity.shared.b64 %p5, [%r3], %r21; @!%p5 bra FULL;
"""
    + READ
    + """{read}
fence.proxy.async; bar.warp.sync -1; mbarrier.arrive.shared.b64 _, [%r13];
add.u32 %r20, %r20, 1; setp.lt.u32 %p6, %r20, 4; @%p6 bra CONSUME;
D:"""
)
STAGES = """shl.b32 %r10, %r1, 4; add.u32 %r11, %r2, %r10; cvt.u64.u32 %rd6, %r10; add.u64 %rd6, %rd6, %rd1; xor.b32 %r12, %r11, 512;
add.u32 %r14, %r1, 1; st.global.v4.u32 [%rd6+2048], {{%r14,%r14,%r14,%r14}};
cp.async.cg.shared.global [%r11], [%rd6], 16; cp.async.commit_group; cp.async.wait_group 0;
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r13}}, [%r12];{read}
{barrier}
cp.async.cg.shared.global [%r11], [%rd6+2048], 16;{copied}
cp.async.commit_group; cp.async.wait_group 0;
bar.sync 0;
"""

BUGS = {
    "a sparse wgmma without any proxy fence": (
        "proxy-fence",
        "error",
        TILES.format(fence="", stored="//^") + SPARSE + "//!" + COMMIT + WAIT,
        FENCED + SPARSE + COMMIT + WAIT,
        GROUP,
    ),
    "accumulators read without a wait": (
        "wgmma-in-flight",
        "error",
        FENCED + DENSE + "//^" + COMMIT + "\n" + STORE + "//!" + WAIT,
        FENCED + DENSE + COMMIT + WAIT + STORE,
        GROUP,
    ),
    "accumulators read without a commit": (
        "wgmma-uncommitted",
        "error",
        FENCED + DENSE + "//^\nwgmma.wait_group.sync.aligned 0;//!\n" + STORE,
        FENCED + DENSE + COMMIT + WAIT + STORE,
        GROUP,
    ),
    "A registers of a wgmma in flight overwritten": (
        "wgmma-in-flight",
        "error",
        FENCED + FROM_REGISTERS + "//^" + COMMIT + "\nadd.u32 %r10, %r10, %r1;//!" + WAIT,
        FENCED + FROM_REGISTERS + COMMIT + WAIT + "add.u32 %r10, %r10, %r1;",
        GROUP,
    ),
    "no proxy fence between ld.shared and a TMA load into the same buffer": (
        "proxy-fence",
        "error",
        TWICE.format(before="//^", between="bar.sync 0;") + "//!" + ARRIVED.format("M", 1),
        TWICE.format(before="", between="fence.proxy.async; bar.sync 0;") + ARRIVED.format("M", 1),
        {},
    ),
    "an mbarrier initialised without a fence before the first TMA": (
        "mbarrier",
        "note",
        START.format(fence="") + EXPECT + LOAD + "//!" + ARRIVED.format("L", 0),
        START.format(fence=FENCE) + EXPECT + LOAD + ARRIVED.format("L", 0),
        {},
    ),
    "a producer that reuses a stage one phase early": (
        "race",
        "error",
        RING.format(first=2, copied="//!", read="//^"),
        RING.format(first=1, copied="", read=""),
        {"block": 64},
    ),
    "wgmma under divergence": (
        "aligned-divergence",
        "error",
        FENCED + "setp.eq.u32 %p5, %r6, 3; @%p5 bra D;\n" + DENSE + "//!" + COMMIT + WAIT + "D: " + STORE,
        FENCED + "setp.eq.u32 %p5, %r6, 3;\n" + DENSE + COMMIT + WAIT + "@%p5 bra D;\nD: " + STORE,
        GROUP,
    ),
    "a __syncthreads in divergent code": (
        "aligned-divergence",
        "error",
        "@%p2 bra L;\nbar.sync 0;//!\nbra D;\nL: add.u32 %r10, %r1, 1;\nbar.sync 0;//^\nD: st.global.u32 [%rd4], %r1;",
        "@%p2 bra L;\nbra D;\nL: add.u32 %r10, %r1, 1;\nD: bar.sync 0;\nst.global.u32 [%rd4], %r1;",
        {"block": 64},
    ),
    "a race between ldmatrix and the next cp.async stage": (
        "race",
        "error",
        STAGES.format(barrier="", read="//^", copied="//!"),
        STAGES.format(barrier="bar.sync 0;", read="", copied=""),
        {"block": 64},
    ),
    "a shuffle that reads an inactive lane": (
        "membermask",
        "warning",
        "@%p2 bra D;\nshfl.sync.idx.b32 %r10, %r1, 0, 31, 0xffff0000;//!\nst.global.u32 [%rd4], %r10; D:",
        "shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;\n@%p2 bra D;\nst.global.u32 [%rd4], %r10; D:",
        {},
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_bug(rules, name):
    """The bug is found under its rule at its line, and the fixed program is silent."""
    rule, severity, faulty, correct, launch = BUGS[name]
    rules.check(rule, faulty, correct, severity=severity, **launch)


@pytest.mark.parametrize("grid", [2, 5])
def test_a_race_in_many_ctas(rules, grid):
    """CTAs that hand over through mbarriers of their own, side by side: as one of them alone."""
    rule, severity, faulty, correct, launch = BUGS["a producer that reuses a stage one phase early"]
    rules.check(rule, faulty, correct, severity=severity, grid=grid, **launch)
