"""What all groups of commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsim.debug import DebugError, Session
from warpsim.errors import Finding


class Part:
    """State and helpers that every group of commands may use. `Shell` combines the groups."""

    session: Session
    say: Callable[..., None]
    paint: Callable[[str, str], str]
    further: Callable[[], str | None]
    show_displays: Callable[[], None]
    queue: list[str]
    errors: list[Finding]
    scripts: dict[int, list[str]]
    displays: dict[int, tuple[str, str]]
    previous: dict[str, Any]
    shown_source: tuple[str, int] | None
    listed: int | None
    step_by: str


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
