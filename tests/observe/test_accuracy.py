"""A shadow in higher precision: what it finds is what exact arithmetic says, at the line where it happens."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.host.cases import Case, run_prepared
from warpsim.observe.accuracy_report import AccuracyReport, Birth
from warpsim.observe.accuracy_values import WORTHWHILE, Recycled
from warpsim.testing import assert_accuracy, recipe

CASES = Path(__file__).parents[1] / "cases"
HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<20>; .reg .f64 %d<9>; .reg .pred %p<3>;
    .shared .align 8 .b8 tile[1024];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x;
"""
PLACES = "mul.wide.u32 %rd3, %r1, {size}; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"


def shadow(body, x, y, size=4):
    """Launch a body with a shadow: the array that it stored to, and the report. The body begins at line 10."""
    text = HEAD + PLACES.format(size=size) + body + "\n    ret;\n}\n"
    out = np.zeros_like(y)
    result = warpsim.load(text)["k"](1, len(y), (x, out), shadow="f64")
    return out, result


def at(result, line):
    """What is reported of a line."""
    return next(b for b in result.accuracy.births.values() if b.line == line)


def test_a_cancellation():
    """1/3 in f32 less what is near: the sum is exact, and its error is that of its operand, magnified."""
    body = """ld.global.f32 %f1, [%rd4];
    div.rn.f32 %f2, 0f3F800000, %f1;
    sub.f32 %f3, %f2, 0f3EAAAAAA;
    st.global.f32 [%rd5], %f3;"""
    out, result = shadow(body, np.full(32, 3, np.float32), np.zeros(32, np.float32))

    near = Fraction(float(np.uint32(0x3EAAAAAA).view(np.float32)))
    exact = Fraction(1, 3) - near
    wrong = abs(Fraction(float(out[0])) - exact) / Fraction(float(out[0]))
    assert at(result, 12).kinds["cancellation"]
    assert not at(result, 11).kinds.total()
    assert at(result, 12).exact == pytest.approx(float(exact), rel=1e-6, abs=0)
    assert at(result, 12).largest == pytest.approx(float(wrong), rel=1e-6, abs=0)
    assert result.accuracy.lines[0].line == 12
    with pytest.raises(AssertionError, match=r"line 12 +sub"):
        assert_accuracy(result, ulps=2)


@pytest.mark.parametrize("terms", ["%f1, 0f3F800000", "0f3F800000, %f1"])
def test_an_absorption(terms):
    """2^25 + 1, 40 times over: each sum loses its 1, and what is stored lacks 40."""
    body = f"""mov.f32 %f1, 0f4C000000; mov.u32 %r2, 0;
L:  add.f32 %f1, {terms};
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 40;
    @%p1 bra L;
    st.global.f32 [%rd5], %f1;"""
    out, result = shadow(body, np.zeros(32, np.float32), np.zeros(32, np.float32))

    assert out[0] == 2.0**25
    assert at(result, 11).kinds["absorption"] == 40 * 1  # the same in all lanes: computed once
    assert result.accuracy.stores[0].exact == 2.0**25 + 40
    assert result.accuracy.ulps == 10  # of 4 each


@pytest.mark.parametrize(
    ("terms", "lanes"),
    [
        ("0f4C000000, 0f3F800000", 1),
        ("0f3F800000, 0f4C000000", 1),
        ("0f40000000, 0f3F800000", 0),
        ("0f7F800000, 0f3F800000", 0),
        ("%f1, 0f4C000000", 7),
    ],
)
def test_what_a_difference_absorbs(terms, lanes):
    """2^25 - 1 and 1 - 2^25 lose the 1; 2 - 1 is exact, though it equals what is taken away, and infinity
    stays what it is. Of seven ones and a zero, the ones are lost."""
    body = f"""ld.global.f32 %f1, [%rd4];
    sub.f32 %f2, {terms};
    st.global.f32 [%rd5], %f2;"""
    x = np.array([0, 1, 1, 1, 1, 1, 1, 1], np.float32)
    result = shadow(body, x, np.zeros(8, np.float32))[1]

    assert at(result, 11).kinds["absorption"] == lanes


def test_a_limited_sum_absorbs_nothing():
    """1 + 0.5 is limited to 1, as is the shadow."""
    body = """add.sat.f32 %f1, 0f3F800000, 0f3F000000;
    st.global.f32 [%rd5], %f1;"""
    result = shadow(body, np.zeros(32, np.float32), np.zeros(32, np.float32))[1]

    assert not any(b.largest or b.kinds.total() for b in result.accuracy.births.values())


def test_what_guarded_sums_absorb():
    """Of 20 threads, 3 lose their 1; in the others, the register stays what it was."""
    body = """ld.global.f32 %f1, [%rd4]; setp.lt.u32 %p1, %r1, 3;
    @%p1 add.f32 %f1, %f1, 0f3F800000;
    st.global.f32 [%rd5], %f1;"""
    result = shadow(body, np.full(20, 2.0**25, np.float32), np.zeros(20, np.float32))[1]

    assert at(result, 11).kinds["absorption"] == 3


@pytest.mark.parametrize("fewer", ["", "setp.ge.u32 %p1, %r1, 24;"], ids=["halves", "a part has left"])
def test_a_shuffle_at_two_places(fewer):
    """Lanes get the errors of those from which they get values, wherever these are; not what their registers held before."""
    shuffle = "mov.f32 %f3, %f4; shfl.sync.bfly.b32 %f3, %f2, 31, 31, -1;"
    body = f"""ld.global.f32 %f1, [%rd4]; setp.lt.u32 %p1, %r1, 16; sqrt.rn.f32 %f2, %f1; div.rn.f32 %f4, %f1, 0f40400000;
    @%p1 mov.f32 %f2, %f1; {fewer}
    @%p1 bra low; {shuffle} bra met; low: {shuffle} met: st.global.f32 [%rd5], %f3;"""
    x = np.arange(34, 66, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))

    exact = np.where(np.arange(32) < 16, np.sqrt(x[::-1].astype(np.float64)), x[::-1])
    stored = result.accuracy.stores[0]
    assert out.tolist() == exact.astype(np.float32).tolist()
    assert stored.largest == pytest.approx(float((np.abs(out - exact) / out).max()), rel=1e-9, abs=0)
    assert stored.total == pytest.approx(float((np.abs(out - exact) / out).sum()), rel=1e-6, abs=0)


def third(x):
    """A third, which f32 and f64 round."""
    return Fraction(1, 3) * x


