"""Kernels for ``check --strict``: written here, and recorded ones with lines taken out or moved."""

from pathlib import Path

import pytest

import warpsim
from warpsim.analysis.strict import check_program

ROOT = Path(__file__).parents[2]
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p_out, .param .u32 p_n) {directives}
{{
.reg .pred p<9>; .reg .b32 r<40>, tid, lane, zero, n, at; .reg .f32 f<40>; .reg .b64 rd<9>, out; .reg .b16 h<5>;
.shared .align 128 .b8 smem[4096]; .shared .align 128 .b8 next[1024];
ld.param.u64 out, [p_out]; ld.param.u32 n, [p_n]; mov.u32 tid, %tid.x; and.b32 lane, tid, 31; mov.u32 zero, 0; mov.u32 at, smem;
"""
FIRST = HEAD.count("\n") + 1


def strict(*lines, directives=""):
    """(line, rule, severity) of each finding of a kernel, lines counted from 0; ``ret`` is added."""
    text = HEAD.format(directives=directives) + "\n".join(lines) + "\nret;\n}\n"
    return [(f.line - FIRST, f.rule, f.severity) for f in check_program(warpsim.load(text).program)]


def recorded(name):
    """The lines of a recorded kernel."""
    folder = ROOT / "programs" / name
    folder = folder if folder.exists() else ROOT / "tests" / "cases" / name
    return (folder / "kernel.ptx").read_text().split("\n")


def findings(lines):
    """(line, rule, severity, line of the other party) of each finding of a module."""
    found = check_program(warpsim.load("\n".join(lines) + "\n").program)
    return [(f.line, f.rule, f.severity, f.other.line if f.other else None) for f in found]


@pytest.fixture
def check():
    """``strict``."""
    return strict
