"""Modules as compilers lay them out are read by line, and become what they become when they are parsed as a whole."""

from __future__ import annotations

import gc
import gzip
import json
import random
import re
import threading
from pathlib import Path
from types import FrameType

import attrs
import numpy as np
import pytest

import warpsim
from warpsim.errors import PtxError
from warpsim.program.build import read_program
from warpsim.program.load import no_collection, program_of
from warpsim.program.program import Program
from warpsim.program.shapes import shapes_of

ROOT = Path(__file__).parents[2]
MODULES = json.loads(gzip.decompress((ROOT / "tests" / "data" / "syntax.json.gz").read_bytes()))
"""Small modules and ptxas's verdict."""
NAMES = ["flash_attention", "gemm_specialised", "gemm_sparse", "matmul_triton", "scan_lookback", "softmax_triton"]
WHOLE = "/**/\n"
"""No compiler writes such comments: behind one, a text is parsed as a whole."""


def text_of(name: str) -> str:
    """A bundled program."""
    return (ROOT / "programs" / name / "kernel.ptx").read_text()


def by_line(program: Program) -> bool:
    """Whether a program was read by line."""
    return all(function.samples is not None for function in program.functions.values())


def plain(program: Program) -> object:
    """All there is to a program's functions, in terms that compare."""
    found = {}
    for name, function in program.functions.items():
        code = [(i, i.op.text, i.op.given) for i in function.code]
        own = (function.params, function.returns, function.variables, function.directives, function.linkage)
        found[name] = own, [(attrs.evolve(i, op=None), *rest) for i, *rest in code], function.registers, function.labels
    return found, program.variables, program.externs, program.aliases


@pytest.mark.parametrize("name", NAMES)
def test_programs_are_the_same(name):
    """A program that is read by line is the one that is parsed as a whole."""
    text = text_of(name)
    lines, whole = program_of(text), program_of(text + WHOLE)

    assert by_line(lines)
    assert not by_line(whole)
    assert plain(whole) == plain(lines)


@pytest.mark.parametrize("part", range(8))
def test_verdicts(part):
    """Modules whose bodies are read by line get ptxas's verdict, at its line."""
    wrong = []
    for module in MODULES[part::8]:
        try:
            warpsim.load(module["text"])
            found = None
        except PtxError as error:
            found = error.findings[0].line
        if (found is None) != module["accepted"]:
            wrong.append(module["name"])

    assert wrong == []


ODD = [
    "0",
    "-1",
    "16",
    "1024",
    "4294967296",
    "0x4",
    "1.0",
    "0f3F800000",
    "%tid.x",
    "_",
    "WARP_SZ",
    "nowhere",
    "%p1",
    "%r1+4",
    "[%rd1+8]",
]


def changed(text: str, chance: random.Random) -> str:
    """The text with an operand of one instruction exchanged for another, or for something odd."""
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if re.match(r"\t(@!?%\w+ )?[a-z]\w*\.\S+\s.*;", line)]
    at = chance.choice(places)
    own, other = (
        [m for m in re.finditer(r"[-%$\w.]+", lines[i]) if m.start() > 9] for i in (at, chance.choice(places))
    )
    if own and other:
        old, new = chance.choice(own), chance.choice([*ODD, *[m[0] for m in other]])
        lines[at] = lines[at][: old.start()] + new + lines[at][old.end() :]
    return "\n".join(lines)


def outcome(text: str) -> object:
    """The program of a text, or what is wrong with it."""
    try:
        return plain(program_of(text))
    except PtxError as error:
        return [finding.headline() for finding in error.findings]


@pytest.mark.parametrize(
    "count", [3, pytest.param(80, marks=pytest.mark.long), pytest.param(1000, marks=pytest.mark.sweep)]
)
@pytest.mark.parametrize("name", ["scan_lookback", "softmax_triton"])
def test_changed_programs_are_the_same(name, count):
    """With an operand exchanged, a text is refused or becomes the same program, however it is read."""
    chance = random.Random(count)
    for _ in range(count):
        text = changed(text_of(name), chance)

        assert outcome(text + WHOLE) == outcome(text)


