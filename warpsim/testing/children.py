"""Findings that child processes of a test session have collected, and errors that ended them (see `warpsim.host.forwarding`)."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warpsim.host import defaults
from warpsim.host.forwarding import FILE, forward, tell_uncaught


class Children:
    """The file that child processes write their findings to."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.read = 0
        """How many bytes have been read."""

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Receive findings of processes that are started within the context."""
        outer = os.environ.get(FILE)
        defaults.judge()
        with tempfile.TemporaryDirectory(prefix="warpsim-", ignore_cleanup_errors=True) as folder:
            self.path = Path(folder, "findings")
            os.environ[FILE] = str(self.path)
            _watch_forks()
            try:
                yield
            finally:
                self.path = None
                os.environ.pop(FILE)
                if outer is not None:
                    os.environ[FILE] = outer

    def take(self) -> list[str]:
        """Return the findings that have arrived since the last call, each once."""
        if self.path is None or not os.access(self.path, os.F_OK):
            return []
        with self.path.open("rb") as file:
            file.seek(self.read)
            whole = file.read().rpartition(b"\n")[0]
        self.read += len(whole) + 1 if whole else 0
        return list(dict.fromkeys(f"in a child process: {json.loads(line)}" for line in whole.splitlines()))


@functools.cache
def _watch_forks() -> None:
    """Let forked processes, which inherit the session's own listeners, pass findings on instead."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    if FILE in os.environ:
        defaults.listeners[:] = [forward]
        tell_uncaught(defaults.listeners)
