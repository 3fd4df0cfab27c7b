"""Messages, JSON documents and exit statuses, whatever happened and wherever the output goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from warpsim.errors import WarpsimError


class Unusable(Exception):
    """Arguments or files cannot be used: exit status 2."""


def internal(defect: BaseException) -> str:
    """The message for an unexpected exception: a defect of warpsim, to be reported."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(defect.__traceback__) if "warpsim" in frame.filename]
    places = " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames[-4:]))
    said = (str(defect).splitlines() or [""])[0][:200]
    return (
        f"internal error: {type(defect).__name__}: {said} (at {places}). This is a defect of warpsim: "
        "please report it with this line, the command and its files"
    )


def prepare() -> None:
    """Make the output streams accept any text: an ASCII locale escapes it, a closed stream discards it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  for the rest of the process
        elif hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="backslashreplace")


def document(record: Mapping[str, object]) -> None:
    """Print a JSON document."""
    import json

    print(json.dumps(record))


def flush() -> None:
    """Flush all output; write errors propagate."""
    sys.stdout.flush()


def end(message: str, status: int, *, as_json: bool) -> int:
    """Print why a command ends, if possible; returns the status."""
    if as_json:
        with _tolerated(sys.stdout):
            document({"error": message})
            sys.stdout.flush()
    with _tolerated(sys.stderr):
        print(f"warpsim: {message}", file=sys.stderr)
        sys.stderr.flush()
    return status


def failed(problem: WarpsimError, *, as_json: bool) -> int:
    """Report a faulty module or launch; returns status 1."""
    from warpsim.report.findings import finding_record

    if as_json:
        document({"error": str(problem), "findings": [finding_record(f) for f in problem.findings]})
    else:
        print(problem, file=sys.stderr)
    return 1


def mute(stream: TextIO) -> None:
    """Redirect a broken stream to nothing, so that the interpreter does not complain about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextlib.contextmanager
def _tolerated(stream: TextIO) -> Iterator[None]:
    """Ignore errors of a stream that is closed or full."""
    try:
        yield
    except (OSError, ValueError):
        mute(stream)
