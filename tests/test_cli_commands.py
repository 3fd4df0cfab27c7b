"""Commands with their options, one after the other: what is printed, written and given as status."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import types
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from ptx_text import module_head
from warpsim import cli
from warpsim.cli import commands, executing, launching, main, output
from warpsim.cli.arguments import Argument, argument, dims
from warpsim.cli.debug import Terminal
from warpsim.cli.grammar import parser
from warpsim.cli.launching import Progress
from warpsim.cli.output import Unusable
from warpsim.parallel import processes

ROOT = Path(__file__).parent.parent
SAXPY = ROOT / "programs" / "saxpy"
FAULTY = Path(__file__).parent / "debug" / "kernels" / "faulty.ptx"
RUN = ["run", str(FAULTY), "--grid", "1", "--block", "64", "--arg", "zeros:u32:64"]


def said(capsys, *words, status=0):
    """The standard output of a command that ends so."""
    assert main(list(words)) == status
    return capsys.readouterr().out


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("i32:-5", -5, None),
        ("u32:0x10", 16, None),
        ("s64:7", 7, None),
        ("f32:1.5", np.float32(1.5), None),
        ("f64:-inf", -np.inf, None),
        ("bytes:0a0b", b"\x0a\x0b", None),
        ("zeros:f32:3", np.zeros(3, np.float32), None),
        ("zeros:i16:2x3", np.zeros((2, 3), np.int16), None),
        ("out:u8:2,2=y.npy", np.zeros((2, 2), np.uint8), "y.npy"),
        ("arange:i32:4", np.arange(4, dtype=np.int32), None),
        ("arange:f32:3:start=2:step=0.5=y.npy", np.array([2, 2.5, 3], np.float32), "y.npy"),
        ("full:u16:2x2:value=7", np.full((2, 2), 7, np.uint16), None),
    ],
)
def test_arguments(text, value, path):
    """Numbers, bytes, arrays of a type and shape, generators with their numbers, and the file that each goes to."""
    found = argument(text)
    assert isinstance(found, Argument)
    assert found.path == path
    assert np.array_equal(found.value, value)
    assert np.asarray(found.value).shape == np.asarray(value).shape
    if isinstance(value, np.ndarray | np.generic):
        assert found.value.dtype == value.dtype


def test_arguments_from_files(tmp_path):
    """in: is only read, inout: goes back to its file, or to another one."""
    np.save(tmp_path / "x.npy", np.arange(3))
    path = str(tmp_path / "x.npy")
    assert [argument(t).path for t in (f"in:{path}", f"inout:{path}", f"inout:{path}=y", f"in:{path}=y")] == [None, path, "y", "y"]  # fmt: skip
    assert argument(f"in:{path}").value.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x:5", "unknown kind 'x'; kinds: in, inout, out, zeros, bytes, "),
        ("zeros:f99:4", "'f99' is not a type; types: "),
        ("zeros:f32:4y", "'4y' is not an extent; use the form 16,16"),
        ("arange:f32", "use the form arange:f32:64x64"),
        ("f32:x", "could not convert"),
        ("bytes:0", "fromhex"),
    ],
)
def test_arguments_that_are_none(text, words):
    """The message has the argument, and what it may be."""
    with pytest.raises(Unusable) as caught:
        argument(text)
    assert str(caught.value).startswith(f"--arg {text}: ")
    assert words in str(caught.value)


def test_extents():
    """With commas or crosses."""
    assert [dims(t) for t in ("16", "16,2", "16x2x3", " 4 , 5")] == [(16,), (16, 2), (16, 2, 3), (4, 5)]


def test_progress(capsys):
    """One line that is written over, and gone in the end."""
    shown = Progress()
    shown.erase()
    shown(1, 0, 10)
    shown(1000, 10, 10)
    shown.erase()
    shown.erase()
    text = capsys.readouterr().err
    assert text.split("\r")[1].strip() == "1 warp-instruction, 0 of 10 CTAs"
    assert re.fullmatch(r"\r[^\r]+\r[^\r]+\r +\r", text)
    assert len(text.split("\r")[3]) == max(map(len, text.split("\r")[1:3]))
    launching._printed("")


@pytest.mark.parametrize(("tty", "as_json", "shown"), [(True, False, True), (True, True, False), (False, False, False)])
def test_who_sees_progress(monkeypatch, tty, as_json, shown):
    """A terminal does, unless there is to be a document."""
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: tty))
    given = dict.fromkeys(("checks", "async_effects", "schedule", "max_instructions", "max_seconds", "engine", "workers", "executor", "profile", "profile_to", "shadow", "shadow_to"))  # fmt: skip
    found = launching.launch_options(types.SimpleNamespace(**given, json=as_json))
    assert (found["progress"] is not None) is shown
    assert found["profile"] is False
    for name in ("profile", "profile_to"):
        assert launching.launch_options(types.SimpleNamespace(**{**given, name: "x"}, json=as_json))["profile"]


# ---- commands ------------------------------------------------------------------------------------


def test_examples(capsys):
    """All, or one by its name, with the first line of what it says of itself; none is unusable."""
    found = json.loads(said(capsys, "examples", "--json"))["examples"]
    assert {p["name"] for p in found} == {p.parent.name for p in (ROOT / "programs").glob("*/case.json")}
    one = json.loads(said(capsys, "examples", "saxpy", "--json"))["examples"]
    assert one == [p for p in found if p["name"] == "saxpy"]
    readme = SAXPY / "README.md"
    assert one[0]["what"] == (readme.read_text().strip().splitlines()[0] if readme.exists() else "")
    assert one[0]["path"] == str(SAXPY)
    text = said(capsys, "examples", "saxpy")
    assert text.split() == ["saxpy", str(SAXPY), *one[0]["what"].split()]
    assert main(["examples", "none"]) == 2
    assert "no bundled program none" in capsys.readouterr().err


def test_examples_of_a_package(monkeypatch, tmp_path, capsys):
    """A folder without a description has none, one without a case is no program; there may be none at all."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "case.json").write_text("{}")
    monkeypatch.setattr(commands, "programs", lambda: tmp_path)
    assert json.loads(said(capsys, "examples", "--json")) == {"examples": [{"name": "one", "path": str(tmp_path / "one"), "what": ""}]}  # fmt: skip
    monkeypatch.setattr(commands, "programs", lambda: tmp_path / "none")
    assert said(capsys, "examples") == ""
    monkeypatch.setattr(launching, "programs", lambda: tmp_path)
    assert launching.find_case("one") == tmp_path / "one"
    with pytest.raises(Unusable, match="neither a case directory nor a bundled program"):
        launching.find_case("two")


