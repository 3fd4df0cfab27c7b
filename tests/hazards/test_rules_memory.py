"""Rules of memory: rows are (rule, faulty program, nearest correct one, launch)."""

import pytest

OWN = "shl.b32 %r10, %r1, 2; add.u32 %r10, %r10, %r2;\n"
CLUSTER = {"grid": 2, "cluster": (2, 1, 1)}
PEER = (
    "mov.u32 %r10, 0; st.shared.u32 [%r5], %r10; mov.u32 %r11, %cluster_ctarank; xor.b32 %r11, %r11, 1;"
    " mapa.shared::cluster.u32 %r12, %r5, %r11;\n"
)
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
BOUNDS = [
    ("out-of-bounds", "add.u64 %rd6, %rd4, 16384;\nld.global.u32 %r10, [%rd6];//!", "add.u64 %rd6, %rd4, 16256;\nld.global.u32 %r10, [%rd6];"),
    ("out-of-bounds", "st.global.u32 [%rd4+-128], %r1;//!", "st.global.u32 [%rd4+128], %r1;"),
    ("out-of-bounds", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+16380];//!", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+16368];"),
    ("out-of-bounds", "add.u32 %r10, %r5, 4096;\nst.shared.u32 [%r10], %r1;//!", "add.u32 %r10, %r5, 3968;\nst.shared.u32 [%r10], %r1;"),
    ("out-of-bounds", "mov.u32 %r10, mine;\nst.local.u32 [%r10+64], %r1;//!", "mov.u32 %r10, mine;\nst.local.u32 [%r10+60], %r1;"),
    ("out-of-bounds", "mov.u64 %rd6, 0;\nld.global.u32 %r10, [%rd6];//!", "mov.u64 %rd6, %rd1;\nld.global.u32 %r10, [%rd6];"),
    ("out-of-bounds", "atom.global.add.u32 %r10, [%rd1+16384], 1;//!", "atom.global.add.u32 %r10, [%rd1+16380], 1;"),
    ("out-of-bounds", PEER + "add.u32 %r12, %r12, 8192; " + MEET + "\nld.shared::cluster.u32 %r13, [%r12];//!\n" + MEET, PEER + MEET + "\nld.shared::cluster.u32 %r13, [%r12];\n" + MEET, CLUSTER),
]  # fmt: skip
ALIGNMENT = [
    ("misaligned", "ld.global.u32 %r10, [%rd4+2];//!", "ld.global.u32 %r10, [%rd4+4];"),
    ("misaligned", "st.shared.v2.u32 [%r2+4], {%r1, %r1};//!", "@%p1 st.shared.v2.u32 [%r2+8], {%r1, %r1};"),
    ("misaligned", "mov.b64 %rd6, 0; st.global.u64 [%rd4], %rd6;//!", "mov.b64 %rd6, 0; add.u64 %rd7, %rd4, %rd3; st.global.u64 [%rd7], %rd6;"),
    ("misaligned", "red.global.add.u32 [%rd1+1], 1;//!", "red.global.add.u32 [%rd1+4], 1;"),
    ("misaligned", "cp.async.cg.shared.global [%r2], [%rd1+4], 16;//!\ncp.async.wait_all;", "@%p1 cp.async.cg.shared.global [%r2], [%rd1+16], 16;\ncp.async.wait_all;"),
    ("misaligned", "mov.u32 %r10, mine;\nst.local.u64 [%r10+4], %rd1;//!", "mov.u32 %r10, mine;\nst.local.u64 [%r10+8], %rd1;"),
]  # fmt: skip
LOCKED = {"locked": True}
CONSTANT = [
    ("read-only", "st.global.u32 [%rd4], %r1;//!", "st.global.u32 [%rd5], %r1;", LOCKED),
    ("read-only", "red.global.add.u32 [%rd4], 1;//!", "red.global.add.u32 [%rd5], 1;", LOCKED),
    ("read-only", "mov.b16 %h1, 1; st.u16 [%rd4], %h1;//!", "mov.b16 %h1, 1; st.u16 [%rd5], %h1;", LOCKED),
    ("read-only", "mov.u64 %rd6, map; cvta.param.u64 %rd6, %rd6;\nst.u32 [%rd6], %r1;//!", "mov.u64 %rd6, map; cvta.param.u64 %rd6, %rd6;\nld.u32 %r10, [%rd6];"),
]  # fmt: skip
LIMITS = [
    ("limit", "mov.u32 %r10, 0;\nL: add.u32 %r10, %r10, 2;//!\nsetp.ne.u32 %p5, %r10, 1;\n@%p5 bra L;", "mov.u32 %r10, 0;\nL: add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 100;\n@%p5 bra L;"),
    ("limit", "L: ld.volatile.global.u32 %r10, [%rd1];//!\nadd.u32 %r10, %r10, 1; st.volatile.global.u32 [%rd1], %r10; setp.ne.u32 %p5, %r10, 0;\n@%p5 bra L;", "L: ld.volatile.global.u32 %r10, [%rd1];\nadd.u32 %r10, %r10, 1; st.volatile.global.u32 [%rd1], %r10; setp.lt.u32 %p5, %r10, 99;\n@%p5 bra L;", {"block": 1}),
    ("limit", "mov.u32 %r10, 0;\nL: bar.sync 0; add.u32 %r10, %r10, 2;//!\nsetp.ne.u32 %p5, %r10, 1;\n@%p5 bra L;", "mov.u32 %r10, 0;\nL: bar.sync 0; add.u32 %r10, %r10, 2;\nsetp.ne.u32 %p5, %r10, 100;\n@%p5 bra L;"),
]  # fmt: skip
INIT = [
    ("uninitialised", "@%p2 mov.u32 %r10, 5;\nst.global.u32 [%rd4], %r10;//!", "mov.u32 %r10, 5;\nst.global.u32 [%rd4], %r10;"),
    ("uninitialised", "ld.shared.u32 %r10, [%r5];//^\nst.global.u32 [%rd4], %r10;//!", "st.shared.u32 [%r5], %r1; ld.shared.u32 %r10, [%r5];\nst.global.u32 [%rd4], %r10;"),
    ("uninitialised", "mov.u32 %r11, mine; ld.local.u32 %r10, [%r11];//^\nsetp.eq.u32 %p5, %r10, 0;\n@%p5 bra D;//!\nst.global.u32 [%rd4], 1; D:", "mov.u32 %r11, mine; st.local.u32 [%r11], %r1; ld.local.u32 %r10, [%r11];\nsetp.eq.u32 %p5, %r10, 0;\n@%p5 bra D;\nst.global.u32 [%rd4], 1; D:"),
    ("uninitialised", "@%p2 st.shared.u8 [%r5], %r1; @!%p2 st.shared.u32 [%r5], %r1; ld.shared.s8 %r10, [%r5+1];\nmul.wide.s32 %rd6, %r10, 4; add.u64 %rd6, %rd6, %rd1;\nld.global.u32 %r11, [%rd6];//!", "st.shared.u32 [%r5], 0; ld.shared.s8 %r10, [%r5+1];\nmul.wide.s32 %rd6, %r10, 4; add.u64 %rd6, %rd6, %rd1;\nld.global.u32 %r11, [%rd6];"),
    ("uninitialised", "@%p2 st.shared.u32 [%r5], %r1; bar.sync 0; and.b32 %r10, %r6, 7; shl.b32 %r10, %r10, 4; add.u32 %r10, %r10, %r2;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r10];//^\nmma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r12, %r13}, {%r11, %r11}, {%r11}, {%r1, %r1};//!", "st.shared.u32 [%r5], %r1; bar.sync 0; and.b32 %r10, %r6, 7; shl.b32 %r10, %r10, 4; add.u32 %r10, %r10, %r2;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r10];\nmma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r12, %r13}, {%r11, %r11}, {%r11}, {%r1, %r1};"),
    ("uninitialised", "ld.shared.u32 %r10, [%r5];//^\natom.global.add.u32 %r11, [%rd4], %r10;//!", "st.shared.u32 [%r5], 0; ld.shared.u32 %r10, [%r5];\natom.global.add.u32 %r11, [%rd4], %r10;"),
]  # fmt: skip
RACES = [
    ("race", "st.shared.u32 [%r5], %r1; xor.b32 %r10, %r5, 128;//^\nld.shared.u32 %r11, [%r10];//!", "st.shared.u32 [%r5], %r1; xor.b32 %r10, %r5, 128; bar.sync 0;\nld.shared.u32 %r11, [%r10];", {"block": 64, "checks": "race"}),
    ("race", "st.global.u32 [%rd1], %r8;//!", "atom.global.exch.b32 %r10, [%rd1], %r8;", {"block": 1, "grid": 2}),
    ("race", PEER + "bar.sync 0;\nst.shared::cluster.u32 [%r12], %r8;//!\n" + MEET, PEER + MEET + "\nst.shared::cluster.u32 [%r12], %r8;\n" + MEET, CLUSTER),
    ("race", PEER + MEET + "\nld.shared::cluster.u32 %r13, [%r12];//^\nret;//!", PEER + MEET + "\nld.shared::cluster.u32 %r13, [%r12];\n" + MEET, CLUSTER),
]  # fmt: skip

ROWS = [*BOUNDS, *ALIGNMENT, *CONSTANT, *LIMITS, *INIT, *RACES]
RULES = [rule for rule, *_ in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{number}" for number, row in enumerate(ROWS)])
def test_rule(rules, row):
    """The faulty program is reported at its line and the correct one is silent, under all checks."""
    rule, faulty, correct, *launch = row
    rules.check(rule, faulty, correct, **(launch[0] if launch else {}))
