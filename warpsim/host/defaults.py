"""What holds for launches that say nothing about it, and who is told of each: a test session's device, checks and limits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from warpsim.host.device import Device
    from warpsim.machine.state.launch import LaunchState

Listener = Callable[["LaunchState"], object]


@attrs.define
class Defaults:
    """Of launches without ``device=``, ``checks=``, ``async_effects=``, ``schedule=``, ``max_seconds=``; None: the usual."""

    device: Device | None = None
    checks: Any = None
    async_effects: str | None = None
    schedule: int | None = None
    max_seconds: float | None = None
    timing: Any = None
    """What takes the time of launches (`warpsim.observe.timing.StopWatch`)."""


current = Defaults()
listeners: list[Listener] = []
"""Each is given the state of every launch of this process, once that has ended."""


@contextlib.contextmanager
def defaults(**given: Any) -> Iterator[Defaults]:
    """These defaults hold inside (in all threads); those that are not given stay as they are."""
    before = attrs.asdict(current, recurse=False)
    for name, value in given.items():
        setattr(current, name, value)
    try:
        yield current
    finally:
        for name, value in before.items():
            setattr(current, name, value)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` of the launches that end inside."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)
