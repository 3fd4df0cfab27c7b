"""The parser: what it reads, what it refuses, and where."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_text import module_head
from warpsim.errors import PtxError
from warpsim.ptx.parser import parse
from warpsim.ptx.printer import print_module

ROOT = Path(__file__).parent.parent.parent
KERNELS = sorted((ROOT / "programs").glob("*/kernel.ptx")) + sorted((ROOT / "tests" / "cases").glob("*/kernel.ptx"))
LARGE = 10_000
"""Bytes: nothing but more of the same."""
SMALL = (ROOT / "tests" / "cases" / "function_table" / "kernel.ptx").read_text()
"""With functions, prototypes, tables and initialisers."""
HEAD = module_head("sm_90a", "9.0")


def wrap(body):
    """A module around these instructions."""
    return HEAD + ".entry k() {\n" + body + "\n}\n"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=[pytest.mark.long] * (number % 3 > 0 or p.stat().st_size > LARGE), id=p.parent.name)
        for number, p in enumerate(KERNELS)
    ],
)
def test_round_trip(path):
    """What the printer writes parses back to the same tree and prints the same again."""
    module = parse(path.read_text())
    text = print_module(module)
    again = parse(text)

    assert module == again
    assert text == print_module(again)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("10", 10),
        ("0x1F", 31),
        ("017", 15),
        ("0b101", 5),
        ("7U", 7),
        ("-3", -3),
        ("(1+2)*3", 9),
        ("1<<4|1", 17),
        ("5>3?8:9", 8),
        ("~0", 2**64 - 1),
        ("-7/2", -3),
        ("-7 % 2", 1),  # of unsigned numbers (ptxas 13.0, as in constant_values.txt)
        ("7 / -2", -3),
        ("-7 / -2", 3),
        ("7 % -2", 7),
        ("0 / -5", 0),
        ("6 | 3", 7),
        ("6 & 3", 2),
        ("6 ^ 3", 5),
        ("1 << 5", 32),
        ("1 << 64", 1),
        ("-8 >> 1", -4),
        ("8 >> 65", 4),
        ("2 || 0", 1),
        ("0 || 0", 0),
        ("2 && 4", 1),
        ("2 && 0", 0),
        ("3 == 3", 1),
        ("3 == 4", 0),
        ("3 != 3", 0),
        ("3 != 4", 1),
        ("3 < 3", 0),
        ("2 < 3", 1),
        ("3 <= 3", 1),
        ("4 <= 3", 0),
        ("3 > 3", 0),
        ("4 > 3", 1),
        ("3 >= 3", 1),
        ("2 >= 3", 0),
        ("1.5 < 1.5", 0),
        ("1.5 <= 1.5", 1),
        ("1.5 > 1.5", 0),
        ("1.5 >= 1.5", 1),
        ("1.5 == 1.5", 1),
        ("1.5 != 1.5", 0),
        ("7 - 2 - 1", 4),
        ("2 * 3 + 1 << 1 & 15 ^ 1 | 16", 31),
        ("1 < 2 == 1", 1),
        ("0?1:0?2:3", 3),
    ],
)
def test_integer_literals(literal, value):
    """Every form of integer, and constant expressions with C's precedence."""
    module = parse(wrap(f"mov.s32 %r1, {literal};"))

    assert value == module.items[0].body.statements[0].operands[1].value


@pytest.mark.parametrize(
    ("literal", "bits", "width"),
    [("0f3F800000", 0x3F800000, 32), ("0d3FF0000000000000", 0x3FF0 << 48, 64), ("1.0", 0x3FF0 << 48, 64)],
)
def test_float_literals(literal, bits, width):
    """Floats keep their bits."""
    operand = parse(wrap(f"mov.f32 %f1, {literal};")).items[0].body.statements[0].operands[1]

    assert (bits, width) == (operand.bits, operand.width)


@pytest.mark.parametrize(
    ("literal", "what"),
    [
        ("1/0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1.0/0.0", "division by zero"),
        ("1.0&1", "floating-point"),
    ],
)
def test_expressions_without_a_value(literal, what):
    """What has no value is named, at its line."""
    with pytest.raises(PtxError, match=what) as caught:
        parse(wrap(f"mov.b32 %r1, {literal};"))

    assert [f.line for f in caught.value.findings] == [5]


