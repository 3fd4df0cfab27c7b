"""Five kernels with a bug each: what is found names the variables as CUDA does, and the CUDA line."""

import shlex
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.cli import main

FOLDER = Path(__file__).parent / "planted"


def numbers(n, dtype=np.float32):
    """Numbers from 0 on."""
    return np.arange(n, dtype=dtype)


ARGUMENTS = {
    "halo": (4, 64, lambda: (numbers(256), numbers(7), np.zeros(256, np.float32), 256)),
    "reduce": (2, 128, lambda: (numbers(256), np.zeros(2, np.float32))),
    "product": (1, (16, 16), lambda: (numbers(256), numbers(256), np.zeros(256, np.float32))),
    "histogram": (2, 64, lambda: (numbers(128, np.uint8), np.zeros(64, np.uint32))),
    "shift": (2, 128, lambda: (numbers(256), np.zeros(256, np.float32))),
}


def findings(name, checks="default+race", **options):
    """What is found in a kernel."""
    grid, block, arguments = ARGUMENTS[name]
    (kernel,) = warpsim.load(FOLDER / f"{name}.ptx").kernels.values()
    return kernel(grid, block, arguments(), checks=checks, on_finding="collect", **options).findings


def line_of(name, part):
    """The number of the line of a kernel's source that holds a part."""
    lines = (FOLDER / f"{name}.cu").read_text().split("\n")
    (number,) = [n for n, line in enumerate(lines, 1) if part in line]
    return number


@pytest.mark.parametrize(
    ("name", "rule", "line", "names"),
    [
        ("halo", "other-variable", "tile[t + BLOCK + R] =", ("`tile`, 4 bytes past its end", "`coef`")),
        ("reduce", "race", "partial[t] += partial[t + s]", ("(partial+0x80)",)),
        ("product", "other-variable", "a[i * 17 + j] =", ("`a`, 4 bytes past its end", "`b`")),
        ("histogram", "uninitialised", "atomicAdd(&counts[t], bins[t])", ("(bins)",)),
        ("shift", "async-read-early", "y[blockIdx.x * 128 + t] =", ("(stage+0x4)", "shift.cu:6:")),
    ],
)
def test_found_by_name_and_line(name, rule, line, names):
    """The first finding is the bug: its rule, its CUDA line or the one that it is inlined at, and the variables."""
    found = findings(name)[0]
    place = found.inlined_at[-1] if found.inlined_at else found.source

    assert (found.rule, place) == (rule, (f"{name}.cu", line_of(name, line)))
    assert all(part in str(found) for part in names)


def test_an_unrolled_race_is_one_finding():
    """Steps of an unrolled loop race at one CUDA line: one finding, which counts them."""
    (race,) = findings("reduce")

    assert race.count >= 6
    assert "times here" in str(race)


@pytest.mark.parametrize("name", ["halo", "product"])
def test_a_race_of_a_stray_access_is_no_missing_barrier(name):
    """A race with an access that left its variable advises to correct the index."""
    first, race = [f for f in findings(name) if f.rule in ("race", "other-variable")]

    assert (first.rule, race.rule) == ("other-variable", "race")
    assert race.advice.startswith("other-variable in line ")
    assert race.advice.endswith("correct the index, no barrier is missing")


def test_a_deadlock_behind_other_findings_keeps_its_line(tmp_path):
    """Where findings are collected, the text of what ends the launch has each of them with its CUDA line."""
    text = (FOLDER / "halo.ptx").read_text().replace("ret;", "bar.sync \t1, 96;\n\tret;", 1)
    (tmp_path / "halo.ptx").write_text(text)
    (kernel,) = warpsim.load(tmp_path / "halo.ptx").kernels.values()
    with pytest.raises(warpsim.ExecutionError) as stopped:
        kernel(4, 64, ARGUMENTS["halo"][2](), on_finding="collect")

    assert [f.rule for f in stopped.value.findings] == ["other-variable", "barrier-divergence"]
    assert str(stopped.value).count("\n    halo.cu:") == 2


# ---- opened where it happened ---------------------------------------------------------------------

RUN = [
    "run", str(FOLDER / "halo.ptx"), "--grid", "4", "--block", "64", "--arg", "arange:f32:256", "--arg", "arange:f32:7",
    "--arg", "zeros:f32:256", "--arg", "i32:256",
]  # fmt: skip
HERE = "other-variable: address made from `tile`"


def test_a_report_says_how_to_look(tmp_path, capsys):
    """The command in a report of run, and of replay, stops at the finding, before its step; its lanes are in focus."""
    case = tmp_path / "case"
    assert main([*RUN, "--record", str(case)]) == 0
    assert main(["replay", str(case)]) == 0
    commands = [line for line in capsys.readouterr().err.split("\n") if line.startswith("debug this: warpsim ")]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.removeprefix("debug this: warpsim "))
        assert words[-2:] == ["--at-finding", "1"]
        assert "--record" not in words

        main([*words, "-ex", "quit"])
        said = capsys.readouterr().out
        assert HERE in said
        assert "stencil, CTA (0,0,0), warp 0, lane 3;" in said


def test_debug_a_case_in_short(tmp_path, capsys):
    """``debug CASE`` replays it; the second finding is found, and there is no third one to stop at."""
    case = tmp_path / "case"
    main([*RUN, "--record", str(case), "--checks", "default+race"])
    capsys.readouterr()
    main(["debug", str(case), "--checks", "default+race", "--at-finding", "2", "-ex", "quit"])
    said = capsys.readouterr().out

    assert "race: shared address 0x118 (coef) is written" in said
    assert "lane 3; lanes 0-3 together; step 40" in said


def test_debug_on_finding(capsys, monkeypatch):
    """``--debug-on-finding`` opens the debugger there, and only where something is found."""
    monkeypatch.setattr("sys.stdin", None)
    main([*RUN, "--debug-on-finding"])
    assert "Left at step 40, before the end." in capsys.readouterr().out

    assert main([*RUN, "--debug-on-finding", "--checks", "none"]) == 0
    assert "step 40" not in capsys.readouterr().out