MAGIC = "0f4B400000"
THIRD = "ld.global.f32 %f1, [%rd4]; div.rn.f32 %f2, %f1, 0f40400000; "
REAL = {
    "rounded by a sum": (
        f"{THIRD} mov.f32 %f8, {MAGIC}; fma.rm.f32 %f3, %f2, 0f43700000, %f8; sub.f32 %f4, %f3, {MAGIC};"
        "neg.f32 %f5, %f4; fma.rn.f32 %f6, %f2, 0f43700000, %f5;",
        lambda x: 240 * third(x) - math.floor(240 * third(x)),
    ),
    "rounded by a sum in some lanes": (
        f"{THIRD} setp.lt.f32 %p1, %f1, 0f3FC00000; mov.f32 %f8, {MAGIC}; mov.f32 %f6, %f2;"
        f"@%p1 fma.rn.f32 %f6, %f2, 0f43700000, %f8; @%p1 sub.f32 %f6, %f6, {MAGIC};",
        lambda x: Fraction(round(240 * third(x))) if x < 1.5 else third(x),
    ),
    "rounded by a sum in some lanes, too large in others": (
        f"{THIRD} setp.lt.f32 %p1, %f1, 0f3FC00000; selp.f32 %f3, 0f43700000, 0f4C000000, %p1;"
        f"fma.rn.f32 %f6, %f2, %f3, {MAGIC}; sub.f32 %f6, %f6, {MAGIC};",
        lambda x: Fraction(round(240 * third(x))) if x < 1.5 else 2**25 * third(x),
    ),
    "a sum that does not round": (
        f"{THIRD} mul.f32 %f3, %f2, 0f4A800000; sub.f32 %f6, 0f4B000000, %f3;",
        lambda x: 2**23 - 2**22 * third(x),
    ),
    "floor": (
        f"{THIRD} mul.f32 %f3, %f2, 0f40A00000; cvt.rmi.f32.f32 %f4, %f3; sub.f32 %f6, %f3, %f4;",
        lambda x: 5 * third(x) % 1,
    ),
    "floor of what is off": (
        "ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, 0f4C800000; sub.f32 %f2, %f2, 0f4C800000; add.f32 %f2, %f2, 0f41200000;"
        "cvt.rmi.f32.f32 %f6, %f2;",
        lambda x: Fraction(math.floor(x + 10)),
    ),
    "saturated": (f"{THIRD} mul.sat.f32 %f6, %f2, 0f40000000;", lambda x: min(2 * third(x), Fraction(1))),
    "copied sign": (f"{THIRD} neg.f32 %f3, %f1; copysign.f32 %f6, %f3, %f2;", lambda x: -third(x)),
    "times one": (f"{THIRD} mul.rn.f32 %f6, %f2, 0f3F800000;", third),
    "times minus one": (f"{THIRD} mul.f32 %f6, %f2, 0fBF800000;", lambda x: -third(x)),
    "negated twice": (f"{THIRD} neg.f32 %f3, %f2; neg.f32 %f6, %f3;", third),
    "least of one": (f"{THIRD} min.f32 %f6, %f2, %f2;", third),
    "factors overwritten before the sum": (
        f"{THIRD} mul.f32 %f3, %f2, %f1; mov.f32 %f2, %f1; add.f32 %f6, %f3, %f2;",
        lambda x: third(x) * x + x,
    ),
    "of two floats, half is limited": (
        f"{THIRD} neg.f32 %f3, %f2; cvt.rn.relu.f16x2.f32 %r2, %f2, %f3; mov.b32 {{%h1, %h2}}, %r2;"
        "cvt.f32.f16 %f4, %h1; cvt.f32.f16 %f5, %h2; add.f32 %f6, %f4, %f5;",
        third,
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_real_functions(name):
    """What is stored is as far from what exact arithmetic gives as the shadow says."""
    body, exact = REAL[name]
    x = np.linspace(1.03, 1.97, 32, dtype=np.float32)
    out, result = shadow(f"{body} st.global.f32 [%rd5], %f6;", x, np.zeros_like(x))

    worst = max(
        abs((exact(Fraction(float(v))) - Fraction(float(o))) / Fraction(float(o))) for v, o in zip(x, out, strict=True)
    )
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-6, abs=0)


THIRD64 = "ld.global.f64 %d1, [%rd4]; div.rn.f64 %d2, %d1, 0d4008000000000000; "
REAL64 = {
    "a constant less a value": (
        f"{THIRD64} mov.f64 %d3, 0d3FF0000000000000; sub.f64 %d6, %d3, %d2;",
        lambda x: 1 - third(x),
    ),
    "a value less a constant": (
        f"mov.f64 %d3, 0d3FF0000000000000; {THIRD64} sub.f64 %d6, %d2, %d3;",
        lambda x: third(x) - 1,
    ),
    "rounded by a sum": (
        f"{THIRD64} fma.rn.f64 %d3, %d2, 0d4059000000000000, 0d4338000000000000; sub.f64 %d4, %d3, 0d4338000000000000;"
        "fma.rn.f64 %d6, %d2, 0d4059000000000000, %d4;",
        lambda x: 100 * third(x) + round(100 * third(x)),
    ),
    "moved by a conversion": (f"{THIRD64} cvt.f64.f64 %d6, %d2;", third),
    "limited": (
        f"{THIRD64} add.f64 %d3, %d2, %d2; cvt.sat.f64.f64 %d6, %d3;",
        lambda x: min(2 * third(x), Fraction(1)),
    ),
    "limited by a conversion to f64": (
        "ld.global.f64 %d1, [%rd4]; cvt.rn.f32.f64 %f1, %d1; div.rn.f32 %f2, %f1, 0f3F900000; cvt.sat.f64.f32 %d6, %f2;",
        lambda x: min(x / Fraction(1.125), Fraction(1)),
    ),
    "copied sign": (f"{THIRD64} neg.f64 %d3, %d1; copysign.f64 %d6, %d3, %d2;", lambda x: -third(x)),
    "least": (f"{THIRD64} add.f64 %d3, %d2, 0d3FF0000000000000; min.f64 %d6, %d3, %d2;", third),
    "greatest": (f"{THIRD64} add.f64 %d3, %d2, 0d3FF0000000000000; max.f64 %d6, %d2, %d3;", lambda x: third(x) + 1),
    "root": (
        f"{THIRD64} rsqrt.approx.f64 %d6, %d2;",
        lambda x: Fraction((1 / Decimal(float(x))).sqrt() * Decimal(3).sqrt()),
    ),
}


@pytest.mark.parametrize("name", REAL64)
def test_real_functions_of_f64(name):
    """The same in twice the precision of f64; decimal numbers have 28 digits."""
    body, exact = REAL64[name]
    x = np.linspace(1.03, 1.97, 32)
    out, result = shadow(f"{body} st.global.f64 [%rd5], %d6;", x, np.zeros_like(x), size=8)

    worst = max(
        abs((exact(Fraction(float(v))) - Fraction(float(o))) / Fraction(float(o))) for v, o in zip(x, out, strict=True)
    )
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_a_result_that_should_be_zero():
    """Zero has the smallest unit in its last place."""
    body = """ld.global.f32 %f1, [%rd4]; mul.rn.f32 %f2, %f1, %f1; neg.f32 %f3, %f1; fma.rn.f32 %f4, %f3, %f1, %f2;
    st.global.f32 [%rd5], %f4;"""
    out, result = shadow(body, np.full(32, 1.1, np.float32), np.zeros(32, np.float32))

    assert result.accuracy.stores[0].largest == 1.0
    assert result.accuracy.ulps == abs(float(out[0])) * 2.0**149 > 0


def test_a_shadow_that_stays_infinite():
    """The reciprocal of a result that should be zero is finite: its error is infinite, and left out of the mean."""
    body = """ld.global.f32 %f1, [%rd4]; mul.rn.f32 %f2, %f1, %f1; neg.f32 %f3, %f1; fma.rn.f32 %f4, %f3, %f1, %f2;
    rcp.rn.f32 %f5, %f4;
    add.f32 %f6, %f5, %f1;
    st.global.f32 [%rd5], %f6;"""
    result = shadow(body, np.full(32, 1.1, np.float32), np.zeros(32, np.float32))[1]

    assert [(at(result, line).largest, at(result, line).typical) for line in (11, 12, 13)] == [(math.inf, 0.0)] * 3


def test_an_infinity_that_is_stored():
    """70,000 is finite, but not in f16."""
    body = "ld.global.f32 %f1, [%rd4]; cvt.rn.f16.f32 %h1, %f1; st.global.b16 [%rd5], %h1;"
    out, result = shadow(body, np.full(32, 70000, np.float32), np.zeros(32, np.float32))

    assert out.view(np.float16)[0] == math.inf
    assert result.accuracy.ulps == math.inf


def test_a_difference_of_zero():
    """What is left of it by the shadow counts against the least normal value: more than an f32 could say."""
    body = """ld.global.f32 %f1, [%rd4];
    div.rn.f32 %f2, %f1, 0f40E00000;
    sub.f32 %f3, %f2, 0f6FE6CC55;
    st.global.f32 [%rd5], %f3;"""
    out, result = shadow(body, np.full(32, 1e30, np.float32), np.zeros(32, np.float32))

    left = Fraction(float(np.float32(1e30))) / 7 - Fraction(float(np.uint32(0x6FE6CC55).view(np.float32)))
    assert out.tolist() == [0] * 32
    assert at(result, 12).largest == at(result, 12).typical == pytest.approx(float(abs(left) * 2**126), rel=1e-6, abs=0)


def test_an_overflow():
    """f32 is infinite where the shadow is not."""
    body = """ld.global.f32 %f1, [%rd4];
    mul.f32 %f2, %f1, %f1;
    mul.f32 %f3, %f2, 0f00000000;
    st.global.f32 [%rd5], %f2;"""
    _, result = shadow(body, np.full(32, 1e30, np.float32), np.zeros(32, np.float32))

    assert at(result, 11).kinds["overflow"]
    assert at(result, 11).exact == float(Fraction(float(np.float32(1e30))) ** 2)
    assert result.accuracy.ulps == float("inf")


def test_an_accumulation_in_f16():
    """A sum of 0.1 in f16, in pairs: the upper and the lower half have errors of their own."""
    body = """mov.u32 %r3, 0; mov.u32 %r2, 0; ld.global.u32 %r4, [%rd4];
L:  add.rn.f16x2 %r3, %r3, %r4;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 300;
    @%p1 bra L;
    st.global.u32 [%rd5], %r3;"""
    pair = np.array([0.1, 0.3], np.float16)
    out, result = shadow(body, np.tile(pair.view(np.uint32), 32), np.zeros(32, np.uint32))

    got = out[:1].view(np.float16)
    exact = [300 * Fraction(float(v)) for v in pair]
    worst = max(abs(Fraction(float(g)) - e) / Fraction(float(g)) for g, e in zip(got, exact, strict=True))
    assert "accumulates in f16" in at(result, 11).what
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-12, abs=0)


