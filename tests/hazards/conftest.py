"""Ablation of recorded kernels: change one line of a correct program and see what is reported."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim import TensorMap
from warpsim.host.cases import run_case

ROOT = Path(__file__).parents[2]


def case_of(name):
    """The directory of a recorded launch."""
    found = ROOT / "tests" / "cases" / name
    return found if found.exists() else ROOT / "programs" / name


class Ablation:
    """A recorded kernel with lines taken out."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def lines(self, name, text):
        """The 1-based numbers of the lines of a kernel that hold a text."""
        kernel = (case_of(name) / "kernel.ptx").read_text().split("\n")
        return [number for number, line in enumerate(kernel, 1) if text in line]

    def findings(self, name, checks, *, removed=(), inserted=None, changed=None, **options):
        """(rule, severity, line, line of the other party) of each finding of the kernel without the lines ``removed``.

        ``inserted`` maps line numbers to text that comes before them, ``changed`` to what makes another line of them."""
        self.count += 1
        target = self.folder / str(self.count) / name
        shutil.copytree(case_of(name), target)
        kernel = (target / "kernel.ptx").read_text().split("\n")
        for number in removed:
            kernel[number - 1] = ""
        for number, text in (inserted or {}).items():
            kernel[number - 1] = text + " " + kernel[number - 1]
        for number, change in (changed or {}).items():
            assert change(kernel[number - 1]) != kernel[number - 1]
            kernel[number - 1] = change(kernel[number - 1])
        (target / "kernel.ptx").write_text("\n".join(kernel))
        result = run_case(target, checks=checks, on_finding="collect", **options)
        return [(f.rule, f.severity, f.line, f.other.line if f.other else None) for f in result.findings]


@pytest.fixture
def ablation(tmp_path):
    """Takes lines out of recorded kernels."""
    return Ablation(tmp_path)


SMALL = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128])
{{
.reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<20>; .reg .b128 %q<4>;
.shared .align 1024 .b8 s[4096]; .shared .align 8 .b64 m[2]; .local .align 16 .b8 mine[64];
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; mov.u32 %r2, s;
add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; mov.u32 %r3, m; shl.b32 %r4, %r1, 2; add.u32 %r5, %r2, %r4;
and.b32 %r6, %r1, 31; shr.u32 %r7, %r1, 5; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r6, 16; mov.u32 %r8, %ctaid.x;
{body}
ret;
}}
"""


class Rules:
    """Small programs, and what they are found to break. In a faulty one the line of the finding ends in ``//!``, and that of
    the other party, where it matters, in ``//^``."""

    def findings(self, body, *, grid=1, block=32, cluster=None, target="sm_90a", checks="all", locked=False, **options):
        """The findings of one launch of these lines, and the module's text; kernel arguments are two arrays of 4096 u32
        and a tensor map."""
        first, second = np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)
        first.flags.writeable = not locked
        tensor = TensorMap(second, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
        text = SMALL.format(target=target, body=body.strip("\n"))
        options = {"on_finding": "collect", "max_instructions": 20_000, **options}
        try:
            kernel = warpsim.load(text)["k"]
            result = kernel(grid, block, (first, second, tensor), cluster=cluster, checks=checks, **options)
        except warpsim.ExecutionError as error:
            return error.findings, text
        return result.findings, text

    def check(self, rule, faulty, correct, severity="error", **options):
        """The first finding of the faulty program is of this rule at its line, and the correct one has none."""
        found, text = self.findings(faulty, **options)
        lines = {
            mark: [n for n, line in enumerate(text.split("\n"), 1) if line.endswith(mark)] for mark in ("//!", "//^")
        }
        wanted = [f for f in found if f.severity == severity]
        assert [(f.rule, f.line) for f in wanted[:1]] == [(rule, n) for n in lines["//!"]], found
        if lines["//^"]:
            assert [wanted[0].other.line] == lines["//^"]
        assert wanted[0].message
        assert wanted[0].advice
        assert self.findings(correct, **options)[0] == ()


@pytest.fixture
def rules():
    """Judges pairs of a faulty program and the nearest correct one."""
    return Rules()
