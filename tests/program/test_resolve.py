"""Names to registers, variables with their bytes, parameters with their offsets, labels."""

import struct

import pytest

from ptx_text import module_head
from warpsim.errors import PtxError
from warpsim.program.build import load_program
from warpsim.program.snippet import snippet_program
from warpsim.ptx.parser import parse

HEAD = module_head("sm_90a", "8.7")


def load(text):
    """The program of a module."""
    return load_program(parse(HEAD + text, "<ptx>"), HEAD + text)


def test_scopes_shadow():
    """The same name in a nested block is another register."""
    code = (
        load(".entry k() { .reg .u32 a; mov.u32 a, 1; { .reg .u32 a; mov.u32 a, 2; } mov.u32 a, 3; }")
        .functions["k"]
        .code
    )
    outer, inner, again = (i.operands[0].register.index for i in code)

    assert outer == again
    assert outer != inner


def test_labels_are_scoped():
    """A branch finds the nearest label of its name."""
    code = load(".entry k() { A: bra A; { A: bra A; } ret; }").functions["k"].code

    assert [i.targets for i in code[:2]] == [(0,), (1,)]


def test_param_offsets():
    """Parameters lie at their alignment."""
    params = (
        load(".entry k(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u32 d) { ret; }")
        .functions["k"]
        .params
    )

    assert [(p.name, p.offset, p.size) for p in params] == [("a", 0, 1), ("b", 8, 8), ("c", 16, 20), ("d", 36, 4)]


def test_initial_bytes():
    """Initial values are little-endian; addresses of symbols are relocations."""
    program = load(".global .u16 x[3] = {1, 0x203}; .global .u64 p = x+2; .entry k() { ret; }")
    x, p = program.variables

    assert (x.initial, x.size) == (b"\x01\x00\x03\x02", 6)
    assert p.relocations == ((0, 8, "x", 2, False, None),)


def test_numbered_and_aligned_variables():
    """A count makes variables of their own, up to it; the alignment is that of the whole vector, or what is declared."""
    program = load(
        ".global .v2 .f32 v<3>; .const .align 32 .u16 h[5]; .global .u8 m[2][3] = {{1,2},{4}};"
        " .entry k() { .shared .v4 .b32 s; .reg .b64 a; mov.u64 a, v2; ret; }"
    )
    found = [(v.name, v.size, v.align) for v in program.variables]

    assert found[:5] == [("v0", 8, 8), ("v1", 8, 8), ("v2", 8, 8), ("h", 10, 32), ("m", 6, 1)]
    assert program.variables[4].initial == bytes([1, 2, 4])  # in a row, as the assembler puts them; zeros follow
    with pytest.raises(PtxError, match="v3"):
        load(".global .v2 .f32 v<3>; .entry k() { .reg .b64 a; mov.u64 a, v3; }")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (".global .align 3 .b32 x;", "directive"),
        (".func f(.param .align 8 .b8 q[8]) { ret; } .entry k() { .param .align 256 .b8 p[8]; ret; }", "directive"),
        (".global .pred x;", "directive"),
        (".entry k() { .visible .shared .b32 x; }", "linkage"),
        (".extern .global .u32 x = 1;", "linkage"),
        (".shared .u32 x = 1;", "initialiser"),
        (".global .u32 x[2] = {1, 2, 3};", "initialiser"),
        (".global .u32 x[];", "directive"),
        (".global .u32 x; .global .u32 x;", "redeclared"),
        (".entry k() { .reg .b32 a; .reg .b64 a; }", "redeclared"),
    ],
)
def test_declarations_that_are_refused(text, rule):
    """Each under its rule, and alone."""
    with pytest.raises(PtxError) as caught:
        load(text)

    assert [f.rule for f in caught.value.findings] == [rule]


def test_vector_register():
    """The components of a vector register are registers; a subscripted symbol is an address."""
    code = (
        load(".entry k() { .reg .v2 .f32 v; .reg .b64 a; .local .b8 l[8]; mov.f32 v.x, v.y; mov.u64 a, l; }")
        .functions["k"]
        .code
    )

    assert [o.register.name for o in code[0].operands] == ["v.x", "v.y"]
    assert code[1].operands[1].variable.name == "l"


