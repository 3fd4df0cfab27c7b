"""Values that the assembler computes: as an H200 has them, and as exact arithmetic has them."""

from pathlib import Path

import numpy as np
import pytest

import foldings
import warpsim

TESTS = Path(__file__).parents[1]
PROGRAMS = foldings.programs(foldings.COUNT)
LATE = {1534, 2139}
"""Programs in which ptxas keeps a quotient of constants, for a reason in another instruction that nobody reads."""


MORE = foldings.more(foldings.COUNT)
NANS = {k for k, lines in enumerate(MORE) if lines[0].startswith("mul.f32") and "F800000, 0f7FC00000" in lines[0]}
"""Products of 1 or -1 and a NaN, which ptxas takes for copies: the NaN keeps its bits."""


def differing(first, last, programs=PROGRAMS, recorded="foldings_h200.npz"):
    """The programs whose result is not the recorded one."""
    with np.load(TESTS / "data" / recorded) as stored:
        expected = stored["bits"][first:last]
    memory = np.zeros(last - first + 1, np.uint32)
    module = warpsim.load(foldings.kernel(programs[first:last]))

    module["foldings"]((1,), (1,), (memory, 0), checks="none", device=warpsim.Device("sm_90"))

    return [first + int(k) for k in np.flatnonzero(memory[1:] != expected)]


def test_as_recorded():
    """Functions of literals, of arithmetic on them, and where ways meet."""
    assert differing(0, 120) == []


parts = pytest.mark.parametrize(
    "part", [pytest.param(4, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.sweep)]
)


@parts
def test_all_as_recorded(part):
    """The same for all programs, and for every fourth hundred."""
    assert {k for at in range(100, foldings.COUNT, 100 * part) for k in differing(at, at + 100)} <= LATE


def test_parts_of_a_constant():
    """The assembler follows what `mov` unpacks: both sines are immediates in the machine code of ptxas 13.0 for sm_90. That of
    10**6 is not what the unit gives, 0xbef15ae7."""
    text = """.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 a, x; .reg .f32 f<4>; ld.param.u64 a, [p];
mov.b64 x, 0x3f80000049742400; mov.b64 {f0, f1}, x; sin.approx.f32 f2, f0; sin.approx.f32 f3, f1; st.global.v2.f32 [a], {f2, f3}; ret; }
"""
    memory = np.zeros(2, np.uint32)
    warpsim.load(text)["k"](1, 1, (memory,), device=warpsim.Device("sm_90"))

    assert [hex(word) for word in memory] == ["0xbeb33259", "0x3f576aa4"]


def test_more_as_recorded():
    """Flushing products of literals, which see infinity first; and what constant predicates choose (an H100)."""
    assert set(differing(0, 120, MORE, "foldings_h100.npz")) <= NANS


@parts
def test_all_of_more_as_recorded(part):
    """The same for all of these, and for every fourth hundred."""
    starts = range(100, foldings.COUNT, 100 * part)
    found = {k for at in starts for k in differing(at, at + 100, MORE, "foldings_h100.npz")}

    assert found <= NANS


KERNEL = """.version 8.0
.target TARGET
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .f32 %f<9>; .reg .b64 %d; .reg .pred %q; .reg .b32 %r<3>;
    ld.param.u64 %d, [p];
    ld.global.v2.f32 {%f6, %f7}, [%d];
    BODY
    st.global.f32 [%d], %f1;
    ret;
}"""


def run(body, target="sm_80"):
    """The f32 in %f1 as bits; %f6 is 4.902399 (0x409CE074), %f7 is 1 + 2^-12."""
    memory = np.array([0x409CE074, 0x3F800800], np.uint32)
    section = ".section .debug_str { }" if "debug" in target else ""  # without one, ptxas refuses the option
    warpsim.load(KERNEL.replace("BODY", body).replace("TARGET", target) + section)["k"]((1,), (1,), (memory,))
    return int(memory[0])


