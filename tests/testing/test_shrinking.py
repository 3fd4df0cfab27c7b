"""Shrinking keeps the failure and takes away what it does not need; fuzzing finds it and hands over a small launch."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import find
from hypothesis import strategies as st

import warpsim
from warpsim.cli import main
from warpsim.host.cases import Case, run_case
from warpsim.testing import Launch, arrays, fuzz, recipe, shrink, shrinking

ROOT = Path(__file__).parents[2]
SAXPY = ROOT / "programs" / "saxpy"


def broken(folder, change):
    """A copy of saxpy with another text."""
    shutil.copytree(SAXPY, folder)
    text = (folder / "kernel.ptx").read_text()
    assert change(text) != text
    (folder / "kernel.ptx").write_text(change(text))
    return folder


def unguarded(text):
    """Without the branch that keeps threads inside of the arrays."""
    return "\n".join(line for line in text.split("\n") if "bra" not in line)


def test_a_broken_rule(tmp_path, capsys):
    """A store out of bounds needs one CTA, no data, and a handful of instructions."""
    others = "\n.func f()\n{\n ret;\n}\n.visible .entry other(\n .param .u32 n\n)\n{\n call f;\n ret;\n}\n"
    case = broken(tmp_path / "case", lambda text: unguarded(text) + others)
    assert main(["shrink", str(case), "-o", str(tmp_path / "small"), "--seconds", "300"]) == 0
    small = Case.read(tmp_path / "small")
    error = run_case(tmp_path / "small").error

    assert "out-of-bounds" in error
    assert np.prod(small.description["grid"]) == 1
    assert all(b["in"] is None for b in small.description["buffers"])
    assert sum(";" in line for line in small.source[0].split("\n")) < 20
    assert "other" not in small.source[0]
    assert ".func" not in small.source[0]
    assert "it fails: out-of-bounds" in capsys.readouterr().out
    assert main(["shrink", str(SAXPY), "-o", str(tmp_path / "none")]) == 2


def test_a_document_of_shrinking(tmp_path, monkeypatch, capsys):
    """With --json what was said and written is one document, and nothing stands beside it."""

    def shrunk(case, output, *, said, **given):
        said(f"{case.name}: {given}")
        return output

    monkeypatch.setattr(shrinking, "shrink", shrunk)
    assert (
        main(["shrink", str(SAXPY), "-o", str(tmp_path / "small"), "--seconds", "7", "--schedule", "3", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)

    assert found["case"] == str(tmp_path / "small")
    assert found["steps"] == ["saxpy: {'seconds': 7.0, 'schedule': 3}"]


def test_a_wrong_element(tmp_path):
    """Bits that differ stay the same bits of the same element; all else is recorded as it is."""
    case = broken(tmp_path / "case", lambda text: text.replace("fma.rn.f32", "fma.rz.f32"))
    before = next(o for o in run_case(case).outputs)
    shrink(case, tmp_path / "small", seconds=3)
    after = run_case(tmp_path / "small")

    assert [o.differing for o in after.outputs if o.differing] == [1]
    (wrong,) = [o for o in after.outputs if o.differing]
    assert wrong.first == before.first
    assert json.loads((tmp_path / "small" / "case.json").read_text())["simulated"]["device"] == "sm_90"


def saxpy_launches():
    """Launches of saxpy with as many elements as there are."""
    return st.integers(1, 80).flatmap(
        lambda n: st.builds(
            lambda a, x, y: Launch(-(-n // 32), 32, (n, np.float32(a), x, y)),
            st.sampled_from([0.0, 1.0, 2.5]), arrays(n), arrays(n),
        )
    )  # fmt: skip


def test_types_of_arrays():
    """Those of NumPy and of the case format; any other is refused by name."""
    assert find(arrays(3, np.uint8), lambda found: True) == recipe("zeros", 3, "u8")
    with pytest.raises(warpsim.LaunchError, match="'u7' is not an element type; element types: s8"):
        arrays(3, "u7")


def test_fuzzing(tmp_path):
    """A right kernel passes; one that forgets its guard fails with the smallest launch, which is written as a case."""

    def oracle(given, left):
        _, a, x, y = given
        with np.errstate(all="ignore"):
            exact = a.astype(np.float64) * x.astype(np.float64) + y
        assert np.array_equal(np.isnan(left[3]), np.isnan(exact))

    fuzz(warpsim.load(SAXPY / "kernel.ptx")["saxpy"], saxpy_launches(), oracle=oracle, runs=5, schedules=1)
    wrong = warpsim.load(unguarded((SAXPY / "kernel.ptx").read_text()))["saxpy"]
    with pytest.raises(AssertionError, match="out-of-bounds") as info:
        fuzz(wrong, saxpy_launches(), runs=20, schedules=1, directory=tmp_path / "found")

    assert [str(frame.path) for frame in info.traceback.filter(info)] == [
        __file__
    ]  # neither warpsim's nor hypothesis's
    found = Case.read(tmp_path / "found")
    assert "out-of-bounds" in run_case(tmp_path / "found").error
    assert found.description["params"][0]["value"] == 1
    assert found.description["buffers"][0]["recipe"] == {"generator": "zeros", "seed": 0}
