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