LITERAL = "mov.f32 %f2, 0f409CE074; "
FOLDED, UNIT = 0xBF7B6481, 0xBF7B6483
"""The sine of 0x409CE074, rounded, and from the unit (an H200)."""
TEXTS = {
    "sin.approx.f32 %f1, 0f409CE074;": FOLDED,
    "sin.approx.f32 %f1, %f6;": UNIT,
    LITERAL + "sin.approx.ftz.f32 %f1, %f2;": FOLDED,
    LITERAL + "add.f32 %f3, %f2, %f2; mul.f32 %f3, %f3, 0f3F000000; sin.approx.f32 %f1, %f3;": FOLDED,
    LITERAL + "fma.rn.f32 %f3, %f2, 0f3F800000, 0f00000000; sin.approx.f32 %f1, %f3;": UNIT,
    LITERAL + "mov.b32 %r1, %f2; shr.u32 %r2, %r1, 2; shl.b32 %r2, %r2, 2; mov.b32 %f3, %r2; sin.approx.f32 %f1, %f3;": FOLDED,
    LITERAL + "setp.gt.f32 %q, %f7, %f6; @%q mov.f32 %f2, %f7; sin.approx.f32 %f1, %f2;": UNIT,
    LITERAL + "setp.gt.f32 %q, %f7, %f6; @%q bra L; mov.f32 %f2, 0f409CE074; L: sin.approx.f32 %f1, %f2;": FOLDED,
    LITERAL + "setp.gt.f32 %q, %f7, %f6; @%q bra L; mov.f32 %f2, %f6; L: sin.approx.f32 %f1, %f2;": UNIT,
    LITERAL + "setp.eq.u32 %q, 3, 4; @!%q bra L; mov.f32 %f2, %f6; L: sin.approx.f32 %f1, %f2;": FOLDED,
    LITERAL + "setp.eq.u32 %q, 3, 3; setp.eq.and.u32 %q, 1, 1, !%q; @%q mov.f32 %f2, %f6; sin.approx.f32 %f1, %f2;": FOLDED,
    LITERAL + "setp.eq.u32 %q, 3, 4; setp.eq.and.u32 %q, 1, 1, !%q; @%q mov.f32 %f2, %f6; sin.approx.f32 %f1, %f2;": UNIT,
    LITERAL + "{ .reg .b64 %e; mov.b64 %e, {%f2, %f6}; mov.b64 {%f3, %f4}, %e; sin.approx.f32 %f1, %f4; }": UNIT,
    LITERAL + "{ .reg .b64 %e; setp.lt.f32 %q, %f7, %f6; @%q mov.b64 %e, {%f2, %f6}; mov.b64 {%f3, %f4}, %e; sin.approx.f32 %f1, %f4; }": UNIT,
    LITERAL + "mov.u32 %r1, 0; L: sin.approx.f32 %f1, %f2; add.u32 %r1, %r1, 1; setp.lt.u32 %q, %r1, 3; @%q bra L;": FOLDED,
    LITERAL + "mov.u32 %r1, 0; L: sin.approx.f32 %f1, %f2; mov.f32 %f2, %f6; add.u32 %r1, %r1, 1; setp.lt.u32 %q, %r1, 3; @%q bra L;": UNIT,
}  # fmt: skip


@pytest.mark.parametrize("body", TEXTS)
def test_what_is_constant(body):
    """The assembler takes constants through arithmetic that it computes, and over places where ways meet."""
    assert run(body) == TEXTS[body]


def test_debug_code_is_not_optimised():
    """Under ``.target debug`` nothing is fused and no function of a literal is computed (an H200: 0 and the unit's sine)."""
    fused = "mul.f32 %f2, %f7, 0f3F7FF800; sub.f32 %f1, %f2, 0f3F800400;"
    optimised, plain = run(fused), run(fused, "sm_80, debug")

    assert (optimised, plain) == (0xB3000000, 0)
    assert run("sin.approx.f32 %f1, 0f409CE074;", "sm_80, debug") == UNIT


def test_a_product_of_constants_is_not_fused():
    """The assembler multiplies the constants; what is left is a sum, rounded for itself."""
    product, plain = np.float32(1 + 2.0**-12) * np.float32(1 - 2.0**-13), np.float32(1 + 2.0**-12)
    body = "mul.f32 %f2, 0f3F800800, 0f3F7FF800; sub.f32 %f1, %f2, %f7;"

    assert run(body) == int((product - plain).view(np.uint32))


def test_a_quotient_by_a_constant_multiplies_by_its_reciprocal():
    """The reciprocal is rounded correctly, where the unit gives one less (read off ptxas's code, and on an H200)."""
    divisor = np.uint32(0x40400008).view(np.float32)
    expected = np.uint32(0x409CE074).view(np.float32) * np.float32(1 / np.float64(divisor))

    assert run("div.approx.f32 %f1, %f6, 0f40400008;") == int(expected.view(np.uint32))
    assert run(
        "mov.f32 %f2, %f7; sub.f32 %f2, %f2, %f7; add.f32 %f2, %f2, 0f40400008; div.approx.f32 %f1, %f6, %f2;"
    ) != int(expected.view(np.uint32))
