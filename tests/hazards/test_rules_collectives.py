"""Rules of collectives and barriers: rows are (rule, faulty program, nearest correct one, launch)."""

import pytest

STORE = "st.global.u32 [%rd4], %r1;"
OPERANDS = "mov.b32 %r10, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r10,%r10,%r10,%r10}, {%r10,%r10}, {%f1,%f2,%f3,%f4};"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r2];"
FILLED = "mov.b32 %r10, 0; st.shared.u32 [%r5], %r10; bar.sync 0;\n"
WMMA = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%rd1];"
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r1;"
WGMMA = (
    OPERANDS
    + """shl.b32 %r12, %r1, 4; add.u32 %r12, %r12, %r2; st.shared.v4.b32 [%r12], {%r10,%r10,%r10,%r10};
st.shared.v4.b32 [%r12+2048], {%r10,%r10,%r10,%r10}; fence.proxy.async; bar.sync 0;
shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd9, %r12; or.b64 %rd9, %rd9, 0x1000080000; setp.ne.u32 %p4, %r10, %r10;
"""
)
WGMMA_FENCE = "wgmma.fence.sync.aligned;\n"
MULTIPLY = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd9, %rd9, %p4, 1, 1, 0, 0;"
WGMMA_END = "\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
WHOLE = WGMMA + WGMMA_FENCE + MULTIPLY + WGMMA_END + STORE
GROUP = {"block": 128}
CLUSTER = {"grid": 2, "cluster": (2, 1, 1), "block": 64}

