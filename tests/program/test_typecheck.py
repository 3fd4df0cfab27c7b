"""Every rule of the load phase: the faulty text, and the nearest correct one."""

import gzip
import json
from pathlib import Path

import pytest

from ptx_text import module_head
from warpsim.errors import PtxError
from warpsim.program.build import load_program
from warpsim.program.program import Operand
from warpsim.ptx.parser import parse

HEAD = module_head("sm_90a", "8.7")
REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .f64 %fd<4>; "
    ".reg .u32 %u<4>; .reg .f16x2 %hx<4>; .reg .f16 %hf<4>; .reg .v2 .f32 v;"
)
MODULES = json.loads(gzip.decompress((Path(__file__).parent.parent / "data" / "syntax.json.gz").read_bytes()))


def load(text):
    """The program of a module."""
    return load_program(parse(text, "<ptx>"), text)


def body(code):
    """A module around some instructions, which stand in line 6."""
    shared = ".shared .align 128 .b8 smem[1024];"
    return f"{HEAD}{shared}.visible .entry k(.param .u64 P0) {{\n{REGISTERS}\n{code}\nret; }}\n"


def rules(text):
    """(rule, line) of every finding of a module."""
    try:
        load(text)
    except PtxError as error:
        return [(finding.rule, finding.line) for finding in error.findings]
    return []


@pytest.mark.parametrize(
    ("rule", "faulty", "correct"),
    [
        ("undeclared", "add.u32 %r0, %r1, %r8;", "add.u32 %r0, %r1, %r7;"),
        ("undeclared", "bra nowhere;", "bra somewhere; somewhere:"),
        ("undeclared", "bra inner; { inner: ret; }", "{ inner: bra inner; }"),
        ("redeclared", ".reg .u32 %r3;", "{ .reg .u32 %r3; }"),
        ("redeclared", "A: A: ret;", "A: { A: ret; }"),
        ("operand-type", "add.f32 %f0, %f1, 1;", "add.f32 %f0, %f1, 1.0;"),
        ("operand-type", "add.u32 %f0, %r1, 1;", "and.b32 %f0, %r1, 1;"),
        ("operand-type", "mov.b32 %r0, 1.0;", "mov.b32 %r0, 0f3F800000;"),
        ("operand-type", "add.u32 %r0, %tid.x, 1;", "mov.u32 %r0, %tid.x;"),
        ("operand-type", "mov.u32 %r0, %clock64;", "mov.u64 %rd0, %clock64;"),
        ("operand-type", "add.u32 _, %r0, %r1;", "setp.eq.u32 %p0|_, %r0, %r1;"),
        ("operand-type", "add.f16x2 %u0, %hx0, %hx1;", "add.f16x2 %r0, %hx0, %hx1;"),
        ("operand-type", "ld.global.u8 %f0, [%rd0];", "ld.global.u8 %r0, [%rd0];"),
        ("operand-type", "ld.global.u32 %r0, [%f0];", "ld.global.u32 %r0, [%rd0];"),
        ("operand-type", "ld.global.u32 %r0, [smem];", "ld.shared.u32 %r0, [smem];"),
        ("operand-type", "st.param.u64 [P0], %rd0;", "ld.param.u64 %rd0, [P0];"),
        ("operand-type", "ld.global.u32 %r0, [16];", "ld.local.u32 %r0, [16];"),
        ("operand-type", "@%r0 ret;", "@!%p0 ret;"),
        ("operand-type", "add.u32 %r0, smem, 4;", "mov.u32 %r0, smem;"),
        ("operand-type", "cvta.to.global.u64 %rd0, smem;", "cvta.shared.u64 %rd0, smem;"),
        ("operand-type", "mov.f32 %f0, v.z;", "mov.f32 %f0, v.y;"),
        ("operand-count", "add.u32 %r0, %r1;", "add.u32 %r0, %r1, %r2;"),
        ("operand-count", "ld.global.v2.f32 {%f0, %f1, %f2}, [%rd0];", "ld.global.v2.f32 {%f0, %f1}, [%rd0];"),
        ("illegal-form", "add.sat.u64 %r0, %r1, %r2;", "add.sat.s32 %r0, %r1, %r2;"),
        ("immediate-range", "bar.sync 16;", "bar.sync 15;"),
        ("immediate-range", "pmevent 16;", "pmevent 15;"),
        ("target", "tcgen05.wait::ld.sync.aligned;", "ret;"),
        ("syntax", "addd.u32 %r0, %r1, %r2;", "add.u32 %r0, %r1, %r2;"),
        ("linkage", ".extern .shared .b8 e[];", ".shared .b8 e[4];"),
        ("directive", ".reg .b32 x[4];", ".reg .b32 x<4>;"),
        ("directive", ".reg .v2 .pred x;", ".reg .v2 .b32 x;"),
        ("directive", ".shared .pred x;", ".shared .b8 x;"),
        ("directive", ".reg .bf16 x;", ".reg .b16 x;"),
        ("operand-type", "brx.idx %r0, ts; A: ts: .branchtargets A;", "A: ts: .branchtargets A; brx.idx %r0, ts;"),
    ],
)
def test_rule_in_a_body(rule, faulty, correct):
    """The faulty instruction is reported by its rule at its line; its correct neighbour loads."""
    assert rules(body(faulty))[:1] == [(rule, 6)]
    assert rules(body(correct)) == []


