"""Every load rule: a text that breaks it is reported at its line, the nearest correct one loads."""

import pytest

import warpsim

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"


def text(body, head=HEAD):
    """A module around these instructions."""
    return (
        head
        + ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<3>;\n"
        + body
        + "\nret;\n}\n"
    )


BODIES = [
    ("undeclared", "mov.u32 %r1, %q1;", "mov.u32 %r1, %r2;"),
    ("undeclared", "bra nowhere;", "bra there; there:"),
    ("undeclared", "call nothing;", ".reg .u64 nothing; mov.u64 nothing, %rd1;"),
    ("undeclared", "ld.shared.u32 %r1, [tile];", ".shared .u32 tile; ld.shared.u32 %r1, [tile];"),
    ("redeclared", ".reg .b32 a; .reg .b32 a;", ".reg .b32 a; { .reg .b32 a; }"),
    ("redeclared", "there: there:", "there: here:"),
    ("redeclared", ".reg .f32 %f<2>;", "{ .reg .f32 %f<2>; }"),
    ("operand-type", "add.f32 %f1, %f2, %rd1;", "add.f32 %f1, %f2, %f3;"),
    ("operand-type", "add.u32 %r1, %r2, %rd1;", "add.u32 %r1, %r2, %r3;"),
    ("operand-type", "setp.eq.u32 %r1, %r2, %r3;", "setp.eq.u32 %p1, %r2, %r3;"),
    ("operand-type", "ld.global.u32 %r1, [%f1];", "ld.global.u32 %r1, [%rd1];"),
    ("operand-count", "add.u32 %r1, %r2;", "add.u32 %r1, %r2, 1;"),
    ("operand-count", "ld.global.v4.u32 {%r1, %r2}, [%rd1];", "ld.global.v2.u32 {%r1, %r2}, [%rd1];"),
    ("operand-count", "fma.rn.f32 %f1, %f2, %f3;", "fma.rn.f32 %f1, %f2, %f3, %f3;"),
    (
        "operand-count",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
    ),
    ("syntax", "mov.u32 %r1 %r2;", "mov.u32 %r1, %r2;"),
    ("syntax", "mov.u32 %r1, [%r2;", "ld.global.u32 %r1, [%rd2];"),
    ("syntax", "@%p1, mov.u32 %r1, 0;", "@%p1 mov.u32 %r1, 0;"),
    ("syntax", "move.u32 %r1, %r2;", "mov.u32 %r1, %r2;"),
    ("illegal-form", "add.ftz.u32 %r1, %r2, %r3;", "add.ftz.f32 %f1, %f2, %f3;"),
    ("illegal-form", "fma.f32 %f1, %f2, %f3, %f3;", "fma.rn.f32 %f1, %f2, %f3, %f3;"),
    ("illegal-form", "cvt.u32.f32 %r1, %f1;", "cvt.rzi.u32.f32 %r1, %f1;"),
    ("illegal-form", "ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];", "ld.global.v2.u32 {%r1, %r2}, [%rd1];"),
    ("immediate-range", "cp.async.wait_group %r1;", "cp.async.wait_group 1;"),
    (
        "immediate-range",
        ".shared .align 16 .b8 s[16]; cp.async.ca.shared.global [s], [%rd1], 5;",
        ".shared .align 16 .b8 s[16]; cp.async.ca.shared.global [s], [%rd1], 8;",
    ),
    ("immediate-range", "wgmma.wait_group.sync.aligned 8;", "wgmma.wait_group.sync.aligned 7;"),
    ("immediate-range", "bar.sync 16;", "bar.sync 15;"),
    (
        "immediate-range",
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 64;",
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
    ),
    ("directive", ".shared .align 3 .b8 s[4];", ".shared .align 4 .b8 s[4];"),
    ("directive", ".reg .u32 a[4];", ".local .u32 a[4];"),
    ("directive", ".shared .b8 s[];", ".shared .b8 s[8];"),
    ("initialiser", ".shared .u32 s = 5;", ".shared .u32 s;"),
    ("unsupported", "tex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%rd1, {%r1}];", "mov.u32 %r1, %r2;"),
    ("unsupported", "suld.b.1d.b32.trap {%r0}, [%rd1, {%r1}];", "mov.u32 %r1, %r2;"),
    ("unsupported", "txq.width.b32 %r1, [%rd1];", "mov.u32 %r1, %r2;"),
]
"""Rule, faulty and correct instructions of a kernel; ptxas 13.0 refuses and takes them likewise, but for what this version
does not run and wgmma.wait_group, which it takes with any number (the text: 0 to 7)."""

