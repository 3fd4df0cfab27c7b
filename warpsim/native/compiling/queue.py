"""The compile queue: one background thread for the process.

At exit queued jobs are dropped and the running one is awaited, because LLVM cannot be interrupted. A fork waits for it,
too, or the child would inherit LLVM's locks. Where Python is not told of the exit, there is no thread.
"""

from __future__ import annotations

import atexit
import collections
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

PAUSE, TIMES, AWAY = 5e-4, 2, 20
"""Seconds of a launch's pause for the thread, for how many times as long as a pause lasted the launch then goes on, and the same
while the thread is in LLVM, which has no use for the lock before it returns."""


def tell() -> None:
    """Tell of the exception that is handled, which ends no thread."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class CompileQueue:
    """Runs jobs in order, one at a time."""

    def __init__(self) -> None:
        self._jobs: collections.deque[Callable[[], None]] = collections.deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.busy = self._over = False
        """Whether there is something to compile."""
        self.in_line = False
        """Whether jobs run where they are submitted: a C program ends without its Python, and what the thread compiles is lost."""
        self._working = threading.Lock()
        self._pause = 0.0
        self._away = False
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._working.acquire, after_in_parent=self._working.release, after_in_child=self._forked
            )

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job."""
        if self.in_line:
            job()
            return
        with self._change:
            self._jobs.append(job)
            self.busy = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="warpsim compiles", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def let_run(self) -> None:
        """Pause where a launch goes on, if it is time. NumPy releases Python's lock for a moment in many calls: whenever it does, a
        thread that waits for the lock begins anew to wait, and may never ask for it. A pause may last
        longer than asked for: on a coarse timer, or until the thread gives the lock back."""
        began = time.perf_counter()
        if began >= self._pause:
            time.sleep(PAUSE)
            ended = time.perf_counter()
            self._pause = ended + (AWAY if self._away else TIMES) * (ended - began)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Around calls of LLVM."""
        self._away = True
        try:
            yield
        finally:
            self._away = False

    def wait(self, seconds: float) -> bool:
        """Wait until the queue is empty; False after a timeout."""
        with self._change:
            return self._change.wait_for(lambda: not self.busy, seconds)

    def stop(self) -> None:
        """Drop queued jobs, and wait for the running one."""
        with self._change:
            self._jobs.clear()
            self._over = True
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _forked(self) -> None:
        """Reset in the child of a fork: no thread, no jobs."""
        self._working.release()
        self._change, self._thread, self.busy = threading.Condition(), None, False
        self._jobs.clear()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._over or bool(self._jobs))
                if self._over:
                    self.busy = False
                    self._change.notify_all()
                    return
                job = self._jobs.popleft()
            try:
                with self._working:
                    job()
            except Exception:
                tell()  # and the others are run
            finally:
                del job
                with self._change:
                    self.busy = bool(self._jobs)
                    self._change.notify_all()


@lru_cache(maxsize=1)
def compile_queue() -> CompileQueue:
    """The process-wide instance."""
    return CompileQueue()