def test_all_errors_in_one_go():
    """Two bad statements are two findings, each at its line and column."""
    with pytest.raises(PtxError) as caught:
        parse(wrap("mov.u32 %r1 %r2;\nadd.u32 %r1, %r2, %r3;\nld.global.u32 %r1, [%rd1-4];"))

    assert [(f.rule, f.line) for f in caught.value.findings] == [("syntax", 5), ("syntax", 7)]
    assert "^" in str(caught.value)


ODD = 'aZ_$%@09.xfdU,;:|+-*/<>=!~&^?()[]{}"\\\n\t \0\u2028é🙂'


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_mutations_raise_only_ptx_errors(data):
    """A text with tokens deleted, doubled or altered is read or refused, never anything else."""
    words = SMALL.split(" ")
    at = data.draw(st.integers(0, len(words) - 1))
    kind = data.draw(st.sampled_from(["delete", "double", "swap", "alter", "cut"]))
    if kind == "delete":
        del words[at]
    elif kind == "double":
        words.insert(at, words[at])
    elif kind == "swap":
        words[at], words[at - 1] = words[at - 1], words[at]
    elif kind == "alter":
        words[at] = data.draw(st.text(st.sampled_from(ODD), max_size=8))
    else:
        words = words[:at]
    with contextlib.suppress(PtxError):
        parse(" ".join(words))


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        (".reg .bf16 x;", 6),
        (".foo 1;", 1),
        (".maxntid 1;", 1),
        (";", 1),
        ("isspacep.reg %p0, %rd0;", 9),
        ("mov.b32 %r1, sym-4;", 17),
        ("mov.b32 %r1, 089;", 17),
        ("ld.b32 %r1, [4+sym];", 16),
        ("mov.b32 %r1, 0x1u;", 17),
        ("mov.f32 %f1, -0f3F800000;", 15),
        (".loc 1 2 3;", 11),
        ("mov.b32 %r1, 'a';", 14),
    ],
)
def test_refused_statements(statement, column):
    """The assembler calls these syntax errors; one finding each, at the word in the way."""
    with pytest.raises(PtxError) as caught:
        parse(wrap(statement))

    assert [(f.line, f.column, f.text) for f in caught.value.findings] == [(5, column, statement)]


@pytest.mark.parametrize(
    "item",
    [
        ".foo 1;",
        ".global .v4 .align 16 .f32 x;",
        ".global .f32 .v4 x;",
        ".global .u32 x[2] = {1,2,};",
        '.global .u8 x[4] = "abc";',
        ".global .u64 y = generic(a+8);",
        ".entry k() .maxntid 1,1,1,1 { ret; }",
        ".entry k() .maxntid { ret; }",
        ".entry k() .noreturn { ret; }",
        ".entry k(.param .b64 x,) { ret; }",
        ".entry k() { ret; };",
        '.pragma "nounroll"',
        ".extern .visible .global .u32 x;",
        ".target sm_90a",
    ],
)
def test_refused_items(item):
    """What the assembler refuses at module level is refused on its line."""
    with pytest.raises(PtxError) as caught:
        parse(HEAD + item)

    assert {f.line for f in caught.value.findings} == {4}


@pytest.mark.parametrize(
    "item",
    [
        ".global .u64 y = generic(a)+8;",
        ".global .u8 y[2] = {0xFF(a), 0xFF00(generic(a)+8)};",
        ".global .u32 x[2][2] = {{1, 2}, {3, 4}};",
        ".global .u32 x[2] = {};",
        ".func k() .abi_preserve 4 { ret; }",
        ".entry k() .blocksareclusters .reqnctapercluster 2,1,1 .reqntid 4 { ret; }",
        ".entry k { ret; }",
        ".func f()\n.global .u32 x;",
        ".extern .func (.param .b32 r) f(.param .b32 a)\n.visible .entry k() { ret; }",
        '.func f()\n.file 1 "a.cu"',
        ".func f()\n.func g() .noreturn { ret; }",
        ".entry k(.param .align 8 .b64 .ptr .global .align 4 x) { x: ret; y: }",
        '# 1 "a.cu"\n.entry k() { call (%r1), f, (1, %r2, %r3), x; }',
    ],
)
def test_legal_items_round_trip(item):
    """What the assembler takes is read, printed, and read back to the same tree."""
    module = parse(HEAD + item)

    assert module == parse(print_module(module))


