"""The code blocks of the pages: run them, compare or rewrite their output.

    python -m docs.tools.blocks [--write] [PAGE...]

A page is run from top to bottom in a folder of its own that holds a copy of ``programs/``:

- a block ``python`` runs in one namespace for the whole page; a block ``text`` right behind it is what it prints;
- a block ``console`` holds commands behind ``$ `` and what each prints (standard output and error), with ``| head -N`` its beginning;
- a block with ``title="NAME"`` is written to that file instead;
- ``<!-- goes on from: PAGE -->`` writes the files of that page first;
- ``<!-- skip: REASON -->`` before a block leaves it alone, ``<!-- long -->`` leaves it to the long tests.

Times in seconds are not compared.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?P<mark><!-- (?:skip: [^\n]*|long) -->\n)?^(?P<fence>`{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=fence)$",
    re.M | re.S,
)
OUTPUT = re.compile(r"\A\n*```text\n(.*?)^```$", re.M | re.S)
SECONDS = re.compile(r"\b\d+\.\d+ ?s\b")
TITLE = re.compile(r'title="([^"]+)"')
GOES_ON = re.compile(r"^<!-- goes on from: (\S+) -->$", re.M)


class Stale(AssertionError):
    """A page shows what the program does not print."""


def run_page(path: Path, *, write: bool = False, long: bool = False) -> list[str]:
    """Run the blocks of a page; the differences, as text. With ``write`` the page is changed instead."""
    text = path.read_text(encoding="utf-8")
    wrong: list[str] = []
    made, rest = [], text
    with _folder(programs="programs" in text) as namespace:
        for name, body in inherited(path, text).items():
            _write(name, body)
        while (found := BLOCK.search(rest)) is not None:
            made.append(rest[: found.end()])
            rest = rest[found.end() :]
            mark, info, body = found["mark"] or "", found["info"].strip(), found["body"]
            if mark.startswith("<!-- skip") or (mark and not long):
                continue
            line = sum(part.count("\n") for part in made) - body.count("\n")
            if title := TITLE.search(info):
                _write(title[1], body)
            elif info == "python":
                printed = run_python(body, namespace, f"{path.name}:{line}")
                shown = OUTPUT.match(rest)
                if shown is None:
                    if printed:
                        wrong.append(f"{path.name}:{line}: prints, and the page does not show it:\n{printed}")
                elif same(printed, shown[1]):
                    made.append(rest[: shown.end()])
                    rest = rest[shown.end() :]
                else:
                    wrong.append(difference(path, line, shown[1], printed))
                    made.append(f"\n\n```text\n{printed}```")
                    rest = rest[shown.end() :]
            elif info == "console":
                printed = run_console(body)
                if not same(printed, body):
                    wrong.append(difference(path, line, body, printed))
                    made[-1] = made[-1][: -len(found["fence"]) - len(body)] + printed + found["fence"]
    if write and wrong:
        path.write_text("".join(made) + rest, encoding="utf-8")
    return wrong


def inherited(path: Path, text: str) -> dict[str, str]:
    """The files of the page from which this one goes on."""
    return files(path.parent / before[1]) if (before := GOES_ON.search(text)) else {}


def files(path: Path) -> dict[str, str]:
    """The files that a page writes, and those of the page from which it goes on: text by name."""
    text = path.read_text(encoding="utf-8")
    own = {t[1]: found["body"] for found in BLOCK.finditer(text) if (t := TITLE.search(found["info"]))}
    return {**inherited(path, text), **own}


def _write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def same(printed: str, shown: str) -> bool:
    """Equal but for times."""
    return SECONDS.sub("# s", printed.rstrip()) == SECONDS.sub("# s", shown.rstrip())


def difference(path: Path, line: int, shown: str, printed: str) -> str:
    """Both texts."""
    return f"{path.name}:{line}: shown\n{shown}printed\n{printed}"


@contextlib.contextmanager
def _folder(*, programs: bool) -> Iterator[dict[str, Any]]:
    """A folder as the working one, with the bundled programs where they are asked for."""
    before, environment = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if programs:
            shutil.copytree(ROOT / "programs", Path(folder) / "programs")
        os.chdir(folder)
        os.environ["COLUMNS"] = "100"
        try:
            yield {"__name__": "__main__"}
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)


def run_python(code: str, namespace: dict[str, Any], name: str) -> str:
    """What a block prints."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            exec(compile(code, name, "exec"), namespace)
    except Exception as problem:
        raise Stale(f"{name}: {type(problem).__name__}: {problem}") from problem
    return out.getvalue()


def run_console(body: str) -> str:
    """The commands of a block, each with what it prints."""
    parts = []
    for command in re.findall(r"^\$ (.*(?:\\\n.*)*)\n?", body, re.M):
        parts.append(f"$ {command}\n{run_command(command)}")
    return "".join(p if p.endswith("\n") else p + "\n" for p in parts)


def run_command(command: str) -> str:
    """What a command prints; warpsim's own run in this process."""
    command, _, lines = command.partition(" | head -")
    printed = _output(shlex.split(command.replace("\\\n", " ")))
    return "".join(printed.splitlines(keepends=True)[: int(lines)]) if lines else printed


def _output(words: list[str]) -> str:
    if words[0] == "warpsim":
        from warpsim.cli import main

        out, before, sys.stdin = io.StringIO(), sys.stdin, io.StringIO()  # nobody types
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
                main(words[1:])
        finally:
            sys.stdin = before
        return out.getvalue()
    if words[0] == "cat":
        return "".join(Path(word).read_text(encoding="utf-8") for word in words[1:])
    if words[0] in ("python", "pytest"):
        words = [
            sys.executable,
            *(["-m", "pytest", "-p", "no:cacheprovider"] if words[0] == "pytest" else []),
            *words[1:],
        ]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        return done.stdout
    raise Stale(f"the pages cannot run {words[0]}")


def pages() -> list[Path]:
    """The README and every page that is written by hand."""
    return [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md"))]


def main(arguments: list[str]) -> int:
    """Check or rewrite pages."""
    write = "--write" in arguments
    wanted = [Path(a).resolve() for a in arguments if a != "--write"] or pages()
    count = 0
    for path in wanted:
        for problem in run_page(path, write=write, long=True):
            count += 1
            print(("rewritten: " if write else "") + problem)
    return int(bool(count) and not write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