def test_info(capsys, tmp_path):
    """Kernels with their resources; a module that cannot be read or loaded ends so; every opcode has its lines."""
    text = said(capsys, "info", str(SAXPY / "kernel.ptx"))
    assert text.startswith(f"{SAXPY / 'kernel.ptx'}: target sm_")
    assert "saxpy(" in text
    (tmp_path / "bad.ptx").write_text("nonsense")
    for words in ([], ["--json"]):
        out = said(capsys, "info", str(tmp_path / "bad.ptx"), *words, status=1)
        found = json.loads(out)["findings"][0]["message"] if words else out
        assert "nonsense" in found
    assert main(["info", str(tmp_path / "none.ptx"), "--json"]) == 2
    capsys.readouterr()
    isa = said(capsys, "info", "--isa").splitlines()
    table = json.loads(said(capsys, "info", "--json"))
    assert len(isa) == sum(map(len, table["supported"].values())) + 1
    assert isa[-1] == "not supported: " + " ".join(table["unsupported"])
    assert [line.split()[0] for line in isa[:-1]] == [root for root, lines in table["supported"].items() for _ in lines]


def test_check(capsys, tmp_path):
    """One line a file; the worst of them decides; findings as SARIF."""
    (tmp_path / "bad.ptx").write_text(module_head() + ".entry k() { mov.u32 %r1, 0; }\n")
    good, bad, none = str(SAXPY / "kernel.ptx"), str(tmp_path / "bad.ptx"), str(tmp_path / "none.ptx")
    assert said(capsys, "check", good) == f"{good}: 1 kernel, no problem found\n"
    for files, status in (([good, bad], 1), ([bad, good], 1), ([good, none], 2), ([none, bad], 2)):
        found = json.loads(said(capsys, "check", "--json", *files, status=status))["files"]
        assert [record["ok"] for record in found] == [name == good for name in files]
    said(capsys, "check", bad, "--sarif", str(tmp_path / "out.sarif"), status=1)
    (result,) = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    assert commands._summary(()) == "no problem found"