def test_an_error_inside_braces_is_one_finding():
    """Recovery counts braces: a bad vector does not end the function."""
    with pytest.raises(PtxError) as caught:
        parse(wrap("mov.b64 {%r1 %r2}, %rd1;\nret;\nmov.b32 %r1 7;"))

    assert [f.line for f in caught.value.findings] == [5, 7]


@pytest.mark.parametrize(
    "text",
    ["(", "{", "[a,", "/*", '"\\', '"', "-", "1?", "(1),", "1+", "*9999999999", "}", "\0", ";{", "call (1,(", "\u00b2"],
)
def test_hostile_repetition(text):
    """Ten thousand times the same opening is refused in good order, never by the recursion limit."""
    with pytest.raises(PtxError):
        parse(HEAD + ".entry k() { mov.b32 a, " + text * 10_000)


@pytest.mark.parametrize(("literal", "value"), [("1.0+2.0*3.0", 7.0), ("-1.5", -1.5), ("1.0/4.0", 0.25), (".5", 0.5)])
def test_float_expressions(literal, value):
    """Decimal constants fold in double precision."""
    operand = parse(wrap(f"mov.f64 %d1, {literal};")).items[0].body.statements[0].operands[1]

    assert struct.unpack("<d", struct.pack("<Q", operand.bits))[0] == value


@pytest.mark.parametrize(
    "function",
    [
        ".func f() .abi_preserve 8 { ret; }",
        ".func f() .abi_preserve_control 8 { ret; }",
        ".entry f() .reqntid 32 .reqnctapercluster 2 .blocksareclusters { ret; }",
    ],
)
def test_directives_of_9_0(function):
    """ptxas 13.0 takes them from PTX 9.0 on."""
    head = ".version {}\n.target sm_90a\n.address_size 64\n"
    parse(head.format("9.0") + function)
    with pytest.raises(PtxError, match=r"needs PTX \.version 9\.0"):
        parse(head.format("8.8") + function)


TILE = """.version {}
.target sm_90a
.address_size 64
.entry f(.param .u64 x) .language 7, 3 {{
.loc 1 1 1
.loc_intermediate 2 3 4
ret; }}
.file 1 "a.py"
.nv_intermediate_source_section {{
  .code_block {{
    .ir_name: "tile ir"
    .sourceFileName: 2
    .source_begin
  }} ? "an odd quote {{
.source_end
  }}
}}
.global .b32 after;
"""


def test_what_tileiras_writes():
    """Places in an intermediate language, and its text, which may be anything, are for debuggers (ptxas 13.4 takes them from 9.4 on)."""
    module = parse(TILE.format("9.4"))
    function, variable = module.items[0], module.items[-1]
    assert function.directives[0].arguments == (7, 3)
    assert (variable.declarators[0].name, variable.span.line) == ("after", TILE.count("\n"))
    text = print_module(module)
    assert ".loc_intermediate 2 3 4\n" in text
    assert print_module(parse(text)) == text
    with pytest.raises(PtxError, match=r"loc_intermediate needs PTX \.version 9\.4"):
        parse(TILE.format("9.3"))
    with pytest.raises(PtxError) as caught:
        parse(TILE.format("9.4").replace(".param", ".hidden .param"))
    assert "sm_80" in caught.value.findings[0].advice


@pytest.mark.parametrize(("width", "most"), [(8, 255), (16, 65535), (32, 2**63)])
def test_numbers_of_a_section(width, most):
    """Those of either sign that fit (ptxas: value out of range); of 32 bits only the least is looked at (ptxas takes 2**32)."""
    least = -(2 ** (width - 1))
    for value in (least - 1, least, most, *([most + 1] if width < 32 else [])):
        text = wrap("") + f"\n.section .debug_x {{ .b{width} {value} }}\n"
        if least <= value <= most:
            parse(text)
        else:
            with pytest.raises(PtxError, match=f"{value} does not fit"):
                parse(text)