def test_f64_has_a_shadow_of_twice_its_precision():
    """(1/3 + 2^-30) - 1/3 - 2^-30 in f64 against fractions."""
    body = """ld.global.f64 %d1, [%rd4];
    div.rn.f64 %d2, 0d3FF0000000000000, %d1; mul.f64 %d3, %d2, %d2;
    fma.rn.f64 %d4, %d2, %d3, %d2;
    sub.f64 %d5, %d4, 0d3FD7B425ED097B42;
    st.global.f64 [%rd5], %d5;"""
    out, result = shadow(body, np.full(32, 3.0), np.zeros(32), 8)

    exact = Fraction(1, 27) + Fraction(1, 3) - Fraction(float(np.uint64(0x3FD7B425ED097B42).view(np.float64)))
    assert at(result, 14).value == out[0]
    assert abs(Fraction(at(result, 14).value) - exact) > 0
    assert at(result, 14).exact == pytest.approx(float(exact), rel=1e-12, abs=0)


def test_where_a_value_goes_its_error_goes():
    """Through shared memory, a shuffle, a move and a selection; an integer's view has none, and a store by integers ends it."""
    body = """ld.global.f32 %f1, [%rd4]; mov.u32 %r8, tile; shl.b32 %r9, %r1, 2; add.u32 %r8, %r8, %r9; sqrt.rn.f32 %f2, %f1;
    st.shared.f32 [%r8], %f2;
    ld.shared.f32 %f3, [%r8];
    shfl.sync.bfly.b32 %f4, %f3, 1, 31, -1;
    setp.ne.u32 %p1, %r1, 99;
    selp.f32 %f5, %f4, %f1, %p1;
    mov.b32 %r2, %f5; mov.b32 %f6, %r2;
    st.global.f32 [%rd5], %f6;"""
    x = np.arange(2, 34, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))
    stored = result.accuracy.stores[0]

    exact = np.sqrt(x.astype(np.float64)).reshape(-1, 2)[:, ::-1].reshape(-1)
    assert stored.largest == pytest.approx(float((np.abs(out - exact) / out).max()), rel=1e-9, abs=0)
    assert stored.ulps <= 0.5
    assert_accuracy(result, ulps=0.5)
    integers = body.replace("mov.b32 %f6, %r2;", "add.s32 %r2, %r2, 1; mov.b32 %f6, %r2;")
    assert not shadow(integers, x, np.zeros(32, np.float32))[1].accuracy.stores


def test_an_f64_that_goes_in_halves():
    """Compilers shuffle an f64 as two words. Where halves of one value meet, its error counts, in its own ulps; else none does."""
    body = """ld.global.f64 %d1, [%rd4]; sqrt.rn.f64 %d2, %d1; mov.b64 {{%r2, %r3}}, %d2;
    shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
    shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1; mov.b32 %r6, %r5;
    mov.b64 %d3, {{%r4, {high}}}; st.global.f64 [%rd5], %d3;"""
    x = np.arange(2, 34, dtype=np.float64)
    out, result = shadow(body.format(high="%r6"), x, np.zeros(32), size=8)
    swapped = x.reshape(-1, 2)[:, ::-1].reshape(-1)
    exact = [Fraction(math.isqrt(int(v) << 400), 1 << 200) for v in swapped]
    wrong = [abs(e - Fraction(float(o))) for e, o in zip(exact, out, strict=True)]
    worst = max(range(32), key=lambda k: wrong[k] / Fraction(float(out[k])))

    (stored,) = result.accuracy.stores
    assert stored.largest == pytest.approx(float(wrong[worst] / Fraction(float(out[worst]))), rel=1e-9, abs=0)
    assert stored.ulps == pytest.approx(float(wrong[worst]) / math.ulp(out[worst]), rel=1e-9, abs=0)
    assert not shadow(body.format(high="%r3"), x, np.zeros(32), size=8)[1].accuracy.stores


def test_an_f64_just_below_a_power_of_two():
    """An ulp is one of the exact value, also where that is an f64 only once it is rounded."""
    body = "ld.global.f64 %d1, [%rd4]; mul.rn.f64 %d2, %d1, %d1; st.global.f64 [%rd5], %d2;"
    x = np.full(32, 1 - 2.0**-53)
    out, result = shadow(body, x, np.zeros(32), size=8)
    nearly = np.full(32, 1 + 2.0**-52)
    body = body.replace("mul.rn.f64 %d2, %d1, %d1", "rcp.rn.f64 %d3, %d1; mul.rp.f64 %d2, %d1, %d3")
    up, upward = shadow(body, nearly, np.zeros(32), size=8)

    assert result.accuracy.ulps == pytest.approx(float((Fraction(x[0]) ** 2 - Fraction(out[0])) * 2**53), rel=1e-12)
    assert up[0] == 1.0
    assert upward.accuracy.ulps == pytest.approx(0.0, abs=1e-30)


def test_what_a_sign_chooses():
    """`slct` takes errors along. The sign that a shadow has may be another one: what it takes then is what is due."""
    body = """ld.global.f32 %f1, [%rd4]; div.rn.f32 %f2, %f1, 0f40400000; sub.s32 %r2, %r1, 3;
    slct.f32.s32 %f3, %f2, %f1, %r2; st.global.f32 [%rd5], %f3;
    mul.rn.f32 %f4, %f1, 0f40400000; sub.rn.f32 %f5, %f4, 0f3E99999A;
    slct.f32.f32 %f6, %f1, %f2, %f5;
    st.global.f32 [%rd5], %f6;"""
    tenth = np.float32(0.1)
    out, result = shadow(body, np.full(32, tenth), np.zeros(32, np.float32))
    third = Fraction(float(tenth)) / 3

    assert Fraction(float(tenth)) * 3 < Fraction(float(np.uint32(0x3E99999A).view(np.float32)))
    assert (out == tenth).all()
    chosen, turned = sorted(result.accuracy.stores, key=lambda b: b.line)
    assert chosen.exact == pytest.approx(float(third), rel=1e-15, abs=0)
    assert chosen.total / chosen.largest == pytest.approx(29, rel=1e-6)
    assert turned.exact == pytest.approx(float(third), rel=1e-15, abs=0)
    assert at(result, 13).kinds["decided otherwise"] == 32


def test_what_constants_lose():
    """A conversion that reads no register rounds, too."""
    body = "cvt.rn.f16.f32 %h1, 0f3DCCCCCD; cvt.f32.f16 %f1, %h1; st.global.f32 [%rd5], %f1;"
    out, result = shadow(body, np.zeros(32, np.float32), np.zeros(32, np.float32))

    assert result.accuracy.stores[0].exact == float(np.uint32(0x3DCCCCCD).view(np.float32)) != out[0]


