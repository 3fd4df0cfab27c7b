"""`Hooks`: what the machine calls where something happens. It does not know its listeners.

An event without a listener is None, so an unwatched event costs one test. `warpsim.machine.watcher.Watcher` declares the
events, on `Hooks` too, and documents their arguments, which are existing arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol


class Listener(Protocol):
    """A listener, with a method for each of its ``events``."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events that it listens to."""

    @property
    def compiled(self) -> frozenset[str]:
        """Those that compiled code handles itself."""


class Hooks:
    """The events of a launch as callables; None without a listener."""

    if TYPE_CHECKING:

        def __getattr__(self, event: str) -> Callable[..., None] | None:
            """An event."""

    def __init__(self, watchers: Iterable[Listener] = ()) -> None:
        self.pausing = False
        """Whether a watcher requests a pause before the next step."""
        listeners = tuple(watchers)
        for name, numbers in _listeners_of(tuple([w.events for w in listeners])):
            calls = [getattr(listeners[k], name) for k in numbers]
            vars(self)[name] = calls[0] if len(calls) == 1 else _all(calls)


@functools.lru_cache(maxsize=256)
def _listeners_of(events: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For each event with listeners, their numbers."""
    found: dict[str, list[int]] = {}
    for number, names in enumerate(events):
        for name in names:
            found.setdefault(name, []).append(number)
    return tuple((name, tuple(numbers)) for name, numbers in found.items())


def _all(calls: list[Callable[..., None]]) -> Callable[..., None]:
    """One callable for several, called in the given order."""

    def call_all(*arguments: object) -> None:
        for call in calls:
            call(*arguments)

    return call_all
