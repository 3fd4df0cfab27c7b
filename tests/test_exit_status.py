"""How each command ends: 0 good; 1 a difference, an error found, a module refused, a case failed; 2 what cannot be
used or read. With --json there is one document, with the error where the status is 2.
"""

import contextlib
import io
import json
import shutil
import sys

import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.testing import record

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
STORES = """.visible .entry k(.param .u64 out) {{
  .reg .u32 %r<4>; .reg .u64 %rd<3>; .reg .pred %p;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  {}
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r0;
  ret;
}}
"""
KERNELS = {
    "good": HEAD + STORES.format(""),
    "warns": HEAD + STORES.format("setp.lt.u32 %p, %r0, 4; @%p shfl.sync.idx.b32 %r1, %r0, 9, 0x1f, 0xf;"),
    "faulty": HEAD + STORES.format("st.global.u32 [%rd0+128], %r0;"),
    "endless": HEAD + STORES.format("again: bra again;"),
    "traps": HEAD + STORES.format("trap;"),
    "alone": HEAD + ".visible .entry k() { ret; }",
    "refused": HEAD + ".visible .entry k() { nonsense; }",
}
RUN = "--grid 1 --block 32 --arg zeros:u32:32"
TABLE = f"""
run good.ptx {RUN}                                  0
run warns.ptx {RUN}                                 0
run faulty.ptx {RUN}                                1
run faulty.ptx {RUN} --checks none                  1
run endless.ptx {RUN} --max-instructions 99         1
run traps.ptx {RUN}                                 1
run refused.ptx {RUN}                               1
run none.ptx {RUN}                                  2
run good.ptx {RUN} --kernel other                   2
run good.ptx {RUN} --arg i32:1                      2
run good.ptx {RUN} --device sm_1                    2
run good.ptx --grid 1 --block 32 --arg out:u32:32=none/y.npy   2
run good.ptx {RUN} --record case/kernel.ptx         2
run good.ptx {RUN} --profile-to none/p.json         2
run good.ptx {RUN} --sarif none/s.json              2
run good.ptx --grid 1                               2
replay case                                         0
replay warns                                        0
replay traps                                        0
replay saxpy                                        0
replay wrong                                        1
replay close                                        0
replay close --bits                                 1
replay found                                        1
replay found --bits                                 1
replay found --checks all                           1
replay faulty                                       1
replay both                                         1
replay traps-not                                    1
replay alone                                        1
replay refused                                      1
replay none                                         2
replay damaged                                      2
replay none case                                    2
replay none wrong                                   2
replay case wrong                                   1
replay case none --workers 2                        2
replay case --executor here                         2
replay                                              2
trace run good.ptx {RUN} -o t.html                  0
trace run faulty.ptx {RUN} -o t.html                1
trace run refused.ptx {RUN} -o t.html               1
trace run none.ptx {RUN} -o t.html                  2
trace run good.ptx {RUN} -o none/t.html             2
trace run good.ptx {RUN} -o t.txt                   2
trace replay case -o t.json                         0
trace replay wrong -o t.json                        1
trace replay found -o t.json                        1
trace replay alone -o t.json                        1
trace replay none -o t.json                         2
debug run good.ptx {RUN} -ex continue               0
debug run good.ptx {RUN} -ex quit                   0
debug run good.ptx {RUN} -x good.gdb                0
debug run faulty.ptx {RUN} -ex continue             1
debug run faulty.ptx {RUN} -ex continue -ex continue  1
debug run traps.ptx {RUN} -ex continue -ex continue 1
debug run refused.ptx {RUN} -ex continue            1
debug run none.ptx {RUN} -ex continue               2
debug run good.ptx {RUN} -x none                    2
debug run good.ptx {RUN} -ex break-here -ex continue  2
debug run good.ptx {RUN} -ex nonsense -ex quit      2
debug run good.ptx {RUN} -x bad.gdb                 2
debug replay case -ex continue                      0
debug replay wrong -ex continue                     1
debug replay found -ex continue -ex continue        1
debug replay found -ex continue -ex quit            1
debug replay alone -ex continue                     1
debug replay case -ex nonsense -ex continue         2
debug replay none                                   2
check good.ptx                                      0
check refused.ptx                                   1
check none.ptx                                      2
check good.ptx refused.ptx                          1
check good.ptx none.ptx refused.ptx                 2
check good.ptx --sarif none/s.json                  2
info good.ptx                                       0
info --isa                                          0
info --graph add.u32                                0
info --graph nonsense                               2
info refused.ptx                                    1
info none.ptx                                       2
examples                                            0
examples saxpy                                      0
examples none                                       2
layout ldmatrix.x4                                  0
layout nonsense                                     2
layout ldmatrix.x4 --operand q                      2
layout ldmatrix.x4 --device sm_1                    2
shrink found -o small --seconds 1                   0
shrink case -o small                                2
shrink none                                         2
shrink found -o case/kernel.ptx                     2
init-tests new                                      0
init-tests taken                                    2
init-tests case/kernel.ptx                          2
exec -- {sys.executable} -c pass                    0
exec -- {sys.executable} -c exit(7)                 7
exec -- none                                        2
exec                                                2
exec --link-flags                                   0
exec --device sm_1 -- {sys.executable} -c pass      2
exec --report none/r -- {sys.executable} -c pass    2
record -- {sys.executable} -I -c pass               2
record -- none                                      2
nonsense                                            2
"""
ROWS = [(words.split(), int(status)) for words, status in (line.rsplit(None, 1) for line in TABLE.strip().split("\n"))]
PLAIN = ("exec", "record", "nonsense")
"""Commands without documents."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with kernels and cases."""
    folder = tmp_path_factory.mktemp("status")
    for name, text in KERNELS.items():
        (folder / f"{name}.ptx").write_text(text)

    def case(name, kernel, change=None, *, args=None, **options):
        given = (np.zeros(32, np.uint32),) if args is None else args
        with contextlib.suppress(warpsim.ExecutionError):  # recorded without outputs
            record(warpsim.load(KERNELS[kernel])["k"], 1, 32, given, folder / name, **options)
        if change is not None:
            described = json.loads((folder / name / "case.json").read_text())
            change(described)
            (folder / name / "case.json").write_text(json.dumps(described))

    def differs(name):
        data = dict(np.load(folder / name / "data.npz"))
        (key,) = [key for key in data if key.startswith("out")]
        data[key][7] += 1
        np.savez(folder / name / "data.npz", **data)

    case("case", "good")
    case("warns", "warns")
    case("wrong", "good")
    differs("wrong")
    case(
        "close",
        "good",
        lambda d: d["buffers"][0].update(dtype="f32") or d["check"].update(out={"mode": "close", "atol": 1.0}),
    )
    differs("close")
    case("found", "faulty", on_finding="collect")
    case("both", "faulty", on_finding="collect")
    differs("both")
    case("faulty", "faulty")
    case("traps", "traps", lambda d: d.update(expect_error="CUDA_ERROR_ILLEGAL_INSTRUCTION"))
    case("traps-not", "good", lambda d: d.update(expect_error="CUDA_ERROR_ILLEGAL_INSTRUCTION"))
    case("alone", "alone", args=())
    for name in ("refused", "damaged"):
        shutil.copytree(folder / "case", folder / name)
    (folder / "refused" / "kernel.ptx").write_text(KERNELS["refused"])
    (folder / "damaged" / "case.json").write_text("{")
    (folder / "taken").mkdir()
    (folder / "taken" / "README.md").touch()
    (folder / "good.gdb").write_text("# all of it\nbreak 9\ncontinue\ncontinue\n")
    (folder / "bad.gdb").write_text("break nowhere\ncontinue\n")
    return folder


