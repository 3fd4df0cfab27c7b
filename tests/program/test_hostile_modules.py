"""Modules that no compiler writes end in an error of the documented kinds, or run; none ends in another exception or takes
long, and what a module may ask for is limited as a GPU limits it."""

from __future__ import annotations

import gc
import os
import time

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head("sm_90a", "8.7")
SECONDS = 5 if os.environ.get("WARPSIM_COMPILE") != "at-once" else 60
"""Each takes milliseconds; the time for a machine under load. Launches that wait for machine code take what compiling takes."""
DIGITS = "1" * 5000
PETABYTE = 1 << 50


def kernel(body: str, *, before: str = "", directives: str = "", params: str = ".param .u64 p") -> str:
    """A module of one kernel."""
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<5>; .reg .f32 %f<9>;"
    return f"{HEAD}{before}\n.visible .entry k({params})\n{directives}\n{{\n{registers}\n{body}\n}}\n"


def run(text: str) -> str:
    """What becomes of a module that is loaded and launched: ``ran``, the rules it breaks at load or while it runs, or the
    message of a launch that is refused."""
    started = time.process_time()
    try:
        launched = warpsim.load(text)["k"]
        args = [np.zeros(64, np.uint64) if p.type == "u64" else bytes(p.size) for p in launched.params]
        launched((1,), (32,), tuple(args), max_instructions=10**6)
        return "ran"
    except warpsim.LaunchError as error:
        return f"launch: {error}"
    except (warpsim.PtxError, warpsim.ExecutionError) as error:
        return ",".join(sorted({f.rule for f in error.findings})) if len(str(error)) < 500_000 else "too long"
    finally:
        assert time.process_time() - started < SECONDS


