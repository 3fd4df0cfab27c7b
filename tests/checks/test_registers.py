"""Registers that some lanes read before anything wrote them (rule uninitialised)."""

import numpy as np
import pytest

import warpsim
from warpsim.analysis.strict import check_program

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a) { .reg .b32 t, x, y; .reg .b64 q, w; .reg .pred p, z;
ld.param.u64 q, [a]; mov.u32 t, %tid.x; mul.wide.u32 w, t, 4; add.u64 q, q, w; setp.lt.u32 p, t, 7;
"""


def launch(body, **options):
    """One warp; the body starts in line 6."""
    return warpsim.load(HEAD + body + "\nret; }\n")["k"](1, 32, (np.zeros(64, np.uint32),), **options)


@pytest.mark.parametrize(
    ("body", "line", "lanes"),
    [
        ("@p mov.u32 x, 5;\nst.global.u32 [q], x;", 7, range(7, 32)),
        ("@p bra A;\nmov.u32 x, 5;\nA: st.global.u32 [q], x;", 8, range(7)),
        ("@p bra A;\nmov.u32 x, 5;\nA: add.u32 y, x, 1;\nst.global.u32 [q], y;", 9, range(7)),
        ("@p mov.u32 x, 0;\nmul.wide.u32 w, x, 4;\nadd.u64 q, q, w;\nld.global.u32 y, [q];", 9, range(7, 32)),
        ("@p setp.eq.u32 z, t, 1;\n@z bra A;\nst.global.u32 [q], t;\nA:", 7, range(7, 32)),
        ("add.u32 y, x, 1;\nst.global.u32 [q], y;", 7, range(32)),
    ],
)
def test_lanes_that_nothing_wrote(body, line, lanes):
    """The lanes are those that read what others wrote, or nobody."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(body)
    found = caught.value.findings[0]

    assert (found.rule, found.line, found.lanes) == ("uninitialised", line, tuple(lanes))


SOURCES = {
    "addc.u32 x, t, 1;\nst.global.u32 [q], x;": ("register x", "the carry flag CC.CF", 6),
    "@p add.cc.u32 y, t, 1;\naddc.u32 x, t, 1;\nst.global.u32 [q], x;": ("register x", "the carry flag CC.CF", 7),
    "subc.cc.u32 x, t, 1;\naddc.u32 x, t, 1;\nadd.u32 x, x, 1;\nst.global.u32 [q], x;": ("register x", "the carry flag CC.CF", 6),
    "madc.lo.u32 x, t, t, t;\nst.global.u32 [q], x;": ("register x", "the carry flag CC.CF", 6),
    "add.cc.u32 y, x, 1;\naddc.u32 t, t, 1;\nst.global.u32 [q], t;": ("register t", "register x", 6),
    "mov.b32 y, x;\nadd.u32 y, y, 1;\nst.global.u32 [q], y;": ("register y", "register x", 6),
    "add.u32 x, x, 1;\nst.global.u32 [q], x;": ("register x", "register x", 6),
    "setp.eq.u32 z, x, 1;\n@z bra A;\nst.global.u32 [q], t;\nA:": ("register z", "register x", 6),
}  # fmt: skip


@pytest.mark.parametrize("body", SOURCES)
def test_where_it_comes_from(body):
    """What is computed from a register that nothing wrote was written itself: the finding names that register, and who read it."""
    name, source, line = SOURCES[body]
    (found,) = launch(body, on_finding="collect").findings

    assert f"{name} is used as " in found.message
    assert f"comes from {source}, which was never written" in found.message
    assert found.other.line == line
    if "@p" not in body:
        (still,) = check_program(warpsim.load(HEAD + body + "\nret; }\n").program)
        assert f"comes from {source}, which no path writes before line {line}" in still.message
        assert (still.line, still.other.line) == (found.line, line)


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 x, 1;\n@p mov.u32 x, 5;\nst.global.u32 [q], x;",
        "@p mov.u32 x, 5;\n@p st.global.u32 [q], x;",
        "@p mov.u32 x, 5;\n@!p mov.u32 x, 6;\nst.global.u32 [q], x;",
        "@p bra A;\nmov.u32 x, 5;\nbra E;\nA: mov.u32 x, 6;\nE: st.global.u32 [q], x;",
        "add.u32 y, x, 1;\nmov.u32 y, t;\nst.global.u32 [q], y;",
        "and.b32 y, x, 0;\nst.global.u32 [q], y;",
    ],
)
def test_correct_programs_are_silent(body):
    """Every lane wrote what it reads, or what it read does not matter."""
    assert launch(body).findings == ()


HALVES = ".reg .b16 h, u;\ncvt.u16.u32 h, t;\nmov.b32 x, {h, u};\n"


@pytest.mark.parametrize("type", ["add.f16x2", "fma.rn.bf16x2", "mul.f16x2"])
@pytest.mark.parametrize(("stored", "lines"), [("h", []), ("u", [11])])
def test_elements_of_packed_types(type, stored, lines):
    """An element of a result depends on the elements of the same place: Triton sums pairs with whatever a register holds above."""
    sources = "x, x, x" if "fma" in type else "x, x"
    body = f"{HALVES}{type} y, {sources};\nmov.b32 {{h, u}}, y;\nst.global.u16 [q], {stored};"
    result = launch(body, on_finding="collect")

    assert [f.line for f in result.findings] == lines


