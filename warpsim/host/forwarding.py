"""Passes findings that a child process only collects, and errors that end it, to the test session that started it, which
would not see them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from warpsim.errors import Finding, WarpsimError, describe

if TYPE_CHECKING:
    from warpsim.machine.state.launch import LaunchState

FILE = "WARPSIM_SESSION_FINDINGS"
"""Environment variable with the file that child processes of a test session append findings to, one per line."""


def forward(state: LaunchState) -> None:
    """Pass on the errors that a launch has collected."""
    if state.settings.on_finding == "collect":
        pass_on(state.findings.values())


def pass_on(found: Iterable[Finding]) -> None:
    """Pass on errors that this process collected."""
    _append([describe(each) for each in found if each.severity == "error"])


def _append(texts: list[str]) -> None:
    path = os.environ.get(FILE)
    if path is not None and texts:
        with open(path, "a", encoding="utf-8") as out:
            out.write("".join(json.dumps(text) + "\n" for text in texts))


def tell_uncaught(listeners: Sequence[object]) -> None:
    """Pass on, as long as `forward` is among the listeners, errors that nothing in this process catches: in its main program, its threads and
    destructors, and in `multiprocessing.Process`, whose exit status alone would tell of them.
    """
    of_program, of_threads, of_others = sys.excepthook, threading.excepthook, sys.unraisablehook
    bootstrap = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def uncaught(problem: BaseException | None) -> None:
        if forward in listeners and isinstance(problem, WarpsimError | AssertionError):
            _append([f"{type(problem).__name__}: {problem}"])

    def program(kind: Any, problem: Any, trace: Any, /) -> None:
        uncaught(problem)
        of_program(kind, problem, trace)

    def thread(args: Any, /) -> None:
        uncaught(args.exc_value)
        of_threads(args)

    def other(args: Any, /) -> None:
        uncaught(args.exc_value)
        of_others(args)

    def started(process: BaseProcess, *args: Any, **keywords: Any) -> Any:
        run = process.run

        def told() -> None:
            try:
                run()
            except BaseException as problem:
                uncaught(problem)
                raise

        process.run = told  # type: ignore[method-assign]
        return bootstrap(process, *args, **keywords)

    sys.excepthook, threading.excepthook, sys.unraisablehook = program, thread, other
    BaseProcess._bootstrap = started  # type: ignore[attr-defined]
