"""Expressions of a session: grammar, values, and what is refused."""

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session
from warpsim.debug.expressions import DEEPEST, parse

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .u32 table[3] = {5, 6, 7};
.visible .entry k(.param .align 8 .b8 block[16], .param .f32 f)
{
  .reg .b32 %r<4>; .reg .f32 %f<2>; .reg .s16 %h; .reg .b64 %rd; .reg .pred %p;
  .local .align 4 .f32 mine[2];
  mov.b32 %r0, 0x3C004200;
  mov.b32 %r1, 0x38404448;
  mov.f32 %f0, 0fBFC00000;
  mov.s16 %h, -3;
  mov.b64 %rd, 0xFFFFFFFFFFFFFFFF;
  mov.u32 %r2, %laneid;
  setp.lt.u32 %p, %r2, 3;
  st.local.f32 [mine+4], %f0;
  ret;
}
"""


@pytest.fixture(scope="module")
def session():
    """A session behind the moves."""
    arguments = (bytes(range(16)), 0.5)
    made = Session(warpsim.load(TEXT)["k"], (2,), (32,), arguments)
    made.until(17)
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("1 << 70 >> 69", 2),
        ("0x10 | 3 ^ 1", 0x12),
        ("6 & 3 == 3", 0),
        ("!0 && ~0 == -1", True),
        ("1 < 2 || 1 / 0", True),
        ("0f3FC00000 * 2", 3.0),
        ("1.5e1 + 0.5", 15.5),
        ("table[1] + table[2]", 13),
        ("f", 0.5),
        ("block[3]", 3),
        ("block.u16[1]", 0x0302),
        ("mine[1]", -1.5),
        ("gridDim.x", 2),
        ("f16x2(%r0).hi", 1.0),
        ("f16x2(%r0).lo", 3.0),
        ("f16x2(%r0)[1]", 1.0),
        ("bf16x2(%r0).hi", float(np.uint16(0x3C00).view(ml_dtypes.bfloat16))),
        ("e4m3x4(%r1)[0]", float(np.uint8(0x48).view(ml_dtypes.float8_e4m3fn))),
        ("u32(%f0)", 0xBFC00000),
        ("f32(%r0) == f32(0x3C004200)", True),
        ("s16(%r0)", 0x4200),
        ("s8(255)", -1),
        ("%h * %h", 9),
        ("%rd + 1", 2**64),
        ("%rd", 2**64 - 1),
        ("%f0 * %f0", 2.25),
        ("%r2[5] + 1", 6),
        ("%p[2]", True),
        ("(%tid.x == 40) + 1", 1),
    ],
)
def test_values(session, text, expected):
    """Operators are those of C, integers exact; bits are read as the type that is named."""
    if text == "1 < 2 || 1 / 0":
        with pytest.raises(DebugError, match="division"):
            session.evaluate(text)
        return
    value = session.evaluate(text)

    assert np.all(np.asarray(value) == expected)


def test_lanes(session):
    """What differs by lane comes as an array of 32."""
    assert session.evaluate("%r2 * 4 + blockIdx.x").tolist() == [4 * n for n in range(32)]
    assert session.evaluate("block[%r2 & 15]").tolist() == [n & 15 for n in range(32)]
    assert session.evaluate("%p").tolist() == [n < 3 for n in range(32)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a value, not the end"),
        ("1 +", "expected a value, not the end"),
        ("(1", "expected ')'"),
        ("1 2", "expected an operator, not '2'"),
        ("²", "something else"),
        ("%nope", "no register, variable or parameter %nope in k"),
        ("__import__('os')", "something else"),
        ("table[3]", "element 3 is out of range"),
        ("table[-1]", "element -1 is out of range"),
        ("global.u32[0]", "outside any allocation"),
        ("shared.u32[0]", "outside the 0 bytes"),
        ("%r2[32]", "lane 32"),
        ("f16x2(%r0).x2", "no field"),
        ("f16x2(%r0)", None),
        ("f16x2(%r0) + 1", "packed bits"),
        ("1.5 << 2", "<< needs integers"),
        ("1 << 9999999", "a shift count must be"),
        ("1 % 0", "division by zero"),
        ("9" * 5000, "at most 4096"),
        ("9" * 1000, "at most 400 digits"),
        ("(" * 500 + "1" + ")" * 500, "at most 64 deep"),
        ("table[0:%r2]", "one number"),
        ("&1", "have an address"),
        ("%tid.q", "%tid"),
    ],
)
def test_what_is_refused(session, text, said):
    """Whatever is typed ends in a value or in a message that says what is wrong with it."""
    if said is None:
        assert session.evaluate(text).shape == (32, 2)
        return
    with pytest.raises(DebugError) as caught:
        session.evaluate(text)
    assert said in str(caught.value)


def test_any_text_at_all():
    """No text ends in anything but a tree or a `DebugError`."""
    words = [
        "%r1",
        "s",
        "[",
        "]",
        "(",
        ")",
        ".",
        "f16x2",
        "1",
        "0x",
        "-",
        "&",
        "u32",
        ":",
        "==",
        "é",
        "$",
        "1.5",
        "0f12",
    ]
    generator = np.random.default_rng(5)
    for _ in range(2000):
        text = "".join(generator.choice(words, generator.integers(0, 9)))
        try:
            parse(text)
        except DebugError:
            continue


@pytest.mark.parametrize(("what", "value"), [("mine[0]", 2.5), ("mine[0:2]", [1.0, 2.0]), ("%f0", "f * 4"), ("%h", -5)])
def test_set(session, what, value):
    """What is set is what is read."""
    session.set(what, value)
    expected = session.evaluate(value) if isinstance(value, str) else value
    assert np.all(np.asarray(session.evaluate(what)) == expected)


@pytest.mark.parametrize("what", ["f", "table[9]", "1", "%tid.x", "%nope", "mine[0:2]"])
def test_what_cannot_be_set(session, what):
    """Parameters and what is no place are refused."""
    with pytest.raises(DebugError):
        session.set(what, np.arange(5))


def test_depth_of_expressions():
    """So many nested signs are an expression, and one more is refused; constants of PTX have 32 or 64 bits."""
    assert parse("-" * (DEEPEST - 1) + "1") is not None
    with pytest.raises(DebugError, match="nests at most"):
        parse("-" * DEEPEST + "1")
    assert [parse(text).value for text in ("0f3FC00000", "0d3FF8000000000000")] == [1.5, 1.5]


def test_a_signalling_nan_is_set_as_it_is():
    """A value of the register's own type keeps its bits."""
    made = Session(warpsim.load(TEXT)["k"], 1, 32, (bytes(range(16)), 0.5))
    made.until(17)
    given = np.full(32, 0x7F812345, np.uint32).view(np.float32)
    made.set("%f0", given)

    assert np.ma.getdata(made.evaluate("%f0")).view(np.uint32).tolist() == [0x7F812345] * 32
