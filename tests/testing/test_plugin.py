"""The pytest plugin, in a pytest of its own: of another process where collection, xdist and exit statuses are concerned,
else of this one, which has imported everything."""

import json
import os
import shutil
import subprocess
import sys
import traceback
from fnmatch import fnmatch
from multiprocessing import util

import pytest

import warpsim
from ptx_text import module_head
from warpsim.host import defaults
from warpsim.host.cases import run_case
from warpsim.testing.coverage import Lines
from warpsim.testing.sessions import _markers, check

from .conftest import ALONE, SAXPY

pytest_plugins = ["pytester"]
LINES = (SAXPY / "kernel.ptx").read_text().splitlines()
LINE = 1 + next(number for number, line in enumerate(LINES) if "st.global" in line)
"""The line of saxpy's only store."""
STORE = """
import numpy as np, warpsim
PTX = '''.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
 .reg .b64 %a;
 .reg .b32 %t;
 ld.param.u64 %a, [p];
 mov.u32 %t, %tid.x;
 add.u32 %t, %t, 7;
 st.global.u32 [%a], %t;
 ret;
}
'''
"""


@pytest.fixture
def cases(case):
    """A folder with two cases, one of which does not give what was recorded."""
    shutil.copytree(SAXPY, case.parent / "good")
    return case.parent


def inner(pytester, *words):
    """Run pytest in a process of its own, without a terminal; gives its status and its output."""
    command = [sys.executable, "-m", "pytest", *ALONE[:4], *words]
    done = subprocess.run(
        command, cwd=pytester.path, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


def test_fixture_and_marker(pytester):
    """The fixture gives the GPU that the marker names; launches that name no device have its defaults; what neither takes
    is refused."""
    pytester.makepyfile(
        STORE
        + """
import pytest

@pytest.mark.ptx(target="sm_90", checks="all")
def test_marked(warpsim_device):
    assert (warpsim_device.target, warpsim_device.checks) == ("sm_90", "all")
    out = warpsim_device.array(np.zeros(1, np.uint32))
    warpsim.load(PTX)["k"](1, 1, (out,))  # on the same GPU, without device=
    assert out.get()[0] == 7

def test_plain(warpsim_device):
    assert (warpsim_device.sm, warpsim_device.max_seconds) == (90, 600)

@pytest.mark.ptx(max_seconds=0)
def test_limited():
    with pytest.raises(warpsim.ExecutionError, match="more than 0"):
        warpsim.load(PTX)["k"](1, 1, (np.zeros(1, np.uint32),))
"""
    )
    result = pytester.runpytest_inprocess(*ALONE, "--strict-markers")
    result.assert_outcomes(passed=3)

    pytester.makepyfile(test_wrong="import pytest\n@pytest.mark.ptx(targets='sm_90')\ndef test_typo(): pass")
    result = pytester.runpytest_inprocess(*ALONE, "test_wrong.py")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*pytest.mark.ptx takes target,*not targets"])

    pytester.makepyfile(
        test_wrong="import pytest\n@pytest.mark.parametrize('warpsim_device', ['sm_80'], indirect=True)\n"
        "def test_typo(warpsim_device): pass"
    )
    result = pytester.runpytest_inprocess(*ALONE, "test_wrong.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*warpsim_device takes no parameters*"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"findings": "alow"}, "findings must be 'fail' or 'allow', not 'alow'"),
        ({"findings": None}, "findings must be 'fail' or 'allow', not None"),
        ({"async_effects": "both"}, "async_effects must be 'eager' or 'at_wait', not 'both'"),
        ({"checks": "rcae"}, "*'rcae' is neither a rule nor a group of rules; checks= takes 'default', "),
        ({"schedule": -1}, "schedule must be 0 to *, not -1"),
        ({"schedule": "7"}, "schedule must be an integer, not '7'"),
        ({"max_seconds": -1}, "max_seconds must be *, not -1"),
        ({"target": "sm_1"}, "sm_1"),
        ({"target": 90}, "90"),
    ],
)
def test_values_that_the_marker_does_not_take(given, said):
    """A usage error names the test and what may be given."""
    with pytest.raises(pytest.UsageError) as caught:
        check(pytest.mark.ptx(**given).mark, "test_a.py::test_typo")

    assert fnmatch(str(caught.value), f"test_a.py::test_typo: pytest.mark.ptx(*{said}*")


