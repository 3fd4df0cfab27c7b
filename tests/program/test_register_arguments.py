"""Registers as arguments and results of functions: which ptxas 13.0 takes, and that they arrive."""

import numpy as np
import pytest

import warpsim

MODULE = """.version 8.7
.target sm_90
.address_size 64
.func (.reg .b32 o) f(.reg {declared} i) {{ {body} ret; }}
.visible .entry k(.param .u64 out)
{{
.reg .b64 d; .reg .b32 r; .reg .pred p; .reg {declared} given;
ld.param.u64 d, [out]; {made} call (r), f, (given); st.global.u32 [d], r; ret;
}}
"""
LAST = "mov.b32 o, i.w;"
TAKEN = {
    "a word": (".b32", "mov.b32 o, i;", "mov.b32 given, 7;", 7),
    "words": (".v4 .u32", LAST, "mov.v4.u32 given, {1, 2, 3, 9};", 9),
    "halves": (".v4 .u16", "cvt.u32.u16 o, i.w;", "mov.v4.u16 given, {1, 2, 3, 0xFFFF};", 0xFFFF),
    "two halves": (".v2 .s16", "cvt.s32.s16 o, i.y;", "mov.v2.s16 given, {1, -2};", 2**32 - 2),
    "untyped halves": (".v2 .b16", "mov.b32 o, i;", "mov.v2.b16 given, {3, 4};", 0x40003),
    "a half": (".b16", "cvt.u32.u16 o, i;", "mov.b16 given, 5;", 5),
}
REFUSED = {
    "a half": (".u16", "cvt.u32.u16 o, i;", "mov.u16 given, 5;"),
    "a signed half": (".s16", "cvt.s32.s16 o, i;", "mov.s16 given, 5;"),
    "a predicate": (".pred", "selp.b32 o, 1, 0, i;", "setp.eq.u32 given, 1, 1;"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_arrives(name):
    """Vectors may have narrow elements."""
    declared, body, made, expected = TAKEN[name]
    out = np.zeros(1, np.uint32)
    warpsim.load(MODULE.format(declared=declared, body=body, made=made))["k"](1, 1, (out,), checks="all")

    assert out[0] == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_passed(name):
    """Predicates and narrow integers alone."""
    declared, body, made = REFUSED[name]
    with pytest.raises(warpsim.PtxError, match="cannot be passed"):
        warpsim.load(MODULE.format(declared=declared, body=body, made=made))