def test_run(capsys, tmp_path):
    """A launch with findings is status 1, as text and as a document; without any, a hint to look for races."""
    assert main(RUN) == 1
    assert "out-of-bounds" in capsys.readouterr().err
    record = json.loads(said(capsys, *RUN, "--json", status=1))
    assert [f["rule"] for f in record["findings"]] == ["out-of-bounds"]
    assert record["profile"] is None
    fitting = [*RUN[:-1], "zeros:u32:65"]
    assert "no findings; add --checks default+race" in said(capsys, *fitting)
    assert "no findings; add" not in said(capsys, *fitting, "--json")
    saxpy = ["run", str(SAXPY / "kernel.ptx"), "--grid", "1", "--block", "1", "--arg", "i32:1", "--arg", "f32:2"]
    saxpy += ["--arg", "zeros:f32:1", "--arg", "zeros:f32:1"]
    assert "no findings; add" in said(capsys, *saxpy)
    assert "no findings; add" not in said(capsys, *saxpy, "--checks", "default+race")
    text = said(capsys, *fitting, "--profile", "--record", str(tmp_path / "case"), "--kernel", "k")
    assert "argument 0: uint32 (65,) [0 0 1 2 3 4]" in text
    assert (tmp_path / "case" / "case.json").exists()
    assert main([*RUN, "--kernel", "other"]) == 2
    assert "has no kernel other; it has: k" in capsys.readouterr().err
    (tmp_path / "empty.ptx").write_text(module_head())
    assert main(["run", str(tmp_path / "empty.ptx"), "--grid", "1", "--block", "1"]) == 2
    for name, begins in (("p.json", "{"), ("p.html", "<!doctype html>")):
        said(capsys, *fitting, "--profile-to", str(tmp_path / name))
        assert (tmp_path / name).read_text().lower().startswith(begins)
    said(capsys, *RUN, "--sarif", str(tmp_path / "out.sarif"), status=1)
    assert len(json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]) == 1
    found = json.loads(said(capsys, *fitting, "--json", "--profile"))
    assert found["profile"] is not None
    (tmp_path / "bad.ptx").write_text("nonsense")
    for words in ([], ["--json"]):
        assert main(["run", str(tmp_path / "bad.ptx"), "--grid", "1", "--block", "1", *words]) == 1
        said_of_it = capsys.readouterr()
        assert "nonsense" in (json.loads(said_of_it.out)["error"] if words else said_of_it.err)


def test_timing(capsys):
    """How long each part of a launch took, as text and as a document."""
    fitting = [*RUN[:-1], "zeros:u32:65", "--timing"]
    record = json.loads(said(capsys, *fitting, "--json"))["timing"]
    assert record
    assert all(value >= 0 for value in record.values() if isinstance(value, int | float))
    assert "bind" in said(capsys, *fitting)


def test_defaults_of_options():
    """A thousand million instructions; ten minutes for a recorded launch, no limit of time for another."""
    given = parser().parse_args(["replay", "saxpy"])
    assert (given.max_instructions, given.max_seconds, given.case) == (10**9, 600, ["saxpy"])
    given = parser().parse_args(
        ["run", "k.ptx", "--grid", "1", "--block", "2", "--max-instructions", "none", "--max-seconds", "1.5"]
    )
    assert (given.max_instructions, given.max_seconds, given.json) == (None, 1.5, False)
    shrinks = parser().parse_args(
        ["shrink", "case", "--async-effects", "at_wait", "--schedule", "3", "--checks", "all", "-o", "dir"]
    )
    assert (shrinks.case, shrinks.async_effects, shrinks.schedule, shrinks.checks) == ("case", "at_wait", 3, "all")
    assert (shrinks.output, shrinks.seconds, shrinks.json) == ("dir", 60, False)
    records = parser().parse_args(["record", "--launches", "4", "--kernels", "k*", "--", "prog", "-x"])
    assert (records.output, records.kernels, records.launches, records.program) == ("cases", "k*", 4, ["prog", "-x"])
    for words in (
        ["replay", "saxpy", "--async-effects", "late"],
        ["run", "k.ptx"],
        ["shrink"],
        ["init-tests"],
    ):
        with pytest.raises(Unusable):
            parser().parse_args(words)


