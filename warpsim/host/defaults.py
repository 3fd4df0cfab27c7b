"""Defaults of launches, as a test session sets them, and listeners that are told of each launch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from warpsim.host.forwarding import FILE, forward, tell_uncaught

if TYPE_CHECKING:
    from warpsim.host.device import Device
    from warpsim.machine.state.launch import LaunchState

Listener = Callable[["LaunchState"], object]


@attrs.define
class Defaults:
    """Defaults for ``device=``, ``checks=``, ``async_effects=``, ``schedule=`` and ``max_seconds=``; None leaves the
    usual default.
    """

    device: Device | None = None
    checks: Any = None
    async_effects: str | None = None
    schedule: int | None = None
    max_seconds: float | None = None
    timing: Any = None
    """Measures the time of launches (`warpsim.observe.timing.StopWatch`)."""


current = Defaults()
listeners: list[Listener] = [forward] if FILE in os.environ else []
"""Called with the state of every launch of this process when it has ended."""
if FILE in os.environ:
    tell_uncaught(listeners)


@contextlib.contextmanager
def defaults(**given: Any) -> Iterator[Defaults]:
    """Apply defaults inside the context, in all threads; those not given are unchanged."""
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
    """Tell ``listener`` of launches that end inside the context."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)
