"""Defaults of launches, as a test session sets them; listeners that are notified of each launch; findings of child processes,
which are passed to the session that started them."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from warpsim.errors import Finding, describe

if TYPE_CHECKING:  # the command line starts without NumPy
    from warpsim.host.device import Device
    from warpsim.host.options import Checks
    from warpsim.machine.state.launch import LaunchState

FILE = "WARPSIM_SESSION_FINDINGS"
"""Environment variable with the file that child processes of a test session append findings to, one per line."""


def forward(state: LaunchState) -> None:
    """Pass on the errors that a launch has collected."""
    if state.settings.on_finding == "collect":
        pass_on(state.findings.values())


def pass_on(found: Iterable[Finding]) -> None:
    """Pass on errors that this process collected."""
    append_errors([describe(each) for each in found if each.severity == "error"])


def append_errors(texts: list[str]) -> None:
    """Append the texts of errors to the test session's file, if there is one."""
    path = os.environ.get(FILE)
    if path is not None and texts:
        import json

        with open(path, "a", encoding="utf-8") as out:
            out.write("".join(json.dumps(text) + "\n" for text in texts))


def pass_on_uncaught(listeners: Sequence[object]) -> None:
    """Pass on, as long as `forward` is among the listeners, errors that nobody in this process sees: of its main program,
    its threads, destructors, futures and pools, and of a `multiprocessing.Process`, whose exit status alone would tell."""
    import traceback  # only child processes of test sessions need these
    from multiprocessing import process, util

    from warpsim.host.unhandled import UnhandledErrors

    unhandled = UnhandledErrors(lambda text: append_errors([text]) if forward in listeners else None)
    unhandled.launches = 1  # a program that imports warpsim asserts something about it
    session = contextlib.ExitStack()
    session.enter_context(unhandled.session())
    of_program = sys.excepthook
    of_process: Callable[..., None] = traceback.print_exc

    def program(kind: type[BaseException], problem: BaseException, trace: TracebackType | None, /) -> None:
        unhandled.note("", problem)
        of_program(kind, problem, trace)

    def printed(*arguments: object, **named: object) -> None:
        if sys._getframe(1).f_globals is vars(process):  # prints what ends a Process, which has no other hook
            unhandled.note("", sys.exc_info()[1])
        of_process(*arguments, **named)

    def began(_unseen: object) -> None:
        unhandled.forget()
        util.Finalize(None, unhandled.take_all, exitpriority=0)
        atexit.register(session.close)  # later, the hooks would find an interpreter without modules

    sys.excepthook, traceback.print_exc = program, printed
    began(unhandled)
    util.register_after_fork(unhandled, began)  # a forked process has no finalizers, nor exit functions


Listener = Callable[["LaunchState"], object]
ErrorListener = Callable[[Sequence[Finding]], object]


class Defaults:
    """Defaults for ``device=``, ``checks=``, ``async_effects=``, ``schedule=`` and ``max_seconds=``; None leaves the
    usual default."""

    __slots__ = ("async_effects", "checks", "device", "max_seconds", "schedule", "timing")

    def __init__(self) -> None:
        self.device: Device | None = None
        self.checks: Checks = None
        self.async_effects: str | None = None
        self.schedule: int | None = None
        self.max_seconds: float | None = None
        self.timing: Any = None
        """Measures the time of launches (`warpsim.observe.timing.StopWatch`)."""


current = Defaults()
listeners: list[Listener] = [forward] if FILE in os.environ else []
"""Called with the state of every launch of this process when it has ended."""
error_listeners: list[ErrorListener] = []
"""Called with errors that a debug session ran past: it collected them, and reported none of them by a stop."""
if FILE in os.environ:
    pass_on_uncaught(listeners)


def keep_findings() -> None:
    """Pass nothing on from this process: it tells by itself what was found, as a command or a test session does."""
    if forward in listeners:
        listeners.remove(forward)


def run_past(found: Sequence[Finding]) -> None:
    """Report errors that a debug session ran past."""
    for error_listener in error_listeners:
        error_listener(found)
    if forward in listeners:
        pass_on(found)


@contextlib.contextmanager
def defaults(**given: object) -> Iterator[Defaults]:
    """Apply defaults inside the context, in all threads; those not given are unchanged."""
    before = {name: getattr(current, name) for name in Defaults.__slots__}
    for name, value in given.items():
        setattr(current, name, value)
    try:
        yield current
    finally:
        for name, value in before.items():
            setattr(current, name, value)


@contextlib.contextmanager
def listening(listener: Listener, error_listener: ErrorListener | None = None) -> Iterator[None]:
    """Notify ``listener`` of launches that end inside the context, and ``error_listener`` of errors that debug sessions run past."""
    more = [] if error_listener is None else [error_listener]
    listeners.append(listener)
    error_listeners.extend(more)
    try:
        yield
    finally:
        listeners.remove(listener)
        for each in more:
            error_listeners.remove(each)