TWO = """.version 8.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	ld.param.u64 	%rd1, [out];
	mov.u32 	%r1, 5;
	st.global.u32 	[%rd1], %r1;
	ret;
}
.visible .entry second(.param .u64 out)
{
	.reg .b32 %r<4>;
	mov.u32 	%r1, 7;
	CHANGED
	ret;
}
"""


DECLARED = ".reg .b32 %r<4>;\n\t.reg .b64 %rd<2>;\n\t.reg .pred %p<1>;\n\tsetp.ne.u32 %p0, 0, 0;"


def test_code_is_made_for_kernels_that_run():
    """A launch makes the code of its kernel, and of no other."""
    module, out = warpsim.load(TWO.replace("CHANGED", "add.u32 %r2, %r1, 1;")), np.zeros(1, np.uint32)
    module["first"](1, 1, (out,))
    made = [name for name, function in module.program.functions.items() if "body" in vars(function)]

    assert out[0] == 5
    assert made == ["first"]


@pytest.mark.parametrize(
    "line",
    [
        "add.u32 %r2, %r1, %rd1;",
        "add.u32 %r2, %r1;",
        "bar.sync 16;",
        "bra nowhere;",
        "mov.u32 %r4, 1;",
        "ld.param.u64 %r1, [out];",
        "foo %r1;",
        "\xa0",
        "mov.u32 %r1, 1;\x1c",
        "here:\u2003",
    ],
)
def test_kernels_that_never_run_are_checked(line):
    """An illegal instruction of any kernel refuses the module, with its place."""
    with pytest.raises(PtxError) as error:
        warpsim.load(TWO.replace("CHANGED", line))

    assert [finding.line for finding in error.value.findings] == [17]


@pytest.mark.parametrize(
    ("declared", "used", "legal"),
    [
        ("%r<5000>", "%r4999", True),
        ("%r<5000>", "%r5000", False),
        ("%r<14>", "%r13", True),
        ("%r<14>", "%r14", False),
        ("%r<14>", "%r013", True),
        ("%r<14>", "%r014", False),
        ("%r1<30>", "%r12", False),
    ],
)
def test_registers_of_ranges(declared, used, legal):
    """A range covers the numbers below its own, whatever zeros stand before them; a prefix that ends in a digit covers none
    (ptxas 13.0)."""
    text = re.sub(r"%r(?=<|1[,;])", "%q", TWO).replace("%q<4>", f"%q<4>, {declared}")
    text = text.replace("CHANGED", f"mov.u32 {used}, 0;")
    if legal:
        assert by_line(program_of(text))
        return
    with pytest.raises(PtxError, match=f"{used} is not declared"):
        program_of(text)


@pytest.mark.parametrize("whole", ["", WHOLE])
def test_other_spellings_of_a_register(whole):
    """%r01 is %r1, %tid.g is %tid.y, and L<2> is L0, L1 (ptxas 13.0)."""
    lines = (
        "mov.u32 %r3, %tid.g;\n\tT: .branchtargets L<2>;\n\tmov.u32 %r01, %r3;\n\t@%p00 bra L1;\n\tbrx.idx %r1, T;\n"
        "L0:\n\tadd.u32 %r001, %r1, 7;\nL1:\n\tld.param.u64 %rd1, [out];\n\tmad.wide.u32 %rd01, %r3, 4, %rd1;\n"
        "\tst.global.u32 [%rd1], %r1;"
    )
    text = TWO.replace("CHANGED", lines).replace(".reg .b32 %r<4>;\n\tmov.u32 \t%r1, 7;", DECLARED)
    found = np.full(2, 9, np.uint32)
    module = warpsim.load(text + whole)
    module["second"](1, (1, 2), (found,))

    assert by_line(module.program) == (not whole)
    assert found.tolist() == [7, 1]


