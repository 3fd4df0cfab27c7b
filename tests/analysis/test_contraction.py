"""Which products and sums become one rounding: as ptxas 13.0 assembles each text for sm_90 (read off its SASS)."""

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import quotients
import warpsim

A, B, C, D = (np.float32(v) for v in (1 + 2.0**-12, 1 - 2.0**-13, 1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-13))
KERNEL = """.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .f32 %f<20>; .reg .pred %p<3>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [p];
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];
    BODY
    st.global.f32 [%d1+16], %f9;
    ret;
}"""
OTHER = "st.global.f32 [%d1+20], "


def r(x):
    """Rounded to f32."""
    return np.float32(float(x))  # the values have few bits: f64 holds them


a, b, c, d = (Fraction(float(v)) for v in (A, B, C, D))
ab, cd = Fraction(float(r(a * b))), Fraction(float(r(c * d)))
TEXTS = {
    "one use": ("mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "subtrahend": ("mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f4, %f5;", r(d - a * b)),
    "negated on the way": ("mul.f32 %f5, %f1, %f2; neg.f32 %f6, %f5; mov.f32 %f7, %f6; add.f32 %f9, %f7, %f4;", r(d - a * b)),
    "clamped sum": ("mul.f32 %f5, %f1, %f2; sub.sat.f32 %f9, %f5, 0f3F800000;", r(a * b - 1)),
    "clamped product": ("mul.sat.f32 %f5, %f1, %f2; add.f32 %f9, %f5, %f3;", r(1 + c)),
    "rounding given to the product": ("mul.rn.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4;", r(ab - d)),
    "rounding given to the sum": ("mul.f32 %f5, %f1, %f2; sub.rn.f32 %f9, %f5, %f4;", r(ab - d)),
    "one flushes": ("mul.ftz.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4;", r(ab - d)),
    "product stored too": (f"mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4; {OTHER} %f5;", r(ab - d)),
    "product in a dead product": ("mul.f32 %f5, %f1, %f2; mul.f32 %f6, %f5, %f1; sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "two sums": (f"mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4; add.f32 %f6, %f5, %f3; {OTHER} %f6;", r(a * b - d)),
    "a sum and an fma": (f"mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4; fma.rn.f32 %f6, %f3, %f4, %f5; {OTHER} %f6;", r(ab - d)),
    "of two products the first": ("mul.f32 %f5, %f3, %f4; mul.f32 %f6, %f1, %f2; sub.f32 %f9, %f6, %f5;", r(a * b - cd)),
    "the second if the first is kept": (f"mul.f32 %f5, %f3, %f4; mul.f32 %f6, %f1, %f2; sub.f32 %f9, %f5, %f6; {OTHER} %f5;", r(cd - a * b)),
    "the one with fewer uses": (f"mul.f32 %f5, %f3, %f4; mul.f32 %f6, %f1, %f2; sub.f32 %f7, %f5, %f1; sub.f32 %f9, %f5, %f6; {OTHER} %f7;", r(cd - a * b)),
    "a term elsewhere": (f"mul.f32 %f5, %f1, %f2; mul.f32 %f6, %f3, %f3; sub.f32 %f9, %f5, %f4; add.f32 %f7, %f5, %f6; {OTHER} %f7;", r(ab - d)),
    "fused, then a term": (f"mul.f32 %f5, %f1, %f2; mul.f32 %f6, %f3, %f3; sub.f32 %f9, %f5, %f4; add.f32 %f7, %f6, %f5; sub.f32 %f8, %f6, %f1; add.f32 %f7, %f7, %f8; {OTHER} %f7;", r(a * b - d)),
    "a term, then not fused": (f"mul.f32 %f5, %f1, %f2; mul.f32 %f6, %f3, %f3; add.f32 %f7, %f6, %f5; sub.f32 %f8, %f6, %f1; sub.f32 %f9, %f5, %f4; add.f32 %f7, %f7, %f8; {OTHER} %f7;", r(ab - d)),
    "over its factor": ("mov.f32 %f5, %f1; mul.f32 %f5, %f5, %f2; sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "factors gone": (f"mul.f32 %f5, %f1, %f2; mov.f32 %f1, %f3; mov.f32 %f2, %f4; sub.f32 %f9, %f5, %f4; sub.f32 %f6, %f1, %f5; {OTHER} %f6;", r(a * b - d)),
    "the same twice": ("mul.f32 %f5, %f1, %f2; add.f32 %f9, %f5, %f5;", r(2 * ab)),
    "guarded sum": ("mul.f32 %f5, %f1, %f2; setp.gt.f32 %p1, %f3, %f4; @%p1 sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "guarded product": ("setp.gt.f32 %p1, %f3, %f4; @%p1 mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4;", r(ab - d)),
    "a reciprocal between": (f"mul.f32 %f5, %f1, %f2; rcp.rp.f32 %f6, %f3; sub.f32 %f9, %f5, %f4; {OTHER} %f6;", r(ab - d)),
    "a square root between": (f"mul.f32 %f5, %f1, %f2; sqrt.rn.ftz.f32 %f6, %f3; sub.f32 %f9, %f5, %f4; {OTHER} %f6;", r(ab - d)),
    "a long division between": (f"mul.f32 %f5, %f1, %f2; rem.u64 %d2, %d1, %d1; cvt.rn.f32.u64 %f6, %d2; sub.f32 %f9, %f5, %f4; {OTHER} %f6;", r(ab - d)),
    "a quotient after both": (f"mul.f32 %f5, %f1, %f2; sub.f32 %f9, %f5, %f4; div.rn.f32 %f6, %f3, %f4; {OTHER} %f6;", r(a * b - d)),
    "an approximate quotient between": (f"mul.f32 %f5, %f1, %f2; div.full.f32 %f6, %f3, %f4; sub.f32 %f9, %f5, %f4; {OTHER} %f6;", r(a * b - d)),
    "a barrier between": ("mul.f32 %f5, %f1, %f2; bar.sync 0; sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "a label between": ("mul.f32 %f5, %f1, %f2; NEXT: sub.f32 %f9, %f5, %f4;", r(a * b - d)),
    "a branch between": ("mul.f32 %f5, %f1, %f2; setp.lt.f32 %p1, %f3, %f4; @%p1 bra OUT; sub.f32 %f9, %f5, %f4; OUT:", r(ab - d)),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_rounded_once_or_twice(name):
    """The sum has the bits of the fused or of the plain form."""
    body, expected = TEXTS[name]
    memory = np.array([A, B, C, D, 0, 0], np.float32)

    warpsim.load(KERNEL.replace("BODY", body))["k"]((1,), (1,), (memory,))

    assert memory[4:5].view(np.uint32) == np.array([expected]).view(np.uint32)


def test_the_texts_tell():
    """The numbers above round differently once and twice."""
    assert r(a * b - d) != r(ab - d)
    assert len({r(a * b - cd), r(ab - c * d), r(ab - cd)}) == 3


@pytest.mark.parametrize(("type", "kind"), [("f64", np.float64), ("f16x2", np.float16), ("bf16x2", None)])
def test_other_types(type, kind):
    """f64 and packed halves are fused alike, a subtrahend by its sign."""
    import ml_dtypes

    kind = kind or ml_dtypes.bfloat16
    reg = ".b32" if "x2" in type else ".f64"
    x = (1 + np.ldexp(1.0, -6 if kind is ml_dtypes.bfloat16 else -8)) if "x2" in type else 1 + 2.0**-30
    product = Fraction(x) * Fraction(x)
    text = KERNEL.replace(".f32 %f<20>", f"{reg} %f<20>").replace("{%f1, %f2, %f3, %f4}, [%d1]", "%f1, [%d1]")
    text = text.replace("ld.global.v4.f32", f"ld.global{reg}").replace("st.global.f32", f"st.global{reg}")
    text = text.replace("BODY", f"mul.{type} %f5, %f1, %f1; sub.{type} %f9, %f1, %f5;").replace("sm_80", "sm_90")
    memory = np.zeros(24, np.uint8)
    memory[: 8 if reg == ".f64" else 4].view(kind)[:] = x

    warpsim.load(text)["k"]((1,), (1,), (memory,))

    expected = kind(float(Fraction(x) - product))
    assert expected != kind(x) - kind(float(product))
    assert (memory[16 : 24 if reg == ".f64" else 20].view(kind) == expected).all()


def test_snippets_keep_their_registers():
    """Every register of a snippet is a result: nothing is fused."""
    done = warpsim.run("mul.f32 p, x, y; sub.f32 s, p, z;", registers={"x": A, "y": B, "z": D})

    assert done.registers["s"][0] == r(ab - d)


TESTS = Path(__file__).parents[1]
TWICE = {88, 193}
"""Programs with the reciprocal of a reciprocal, both with .ftz, which ptxas takes for the number itself."""


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(100, quotients.COUNT, 100))]
)
def test_quotients_as_recorded(first, monkeypatch):
    """A quotient is a product of a reciprocal, and fused like any other: as an H200 has it."""
    monkeypatch.delenv("WARPSIM_COMPILE", raising=False)  # a hundred programs that run once: not worth a minute's wait
    given = np.frombuffer(quotients.inputs(first, 100), np.uint32).copy()
    found = np.zeros((100, 8), np.uint32)
    with np.load(TESTS / "data" / "quotients_h200.npz") as stored:
        expected = stored["bits"][first : first + 100]

    module = warpsim.load(quotients.kernel(first, 100))
    module["quotients"]((100,), (1,), (given, found), checks="none", device=warpsim.Device("sm_90"))

    wrong = {first + int(k) for k in np.flatnonzero((found[:, : quotients.OUTPUTS] != expected).any(1))}
    assert wrong <= TWICE
    assert all(
        line.startswith("rcp.approx.ftz")
        for k in wrong
        for line in quotients.program(random.Random(k))[0]
        if " y5," in line
    )
