"""Sums of a register or an address and a constant as operands, which ptxas 13.0 takes and computes in the register's type."""

import numpy as np
import pytest

import warpsim

A = 0xFFFF_FFFE
WIDE = 0x1_0000_8001
REGISTERS = {"%r": np.uint32(A), "%s": np.int32(-6), "%h": np.uint16(0x8001), "%q": np.uint64(WIDE)}
KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.global .b8 tile[64];
.func f() {{ ret; }}
.entry k()
{{
.reg .b32 a, b; .reg .f32 f; .reg .b64 q; .reg .pred p; .reg .f64 d; .shared .b8 smem[64];
{}
ret;
}}
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %d, %r+4;", (A + 4) % 2**32),
        ("mov.u32 %d, %r+-4;", A - 4),
        ("mov.u32 %d, %r+(3*4);", (A + 12) % 2**32),
        ("add.u32 %d, %r+4, %r+8;", (A + 4 + A + 8) % 2**32),
        ("cvt.s32.s16 %d, %h+4;", 0x8005 - 2**16),
        ("mov.u32 %d, %h+65535;", 0x8000),
        ("mov.u32 %d, %q+4;", (WIDE + 4) % 2**32),
        ("min.s32 %d, %s+4, 5;", -2),
    ],
)
def test_value(code, expected):
    """The sum wraps in the register's type before it becomes the operand."""
    code = f".reg .u32 %r; .reg .s32 %d, %s; .reg .u16 %h; .reg .u64 %q; {code}"
    found = warpsim.run(code, registers=REGISTERS).registers["%d"]
    assert set(found.view(np.uint32).tolist()) == {expected % 2**32}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u64 %d, %s+4;", 2**64 - 2),
        ("mov.u64 %d, %r+4;", 2),
        ("mov.u64 %d, %q+0x100000000;", WIDE + 2**32),
        ("mad.wide.u32 %d, %r+4, %r+5, %q+16;", 2 * 3 + WIDE + 16),
        ("@!%p mov.u64 %d, %q+4;", 7),
    ],
)
def test_wide_value(code, expected):
    """A sum is extended by the sign of the register's own type; one behind a guard is no more than its instruction."""
    code = f".reg .u32 %r; .reg .s32 %s; .reg .u64 %q, %d; .reg .pred %p; setp.eq.u32 %p, 0, 0; mov.u64 %d, 7; {code}"
    found = warpsim.run(code, registers={k: v for k, v in REGISTERS.items() if k != "%h"}).registers["%d"]
    assert set(found.view(np.uint64).tolist()) == {expected}


@pytest.mark.parametrize(
    "text", ["add.u32 a, smem+4, b;", "st.global.u64 [q], tile+8;", "mov.b64 {a, b}, q+4;", "bar.sync b+1;"]
)
def test_accepted(text):
    """What else ptxas takes."""
    warpsim.load(KERNEL.format(text))


@pytest.mark.parametrize(
    "text",
    [
        *("mov.u32 a+4, b;", "mov.u32 a, b[4];", "mov.u32 a, b-4;", "add.f32 f, f, smem+4;", "add.u32 a, smem, b;"),
        *("mov.u64 q, f+4;", "mov.u64 q, k+4;", "mov.b64 q, {a+4, b};", "shl.b32 a, b, q+1;", "mov.u32 a, %tid.x+4;"),
        *("mov.pred p, p+1;", "add.f64 d, d+1, d;"),
    ],
)
def test_refused(text):
    """What ptxas refuses, or does not end on."""
    with pytest.raises(warpsim.PtxError):
        warpsim.load(KERNEL.format(text))