def test_comparisons_that_the_shadow_decides_otherwise():
    """0.1 * 3 == 0.3 in f32, and not of the numbers that f32 holds."""
    tenth, third = (np.float32(v) for v in (0.1, 0.3))
    body = """ld.global.f32 %f1, [%rd4]; mul.f32 %f2, %f1, 0f40400000;
    setp.eq.f32 %p1, %f2, 0f3E99999A;
    selp.f32 %f3, %f1, %f2, %p1; st.global.f32 [%rd5], %f3;"""
    assert (tenth * np.float32(3) == third) != (Fraction(float(tenth)) * 3 == Fraction(float(third)))
    _, result = shadow(body, np.full(32, tenth), np.zeros(32, np.float32))

    assert at(result, 11).kinds["decided otherwise"] == 32


@pytest.mark.parametrize(
    "guarded", ["@%p1 rcp.rn.f32 %f3, %f2;", "mov.f32 %f3, %f2;\n    @%p1 st.global.f32 [%rd5], %f3;"]
)
def test_errors_where_the_shadow_executes_otherwise(guarded):
    """An instruction with such a guard has its errors, and a store is one, too."""
    tenth = np.float32(0.1)
    rounded = tenth * np.float32(3)
    body = f"""ld.global.f32 %f1, [%rd4]; mul.f32 %f2, %f1, 0f40400000;
    setp.eq.f32 %p1, %f2, 0f{int(rounded.view(np.uint32)):08X}; mov.f32 %f3, %f1;
    {guarded}
    st.global.f32 [%rd2], %f3;"""
    out, result = shadow(body, np.full(32, tenth), np.zeros(32, np.float32))
    exact = Fraction(float(tenth)) * 3 if "st" in guarded else 1 / (Fraction(float(tenth)) * 3)

    assert any(b.kinds["executed otherwise"] == 32 and b.instruction in guarded for b in result.accuracy.lines)
    assert [b.exact for b in result.accuracy.stores] == [pytest.approx(float(exact), rel=1e-12, abs=0)] * (
        1 + ("st" in guarded)
    )
    assert {b.type for b in result.accuracy.stores} == {"f32"}
    assert Fraction(float(out[0])) != exact


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_exact_products_of_matrices(kind):
    """mma.m16n8k16 in f32: each element against exact sums of exact products."""
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    a, b = (recipe("normal", s, kind, seed=k).array() for k, s in enumerate(((32, 8), (32, 4))))
    body = f"""mul.wide.u32 %rd6, %r1, 16; add.s64 %rd4, %rd1, %rd6; add.s64 %rd5, %rd2, %rd6;
    ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd4];
    ld.global.v2.u32 {{%r6, %r7}}, [%rd4+512]; mov.f32 %f1, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%f2, %f3, %f4, %f5}}, {{%r2, %r3, %r4, %r5}}, {{%r6, %r7}}, {{%f1, %f1, %f1, %f1}};
    st.global.v4.f32 [%rd5], {{%f2, %f3, %f4, %f5}};"""
    padded = np.zeros((32, 8), dtype)
    padded[:, :4] = b
    text = HEAD + body + "ret;}"
    words = np.concatenate([a.reshape(-1), np.zeros(0, dtype)]).view(np.uint32)
    tail = np.zeros((32, 4), np.uint32)
    tail[:, :2] = b.reshape(-1).view(np.uint32).reshape(32, 2)
    out = np.zeros((32, 4), np.float32)
    x = np.concatenate([words, tail.reshape(-1)])
    result = warpsim.load(text)["k"](1, 32, (x, out), shadow="f64")
    left, right = np.zeros((16, 16), dtype), np.zeros((16, 8), dtype)
    for lane in range(32):
        row, col = lane // 4, lane % 4 * 2
        for r in range(4):
            left[row + 8 * (r % 2), col + 8 * (r // 2) : col + 8 * (r // 2) + 2] = a[lane, 2 * r : 2 * r + 2]
        for r in range(2):
            right[col + 8 * r : col + 8 * r + 2, row] = tail[lane, r : r + 1].view(dtype)
    worst = Fraction(0)
    for lane in range(32):
        for r in range(4):
            i, j = lane // 4 + 8 * (r // 2), lane % 4 * 2 + r % 2
            exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(left[i], right[:, j], strict=True))
            worst = max(worst, abs(exact - Fraction(float(out[lane, r]))) / abs(Fraction(float(out[lane, r]))))

    assert worst > 0
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-9, abs=0)


def test_a_store_before_an_instruction_that_reads_nothing():
    """The next step is none of the store's."""
    body = """ld.global.f32 %f1, [%rd4]; sqrt.rn.f32 %f2, %f1; st.global.f32 [%rd5], %f2;
    mov.f32 %f2, 0f3F800000; st.global.f32 [%rd5], %f2;"""
    out, result = shadow(body, np.full(32, 2, np.float32), np.zeros(32, np.float32))

    assert (out == 1).all()
    assert [b.line for b in result.accuracy.stores] == [10]


def test_a_product_and_a_sum_that_are_contracted():
    """c - a * b in f64 without rounding modifiers is rounded once."""
    body = """ld.global.f64 %d1, [%rd4]; div.rn.f64 %d2, 0d3FF0000000000000, %d1;
    mul.f64 %d3, %d2, %d2;
    sub.f64 %d4, %d1, %d3;
    st.global.f64 [%rd5], %d4;"""
    out, result = shadow(body, np.full(32, 3.0), np.zeros(32), 8)

    exact = 3 - Fraction(1, 9)
    wrong = abs(exact - Fraction(float(out[0]))) / exact
    assert result.accuracy.stores[0].largest == pytest.approx(float(wrong), rel=1e-6, abs=0)


def test_exact_launches_are_silent():
    """Small integers have no errors, and a launch without a shadow no report."""
    body = "ld.global.f32 %f1, [%rd4];\n fma.rn.f32 %f2, %f1, %f1, %f1;\n st.global.f32 [%rd5], %f2;"
    _, result = shadow(body, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))

    assert str(result.accuracy) == "accuracy: every float value is exact"
    assert_accuracy(result, ulps=0)
    with pytest.raises(ValueError, match="no shadow"):
        assert_accuracy(warpsim.load(HEAD + "ret;}")["k"](1, 1, (None, None)), ulps=1)


def test_the_command(tmp_path, capsys):
    """A table, a page with a picture, and data; values and counts are those of a launch without a shadow."""
    page = tmp_path / "accuracy.html"
    assert main(["replay", "saxpy", "--shadow", "f64", "--shadow-to", str(page), "--bits"]) == 0
    said = capsys.readouterr().out
    assert "saxpy: equal in every bit, 640 warp-instructions" in said
    assert "fma.rn.f32" in said
    assert "<svg" in page.read_text()
    assert main(["replay", "saxpy", "--shadow", "f64", "--json"]) == 0
    assert '"accuracy": {"ulps": 0.' in capsys.readouterr().out


@pytest.mark.parametrize("taken", ["mov.b32", "cvt.rna.tf32.f32"])
def test_what_a_product_in_tf32_leaves_out(taken):
    """Factors in f32, of which the tensor core takes 11 bits, or rounded to tf32: 8 products of 1/3 and 1 are added to 1/3."""
    body = f"""ld.global.f32 %f5, [%rd4]; rcp.rn.f32 %f5, %f5; {taken} %r2, %f5; mov.b32 %r3, 0f3F800000;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f1, %f2, %f3, %f4}}, {{%r2, %r2, %r2, %r2}}, {{%r3, %r3}}, {{%f5, %f5, %f5, %f5}};
    st.global.f32 [%rd5], %f1;"""
    out, result = shadow(body, np.full(32, 3, np.float32), np.zeros(32, np.float32))

    assert out[0] != 3
    assert result.accuracy.stores[0].exact == pytest.approx(3, rel=1e-12, abs=0)


def test_a_product_in_f64():
    """D = A * B + C of 1/x and 1/sqrt(x), rounded: the shadow has what they lack, and what the sum loses."""
    body = """ld.global.f64 %d1, [%rd4]; rcp.rn.f64 %d2, %d1; sqrt.rn.f64 %d3, %d2; shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd6, %r2; add.s64 %rd5, %rd2, %rd6;
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4, %d5}, {%d2}, {%d3}, {%d2, %d3};
    st.global.v2.f64 [%rd5], {%d4, %d5};"""
    x = np.arange(3, 35) ** 2.0
    out, result = shadow(body, x, np.zeros((32, 2)), 8)
    factor = [Fraction(1, int(v)) for v in x]
    root = [Fraction(1, n) for n in range(3, 35)]
    worst = Fraction(0)
    for lane in range(32):
        for k in (0, 1):
            row, column = lane // 4, lane % 4 * 2 + k
            exact = (factor, root)[k][lane] + sum(factor[4 * row + i] * root[4 * column + i] for i in range(4))
            worst = max(worst, abs(Fraction(out[lane, k]) - exact) / exact)

    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-9, abs=0)


