"""Rules of matrix operands in memory: each with a program that breaks it and the nearest one that does not."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data) {{
.reg .b64 p, q; .reg .b32 r<8>, a, s; .reg .f32 f<8>;
.shared .align 128 .b8 smem[4096];
.local .align 128 .b8 mine[2048];
ld.param.u64 p, [data]; mov.u32 a, smem; mov.u32 s, %laneid;
{body}
ret; }}
"""


def rules(body, checks="matrix"):
    """(rule, line) of every finding of a kernel with a body on line 9."""
    kernel = warpsim.load(KERNEL.format(body=body))["k"]
    result = kernel((1,), (32,), (np.zeros(4096, np.uint8),), checks={checks}, on_finding="collect")
    return [(f.rule, f.line, f.severity) for f in result.findings]


LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {r0, r1, r2, r3, r4, r5, r6, r7}, [p], "
CASES = {
    "stride": ("wmma-stride", LOAD + "0;", LOAD + "16;"),
    "stride in a register": ("wmma-stride", "mov.u32 s, 8; " + LOAD + "s;", "mov.u32 s, 32; " + LOAD + "s;"),
    "stride of a store": (
        "wmma-stride",
        "wmma.store.d.sync.aligned.col.m32n8k16.global.s32 [p], {r0, r1, r2, r3, r4, r5, r6, r7}, 16;",
        "wmma.store.d.sync.aligned.col.m32n8k16.global.s32 [p], {r0, r1, r2, r3, r4, r5, r6, r7}, 32;",
    ),
    "stride not aligned": ("wmma-alignment", LOAD + "24;", LOAD + "32;"),
    "address not aligned": (
        "wmma-alignment",
        LOAD.replace("[p]", "[p+16]") + "16;",
        LOAD.replace("[p]", "[p+32]") + "16;",
    ),
    "accumulator not aligned": (
        "wmma-alignment",
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {r0, r1, r2, r3}, [p+8];",
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {r0, r1, r2, r3}, [p+16];",
    ),
    "wmma of local memory": (
        "matrix-address-space",
        "mov.u64 q, mine; cvta.local.u64 q, q; " + LOAD.replace("[p]", "[q]").replace(".global", "") + "16;",
        "mov.u64 q, smem; cvta.shared.u64 q, q; " + LOAD.replace("[p]", "[q]").replace(".global", "") + "16;",
    ),
    "shared address as a global one": (
        "matrix-address-space",
        "mov.u64 q, smem; cvta.shared.u64 q, q; " + LOAD.replace("[p]", "[q]") + "16;",
        LOAD + "16;",
    ),
    "ldmatrix of global memory": (
        "matrix-address-space",
        "ldmatrix.sync.aligned.m8n8.x1.b16 {r0}, [p];",
        "mov.u64 q, smem; cvta.shared.u64 q, q; ldmatrix.sync.aligned.m8n8.x1.b16 {r0}, [q];",
    ),
    "ldmatrix of a generic address": (
        "matrix-address-space",
        "mov.u64 q, smem; cvta.shared.u64 q, q; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [q];",
        "mov.u64 q, smem; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [q];",
    ),
    "stmatrix to global memory": (
        "matrix-address-space",
        "stmatrix.sync.aligned.m8n8.x1.b16 [p], {r0};",
        "mov.u64 q, smem; cvta.shared.u64 q, q; stmatrix.sync.aligned.m8n8.x1.b16 [q], {r0};",
    ),
    "ldmatrix row": (
        "matrix-alignment",
        "mad.lo.u32 a, s, 8, a; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [a];",
        "mad.lo.u32 a, s, 16, a; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [a];",
    ),
    "stmatrix row": (
        "matrix-alignment",
        "mad.lo.u32 a, s, 20, a; stmatrix.sync.aligned.m8n8.x4.shared.b16 [a], {r0, r1, r2, r3};",
        "mad.lo.u32 a, s, 48, a; stmatrix.sync.aligned.m8n8.x4.shared.b16 [a], {r0, r1, r2, r3};",
    ),
    "row of a lane that gives no address": (
        "matrix-alignment",
        "add.u32 a, a, s; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [a];",
        "and.b32 s, s, 24; add.u32 a, a, s; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [a];",
    ),
}
RULES = [rule for rule, *_ in CASES.values()]


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    """The faulty program is reported at its line, and no other rule but the fault that follows; the correct one is not."""
    rule, faulty, correct = CASES[name]

    assert rules(faulty)[0] == (rule, 9, "error")
    assert {r for r, *_ in rules(faulty)} <= {rule, "out-of-bounds"}
    assert rules(correct) == []


def test_default_strides_are_not_judged():
    """The default stride of a 16x8 accumulator in columns is no multiple of its fragment: the text's own."""
    assert rules("wmma.load.c.sync.aligned.row.m32n8k16.global.f16 {r0, r1, r2, r3}, [p];") == []
    assert rules("wmma.load.b.sync.aligned.row.m32n8k16.global.f16 {r0, r1, r2, r3, r4, r5, r6, r7}, [p], 8;") == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("ldmatrix.sync.aligned.m8n8.x1.b16 {r0}, [p];", "out-of-bounds"),
        ("add.u32 a, a, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [a];", "misaligned"),
    ],
)
def test_faults_stay_faults_without_checks(body, rule):
    """What a GPU faults on ends the launch even where the rule is not checked."""
    kernel = warpsim.load(KERNEL.format(body=body))["k"]
    with pytest.raises(warpsim.ExecutionError) as error:
        kernel((1,), (32,), (np.zeros(4096, np.uint8),), checks="none")

    assert error.value.findings[0].rule == rule


@pytest.mark.parametrize(
    ("faulty", "correct"),
    [
        ("mul.wide.u32 q, s, 32; add.u64 p, p, q; " + LOAD + "16;", LOAD + "16;"),
        ("add.u32 s, s, 1; shl.b32 s, s, 4; " + LOAD + "s;", "mov.u32 s, 32; " + LOAD + "s;"),
        (
            "mul.wide.u32 q, s, 16; add.u64 p, p, q; wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [p], {r0, r1, r2, r3};",
            "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [p], {r0, r1, r2, r3};",
        ),
    ],
)
def test_operands_that_all_lanes_share(faulty, correct):
    """Address and stride are the warp's; another in some lane is reported."""
    assert rules(faulty, "nonuniform-operand")[0] == ("nonuniform-operand", 9, "error")
    assert rules(correct, "sync") == []