@pytest.fixture
def ends(files, tmp_path, monkeypatch, capsys):
    """Runs a command in a folder with copies of what it names: its status, and what it says."""
    monkeypatch.setattr("warpsim.driver.library.build", lambda *given: tmp_path)
    monkeypatch.setattr("warpsim.driver.library.environment", lambda folder, given, preload: dict(given))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*words):
        for name in {word.split("/")[0] for word in words if not word.startswith(("/", "."))}:
            if (files / name).is_dir():
                shutil.copytree(files / name, work / name, dirs_exist_ok=True)
            elif (files / name).is_file():
                shutil.copy(files / name, work / name)
        status, said = main(list(words)), capsys.readouterr()
        return status, said

    return run


def row(words):
    """The name of a row."""
    return " ".join("python" if word == sys.executable else word for word in words if word not in RUN.split())


@pytest.mark.parametrize(("words", "status"), [pytest.param(*r, id=row(r[0])) for r in ROWS])
def test_every_command(ends, words, status):
    """The status of the table; where it is 2, a message on standard error."""
    found, said = ends(*words)

    assert found == status
    assert "internal error" not in said.out + said.err
    if status == 2 and words[0] not in ("check", "info"):
        assert said.err.startswith(("warpsim: ", "(warpsim) "))


def documents():
    """The rows of commands that have a document; one with workers starts processes, as without a document."""
    for words, status in ROWS:
        if words[0] not in PLAIN:
            yield pytest.param(words, status, id=row(words), marks=[pytest.mark.long] * ("--workers" in words))


@pytest.mark.parametrize(("words", "status"), list(documents()))
def test_every_document(ends, words, status):
    """The same status, and one document that agrees with it."""
    found, said = ends(*words, "--json")
    document = json.loads(said.out)

    assert found == status
    assert bool(document.get("error")) >= (status == 2)
    if status == 0:
        assert not document.get("error")
    if "cases" in document and "--bits" not in words:
        assert all(case["ok"] for case in document["cases"]) == (status == 0 or "nonsense" in words)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("case", ["case: equal in every bit, "]),
        ("traps", ["traps: fails as recorded, "]),
        ("wrong", ["wrong: FAILED, ", "out: 1 element differs"]),
        ("found", ["found: FAILED, ", "1 finding of severity error; outputs equal in every bit", "error: ", "out-of-bounds"]),
        ("both", ["both: FAILED, ", "out: 1 element differs", "  1 finding of severity error\n", "out-of-bounds"]),
        ("alone", ["alone: FAILED, ", "nothing to compare"]),
        ("none", ["warpsim: none is neither a case directory nor a bundled program"]),
    ],
)  # fmt: skip
def test_replay_says_why(ends, case, words):
    """A case that fails is not said to be equal alone, and one that cannot be read has no result."""
    _, said = ends("replay", case)
    text = said.out + said.err

    assert all(word in text for word in words), text
    assert ("FAILED" in text) == ("FAILED" in words[0])