def test_a_definition_before_an_external_declaration():
    """The definition stays, whatever the other says of its size."""
    for shape in ("[4]", "[]"):
        (x,) = load(f".global .u32 x[4] = {{1, 2}}; .extern .global .u32 x{shape}; .entry k() {{ ret; }}").variables
        assert (x.size, x.initial[:8], x.linkage) == (16, struct.pack("<2I", 1, 2), None)


def test_source_lines():
    """.loc says where an instruction comes from."""
    code = load('.file 1 "a.cu"\n.entry k() {\n.loc 1 7 3\nret;\n}').functions["k"].code

    assert code[0].source == ("a.cu", 7)


def test_inlined_lines():
    """inlined_at names a place that a .loc before it has; calls follow from it, the innermost first."""
    text = """.entry k() {
.loc 1 9 1
ret;
.loc 2 40 3, function_name f, inlined_at 1 9 1
ret;
.loc 3 5 2, function_name g, inlined_at 2 40 3
ret;
.loc 1 12 1
ret;
.loc 2 40 3, function_name f, inlined_at 1 12 1
ret;
.loc 3 5 2, function_name g, inlined_at 2 40 3
ret;
}
.file 1 "a.cu"
.file 2 "f.h"
.file 3 "g.h"
.section .debug_str { f: .b8 0 g: .b8 0 }
"""
    code = load(text).functions["k"].code

    assert [(i.source, i.inlined_at) for i in code[:6]] == [
        (("a.cu", 9), ()),
        (("f.h", 40), (("a.cu", 9),)),
        (("g.h", 5), (("f.h", 40), ("a.cu", 9))),
        (("a.cu", 12), ()),
        (("f.h", 40), (("a.cu", 12),)),
        (("g.h", 5), (("f.h", 40), ("a.cu", 12))),
    ]


def test_snippet_types_from_use():
    """A register that is not declared has the type that its uses agree on."""
    registers = snippet_program(
        "add.f32 d, a, b; mov.b32 x, d; setp.lt.s32 p, x, 3; @p bra L; mov.b64 {lo, hi}, w; ld.shared.v2.f32 {u, v}, [at+4]; L: st.f32 [g], d;"
    ).registers

    found = {name: register.type.name for name, register in registers.items()}
    expected = {
        "d": "f32",
        "a": "f32",
        "b": "f32",
        "x": "s32",
        "p": "pred",
        "lo": "b32",
        "hi": "b32",
        "w": "b64",
        "u": "f32",
    }
    assert found == {**expected, "v": "f32", "at": "u32", "g": "u64"}


def test_snippet_types_of_second_destinations():
    """``p|q``, where q may be left out."""
    registers = snippet_program(
        "setp.lt.f16x2 p|q, a, b; setp.lt.and.f16x2 r|s, c, d, p; setp.lt.f16x2 t, e, f; shfl.sync.down.b32 g|u, a, 1, 31, -1;"
    ).registers

    found = {name: register.type.name for name, register in registers.items()}
    assert found == {**dict.fromkeys("pqrstu", "pred"), **dict.fromkeys("abcdefg", "b32")}


def test_snippet_keeps_declarations():
    """What the code declares keeps its type."""
    registers = snippet_program(".reg .b32 %r<4>; .reg .u16 h; add.s32 %r1, %r2, 1; cvt.u32.u8 x, h;").registers

    assert {n: r.type.name for n, r in registers.items()} == {"x": "u32", "h": "u16", "%r1": "b32", "%r2": "b32"}


@pytest.mark.parametrize(
    ("declaration", "alignment"),
    [
        (".align 8 .align 16 .global .u32 x;", 16),
        (".align 16 .align 8 .global .u32 x;", 16),
        (".align 64 .global .align 32 .u32 x;", 64),
        (".align 32 .global .align 64 .u32 x;", 64),
        (".global .align 64 .align 32 .u32 x;", 64),
    ],
)
def test_the_largest_alignment_holds(declaration, alignment):
    """Several alignments, in front of the state space too: sections of ptxas 13.0 have the largest."""
    assert [v.align for v in load(declaration + " .entry k() { ret; }").variables] == [alignment]


def test_more_variables_than_anybody_needs():
    """x<N> in memory declares a million variables, and no billion."""
    with pytest.raises(PtxError, match="more than 1,048,576"):
        load(".global .u8 x<1000000000>; .entry k() { ret; }")