POINTER = "ld.param.u64 %rd1, [p];\n"
TABLE = "T: .branchtargets a, b;\nbrx.idx %r1, T;\na: ret;\nb: ret;"
CASES = {
    "an entry without instructions": (kernel(""), "ran"),
    "an entry of one label": (f"{HEAD}.entry k() {{ L: }}", "ran"),
    "a branch to the end": (kernel("bra L; L:"), "ran"),
    "a table's label at the end": (kernel("mov.u32 %r1, 0; T: .branchtargets L; brx.idx %r1, T; L:"), "ran"),
    "a call of an empty function": (kernel("call f; ret;", before=".func f() { }"), "ran"),
    "a result of an empty function": (
        kernel(".param .b32 x; call (x), f; ret;", before=".func (.param .b32 r) f() { }"),
        "ran",
    ),
    "an index beyond its table": (kernel(f"mov.u32 %r1, 7;\n{TABLE}"), "out-of-bounds"),
    "an index before its table": (kernel(f"mov.u32 %r1, -1;\n{TABLE}"), "out-of-bounds"),
    "an index beyond its table in some lanes": (kernel(f"mov.u32 %r1, %tid.x;\n{TABLE}"), "out-of-bounds"),
    "the last index": (kernel(f"mov.u32 %r1, 1;\n{TABLE}"), "ran"),
    "a register of 5,000 letters": (kernel(f".reg .b32 {'x' * 5000}; mov.u32 {'x' * 5000}, 1; ret;"), "ran"),
    "a register of 5,000 digits": (kernel(f"mov.u32 %r{DIGITS}, 1; ret;"), "undeclared"),
    **{
        f"5,000 digits, {name}": (text, "syntax")
        for name, text in {
            "decimal": kernel(f"mov.u32 %r1, {DIGITS}; ret;"),
            "hexadecimal": kernel(f"mov.u32 %r1, 0x{'f' * 5000}; ret;"),
            "of a range": kernel(f".reg .b32 a<{DIGITS}>; ret;"),
            "of a dimension": kernel("ret;", before=f".global .b8 x[{DIGITS}];"),
            "of an alignment": kernel("ret;", before=f".global .align {DIGITS} .b8 x[4];"),
        }.items()
    },
    "5,000 digits that drop out of 64 bits": (kernel(f"mov.u32 %r1, 0x{DIGITS}; ret;"), "ran"),
    "2,000 digits": (kernel(f"mov.u32 %r1, {'1' * 2000}; ret;"), "syntax"),
    "5,000 digits, of a version": (f".version 8.{DIGITS}\n.target sm_90a\n.entry k() {{ ret; }}\n", "target"),
    "5,000 digits, of a target": (f".version 8.0\n.target sm_{'9' * 5000}\n.entry k() {{ ret; }}\n", "target"),
    "a number of 2 MB": (kernel(f"mov.u32 %r1, {'1' * 2_000_000}; ret;"), "syntax"),
    "a string of 10 MB": (kernel("ret;", before=f'.file 1 "{"a" * 10_000_000}"'), "ran"),
    "a table of 800 KB": (kernel("ret;", before=f".global .b8 x[] = {{{','.join(['255'] * 200_000)}}};"), "ran"),
    "an open comment": (kernel("/* ret;"), "syntax"),
    "20,000 open braces": (kernel("{" * 20_000), "syntax"),
    "20,000 operands": (kernel(f"add.u32 {'%r1,' * 20_000}%r1; ret;"), "operand-count"),
    "1,500 declarations and ranges": (
        kernel("".join(f".reg .b32 a{i}; .reg .b32 b{i}_<3>;" for i in range(1500)) + "ret;"),
        "ran",
    ),
    "a billion variables": (kernel("ret;", before=".global .u8 x<1000000000>;"), "unsupported"),
    "a petabyte of .global": (kernel("ret;", before=f".global .b8 x[{PETABYTE}];"), "launch: x takes"),
    "a petabyte of .shared": (
        kernel("mov.u32 %r1, x; ret;", before=f".shared .b8 x[{PETABYTE}];"),
        "directive",
    ),
    "a petabyte of .local": (
        kernel(f".local .b8 x[{PETABYTE}]; ret;"),
        f"launch: k needs {PETABYTE} bytes of local memory per thread; the limit is 524288",
    ),
    "a petabyte of .const": (kernel("ret;", before=f".const .b8 x[{PETABYTE}];"), "directive"),
    "a petabyte of .param": (kernel("ret;", params=f".param .b8 p[{PETABYTE}]"), "directive"),
    "a frame of 400,000 bytes under another": (
        kernel(".local .b8 x[400000]; call f; ret;", before=".func f() { .local .b8 x[400000]; ret; }"),
        "limit",
    ),
    "clusters of 0": (kernel("ret;", directives=".reqnctapercluster 0"), ""),
    "blocks of 0": (kernel("ret;", directives=".reqntid 0"), ""),
    "blocks of 4e9 x 4e9": (kernel("ret;", directives=".reqntid 4000000000, 4000000000"), ""),
}
"""Name -> module, and the beginning of what becomes of it."""


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    """It ends as it should, and soon."""
    text, expected = CASES[name]
    result = run(text)

    assert result.startswith(expected)
    assert result != ("" if expected else "ran")


@pytest.mark.long
def test_many_nested_loops() -> None:
    """1,100 loops in each other are more than Python's functions may be nested."""
    gc.collect()
    gc.freeze()  # what earlier tests left is no work for the garbage collector here
    begins = [f"mov.u32 %c{i}, 0; L{i}:\n" for i in range(1100)]
    ends = [f"add.u32 %c{i}, %c{i}, 1; setp.lt.u32 %p0, %c{i}, 1; @%p0 bra L{i};\n" for i in range(1099, -1, -1)]

    assert run(kernel("".join([".reg .b32 %c<1100>;\n", *begins, *ends, "ret;"]))) == "ran"


@pytest.mark.long
def test_many_variables() -> None:
    """ptxas takes ranges of 70,000 variables and more."""
    assert run(kernel("st.global.u8 [x69999], 1; ret;", before=".global .u8 x<70000>;")) == "ran"


@pytest.mark.parametrize("offset", [1 << 63, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1 << 64, (1 << 66) + 4])
@pytest.mark.parametrize("space", ["global", "shared", "local", "const", "param"])
def test_offsets(offset: int, space: str) -> None:
    """An address is a sum modulo 2**64, as large as its parts may be."""
    before = f".{space} .u32 s;" if space in ("global", "shared", "const") else ""
    within = ".local .u32 s;" if space == "local" else ""
    base = "p" if space == "param" else "s"
    result = run(kernel(f"{within}ld.{space}.u32 %r1, [{base}+{offset}]; ret;", before=before))

    assert result in ("ran", "out-of-bounds", "misaligned", "uninitialised")