def test_replay(capsys, tmp_path):
    """A profile of one case goes to a file or into the document; of several it cannot."""
    assert main(["replay", "saxpy", "histogram", "--profile-to", str(tmp_path / "p.json")]) == 2
    assert "--profile-to needs a single case" in capsys.readouterr().err
    (case,) = json.loads(said(capsys, "replay", "saxpy", "--profile", "--json"))["cases"]
    assert case["profile"]["kernel"] == "saxpy"
    (case,) = json.loads(said(capsys, "replay", "saxpy", "--json"))["cases"]
    assert "profile" not in case
    said(capsys, "replay", "saxpy", "--profile-to", str(tmp_path / "p.json"))
    assert json.loads((tmp_path / "p.json").read_text())["kernel"] == "saxpy"
    assert "saxpy: equal in every bit" in said(capsys, "replay", "saxpy")


def test_layouts(capsys):
    """Descriptors by their 64 bits; drawings of tiles."""
    assert main(["layout", "wgmma.m64n64k16.f16", "--descriptor", "many"]) == 2
    assert "give its 64 bits, for example 0x4000004000010000" in capsys.readouterr().err


def test_the_debugger(capsys, tmp_path, monkeypatch):
    """A file of commands that cannot be read, a module that cannot be loaded, a launch that is refused."""
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    assert main(["debug", *RUN, "-x", str(tmp_path / "none")]) == 2
    assert f"cannot read {tmp_path / 'none'}" in capsys.readouterr().err
    (tmp_path / "bad.ptx").write_text("nonsense")
    for words in ([], ["--json"]):
        assert main(["debug", "run", str(tmp_path / "bad.ptx"), "--grid", "1", "--block", "1", *words]) == 1
        told = capsys.readouterr()
        assert "nonsense" in (json.loads(told.out)["error"] if words else told.err)
    assert main(["debug", *RUN[:-2]]) == 2
    assert "takes 1 arguments, not 0" in capsys.readouterr().err
    assert (
        main(["trace", "run", str(tmp_path / "bad.ptx"), "--grid", "1", "--block", "1", "-o", str(tmp_path / "t.html")])
        == 1
    )
    assert not (tmp_path / "t.html").exists()


def test_a_reader_that_is_gone(monkeypatch):
    """Nobody is told, and the status is 2."""
    module = sys.modules["warpsim.cli"]
    muted = []
    monkeypatch.setattr(module.output, "mute", muted.append)
    monkeypatch.setattr(module, "_run", lambda words: (_ for _ in ()).throw(BrokenPipeError()))
    assert main(["replay", "saxpy"]) == 2
    assert muted == [sys.stdout]


