"""Which tests of the default run come to which blocks of the package, for `mutants.py --map`.

    python tools/mutants/mutant_map.py OUT.pickle [TESTS ...]

A block is a list of statements: the body of a function, of a branch, of a loop. Every block of a copy of the package says that
it was entered, in processes that a test starts, too. OUT.pickle holds the blocks by number (file, first line, last line), the
blocks that each test enters, those that are entered before any test runs, and the seconds of processor time of each test.
"""

from __future__ import annotations

import ast
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mutants import ROOT, SETTINGS, surroundings

HITS = """
import atexit, os, uuid
entered, OUT, MAIN = set(), os.environ.get("MUTANT_ENTERED"), os.environ.get("MUTANT_MAIN")
if OUT and MAIN != str(os.getpid()):
    @atexit.register
    def told():
        with open(os.path.join(OUT, uuid.uuid4().hex), "w") as out:
            out.write(" ".join(map(str, entered)))
"""
PLUGIN = """
import array, os, pickle
from pathlib import Path
import pytest
os.environ["MUTANT_MAIN"] = str(os.getpid())
from warpsim import _entered
FOUND, SECONDS, FAILED = {}, {}, set()

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if not FOUND:
        FOUND[""] = array.array("i", sorted(_entered.entered))
    _entered.entered.clear()
    started = sum(os.times()[:4])
    yield
    SECONDS[item.nodeid] = round(sum(os.times()[:4]) - started, 3)
    blocks = set(_entered.entered)
    for told in Path(os.environ["MUTANT_ENTERED"]).iterdir():
        blocks |= set(map(int, told.read_text().split()))
        told.unlink()
    FOUND[item.nodeid] = array.array("i", sorted(blocks))

def pytest_runtest_logreport(report):
    if report.failed:  # a test that fails in a copy judges nothing
        FAILED.add(report.nodeid)

def pytest_sessionfinish():
    for name in FAILED:
        FOUND.pop(name, None)
    with open(os.environ["MUTANT_MAP"], "wb") as out:
        pickle.dump((FOUND, SECONDS), out)
"""

Block = tuple[str, int, int]
"""A file, and the first and the last line of a list of statements."""


class Saying(ast.NodeTransformer):
    """Blocks that say that they were entered."""

    def __init__(self, path: str, blocks: list[Block]) -> None:
        self.path, self.blocks = path, blocks

    def block(self, body: list[ast.stmt], *, docstring: bool = False) -> list[ast.stmt]:
        """A list of statements, with what it says first."""
        if not body:
            return body
        at = int(docstring and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))
        self.blocks.append((self.path, body[0].lineno, body[-1].end_lineno or 0))
        said = ast.parse(f"_entered_.add({len(self.blocks) - 1})").body
        return [*body[:at], *said, *body[at:]]

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

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """The lists of statements of a node; those of a class and of a module belong to what holds them."""
        super().generic_visit(node)
        if not isinstance(node, ast.Module | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                body: Any = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, self.block(body, docstring=isinstance(node, ast.FunctionDef)))
        return node


def main() -> int:
    """Instrument, run, write."""
    target, tests = Path(sys.argv[1]).resolve(), sys.argv[2:] or ["."]
    with tempfile.TemporaryDirectory() as folder:
        copy, blocks = Path(folder), []
        shutil.copytree(ROOT / "warpsim", copy / "warpsim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "programs", copy / "programs")
        for path in sorted((copy / "warpsim").rglob("*.py")):
            tree = Saying(path.relative_to(copy).as_posix(), blocks).visit(ast.parse(path.read_text(encoding="utf-8")))
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
        (copy / "warpsim" / "_entered.py").write_text(HITS)
        (copy / "mutant_plugin.py").write_text(PLUGIN)
        found, told = copy / "map", copy / "entered"
        told.mkdir()
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "mutant_plugin"]  # fmt: skip
        command += [*SETTINGS, *[str(ROOT / "tests" / t) for t in tests]]
        paths = {"MUTANT_MAP": str(found), "MUTANT_ENTERED": str(told)}
        subprocess.run(command, cwd=copy, env=surroundings(copy) | paths, check=False)
        tests_of, seconds = pickle.loads(found.read_bytes())
    target.write_bytes(pickle.dumps({"blocks": blocks, "tests": tests_of, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
