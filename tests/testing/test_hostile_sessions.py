"""Attempts to end a session with a finding or a difference in exit status 0."""

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch

import pytest

from .conftest import ALONE, SAXPY

pytest_plugins = ["pytester"]
MARK = '@pytest.mark.ptx(findings="allow")\n'
RACES = """
import numpy as np, pytest, unittest, warpsim
PTX = '''.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
 .reg .b64 %a;
 .reg .b32 %t;
 ld.param.u64 %a, [p];
 mov.u32 %t, %tid.x;
 st.global.u32 [%a], %t;
 ret;
}
'''
def launch():
    return warpsim.load(PTX)["k"](1, 2, (np.zeros(1, np.uint32),), checks="all", on_finding="collect")
def session():
    from warpsim.debug import Session
    return Session(warpsim.load(PTX)["k"], 1, 2, (np.zeros(1, np.uint32),), checks="all", on_finding="collect")
"""


INSIDE = {
    "in a fixture": "@pytest.fixture\ndef out():\n    return launch()\ndef test_it(out): pass",
    "in a module's fixture": "@pytest.fixture(scope='module')\ndef out():\n    launch()\ndef test_it(out): pass",
    "as a fixture is torn down": "@pytest.fixture\ndef out():\n    yield\n    launch()\ndef test_it(out): pass",
    "before a test skips itself": "def test_it():\n    launch()\n    pytest.skip('no GPU')",
    "before a test expects to fail": "def test_it():\n    launch()\n    pytest.xfail('known')",
    "in setup_method": "class TestIt:\n    def setup_method(self): launch()\n    def test_it(self): pass",
    "in unittest": "class TestIt(unittest.TestCase):\n    def test_it(self): launch()",
    "in unittest's setUpClass":
        "class TestIt(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): launch()\n    def test_it(self): pass",
    "in a thread":
        "import threading\ndef test_it():\n    t = threading.Thread(target=launch)\n    t.start()\n    t.join()",
    "beside a marker that judges other things": "@pytest.mark.ptx(target='sm_90')\ndef test_it(): launch()",
    "in a debug session that runs past it":
        "def test_it():\n    s = session()\n    s.stop_at_findings = False\n    assert s.cont().reason == 'end'",
    "in a debug session that jumps past it and never ends": "def test_it(): session().goto(6)",
}  # fmt: skip


def failures(pytester, modules, *words):
    """The report of the failure of each of several modules, by its key, of one session that fails."""
    pytester.makepyfile(**{f"test_{number}": source for number, source in enumerate(modules.values())})
    run = pytester.inline_run(*ALONE, *words)

    assert run.ret == 1
    said = {report.nodeid.partition(".py")[0]: report.longreprtext for report in run.getfailures()}
    return {key: said.get(f"test_{number}") for number, key in enumerate(modules)}


def test_a_finding_is_no_success(pytester):
    """Wherever a launch of a test collects an error, the test fails and names the rule."""
    found = failures(pytester, {why: RACES + source for why, source in INSIDE.items()})

    assert [why for why, said in found.items() if "race: " not in (said or "")] == []


@pytest.mark.parametrize(
    "source", ["launch()\ndef test_it(): pass", "session().goto(6)\ndef test_it(): pass"], ids=["launch", "session"]
)
def test_a_finding_outside_of_tests_is_no_success(pytester, source):
    """What a module's import collects fails the session, which names the rule."""
    pytester.makepyfile(RACES + source)
    result = pytester.runpytest_inprocess(*ALONE)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*race: *"])


