"""Judges mutants in forks of one process that holds the package and the collected tests, for `mutants.py --map` (not on Windows).

A plugin of pytest: in place of running the tests it takes the mutants of ``MUTANTS_OF``, writes each into the copy of the package
that it has imported (for the processes that tests start), and forks. The fork replaces the code of the functions that differ and
runs the tests that enter the mutant's block, the quickest first. What runs while modules are imported or tests are collected
cannot be replaced so: there a new process decides.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import resource
import signal
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from mutants import NOWHERE, put, run

COPY = Path(os.environ["MUTANTS_COPY"])
NOT_REPLACED = "not replaced"
failed: list[str] = []


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that it holds."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def by_name(text: bytes, path: str) -> dict[tuple[str, int, int], CodeType]:
    """The code of a file: by name, line, and number of those before it with the same."""
    seen: Counter[tuple[str, int]] = Counter()
    found = {}
    for code in codes(compile(text, path, "exec", dont_inherit=True)):
        name = code.co_qualname, code.co_firstlineno
        found[(*name, seen[name])] = code
        seen[name] += 1
    return found


def functions() -> dict[str, list[types.FunctionType]]:
    """All functions of the package, by file."""
    gc.unfreeze()
    found: dict[str, list[types.FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__code__.co_filename.startswith(str(COPY)):
            found.setdefault(thing.__code__.co_filename, []).append(thing)
    gc.freeze()
    return found


def replace(known: list[types.FunctionType], path: str, before: bytes, after: bytes) -> int:
    """Give functions the code of a mutant; how many."""
    old, new = by_name(before, path), by_name(after, path)
    swap = {code: new[name] for name, code in old.items() if name in new and new[name] != code}
    done = 0
    for function in known:
        code = swap.get(function.__code__)
        if code is not None:
            try:
                function.__code__ = code
                done += 1
            except ValueError:  # other free variables
                return 0
    return done


class Tests:
    """Which tests enter which blocks."""

    def __init__(self, path: str, share: float) -> None:
        found = pickle.loads(Path(path).read_bytes())
        self.seconds: dict[str, float] = found["seconds"]
        self.share = share
        self.blocks: dict[str, list[tuple[int, int, int]]] = {}
        for number, (file, first, last) in enumerate(found["blocks"]):
            self.blocks.setdefault(file, []).append((first, last, number))
        self.at_import = set(found["tests"].pop("", ()))
        self.tests_of: dict[int, list[str]] = {}
        for test in sorted(found["tests"], key=lambda t: self.seconds.get(t, 1)):
            for block in found["tests"][test]:
                self.tests_of.setdefault(block, []).append(test)

    def block(self, path: str, line: int) -> int | None:
        """The innermost block around a line; None at the level of a module or class."""
        around = [(last - first, number) for first, last, number in self.blocks.get(path, []) if first <= line <= last]
        return min(around)[1] if around else None

    def of(self, block: int | None, path: str) -> list[str]:
        """Tests that enter a block, or else any of a file: one of each test function first, then two more, then the others."""
        if block is not None:
            order = self.tests_of.get(block, [])
        else:
            entered = {t for _, _, number in self.blocks.get(path, []) for t in self.tests_of.get(number, [])}
            order = sorted(entered, key=lambda t: self.seconds.get(t, 1))
        seen: Counter[str] = Counter()
        rank = {}
        for test in order:
            seen[test.split("[")[0]] += 1
            rank[test] = seen[test.split("[")[0]]
        chosen, left = [], self.share
        for test in sorted(order, key=lambda t: (rank[t] > 1, rank[t] > 3, self.seconds.get(t, 1))):
            left -= self.seconds.get(test, 1) + 0.005
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen


def forked(work: Callable[[], str], seconds: float) -> str:
    """What a function says in a fork; how it ended if it says nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            os.close(reading)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            limit = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            os.write(writing, work().encode()[:4000] or b"-")
        except BaseException as error:  # a fork never comes back to the loop
            os.write(writing, f"{type(error).__name__}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(int(3 * seconds) + 5)
    said = b""
    while part := os.read(reading, 4096):
        said += part
    signal.alarm(0)
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    with_children(child)
    if not said:
        return f"ends by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ends without a word"
    return said.decode().removeprefix("-")


def with_children(group: int) -> None:
    """End what a fork has left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def pytest_runtest_logreport(report: Any) -> None:
    """A test that fails kills the mutant."""
    if report.failed:
        failed.append(report.nodeid)


def run_items(items: list[Any]) -> str:
    """The first test that fails."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: Any) -> bool:
    """The mutants, in place of the tests."""
    job = pickle.loads((COPY / "mutants").read_bytes())
    tests, live = Tests(job["map"], job["share"]), functions()
    items = {item.nodeid: item for item in session.items}
    with os.fdopen(int(os.environ["MUTANTS_SAID"]), "w") as out:
        for number, name, line, before, after in job["mutants"]:
            started = time.monotonic()
            killer = verdict(tests, live, items, (name, line), before, after)
            print(json.dumps([number, killer, time.monotonic() - started]), file=out, flush=True)
    return True


def verdict(
    tests: Tests,
    live: dict[str, list[types.FunctionType]],
    items: dict[str, Any],
    place: tuple[str, int],
    before: bytes,
    after: bytes,
) -> str:
    """What kills a mutant."""
    block, path = tests.block(*place), str(COPY / place[0])
    chosen = [test for test in tests.of(block, place[0]) if test in items]
    if not chosen:
        return NOWHERE

    def work() -> str:
        replaced = replace(live.get(path, []), path, before, after)
        return run_items([items[test] for test in chosen]) if replaced else NOT_REPLACED

    put(Path(path), after)
    try:
        seconds = 3 * sum(tests.seconds.get(test, 1) for test in chosen) + 10
        killer = NOT_REPLACED if block is None else forked(work, seconds)
        if killer == NOT_REPLACED or (not killer and block in tests.at_import):
            killer = run(COPY, [test.removeprefix("tests/") for test in chosen], int(seconds) + 20)
        return killer
    finally:
        put(Path(path), before)