def test_threads_make_the_code_once():
    """Threads that ask for a function's code get the same registers."""
    function = program_of(text_of("gemm_sparse")).functions["gemm_sparse"]
    found = []
    threads = [threading.Thread(target=lambda: found.append(function.made())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(body is found[0] for body in found)


BLOCKS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
	.reg .pred %p<4>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .b32 own, %long;
	.reg .v2 .b32 %v<2>;
	FIRST
	SECOND
	ret;
}
"""


@pytest.mark.parametrize(
    ("first", "second", "legal"),
    [
        ("{ .reg .b32 t; mov.b32 t, %r1; }", "{ .reg .b32 t; mov.b32 t, %r2; }", True),
        ("{ .reg .b32 t; mov.b32 t, %r1; }", "{ .reg .b32 t; mov.b32 t, %rd2; }", False),
        ("{ .reg .b64 %r1; mov.b64 %r1, %rd1; }", "{ .reg .b64 %r2; mov.b64 %r1, %rd1; }", False),
        ("{ .reg .b32 t; mov.b32 t, own; }", "{ .reg .b32 own; mov.b32 own, own; }", True),
        ("{\n\tbra here;\nhere:\n\t}", "{\n\tbra here;\n\t}", False),
        ("mov.b64 {%r1, %r2},\n\t%rd1;", "mov.b64 {%r3, %r4},\n\t%rd2;", True),
        ("mov.b64 {%r1, %r2},\n\t%rd1;", "mov.b64 {%r3, %r9},\n\t%rd2;", False),
        ("{ .reg .pred q; @q mov.b32 %r1, 4; }", "{ .reg .b32 q; @q mov.b32 %r1, 4; }", False),
        ("mov.b32 %r1, %r2;", "mov.b32 %r1, %v1;", False),
        ("{ .reg .b32 t; bar.sync 15; }", "{ .reg .b32 t; bar.sync 16; }", False),
        ("{ @%p1 bra later; }\n\tlater:", "{ @%p2 bra later; }", True),
        ("here:", "here:", False),
        ("here:", "own:", False),
        (
            "{ .reg .pred q; setp.eq.b32 q, %r1, %r2;\n\t@q mov.b32 %r3, %r4; @!q mov.b32 %r5, %r6; }",
            "{ .reg .pred q; setp.eq.b32 q, %long, %r2;\n\t@q mov.b32 %r3, %r4; @!q mov.b32 %r3, %long; }",
            True,
        ),
        (
            "ld.global.v2.b32 {%r1, %r2}, [%rd1+8]; mov.b32 %r1, %r2;",
            "ld.global.v2.b32 {%long, %r2}, [%rd2+8]; mov.b32 %r1, %r1;",
            True,
        ),
        ("add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, 0;", "add.cc.u32 %r1, %r6, %r3; addc.u32 %r8, %long, 0;", True),
        ("{ .reg .b32 %_2; mov.b32 %_2, %r1; }", "{ .reg .b32 %_2; mov.b32 %_2, %long; }", True),
        (
            "{ .reg .v2 .b32 u; .reg .b32 t; mov.b32 t, %r1; }",
            "{ .reg .v2 .b32 u; .reg .b32 t; mov.b32 t, %long; }",
            True,
        ),
    ],
)
def test_blocks_that_look_alike(first, second, legal):
    """Of blocks and statements over several lines that look alike, each is judged by what it is."""
    text = BLOCKS.replace("FIRST", first)
    warpsim.load(text.replace("SECOND", ""))

    both = text.replace("SECOND", second)
    assert isinstance(outcome(both), tuple) == legal
    assert outcome(both + WHOLE) == outcome(both)
    shapes_of.cache_clear()  # so that the first has not been read before its own function
    assert outcome(both + "\n") == outcome(both)
    assert not legal or by_line(program_of(both + "\n"))


INLINED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
	.reg .b32 %r<4>;
	.loc 1 10 3
	mov.u32 %r1, 1;
	.loc 2 20 5, function_name $L__info_string0, inlined_at 1 10 3
	mov.u32 %r2, 2;
	.loc	3 30 7, function_name $L__info_string1, inlined_at 2 20 5
	mov.u32 %r3, 3;
	ret;
}
	.file 1 "a.cu"
	.file 2 "b.cuh"
	.file 3 "c.cuh"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,255,0
$L__info_string1:
.b8 0
	}
"""


@pytest.mark.parametrize(
    ("old", "new", "legal"),
    [
        ("", "", True),
        ("\n\t", "\n", True),
        ("{\n$L__info", "{ $L__info", True),
        ("\n$L__info", "\n \t$L__info", True),
        ("\n$L__info_string0:", "$L__info_string0:\n$L__info_string0:", False),
        ("\t.loc 1 10 3", "\t.loc 3 30 7\n\t.loc 1 10 3", True),
        ("\tret;", "\t.loc 3 30 7\n\tmov.u32 %r3, 4;\n\tret;", True),
        ("inlined_at 2 20 5", "inlined_at 2 20 6", False),
        ("$L__info_string1,", "$L__info_string2,", False),
        ("95,90,255", "95,90,256", False),
        ("$L__info_string0,", "$L__info_string0 + 3 ,", True),
    ],
)
def test_inlined_places(old, new, legal):
    """The places that a line was inlined at, and the names of functions there, are what they are in a text parsed as a whole."""
    text = INLINED.replace(old, new)

    assert outcome(text + WHOLE) == outcome(text)
    assert isinstance(outcome(text), tuple) == legal
    if legal:
        assert by_line(program_of(text))
        assert program_of(text).functions["k"].code[2].inlined_at == (("b.cuh", 20), ("a.cu", 10))


def test_limits():
    """A number that an instruction limits is checked on each line, although lines that differ in nothing else are legal."""
    text = "\n".join(
        [
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{",
            "\twgmma.wait_group.sync.aligned 3;",
            "\twgmma.wait_group.sync.aligned -1;",
            "\tret;\n}\n",
        ]
    )

    with pytest.raises(PtxError, match=r":7:32: immediate-range: operand n"):
        warpsim.load(text)
    assert by_line(program_of(text.replace("-1", "21001")))


def test_one_register_for_both_results():
    """It gets the first, whichever lines like it were read before; an H200 does so (data/forms_h200.npz)."""
    pairs = [(1, 2), (3, 3), (2, 1), (1, 1), (2, 3), (2, 2)]
    lines = [
        line
        for n, (p, q) in enumerate(pairs)
        for line in (
            f"setp.lt.u32 \t%p{p}|%p{q}, %r1, 1;",
            *(
                f"selp.u32 \t%r2, 1, 0, %p{r};\n\tst.global.u32 \t[%rd1+{8 * n + at}], %r2;"
                for r, at in ((p, 0), (q, 4))
            ),
        )
    ]
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"
        "\t.reg .pred \t%p<4>;\n\t.reg .b32 \t%r<3>;\n\t.reg .b64 \t%rd<2>;\n\n"
        "\tld.param.u64 \t%rd1, [k_param_0];\n\tmov.u32 \t%r1, %tid.x;\n\t" + "\n\t".join(lines) + "\n\tret;\n\n}\n"
    )
    found = np.full((len(pairs), 2), 9, np.uint32)

    module = warpsim.load(text)
    module["k"](1, 1, (found,))

    assert by_line(module.program)
    assert found.tolist() == [[1, int(p == q)] for p, q in pairs]


def test_lines_that_name_something_of_their_module():
    """The same line is another instruction where its name stands for something else."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(
.param .u64 {}
)
{{
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [p+8];
ret;
}}
"""
    found = []
    for params in ("p[4]", "other,\n.param .u64 p[4]", "other[2],\n.param .u64 p[4]"):
        program = program_of(text.format(params))
        assert by_line(program)
        found.append(program.functions["k"].code[0].operands[1].base.parameter.offset)

    assert found == [0, 8, 16]


def test_rules_of_modules_for_lines_with_several_statements():
    """What is checked once for a function sees them, too."""
    text = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k()
{
.reg .b32 %r<3>;
mov.u32 %r1, 1; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
ret;
}
"""
    with pytest.raises(PtxError, match="illegal-form") as caught:
        program_of(text)
    assert "cta_group" in caught.value.findings[0].message


@pytest.mark.parametrize(("type", "advice"), [("b64", "declare it as .b64"), ("u64", "declare it as .u64 or .b64")])
def test_what_a_register_is_to_be_declared_as(type, advice):
    """Each type that would do, once."""
    with pytest.raises(PtxError) as caught:
        program_of(f".version 8.0\n.target sm_90\n.visible .entry k() {{ .reg .b32 r; mov.{type} r, 3; ret; }}\n")
    assert caught.value.findings[0].advice == advice


def test_no_frames_are_left():
    """A form that does not fit holds nobody's frames, and with them the lines of the text, until garbage is collected."""
    text = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\nbar.sync 0, 128;\nret;\n}\n"
    with no_collection():
        read_program(text, "k.ptx")
        left = [each for each in gc.get_objects(0) if isinstance(each, FrameType) and each.f_code.co_name == "check"]

    assert left == []
