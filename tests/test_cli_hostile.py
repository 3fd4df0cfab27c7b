"""The command line where files are damaged, disks are full and nobody listens: a message and a status, nothing lost."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ptx_text import module_head
from warpsim.cli import main

PROGRAM = Path(__file__).parent.parent / "programs" / "saxpy"
KERNEL = PROGRAM / "kernel.ptx"
RUN = ["run", str(KERNEL), "--grid", "1", "--block", "32", "--arg", "i32:8", "--arg", "f32:2.0"]
LONG = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %rd; .reg .b32 %r; .reg .pred %p;
    ld.param.u64 %rd, [p];
    mov.u32 %r, 0;
again:
    add.u32 %r, %r, 1;
    st.global.u32 [%rd], %r;
    setp.ne.u32 %p, %r, 0;
    @%p bra again;
}
"""


def python(code, *, setup="", **options):
    """A process of its own that runs the command line with the words in ``code``."""
    text = f"import sys\n{setup}\nfrom warpsim.cli import main\nsys.exit(main({code!r}))"
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 100, **options}
    return subprocess.run([sys.executable, "-c", text], check=False, **given)


def header(text, version=b"\x01\x00"):
    """A .npy file with a header of one's own."""
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode("latin-1")


ARRAYS = {
    "empty": b"",
    "text": b"hello\n",
    "cut": header("{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }\n"),
    "huge": header("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000,), }\n"),
    "more": header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }\n"),
    "negative": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-8,), }\n") + bytes(32),
    "objects": header("{'descr': '|O', 'fortran_order': False, 'shape': (8,), }\n") + bytes(64),
    "no dictionary": header("[[[["),
    "old": header("{'descr': '<f4', 'fortran_order': False, 'shape': (8L,), }\n") + bytes(32),
    "tokens": header("'''"),
    "version": header("{}", b"\x09\x00"),
    "deep": header("(" * 5000),
    "archive": b"PK\x03\x04" + bytes(50),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_damaged_arrays(name, tmp_path, capsys):
    """A damaged .npy is named with what is wrong; a document is a document for status 2, too."""
    path = tmp_path / "x.npy"
    path.write_bytes(ARRAYS[name])

    status = main([*RUN, "--arg", f"in:{path}", "--arg", "zeros:f32:8", "--json"])
    record = json.loads(capsys.readouterr().out)

    if name == "old":  # as Python 2 wrote it
        assert status == 0
    else:
        assert status == 2
        assert str(path) in record["error"]