def test_trace(capsys, tmp_path):
    """A page or a file of Perfetto, of a launch or of a case; any other name is unusable, before anything runs."""
    page = tmp_path / "t.html"
    assert main(["trace", *RUN, "-o", str(page)]) == 1
    assert "steps of 2 warps" in capsys.readouterr().err
    assert page.read_text().lower().startswith("<!doctype html>")
    out = tmp_path / "t.json"
    assert main(["trace", "replay", "saxpy", "-o", str(out), "--json", "--ctas", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["ok"]
    assert json.loads(out.read_text())["traceEvents"]
    assert main(["trace", *RUN, "-o", str(tmp_path / "t.txt")]) == 2
    assert "a trace goes to FILE.html, or to FILE.json for Perfetto" in capsys.readouterr().err
    assert main(["trace", "replay", "none", "-o", str(tmp_path / "u.html")]) == 2
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "case.json").write_text("{}")
    assert main(["trace", "replay", str(tmp_path / "broken"), "-o", str(tmp_path / "u.html")]) == 2
    assert "is not a recorded case" in capsys.readouterr().err
    assert not (tmp_path / "u.html").exists()
    assert main(["trace", "replay", "saxpy", "-o", str(out), "--cta", "1", "--cta", "0,0,0", "--steps", "5"]) == 0


def test_init_tests(capsys, tmp_path):
    """The files that it has written, as text and as a document; a folder that cannot be made is unusable."""
    found = json.loads(said(capsys, "init-tests", str(tmp_path / "one"), "--json"))
    assert found["directory"] == str(tmp_path / "one")
    assert all((tmp_path / "one" / name).exists() for name in found["files"])
    lines = said(capsys, "init-tests", str(tmp_path / "two")).splitlines()
    assert lines == [*found["files"], f"now: cd {tmp_path / 'two'} && python -m pytest"]
    (tmp_path / "file").write_text("")
    assert main(["init-tests", str(tmp_path / "file" / "in")]) == 2
    assert "cannot write" in capsys.readouterr().err


# ---- ends ----------------------------------------------------------------------------------------


def test_a_program_that_is_watched(monkeypatch):
    """Whoever runs commands is told of those that found something, and of no others."""
    told = []
    module = sys.modules["warpsim.cli"]
    monkeypatch.setattr(module, "append_errors", told.append)
    monkeypatch.setattr("warpsim.host.defaults.keep_findings", lambda: told.append("judged"))
    monkeypatch.setattr(module, "_status", lambda words: len(words) - 1)
    start = module.main
    monkeypatch.delenv(module.FILE, raising=False)
    monkeypatch.setattr(sys, "argv", ["warpsim", "a", "b"])
    assert start() == 1
    assert told == []
    monkeypatch.setenv(module.FILE, "file")
    assert start() == 1
    assert told == ["judged", ["warpsim a b: exit status 1"]]
    monkeypatch.setattr(sys, "argv", ["warpsim", "a"])
    assert start() == 0
    assert told[2:] == ["judged"]


def test_streams(monkeypatch):
    """Closed ones take everything, narrow ones escape what they cannot show."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    monkeypatch.setattr(sys, "stderr", None)
    output.prepare()
    print("ü")
    print("nothing", file=sys.stderr)
    sys.stdout.flush()
    assert raw.getvalue().split() == [b"\\xfc"]
    sys.stderr.close()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert output.end("why", 2, as_json=True) == 2
    sys.stdout.flush()
    assert json.loads(raw.getvalue().split(b"\n")[1]) == {"error": "why"}
    assert sys.stderr.getvalue() == "warpsim: why\n"
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert output.end("why", 3, as_json=False) == 3


# ---- replaying ----------------------------------------------------------------------------------


class Pool:
    """Runs what it is given at once, or loses it."""

    def __init__(self, *losses):
        self.losses, self.given, self.ended = list(losses), [], False

    def submit(self, work, case, options):
        """A future of it."""
        self.given.append((case.name, options))
        loss = self.losses.pop(0) if self.losses else None
        if loss == "refuse":
            raise RuntimeError("no more")
        future = Future()
        if loss is None:
            future.set_result(work(case, options))
        else:
            future.set_exception(loss)
        return future

    def shutdown(self, *, cancel_futures):
        """The end."""
        self.ended = cancel_futures


@pytest.mark.parametrize(
    "losses", [(), (RuntimeError("lost"),), (RuntimeError("lost"), None, RuntimeError("lost")), ("refuse",)]
)
def test_cases_elsewhere(losses):
    """Each case is run by the executor; where it is lost, once more there, and then here."""
    pool = Pool(*losses)
    if losses == ("refuse",):
        with pytest.raises(RuntimeError):
            list(launching.results_of(["saxpy", "histogram"], {"executor": pool, "workers": 2}))
        return
    found = list(launching.results_of(["saxpy", "none", "saxpy"], {"executor": pool, "workers": 2, "checks": "none"}))
    assert [(result.case, result.ok, usable) for result, usable in found] == [("saxpy", True, True), ("none", False, False), ("saxpy", True, True)]  # fmt: skip
    assert all(options["workers"] is options["executor"] is None for _, options in pool.given)
    assert all(options["checks"] == "none" for _, options in pool.given)
    assert not pool.ended


def test_cases_here(monkeypatch):
    """One case, or one worker, needs no pool; several have one of as many processes as there are cases."""
    made = []
    monkeypatch.setattr(processes, "Processes", lambda count: made.append(count) or Pool())
    for names, workers, count in ((["saxpy"], 4, None), (["saxpy"] * 2, None, None), (["saxpy"] * 2, 1, None), (["saxpy"] * 2, 4, 2), (["saxpy"] * 2, 2, 2)):  # fmt: skip
        made.clear()
        seen = []
        monkeypatch.setattr(launching, "run_case", lambda path, seen=seen, **o: seen.append(o) or "result")
        assert [usable for _, usable in launching.results_of(names, {"workers": workers})] == [True] * len(names)
        assert made == ([] if count is None else [count])
        if count is None:
            assert [o["workers"] for o in seen] == [workers] * len(names)


def test_cases_that_end_badly(monkeypatch):
    """A defect is told as one, and the other cases are run."""
    monkeypatch.setattr(launching, "run_case", lambda path, **options: 1 / 0)
    ((result, usable),) = launching.results_of(["saxpy"], {})
    assert usable
    assert "internal error: ZeroDivisionError" in result.error
    ((first, _), (second, _)) = launching.results_of(
        ["saxpy", "saxpy"], {"executor": Pool(*[RuntimeError("lost")] * 5)}
    )
    assert first.error
    assert second.error


def test_executors(monkeypatch):
    """A scheduler of Dask by its address; what is none, or does not answer, is unusable."""
    assert launching.executor_of(None) is None
    for address, modules, words in (
        ("host:1", {}, "write dask://HOST:PORT"),
        ("dask://host:1", {"distributed": None}, "needs Dask: pip install distributed"),
        ("dask://host:1", {"distributed": types.SimpleNamespace(Client=lambda *a, **k: (_ for _ in ()).throw(OSError("late")))}, "no scheduler answers: late"),
    ):  # fmt: skip
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        with pytest.raises(Unusable, match=words):
            launching.executor_of(address)
    asked = []
    client = types.SimpleNamespace(get_executor=lambda: "executor")
    monkeypatch.setitem(
        sys.modules, "distributed", types.SimpleNamespace(Client=lambda *a, **k: asked.append((a, k)) or client)
    )
    assert launching.executor_of("dask://host:1") == "executor"
    assert asked == [(("tcp://host:1",), {"timeout": 10})]


# ---- exec ----------------------------------------------------------------------------------------


@pytest.fixture
def run_program(monkeypatch, tmp_path):
    """`exec` of a Python program, without the libraries: its status."""
    monkeypatch.setattr("warpsim.driver.library.build", lambda spare=None: tmp_path)
    monkeypatch.setattr(
        "warpsim.driver.library.environment", lambda folder, given, preload: {**given, "PRELOAD": str(preload)}
    )

    def run(code, *words):
        return main(["exec", *words, "--", sys.executable, "-c", code])

    return run


def test_exec_without_a_program(run_program, tmp_path, capsys):
    """It says what is missing; the linker's option needs none."""
    assert main(["exec"]) == 2
    assert "which program?" in capsys.readouterr().err
    assert main(["exec", "--link-flags"]) == 0
    assert capsys.readouterr().out == f"-L{tmp_path}\n"


def test_exec(run_program, tmp_path, capfd):
    """Options become variables of the program; its status is given, and findings that it has reported."""
    code = "import os; print({k: v for k, v in os.environ.items() if k.startswith(('WARPSIM_', 'PRE'))})"
    options = ["--device", "sm_80,sm_90a", "--checks", "none", "--max-seconds", "5", "--max-instructions", "7", "--numerics", "ieee", "--on-finding", "collect", "--async-effects", "at_wait", "--engine", "interpreter", "--ptx", str(tmp_path / "ptx"), "--no-preload"]  # fmt: skip
    assert run_program(code, *options) == 0
    found = eval(capfd.readouterr().out)
    expected = {
        "DEVICE": "sm_80,sm_90a", "CHECKS": "none", "MAX_SECONDS": "5", "MAX_INSTRUCTIONS": "7", "NUMERICS": "ieee",
        "ON_FINDING": "collect", "ASYNC_EFFECTS": "at_wait", "ENGINE": "interpreter", "PTX": str(tmp_path / "ptx"),
    }  # fmt: skip
    assert {name: found[f"WARPSIM_{name}"] for name in expected} == expected
    assert found["PRELOAD"] == "False"
    assert (tmp_path / "ptx").is_dir()
    assert run_program("raise SystemExit(7)") == 7
    writes = "import os, json; f = open(os.environ['WARPSIM_REPORT'], 'a'); [f.write(json.dumps({'severity': s, 'message': s}) + chr(10)) for s in %r]"  # fmt: skip
    capfd.readouterr()
    assert run_program(writes % ["note", "warning"]) == 0
    assert capfd.readouterr().err == ""
    assert run_program(writes % ["error"], "--on-finding", "collect") == 1
    assert capfd.readouterr().err == "warpsim: 1 finding\n"
    report = tmp_path / "report"
    for count in (2, 2):  # the report is appended, and only what is new counts
        assert run_program(writes % ["error", "note", "error"], "--report", str(report)) == 1
        counted, then = capfd.readouterr().err.splitlines()
        assert counted == f"warpsim: {count} findings (in {report})"
        assert "--on-finding collect goes on" in then
    assert len(report.read_text().splitlines()) == 6
    assert run_program("import os; open(os.environ['WARPSIM_REPORT'], 'w').write('nonsense')") == 0
    for words, text in ((["--device", "sm_80,sm_1"], "not a GPU"), (["--checks", "nonsense"], "nonsense")):
        assert run_program("", *words) == 2
        assert text in capfd.readouterr().err
    assert main(["exec", "--", str(tmp_path / "none")]) == 2
    assert f"cannot run {tmp_path / 'none'}: No such file" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_signals(run_program, capfd, monkeypatch):
    """A program that a signal ends has the status of a shell; what this process gets is passed on; Ctrl-C waits."""
    assert run_program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") == 128 + signal.SIGKILL
    assert "the program ended by SIGKILL" in capfd.readouterr().err
    waits = "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *a: sys.exit(9)); os.kill(os.getppid(), signal.SIGTERM); signal.pause()"  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    assert run_program(waits) == 9
    assert signal.getsignal(signal.SIGTERM) is before
    wait, calls = subprocess.Popen.wait, []

    def interrupted(self, timeout=None):
        calls.append(timeout)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    assert run_program("raise SystemExit(4)") == 4
    assert len(calls) == 2
    assert executing._errors("/nowhere", 0) == []


# ---- the terminal --------------------------------------------------------------------------------


class Lines:
    """What stands in for readline."""

    def __init__(self):
        self.said = {}

    def __getattr__(self, name):
        return lambda *given: self.said.update({name: given})


def test_the_history(monkeypatch, tmp_path):
    """It is read at the start and kept at the end, at most a thousand lines of it; one that cannot be read is none."""
    lines, ending = Lines(), []
    monkeypatch.setitem(sys.modules, "readline", lines)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("atexit.register", ending.append)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    path = os.path.join(str(tmp_path), ".warpsim_history")
    Terminal(types.SimpleNamespace())
    assert lines.said["read_history_file"] == (path,)
    assert lines.said["parse_and_bind"] == ("tab: complete",)
    assert "write_history_file" not in lines.said
    (keep,) = ending
    keep()
    assert lines.said["set_history_length"] == (1000,)
    assert lines.said["write_history_file"] == (path,)


@pytest.mark.parametrize(
    ("problem", "line", "out"),
    [
        (EOFError, None, "\n"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "# what was typed is not a text", ""),
        (OSError, None, ""),
    ],
)
def test_lines_that_are_none(monkeypatch, problem, line, out):
    """The end, bytes that are no text, no input at all."""

    def asks(text):
        assert text == "(warpsim) "
        raise problem

    monkeypatch.setattr("builtins.input", asks)
    monkeypatch.setattr(Terminal, "_prepare", lambda self: None)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    printed = io.StringIO()
    shell = types.SimpleNamespace(say=lambda: print(file=printed))
    made = Terminal(shell)
    assert made.read() == line
    assert printed.getvalue() == out
    monkeypatch.setattr("builtins.input", lambda text: "typed")
    assert made.read() == "typed"
    for stdin, expected in ((io.StringIO("one\ntwo"), ["one", "two", None]), (None, [None])):
        monkeypatch.setattr(sys, "stdin", stdin)
        made = Terminal(shell)
        assert not made.tty
        assert [made.read() for _ in expected] == expected


@pytest.mark.parametrize(("command", "threads"), [("--version", "1"), ("exec", None), ("record", None)])
def test_threads_of_products(command, threads, monkeypatch):
    """A command multiplies in one thread, unless told otherwise; the programs that it runs decide for themselves."""
    monkeypatch.setattr(sys, "argv", ["warpsim", command, "--help"])
    monkeypatch.setattr(cli, "gc", types.SimpleNamespace(set_threshold=id, freeze=int))
    monkeypatch.delenv(cli.FILE, raising=False)
    for given in ("3", None):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
        if given is None:
            monkeypatch.delenv("OPENBLAS_NUM_THREADS")

        assert main() == 0

        assert os.environ.get("OPENBLAS_NUM_THREADS") == (given or threads)
