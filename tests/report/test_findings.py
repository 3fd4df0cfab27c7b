"""What a finding says: the same text everywhere, as JSON, SARIF and HTML."""

import json
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.errors import Finding, spans
from warpsim.host.options import EVERY
from warpsim.program.mangling import source_name
from warpsim.report.findings import sarif
from warpsim.report.rules import RULES

RACE = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry rotate(.param .u64 out)
{
    .shared .align 16 .b8 first[256];
    .shared .align 16 .b8 _ZZ6rotateE6second[256];
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .loc 1 3 0
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, first; mov.u32 %r3, _ZZ6rotateE6second;
    add.u32 %r3, %r3, %r2;
    .loc 1 4 0
    st.shared.u32 [%r3], %r1;
    xor.b32 %r4, %r3, 128;
    .loc 1 5 0
    ld.shared.u32 %r5, [%r4];
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], %r5;
    ret;
}
.file 1 "CUDA"
"""
CUDA = "#define N 64\n//\n// rotate\n    second[t] = t;\n    *out = second[t ^ 32];\n"


@pytest.fixture
def files(tmp_path):
    """A kernel with a race, and the CUDA file that its .loc name."""
    (tmp_path / "rotate.cu").write_text(CUDA)
    path = tmp_path / "rotate.ptx"
    path.write_text(RACE.replace("CUDA", str(tmp_path / "rotate.cu").replace("\\", "\\\\")))
    return path


def expected(path):
    """The race by warps 0 and 1, in words: line 16 wrote, line 19 reads; `second` begins at byte 64."""
    return f"""{path}:19:5: race: shared address 0x180 (second+0x80) is read after CTA (0, 0, 0), warp 1, lane 0 wrote it in line 16, and nothing orders the two
        ld.shared.u32 %r5, [%r4];
        ^
    rotate.cu:5: *out = second[t ^ 32];
    CTA (0, 0, 0), warp 0, lanes 0-31
    conflicts with {path}:16:5: written here
            st.shared.u32 [%r3], %r1;
        rotate.cu:4: second[t] = t;
        CTA (0, 0, 0), warp 1, lane 0
    order the accesses with a barrier, a release and acquire of a flag, or an atomic (memory consistency model)"""


def launch(path, **options):
    """The kernel on two warps."""
    return warpsim.load(path)["rotate"]((1,), (64,), (np.zeros(1, np.uint32),), checks="default+race", **options)


def test_str_shows_all(files):
    """PTX line, CUDA line, CTA, warp, lanes, variable, and what the other access did; the error says the same."""
    (race,) = [f for f in launch(files, on_finding="collect").findings if f.line == 19]
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(files)

    assert str(race) == expected(files) == str(caught.value)


def test_command_line_shows_the_same(files, capsys):
    """`warpsim run` prints what the error says."""
    words = ["run", str(files), "--grid", "1", "--block", "64", "--arg", "zeros:u32:1", "--checks", "default+race"]
    assert main(words) == 1

    assert f"error: {expected(files)}\n" in capsys.readouterr().err


def test_without_the_cuda_file(files, tmp_path):
    """Where the CUDA file is not at hand, its name and the line still stand there."""
    (tmp_path / "rotate.cu").unlink()
    (race,) = [f for f in launch(files, on_finding="collect").findings if f.line == 19]

    assert "\n    rotate.cu:5\n" in str(race)


def test_cuda_file_beside_the_ptx(files, tmp_path, monkeypatch):
    """A relative name in .file counts from the place of the PTX file."""
    files.write_text(RACE.replace("CUDA", "rotate.cu"))
    monkeypatch.chdir("/")
    (race,) = [f for f in launch(files, on_finding="collect").findings if f.line == 19]

    assert str(race) == expected(files)


def test_calls_that_are_inlined():
    """The calls that brought the line there are shown under it, those of the program itself in any case."""
    calls = tuple((f"{name}.h", 1) for name in "bcde")
    found = Finding("race", "", source=("a.h", 1), inlined_at=calls)

    assert str(found).splitlines()[1:] == [
        "    a.h:1",
        "    inlined at c.h:1",
        "    inlined at d.h:1",
        "    inlined at e.h:1",
    ]
    places = sarif([found])["runs"][0]["results"][0]["relatedLocations"]
    assert [p["physicalLocation"]["artifactLocation"]["uri"] for p in places] == [
        "%3Cptx%3E",
        *(file for file, _ in calls),
    ]


def test_traceback_is_short(files):
    """Above a finding stand the caller's frames and one of ours, and no earlier exception."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(files)

    ours = [
        f for f in traceback.extract_tb(caught.value.__traceback__) if "warpsim/host" in f.filename.replace("\\", "/")
    ]
    assert len(ours) == 1
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 3
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("enter", [lambda: warpsim.load(".version"), lambda: warpsim.run("nonsense;")])
def test_tracebacks_of_bad_text_are_short(enter):
    """Likewise where a module is refused."""
    with pytest.raises(warpsim.PtxError) as caught:
        enter()

    assert len(traceback.extract_tb(caught.value.__traceback__)) <= 3


