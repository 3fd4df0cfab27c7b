"""Integers that are affine, uniform or neither, converted into registers as wide as the type or wider.

PTX ISA 9.4.1, operand size exceeding instruction-type size: the result is extended to the register, with its sign for ``.s``, else
with zeros; of a source the low bits are read.
"""

import itertools

import numpy as np
import pytest

import warpsim

KINDS = ("u", "s")
VALUES = {
    "affine": "mad.lo.u32 a, t, 37, 100;",
    "wide affine": "mad.lo.u32 a, t, 0x01234567, 0x80000080;",
    "uniform": "mov.u32 a, 0x8080F0F0;",
    "loaded and uniform": "ld.global.u32 a, [i];",
    "loaded": "ld.global.u32 a, [j];",
}


def wrapped(value, bits, signed):
    """An integer as one of a type."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def given(name, t):
    """The value of a thread."""
    loaded = [(k * 0x9E3779B9 + 0x80FF) & 0xFFFFFFFF for k in range(40)]
    return {
        "affine": 37 * t + 100,
        "wide affine": (0x01234567 * t + 0x80000080) & 0xFFFFFFFF,
        "uniform": 0x8080F0F0,
        "loaded and uniform": loaded[0],
        "loaded": loaded[t],
    }[name]


@pytest.mark.parametrize("name", VALUES)
def test_conversions(name):
    """From every integer type to every one, in registers of 16 to 64 bits."""
    lines, wanted = [], []
    for (kind, bits), (other, size) in itertools.product(itertools.product(KINDS, (8, 16, 32)), itertools.product(KINDS, (8, 16, 32, 64))):  # fmt: skip
        for width in (w for w in (16, 32, 64) if w >= size):
            place = 8 * len(wanted)
            lines.append(f"cvt.{other}{size}.{kind}{bits} w{width}, a; st.global.b{width} [o+{place}], w{width};")
            wanted.append(
                [
                    wrapped(wrapped(wrapped(given(name, t), bits, kind == "s"), size, other == "s"), width, False)
                    for t in range(40)
                ]
            )
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 t, a, w32; .reg .b16 w16; .reg .b64 i, j, o, w64; ld.param.u64 i, [in]; ld.param.u64 o, [out];
mov.u32 t, %tid.x; mul.wide.u32 j, t, 4; add.u64 j, j, i; mul.wide.u32 w64, t, {8 * len(wanted)}; add.u64 o, o, w64; {VALUES[name]}
{"".join(lines)} ret; }}
"""
    out = np.zeros((40, len(wanted)), np.uint64)
    words = np.array([given("loaded", t) for t in range(40)], np.uint32)
    warpsim.load(text)["k"](1, 40, (words, out), engine="interpreter")

    for number, line in enumerate(lines):
        assert out[:, number].tolist() == wanted[number], line


@pytest.mark.parametrize("who", ["t", "5", "u"])
def test_packed_into_wider_registers(who):
    """Two and three sources: halves and bytes in the low bits, zeros above."""
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {{ .reg .b32 t, a, b, u; .reg .b64 o, w; .reg .f32 f, g; ld.param.u64 o, [out];
mov.u32 t, %tid.x; mul.wide.u32 w, t, 32; add.u64 o, o, w; mul.lo.u32 u, t, t; mov.u32 a, {who}; add.u32 b, a, 1;
cvt.rn.f32.u32 f, a; cvt.rn.f32.u32 g, b;
mov.u64 w, -1; cvt.rn.f16x2.f32 w, g, f; st.global.u64 [o], w;
mov.u64 w, -1; cvt.pack.sat.u16.s32 w, b, a; st.global.u64 [o+8], w;
mov.u64 w, -1; cvt.pack.sat.u8.s32.b32 w, b, a, 0x1234; st.global.u64 [o+16], w; ret; }}
"""
    out = np.zeros((8, 4), np.uint64)
    warpsim.load(text)["k"](1, 8, (out,), engine="interpreter")
    values = [{"t": t, "5": 5, "u": t * t}[who] for t in range(8)]
    halves = [np.array([v, v + 1], np.float16).view(np.uint32).item() for v in values]

    assert out[:, 0].tolist() == halves
    assert out[:, 1].tolist() == [v + 1 << 16 | v for v in values]
    assert out[:, 2].tolist() == [0x1234 << 16 | v + 1 << 8 | v for v in values]


OPERANDS = {
    "computed": ("cvt.rn.f32.u32 {r}, {n};", lambda n, t: float(n)),
    "bits": ("mul.lo.u32 u, {n}, 1; cvt.rn.f32.u32 w, u; mov.b32 u, w; mov.b32 {r}, u;", lambda n, t: float(n)),
    "loaded": ("ld.global.b32 {r}, [j];", lambda n, t: t * 0.5),
    "loaded as f32": ("ld.global.f32 {r}, [j];", lambda n, t: t * 0.5),
    "loaded and uniform": ("ld.global.b32 {r}, [i+12];", lambda n, t: 1.5),
    "constant": ("mov.f32 {r}, 0f40200000;", lambda n, t: 2.5),
    "bits of a constant": ("mov.b32 {r}, 0x40200000;", lambda n, t: 2.5),
    "affine bits": ("add.u32 u, t, 0x3F800000; mov.b32 {r}, u;", lambda n, t: 1 + t * 2.0**-23),
}
"""How a register gets its bits: as float, as integer, for each thread or for all."""


@pytest.mark.parametrize("kinds", list(itertools.combinations_with_replacement(OPERANDS, 2)), ids="-".join)
def test_floats_of_every_origin(kinds):
    """Sums, products and choices of floats do not depend on the types in which their registers were written."""
    lines, wanted = [], []
    for roles in set(itertools.permutations((*kinds, "computed"))) | {(kinds[0],) * 3, (kinds[1],) * 3}:
        lines += [OPERANDS[kind][0].format(r=r, n="t") for kind, r in zip(roles, "abc", strict=True)]
        a, b, c = (
            np.array([OPERANDS[kind][1](t, t) for t in range(40)], np.float32).astype(np.float64) for kind in roles
        )
        for text, exact in (
            ("fma.rn.f32 d, a, b, c;", a * b + c),
            ("add.rn.f32 d, a, b;", a + b),
            ("mul.rn.f32 d, b, c;", b * c),
            ("max.f32 d, a, c;", np.maximum(a, c)),
            ("neg.f32 d, b;", -b),
            ("setp.lt.f32 p, b, a; selp.f32 d, c, a, p;", np.where(b < a, c, a)),
        ):
            lines.append(f"{text} st.global.f32 [o+{4 * len(wanted)}], d;")
            wanted.append(exact.astype(np.float32))
    module = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 t, u; .reg .f32 a, b, c, d, w; .reg .b64 i, j, o, x; .reg .pred p; ld.param.u64 i, [in]; ld.param.u64 o, [out];
mov.u32 t, %tid.x; mul.wide.u32 x, t, 4; add.u64 j, i, x; mul.wide.u32 x, t, {4 * len(wanted)}; add.u64 o, o, x;
{" ".join(lines)} ret; }}
"""
    out = np.zeros((40, len(wanted)), np.float32)
    warpsim.load(module)["k"](1, 40, (np.arange(40, dtype=np.float32) * 0.5, out), engine="interpreter")

    assert out.T.tolist() == [w.tolist() for w in wanted]