def test_a_value_that_the_marker_does_not_take_ends_the_session(pytester):
    """Before any test runs."""
    pytester.makepyfile("import pytest\n@pytest.mark.ptx(findings='alow')\ndef test_typo(): pass")
    result = pytester.runpytest_inprocess(*ALONE)

    assert result.ret == 4
    result.assert_outcomes()
    result.stderr.fnmatch_lines(["*::test_typo: pytest.mark.ptx(*findings must be 'fail' or 'allow', not 'alow'"])


def test_findings_that_are_only_collected(pytester):
    """A launch that collects an error fails its test, unless the test says that it judges the findings itself."""
    pytester.makepyfile(
        STORE
        + """
import pytest

def launch():
    return warpsim.load(PTX)["k"](1, 2, (np.zeros(1, np.uint32),), checks="all", on_finding="collect").findings

def test_forgets():
    launch()

@pytest.mark.ptx(findings="allow")
def test_judges():
    assert [f.rule for f in launch()] == ["race"]
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*race: *"])


def test_cases_are_files(pytester, cases):
    """Collection as pytest does it: node ids, -v, junit, exit statuses; the message says what differs, and no frames."""
    status, said = inner(pytester, "-v", "--junitxml=j.xml")

    assert status == 1
    assert "cases/bad/case.json::bad FAILED" in said
    assert "cases/good/case.json::good PASSED" in said
    assert "y: 1 of 1,000 elements differ (f32 1000)" in said
    assert "y[5] was written by CTA (0, 0, 0), warp 0, lane 5:" in said
    assert f"warpsim debug replay cases/bad -ex 'break {LINE} if %ctaid.x == 0 && %tid.x == 5' -ex continue" in said
    assert "replaying.py" not in said
    assert 'name="bad"' in (pytester.path / "j.xml").read_text()


@pytest.mark.long
def test_workers_lose_no_case(pytester, cases):
    """Under pytest-xdist the same cases run, and a difference ends in status 1; -k and node ids choose."""
    status, said = inner(pytester, "-n1", "-v", "--warpsim-coverage=cov", "--warpsim-cases=cases")

    assert status == 1
    assert "1 failed, 1 passed" in said
    lcov = (pytester.path / "cov" / "lcov.info").read_text()
    assert "kernel.ptx\n" in lcov
    assert f"DA:{LINE},64\n" in lcov  # 32 warps in each of the two cases


def test_choosing_cases(pytester, cases):
    """-k, a node id, --lf, -x and a marker in case.json reach cases; a folder outside of testpaths is added by an option."""
    choose = pytester.runpytest_inprocess

    choose(*ALONE, "-k", "good").assert_outcomes(passed=1, deselected=1)
    choose(*ALONE, "cases/good/case.json::good").assert_outcomes(passed=1)
    choose(*ALONE, "-x").assert_outcomes(failed=1)
    choose(*ALONE, "--lf").assert_outcomes(failed=1)
    description = json.loads((cases / "good" / "case.json").read_text())
    (cases / "good" / "case.json").write_text(json.dumps({**description, "format": 2, "markers": ["slow"]}))
    pytester.makeini("[pytest]\nmarkers = slow\ntestpaths = none\nwarpsim_collect = false\nwarpsim_cases = cases")
    (pytester.path / "none").mkdir()
    choose(*ALONE, "-m", "slow", "--strict-markers").assert_outcomes(passed=1, deselected=1)


def test_both_moments(pytester, cases):
    """--warpsim-async=both runs cases and tests of kernels twice, and no others."""
    shutil.rmtree(cases / "bad")
    pytester.makepyfile("def test_device(warpsim_device): pass\ndef test_other(): pass")
    result = pytester.runpytest_inprocess(*ALONE, "--warpsim-async=both", "-v")

    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*::good?at_wait? PASSED*", "*::test_device?eager? PASSED*"])


def test_record_writes_new_expectations(pytester, cases):
    """--warpsim-record stores what the simulator gives: a case that differed passes afterwards, and is not a GPU's any more."""
    options = (*ALONE, "cases/bad", "--warpsim-bits")
    result = pytester.runpytest_inprocess(*options, "--warpsim-record")

    result.assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)
    description = json.loads((cases / "bad" / "case.json").read_text())
    assert description["simulated"]["device"] == "sm_90"
    assert "hardware" not in description
    assert sorted(os.listdir(cases)) == ["bad", "good"]


