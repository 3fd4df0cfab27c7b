"""Passes that put other instructions into a function: its blocks are found once, and what is read after them is what the new
instructions read."""

import pytest

import warpsim
from warpsim.analysis import flow

TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .f32 x)
{{
    .reg .f32 %f<9>; .reg .b64 %rd<3>; .reg .pred %p1; .reg .b32 %r1;
    ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [x]; ld.param.f32 %f7, [x];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    neg.f32 %f2, %f1; neg.f32 %f3, %f2;
    {product} %f4, %f3, %f7;
next:
    add.f32 %f5, %f4, %f7;
    @%p1 bra other;
    st.global.f32 [%rd1], %f5;
    ret;
other:
    st.global.f32 [%rd1], %f7;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("product", "live"),
    [
        ("mul.rn.f32", {"%f4", "%f7", "%p1", "%rd1"}),  # rounded: the sum stays as it is
        ("mul.f32", {"%f3", "%f7", "%p1", "%rd1"}),  # the sum takes the factors
    ],
)
def test_liveness_of_what_passes_have_written(product, live, monkeypatch):
    """A sum that is fused reads the factors of the product, which a block before it has computed."""
    found = []
    ordered = flow._ordered
    monkeypatch.setattr(flow, "_ordered", lambda function: found.append(1) or ordered(function))
    kernel = warpsim.load(TEXT.format(product=product))["k"]
    plan = kernel.module.image(warpsim.Device()).plan("k").main
    block = plan.blocks[1]
    assert {plan.function.registers[r].name for r in block.live_in} == live
    assert len(found) == 1
