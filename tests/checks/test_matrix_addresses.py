"""Rules of matrix operands in memory, beside the pairs of programs in tests/checks/pairs."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data) {{
.reg .b64 p; .reg .b32 r<8>, a;
.shared .align 128 .b8 smem[4096];
ld.param.u64 p, [data]; mov.u32 a, smem;
{body}
ret; }}
"""


def rules(body):
    """(rule, line) of every finding of a kernel with a body."""
    kernel = warpsim.load(KERNEL.format(body=body))["k"]
    result = kernel((1,), (32,), (np.zeros(4096, np.uint8),), checks="matrix", on_finding="collect")
    return [(f.rule, f.line, f.severity) for f in result.findings]


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


PRODUCT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data) {{
.reg .b64 d, e; .reg .b32 a, b; .reg .f32 f<4>; .reg .pred p, q;
.shared .align 128 .b8 smem[8192];
mov.u32 a, smem; setp.ne.u32 p, a, a; setp.eq.u32 q, a, a; mov.b64 d, 0;
{body}
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{f0, f1, f2, f3}}, d, e, p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ret; }}
"""
PLAIN = "mov.b64 e, 0x1000080000; "
TO_D = "cvt.u64.u32 d, b; or.b64 d, d, 0x1000080000;"


@pytest.mark.parametrize(
    ("body", "leading"),
    [
        ("shr.u32 b, a, 4; " + TO_D, 384),
        ("shr.u32 b, a, 4; mov.b64 d, {b, 16}; add.s64 d, d, 0x80000; add.s64 d, d, 2;", 384),
        ("add.u32 a, a, 4096; sub.u32 a, a, 4096; shr.u32 b, a, 4; " + TO_D, 384),
        ("and.b32 b, a, 0x3ffff; shr.u32 b, b, 4; " + TO_D, None),
        ("bfe.u32 b, a, 4, 14; " + TO_D, None),
        ("shr.u32 b, a, 4; cvt.u16.u32 b16, b; cvt.u64.u16 d, b16; or.b64 d, d, 0x1000080000;", None),
        (
            "shr.u32 b, a, 4; cvt.u64.u32 d, b; or.b64 d, d, 0x4000004000010000;",
            None,
        ),  # its leading offset does not count
        ("and.b32 b, a, 0x3ffff; shr.u32 b, b, 4; @q shr.u32 b, a, 4; " + TO_D, None),  # not on every path
        ("not.b32 a, a; not.b32 a, a; shr.u32 b, a, 4; " + TO_D, None),  # not followed
    ],
)
def test_ranks_in_descriptors(body, leading):
    """On an H200 the address of a CTA of rank 1 has bit 24 set, which moves a leading offset of 128 bytes to 384; a swizzle of 128 bytes
    has none (tests/layout/descriptors_of_ranks_h200.txt)."""
    text = PRODUCT.format(body=PLAIN + body).replace(".reg .pred", ".reg .b16 b16; .reg .pred")
    result = warpsim.load(text)["k"](
        (2,), (128,), (np.zeros(8, np.uint8),), cluster=2, on_finding="collect", checks="matrix"
    )

    found = [f for f in result.findings if "rank" in f.message]
    assert [(f.rule, f.cta) for f in found] == [("descriptor", (1, 0, 0))] * (leading is not None)
    assert all(f"leading offset {leading}" in f.message for f in found)