@pytest.mark.parametrize(
    ("rule", "line", "faulty", "correct"),
    [
        ("initialiser", 4, ".global .f32 x = 1;", ".global .f32 x = 1.0;"),
        ("initialiser", 4, ".global .u32 x = 1.0;", ".global .u32 x = 1;"),
        ("initialiser", 4, ".global .u32 x = y; .global .u32 y;", ".global .u32 y; .global .u32 x = y;"),
        ("initialiser", 4, ".global .u32 y; .global .u8 x = y;", ".global .u32 y; .global .u8 x = 0xFF(y);"),
        ("initialiser", 4, ".shared .u32 x = 1;", ".shared .u32 x;"),
        ("initialiser", 4, ".global .u32 x[2] = {1, 2, 3};", ".global .u32 x[2] = {1, 2};"),
        ("directive", 4, ".global .u32 x[];", ".extern .shared .u32 x[];"),
        ("directive", 4, ".global .align 3 .u32 x;", ".global .align 8 .u32 x;"),
        ("directive", 4, ".entry q(.reg .u32 a) { ret; }", ".entry q(.param .u32 a) { ret; }"),
        ("directive", 4, ".entry q() .maxntid 1,1,1,1 { ret; }", ".entry q() .maxntid 1,1,1 { ret; }"),
        ("directive", 1, ".const .b8 x[65537];", ".const .b8 x[65536];"),
        (
            "linkage",
            4,
            ".extern .func f(); .entry q() { call f; ret; }",
            ".func f() { ret; } .entry q() { call f; ret; }",
        ),
        ("undeclared", 4, ".alias a, k;", ".global .u32 a;"),
        (
            "operand-count",
            4,
            ".func f(.reg .u32 a) { ret; } .entry q() { call f; ret; }",
            ".func f() { ret; } .entry q() { call f; ret; }",
        ),
    ],
)
def test_rule_in_a_module(rule, line, faulty, correct):
    """The faulty declaration is reported by its rule at its line; its correct neighbour loads."""
    kernel = ".visible .entry k() { ret; }\n"

    assert (rule, line) in rules(HEAD + faulty + kernel)
    assert rules(HEAD + correct + kernel) == []


def test_target():
    """A target needs the version that introduced it, an instruction its target and version."""
    kernel = ".address_size 64\n.visible .entry k() { .reg .b32 a; activemask.b32 a; ret; }\n"

    assert rules(f".version 7.8\n.target sm_90a\n{kernel}") == [("target", 2)]
    assert rules(f".version 8.0\n.target sm_90a\n{kernel}") == []
    assert rules(f".version 6.1\n.target sm_70\n{kernel}") == [("target", 4)]
    assert rules(f".version 6.2\n.target sm_70\n{kernel}") == []


def test_all_problems_at_once():
    """Every problem of a module is reported, in the order of the text."""
    assert rules(body("add.u32 %r0, %r1;\nadd.u31 %r0, %r0, 1;\nbra x;")) == [
        ("operand-count", 6),
        ("illegal-form", 7),
        ("undeclared", 8),
    ]


def test_finding_is_complete():
    """A finding has the line's text, a column and the nearest form."""
    with pytest.raises(PtxError) as caught:
        load(body("  add.sat.u64 %r0, %r1, %r2;"))
    (finding,) = caught.value.findings

    assert finding.text == "  add.sat.u64 %r0, %r1, %r2;"
    assert finding.column == 3
    assert "add{.sat}.s32" in finding.advice or "add" in finding.advice
    assert finding.instruction == "add.sat.u64"


@pytest.mark.parametrize("case", MODULES, ids=[case["name"] for case in MODULES])
def test_verdict(case):
    """A module is accepted or refused as the assembler does it, at the same line; unsupported ones are not judged."""
    try:
        load(case["text"])
        found = None
    except PtxError as error:
        found = error.findings[0]
    if found is not None and found.rule == "unsupported":
        pytest.skip("not in this version")

    assert (found is None) == case["accepted"]
    if found is not None and case["line"] is not None:
        assert found.line == case["line"]


