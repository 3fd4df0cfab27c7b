"""What all groups of commands share: the session, the output, and the state of the dialogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

from warpsim.debug import DebugError, Session
from warpsim.errors import Finding


class Console:
    """A session, a stream to print on, and what commands leave for others."""

    def __init__(self, session: Session, out: TextIO, *, colour: bool) -> None:
        self.session, self.out, self.colour = session, out, colour
        self.source: Callable[[], str | None] = lambda: None
        """Gives the lines that follow ``queue``."""
        self.queue: list[str] = []
        self.displays: dict[int, tuple[str, str]] = {}
        self.scripts: dict[int, list[str]] = {}
        """By breakpoint, the commands to run when it stops."""
        self.previous: dict[str, Any] = {}
        """The registers before the last motion."""
        self.step_by = "instruction"
        self.listed: int | None = None
        """The line at which ``list`` continues."""
        self.errors: list[Finding] = []
        """Errors at which the launch has stopped."""

    def say(self, text: str = "") -> None:
        """Print a line."""
        print(text, file=self.out)

    def paint(self, text: str, code: str) -> str:
        """Colour text if the terminal supports it."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def further(self) -> str | None:
        """The next line of the dialogue; None if there is none."""
        return self.queue.pop(0) if self.queue else self.source()

    def whereabouts(self) -> str:
        """Describe the thread in focus, and the lanes that move with it."""
        focus, calls = self.session.thread, self.session.where()
        mine = [w for w in self.session.warps() if (w.cta, w.warp) == (focus.cta, focus.warp)]
        at = self.session.standing()
        lanes = next((w for w in mine if at is not None and w.line == at.instruction.span.line), None)
        name = calls[0].function if calls else self.session.kernel.name
        with_it = f"lanes {lanes.lanes} together" if lanes is not None else "not running"
        if lanes is not None and lanes.state not in ("runs", "ready"):
            with_it += f", which {lanes.state.replace('waits', 'wait', 1).replace('polls', 'poll', 1)}"
        return f"{name}, {focus}; {with_it}; step {self.session.stop.step}"


def count_of(text: str, least: int = 1) -> int:
    """Parse a count; 1 if none is given."""
    text = text.strip()
    if not text:
        return max(least, 1)
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise DebugError(f"expected a number, not {text[:40]!r}")
    number = int(text)
    if number < least:
        raise DebugError(f"{number} is too small: the least is {least}")
    return number


def number_of(text: str, what: str) -> int:
    """Parse the number of a breakpoint or display."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DebugError(f"expected the number of {what}, not {text[:40]!r}")
    return int(text)