def test_cases_without_recordings_are_no_success(pytester):
    """A folder that holds no case, and options that make no sense, are usage errors."""
    for words, said in (
        ((f"--warpsim-cases={pytester.path}",), "*no case.json below*"),
        (("--warpsim-checks=rase",), "*'rase' is neither a rule*"),
        (("--warpsim-target=sm_1",), "*sm_1*is not a GPU*"),
        (("--warpsim-max-seconds=x",), "*--warpsim-max-seconds must be a nonnegative number*, not 'x'"),
        (("--warpsim-schedule=x",), "*--warpsim-schedule must be an integer, not 'x'"),
        (("-o", "warpsim_schedule=1.5"), "*--warpsim-schedule must be an integer, not '1.5'"),
    ):
        result = pytester.runpytest_inprocess(*ALONE, *words)
        assert result.ret == 4
        result.stderr.fnmatch_lines([said])


def test_seeds(pytester):
    """0 is a seed like any other, and an option counts before the ini file."""
    pytester.makepyfile(
        "import os, numpy as np, warpsim\n"
        "from warpsim.host import defaults\n"
        "def test_it(): assert defaults.current.schedule == int(os.environ['SEED'])"
    )
    for seed, words in (
        ("0", ("--warpsim-schedule=0", "-o", "warpsim_schedule=3")),
        ("3", ("-o", "warpsim_schedule=3")),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SEED", seed)
            pytester.runpytest_inprocess(*ALONE, *words).assert_outcomes(passed=1)


def test_snippets_are_launches(pytester):
    """`warpsim.run` has the checks and limits of the test, and counts in the summary and among the lines that ran."""
    pytester.makepyfile(
        """
import pytest, warpsim
EXCHANGE = ".reg .b32 %t, %a; mov.u32 %t, %laneid; shl.b32 %t, %t, 2; st.shared.u32 [%t], %t;" \\
    "xor.b32 %a, %t, 4; ld.shared.u32 %r, [%a];"

@pytest.mark.ptx(checks="default+race")
def test_race():
    with pytest.raises(warpsim.ExecutionError, match="race"):
        warpsim.run(EXCHANGE, shared=bytes(128))

@pytest.mark.ptx(max_seconds=0.2)
def test_limit():
    with pytest.raises(warpsim.ExecutionError, match="limit"):
        warpsim.run("AGAIN: add.u32 %r, %r, 1; setp.ne.u32 %p, %r, 0; @%p bra AGAIN;", registers={"%r": 1})
"""
    )
    result = pytester.runpytest_inprocess(*ALONE, "--warpsim-fidelity", "--warpsim-coverage=c")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*instructions' bits rest on", "*lines of kernels ran: c?index.html"])
    assert (pytester.path / "c" / "lcov.info").read_text().count("SF:<ptx>") == 2


def test_damaged_cases_fail(pytester, cases):
    """A case that cannot be read is a failed test that says where; so is one that takes too long, or breaks a rule."""
    (cases / "bad" / "case.json").write_text('{"grid": 5}')
    result = pytester.runpytest_inprocess(*ALONE, "cases/bad")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*case.json: the document lacks 'entry'*"])

    result = pytester.runpytest_inprocess(*ALONE, "cases/good", "--warpsim-max-seconds=0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*limit: the launch has taken more than 0*"])