def test_a_product_of_a_sparse_matrix():
    """Elements 1 and 2 of each four are 1/x in f16, times ones and twos: the sums are off by what the elements are."""
    body = """ld.global.f32 %f1, [%rd4]; rcp.rn.f32 %f2, %f1; sqrt.rn.f32 %f3, %f1; cvt.rn.f16x2.f32 %r2, %f3, %f2; mov.f32 %f9, 0f00000000; mov.b32 %r3, 0x40003C00; mov.b32 %r4, 0x99999999;
    shl.b32 %r5, %r1, 4; cvt.u64.u32 %rd6, %r5; add.s64 %rd5, %rd2, %rd6;
    mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r2, %r2}, {%r3, %r3}, {%f9, %f9, %f9, %f9}, %r4, 0x0;
    st.global.v4.f32 [%rd5], {%f4, %f5, %f6, %f7};"""
    x = np.arange(2, 34, dtype=np.float32)
    out, result = shadow(body, x, np.zeros((32, 4), np.float32))
    # a row has the pairs of four lanes, in K as elements 1 and 2 of four; B alternates 1 and 2 along K
    pairs = (1 / x.astype(np.float64) * 2 + np.sqrt(x.astype(np.float64))).reshape(8, 4).sum(1)
    exact = np.repeat(pairs, 4)[:, None]

    assert result.accuracy.stores[0].largest == pytest.approx(float((np.abs(out - exact) / out).max()), rel=1e-6, abs=0)


@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_fragments_of_wmma(kind):
    """Tiles of rounded square roots, through memory and fragments: what is stored is as far off as the product of them in f64."""
    shape, k, element = ("m16n16k16", 16, 2) if kind == "f16" else ("m16n16k8", 8, 4)
    held, types = (8, "f32.f32") if kind == "f16" else (4, "f32.tf32.tf32.f32")
    turned = "cvt.rn.f16.f32 %h1, %f1; st.shared.b16 [%r2], %h1;" if kind == "f16" else "st.shared.f32 [%r2], %f1;"
    a, b = ("{" + ", ".join(f"%{n}{i}" for i in range(held)) + "}" for n in "ab")
    c = "{" + ", ".join(f"%c{i}" for i in range(8)) + "}"
    body = f""".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .f32 %c<8>; mov.u32 %r3, tile; mov.u32 %r4, 0;
L:  mad.lo.u32 %r5, %r4, 32, %r1; mad.lo.u32 %r2, %r5, {element}, %r3; add.u32 %r5, %r5, 2; cvt.rn.f32.u32 %f1, %r5; sqrt.rn.f32 %f1, %f1; {turned}
    add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, {k // 2}; @%p1 bra L;
    bar.sync 0; {"".join(f"mov.f32 %c{i}, 0f3F000000; " for i in range(8))}
    wmma.load.a.sync.aligned.row.{shape}.shared.{kind} {a}, [%r3];
    wmma.load.b.sync.aligned.col.{shape}.shared.{kind} {b}, [%r3];
    wmma.mma.sync.aligned.row.col.{shape}.{types} {c}, {a}, {b}, {c};
    wmma.store.d.sync.aligned.row.{shape}.shared.f32 [tile], {c}; wmma.load.c.sync.aligned.row.{shape}.shared.f32 {c}, [tile];
    wmma.store.d.sync.aligned.row.{shape}.global.f32 [%rd2], {c};"""
    out, result = shadow(body, np.zeros(32, np.float32), np.zeros((32, 8), np.float32))
    roots = np.sqrt(np.arange(2, 2 + 16 * k)).reshape(16, k)
    got = out.reshape(16, 16)

    worst = np.abs((got - (roots @ roots.T + 0.5)) / got).max()
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-6, abs=0)