DIVERGENCE = [
    ("aligned-divergence", OPERANDS + f"@%p2 bra D;\n{MMA}//!\nD: {STORE}", OPERANDS + f"{MMA}\n@%p2 bra D;\nD: {STORE}"),
    ("aligned-divergence", FILLED + f"@%p2 {LDMATRIX}//!\n{STORE}", FILLED + f"{LDMATRIX}\n@%p2 {STORE}"),
    ("aligned-divergence", f"@%p2 bra L;\n{MOVE}//!\nbra D;\nL: {MOVE}//^\nD: {STORE}", f"@%p2 bra L;\nL: {MOVE}\nD: {STORE}"),
    ("aligned-divergence", f"@%p2 bra D;\n{WMMA}//!\nD: bar.sync 0;", f"{WMMA}\nD: bar.sync 0;"),
    ("aligned-divergence", f"@%p2 bra L;\nbar.sync 0;//!\nbra D;\nL: bar.sync 0;//^\nD: {STORE}", f"@%p2 bra L;\nbarrier.sync 0;\nbra D;\nL: barrier.sync 0;\nD: {STORE}"),
    ("aligned-divergence", f"@%p2 bar.sync 1;//!\nbar.sync 0; {STORE}", f"bar.sync 1;\nbar.sync 0; {STORE}"),
    ("aligned-divergence", WGMMA + f"setp.lt.u32 %p5, %r1, 64; {WGMMA_FENCE}@%p5 bra D;\n{MULTIPLY}//!{WGMMA_END}D: {STORE}", WHOLE, GROUP),
    ("aligned-divergence", WGMMA + f"setp.lt.u32 %p5, %r1, 64; {WGMMA_FENCE}@%p5 bra D;\n{MULTIPLY}//!{WGMMA_END}D: bar.sync 0;//^", WHOLE, GROUP),
    ("aligned-divergence", WGMMA + f"setp.eq.u32 %p5, %r1, 77; {WGMMA_FENCE}@!%p5 {MULTIPLY}//!{WGMMA_END}{STORE}", WHOLE, GROUP),
    ("aligned-divergence", f"@%p2 barrier.cluster.arrive.aligned;//!\n@!%p2 barrier.cluster.arrive.aligned;\nbarrier.cluster.wait; {STORE}", "@%p2 barrier.cluster.arrive;\n@!%p2 barrier.cluster.arrive;\nbarrier.cluster.wait;", CLUSTER),
]  # fmt: skip
EXITED = [
    ("exited-lane", OPERANDS + f"@%p1 ret;\n{MMA}//!\n{STORE}", OPERANDS + f"{MMA}\n@%p1 ret;\n{STORE}"),
    ("exited-lane", FILLED + f"@%p2 bra D;\n{LDMATRIX}//!\n{STORE} D:", FILLED + f"{LDMATRIX}\n@%p2 bra D;\n{STORE} D:"),
    ("exited-lane", f"@%p2 exit;\n{WMMA}//!", f"{WMMA}\n@%p2 exit;"),
    ("exited-lane", f"{MOVE}//!\n{STORE}", f"{MOVE}\n{STORE}".replace(MOVE, "mov.u32 %r11, %r1;"), {"block": 40}),
    ("exited-lane", WGMMA + f"setp.eq.u32 %p5, %r1, 77; @%p5 ret;\n{WGMMA_FENCE}{MULTIPLY}//!{WGMMA_END}{STORE}", WHOLE, GROUP),
    ("exited-lane", WGMMA + f"setp.gt.u32 %p5, %r1, 95; @%p5 bra D;\n{WGMMA_FENCE}{MULTIPLY}//!{WGMMA_END}{STORE} D:", WHOLE + "setp.gt.u32 %p5, %r1, 95; @%p5 bra D; D:", GROUP),
]  # fmt: skip
UNIFORM = [
    ("nonuniform-operand", WMMA.replace("[%rd1]", "[%rd4]") + "//!", WMMA),
    ("nonuniform-operand", "add.u32 %r18, %r1, 1; shl.b32 %r18, %r18, 4;\n" + WMMA.replace("[%rd1]", "[%rd1], %r18") + "//!", "mov.u32 %r18, 32;\n" + WMMA.replace("[%rd1]", "[%rd1], %r18")),
    ("nonuniform-operand", WGMMA + "@%p1 add.u64 %rd9, %rd9, 8;\n" + WGMMA_FENCE + MULTIPLY + "//!" + WGMMA_END, WHOLE, GROUP),
    ("nonuniform-operand", WGMMA + "setp.lt.u32 %p5, %r1, 32; @%p5 add.u64 %rd9, %rd9, 8;\n" + WGMMA_FENCE + MULTIPLY + "//!" + WGMMA_END, WHOLE, GROUP),
    ("nonuniform-operand", "and.b32 %r10, %r1, 1;\nbar.sync %r10, 32;//!", "and.b32 %r10, %r7, 1;\nbar.sync %r10, 32;", {"block": 64}),
    ("nonuniform-operand", "selp.b32 %r10, 32, 64, %p2;\nbar.sync 1, %r10;//!", "mov.b32 %r10, 64;\nbar.sync 1, %r10;", {"block": 64}),
]  # fmt: skip
MASKS = [
    ("membermask", "shfl.sync.idx.b32 %r10, %r1, 3, 31, 0xffff;//!", "@%p2 shfl.sync.idx.b32 %r10, %r1, 3, 31, 0xffff;"),
    ("membermask", "vote.sync.ballot.b32 %r10, %p2, 0xfffffffe;//!", "@!%p1 vote.sync.ballot.b32 %r10, %p2, 0xfffffffe;"),
    ("membermask", "match.any.sync.b32 %r10, %r1, 0xff;//!", "match.any.sync.b32 %r10, %r1, -1;"),
    ("membermask", "redux.sync.add.u32 %r10, %r1, 0xff;//!", "redux.sync.add.u32 %r10, %r1, -1;"),
    ("membermask", "bar.warp.sync 0xff00;//!", "setp.gt.u32 %p3, %r1, 7; and.pred %p3, %p3, %p2; @%p3 bar.warp.sync 0xff00;"),
    ("membermask", f"@%p2 bra D;\nshfl.sync.idx.b32 %r10, %r1, 20, 31, -1;//!\nD: {STORE}", f"@%p2 bra D;\nshfl.sync.idx.b32 %r10, %r1, 20, 31, 0xffff0000;\nD: {STORE}"),
    ("membermask", f"@%p2 shfl.sync.down.b32 %r10, %r1, 1, 31, -1;//!\n{STORE}", f"@%p2 shfl.sync.down.b32 %r10, %r1, 1, 15, 0xffff;\n{STORE}"),
    ("membermask", "@%p2 bra L;\nbarrier.sync 0;//^\nbra D;\nL: shfl.sync.idx.b32 %r10, %r1, 3, 31, -1;//!\nbarrier.sync 0; D:", "@%p2 bra L;\nbarrier.sync 0;\nbra D;\nL: shfl.sync.idx.b32 %r10, %r1, 3, 31, 0xffff;\nbarrier.sync 0; D:"),
    ("membermask", "selp.b32 %r10, -1, 0xffff0000, %p2;\nshfl.sync.idx.b32 %r11, %r1, 20, 31, %r10;//!", "selp.b32 %r10, 0xffff, 0xffff0000, %p2;\nshfl.sync.bfly.b32 %r11, %r1, 1, 31, %r10;"),
    ("membermask", "activemask.b32 %r10; @%p2 bra L;\nshfl.sync.idx.b32 %r11, %r1, 20, 31, %r10;//!\nbra D; L: mov.u32 %r11, 1;\nD: st.global.u32 [%rd4], %r11;", "@%p2 bra L;\nactivemask.b32 %r10; shfl.sync.idx.b32 %r11, %r1, 20, 31, %r10;\nbra D; L: mov.u32 %r11, 1;\nD: st.global.u32 [%rd4], %r11;"),
]  # fmt: skip
ABSENT = [
    ("membermask", "@%p2 shfl.sync.idx.b32 %r10, %r1, 20, 31, 0xffff;//!", "@%p2 shfl.sync.idx.b32 %r10, %r1, 2, 31, 0xffff;"),
    ("membermask", "@%p2 shfl.sync.down.b32 %r10, %r1, 1, 31, 0xffff;//!", "@%p2 shfl.sync.down.b32 %r10, %r1, 1, 0x100f, 0xffff;"),
    ("membermask", "shfl.sync.bfly.b32 %r10, %r1, 8, 31, -1;//!", "shfl.sync.bfly.b32 %r10, %r1, 4, 31, -1;", {"block": 8}),
]  # fmt: skip
BARRIERS = [
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbarrier.sync 1;//!\nbra D;\nL: barrier.sync 2;//^\nD:", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbarrier.sync 1;\nbra D;\nL: barrier.sync 1;\nD:", {"block": 64}),
    ("barrier-divergence", "mov.u32 %r10, 40;\nbar.sync 1, %r10;//!", "mov.u32 %r10, 64;\nbar.sync 1, %r10;", {"block": 64}),
    ("barrier-divergence", "mov.u32 %r10, 96;\nbar.sync 1, %r10;//!", "mov.u32 %r10, 64;\nbar.sync 1, %r10;", {"block": 64}),
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.sync 1, 96;//^\nbra D;\nL: bar.sync 1, 64;//!\nD:", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.sync 1, 96;\nbra D;\nL: bar.sync 1, 96;\nD:", {"block": 96}),
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.arrive 1, 64;\nbra D;\nL: bar.sync 2, 64;//!\nD:", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.arrive 1, 64;\nbra D;\nL: bar.sync 1, 64;\nD:", {"block": 64}),
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.sync 1;//^\nbra D;\nL: bar.red.popc.u32 %r9, 1, %p2;//!\nD:", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.red.popc.u32 %r9, 1, %p2;\nbra D;\nL: bar.red.popc.u32 %r9, 1, %p2;\nD: bar.sync 1;", {"block": 64}),
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.red.or.pred %p6, 1, 64, %p2;//^\nbra D;\nL: bar.arrive 1, 64;//!\nD:", "setp.lt.u32 %p5, %r1, 32; @%p5 bra L;\nbar.sync 1, 64;\nbra D;\nL: bar.arrive 1, 64;\nD:", {"block": 64}),
    ("barrier-divergence", "setp.lt.u32 %p5, %r1, 32; selp.u32 %r10, 0x10001, 1, %p5; selp.u32 %r11, 0, 0x20, %p5;\nbarrier.sync %r10, %r11;//!", "setp.lt.u32 %p5, %r1, 32; selp.u32 %r10, 2, 1, %p5;\nbarrier.sync %r10, 32;", {"block": 64}),
    ("barrier-divergence", "mov.u32 %r10, 16;\nbar.sync %r10;//!", "mov.u32 %r10, 15;\nbar.sync %r10;"),
    ("barrier-divergence", "mov.u32 %r10, -1;\nbarrier.red.popc.u32 %r9, %r10, %p2;//!", "mov.u32 %r10, 3;\nbarrier.red.popc.u32 %r9, %r10, %p2;"),
    ("barrier-divergence", "barrier.cluster.arrive;\nbarrier.cluster.arrive;//!\nbarrier.cluster.wait;", "barrier.cluster.arrive;\nbarrier.cluster.wait; barrier.cluster.arrive;\nbarrier.cluster.wait;", CLUSTER),
]  # fmt: skip
DEADLOCKS = [
    ("deadlock", "L: ld.volatile.global.u32 %r10, [%rd1]; setp.eq.u32 %p5, %r10, 0;//!\n@%p5 bra L;", "@%p1 st.volatile.global.u32 [%rd1], 1;\nL: ld.volatile.global.u32 %r10, [%rd1]; setp.eq.u32 %p5, %r10, 0;\n@%p5 bra L;"),
    ("deadlock", "barrier.cluster.wait;//!", "barrier.cluster.arrive;\nbarrier.cluster.wait;", CLUSTER),
    ("deadlock", "setp.eq.u32 %p5, %r8, 1;\n@!%p5 bra L;\nst.release.gpu.global.u32 [%rd1], 1; bra D;\nL: ld.acquire.gpu.global.u32 %r10, [%rd1+4]; setp.eq.u32 %p5, %r10, 0;//!\n@%p5 bra L; D:", "setp.eq.u32 %p5, %r8, 1;\n@!%p5 bra L;\nst.release.gpu.global.u32 [%rd1], 1; bra D;\nL: ld.acquire.gpu.global.u32 %r10, [%rd1]; setp.eq.u32 %p5, %r10, 0;\n@%p5 bra L; D:", {"grid": 2, "block": 1}),
    ("deadlock", "L: atom.global.cas.b32 %r10, [%rd1], 0, 1; setp.ne.u32 %p5, %r10, 0;//!\n@%p5 bra L;", "L: atom.global.cas.b32 %r10, [%rd1], 0, 1; setp.ne.u32 %p5, %r10, 0;\n@%p5 bra L; atom.global.exch.b32 %r10, [%rd1], 0;"),
]  # fmt: skip
COUNTS = [
    ("setmaxnreg", "setp.eq.u32 %p5, %r7, 2; @%p5 bra L;\nsetmaxnreg.dec.sync.aligned.u32 40;//!\nL: bar.sync 0;", "setmaxnreg.dec.sync.aligned.u32 40;\nL: bar.sync 0;", GROUP),
    ("setmaxnreg", "setp.lt.u32 %p5, %r7, 2; @%p5 bra L;\nsetmaxnreg.inc.sync.aligned.u32 128;//!\nL: bar.sync 0;", "setp.lt.u32 %p5, %r7, 4; @%p5 bra L;\nsetmaxnreg.inc.sync.aligned.u32 128;\nL: bar.sync 0;", {"block": 256}),
    ("setmaxnreg", "setp.eq.u32 %p5, %r7, 1; @%p5 bra L; setmaxnreg.dec.sync.aligned.u32 40;\nbra D; L: setmaxnreg.dec.sync.aligned.u32 48;//!\nD: bar.sync 0;", "setp.gt.u32 %p5, %r7, 3; @%p5 bra L; setmaxnreg.dec.sync.aligned.u32 40;\nbra D; L: setmaxnreg.dec.sync.aligned.u32 48;\nD: bar.sync 0;", {"block": 256}),
]  # fmt: skip

ROWS = [*DIVERGENCE, *EXITED, *UNIFORM, *MASKS, *BARRIERS, *DEADLOCKS, *COUNTS]
RULES = [rule for rule, *_ in (*ROWS, *ABSENT)]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{number}" for number, row in enumerate(ROWS)])
def test_rule(rules, row):
    """The faulty program is reported at its line and the correct one is silent, under all checks."""
    rule, faulty, correct, *launch = row
    rules.check(rule, faulty, correct, **(launch[0] if launch else {}))


@pytest.mark.parametrize("row", ABSENT)
def test_reading_a_lane_that_takes_no_part(rules, row):
    """What such a lane's register gives is undefined: a warning, for programs that do not use the value."""
    rule, faulty, correct, *launch = row
    rules.check(rule, faulty, correct, severity="warning", **(launch[0] if launch else {}))


def test_registers_of_a_warpgroup_in_another_order(rules):
    """Warps may reach the same setmaxnreg one after the other."""
    body = "setp.eq.u32 %p5, %r7, 2; @%p5 bra L; mov.u32 %r10, 1;\nL: setmaxnreg.dec.sync.aligned.u32 40;\nbar.sync 0;"

    assert rules.findings(body, **GROUP)[0] == ()