def test_a_finding_that_a_session_stops_at(pytester):
    """A stop tells of its finding, once; and going on behind it, back and again changes nothing."""
    pytester.makepyfile(
        RACES
        + """
def test_stops():
    s = session()
    stop = s.cont()
    assert (stop.reason, stop.finding.rule) == ("finding", "race")
    assert s.cont().reason == "end" and s.result.findings
    s.goto(1)
    assert s.cont().reason == "end"

@pytest.mark.ptx(findings="allow")
def test_allowed():
    session().goto(6)
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)

    result.assert_outcomes(passed=2)


def test_a_skip_behind_an_allowed_finding(pytester):
    """A fixture, or the test, may skip after a launch whose findings are allowed."""
    skips = "launch()\n    pytest.skip('no GPU')\n"
    pytester.makepyfile(
        f"{RACES}@pytest.fixture\ndef out():\n    {skips}{MARK}def test_fixture(out): pass\n{MARK}def test_it():\n    {skips}"
    )
    pytester.runpytest_inprocess(*ALONE).assert_outcomes(skipped=2)


STARTS = {
    "a program": "subprocess.run([sys.executable, '-c', 'import kernels; kernels.launch()'], check=True)",
    "a fork": "child = multiprocessing.get_context('fork').Process(target=launch); child.start(); child.join()",
}


@pytest.mark.parametrize("kind", [pytest.param("a program", marks=pytest.mark.long), "a fork"])
def test_a_finding_in_a_child_process(pytester, kind):
    """What a process only collects fails the test that started it, unless that test judges findings."""
    if kind == "a fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    start = (
        f"import multiprocessing, subprocess, sys\nfrom kernels import launch, pytest\ndef test_it(): {STARTS[kind]}\n"
    )
    pytester.makepyfile(kernels=RACES, test_child=start, test_judge=start.replace("def", MARK + "def"))
    result = pytester.runpytest_inprocess(*ALONE)

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["in a child process: *race: *", "FAILED test_child.py::test_it*"])


@pytest.mark.parametrize("kind", [pytest.param("a program", marks=pytest.mark.long), "a fork"])
def test_an_error_that_ends_a_child_process(pytester, kind):
    """Where the test does not ask for the status; what the child catches, or the test allows, is no failure."""
    if kind == "a fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    catches = "\ndef catches():\n    with pytest.raises(warpsim.ExecutionError): launch()\n"
    start = STARTS[kind].replace(", check=True", "")
    test = f"import multiprocessing, subprocess, sys\nfrom kernels import catches, launch, pytest\ndef test_it(): {start}\n"
    pytester.makepyfile(
        kernels=RACES.replace('on_finding="collect"', 'on_finding="raise"') + catches,
        test_child=test,
        test_judge=test.replace("def", MARK + "def"),
        test_caught=test.replace("kernels.launch", "kernels.catches").replace("target=launch", "target=catches"),
    )
    result = pytester.runpytest_inprocess(*ALONE)

    assert result.ret == 1
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["in a child process: *race: *", "FAILED test_child.py::test_it*"])


UNASKED = """
import multiprocessing, os, sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
import pytest
import kernels

def submits():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(kernels.launch)

def gets():
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(kernels.warpsim.ExecutionError):
            pool.submit(kernels.launch).result()

def forked(work):
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()

def test_pool():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply_async(kernels.launch).wait()

def test_map():
    with ThreadPool(1) as pool:
        pool.map_async(lambda n: kernels.launch(), [1]).wait()

def test_iterator():
    pool = ThreadPool(1)
    pool.imap(lambda n: kernels.launch(), [1])
    pool.close()
    pool.join()

def test_future_of_a_fork():
    forked(submits)

def test_of_a_fork_that_fails_after_it_handled_another():
    try:
        kernels.launch()
    except kernels.warpsim.ExecutionError:
        forked(kernels.launch)

def test_of_a_fork_that_coverage_measures(monkeypatch):
    begin = multiprocessing.process.BaseProcess._bootstrap
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "_bootstrap", lambda *given, **more: begin(*given, **more))
    forked(kernels.launch)
"""
ASKED = """
from test_lost import *
del test_pool, test_map, test_iterator, test_future_of_a_fork, test_of_a_fork_that_fails_after_it_handled_another
del test_of_a_fork_that_coverage_measures

def test_pool_that_is_asked():
    with ThreadPool(1) as pool:
        with pytest.raises(kernels.warpsim.ExecutionError):
            pool.apply_async(kernels.launch).get()
        with pytest.raises(kernels.warpsim.ExecutionError):
            next(pool.imap(lambda n: kernels.launch(), [1]))
        missed = pool.apply_async(kernels.launch)
        missed.wait()
        assert not missed.successful()
        told = []
        pool.apply_async(kernels.launch, error_callback=told.append).wait()
        assert told

def test_of_a_fork_that_asks():
    forked(gets)

