"""``warpsim run --timing``: every moment belongs to a phase, and lines say why they are interpreted."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import warpsim
from warpsim.cli import main
from warpsim.native.compiling import available
from warpsim.observe.timing import StopWatch

LOOP = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 0;
L:  add.u32 %r3, %r3, 1;
    mad.lo.u32 %r2, %r2, 3, %r3;
    setp.lt.u32 %q, %r3, %r1;
    @%q bra L;
    bar.sync 0, 32;
    mad.wide.u32 %rd2, %r1, 0, %rd1;
    st.global.u32 [%rd2], %r2;
    ret;
}
"""


def timing(tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, *more: str) -> tuple[dict[str, Any], str]:
    """The document of a run, and what the same run prints without ``--json``."""
    file = tmp_path / "k.ptx"
    file.write_text(LOOP)
    command = ["run", str(file), "--grid", "1", "--block", "32", "--arg", "zeros:u32:1", "--arg", "u32:200", "--timing"]
    assert main([*command, "--engine", engine, *more, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main([*command, "--engine", engine, *more]) == 0
    return document, capsys.readouterr().out


def test_phases_and_lines_of_the_interpreter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loading, binding and steps take time, machine code none; checks have their share."""
    document, text = timing(tmp_path, capsys, "interpreter")
    found = document["timing"]
    assert found["load"] > 0
    assert found["bind"] > 0
    assert found["interpreted"] > 0
    assert found["checks"] > 0
    assert found["native"] == found["compile"] == 0
    phases = sum(found[name] for name in ("interpreted", "checks", "native", "compile", "rest"))
    assert found["interpreted"] < phases <= document["seconds"]
    lines = {line["line"]: line for line in found["lines"]}
    assert lines[13]["text"].startswith("mad.lo.u32")
    assert sum(line["interpreted"] for line in lines.values()) == pytest.approx(found["interpreted"])
    assert "nothing ran as machine code: the interpreter was selected" in text
    assert document["instructions"] == 4 + 200 * 4 + 4


def test_a_loop_is_where_time_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that ticks when it is asked: 200 laps take 200 times as long as a step behind the loop."""
    monkeypatch.setattr("warpsim.observe.timing.time", SimpleNamespace(perf_counter=itertools.count().__next__))
    document, _ = timing(tmp_path, capsys, "interpreter")
    lines = {line["line"]: line["interpreted"] for line in document["timing"]["lines"]}
    assert lines[13] >= 200 * lines[19] > 0


@pytest.mark.skipif(not available(), reason="the extra jit is not installed")
def test_machine_code_and_what_stays_interpreted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit's time is where it begins; a barrier of so many threads says that it runs between units. Counts are those of any run."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    document, text = timing(tmp_path, capsys, "compiled")
    found = document["timing"]
    assert found["native"] > 0
    lines = {line["line"]: line for line in found["lines"]}
    assert any(line["native"] > 0 for line in lines.values())
    assert lines[16]["why"] == "barrier: interpreted between compiled regions"
    assert [number for number, line in lines.items() if "barrier" in line["why"]] == [16]
    assert "barrier: interpreted between compiled regions" in text
    assert document["instructions"] == 4 + 200 * 4 + 4


def test_findings_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules look on as ever while their time is taken; those that follow accesses leave machine code what computes in registers."""
    file = tmp_path / "k.ptx"
    file.write_text(LOOP.replace("st.global.u32 [%rd2]", "st.global.u32 [%rd2+4]"))
    command = ["run", str(file), "--grid", "1", "--block", "32", "--arg", "zeros:u32:1", "--arg", "u32:2", "--json"]
    documents = []
    for more in ([], ["--timing"], ["--timing", "--checks", "all"]):
        assert main([*command, *more]) == 1
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0]["findings"] == documents[1]["findings"] == documents[2]["findings"]
    assert documents[0]["findings"][0]["rule"] == "out-of-bounds"
    compiles = importlib.util.find_spec("llvmlite") is not None
    said = {line["why"] for line in documents[2]["timing"]["lines"]}
    assert ("interpreted before compiling it paid off" in said) == compiles


@pytest.mark.skipif(not available(), reason="the extra jit is not installed")
def test_a_random_order_is_interpreted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a seed orders is run step by step, and each line says so."""
    document, _ = timing(tmp_path, capsys, "compiled", "--schedule", "3")
    assert document["timing"]["native"] == 0
    assert {line["why"] for line in document["timing"]["lines"] if line["interpreted"]} == {
        "a watcher follows single steps, or they are in a random order"
    }


def test_an_instruction_of_no_line() -> None:
    """It is shown by its own text, one of a line by the line's."""
    watch, program = StopWatch(), warpsim.load(LOOP).program
    watch.program, first = program, program.functions["k"].code[0]
    moved = [attrs.evolve(first, span=first.span._replace(line=line)) for line in (0, 8, 99)]

    assert [watch.line(i).text for i in (first, *moved)] == [
        "ld.param.u64 %rd1, [p];",
        first.text,
        "ld.param.u64 %rd1, [p];",
        first.text,
    ]
