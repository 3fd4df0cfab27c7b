"""Programs beside the package: what they use of it is there, and the tasks of a contributor do what they say."""

import ast
import importlib
import importlib.util
import re
import runpy
import sys
from pathlib import Path

import oracles
import warpsim
from benchmarks import profile_launch
from ptx_text import module_head
from warpsim.machine.binding import bind

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(p for folder in ("benchmarks", "docs/tools", "programs", "tools") for p in (ROOT / folder).rglob("*.py"))  # fmt: skip


def used(path):
    """(module, name) of everything that a script imports from the package."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text if re.search(r"^ *(from|import) .*warpsim", text, re.MULTILINE) else "")):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "warpsim":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "warpsim")


def exists(module, name):
    """Whether an import finds it; what needs another package may lack that one."""
    try:
        found = importlib.import_module(module)
        return name is None or hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError as missing:
        return (missing.name or "").split(".")[0] != "warpsim"


def test_what_scripts_use():
    """No script imports from the package what is not there (nothing else runs most of them)."""
    wanted = {use: path.relative_to(ROOT).as_posix() for path in SCRIPTS for use in used(path)}

    assert wanted
    assert {where: use for use, where in wanted.items() if not exists(*use)} == {}


def test_tasks():
    """Each says what it does, runs modules of this repository that are there, and those that CONTRIBUTING names exist."""
    tasks = runpy.run_path(str(ROOT / "tasks.py"))["TASKS"]
    ran = re.findall(r'run\("((?:benchmarks|docs|tests)[\w.]*)"', (ROOT / "tasks.py").read_text(encoding="utf-8"))
    told = re.findall(r"python tasks\.py (\w+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))

    assert all(task.__doc__ for task in tasks.values())
    assert ran
    assert [module for module in ran if importlib.util.find_spec(module) is None] == []
    assert set(told) <= set(tasks)


def test_what_contributing_names():
    """Files and folders are where it says."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])(?:benchmarks|docs|programs|tests|tools|warpsim)(?:/[\w.-]+)+", text))

    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path.rstrip(".")).exists()] == []


def test_who_binds(monkeypatch):
    """The program that finds out which forms have an oracle sees those that a launch binds, its end among them."""
    for name in ("bind_step", "bind_end"):
        monkeypatch.setattr(bind, name, getattr(bind, name))  # put back afterwards
    bound = oracles.Bound()
    bound.pytest_configure()
    text = module_head() + ".entry k() { .reg .u32 a; mov.u32 a, 5; clz.b32 a, a; exit; }"
    warpsim.load(text)["k"](1, 1, ())

    assert {opcode for opcode, _ in bound.forms} == {"mov", "clz", "exit"}


def test_profile(monkeypatch, capsys):
    """The task that shows where a launch spends its time runs a bundled program."""
    monkeypatch.setattr(sys, "argv", ["profile", "hello", "--repeat", "1", "--lines", "3"])
    profile_launch.main()
    out = capsys.readouterr().out

    assert out.startswith("first launch ")
    assert "tottime" in out