WAYS = {
    "bulk to global": """st.shared.u32 [%r8], %r7; fence.proxy.async; bar.sync 0;
    @%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r9], 128; @%p2 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group 0;""",
    "tiles by ldmatrix": """st.shared.u32 [%r8], %r7; bar.sync 0;
    shl.b32 %r10, %r1, 4; and.b32 %r10, %r10, 127; add.u32 %r10, %r10, %r9;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r10]; st.global.u32 [%rd5], %r11;""",
    "tiles by ldmatrix and movmatrix": """st.shared.u32 [%r8], %r7; bar.sync 0;
    shl.b32 %r10, %r1, 4; and.b32 %r10, %r10, 127; add.u32 %r10, %r10, %r9;
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r11}, [%r10]; movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r11;
    st.global.u32 [%rd5], %r12;""",
    "tiles by stmatrix": """shl.b32 %r10, %r1, 4; and.b32 %r10, %r10, 127; add.u32 %r10, %r10, %r9;
    stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r10], {%r7}; bar.sync 0; ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd5], %r11;""",
    "cp.async": """st.global.u32 [%rd4], %r7; cp.async.ca.shared.global [%r8], [%rd4], 4; cp.async.wait_all;
    ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd5], %r11;""",
    "bulk to shared": """st.global.u32 [%rd4], %r7; fence.proxy.async; bar.sync 0; mov.u32 %r10, bar;
    @%p2 mbarrier.init.shared.b64 [%r10], 1; @%p2 fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 128;
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd1], 128, [%r10];
W:  mbarrier.try_wait.parity.shared.b64 %p1, [%r10], 0; @!%p1 bra W;
    ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd5], %r11;""",
    "st.async": """mov.u32 %r10, bar; @%p2 mbarrier.init.shared.b64 [%r10], 1; @%p2 fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 128; bar.sync 0; mapa.shared::cluster.u32 %r11, %r8, 0; mapa.shared::cluster.u32 %r12, %r10, 0;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r11], %r7, [%r12];
W:  mbarrier.try_wait.parity.shared.b64 %p1, [%r10], 0; @!%p1 bra W;
    ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd5], %r11;""",
    "tensor memory": """tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile], 32; bar.sync 0; ld.shared.u32 %r10, [tile];
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r7, %r7}; tcgen05.wait::st.sync.aligned;
    add.u32 %r10, %r10, 1; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10]; tcgen05.wait::ld.sync.aligned;
    sub.u32 %r10, %r10, 1; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 32; st.global.u32 [%rd5], %r11;""",
    "halves through wide registers": """st.local.u32 [spill], %r7; ld.local.v2.b16 {%h1, %h2}, [spill]; mov.b64 %rd6, {%h2, %h1, %h2, %h1};
    mov.b64 {%r11, %r12}, %rd6; mov.b32 {%h3, %h4}, %r12; mov.b32 %r13, {%h4, %h3}; st.global.u32 [%rd5], %r13;""",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_errors_travel_with_bytes(way):
    """Pairs of f16 keep their errors on every way from a register to global memory."""
    body = f"""ld.global.f32 %f1, [%rd4]; mov.u32 %r9, tile; shl.b32 %r8, %r1, 2; add.u32 %r8, %r8, %r9; setp.eq.u32 %p2, %r1, 0;
    sqrt.rn.f32 %f2, %f1; rcp.rn.f32 %f3, %f1; cvt.rn.f16x2.f32 %r7, %f3, %f2;
    {WAYS[way]}"""
    x = np.arange(2, 34, dtype=np.float32)
    head = HEAD.replace("sm_90", "sm_100a") if "tcgen05" in WAYS[way] else HEAD
    text = head.replace("tile[1024];", "tile[1024]; .shared .align 8 .b8 bar[8]; .local .align 4 .b8 spill[4];")
    text, out = text + PLACES.format(size=4) + body + "ret;}", np.zeros(32, np.uint32)
    result = warpsim.load(text)["k"](1, 32, (x.copy(), out), shadow="f64")
    pairs = np.stack([np.sqrt(x.astype(np.float64)), 1 / x.astype(np.float64)], axis=1)
    wrong = np.abs(pairs.astype(np.float32).astype(np.float16) - pairs) / pairs.astype(np.float16)
    (stored,) = [b for b in result.accuracy.stores if b.line == len(text.splitlines())]

    assert np.count_nonzero(out.view(np.float16)) == 64
    assert stored.largest == pytest.approx(float(wrong.max()), rel=1e-6, abs=0)
    assert stored.typical == pytest.approx(float(wrong.mean()), rel=1e-6, abs=0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["gemm_tcgen05", "gemm_tcgen05_pair"])
def test_products_of_tensor_memory(name):
    """What tcgen05.mma leaves, by one CTA and by two, on inputs whose sums are not exact."""
    case = Case.read(CASES.parents[1] / "programs" / name)
    shapes = {b["name"]: b["shape"] for b in case.description["buffers"]}
    given = {n: recipe("normal", shapes[n], "f16", seed=k).array() for k, n in enumerate("AB")}
    for n, array in given.items():
        old = case.data[f"in_{n}"]
        case.data[f"in_{n}"] = array.reshape(-1).view(old.dtype).reshape(old.shape)
    result = run_prepared(case.prepare(), kept := {}, shadow="f64")
    a, b = (given[n].astype(np.float64) for n in "AB")
    got = next(iter(kept.values())).view(np.float32).reshape(shapes["C"])

    worst = np.abs((got - a @ b.T) / got).max()
    assert max(birth.largest for birth in result.accuracy.stores) == pytest.approx(float(worst), rel=1e-6, abs=0)


@pytest.mark.parametrize(
    "name",
    [
        "gemm_cp_async",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("gemm_ss_tf32", "gemm_rs_fp8", "gemm_pingpong")),
    ],
)
def test_products_of_warpgroups(name):
    """What wgmma leaves is as far from the product of its inputs in f64 as the shadow says, on every way of its tiles."""
    case = Case.read(CASES / name)
    result = run_prepared(case.prepare(), kept := {}, shadow="f64")
    types = {"f16": np.float16, "f32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    kinds = {b["name"]: (types[b["dtype"]], b["shape"]) for b in case.description["buffers"]}
    with np.load(CASES / name / "data.npz") as data:
        a, b = (data[f"in_{n}"].view(kinds[n][0]).reshape(kinds[n][1]).astype(np.float64) for n in "AB")
    got = next(iter(kept.values())).view(np.float32).reshape(kinds["C"][1])

    worst = np.abs((got - a @ b.T) / got).max()
    assert max(birth.largest for birth in result.accuracy.stores) == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_products_of_warpgroups_with_a_sparse():
    """Of each four elements of A, the first two are stored. Both factors lie in blocks of 8 x 8."""
    case = Case.read(CASES / "gemm_sparse_f16")
    case.data["in_E"] = np.full_like(case.data["in_E"], 0x44444444)
    result = run_prepared(case.prepare(), kept := {}, shadow="f64")
    a, b = (case.data[f"in_{n}"].view(np.float16).astype(np.float64).reshape(2, 8, -1, 8, 8) for n in "AB")
    a, b = (x.transpose(1, 3, 0, 2, 4).reshape(64, -1, 2) for x in (a, b))
    got = next(iter(kept.values())).view(np.float32).reshape(64, 64)

    worst = np.abs((got - a.reshape(64, -1) @ b[:, ::2].reshape(64, -1).T) / got).max()
    assert max(birth.largest for birth in result.accuracy.stores) == pytest.approx(float(worst), rel=1e-6, abs=0)


@pytest.mark.long
@pytest.mark.parametrize("rounded", [False, True])
def test_products_of_warpgroups_with_a_in_registers(rounded):
    """C begins as the number of its register, and A, negated, comes from registers: as it is, or times a third, rounded."""
    case = Case.read(CASES / "gemm_rs_bf16")
    third = np.array(0.333984375, ml_dtypes.bfloat16)
    if rounded:
        text = re.sub(
            r"(ld\.global\.u32 \t(%r\d+), \[%rd3[15].*\];)",
            rf"\1 {{ .reg .b32 t; mov.b32 t, {int(third.view(np.uint16)) * 0x10001}; mul.rn.bf16x2 \2, \2, t; }}",
            case.source[0],
        )
        case.source = text, case.source[1]
    result = run_prepared(case.prepare(), kept := {}, shadow="f64")
    a, b = (case.data[f"in_{n}"].view(ml_dtypes.bfloat16).astype(np.float64).reshape(64, 192) for n in "AB")
    row, column = np.indices((64, 64))
    begins = column // 8 * 4 + row % 16 // 8 * 2 + column % 2
    got = next(iter(kept.values())).view(np.float32).reshape(64, 64)

    worst = np.abs((got - (begins - a * (float(third) if rounded else 1.0) @ b.T)) / got).max()
    assert max(birth.largest for birth in result.accuracy.stores) == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_the_check(capsys):
    """``checks="accuracy"`` is the default with notes where something happened; launches without it have none."""
    body = "div.rn.f32 %f2, 0f3F800000, %f1; sub.f32 %f3, %f2, 0f3EAAAAAA;"
    text = HEAD + PLACES.format(size=4) + f"ld.global.f32 %f1, [%rd4]; {body} st.global.f32 [%rd5], %f3; ret;}}"
    x, y = np.full(32, 3, np.float32), np.zeros(32, np.float32)
    kernel = warpsim.load(text)["k"]
    result = kernel(1, 32, (x, y), checks="accuracy")

    assert [(f.rule, f.severity, f.line) for f in result.findings] == [("accuracy", "note", 10)]
    assert result.findings[0].message.startswith("cancellation; off by ")
    assert result.accuracy.ulps == kernel(1, 32, (x, y), shadow="f64").accuracy.ulps
    assert kernel(1, 32, (x, y), checks="all").accuracy is None
    found = warpsim.run(body, registers={"%f1": x}, checks="default+accuracy")
    assert [f.rule for f in found.findings] == ["accuracy"]
    assert main(["replay", "cluster_reduce", "--checks", "accuracy"]) == 0
    assert "accuracy: cancellation" in "".join(capsys.readouterr())


def test_decisions():
    """A comparison of a rounded value decides otherwise: so does what is computed from it, a branch, and a selection."""
    tenth = np.float32(0.1)
    body = """ld.global.f32 %f1, [%rd4]; mul.f32 %f2, %f1, 0f40400000;
    setp.eq.f32 %p1, %f2, 0f3E99999A;
    not.pred %p2, %p1;
    selp.f32 %f3, 0f3F800000, 0f40000000, %p2;
    @%p1 bra L;
    mov.f32 %f4, 0f00000000;
L:  st.global.f32 [%rd5], %f3;"""
    out, result = shadow(body, np.full(32, tenth), np.zeros(32, np.float32))
    otherwise = Fraction(float(tenth)) * 3 == Fraction(float(np.uint32(0x3E99999A).view(np.float32)))

    assert (tenth * np.float32(3) == np.uint32(0x3E99999A).view(np.float32)) != otherwise
    assert at(result, 14).kinds["branches otherwise"] == 32
    assert result.accuracy.stores[0].exact == 3 - out[0]


@pytest.mark.parametrize("place", ["shared", "global"])
def test_stores_of_many_lanes_to_one_address(place):
    """The last lane's error stays, as its value does."""
    at_one = "[tile]" if place == "shared" else "[%rd1]"
    body = f"""ld.global.f32 %f1, [%rd4]; sqrt.rn.f32 %f2, %f1; st.{place}.f32 {at_one}, %f2; bar.sync 0;
    ld.{place}.f32 %f3, {at_one}; st.global.f32 [%rd2], %f3;"""
    x = np.arange(2, 34, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))

    assert out[0] == np.sqrt(np.float32(33))
    (stored,) = [b for b in result.accuracy.stores if b.line == 11]
    assert stored.exact == pytest.approx(float(np.sqrt(33.0)), rel=1e-12, abs=0)


