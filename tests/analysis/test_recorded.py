"""Correct programs are silent: every recorded kernel, and the command line."""

import json

import pytest

from warpsim.cli import main

from .conftest import ROOT, findings, recorded

CASES = sorted(p for f in ("programs", "tests/cases") for p in (ROOT / f).glob("*/kernel.ptx"))
LARGE = 16_000
"""Bytes."""


def some():
    """Every eighteenth kernel, where it is not large; the others are long."""
    for number, path in enumerate(CASES):
        long = number % 18 > 0 or path.stat().st_size > LARGE
        yield pytest.param(path.parent.name, marks=[pytest.mark.long] * long)


@pytest.mark.parametrize("name", list(some()))
def test_recorded_kernels(name):
    """No finding of severity error in a kernel that ran on the hardware."""
    assert [f for f in findings(recorded(name)) if f[2] == "error"] == []


BAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
    .reg .pred p; .reg .b32 r;
    mov.u32 r, %tid.x; setp.eq.u32 p, r, 0;
    @!p bra after;
    bar.sync 0;
after:
    bar.sync 0;
    ret;
}
"""


@pytest.fixture
def file(tmp_path):
    """A module with a barrier behind a branch of one thread."""
    path = tmp_path / "bad.ptx"
    path.write_text(BAD)
    return str(path)


def test_text(file, capsys):
    """Headline, caret, the place that it conflicts with, advice; status 1, and 0 without --strict."""
    assert main(["check", file]) == 0
    assert main(["check", "--strict", file]) == 1

    lines = capsys.readouterr().out.split("\n")
    assert lines[1] == f"{file}: 1 kernel, 1 error, 0 warnings"
    assert lines[2].startswith(
        f"error: {file}:9:5: aligned-divergence: bar.sync must be executed by all lanes of a warp"
    )
    assert lines[3:5] == ["        bar.sync 0;", "        ^"]
    assert [line for line in lines if line.strip().startswith(f"conflicts with {file}:8:9:")]


def test_json(file, capsys):
    """The findings as data, with the other party."""
    assert main(["check", "--strict", "--json", file]) == 1

    (record,) = json.loads(capsys.readouterr().out)["files"]
    (finding,) = record["findings"]
    assert (record["ok"], finding["rule"], finding["line"], finding["column"]) == (False, "aligned-divergence", 9, 5)
    assert (finding["other"]["line"], finding["lanes"], finding["severity"]) == (8, [0], "error")


def test_warnings_do_not_count(tmp_path, capsys):
    """A module with warnings alone is good."""
    path = tmp_path / "maybe.ptx"
    path.write_text(BAD.replace("mov.u32 r, %tid.x;", "mov.u32 r, %tid.y;"))

    assert main(["check", "--strict", str(path)]) == 0
    assert "0 errors, 1 warning" in capsys.readouterr().out


def test_malformed(tmp_path, capsys):
    """A module that cannot be loaded is reported as without --strict."""
    path = tmp_path / "bad.ptx"
    path.write_text("garbage\n")

    assert main(["check", "--strict", str(path)]) == 1
    assert "syntax" in capsys.readouterr().out
    assert main(["check", "--strict", str(tmp_path / "missing.ptx")]) == 2