def test_of_a_fork_after_one_was_handled():
    try:
        kernels.launch()
    except kernels.warpsim.ExecutionError:
        forked(int)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_errors_that_nobody_asks_for(pytester):
    """What a pool, or a future in a child process, keeps for somebody to ask fails the test unless somebody asks."""
    pytester.makepyfile(
        kernels=RACES.replace('on_finding="collect"', 'on_finding="raise"'), test_lost=UNASKED, test_asked=ASKED
    )
    result = pytester.runpytest_inprocess(*ALONE, "-Wignore")

    result.assert_outcomes(passed=3, failed=6)
    result.stdout.fnmatch_lines(
        [
            "in a pool that nobody asked: *race: *",
            "in a pool that nobody asked: *race: *",
            "in a pool that nobody asked: *race: *",
            "in a child process: in a future that nobody asked: *race: *",
            *["in a child process: ExecutionError: *race: *"] * 2,
        ]
    )


@pytest.mark.long
def test_spawned_processes_and_commands(pytester):
    """A process that imports warpsim within its work; a command whose status nobody asks for."""
    pytester.makepyfile(
        kernels=RACES.replace('on_finding="collect"', 'on_finding="raise"'),
        work="def work():\n    import kernels\n    kernels.launch()\n",
        test_it="""
import multiprocessing, subprocess, sys
from pathlib import Path
import pytest
from work import work

def test_spawned():
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()

def runs(status):
    Path("k.ptx").write_text(__import__("kernels").PTX)
    run = ["run", "k.ptx", "--grid", "1", "--block", "2", "--arg", "zeros:u32:1", "--checks", "all"]
    assert subprocess.run([sys.executable, "-m", "warpsim", *run]).returncode == status

def test_command():
    runs(1)

@pytest.mark.ptx(findings="allow")
def test_allowed():
    runs(1)
""",
    )
    result = pytester.runpytest_inprocess(*ALONE)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["in a child process: ExecutionError: *race: *", "in a child process: warpsim run k.ptx *: exit status 1"]
    )


RAISES = (
    RACES.replace('on_finding="collect"', 'on_finding="raise"')
    + """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from warpsim.testing import assert_bits_equal

def differs():
    x = np.zeros(1, np.uint32)
    warpsim.load(PTX)["k"](1, 1, (x,))
    assert_bits_equal(x, x + 1)

def thread(work):
    t = threading.Thread(target=work)
    t.start()
    t.join()

def pool(work):
    with ThreadPoolExecutor(1) as p:
        p.map(work)
        p.submit(work)

class Dies:
    def __del__(self):
        launch()

async def forgets(work):
    async def run():
        work()
    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
"""
)


UNSEEN = {
    "def test_it(): thread(launch)": "in thread *race: ",
    "def test_it(): thread(differs)": "in thread *1 of 1 elements differ",
    "def test_it(): pool(launch)": "in a future*race: ",
    "def test_it(): pool(differs)": "in a future*1 of 1 elements differ",
    "def test_it():\n    Dies()": "__del__*race: ",
    "def test_it(): asyncio.run(forgets(launch))": "in a task*race: ",
    "@pytest.fixture(scope='module')\ndef out(): thread(launch)\ndef test_it(out): pass": "in thread *race: ",
    "def test_it():\n    thread(launch)\n    pytest.skip('no GPU')": "in thread *race: ",
    "def test_it():\n    thread(launch)\n    pytest.xfail('known')": "in thread *race: ",
}


def test_an_error_that_nobody_looks_at(pytester):
    """Of a thread, a future, a destructor, a task: Python prints or drops it, the test fails all the same."""
    found = failures(pytester, {source: RAISES + source for source in UNSEEN}, "-Wdefault")

    assert [source for source, said in found.items() if not fnmatch(said or "", f"*{UNSEEN[source]}*")] == []


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("*race: *", "LEFT = ThreadPoolExecutor(1)\ndef test_it(): LEFT.future = LEFT.submit(launch)"),
        pytest.param("*in thread *race: *", "thread(launch)\ndef test_it(): pass", marks=pytest.mark.long),
    ],
    ids=["a future that lives on", "an import"],
)
def test_an_error_that_nobody_looks_at_fails_the_session(pytester, said, source):
    """Where it is of no test, or known only at the end."""
    pytester.makepyfile(RAISES + source)
    result = pytester.runpytest_inprocess(*ALONE, "-Wdefault")

    assert result.ret == 1
    result.stdout.fnmatch_lines([said])


