"""The suite against itself: changes one point of the package at random, and sees whether the tests notice.

    python tools/mutants/mutants.py [--count 100] [--seed 1] [--folder numerics ...] [--nearest] [--map MAP] [--from 0]
                                    [--list] [--only FILE:LINE ...] [--tests TEST ...] [--share 6]

A mutant is one comparison, constant, slice, operator, condition, statement or return of ``warpsim/`` changed in a copy. The
tests nearest to its folder run first (``NEAREST``), then, unless ``--nearest``, the whole default run; the first failure kills
it, and so does a run that does not end. With ``--map`` (a file of `mutant_map.py`) only tests run that enter the mutant's block,
the quickest first and as many as ``--share`` seconds hold, in a fork of a process that has collected them (`mutant_forks.py`): a
second a mutant instead of minutes. The same seed makes the same mutants of the same source. Survivors are printed with the line
before and after: each wants a test, or the line is not needed, or it means the same.

Why not a kept tool: mutmut 3.8 leaves alone what is decorated (10 of the 14 functions of isa/mbarrier.py: every instruction), and
cosmic-ray 8.7 removes no statement and starts a process for each mutant (10 s, with the tests of isa/ and program/ alone).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutant_points import Mutant, Points

try:
    import resource
except ImportError:  # Windows
    resource = None

ROOT = Path(__file__).resolve().parents[2]
NEAREST = {
    "analysis": ["analysis"],
    "capture": ["testing/test_capture.py", "testing/test_capture_driver.py", "testing/test_capture_images.py", "testing/test_capture_launches.py", "testing/test_recording.py"],
    "checks": ["checks", "analysis/test_async.py", "isa/test_wgmma.py"],
    "cli": ["debug", "test_cli.py", "test_cli_commands.py", "test_exit_status.py", "test_docs.py", "observe", "layout/test_pictures.py", "analysis/test_recorded.py"],
    "compat": ["compat"],
    "debug": ["debug"],
    "driver": ["driver"],
    "host": ["host", "test_docs.py", "test_cli.py"],
    "isa": ["isa", "program", "test_recordings.py"],
    "layout": ["layout", "isa/test_wgmma.py", "isa/test_mma_recordings.py", "isa/test_wmma.py", "machine/test_tensor_copies.py", "machine/test_packed_maps.py", "host/test_tensor_map_verdicts.py"],
    "machine": ["machine", "checks"],
    "native": ["native", "test_programs.py"],
    "numerics": ["numerics", "isa/test_form_recordings.py", "isa/test_integer_recordings.py", "isa/test_mma_recordings.py", "host/test_mma.py"],
    "observe": ["observe", "test_cli.py"],
    "parallel": ["parallel"],
    "program": ["program", "isa/test_exact.py", "isa/test_form_verdicts.py", "isa/test_assembler_verdicts.py", "isa/test_arithmetic_verdicts.py", "host"],
    "ptx": ["ptx", "program", "isa/test_spec.py"],
    "report": ["report", "checks"],
    "testing": ["testing"],
    "trace": ["trace"],
    ".": ["host", "testing/test_plugin.py", "test_cli.py"],
}  # fmt: skip
"""Tests by folder of the package; ``.`` has its own files."""
SETTINGS = ("-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", "-o", "pythonpath=tests/helpers tools/recordings")
"""Those of the repository, but for its own place among the paths: the package is the copy."""
NOWHERE = "no test comes here"
SECONDS = 400
"""Of processor time; more is a run that does not end, and so is `PATIENCE` times as much by the clock."""
PATIENCE = 8


def surroundings(copy: Path) -> dict[str, str]:
    """The environment of tests of a copy of the package: what it compiles stays beside it."""
    paths = os.pathsep.join(map(str, (copy, ROOT, Path(__file__).parent)))
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths, "WARPSIM_CACHE": str(copy / "cache")}


def points(folders: list[str]) -> Iterator[Mutant]:
    """Every mutant of the package, or of some folders, that is Python."""
    for path in sorted((ROOT / "warpsim").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not folders or folder_of(name) in folders:
            yield from Points(name, source(name).decode()).found


@functools.cache
def source(name: str) -> bytes:
    """A file, as it was when this began."""
    return (ROOT / name).read_bytes()


def folder_of(name: str) -> str:
    """The folder of the package that a file belongs to."""
    return parts[1] if len(parts := name.split("/")) > 2 else "."


def mutated(mutant: Mutant) -> str:
    """The text of the file."""
    data = source(mutant.path)
    return (data[: mutant.start] + mutant.text.encode() + data[mutant.end :]).decode()


def chosen(count: int, seed: int, folders: list[str], only: list[str]) -> list[Mutant]:
    """Some mutants, each of a line of its own; or all of some lines."""
    every = list(points(folders))
    if only:
        return [m for m in every if any(f"{m.path}:{m.line}".endswith(place) for place in only)]
    random.Random(seed).shuffle(every)
    found: dict[tuple[str, int], Mutant] = {}
    for mutant in every:
        if len(found) < count and (mutant.path, mutant.line) not in found:
            try:
                compile(mutated(mutant), mutant.path, "exec")
            except SyntaxError:
                continue
            found[mutant.path, mutant.line] = mutant
    return list(found.values())


def run(copy: Path, tests: list[str], seconds: int | None = SECONDS) -> str:
    """What kills the package in a folder: the first test that fails, ``""`` if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:benchmark"]  # fmt: skip
    command += [*SETTINGS]
    command += [t if t.startswith("-") else f"{ROOT}/tests/{t}" for t in tests]  # no Path: "//" may stand in a name
    environment = surroundings(copy)
    clock = None if seconds is None else PATIENCE * seconds
    limited = None if seconds is None or resource is None else functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (seconds, seconds))  # fmt: skip
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=clock, preexec_fn=limited)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode < 0:
        return "does not end" if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else f"status {done.returncode}"
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"status {done.returncode}"