@pytest.mark.parametrize("words", [
    ["--arg", "in:/dev/zero"],
    ["--arg", "in:/"],
    ["--arg", "in:"],
    ["--arg", "in:a\0b"],
    ["--arg", "zeros:f32:99999999999999"],
    ["--arg", "zeros:f32:99999999999999999999999999999"],
    ["--arg", "zeros:f32:-1"],
    ["--arg", "zeros:f32"],
    ["--arg", "zeros"],
    ["--arg", "zeros:x:4"],
    ["--arg", ""],
    ["--arg", "i32:" + "9" * 5000],
    ["--arg", "i32:99999999999"],
    ["--arg", "f32:abc"],
    ["--arg", "bytes:xyz"],
    ["--grid", "9" * 5000],
    ["--grid", "1,2,3,4"],
    ["--block", "0"],
    ["--block", ""],
    ["--cluster", "-1"],
    ["--shared", "9" * 30],
    ["--shared", "many"],
    ["--max-seconds", "nan"],
    ["--max-seconds", "-1"],
    ["--max-seconds", "soon"],
    ["--max-instructions", "x"],
    ["--checks", ""],
    ["--checks", "default+nothing"],
    ["--device", "sm_" + "9" * 5000],
    ["--kernel", "\udcff"],
    ["--numerics", "fast"],
    ["--nonsense"],
])  # fmt: skip
def test_unusable_words(words, capsys):
    """Every unusable word is status 2, with one document where one is asked for."""
    assert main([*RUN, "--arg", "zeros:f32:8", "--arg", "zeros:f32:8", *words, "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]
    assert captured.err.startswith("warpsim: ")
    assert "internal error" not in captured.err


def altered(tmp_path, change):
    """A copy of a recorded case whose case.json is changed."""
    folder = tmp_path / "case"
    shutil.copytree(PROGRAM, folder)
    case = json.loads((folder / "case.json").read_text())
    text = change(case)
    (folder / "case.json").write_text(json.dumps(case) if text is None else text)
    return folder


@pytest.mark.parametrize("change", [
    lambda case: "",
    lambda case: "null",
    lambda case: "[" * 100_000,
    lambda case: "5",
    lambda case: "{}",
    lambda case: '{"grid": ' + "9" * 5000 + "}",
    lambda case: case.update(grid=None),
    lambda case: case.update(grid={"x": 1}),
    lambda case: case.update(entry=["saxpy"]),
    lambda case: case.update(dynamic_smem=-1),
    lambda case: case.update(dynamic_smem="x"),
    lambda case: case.update(params=5),
    lambda case: case.update(check=[]),
    lambda case: case.update(hardware=5),
    lambda case: case.update(hardware={"sm": 90}),
    lambda case: case.update(cluster=5),
    lambda case: case.update(buffers={"a": 1}),
    lambda case: case["buffers"][0].update(dtype="f33"),
    lambda case: case["buffers"][0].update({"in": None, "shape": [10**14]}),
    lambda case: case["buffers"][0].update({"in": None, "shape": [-1]}),
    lambda case: case["buffers"][0].update({"in": "no such"}),
    lambda case: case["params"][0].update(kind="magic"),
    lambda case: case["params"][0].update(value="x"),
    lambda case: case["params"][-1].update(buffer="nope"),
    lambda case: case["params"][-1].update(byte_offset="x"),
    lambda case: case["params"][-1].update(kind="bytes", hex=5),
    lambda case: case["params"][-1].update(kind="tensormap"),
])  # fmt: skip
def test_damaged_cases(change, tmp_path, capsys):
    """A case.json of any content is a failed case with its reason, status 2; the next case is run."""
    status = main(["replay", str(altered(tmp_path, change)), "saxpy", "--json"])
    bad, good = json.loads(capsys.readouterr().out)["cases"]

    assert status == 2
    assert not bad["ok"]
    assert bad["error"]
    assert "internal error" not in bad["error"]
    assert good["ok"]


@pytest.mark.parametrize("change", [
    lambda case: case.update(block=[10**400]),
    lambda case: case["params"][-1].update(byte_offset=10**30),
    lambda case: case["params"][0].update(value=10**30),
])  # fmt: skip
def test_cases_that_cannot_be_launched(change, tmp_path, capsys):
    """What a launch refuses is a failed case."""
    assert main(["replay", str(altered(tmp_path, change)), "--json"]) == 1
    (bad,) = json.loads(capsys.readouterr().out)["cases"]
    assert "internal error" not in bad["error"]


@pytest.mark.long
def test_damaged_archives(tmp_path, capsys):
    """A data.npz that is cut, altered, no archive, encrypted, a bomb, or holds something else."""
    folder = altered(tmp_path, lambda case: None)
    whole = (folder / "data.npz").read_bytes()
    samples = [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in range(0, len(whole), len(whole) // 40)]
    samples += [whole[: len(whole) // 2], b"", b"PK\x05\x06" + bytes(18), header("{}")]
    for member in (b"text", header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n")):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("in_x.npy", member)
        samples.append(stream.getvalue())
    statuses = set()
    for data in samples:
        (folder / "data.npz").write_bytes(data)
        statuses.add(main(["replay", str(folder), "--json"]))
        (case,) = json.loads(capsys.readouterr().out)["cases"]
        assert "internal error" not in (case["error"] or "")
    assert statuses <= {0, 1, 2}
    assert 2 in statuses


def test_missing_parts(tmp_path, capsys):
    """A case without its module, or with something else in its place, is unreadable: status 2."""
    folder = altered(tmp_path, lambda case: None)
    (folder / "kernel.ptx").unlink()
    assert main(["replay", str(folder), "--json"]) == 2
    (folder / "kernel.ptx").mkdir()
    assert main(["replay", str(folder), "--json"]) == 2
    assert main(["replay", "x" * 5000, "a\0b", "", "--json"]) == 2


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
@pytest.mark.parametrize("name", ["case.json", "data.npz", "kernel.ptx", "stdout.txt", "commands"])
def test_files_without_end(name, tmp_path, capsys):
    """Are not read to their end."""
    shutil.copytree(PROGRAM, tmp_path / "case")
    file = tmp_path / "case" / name
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")
    words = ["replay", str(tmp_path / "case"), "--json"]
    if name == "commands":
        words = ["debug", "-x", str(file), *words]

    assert main(words) != 0
    assert json.loads(capsys.readouterr().out)["error" if name == "commands" else "cases"]


def test_files_are_named_as_written(tmp_path, monkeypatch, capsys):
    """No suffix is added to a file that is written, and messages have the path as it was typed."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones(8, np.float32))

    assert main([*RUN, "--arg", "in:./x.npy", "--arg", "out:f32:8=./result"]) == 0
    assert sorted(os.listdir()) == ["result", "x.npy"]
    assert np.load("result").tolist() == [2.0] * 8
    Path("bad.ptx").write_text(".version 8.0\nnonsense\n")
    assert main(["check", "./bad.ptx"]) == 1
    assert "\n./bad.ptx:2:" in "\n" + capsys.readouterr().out.partition("-> ./result\n")[2]


def test_targets_are_opened_before_the_launch(tmp_path, capsys):
    """A folder that is not there is said before anything runs; no other file has been touched."""
    kept = tmp_path / "kept.npy"
    kept.write_bytes(b"as it was")

    status = main([*RUN, "--arg", f"out:f32:8={kept}", "--arg", f"out:f32:8={tmp_path}/missing/y.npy", "--json"])

    assert status == 2
    assert "cannot write" in json.loads(capsys.readouterr().out)["error"]
    assert kept.read_bytes() == b"as it was"
    assert os.listdir(tmp_path) == ["kept.npy"]


@contextlib.contextmanager
def small_disk(size):
    """Files grow no further than this."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_costs_one_file(tmp_path, capsysbinary):
    """An output that finds no room is named; the others are saved, and what the file held before is still there."""
    large, small = tmp_path / "large.npy", tmp_path / "small.npy"
    large.write_bytes(b"as it was")
    arguments = ["--arg", "i32:8", "--arg", "f32:2.0", "--arg", f"out:f32:9999={large}", "--arg", f"out:f32:8={small}"]
    with small_disk(4096):
        status = main(["run", str(KERNEL), "--grid", "1", "--block", "32", *arguments])

    assert status == 2
    assert b"cannot write" in capsysbinary.readouterr().err
    assert large.read_bytes() == b"as it was"
    assert np.load(small).shape == (8,)
    assert sorted(os.listdir(tmp_path)) == ["large.npy", "small.npy"]


def test_full_disk_keeps_the_recording(tmp_path):
    """A recording that cannot be written leaves the old one."""
    from warpsim.errors import LaunchError
    from warpsim.host.recording import renew

    folder = altered(tmp_path, lambda case: None)
    before = (folder / "data.npz").read_bytes()
    with small_disk(100), pytest.raises(LaunchError, match="cannot write"):
        renew(folder)

    assert (folder / "data.npz").read_bytes() == before
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_outputs_of_a_launch_that_fails(tmp_path, capsys):
    """What was written before a fault or the end of a budget is saved."""
    (tmp_path / "k.ptx").write_text(LONG)
    out = tmp_path / "out.npy"
    words = ["run", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "1", "--arg", f"out:u32:1={out}"]

    assert main([*words, "--max-instructions", "3000"]) == 1
    assert np.load(out)[0] > 700
    assert main([*words, "--max-seconds", "0.05", "--max-instructions", "none"]) == 1
    assert "limit: the launch has taken more than 0.05 seconds" in capsys.readouterr().err


def test_wall_clock_limit_of_replay(tmp_path, capsys):
    """replay has one of its own, and takes another."""
    from warpsim.cli.grammar import REPLAY_SECONDS, parser

    assert parser().parse_args(["replay", "x"]).max_seconds == REPLAY_SECONDS
    assert parser().parse_args(["run", "x", "--grid", "1", "--block", "1"]).max_seconds is None
    assert main(["replay", "saxpy", "--max-seconds", "0", "--json"]) == 1
    assert "limit" in json.loads(capsys.readouterr().out)["cases"][0]["error"]


def test_replay_document(capsys):
    """The document has exactly the documented fields."""
    assert main(["replay", "saxpy", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"cases"}
    (case,) = document["cases"]
    assert set(case) == {
        *("case", "ok", "bits_equal", "seconds", "instructions", "stdout", "error", "findings", "fidelity", "badge", "outputs")
    }  # fmt: skip
    assert set(case["outputs"][0]) == {"buffer", "ok", "bits_equal", "differing", "max_ulp", "first"}


def test_defects_are_said_to_be_ours(monkeypatch, capsys):
    """What nobody foresaw is an internal error, with the request to report it; other cases and files go on."""
    from warpsim.cli import commands, launching, running

    def fail(*_, **__):
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(launching, "run_case", fail)
    monkeypatch.setattr(commands, "check_program", fail)
    monkeypatch.setattr(running, "launch_from", fail)
    assert main(["replay", "saxpy"]) == 1
    assert main(["check", "--strict", str(KERNEL)]) == 1
    assert main([*RUN, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("ZeroDivisionError: by accident") == 3
    assert captured.out.count("please report it") == 3


@pytest.mark.parametrize(("failure", "status", "words"), [
    (MemoryError(), 2, "not enough memory"),
    (OSError(28, "No space left on device"), 2, "No space left"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (RecursionError("deep"), 1, "internal error"),
])  # fmt: skip
def test_whatever_reaches_the_top(failure, status, words, monkeypatch, capsys):
    """Each has its status and its message."""
    from warpsim.cli import commands

    def fail(options):
        raise failure

    monkeypatch.setattr(commands, "command_examples", fail)
    assert main(["examples"]) == status
    assert words in capsys.readouterr().err


def test_interrupted_replay_keeps_its_results(monkeypatch, capsys):
    """Ctrl-C in the second of three cases: the first is in the document, the status is 130."""
    from warpsim.cli import launching

    real = launching.run_case

    def interrupted(path, **options):
        if path.name == "transpose":
            raise KeyboardInterrupt
        return real(path, **options)

    monkeypatch.setattr(launching, "run_case", interrupted)
    other = str(Path(__file__).parent / "cases" / "transpose")
    assert main(["replay", "saxpy", other, "saxpy", "--json"]) == 130
    assert [case["ok"] for case in json.loads(capsys.readouterr().out)["cases"]] == [True]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
@pytest.mark.parametrize(
    "words", [pytest.param(["examples"], marks=pytest.mark.long), ["replay", "saxpy", "--json"]], ids=lambda w: w[0]
)
def test_full_device(words):
    """Output that finds no room is status 2 with a message, at whatever moment it shows."""
    with open("/dev/full", "wb") as full:
        done = python(words, stdout=full)
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.long
def test_nobody_reads():
    """A reader that is gone ends the command without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    done = python(["info", "--isa"], stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.long
def test_closed_streams_and_an_ascii_locale(tmp_path):
    """No output stream at all, or one that knows 128 characters, changes nothing else."""
    path = tmp_path / "größe.ptx"
    path.write_text(module_head() + "\N{GREEK SMALL LETTER ALPHA}\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    words = [sys.executable, "-m", "warpsim", "check", str(path)]
    done = subprocess.run(words, capture_output=True, env=environment, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"\\u03b1" in done.stdout
    closed = python(["replay", "saxpy"], setup="sys.stdout = sys.stderr = None")
    assert closed.returncode == 0


@pytest.mark.parametrize("name", ["numpy", "warpsim.cli.commands"])
def test_interrupted_import(name):
    """Ctrl-C while modules are loaded is status 130, too."""
    setup = f"""
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())"""
    done = python(["examples"], setup=setup)
    assert (done.returncode, done.stderr) == (130, b"warpsim: interrupted\n")


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_launch_saves(tmp_path):
    """Ctrl-C in a launch: status 130, and what was written is saved."""
    (tmp_path / "k.ptx").write_text(LONG)
    out = tmp_path / "out.npy"
    words = ["run", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "1", "--arg", f"out:u32:1={out}"]
    setup = """
import os, signal, threading
from warpsim.machine.engine import Run
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
advance = Run.advance
def interrupted(run):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return advance(run)
Run.advance = interrupted"""
    done = python(words, setup=setup)
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr
    assert np.load(out)[0] > 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_an_output_that_finds_no_room(capsys):
    """The launch has run: its document says so, and what could not be written."""
    program = str(Path(__file__).parents[1] / "programs" / "saxpy" / "kernel.ptx")
    arguments = ["--arg", "i32:8", "--arg", "f32:2.0", "--arg", "zeros:f32:8", "--arg", "out:f32:8=/dev/full"]

    assert main(["run", program, "--grid", "1", "--block", "32", "--json", *arguments]) == 2
    document = json.loads(capsys.readouterr().out)
    assert "/dev/full" in document["error"]
    assert document["instructions"] > 0
