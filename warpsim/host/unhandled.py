"""Exceptions that would go unnoticed: Python prints or drops those in threads, futures, pools and destructors, and pytest
at most warns."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing import pool
from typing import Any

from warpsim.errors import WarpsimError

Problem = Callable[[Any, tuple[Any, ...]], "BaseException | None"]
"""Given an object and the arguments of a call that settles it: the exception that the call leaves in it."""


def _of_pool(result: object, arguments: tuple[Any, ...]) -> BaseException | None:
    good, value = arguments[1]
    asked = getattr(result, "_error_callback", None)
    return None if good or asked is not None else value


SETTLING: list[tuple[type, str, str, Problem]] = [
    (Future, "set_exception", "a future", lambda future, arguments: arguments[0]),
    (pool.ApplyResult, "_set", "a pool", _of_pool),
    (pool.MapResult, "_set", "a pool", _of_pool),
    (pool.IMapIterator, "_set", "a pool", _of_pool),
    (pool.IMapUnorderedIterator, "_set", "a pool", _of_pool),
]
"""Methods that leave an exception where nobody may look for it."""
LOOKING: list[tuple[type, str, bool]] = [
    (Future, "result", False),
    (Future, "exception", True),
    (pool.ApplyResult, "get", False),
    (pool.ApplyResult, "successful", True),
    (pool.IMapIterator, "next", False),
    (pool.IMapIterator, "__next__", False),
]
"""Methods that look for it, and whether they do so without raising it."""


class UnhandledErrors(logging.Handler):
    """Collects errors of warpsim, and failed assertions of a process that has launched something, that nobody sees.

    Installs itself in Python's hooks for threads and destructors, in futures and the results of pools, and behind
    asyncio's logger. ``say`` is called with each error at once; without it, `take` returns them.
    """

    def __init__(self, say: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self.launches = 0
        """Number of launches that have ended."""
        self._said: list[str] = []
        self._say = say or self._said.append
        self._held: dict[int, tuple[weakref.ref[object], str]] = {}
        self._numbers = itertools.count()
        self._over = False

    def take(self) -> list[str]:
        """Return the errors known so far, each once, including those whose futures have been collected."""
        for number, (owner, text) in list(self._held.items()):
            if owner() is None and self._held.pop(number, None) is not None:
                self._say(text)
        said = list(dict.fromkeys(self._said))
        self._said.clear()
        return said

    def take_all(self) -> list[str]:
        """Return all errors, at the end, when no one can retrieve a future's exception any more."""
        self._over = True
        for number in list(self._held):
            if (held := self._held.pop(number, None)) is not None:
                self._say(held[1])
        return self.take()

    def forget(self) -> None:
        """Start anew, in a process that was forked from one with errors of its own."""
        self._said.clear()
        self._held.clear()
        self._over = False

    def note(self, where: str, problem: BaseException | None) -> None:
        """Note an exception that nothing handled."""
        if self._concerns(problem):
            self._say(f"{where}{_text(problem)}")

    def _concerns(self, problem: BaseException | None) -> bool:
        return isinstance(problem, WarpsimError) or (isinstance(problem, AssertionError) and self.launches > 0)

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Install the hooks for threads and destructors, in front of those installed already."""
        of_threads, of_others = threading.excepthook, sys.unraisablehook

        def thread(args: Any, /) -> None:
            self.note(f"in thread {args.thread.name}: " if args.thread else "in a thread: ", args.exc_value)
            of_threads(args)

        def other(args: Any, /) -> None:
            self.note(f"in {args.object!r:.100}: ", args.exc_value)
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
        """Collect for a whole session: the hooks, futures, pools, and tasks that asyncio reports as forgotten."""
        mark = f"_warpsim_{id(self)}"
        patched = [(kind, name) for kind, name, _, _ in SETTLING] + [(kind, name) for kind, name, _ in LOOKING]
        before = [(kind, name, vars(kind)[name]) for kind, name in patched]
        logger = logging.getLogger("asyncio")
        with self.hooks():
            for kind, name, where, problem in SETTLING:
                setattr(kind, name, self._settling(vars(kind)[name], mark, where, problem))
            for kind, name, retrieves in LOOKING:
                setattr(kind, name, self._looking(vars(kind)[name], mark, retrieves=retrieves))
            logger.addHandler(self)
            try:
                yield
            finally:
                logger.removeHandler(self)
                for kind, name, method in before:
                    setattr(kind, name, method)

    def _settling(self, before: Any, mark: str, where: str, problem_of: Problem) -> Any:
        """A method that settles a result, and notes the exception that it leaves there."""

        def settle(owner: object, *arguments: object) -> None:
            problem = problem_of(owner, arguments)
            if self._concerns(problem):
                text = f"in {where} that nobody asked: {_text(problem)}"
                if self._over:
                    self._say(text)
                else:
                    number = next(self._numbers)
                    vars(owner).setdefault(mark, []).append(number)
                    self._held[number] = weakref.ref(owner), text
            before(owner, *arguments)

        return settle

    def _looking(self, before: Any, mark: str, *, retrieves: bool) -> Any:
        """A method that asks for a result, and with it for the exception."""

        def look(owner: object, *arguments: object, **named: object) -> object:
            __tracebackhide__ = True
            seen = False
            try:
                value = before(owner, *arguments, **named)
                seen = retrieves
                return value
            except BaseException as problem:
                seen = self._concerns(problem)
                raise
            finally:
                for number in vars(owner).pop(mark, ()) if seen else ():
                    self._held.pop(number, None)

        return look

    def emit(self, record: logging.LogRecord) -> None:
        """Note a task whose exception was never retrieved, as asyncio logs it."""
        if record.exc_info:
            self.note("in a task that nobody awaited: ", record.exc_info[1])


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
