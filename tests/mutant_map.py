"""Which tests of the default run come to which functions of the package, for `mutants.py --map`.

    python tests/mutant_map.py OUT.json [TESTS ...]     adds to OUT.json what these tests (all) do

Every function of a copy of the package first says that it was entered; OUT.json holds the tests by ``FILE:LINE`` of a
function, and the seconds that each test took.
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
HITS = "entered = set()\n"
PLUGIN = """
import json, os, time
import pytest
from warpsim import _entered
FOUND, SECONDS = {}, {}

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    _entered.entered.clear()
    started = time.perf_counter()
    yield
    SECONDS[item.nodeid] = round(time.perf_counter() - started, 3)
    for name in _entered.entered:
        FOUND.setdefault(name, []).append(item.nodeid)

def pytest_sessionfinish():
    with open(os.environ["MUTANT_MAP"], "w") as out:
        json.dump({"tests": FOUND, "seconds": SECONDS}, out)
"""


class Saying(ast.NodeTransformer):
    """Functions that say that they were entered."""

    def __init__(self, path: str) -> None:
        self.path = path

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Behind the docstring."""
        self.generic_visit(node)
        at = 1 if ast.get_docstring(node, clean=False) is not None else 0
        said = ast.parse(
            f"__import__('warpsim._entered', fromlist='x').entered.add({self.path + ':' + str(node.lineno)!r})"
        )
        node.body[at:at] = said.body
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
        found = copy / "map.json"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "mutant_plugin"]  # fmt: skip
        command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", *[str(ROOT / "tests" / t) for t in tests]]
        subprocess.run(command, cwd=copy, env={**os.environ, "MUTANT_MAP": str(found)}, check=False)
        new = json.loads(found.read_text())
    held = json.loads(target.read_text()) if target.exists() else {"tests": {}, "seconds": {}}
    for name, ids in new["tests"].items():
        held["tests"][name] = sorted({*held["tests"].get(name, []), *ids})
    held["seconds"] |= new["seconds"]
    target.write_text(json.dumps(held))
    return 0


if __name__ == "__main__":
    sys.exit(main())
