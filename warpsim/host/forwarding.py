"""Passes findings that a child process only collects, and errors that end it, to the test session that started it, which
would not see them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from warpsim.errors import Finding, describe

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
    tell([describe(each) for each in found if each.severity == "error"])


def tell(texts: list[str]) -> None:
    """Pass on texts to the test session, if there is one."""
    path = os.environ.get(FILE)
    if path is not None and texts:
        with open(path, "a", encoding="utf-8") as out:
            out.write("".join(json.dumps(text) + "\n" for text in texts))


def tell_uncaught(listeners: Sequence[object]) -> None:
    """Pass on, as long as `forward` is among the listeners, errors that nobody in this process sees: of its main program,
    its threads, destructors, futures and pools, and of a `multiprocessing.Process`, whose exit status alone would tell.
    """
    from multiprocessing import util  # only child processes of test sessions need these

    from warpsim.host.unseen import Unseen

    unseen = Unseen(lambda text: tell([text]) if forward in listeners else None)
    unseen.launches = 1  # a program that imports warpsim asserts something about it
    session = contextlib.ExitStack()
    session.enter_context(unseen.session())
    atexit.register(session.close)  # later, the hooks would find an interpreter without modules
    of_program = sys.excepthook

    def program(kind: Any, problem: Any, trace: Any, /) -> None:
        unseen.note("", problem)
        of_program(kind, problem, trace)

    def ended(handled: BaseException | None) -> None:
        problem = sys.exc_info()[1]  # that which ends a Process, which calls this on its way
        if problem is not handled:
            unseen.note("", problem)
        unseen.take_all()

    def began(_unseen: object) -> None:
        unseen.forget()
        util.Finalize(None, ended, (sys.exc_info()[1],), exitpriority=0)

    sys.excepthook = program
    began(unseen)
    util.register_after_fork(unseen, began)  # a forked process has no finalizers
