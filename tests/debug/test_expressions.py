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
        ("1 == 2 || 0", False),
        ("0 && 1 / 1", False),
        ("2 && 3", True),
        ("1 == 1 == 1", True),
        ("5 ^ 6 & 3", 7),
        ("1 | 2 ^ 3", 1),
        ("3 == 3 & 2", 0),
        ("2 + 3 << 1", 10),
        ("1 << 2 < 5", True),
        ("10 - 2 * 3 % 4", 8),
        ("7 / 2 * 2", 6),
        ("7 / -2", -3),
        ("7 % -3", 1),
        ("-8 / -3", 2),
        ("0 / 5", 0),
        ("-5 >> 1", -3),
        ("1 << 128", 2**128),
        ("1 << 0", 1),
        ("7 >> 0", 7),
        ("3 != 3", False),
        ("3 <= 3", True),
        ("3 >= 4", False),
        ("4 > 4", False),
        ("2 < 2", False),
        ("1.5 > 1", True),
        ("!1.5", False),
        ("-1.5", -1.5),
        ("+1.5", 1.5),
        ("1.5 - 1", 0.5),
        ("3 / 2.0", 1.5),
        ("1 / 0.0", np.inf),
        ("0x1F", 31),
        ("2e3", 2000.0),
        ("1.5e-1", 0.15),
        ("0d3FF8000000000000", 1.5),
        ("f32(0x3FC00000)", 1.5),
        ("f64(1.5)", 1.5),
        ("f32(1.1)", float(np.float32(1.1))),
        ("f16(f32(0x3FC00000))", 1.5),
        ("u16(%rd)", 0xFFFF),
        ("s64(%rd)", -1),
        ("u8(0x1234)", 0x34),
        ("pred(3)", True),
        ("pred(2)", False),
        ("pred(0)", False),
        ("e2m1x2(0x52)[0]", 1.0),
        ("e2m1x2(0x52)[1]", 3.0),
        ("u16x2(0x20001).y", 2),
        ("s16x2(0xFFFF0001).hi", -1),
        ("u8x4(0x04030201).z", 3),
        ("u8x4(0x04030201).w", 4),
        ("u8x4(0x04030201)[%nctaid.x - 1]", None),
        ("threadIdx.y + blockDim.x", 32),
        ("blockIdx.z + gridDim.y", 1),
        ("%ntid.x", 32),
        ("%nctaid.x", 2),
        ("block.u32[0]", 0x03020100),
        ("block[14:16]", [14, 15]),
        ("block.u16[7]", 0x0F0E),
        ("block[4:4]", []),
        ("%f0", -1.5),
        ("s8(0x80)", -128),
        ("~5", -6),
        ("f32(bf16x2(%r0).hi)", float(np.uint16(0x3C00).view(ml_dtypes.bfloat16))),
        ("f64(f16x2(%r0).lo)", 3.0),
        ("~%h", 2),
    ],
)
def test_values(session, text, expected):
    """Operators are those of C, integers exact; bits are read as the type that is named."""
    if expected is None:  # one number is an index, and one per lane is none
        with pytest.raises(DebugError, match="one number"):
            session.evaluate(text)
        return
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
        ("f16x2(%r0)[2]", "index one part, 0 to 1"),
        ("f16x2(%r0)[-1]", "index one part, 0 to 1"),
        ("f16x2(%r0)[0:1]", "index one part, 0 to 1"),
        ("f16x2(%r0).z", "no field .z"),
        ("f16x2(%r0).q", "no field .q"),
        ("f32(f16x2(%r0))", "packed bits have parts"),
        ("-f16x2(%r0)", "needs a part"),
        ("b128(1) + 1", "needs a part"),
        ("f32(b128(1))", "128-bit registers cannot be reinterpreted"),
        ("%r0.lo", "no field .lo"),
        ("%r2[30:34]", "not all of 30 to 33 stand here"),
        ("f[0:2]", "element 1 is out of range"),
        ("5[0]", "only arrays"),
        ("%r2[-1]", "lane -1"),
        ("~1.5", "an integer is needed here"),
        ("table[1.5]", "an integer is needed here"),
        ("1.5 % 2", "% needs integers"),
        ("1 & 2.5", "& needs integers"),
        ("1 << 129", "a shift count must be 0 to 128"),
        ("1 << -1", "a shift count must be 0 to 128"),
        ("1 >> -1", "a shift count must be"),
        ("1 / 0", "division by zero"),
        ("%r2 + block", "operands have different sizes: 32 and 16 elements"),
        ("table + block", "operands have different sizes: 3 and 16 elements"),
        ("nowhere.u32[0]", "no variable or state space nowhere"),
        ("f.u32", "expected '[', not the end"),
        ("f.5", "expected a field, not '5'"),
        ("block[16]", "element 16 is out of range: there are 16 elements"),
        ("block[0:17]", "element 16 is out of range"),
        ("block.u16[8]", "element 8 is out of range: there are 8 elements"),
        ("block[%r2]", "element 16 is out of range"),
        ("table[", "expected a value, not the end"),
        ("table[1", "expected ']', not the end"),
        ("u32(1", "expected ')', not the end"),
        ("u32()", "expected a value, not ')'"),
        ("&%r0", "only objects in memory have an address"),
        ("&(table)", None),
        ("+", "expected a value, not the end"),
        (" " * 130 + "²", "something else"),
    ],
)
def test_what_is_refused(session, text, said):
    """Whatever is typed ends in a value or in a message that says what is wrong with it."""
    if said is None and text[0] == "&":  # parentheses change nothing
        assert session.evaluate(text) == session.evaluate("&table")
        return
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