def test_a_predicate_of_packed_types():
    """Each predicate is of one element."""
    body = HALVES + "setp.eq.f16x2 z|p, x, x;\n@z st.global.u32 [q], t;\nret;\n@p st.global.u32 [q], t;"

    assert launch(body).findings == ()
    (found,) = launch(body.replace("@z", "@p", 1), on_finding="collect").findings
    assert (found.line, found.lanes) == (10, tuple(range(32)))


def test_unchecked():
    """Without the check nothing is said."""
    assert launch("st.global.u32 [q], x;", checks="none").findings == ()


FUNCTION = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 out) f(.param .b32 in) {{ .reg .b32 a, b; .reg .pred p; ld.param.b32 a, [in]; setp.lt.u32 p, a, 7;
{0}
st.param.b32 [out], b; ret; }}
.visible .entry k(.param .u64 a) {{ .reg .b32 t, x; .reg .b64 q, w; ld.param.u64 q, [a]; mov.u32 t, %tid.x; mul.wide.u32 w, t, 4; add.u64 q, q, w;
{{ .param .b32 i; .param .b32 o; st.param.b32 [i], t; call (o), f, (i); ld.param.b32 x, [o]; }}
{{ .param .b32 i; .param .b32 o; mov.u32 t, 9; st.param.b32 [i], t; call (o), f, (i); ld.param.b32 x, [o]; }}
st.global.u32 [q], x; ret; }}
"""


@pytest.mark.parametrize(
    ("body", "lanes"),
    [("mov.u32 b, 1;", None), ("", range(32)), ("@p mov.u32 b, 1;", range(32)), ("@!p mov.u32 b, 1;", None)],
)
def test_registers_of_a_function(body, lanes):
    """What an earlier call left in them is gone."""
    result = warpsim.load(FUNCTION.format(body))["k"](1, 32, (np.zeros(64, np.uint32),), on_finding="collect")
    found = [(f.rule, f.line, f.lanes) for f in result.findings]

    assert found == ([] if lanes is None else [("uninitialised", 10, tuple(lanes))])


WGMMA = """mov.b64 w, 0; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a, b, c, d}, w, w, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""


@pytest.mark.parametrize(
    ("body", "name"), [("st.global.b128 [q], e;", "e"), (f"{WGMMA}\nout: st.global.f32 [q], b;", "b")]
)
def test_registers_followed_only_where_they_are_stored(body, name):
    """Registers of 128 bits, and accumulators where no wgmma ran: they must not reach global memory unwritten."""
    head = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 q, w; .reg .f32 a, b, c, d; .reg .b128 e; .reg .b32 t; .reg .pred z;
ld.param.u64 q, [p]; mov.u32 t, %ntid.x; setp.eq.u32 z, t, 128; @z bra out;
"""
    text = head + (body if "out:" in body else f"out: {body}") + "\nret; }\n"
    with pytest.raises(
        warpsim.ExecutionError, match=f"register {name} is used as the value of a store to global"
    ) as caught:
        warpsim.load(text)["k"](1, 128, (np.zeros(64, np.uint32),))
    assert caught.value.findings[0].rule == "uninitialised"


def test_undefined_parts_of_128_bits():
    """They count as defined."""
    body = "{ .reg .b128 z; .reg .b64 u; mov.b128 z, {u, u}; mov.b128 {u, w}, z; }"
    text = HEAD.replace("8.0", "8.3").replace("sm_80", "sm_90") + body + "\nret; }\n"

    assert warpsim.load(text)["k"](1, 32, (np.zeros(64, np.uint32),)).findings == ()


UNSURE = "setp.lt.u32 z, t, 3;\n@!z mov.u32 y, t;\nsetp.eq.u32 z, y, 20;\n"
"""z is true in lane 20 and undefined in lanes 0 to 2."""
WIDE = """{ .reg .b64 lo, hi; .reg .b128 e; mov.b64 w, 1; mov.b64 lo, 2; mov.b64 hi, 2;
{ .reg .b64 half; @p mov.b64 half, 3; mov.b64 UNDEFINED, half; }
mov.b128 e, {lo, hi};\n@z mov.b128 e, {w, w};\nmov.b128 {lo, hi}, e;\ncvt.u32.u64 x, READ; st.global.u32 [q], x; }"""
BOTH = {0, 1, 2, *range(7, 32)} - {20}


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        ("@p mov.u32 x, 5;\n@z mov.u32 x, 6;\nst.global.u32 [q], x;", BOTH),
        ("mov.u32 x, 5;\n@z mov.u32 x, 6;\nst.global.u32 [q], x;", {0, 1, 2}),
        (WIDE.replace("UNDEFINED", "lo").replace("READ", "lo"), BOTH),
        (WIDE.replace("UNDEFINED", "lo").replace("READ", "hi"), {0, 1, 2}),
        (WIDE.replace("UNDEFINED", "hi").replace("READ", "lo"), {0, 1, 2}),
        (WIDE.replace("UNDEFINED", "hi").replace("READ", "hi"), BOTH),
    ],
    ids=["some", "none", "lo lo", "lo hi", "hi lo", "hi hi"],
)
def test_what_a_guard_may_have_written(body, lanes):
    """Where nobody knows whether an instruction ran, its result is undefined; where it did not run, what was there before is."""
    text = HEAD.replace("8.0", "8.3").replace("sm_80", "sm_90") + UNSURE + body + "\nret; }\n"
    (found,) = warpsim.load(text)["k"](1, 32, (np.zeros(64, np.uint32),), on_finding="collect").findings

    assert (found.rule, set(found.lanes)) == ("uninitialised", lanes)
