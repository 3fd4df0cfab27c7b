"""Exceptions that would go unnoticed: Python prints or drops those in threads, futures and destructors, and pytest at
most warns.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from warpsim.errors import WarpsimError

LOOKS = ("result", "exception")
"""Methods of a future that retrieve its exception."""


class Unseen(logging.Handler):
    """Collects errors of warpsim, and failed assertions of a session that has launched something, that no test sees.

    Installs itself in Python's hooks for threads and destructors, in `concurrent.futures.Future`, and behind asyncio's
    logger.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0
        """Number of launches that have ended."""
        self._said: list[str] = []
        self._futures: dict[int, tuple[weakref.ref[Future[Any]], str]] = {}
        self._numbers = itertools.count()

    def take(self) -> list[str]:
        """Return the errors known so far, each once, including those of futures that have been collected."""
        for number, (future, text) in list(self._futures.items()):
            if future() is None and self._futures.pop(number, None) is not None:
                self._said.append(text)
        said, self._said = self._said, []
        return list(dict.fromkeys(said))

    def take_all(self) -> list[str]:
        """Return all errors, at the end, when no one can retrieve a future's exception any more."""
        said = self.take() + [text for _, text in self._futures.values()]
        self._futures.clear()
        return said

    def note(self, where: str, problem: BaseException | None) -> None:
        """Note an exception that nothing handled."""
        if self._concerns(problem):
            self._said.append(f"in {where}: {_text(problem)}")

    def _concerns(self, problem: BaseException | None) -> bool:
        return isinstance(problem, WarpsimError) or (isinstance(problem, AssertionError) and self.launches > 0)

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Install the hooks for threads and destructors, in front of those installed already."""
        of_threads, of_others = threading.excepthook, sys.unraisablehook

        def thread(args: Any, /) -> None:
            self.note(f"thread {args.thread.name}" if args.thread else "a thread", args.exc_value)
            of_threads(args)

        def other(args: Any, /) -> None:
            self.note(f"{args.object!r:.100}", args.exc_value)
            of_others(args)

        threading.excepthook, sys.unraisablehook = thread, other
        try:
            yield
        finally:
            if threading.excepthook is thread:
                threading.excepthook = of_threads
            if sys.unraisablehook is other:
                sys.unraisablehook = of_others

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Collect for a whole session: the hooks, futures, and tasks that asyncio reports as forgotten."""

        mark, before = f"_warpsim_{id(self)}", Future.set_exception
        looks = {name: getattr(Future, name) for name in LOOKS}

        def set_exception(future: Future[Any], problem: BaseException | None) -> None:
            if self._concerns(problem):
                number = next(self._numbers)
                future.__dict__[mark] = number
                self._futures[number] = weakref.ref(future), f"in a future that nobody asked: {_text(problem)}"
            before(future, problem)

        def looking(name: str) -> Any:
            def look(future: Future[Any], timeout: float | None = None) -> Any:
                __tracebackhide__ = True
                try:
                    return looks[name](future, timeout)
                finally:
                    if future.done():
                        self._futures.pop(future.__dict__.pop(mark, -1), None)

            return look

        logger = logging.getLogger("asyncio")
        with self.hooks():
            Future.set_exception = set_exception  # type: ignore[assignment, method-assign]
            for name in looks:
                setattr(Future, name, looking(name))
            logger.addHandler(self)
            try:
                yield
            finally:
                logger.removeHandler(self)
                Future.set_exception = before  # type: ignore[method-assign]
                for name, look in looks.items():
                    setattr(Future, name, look)

    def emit(self, record: logging.LogRecord) -> None:
        """Note a task whose exception was never retrieved, as asyncio logs it."""
        if record.exc_info:
            self.note("a task that nobody awaited", record.exc_info[1])


def launching() -> bool:
    """Whether a thread that Python joins at exit is in a launch."""
    kernels = sys.modules.get("warpsim.host.kernel")
    if kernels is None:
        return False
    code, frames = kernels.Kernel.__call__.__code__, sys._current_frames()
    waited = [t.ident for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
    tops = [frames[ident] for ident in waited if ident in frames]
    return any(frame.f_code is code for top in tops for frame, _ in traceback.walk_stack(top))


def _text(problem: BaseException | None) -> str:
    return f"{type(problem).__name__}: {problem}"