@pytest.mark.parametrize("guard", ["", "@%p1 "])
def test_stores_of_two_ctas_to_one_address(guard):
    """The error of the CTA whose value stays: 1/x, rounded, says by itself whose it is."""
    body = f"""mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd6, %rd2, %rd3;
    mad.lo.u32 %r4, %r2, 16, %r1; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd5, %rd2, %rd3; ld.global.f32 %f1, [%rd4]; rcp.rn.f32 %f2, %f1; setp.gt.u32 %p1, %r1, 0;
    {guard}st.global.f32 [%rd5], %f2; ld.global.f32 %f3, [%rd5];
    st.global.f32 [%rd6+256], %f3;"""
    out = np.zeros(128, np.float32)
    result = warpsim.load(HEAD + body + "ret;}")["k"](2, 32, (np.arange(3, 67, dtype=np.float32), out), shadow="f64")
    got = [Fraction(float(v)) for v in out[64:]]
    lost = [abs(v - Fraction(1, round(1 / v))) / v if v else 0 for v in got]
    (stored,) = [b for b in result.accuracy.stores if b.line == 12]

    assert out[64 + 16 : 96].tolist() == out[96 : 96 + 16].tolist()
    assert stored.typical == pytest.approx(float(sum(lost) / 64), rel=1e-6, abs=0)


def test_arrays_are_used_again_only_once_nobody_holds_them():
    """A view holds the array that it shows, too."""
    arrays, shape = Recycled(), (WORTHWHILE,)
    held, view = arrays.take(shape), arrays.take(shape)[1:]
    again = arrays.take(shape)

    assert not any(np.shares_memory(*pair) for pair in combinations((held, view, again), 2))
    place = again.ctypes.data
    del again
    assert arrays.take(shape).ctypes.data == place


@pytest.mark.parametrize("kind", ["f32", "f64", "f16x2"])
def test_atomic_sums(kind):
    """1/x, rounded, added by 8 lanes each to 4 cells that hold such: what lanes find and what they leave is off as fractions say."""
    size, type, f = (8, "f64", "%d") if kind == "f64" else (4, "f32", "%f")
    pairs = kind == "f16x2"
    found, given, bits = ("%r6", "%r5", "b32") if pairs else (f"{f}3", f"{f}2", type)
    rounded = "add.f32 %f4, %f1, 0f3F800000; rcp.rn.f32 %f4, %f4; cvt.rn.f16x2.f32 %r5, %f4, %f2;" if pairs else ""
    body = f"""ld.global.{type} {f}1, [%rd4]; rcp.rn.{type} {f}2, {f}1; {rounded}
    and.b32 %r2, %r1, 3; mov.u32 %r3, tile; mad.lo.u32 %r2, %r2, {size}, %r3; st.shared.{bits} [%r2], {given}; bar.sync 0;
    atom.shared.add{".noftz" if pairs else ""}.{kind} {found}, [%r2], {given}; bar.sync 0; ld.shared.{bits} {given}, [%r2];
    mad.wide.u32 %rd5, %r1, {2 * size}, %rd2; st.global.v2.{bits} [%rd5], {{{found}, {given}}};"""
    dtype = np.float64 if size == 8 else np.float32
    x = np.arange(3, 35, dtype=dtype)
    out, result = shadow(body, x, np.zeros((32, 2), np.uint32 if pairs else dtype), size)
    got = out.view(np.float16) if pairs else out
    worst = Fraction(0)
    for lane in range(32):
        for k, last in enumerate((lane, lane, 32, 32) if pairs else (lane, 32)):
            of = [Fraction(1, int(v) + (k % 2 if pairs else 0)) for v in x[lane % 4 :: 4]]
            exact = of[-1] + sum(of[: -(-(last - lane % 4) // 4)])
            worst = max(worst, abs(Fraction(float(got[lane, k])) - exact) / Fraction(float(got[lane, k])))

    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_reductions_in_global_memory():
    """32 lanes add to one element: that is what is stored, without a store; then a constant to one in shared memory."""
    body = """ld.global.f32 %f1, [%rd4]; rcp.rn.f32 %f2, %f1; setp.eq.u32 %p1, %r1, 0;
    red.global.add.f32 [%rd2], %f2;
    @%p1 st.shared.f32 [tile], 0f3E99999A; bar.sync 0; red.shared.add.f32 [tile], 0f3DCCCCCD; bar.sync 0; ld.shared.f32 %f3, [tile];
    @%p1 st.global.f32 [%rd5+4], %f3;"""
    x = np.arange(3, 35, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))
    exact = sum(Fraction(1, int(v)) for v in x)
    constants = sum(n * Fraction(float(np.float32(v))) for n, v in ((1, 0.3), (32, 0.1)))

    assert at(result, 11).stored
    assert at(result, 11).exact == pytest.approx(float(exact), rel=1e-12, abs=0)
    assert at(result, 13).exact == float(constants) != float(out[1])


@pytest.mark.parametrize("way", ["exch.b32 %r6, [%r2], %r5", "cas.b32 %r6, [%r2], %r7, %r5"])
def test_exchanges(way):
    """A value that an exchange brings to memory, and one that it brings back, keep their errors."""
    body = f"""ld.global.f32 %f1, [%rd4]; sqrt.rn.f32 %f2, %f1; rcp.rn.f32 %f3, %f1; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
    st.shared.f32 [%r2], %f3; mov.b32 %r5, %f2; mov.b32 %r7, %f3; atom.shared.{way};
    mov.b32 %f4, %r6; ld.shared.f32 %f5, [%r2]; add.f32 %f6, %f4, %f5; st.global.f32 [%rd5], %f6;"""
    x = np.arange(5, 37, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))
    exact = np.sqrt(x.astype(np.float64)) + 1 / x.astype(np.float64)

    assert result.accuracy.stores[0].largest == pytest.approx(float((np.abs(out - exact) / out).max()), rel=1e-6, abs=0)


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(
    "way", ["atom.{space}.add.u32 %r4, [{at}], 1;", "mov.b32 %r4, %f2; or.b32 %r4, %r4, 0; st.{space}.u32 [{at}], %r4;"]
)
def test_integers_begin_anew(space, way):
    """An error in memory counts only for the bits for which it was stored, and until they are stored as an integer."""
    at_lane = "%r2" if space == "shared" else "%rd4"
    body = f"""ld.global.f32 %f1, [%rd4]; sqrt.rn.f32 %f2, %f1; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
    st.{space}.f32 [{at_lane}], %f2; {way.format(space=space, at=at_lane)}
    ld.{space}.f32 %f4, [{at_lane}]; st.global.f32 [%rd5], %f4;"""
    result = shadow(body, np.arange(5, 37, dtype=np.float32), np.zeros(32, np.float32))[1]

    assert at(result, 10).largest > 0
    assert not any(b.line == 12 for b in result.accuracy.stores)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_bulk_reductions(kind):
    """Lanes 0 to 2 add 1/x, rounded, of all lanes to what is there, which is off, too: as fractions say."""
    size, type, f = {"f32": (4, "f32", "%f"), "f64": (8, "f64", "%d"), "f16": (2, "b16", "%h")}[kind]
    rounded = (
        f"rcp.rn.{kind} {f}2, {f}1;"
        if size > 2
        else "cvt.f32.f16 %f1, %h1; rcp.rn.f32 %f1, %f1; cvt.rn.f16.f32 %h2, %f1;"
    )
    body = f"""ld.global.{type} {f}1, [%rd4]; {rounded} mad.lo.u32 %r2, %r1, {size}, 0; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
    st.shared.{type} [%r2], {f}2; st.global.{type} [%rd5], {f}2; fence.proxy.async; bar.sync 0; setp.lt.u32 %p1, %r1, 3;
    @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add{".noftz" if size == 2 else ""}.{kind} [%rd2], [%r3], {32 * size};
    @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"""
    x = np.arange(3, 35).astype(kind.replace("f", "float"))
    out, result = shadow(body, x, np.zeros_like(x), size)
    (stored,) = [b for b in result.accuracy.stores if b.instruction.startswith("cp.reduce")]
    worst = max(
        abs(Fraction(float(got)) - Fraction(4, int(v))) / Fraction(float(got)) for got, v in zip(out, x, strict=True)
    )

    assert stored.largest == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_atomic_sums_of_vectors_in_some_lanes():
    """1/x and 1/(x+1), rounded, added by the odd lanes to elements of two arrays that hold such."""
    body = """ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, 0f3F800000; rcp.rn.f32 %f1, %f1; rcp.rn.f32 %f2, %f2; and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0;
    mad.wide.u32 %rd5, %r1, 8, %rd2; st.global.v2.f32 [%rd5], {%f1, %f2}; mad.wide.u32 %rd6, %r1, 8, %rd1; setp.lt.u32 %p2, %r1, 16; selp.b64 %rd6, %rd6, %rd5, %p2;
    @%p1 atom.global.add.v2.f32 {%f3, %f4}, [%rd6], {%f1, %f2}; mov.f32 %f5, 0f00000000; mov.f32 %f6, 0f00000000;
    @%p1 ld.global.v2.f32 {%f5, %f6}, [%rd6];
    st.global.v2.f32 [%rd5], {%f5, %f6};"""
    x = np.zeros(64, np.float32)
    x[:32] = np.arange(3, 35)
    given, out = x.copy(), np.zeros((32, 2), np.float32)
    text = HEAD + PLACES.format(size=4) + body + "\n    ret;\n}\n"
    result = warpsim.load(text)["k"](1, 32, (x, out), shadow="f64")
    worst = Fraction(0)
    for lane in range(1, 32, 2):
        for k in (0, 1):
            added = Fraction(1, lane + 3 + k)
            exact = added + (Fraction(float(given[2 * lane + k])) if lane < 16 else added)
            worst = max(worst, abs(exact - Fraction(float(out[lane, k]))) / Fraction(float(out[lane, k])))
    (stored,) = [b for b in result.accuracy.stores if b.line == 14]

    assert stored.largest == pytest.approx(float(worst), rel=1e-6, abs=0)


def test_a_shadow_that_is_no_number_begins_anew():
    """2^24 + 1 and 2^24 + 3 are 2^24 and 2^24 + 4 in f32: a shadow becomes 1/0, then no number, while the other goes on."""
    body = """ld.global.u32 %r2, [%rd4]; cvt.rn.f32.u32 %f1, %r2; sub.f32 %f2, %f1, 0f4B800000; sub.f32 %f3, %f2, 0f3F800000; rcp.rn.f32 %f4, %f3;
    fma.rn.f32 %f5, %f4, %f3, %f2;
    add.f32 %f6, %f5, %f2;
    st.global.f32 [%rd5], %f6;"""
    x = 2**24 + 1 + 2 * (np.arange(32, dtype=np.uint32) % 2)
    out, result = shadow(body, x, np.zeros(32, np.float32))

    assert out[:2].tolist() == [1, 9]
    assert at(result, 11).largest == pytest.approx(abs(4 - 5) / 5, abs=0)  # of the first, 1 + 0 begins anew
    assert at(result, 12).largest == 1  # 1 + 1, and 4 + 3 for 9
    assert (result.accuracy.stores[0].value, result.accuracy.stores[0].exact) == (1, 2)


def test_registers_that_change_their_type():
    """Halves have no errors any more once an f32 takes their register; an f32 that is a bf16 and zeros has its error."""
    body = """ld.global.f32 %f1, [%rd4]; rcp.rn.f32 %f2, %f1; cvt.rn.f16x2.f32 %r2, %f2, %f2; mov.b32 %f3, %r2; add.f32 %f3, %f1, %f1; mov.b32 %r3, %f3;
    mov.b32 {%h1, %h2}, %r3; cvt.f32.f16 %f4, %h2; st.global.f32 [%rd5], %f4;
    cvt.rn.bf16.f32 %h4, %f2; mov.u16 %h3, 0; mov.b32 %r4, {%h3, %h4}; mov.b32 %f5, %r4; add.f32 %f6, %f5, %f5; st.global.f32 [%rd5], %f6;"""
    x = np.full(32, 3, np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))

    assert [b.line for b in result.accuracy.stores] == [12]
    assert result.accuracy.stores[0].exact == pytest.approx(2 / 3, rel=1e-12, abs=0)
    assert out[0] != np.float32(2 / 3)


