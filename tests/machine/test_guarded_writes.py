"""Writes under a guard: lanes that it lets pass have the new bits, the others the old ones, whatever types both were written in."""

import itertools

import numpy as np
import pytest

import warpsim

GUARDS = {
    "odd": ("and.b32 u, t, 1; setp.eq.u32 p, u, 1;", lambda t: t & 1),
    "low": ("setp.lt.u32 p, t, 13;", lambda t: t < 13),
    "all": ("setp.lt.u32 p, t, 1000;", lambda t: True),
    "none": ("setp.gt.u32 p, t, 1000;", lambda t: False),
    "not odd": ("and.b32 u, t, 1; setp.ne.u32 p, u, 1;", lambda t: not t & 1),
}


def bits(value, dtype):
    """A number as bits of a type."""
    return int(np.array(value).astype(dtype).view(f"u{np.dtype(dtype).itemsize}"))


WRITES = {
    # what writes w (of 32 bits), and what it holds then
    "constant": ("mov.u32 w, 0x80000001;", lambda t: 0x80000001),
    "affine": ("mad.lo.u32 w, t, 3, 5;", lambda t: 3 * t + 5),
    "signed": ("mul.lo.s32 w, t, -7;", lambda t: -7 * t & 0xFFFFFFFF),
    "any": ("mul.lo.u32 w, t, t; mul.lo.u32 w, w, w;", lambda t: t**4 & 0xFFFFFFFF),
    "float": ("cvt.rn.f32.u32 f, t; add.f32 f, f, 0f3F000000; mov.b32 w, f;", lambda t: bits(t + 0.5, np.float32)),
    "one float": ("mov.f32 f, 0fBFC00000; mov.b32 w, f;", lambda t: 0xBFC00000),
    "halves": ("cvt.u16.u32 h, t; mov.b32 w, {h, h};", lambda t: t * 0x10001),
}
GUARDED = {
    "constant": ("@p mov.u32 w, 77;", lambda t: 77),
    "bits": ("@p mov.b32 w, t;", lambda t: t),
    "float constant": ("@p mov.f32 w, 0f40490FDB;", lambda t: 0x40490FDB),
    "affine": ("@p add.u32 w, t, 9;", lambda t: t + 9),
    "any": ("@p mul.lo.u32 w, t, t;", lambda t: t * t),
    "signed": ("@p mul.lo.s32 w, t, -3;", lambda t: -3 * t & 0xFFFFFFFF),
    "float": ("@p cvt.rn.f32.u32 w, t;", lambda t: bits(t, np.float32)),
    "sum of floats": ("cvt.rn.f32.u32 g, t; @p add.f32 w, g, g;", lambda t: bits(2 * t, np.float32)),
    "byte": ("@p cvt.s8.s32 w, t;", lambda t: t),
    "load": ("@p ld.global.u32 w, [i];", lambda t: 1000 + t),
    "load of a float": ("@p ld.global.f32 w, [i];", lambda t: 1000 + t),
    "load of a byte": ("@p ld.global.s8 w, [i];", lambda t: ((1000 + t & 0xFF) ^ 0x80) - 0x80 & 0xFFFFFFFF),
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("kind", ["b32", "f32"])
def test_every_pair_of_types(guard, kind):
    """A register that was written as one type, and then under a guard as another."""
    text, passes = GUARDS[guard]
    lines, wanted = [], []
    allowed = [
        (old, new)
        for old, new in itertools.product(WRITES, GUARDED)
        if kind == "b32"
        or (old in ("one float",) and new in ("bits", "float constant", "float", "sum of floats", "load of a float"))
    ]
    for old, new in allowed:
        first, before = WRITES[old]
        then, after = GUARDED[new]
        if kind == "f32":
            first = "mov.f32 w, 0fBFC00000;"
        lines.append(f"{first} {then} st.global.b32 [o+{4 * len(wanted)}], w;")
        wanted.append([after(t) if passes(t) else before(t) for t in range(40)])
    module = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 t, u; .reg .{kind} w; .reg .f32 f, g; .reg .b16 h; .reg .b64 i, o, a; .reg .pred p;
ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 i, i, a; mul.wide.u32 a, t, {4 * len(wanted)}; add.u64 o, o, a;
{text} {" ".join(lines)} ret; }}
"""
    out = np.zeros((40, len(wanted)), np.uint32)
    warpsim.load(module)["k"](1, 40, (np.arange(1000, 1040, dtype=np.uint32), out), engine="interpreter")

    for number, line in enumerate(lines):
        assert out[:, number].tolist() == wanted[number], line


@pytest.mark.parametrize("guard", GUARDS)
def test_other_widths(guard):
    """The same for registers of 16, 64 and 128 bits, for predicates, and for pairs of which one is not taken."""
    text, passes = GUARDS[guard]
    body = """mov.b16 h, 0x8001; @p cvt.u16.u32 h, t; st.global.u16 [o], h;
    mov.f64 d, 0d3FF8000000000000; mov.b64 x, d; @p mul.wide.u32 x, t, t; st.global.u64 [o+8], x;
    mov.b64 x, -1; @p cvt.u64.u32 x, t; st.global.u64 [o+16], x;
    mov.b128 z, {o, a}; mov.b64 y, 5; @p mov.b128 z, {y, y}; mov.b128 {x, y}, z; st.global.u64 [o+24], y;
    setp.lt.u32 q, t, 20; @p setp.lt.u32 q, t, 5; selp.u32 w, 1, 0, q; st.global.u32 [o+32], w;
    setp.lt.u32 q, t, 20; setp.lt.u32 r, t, 30; @p setp.lt.u32 q|r, t, 10; selp.u32 w, 1, 0, q; selp.u32 u, 2, 0, r; add.u32 w, w, u; st.global.u32 [o+36], w;
    mov.u32 w, 3; mov.u32 u, 4; @p ld.global.v2.u32 {w, _}, [i]; st.global.u32 [o+40], w;
    mov.u32 w, 3; mov.u32 u, 4; @p ld.global.v2.u32 {u, w}, [i]; st.global.v2.u32 [o+48], {w, u};"""
    module = f""".version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 t, u, w; .reg .b16 h; .reg .b64 i, o, a, x, y; .reg .b128 z; .reg .f64 d; .reg .pred p, q, r;
ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 8; add.u64 i, i, a; mul.wide.u32 a, t, 56; add.u64 o, o, a;
{text} {body} ret; }}
"""
    out = np.zeros((40, 56), np.uint8)
    warpsim.load(module)["k"](1, 40, (np.arange(1000, 1080, dtype=np.uint32), out), engine="interpreter")
    for t in range(40):
        yes, row = passes(t), out[t]
        assert int(row[:2].view(np.uint16)[0]) == (t if yes else 0x8001)
        assert int(row[8:16].view(np.uint64)[0]) == (t * t if yes else 0x3FF8 << 48)
        assert int(row[16:24].view(np.uint64)[0]) == (t if yes else (1 << 64) - 1)
        assert int(row[24:32].view(np.uint64)[0]) == (5 if yes else 56 * t)
        assert int(row[32:36].view(np.uint32)[0]) == (t < 5 if yes else t < 20)
        assert int(row[36:40].view(np.uint32)[0]) == ((t < 10) + 2 * (t >= 10) if yes else (t < 20) + 2 * (t < 30))
        assert int(row[40:44].view(np.uint32)[0]) == (1000 + 2 * t if yes else 3)
        assert row[48:56].view(np.uint32).tolist() == ([1001 + 2 * t, 1000 + 2 * t] if yes else [3, 4])
