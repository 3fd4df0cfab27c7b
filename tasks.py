"""Tasks of a contributor: ``python tasks.py TASK [ARGUMENTS]``, or without a task the list."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def run(*command: str) -> None:
    """Run a Python module of this environment; its failure is ours."""
    print("$", "python -m", *command, flush=True)
    status = subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode
    if status:
        sys.exit(status)


def check() -> None:
    """Lint, formatting and types."""
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")


def test(*arguments: str) -> None:
    """The tests (two to three minutes); arguments go to pytest."""
    run("pytest", "-q", *arguments)


def long(*arguments: str) -> None:
    """The long tests and the sweeps as well (an hour); arguments go to pytest."""
    run("pytest", "-q", "-m", "", *arguments)


def compiled(*arguments: str) -> None:
    """The tests under the compiled engine, each launch waiting for its machine code; arguments go to pytest."""
    os.environ.update(WARPSIM_ENGINE="compiled", WARPSIM_COMPILE="at-once")
    run("pytest", "-q", *arguments)


def examples(*arguments: str) -> None:
    """Run the code blocks of the pages; ``--write`` rewrites outputs that have changed."""
    run("docs.tools.blocks", *arguments)


def playground() -> None:
    """Bundle the playground's editor (needs npm)."""
    folder = ROOT / "docs" / "playground"
    for command in (("npm", "ci", "--no-audit", "--no-fund"), ("npm", "run", "build")):
        if subprocess.run(command, cwd=folder).returncode:
            sys.exit(1)


def docs(*arguments: str) -> None:
    """Build the site into site/; a warning or a dead link is an error. With ``serve``: look at it while you write."""
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    if arguments:
        run("mkdocs", *arguments)
    else:
        if shutil.which("npm"):
            playground()
        run("mkdocs", "build", "--strict", "--quiet")
        run("docs.tools.links", "site")


def links() -> None:
    """Ask for every link that leaves the built site (needs the network)."""
    run("docs.tools.links", "site", "--outside")


def address(*arguments: str) -> None:
    """Where the project lives; with SITE SOURCE, write that into every file that says it."""
    run("docs.tools.address", *arguments)


def package() -> None:
    """Build sdist and wheel into dist/, and check that the description renders."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run("build")
    run("twine", "check", "--strict", *(str(p) for p in (ROOT / "dist").iterdir()))


def extension() -> None:
    """Build and test the extension of VS Code: editors/vscode/warpsim.vsix; needs Node.js and npm."""
    npm, folder = shutil.which("npm"), ROOT / "editors" / "vscode"
    if npm is None:
        sys.exit("the extension is built with npm, of Node.js 20 or newer")
    shutil.copy(ROOT / "LICENSE", folder)
    os.environ.setdefault("WARPSIM_PYTHON", sys.executable)
    for command in ("ci --ignore-scripts", "run check", "test", "run build", "run package"):
        print("$ npm", command, flush=True)
        status = subprocess.run([npm, *command.split()], cwd=folder).returncode
        if status:
            sys.exit(status)


def profile(*arguments: str) -> None:
    """Where a launch spends its time: ``profile CASE [--lines N] [--repeat N]``."""
    run("benchmarks.profile_launch", *arguments)


def mutants(*arguments: str) -> None:
    """Change the package at random points and name the changes that no test notices."""
    sys.exit(subprocess.run([sys.executable, "tools/mutants/mutants.py", *arguments], cwd=ROOT).returncode)


TASKS = {
    t.__name__: t
    for t in (
        check,
        test,
        long,
        compiled,
        examples,
        playground,
        docs,
        links,
        address,
        package,
        extension,
        profile,
        mutants,
    )
}

if __name__ == "__main__":
    wanted, *rest = sys.argv[1:] or [""]
    if wanted not in TASKS:
        for name, task in TASKS.items():
            print(f"  {name:10} {(task.__doc__ or '').splitlines()[0]}")
        sys.exit(2 if wanted else 0)
    TASKS[wanted](*rest)