def test_errors_of_guarded_and_of_subnormal_results():
    """Lanes that a guard leaves out do not count; what is below the least normal number is measured by it."""
    body = """ld.global.f32 %f1, [%rd4]; mov.f32 %f2, 0f3F800000; setp.lt.f32 %p1, %f1, 0f41000000;
    @%p1 rcp.rn.f32 %f2, %f1;
    mul.f32 %f3, %f2, 0f00800001; mul.f32 %f4, %f1, 0f00000001; add.f32 %f5, %f1, %f1; st.global.f32 [%rd5], %f3;"""
    x = np.arange(3, 35, dtype=np.float32)
    out, result = shadow(body, x, np.zeros(32, np.float32))
    guarded = [
        abs(Fraction(float(np.float32(1) / v)) - Fraction(1, int(v))) / Fraction(float(np.float32(1) / v))
        for v in x[:5]
    ]
    factor = Fraction(2) ** -126 + Fraction(2) ** -149
    exact = [factor / int(v) if v < 8 else factor for v in x]
    lost = [
        abs(Fraction(float(o)) - e) / max(Fraction(float(o)), Fraction(2) ** -126)
        for o, e in zip(out, exact, strict=True)
    ]

    assert at(result, 11).largest == pytest.approx(float(max(guarded)), rel=1e-6, abs=0)
    assert result.accuracy.stores[0].largest == pytest.approx(float(max(lost)), rel=1e-6, abs=0)
    assert result.accuracy.stores[0].typical == pytest.approx(float(sum(lost) / 32), rel=1e-6, abs=0)


def test_a_nan_among_others():
    """It hides no error of theirs."""
    x = np.full(32, 3, np.float32)
    x[7] = np.nan
    out, result = shadow(
        "ld.global.f32 %f1, [%rd4];\nrcp.rn.f32 %f2, %f1; st.global.f32 [%rd5], %f2;", x, np.zeros_like(x)
    )

    wrong = abs(Fraction(float(out[0])) - Fraction(1, 3)) / Fraction(float(out[0]))
    assert at(result, 11).largest == pytest.approx(float(wrong), rel=1e-6, abs=0)


def test_other_watchers_of_registers():
    """They hear of every instruction, with a shadow as without one."""

    class Heard(warpsim.Watcher):
        def __init__(self):
            self.read, self.written = [], []

        def registers_read(self, machine, group, registers):
            self.read.append(group.instruction.text)

        def registers_written(self, machine, group, registers):
            self.written.append(group.instruction.text)

    body = "ld.global.f32 %f1, [%rd4]; rcp.rn.f32 %f2, %f1; mov.b32 %r2, %f2; add.u32 %r3, %r2, 1; mov.b32 %f3, %r2; add.f32 %f4, %f3, %f3; st.global.f32 [%rd5], %f4;"
    kernel = warpsim.load(HEAD + PLACES.format(size=4) + body + "ret;}")["k"]
    x, heard = np.arange(3, 35, dtype=np.float32), [Heard(), Heard()]
    results = [
        kernel(1, 32, (x, np.zeros_like(x)), watchers=[h], shadow=s) for h, s in zip(heard, (None, "f64"), strict=True)
    ]

    assert heard[0].read == heard[1].read
    assert heard[0].written == heard[1].written
    assert "add.f32" in heard[1].written
    assert results[1].accuracy.ulps > 0


def test_a_report():
    """A peak stays in the picture however many steps there are; copies of one line share their mean; the worst store is first."""
    report = AccuracyReport()
    for k in range(9000):
        report.step(0.5 if k == 4321 else 1e-6)
    for k in range(2):
        report.births["k", k, "add.f32", False] = Birth(
            "add.f32", "f32", k, "a.cu", 7, lanes=4, total=1.0 + k, largest=0.5
        )
        report.births["k", k, "st", True] = Birth(
            "st.global.f32", "f32", 10 + k, "a.cu", 9 + k, lanes=4, largest=0.25 * (k + 1), stored=True
        )

    assert max(report.points) == 0.5
    assert len(report.points) < 2048
    assert [b.largest for b in report.stores] == [0.5, 0.25]
    assert (report.rows[-1].copies, report.rows[-1].typical) == (2, 3.0 / 8)