@pytest.mark.long
def test_pytest_shows_the_test_itself(tmp_path, files):
    """A failing test ends at its own line."""
    test = tmp_path / "test_it.py"
    test.write_text(
        f"import numpy, warpsim\ndef test_it():\n    k = warpsim.load({str(files)!r})['rotate']\n"
        "    k((1,), (64,), (numpy.zeros(1, 'u4'),), checks='race')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    bare = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=bare).stdout

    assert "kernel.py" not in shown
    assert "test_it.py:4: ExecutionError" in shown


def test_sarif(files, tmp_path):
    """A log for code scanning: at the CUDA line, with the PTX line and the other access beside it."""
    words = ["run", str(files), "--grid", "1", "--block", "64", "--arg", "zeros:u32:1", "--checks", "default+race"]
    main([*words, "--sarif", str(tmp_path / "log.sarif")])
    log = json.loads((tmp_path / "log.sarif").read_text())
    (run,) = log["runs"]
    result = next(r for r in run["results"] if r["properties"]["lanes"] == list(range(32)))
    lines = [
        (
            place["physicalLocation"]["artifactLocation"]["uri"].rpartition("/")[2],
            place["physicalLocation"]["region"]["startLine"],
        )
        for place in (*result["locations"], *result["relatedLocations"])
    ]

    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["name"] == "warpsim"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "race"
    assert (result["level"], result["occurrenceCount"]) == ("error", 1)
    assert lines == [("rotate.cu", 5), ("rotate.ptx", 19), ("rotate.ptx", 16), ("rotate.cu", 4)]


def test_sarif_of_a_module_that_cannot_be_loaded(tmp_path):
    """`check --sarif` and `run --sarif` write what is wrong with the text."""
    bad = tmp_path / "bad.ptx"
    bad.write_text(module_head("sm_90") + ".visible .entry k() { nonsense; }\n")
    for words in (["check", str(bad)], ["run", str(bad), "--grid", "1", "--block", "1"]):
        log = tmp_path / f"{words[0]}.sarif"
        assert main([*words, "--sarif", str(log)]) == 1

        (result,) = json.loads(log.read_text())["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def test_sarif_fingerprints_survive_moves(tmp_path):
    """Lines above a finding change its place and not its fingerprint; two of the same line have different ones."""
    found = []
    for above in ("", "// one\n// two\n"):
        bad = tmp_path / "bad.ptx"
        bad.write_text(module_head("sm_90") + above + ".visible .entry k() {\n nonsense;\n nonsense;\n}\n")
        main(["check", str(bad), "--sarif", str(tmp_path / "log")])
        results = json.loads((tmp_path / "log").read_text())["runs"][0]["results"]
        places = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results]
        found.append((places, [result["partialFingerprints"] for result in results]))

    assert [places for places, _ in found] == [[5, 6], [7, 8]]
    assert found[0][1] == found[1][1]
    assert found[0][1][0] != found[0][1][1]


def test_sarif_has_the_parts_that_code_scanning_shows(files, tmp_path):
    """The whole log has the types and names of SARIF 2.1.0; rules have a page; paths are relative."""
    models = pytest.importorskip("sarif_pydantic", reason="needs sarif-pydantic")
    words = ["run", str(files), "--grid", "1", "--block", "64", "--arg", "zeros:u32:1", "--checks", "default+race"]
    main([*words, "--sarif", str(tmp_path / "log.sarif")])

    log = models.Sarif.model_validate_json((tmp_path / "log.sarif").read_text(), strict=True)

    (run,) = log.runs
    rules = {rule.id: rule for rule in run.tool.driver.rules}
    assert all(str(rules[r.rule_id].help_uri).endswith(f"/reference/rules/{r.rule_id}/") for r in run.results)
    assert all(r.message.text and r.locations and r.partial_fingerprints for r in run.results)


def test_sarif_of_replayed_cases(tmp_path):
    """The findings of all cases that were replayed are in one log."""
    case = tmp_path / "case"
    shutil.copytree(Path(__file__).parents[2] / "programs" / "saxpy", case)
    text = (case / "kernel.ptx").read_text()
    (case / "kernel.ptx").write_text(text.replace("st.global.f32", "trap;\nst.global.f32", 1))
    log = tmp_path / "log.sarif"
    assert main(["replay", str(case), "saxpy", "--sarif", str(log)]) == 1

    assert [result["ruleId"] for result in json.loads(log.read_text())["runs"][0]["results"]] == ["trap"]


@pytest.mark.parametrize("option", ["--sarif", "--profile-to"])
def test_where_nothing_can_be_written(files, tmp_path, capsys, option):
    """A file that cannot be written is said before the launch; one that is there stays as it is."""
    words = ["run", str(files), "--grid", "1", "--block", "64", "--arg", f"out:u32:1={tmp_path / 'y.npy'}"]
    assert main([*words, option, str(tmp_path / "none" / "x.json")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert not (tmp_path / "y.npy").exists()
    assert main(["replay", "saxpy", "histogram", "--profile-to", str(tmp_path / "p.json")]) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rotate.cu", "rotate.ptx"]


def test_html(files):
    """A notebook shows the same text, escaped."""
    (race,) = [f for f in launch(files, on_finding="collect").findings if f.line == 19]
    shown = race._repr_html_()

    assert "conflicts with" in shown
    assert "second[t ^ 32]" in shown
    assert "<script" not in warpsim.errors.Finding("x", "<script>")._repr_html_()


def test_every_rule_is_described():
    """Pages and logs have a sentence for each rule."""
    assert RULES.keys() >= EVERY


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZZ6reduceE4tile", "tile"),
        ("_ZZ1fILi4EEvvE2As_0", "As"),
        ("smem", "smem"),
        ("_ZN3abcE", "abc"),
        ("_ZN5table7weightsE", "table::weights"),
        ("_ZN34_INTERNAL_5d314649_4_m_cu_ff59fef336_GLOBAL__N__5d314649_4_m_cu_ff59fef36hiddenE", "hidden"),
        ("_ZNK1FclEi", "_ZNK1FclEi"),
        ("_ZZ1g1FPfENKUliE_clEi", "{lambda}"),
        ("_ZZZ1g1FPfENKUliE_clEiE2ls", "ls"),
        ("_ZZ1fE99x", "_ZZ1fE99x"),
    ],
)
def test_source_names(mangled, name):
    """Variables of functions go by the name that CUDA has for them."""
    assert source_name(mangled) == name


def test_spans():
    """Lanes as ranges."""
    assert spans([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert spans([]) == ""


def test_progress_goes_before_text(monkeypatch):
    """What says how far a launch is does not stand on a line with anything else."""
    import io

    from warpsim.cli.launching import Progress

    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = Progress()
    progress(1000, 1, 2)
    progress.erase()
    progress.erase()
    print("done", file=screen)

    assert screen.getvalue().split("\r")[-1] == "done\n"
    assert "1,000 warp-instructions, 1 of 2 CTAs" in screen.getvalue()


def test_info_counts(tmp_path, capsys):
    """One kernel is no kernels; an array parameter has its length."""
    path = tmp_path / "k.ptx"
    path.write_text(module_head("sm_90") + ".visible .entry k(.param .align 8 .b8 c[24], .param .u32 n) { ret; }\n")
    main(["info", str(path)])
    main(["check", str(path)])
    shown = capsys.readouterr().out

    assert "k(.b8 c[24], .u32 n)" in shown
    assert "1 instruction\n" in shown
    assert ": 1 kernel, no problem found" in shown


@pytest.mark.parametrize(
    ("column", "expected"), [(0, "    ret;\n    ^"), (1, "    ret;\n    ^"), (3, "    ret;\n      ^")]
)
def test_where_a_caret_stands(column, expected):
    """Under the column; at the beginning where there is none."""
    finding = Finding(rule="trap", message="", file="a.ptx", line=1, column=column, text="ret;")
    assert finding.excerpt() == expected