@pytest.mark.parametrize(
    "instruction",
    [
        "add.foo{} %r1, %r2, %r3;",
        pytest.param("mov.u32 %r1, %q{};", marks=pytest.mark.long),
        pytest.param("foo{}.u32 %r1, %r2;", marks=pytest.mark.long),
        pytest.param("add.u32 %r1, %rd1, %f1; // {}", marks=pytest.mark.long),
    ],
)
def test_many_findings(instruction: str) -> None:
    """2,500 wrong instructions are refused with the first 2,000."""
    started = time.process_time()
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(kernel("\n".join(instruction.format(i) for i in range(2_500)) + "\nret;"))

    assert time.process_time() - started < SECONDS
    assert [f.line for f in caught.value.findings] == list(range(9, 2009))


PRINTF = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"


@pytest.mark.parametrize(
    ("template", "words", "expected"),
    [
        ("%.*d|", (-1 & 0xFFFFFFFF, 5), "5|"),
        ("%.*d|", (3, 5), "005|"),
        ("%*d|", (-3 & 0xFFFFFFFF, 5), "5  |"),
        ("%.*d", (0x7FFFFFFF, 5), f"{5:0{1 << 20}d}"),
        ("%*d", (0x7FFFFFFF, 5), f"{5:{1 << 20}d}"),
        ("%99999999999999999999d", (5,), f"{5:{1 << 20}d}"),
        ("%-3.0d|", (5,), "5  |"),
        ("%", (), "%"),
    ],
)
def test_widths_of_printf(template: str, words: tuple[int, ...], expected: str) -> None:
    """Widths and precisions are C's: a negative one is a flag, or none; beyond the printf buffer nothing is printed."""
    raw = [*template.encode(), 0]
    stores = "".join(f"st.local.u32 [buf+{4 * i}], {word};" for i, word in enumerate(words))
    body = (
        f".local .align 8 .b8 buf[16]; .param .b64 a; .param .b64 b; .param .b32 c; {stores}"
        "mov.u64 %rd2, fmt; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, buf; cvta.local.u64 %rd3, %rd3;"
        "st.param.b64 [a], %rd2; st.param.b64 [b], %rd3; call (c), vprintf, (a, b); ret;"
    )
    text = kernel(body, before=f"{PRINTF}\n.global .b8 fmt[{len(raw)}] = {{{','.join(map(str, raw))}}};", params="")
    result = warpsim.load(text)["k"]((1,), (1,), ())

    assert expected == result.stdout


def test_long_names_in_messages() -> None:
    """Their beginning says which it is."""
    name = "x" * 5000
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(kernel(f"mov.u32 %r1, {name}; add.u32 %r1, %r1, {'%' + 'y' * 199}; ret;"))

    first, second = (finding.message for finding in caught.value.findings)
    assert "x" * 80 + "..." in first
    assert "x" * 81 not in first
    assert "%" + "y" * 199 in second


@pytest.mark.parametrize(
    ("declaration", "call"),
    [
        ("vprintf()", "call vprintf;"),
        ("vprintf(.param .b32 a)", "call vprintf, (x);"),
        ("malloc()", "call malloc;"),
        ("free()", "call free;"),
        ("__assertfail()", "call __assertfail;"),
        ("(.reg .f32 r) malloc(.reg .f32 a)", "call (%f1), malloc, (%f1);"),
        ("(.reg .b32 r) vprintf(.reg .b32 a, .reg .b32 b)", "call (%r1), vprintf, (%r1, %r1);"),
    ],
)
def test_signatures_of_the_run_time(declaration: str, call: str) -> None:
    """A function of the run time that is declared otherwise cannot be called."""
    result = run(kernel(f".param .b32 x; {call} ret;", before=f".extern .func {declaration};"))

    assert result == "linkage"