@pytest.mark.parametrize("formal", ["f16x2", "b32", "u32", "f32"])
@pytest.mark.parametrize("actual", ["f16x2", "b32", "u32", "f32", "s32"])
def test_registers_handed_over(formal, actual):
    """Floats and integers are not each other's arguments; packed halves are bits (20 verdicts of ptxas 13.0)."""
    text = f".version 8.7\n.target sm_90a\n.func fn(.reg .{formal} b)\n{{\nret;\n}}\n.entry k()\n{{\n.reg .{actual} r;\ncall fn, (r);\nret;\n}}\n"
    if {formal, actual} in ({"f32", "u32"}, {"f32", "s32"}):
        with pytest.raises(PtxError) as caught:
            load_program(parse(text))
        assert [(f.rule, f.line) for f in caught.value.findings] == [("operand-type", 10)]
    else:
        load_program(parse(text))


def line_of(text):
    """The line of a module's first error, 0 where there is none."""
    try:
        load_program(parse(text))
    except PtxError as error:
        return error.findings[0].line
    return 0


WORDS, HALVES = "u32 b32 s32", "u16 b16 u32 b32 s32"
SPECIAL_REGISTERS = {
    **dict.fromkeys(("tid.x", "ntid.y", "ctaid.z", "nctaid.x"), HALVES),
    **dict.fromkeys(("laneid", "warpid", "nwarpid", "smid", "nsmid", "lanemask_eq", "clock", "clock_hi"), WORDS),
    **dict.fromkeys(("globaltimer_lo", "envreg1", "pm0", "total_smem_size", "dynamic_smem_size"), WORDS),
    **dict.fromkeys(("clusterid.x", "cluster_ctaid.y", "cluster_ctarank", "reserved_smem_offset_0"), WORDS),
    **dict.fromkeys(("clock64", "globaltimer", "pm0_64", "current_graph_exec"), "u64 b64"),
    **{"gridid": f"{HALVES} u64 b64", "is_explicit_cluster": "pred", "tid": ""},
}
"""The types as which ptxas 13.0 lets mov read each."""


@pytest.mark.parametrize("name", SPECIAL_REGISTERS)
def test_widths_of_special_registers(name):
    """mov reads a special register as the types of the assembler, and as no other."""
    registers = {
        "u16": "h",
        "b16": "h",
        "u32": "r",
        "b32": "r",
        "s32": "r",
        "u64": "q",
        "b64": "q",
        "f32": "f",
        "pred": "p",
    }
    taken = []
    for type, register in registers.items():
        declared = ".reg .b16 h; .reg .b32 r; .reg .b64 q; .reg .f32 f; .reg .pred p;"
        text = f".version 8.7\n.target sm_90a\n.entry k()\n{{\n{declared}\nmov.{type} {register}, %{name};\nret;\n}}\n"
        taken += [type] * (line_of(text) == 0)

    assert sorted(taken) == sorted(SPECIAL_REGISTERS[name].split())


@pytest.mark.parametrize(
    ("version", "target", "line"),
    [
        *[(v, s, 6) for v in ("7.8", "8.0", "8.1", "8.7") for s in ("sm_80", "sm_86")],
        *[("8.0", "sm_89", 6), ("8.1", "sm_89", 0), ("8.7", "sm_89", 0)],
        *[("7.8", "sm_90", 0), ("8.0", "sm_90a", 0), ("8.7", "sm_90a", 0)],
    ],
)
@pytest.mark.parametrize("instruction", ["cvt.rn.satfinite.e4m3x2.f32 h, f, f;", "cvt.rn.f16x2.e5m2x2 r, h;"])
def test_targets_of_small_floats(version, target, line, instruction):
    """Conversions of e4m3 and e5m2 need PTX 7.8 for sm_90 and 8.1 for sm_89 (verdicts of ptxas 13.0)."""
    declared = ".reg .b16 h; .reg .b32 r; .reg .f32 f;"
    text = f".version {version}\n.target {target}\n.entry k()\n{{\n{declared}\n{instruction}\nret;\n}}\n"

    assert line_of(text) == line


def test_sinks():
    """What is discarded is an operand like others, wherever `_` may stand."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k() { .reg .b32 r; .shared .b64 m;
mbarrier.arrive.shared::cta.b64 _, [m], 1; mbarrier.arrive.shared::cluster.b64 _, [m]; atom.shared.add.u32 _, [m], 1; ret; }
"""
    code = load_program(parse(text)).functions["k"].code
    discarded = [i.operands[0] for i in code[:3]]

    assert discarded == [Operand(o.type) for o in discarded]


@pytest.mark.parametrize(
    "opcode", ["ld.u32 %r0, [{}];", "ld.volatile.u32 %r0, [{}];", "prefetch.L1 [{}];", "red.add.u32 [{}], 1;"]
)
@pytest.mark.parametrize("name", ["c", "n"])
def test_no_generic_access_by_name(opcode, name):
    """Constants and parameters have no generic address that their name stands for (ptxas: state space mismatch)."""
    text = (
        HEAD
        + ".const .u32 c;\n.visible .entry k(.param .u32 n) { .reg .b32 %r0;\n"
        + opcode.format(name)
        + "\nret; }\n"
    )
    with pytest.raises(PtxError) as caught:
        load_program(parse(text))
    assert caught.value.findings[0].rule == "operand-type"