@pytest.mark.parametrize(
    ("text", "column"),
    [("1 + ²", 4), ("  1 2", 4), ("(1 + 2", 6), ("a.b[1", 5), ("table[1] )", 9), ("5 * / 5", 4)],
)
def test_where_it_is_wrong(text, column):
    """The message shows the text, and a mark below what does not fit."""
    with pytest.raises(DebugError) as caught:
        parse(text)
    _, shown, mark = str(caught.value).splitlines()

    assert shown == "    " + text
    assert mark == " " * (4 + column) + "^"


def test_long_texts_are_shortened():
    """Of a long text 120 characters are shown; one of 4,096 is an expression, one more is none."""
    for text, shown in (("1 " * 60, 119), ("1 " * 60 + "  1", 120)):
        with pytest.raises(DebugError) as caught:
            parse(text)
        assert len(str(caught.value).splitlines()[1].rstrip()) == 4 + shown
    assert str(caught.value).splitlines()[1].endswith("...")
    assert parse("1" + " " * 4095).value == 1
    with pytest.raises(DebugError, match="at most 4096 characters"):
        parse("1" + " " * 4096)
    assert parse("9" * 400).value == 10**400 - 1
    with pytest.raises(DebugError, match="at most 400 digits"):
        parse("9" * 401)


def test_integers_are_as_wide_as_they_must_be(session):
    """64 bits, signed if they can be, else unsigned, else exact integers."""
    for text, dtype in (
        ("1 << 62", np.int64),
        ("-(1 << 63)", np.int64),
        ("1 << 63", np.uint64),
        ("(1 << 64) - 1", np.uint64),
        ("1 << 64", object),
        ("-(1 << 63) - 1", object),
    ):
        value = session.evaluate(text)
        assert np.asarray(value).dtype == dtype
        assert int(value) == eval(text)


def test_slices_of_arrays(session):
    """From one element up to another; what is read backwards has no elements."""
    assert session.evaluate("table[0:3]").tolist() == [5, 6, 7]
    assert session.evaluate("table[2:3]").tolist() == [7]
    assert session.evaluate("table[2:1]").tolist() == []
    assert session.evaluate("table[1:0]").tolist() == []
    with pytest.raises(DebugError, match="element 3 is out of range"):
        session.evaluate("table[1:4]")
    with pytest.raises(DebugError, match="too many to show"):
        session.evaluate("global.u8[0:1 << 25]")


@pytest.mark.parametrize("given", [5, 3 << 64 | 7, -1, (1 << 130) + 1])
def test_128_bits(session, given):
    """The bits of an integer as a 128-bit register has them: extended with its sign, truncated to 128."""
    value = session.evaluate(f"b128({given})")
    assert (int(value["hi"]) << 64 | int(value["lo"])) == given % (1 << 128)
    lanes = np.ma.getdata(session.evaluate("b128(%r2)"))
    assert lanes["lo"].tolist() == list(range(32))
    assert not lanes["hi"].any()
