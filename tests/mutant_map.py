"""Which tests of the default run come to which functions of the package, for `mutants.py --map`.

    python tests/mutant_map.py OUT.json [TESTS ...]     adds to OUT.json what these tests (all) do

Every function of a copy of the package first says that it was entered, in processes that a test starts too; OUT.json holds
the tests by ``FILE:NAME`` of a function, and the seconds of processor time that each test took.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HITS = """
import atexit, os, uuid
entered, OUT, MAIN = set(), os.environ.get("MUTANT_ENTERED"), os.environ.get("MUTANT_MAIN")
if OUT and MAIN != str(os.getpid()):
    @atexit.register
    def told():
        with open(os.path.join(OUT, uuid.uuid4().hex), "w") as out:
            out.write("\\n".join(entered))
"""
PLUGIN = """
import json, os
from pathlib import Path
import pytest
os.environ["MUTANT_MAIN"] = str(os.getpid())
from warpsim import _entered
FOUND, SECONDS = {}, {}

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    _entered.entered.clear()
    started = sum(os.times()[:4])
    yield
    SECONDS[item.nodeid] = round(sum(os.times()[:4]) - started, 3)
    names = set(_entered.entered)
    for told in Path(os.environ["MUTANT_ENTERED"]).iterdir():
        names |= set(told.read_text().split("\\n")) - {""}
        told.unlink()
    for name in names:
        FOUND.setdefault(name, []).append(item.nodeid)

def pytest_sessionfinish():
    with open(os.environ["MUTANT_MAP"], "w") as out:
        json.dump({"tests": FOUND, "seconds": SECONDS}, out)
"""


class Saying(ast.NodeTransformer):
    """Functions that say that they were entered."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.around: list[str] = []

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """What they say it to, behind the docstring and what must stand first."""
        self.generic_visit(node)
        at = 0
        while at < len(node.body) and (
            (isinstance(statement := node.body[at], ast.Expr) and isinstance(statement.value, ast.Constant))
            or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
        ):
            at += 1
        node.body[at:at] = ast.parse("from warpsim._entered import entered as _entered_").body
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """A name before those of its methods."""
        self.around.append(node.name)
        self.generic_visit(node)
        self.around.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Behind the docstring."""
        self.around.append(node.name)
        name = f"{self.path}:{'.'.join(self.around)}"
        self.generic_visit(node)
        self.around.pop()
        at = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body[at:at] = ast.parse(f"_entered_.add({name!r})").body
        return node


def main() -> int:
    """Instrument, run, merge."""
    target, tests = Path(sys.argv[1]).resolve(), sys.argv[2:] or ["."]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "warpsim", copy / "warpsim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "programs", copy / "programs")
        for path in (copy / "warpsim").rglob("*.py"):
            tree = Saying(path.relative_to(copy).as_posix()).visit(ast.parse(path.read_text(encoding="utf-8")))
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
        (copy / "warpsim" / "_entered.py").write_text(HITS)
        (copy / "mutant_plugin.py").write_text(PLUGIN)
        found, told = copy / "map.json", copy / "entered"
        told.mkdir()
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "mutant_plugin"]  # fmt: skip
        command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", *[str(ROOT / "tests" / t) for t in tests]]
        paths = {"MUTANT_MAP": str(found), "MUTANT_ENTERED": str(told), "PYTHONPATH": str(copy)}
        subprocess.run(command, cwd=copy, env={**os.environ, **paths}, check=False)
        new = json.loads(found.read_text())
    held = json.loads(target.read_text()) if target.exists() else {"tests": {}, "seconds": {}}
    for name, ids in new["tests"].items():
        held["tests"][name] = sorted({*held["tests"].get(name, []), *ids})
    held["seconds"] |= new["seconds"]
    target.write_text(json.dumps(held))
    return 0


if __name__ == "__main__":
    sys.exit(main())