MODULES = [
    ("initialiser", ".global .u32 a = {1, 2};", ".global .u32 a[2] = {1, 2};"),
    ("initialiser", ".global .u32 a[2] = {1, 2, 3};", ".global .u32 a[3] = {1, 2, 3};"),
    ("initialiser", ".global .f32 a = 1;", ".global .f32 a = 1.0;"),
    ("initialiser", ".global .u64 a = b; .global .u32 b;", ".global .u32 b; .global .u64 a = b;"),
    ("linkage", ".extern .func f(); .entry k() { call f; }", ".func f() { ret; } .entry k() { call f; }"),
    ("linkage", ".entry k() { .visible .shared .u32 a; }", ".entry k() { .shared .u32 a; }"),
    ("linkage", ".extern .func f() { ret; }", ".func f() { ret; }"),
    ("linkage", ".entry k() { .extern .local .u32 a; }", ".entry k() { .local .u32 a; }"),
    ("linkage", ".extern .global .u32 a = 5;", ".visible .global .u32 a = 5;"),
    ("directive", ".entry k() .maxntid 1, 2, 3, 4 { ret; }", ".entry k() .maxntid 1, 2, 3 { ret; }"),
    ("directive", ".entry k() .maxntid 32 .reqntid 32 { ret; }", ".entry k() .reqntid 32 { ret; }"),
    ("undeclared", ".alias f, g;", ".func g() { ret; } .func f(); .alias f, g;"),
    (
        "redeclared",
        ".extern .global .u32 a[4]; .visible .global .u32 a[5];",
        ".extern .global .u32 a[4]; .visible .global .u32 a[4];",
    ),
    (
        "syntax",
        ".entry k() { .reg .u32 r; mov.u32 r, \u0663; ret; }",
        ".entry k() { .reg .u32 r; /* a\nb */ mov.u32 r, 3; /*\n*/ ret; }",
    ),
    ("redeclared", ".func f() { ret; } .func f() { ret; }", ".func f(); .func f() { ret; }"),
    ("syntax", ".entry k( { ret; }", ".entry k() { ret; }"),
]
"""The same of what stands in a module."""

TARGETS = [
    ("sm_70", "redux.sync.add.u32 %r1, %r2, -1;", "sm_80"),
    ("sm_80", "wgmma.fence.sync.aligned;", "sm_90a"),
    ("sm_90", "wgmma.fence.sync.aligned;", "sm_90a"),
    ("sm_75", "cp.async.wait_all;", "sm_80"),
]
"""Target, instruction, and a target that has it."""

CASES = [(r, 7, text(f), text(c)) for r, f, c in BODIES] + [
    (r, 4, f"{HEAD}{f}\n", f"{HEAD}{c}\n") for r, f, c in MODULES
]
RULES = [
    "syntax",
    "undeclared",
    "redeclared",
    "operand-type",
    "operand-count",
    "illegal-form",
    "immediate-range",
    "directive",
    "initialiser",
    "linkage",
    "unsupported",
]
"""What a module can break while it is loaded; targets and unreadable files have tables of their own."""


@pytest.mark.parametrize(("rule", "line", "faulty", "correct"), CASES)
def test_rule(rule, line, faulty, correct):
    """The faulty line is named, with its line; the correct one loads."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(faulty)

    assert (rule, line) == (caught.value.findings[0].rule, caught.value.findings[0].line)
    warpsim.load(correct)


@pytest.mark.parametrize("rule", RULES)
def test_three_of_each(rule):
    """At least three faulty programs of every rule."""
    assert [case[0] for case in CASES].count(rule) >= 3


@pytest.mark.parametrize(("target", "instruction", "enough"), TARGETS)
def test_target(target, instruction, enough):
    """An instruction that the module's target lacks."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(text(instruction, HEAD.replace("sm_90a", target)))

    assert caught.value.findings[0].rule == "target"
    warpsim.load(text(instruction, HEAD.replace("sm_90a", enough)))


@pytest.mark.parametrize(
    "instruction", ["fma.rn.f16 %h0, %h1, %h2, %h3;", "add.f16 %h0, %h1, %h2;", "mul.f16x2 %r0, %r1, %r2;"]
)
def test_halves_since_they_came(instruction):
    """Arithmetic of halves came with PTX 4.2, for sm_53."""
    head = ".version 4.2\n.target sm_53\n.address_size 64\n.entry k()\n{\n.reg .b16 %h<4>; .reg .b32 %r<4>;\n"
    module = f"{head}{instruction}\nret;\n}}\n"
    warpsim.load(module)
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(module.replace("sm_53", "sm_52"))

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == ("target", 7)


@pytest.mark.parametrize("type", ["u16x2", "s16x2", "bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2"])
@pytest.mark.parametrize(
    "declaration",
    [
        ".global .T x;",
        ".entry f(.param .T x) { ret; }",
        ".func f(.reg .T x) { ret; }",
        ".entry f() { .reg .T x; ret; }",
    ],
)
def test_types_of_instructions(type, declaration):
    """Nothing is declared as a type that ptxas 13.0 takes in instructions only."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(HEAD + declaration.replace("T", type))

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == ("directive", 4)


@pytest.mark.parametrize(("size", "rule"), [(32, "unsupported"), (16, "directive")])
def test_address_size(size, rule):
    """Addresses have 64 bits; the assembler itself no longer takes 32."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(f".version 8.0\n.target sm_80\n.address_size {size}\n.entry k() {{ ret; }}\n")

    assert caught.value.findings[0].rule == rule


@pytest.mark.parametrize("source", ["/no/such/file.ptx", b"\x7fELF...", "#include <cstdio>\n__global__ void k() {}\n"])
def test_unreadable(source):
    """A missing file, a cubin and CUDA source are refused with what to do."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(source)

    assert caught.value.findings[0].rule == "unreadable"
    assert caught.value.findings[0].advice