def test_findings_outside_of_tests(pytester):
    """What a launch collects as a module is imported fails the run; nobody else would see it."""
    pytester.makepyfile(
        STORE
        + """
warpsim.load(PTX)["k"](1, 2, (np.zeros(1, np.uint32),), checks="all", on_finding="collect")

def test_nothing():
    pass
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)

    result.assert_outcomes(passed=1)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*outside of any test*", "*race: *"])


def test_lines_of_cuda_files(tmp_path):
    """A line of CUDA runs as often as the most frequent of its instructions; files of one name in two folders are two."""
    lines = Lines()
    with defaults.listening(lines.add):
        for name in ("one", "two"):
            shutil.copytree(SAXPY, tmp_path / name)
            run_case(tmp_path / name)
    source = (SAXPY / "kernel.cu").read_text().split("\n")
    body = 1 + next(n for n, text in enumerate(source) if "y[i] =" in text)

    assert {str(tmp_path / name / "kernel.cu") for name in ("one", "two")} <= set(lines.counts)
    assert lines.counts[str(tmp_path / "two" / "kernel.cu")][body] == 32  # 1,000 of 1,024 threads: no warp is idle
    assert "y[i] =" in lines.page(tmp_path).replace("&gt;", ">")


def test_lines_of_texts_without_a_file():
    """Two modules that come from no file are two files of the report, in one process and merged from two."""
    text = module_head() + ".visible .entry k()\n{\nret;\n}\n"
    apart = [Lines(), Lines()]
    for lines, source in zip(apart, (text, text.replace("{", "{\n")), strict=True):
        with defaults.listening(lines.add):
            for one in (source, source):
                warpsim.load(one)["k"](1, 32, ())
    apart[0].merge(apart[1].plain())
    apart[0].merge(apart[1].plain())

    assert apart[0].counts == {"<ptx>": {6: 2}, "<ptx> 2": {7: 4}}


def test_lines_that_nothing_ran():
    """Coverage names them with 0, those of functions that nobody called, too."""
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.func f()\n{\nret;\n}\n.visible .entry k()\n{\n.reg .pred %p;\n"
        "setp.eq.u32 %p, 0, 1;\n@%p bra done;\nbar.sync 0;\ndone:\nret;\n}\n.visible .entry other()\n{\nret;\n}\n"
    )
    lines = Lines()
    with defaults.listening(lines.add):
        warpsim.load(text.replace("0, 1", "0, 0"))["k"](1, 64, ())

    assert "SF:<ptx>\nDA:6,0\nDA:11,2\nDA:12,2\nDA:13,0\nDA:15,2\nLF:5\n" in lines.lcov()


def test_code_of_no_line():
    """`.loc` with line 0 marks code of no line of the file: coverage does not count it, hit or not."""
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r;\n.loc 1 0 0\n"
        'mov.b32 %r, 1;\n.loc 1 3 1\nret;\n}\n.file 1 "k.cu"\n'
    )
    lines = Lines()
    with defaults.listening(lines.add):
        warpsim.load(text)["k"](1, 32, ())

    assert lines.counts == {"<ptx>": {8: 1, 10: 1}, "k.cu": {3: 1}}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", []),
        ("[" * 100_000, []),
        ("7", []),
        ('{"markers": "slow"}', []),
        ('{"markers": ["slow", 7]}', ["slow"]),
        ("{}", []),
    ],
)
def test_markers_of_any_case(tmp_path, text, names):
    """A damaged case has no markers, and is collected: its test says what is wrong with it."""
    path = tmp_path / "case.json"
    path.write_text(text)

    assert _markers(path) == names
    assert _markers(tmp_path / "none.json") == []


def test_a_page_of_lines(tmp_path):
    """Every line of a text with how often it ran; the sum of each file; and the same as a tracefile."""
    source = tmp_path / "a.cu"
    source.write_text("first <b>\nsecond\nthird\n")
    lines = Lines()
    lines.merge({"counts": {str(source): {1: 3, 2: 0}, "none.cu": {7: 1}}, "texts": {}})
    lines.merge({"counts": {str(source): {2: 0, 1: 2}}, "texts": {}})
    page = lines.page(tmp_path)

    assert lines.counts[str(source)] == {1: 5, 2: 0}
    assert all(
        text in page
        for text in ("first &lt;b&gt;", "second", "third", "<td>1 of 2</td><td>50.0 %</td>", "<td>1 of 1</td>")
    )
    assert f"SF:{source}\nDA:1,5\nDA:2,0\nLF:2\nLH:1\nend_of_record" in lines.lcov()


def test_what_ends_the_main_program_of_a_child(monkeypatch, tmp_path):
    """A failed assertion is passed on and shown as ever; of other errors the exit status tells."""
    shown, closing, told = [], [], tmp_path / "told"
    monkeypatch.setenv(defaults.FILE, str(told))
    monkeypatch.setattr(defaults.atexit, "register", closing.append)
    monkeypatch.setattr(sys, "excepthook", lambda kind, problem, trace: shown.append(problem))
    monkeypatch.setattr(traceback, "print_exc", traceback.print_exc)
    for name in ("Finalize", "register_after_fork"):
        monkeypatch.setattr(util, name, lambda *arguments, **options: None)
    defaults.pass_on_uncaught([defaults.forward])
    problems = [AssertionError("2 is not 3"), KeyError("k")]
    for problem in problems:
        sys.excepthook(type(problem), problem, None)
    closing[0]()

    assert shown == problems
    (text,) = [json.loads(line) for line in told.read_text().splitlines()]
    assert "2 is not 3" in text
