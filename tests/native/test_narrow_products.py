"""Sixteen bits of the product of two 16-bit numbers, from above its low half: the values of Python's integers.

LLVM 22 has an instruction of its own for that on x86, which loses the sign of a product of 64 bits."""

import numpy as np
import pytest

import warpsim
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
WIDE = "cvt.s64.s16 %x, a; cvt.s64.s16 %y, b; mul.lo.s64 %x, %x, %y;"
LINES = {
    **{f"{WIDE} shr.s64 %x, %x, {n}; cvt.u16.u64 d, %x;": lambda a, b, n=n: a * b >> n for n in (1, 15, 16, 17, 20, 31, 32, 40, 47, 63)},
    **{f"{WIDE} shr.u64 %x, %x, {n}; cvt.u16.u64 d, %x;": lambda a, b, n=n: a * b % 2**64 >> n for n in (17, 32, 48, 60)},
    f"{WIDE} shr.s64 %x, %x, 8; shr.s64 %x, %x, 12; cvt.u16.u64 d, %x;": lambda a, b: a * b >> 20,
    f"{WIDE} shr.s64 %x, %x, 20; cvt.u32.u64 %r1, %x; cvt.u16.u32 d, %r1;": lambda a, b: a * b >> 20,
    "mul.wide.s16 %r1, a, b; shr.s32 %r1, %r1, 20; cvt.u16.u32 d, %r1;": lambda a, b: a * b >> 20,
    "cvt.s32.s16 %r1, a; cvt.s32.s16 %r2, b; mul.hi.s32 %r1, %r1, %r2; cvt.u16.u32 d, %r1;": lambda a, b: a * b >> 32,
    "mul.hi.s16 d, a, b;": lambda a, b: a * b >> 16,
}  # fmt: skip


def test_parts_of_products():
    """Every line, for 64 threads with numbers from memory."""
    lines = "\n".join(f"{line} st.global.u16 [%o+{2 * n}], d;" for n, line in enumerate(LINES))
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
.reg .b32 %r<4>, %t; .reg .b64 %o, %i, %x, %y; .reg .b16 a, b, d;
ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %t, %tid.x; mad.wide.u32 %i, %t, 4, %i; mad.wide.u32 %o, %t, {2 * len(LINES)}, %o;
ld.global.u16 a, [%i]; ld.global.u16 b, [%i+2];
{lines}
ret; }}
"""
    given = np.random.default_rng(3).integers(-(2**15), 2**15, (64, 2)).astype(np.int16)
    out = np.zeros((64, len(LINES)), np.uint16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSIM_COMPILE", "at-once")
        warpsim.load(text)["k"]((1,), (64,), (out, given), engine="compiled")

    for column, (line, exact) in enumerate(LINES.items()):
        assert out[:, column].tolist() == [exact(a, b) % 2**16 for a, b in given.tolist()], line