def put(target: Path, data: bytes) -> None:
    """Write a file of the package, and forget what was compiled of it."""
    target.write_bytes(data)
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        compiled.unlink()


def nearest(mutant: Mutant, options: argparse.Namespace) -> list[str]:
    """The tests that run first."""
    return options.tests or NEAREST.get(folder_of(mutant.path), ["."])


def verdict(copy: Path, mutant: Mutant, options: argparse.Namespace) -> str:
    """What kills a mutant."""
    target = copy / mutant.path
    before = target.read_bytes()
    try:
        put(target, mutated(mutant).encode())
        killer = run(copy, nearest(mutant, options))
        return killer or ("" if options.nearest or options.tests else run(copy, ["."]))
    finally:
        put(target, before)


def one_by_one(
    copy: Path, mutants: list[tuple[int, Mutant]], options: argparse.Namespace
) -> Iterator[tuple[int, str, float]]:
    """What kills the mutants, each in processes of its own: number, killer, seconds."""
    whole = sorted({test for _, mutant in mutants for test in nearest(mutant, options)})
    if failed := run(copy, whole if options.nearest or options.tests else ["."], None):
        sys.exit(f"the package as it is: {failed}")
    for number, mutant in mutants:
        started = time.monotonic()
        yield number, verdict(copy, mutant, options), time.monotonic() - started


def by_forks(
    copy: Path, mutants: list[tuple[int, Mutant]], options: argparse.Namespace
) -> Iterator[tuple[int, str, float]]:
    """What kills the mutants, judged by `mutant_forks.py`: number, killer, seconds."""
    job = [(number, m.path, m.line, source(m.path), mutated(m).encode()) for number, m in mutants]
    said = {"map": str(Path(options.map).resolve()), "share": options.share, "mutants": job}
    (copy / "mutants").write_bytes(pickle.dumps(said))
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "mutant_forks"]  # fmt: skip
    command += [f"--basetemp={copy}/temporary", *SETTINGS, str(ROOT / "tests")]
    environment = surroundings(copy) | {"MUTANTS_COPY": str(copy), "MUTANTS_SAID": str(writing)}
    with open(copy / "log", "w") as log:
        server = subprocess.Popen(command, cwd=copy, env=environment, stdout=log, stderr=log, pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            number, killer, seconds = json.loads(line)
            yield number, killer, seconds
    if server.wait():
        sys.exit((copy / "log").read_text())


def change(mutant: Mutant) -> str:
    """The line before and after."""
    texts = source(mutant.path).decode(), mutated(mutant)
    return "\n".join(f"    {text.splitlines()[mutant.line - 1].strip()}" for text in texts)


def main() -> int:
    """Make mutants, run, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--only", action="append", default=[], metavar="FILE:LINE")
    parser.add_argument("--nearest", action="store_true", help="only the tests nearest to a folder")
    parser.add_argument("--tests", action="append", default=[], metavar="TEST", help="only these, of tests/")
    parser.add_argument("--map", help="a file of mutant_map.py: run the tests that come to a mutant's block")
    parser.add_argument("--share", type=float, default=6, help="seconds of tests for a mutant with a map")
    parser.add_argument("--from", dest="start", type=int, default=0, help="leave out the mutants before this number")
    parser.add_argument("--list", action="store_true", help="name the mutants, run nothing")
    options = parser.parse_args()
    counts: Counter[tuple[str, bool]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "warpsim", copy / "warpsim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "programs", copy / "programs")
        mutants = dict(enumerate(chosen(options.count, options.seed, options.folder, options.only)))
        if options.list:
            for number, mutant in mutants.items():
                print(f"{number} {mutant.path}:{mutant.line} {mutant.kind}\n{change(mutant)}")
            return 0
        if not mutants:
            sys.exit("no such mutants")
        left = [(number, mutant) for number, mutant in mutants.items() if number >= options.start]
        judged = by_forks(copy, left, options) if options.map else one_by_one(copy, left, options)
        for number, killer, seconds in judged:
            mutant, killed = mutants[number], killer not in ("", NOWHERE)
            counts[folder_of(mutant.path), killed] += 1
            says = f"killed by {killer}" if killed else f"SURVIVED{killer and f', {killer}'}"
            print(f"{number} {mutant.path}:{mutant.line} {mutant.kind}: {says} ({seconds:.1f} s)")
            if not killed:
                print(change(mutant))
            sys.stdout.flush()
    for name in sorted({name for name, _ in counts}):
        print(f"{name}: {counts[name, True]} of {counts[name, True] + counts[name, False]} killed")
    print(f"{sum(n for (_, killed), n in counts.items() if killed)} of {counts.total()} mutants killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
