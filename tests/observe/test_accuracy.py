"""A shadow in higher precision: what it finds is what exact arithmetic says, at the line where it happens."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.testing import assert_accuracy, recipe

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
    """Launch a body with a companion: the array that it stored to, and the report. The body begins at line 10."""
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
    assert at(result, 12).exact == pytest.approx(float(exact), rel=1e-6)
    assert at(result, 12).largest == pytest.approx(float(wrong), rel=1e-6)
    assert result.accuracy.lines[0].line == 12
    with pytest.raises(AssertionError, match=r"line 12 +sub"):
        assert_accuracy(result, ulps=2)


def test_an_absorption():
    """2^25 + 1, 40 times over: each sum loses its 1, and what is stored lacks 40."""
    body = """mov.f32 %f1, 0f4C000000; mov.u32 %r2, 0;
L:  add.f32 %f1, %f1, 0f3F800000;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 40;
    @%p1 bra L;
    st.global.f32 [%rd5], %f1;"""
    out, result = shadow(body, np.zeros(32, np.float32), np.zeros(32, np.float32))

    assert out[0] == 2.0**25
    assert at(result, 11).kinds["absorption"] == 40 * 1  # the same in all lanes: computed once
    assert result.accuracy.stores[0].exact == 2.0**25 + 40
    assert result.accuracy.ulps == 10  # of 4 each


def test_an_overflow():
    """f32 is infinite where the companion is not."""
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
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-12)


def test_f64_has_a_companion_of_twice_its_precision():
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
    assert at(result, 14).exact == pytest.approx(float(exact), rel=1e-12)


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
    assert stored.largest == pytest.approx(float((np.abs(out - exact) / out).max()), rel=1e-9)
    assert stored.ulps <= 0.5
    assert_accuracy(result, ulps=0.5)
    integers = body.replace("mov.b32 %f6, %r2;", "add.s32 %r2, %r2, 1; mov.b32 %f6, %r2;")
    assert not shadow(integers, x, np.zeros(32, np.float32))[1].accuracy.stores


def test_comparisons_that_the_companion_decides_otherwise():
    """0.1 * 3 == 0.3 in f32, and not of the numbers that f32 holds."""
    tenth, third = (np.float32(v) for v in (0.1, 0.3))
    body = """ld.global.f32 %f1, [%rd4]; mul.f32 %f2, %f1, 0f40400000;
    setp.eq.f32 %p1, %f2, 0f3E99999A;
    selp.f32 %f3, %f1, %f2, %p1; st.global.f32 [%rd5], %f3;"""
    assert (tenth * np.float32(3) == third) != (Fraction(float(tenth)) * 3 == Fraction(float(third)))
    _, result = shadow(body, np.full(32, tenth), np.zeros(32, np.float32))

    assert at(result, 11).kinds["decided otherwise"] == 32


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
    assert result.accuracy.stores[0].largest == pytest.approx(float(worst), rel=1e-9)


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
    assert result.accuracy.stores[0].largest == pytest.approx(float(wrong), rel=1e-6)


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