def test_errors_that_somebody_looks_at(pytester):
    """Whoever catches, asks the future, or says so; and what is not warpsim's."""
    pytester.makepyfile(
        RAISES
        + """
def test_future():
    with ThreadPoolExecutor(1) as p:
        assert isinstance(p.submit(launch).exception(), warpsim.ExecutionError)
        with pytest.raises(warpsim.ExecutionError):
            p.submit(launch).result()

def test_thread():
    def work():
        with pytest.raises(warpsim.ExecutionError):
            launch()
    thread(work)

def test_task():
    async def run():
        await asyncio.to_thread(launch)
    with pytest.raises(warpsim.ExecutionError):
        asyncio.run(run())

@pytest.mark.ptx(findings="allow")
def test_allowed():
    thread(launch)
    pool(launch)

def test_of_others():
    thread(lambda: 1 / 0)

def test_futures_work():
    with ThreadPoolExecutor(2) as p:
        assert list(p.map(int, "12")) == [1, 2]
"""
    )
    result = pytester.runpytest_inprocess(*ALONE, "-Wdefault")

    result.assert_outcomes(passed=6)


@pytest.mark.long
def test_a_finding_in_an_import_of_a_worker(pytester):
    """Workers of pytest-xdist hand over what they saw outside of tests."""
    pytester.makepyfile(RACES + "launch()\ndef test_it(): pass")
    command = [sys.executable, "-m", "pytest", *ALONE[:4], "-n", "1"]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=100)

    assert done.returncode == 1
    assert "a launch outside of any test broke a rule" in done.stdout


@pytest.mark.parametrize("folder", ["build", ".hidden", "dist/deep", "venv"])
def test_folders_that_pytest_does_not_enter(pytester, case, folder):
    """A case below a folder of norecursedirs would vanish: an error where cases were asked for by their folder."""
    shutil.move(case, pytester.path / "cases" / folder)
    shutil.copytree(SAXPY, pytester.path / "cases" / "good")
    result = pytester.runpytest_inprocess(*ALONE, "--warpsim-cases", "cases")

    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{folder} would not be collected: norecursedirs has *"])


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        pytest.param(words, lost, marks=[pytest.mark.long] * (i != j))
        for i, words in enumerate([("cases",), ("--warpsim-cases=cases",), ("cases/bad/case.json",)])
        for j, lost in enumerate(["kernel.ptx", "data.npz", "case.json"])
    ],
    ids=str,
)
def test_a_case_whose_file_is_broken(pytester, case, lost, words):
    """Whichever of its files is not there or is none, and however it is asked for."""
    (case / lost).unlink()
    (case / lost).symlink_to("/nowhere") if lost == "case.json" else None
    assert pytester.runpytest_inprocess(*ALONE, *words).ret != 0
    (case / lost).unlink(missing_ok=True)
    (case / lost).write_bytes(b"\xff\x00{")
    assert pytester.runpytest_inprocess(*ALONE, *words).ret != 0


def test_markers_of_a_case(pytester, case):
    """A case that is expected to fail and does not fails."""
    (case / "case.json").write_text(json.dumps(json.loads((SAXPY / "case.json").read_text()) | {"markers": ["xfail"]}))
    shutil.copy(SAXPY / "data.npz", case)

    result = pytester.runpytest_inprocess(*ALONE, "cases")
    result.assert_outcomes(failed=1)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(line.split(), id=line, marks=[pytest.mark.long] * (number % 2))
        for number, line in enumerate(
            [
                "-p no:terminal", "-p no:cacheprovider", "-p no:python", "-p no:xdist", "-p no:assertion --assert=plain",
                "-p no:skipping", "-q -q --no-header --no-summary", "-k good", "--lf", "--maxfail=5 --stepwise",
                "-m none", "--deselect cases/bad/case.json::bad",
            ]
        )
    ],
)  # fmt: skip
def test_options_that_turn_things_off(pytester, case, words):
    """No plugin that pytest has, or leaves out, turns a difference into a success; deselecting everything is none either."""
    assert pytester.runpytest_inprocess(*ALONE, "cases", *words).ret != 0


@pytest.mark.long
def test_a_worker_that_crashes(pytester, case):
    """A worker that dies takes no case with it."""
    pytester.makepyfile("import os\ndef test_dies(): os._exit(0)")
    command = [sys.executable, "-m", "pytest", *ALONE[:4], "-n", "1", "--max-worker-restart=0"]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=100, env=dict(os.environ))

    assert done.returncode != 0
