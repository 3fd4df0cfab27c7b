"""The command line: outputs and exit statuses."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.kernel import Kernel

SAXPY = Path(__file__).parent.parent / "programs" / "saxpy"


def test_replay_bundled(capsys):
    """A bundled program is found by its name; --json prints one document."""
    assert main(["replay", "saxpy", "--bits", "--json"]) == 0

    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["ok"]
    assert case["bits_equal"]
    assert case["outputs"][0]["max_ulp"] == 0
    assert {"instruction", "sm", "standing", "evidence", "count"} <= set(case["fidelity"][0])


def test_replay_difference(tmp_path, capsys, monkeypatch):
    """A wrong byte in the recording is a difference, shown with its place, and status 1; ``.`` has the folder's name."""
    data = dict(np.load(SAXPY / "data.npz"))
    data["out_y"][7] = np.nextafter(data["out_y"][7], np.float32(9e9))
    np.savez(tmp_path / "data.npz", **data)
    for name in ("kernel.ptx", "case.json"):
        (tmp_path / name).write_bytes((SAXPY / name).read_bytes())

    monkeypatch.chdir(tmp_path)

    assert main(["replay", "."]) == 1

    shown = capsys.readouterr().out
    assert shown.startswith(f"{tmp_path.name}: ")
    assert "1 element differs, up to 1 ulp; first at [7]" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "no_such_case"],
        ["replay", "saxpy", "--checks", "everything"],
        ["replay", "saxpy", "--device", "sm_1"],
        ["run", "missing.ptx", "--grid", "1", "--block", "1"],
        ["run", str(SAXPY / "kernel.ptx"), "--grid", "x", "--block", "1"],
        ["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "1", "--device", "sm_1"],
        ["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "1", "--arg", "i33:5"],
        *(
            ["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "1", "--arg", text]
            for text in (
                "normal:f16",
                "normal:f17:4",
                "normal:f32:4:spread=1",
                "normal:f32:4:seed=x",
                "full:f32:-1",
                "bits:u8:9x9x",
            )
        ),
        ["check", "missing.ptx"],
        ["nonsense"],
    ],
)
def test_unusable(arguments, capsys):
    """Unusable arguments and unreadable files are status 2, without a traceback."""
    assert main(arguments) == 2


def test_run_saves_arrays(tmp_path, capsys):
    """run takes arrays from files and writes those with =NAME."""
    np.save(tmp_path / "x.npy", np.ones(8, np.float32))
    out = tmp_path / "y.npy"
    arguments = ["--arg", "i32:8", "--arg", "f32:2.0", "--arg", f"in:{tmp_path / 'x.npy'}", "--arg", f"out:f32:8={out}"]

    assert main(["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "32", *arguments]) == 0

    assert np.load(out).tolist() == [2.0] * 8


def test_run_makes_arrays(tmp_path, capsys):
    """run makes arrays by a generator with its numbers, and writes those with =NAME."""
    out = tmp_path / "y.npy"
    arguments = [
        "--arg",
        "i32:8",
        "--arg",
        "f32:2.0",
        "--arg",
        "arange:f32:8:start=1",
        "--arg",
        f"full:f32:8:value=3={out}",
    ]

    assert main(["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "32", *arguments]) == 0

    assert np.load(out).tolist() == [2.0 * (1 + i) + 3.0 for i in range(8)]


def test_check(tmp_path, capsys):
    """check accepts a good module, and names the line of a bad one with status 1."""
    bad = tmp_path / "bad.ptx"
    bad.write_text(module_head() + ".entry k() { mov.u32 %r1, 0; }\n")

    assert main(["check", str(SAXPY / "kernel.ptx")]) == 0
    assert main(["check", str(bad)]) == 1

    assert "bad.ptx:4:" in capsys.readouterr().out


def test_info_and_examples(capsys):
    """info shows kernels and the instruction table; examples lists five programs."""
    assert main(["info", str(SAXPY / "kernel.ptx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["name"] == "saxpy"
    assert main(["info", "--isa", "--json"]) == 0
    assert "add" in json.loads(capsys.readouterr().out)["supported"]
    assert main(["examples"]) == 0
    assert "softmax_rows" in capsys.readouterr().out


def test_layout(capsys):
    """The table, plain data, one drawing, a page; what has no such operand is unusable."""
    assert main(["layout", "mma.m16n8k16...f16", "--operand", "A"]) == 0
    assert "0:a0" in capsys.readouterr().out
    assert main(["layout", "wmma.m16n16k16.f16", "--json", "--device", "sm_70"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["operands"]["a"]["holders"][0][1][0] == {"lane": 0, "register": 0, "part": 1}
    assert main(["layout", "mma.m16n8k8.tf32", "--operand", "b", "--format", "svg"]) == 0
    assert capsys.readouterr().out.startswith("<svg")
    assert main(["layout", "mma.m16n8k8.tf32", "--format", "html"]) == 0
    assert "</html>" in capsys.readouterr().out
    for arguments in (["add.f32"], ["mma.m16n8k8.tf32", "--operand", "e"], ["mma.m16n8k8.tf32", "--format", "svg"]):
        assert main(["layout", *arguments]) == 2
        assert capsys.readouterr().err.startswith("warpsim: ")


def test_replay_goes_on_after_broken_cases(tmp_path, capsys):
    """A broken case is a failed one, named with its reason; the others are run, and the document is whole."""
    good = Path(__file__).parent / "cases" / "transpose"
    for name, entry, data in (("kernel", "nope", True), ("data", "transpose", False)):
        folder = tmp_path / name
        shutil.copytree(good, folder)
        case = json.loads((folder / "case.json").read_text())
        (folder / "case.json").write_text(json.dumps({**case, "entry": entry}))
        if not data:
            (folder / "data.npz").write_bytes(b"junk")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "case.json").write_text("{}")
    (tmp_path / "empty" / "data.npz").write_bytes((good / "data.npz").read_bytes())
    names = ("kernel", "data", "empty", "missing")

    status = main(["replay", "--json", *[str(tmp_path / name) for name in names], str(good)])
    cases = json.loads(capsys.readouterr().out)["cases"]

    assert status == 2
    assert [case["ok"] for case in cases] == [False] * 4 + [True]
    assert "has no kernel 'nope'" in cases[0]["error"]
    assert all(case["error"] for case in cases[:4])


def test_unknown_names():
    """A name that the module lacks is an error of warpsim that lists what there is, and a KeyError."""
    module = warpsim.load(Path(__file__).parent / "cases" / "transpose" / "kernel.ptx")

    for missing in (lambda: module["nope"], lambda: module.get_function("nope"), lambda: module.get_global("nope")):
        with pytest.raises(warpsim.LaunchError, match="has no"):
            missing()
        with pytest.raises(KeyError):
            missing()


def test_options_reach_the_launch(monkeypatch):
    """--schedule and --async-effects are options of the launch, and nothing where they are not given."""
    for words, given in (
        ([], {}),
        (["--schedule", "7", "--async-effects", "at_wait"], {"schedule": 7, "async_effects": "at_wait"}),
    ):
        seen = []
        monkeypatch.setattr(Kernel, "__call__", lambda self, *args, seen=seen, **options: seen.append(options) or 1 / 0)
        arguments = ["--arg", "i32:8", "--arg", "f32:2.0", "--arg", "zeros:f32:8", "--arg", "zeros:f32:8"]
        main(["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "32", *arguments, *words])
        assert {name: seen[0][name] for name in ("schedule", "async_effects") if seen[0].get(name) is not None} == given
