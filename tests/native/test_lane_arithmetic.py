"""Integer arithmetic on thread numbers, which machine code keeps as a scalar and strides: the values of Python's integers."""

import numpy as np
import pytest

import warpsim
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
MASK = 0xFFFFFFFF
LINES = {
    "and.b32 {d}, %t, 31;": lambda t, c: t & 31,
    "and.b32 {d}, %t, 32;": lambda t, c: t & 32,
    "and.b32 {d}, %t, 33;": lambda t, c: t & 33,
    "and.b32 {d}, %t, 63;": lambda t, c: t & 63,
    "and.b32 {d}, %t, 96;": lambda t, c: t & 96,
    "and.b32 {d}, %t, -32;": lambda t, c: t & -32,
    "and.b32 {d}, %t, 1;": lambda t, c: t & 1,
    "shr.u32 {d}, %t, 5;": lambda t, c: t >> 5,
    "shr.u32 {d}, %t, 6;": lambda t, c: t >> 6,
    "shr.u32 {d}, %t, 3;": lambda t, c: t >> 3,
    "shl.b32 {d}, %t, 4; and.b32 {d}, {d}, 0x1f0;": lambda t, c: t << 4 & 0x1F0,
    "shl.b32 {d}, %t, 4; shr.u32 {d}, {d}, 9;": lambda t, c: t << 4 >> 9,
    "add.u32 {d}, %t, 32; and.b32 {d}, {d}, 0x7f;": lambda t, c: t + 32 & 0x7F,
    "add.u32 {d}, %t, 5; and.b32 {d}, {d}, 31;": lambda t, c: t + 5 & 31,
    "sub.u32 {d}, 4, %t; shr.s32 {d}, {d}, 5;": lambda t, c: 4 - t >> 5,
    "mul.lo.u32 {d}, %t, 12; and.b32 {d}, {d}, 0xff0;": lambda t, c: t * 12 & 0xFF0,
    "mad.lo.u32 {d}, %c, 128, %t; and.b32 {d}, {d}, 0x1e0;": lambda t, c: 128 * c + t & 0x1E0,
    "mad.lo.u32 {d}, %c, 96, %t; shr.u32 {d}, {d}, 5;": lambda t, c: 96 * c + t >> 5,
    "or.b32 {d}, %t, 64; xor.b32 {d}, {d}, 32;": lambda t, c: (t | 64) ^ 32,
    "shl.b32 {d}, %c, 3; and.b32 {d}, {d}, %t;": lambda t, c: c << 3 & t,
    "mul.lo.u32 {d}, %t, 4; st.local.u32 [mine], {d}; ld.local.u32 {d}, [mine]; and.b32 {d}, {d}, -128;": lambda t, c: 4 * t & -128,
    "shl.b32 {d}, %c, 5; add.u32 {d}, {d}, %c; or.b32 {d}, {d}, %l;": lambda t, c: 33 * c | t & 31,
    "rem.u32 {d}, %t, 7;": lambda t, c: t % 7,
    "sub.u32 {d}, %t, 50; rem.s32 {d}, {d}, 7;": lambda t, c: (t - 50) - 7 * int((t - 50) / 7),
    "sub.u32 {d}, %t, 50; div.s32 {d}, {d}, 7;": lambda t, c: int((t - 50) / 7),
}  # fmt: skip


@pytest.mark.parametrize("grid", [1, 3])
def test_values_of_threads(grid):
    """Every line, for each thread of four warps, in rounds of a loop in which nothing else differs."""
    lines = "\n".join(line.format(d=f"%r{n}") for n, line in enumerate(LINES))
    stores = "\n".join(f"st.global.u32 [%o+{4 * n}], %r{n};" for n in range(len(LINES)))
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b32 %r<{len(LINES)}>, %t, %c, %i, %l; .reg .b64 %o, %d; .reg .pred %p; .local .b32 mine;
ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %i, %c, 128, %t;
mul.wide.u32 %d, %i, {4 * len(LINES)}; add.u64 %o, %o, %d; mov.u32 %i, 0;
again:
mov.u32 %t, %tid.x; and.b32 %l, %t, 31;
{lines}
{stores}
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 40; @%p bra again;
ret; }}
"""
    out = np.zeros((grid, 128, len(LINES)), np.uint32)
    warpsim.load(text)["k"](grid, 128, (out,), engine="compiled")
    expected = [[[value(t, c) & MASK for value in LINES.values()] for t in range(128)] for c in range(grid)]

    wrong = {line for n, line in enumerate(LINES) if (out[:, :, n] != np.array(expected, np.uint32)[:, :, n]).any()}
    assert wrong == set()
