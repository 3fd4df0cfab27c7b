"""Ablation of recorded kernels: change one line of a correct program and see what is reported."""

import shutil
from pathlib import Path

import pytest

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
