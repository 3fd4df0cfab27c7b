"""Defaults of launches, as a test session sets them, and listeners that are told of each launch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from warpsim.errors import Finding
from warpsim.host.forwarding import FILE, forward, pass_on, tell_uncaught

if TYPE_CHECKING:
    from warpsim.host.device import Device
    from warpsim.machine.state.launch import LaunchState

Listener = Callable[["LaunchState"], object]
Hearer = Callable[[Sequence[Finding]], object]


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
hearers: list[Hearer] = []
"""Called with errors that a debug session ran past: it collected them, and no stop of it told of them."""
if FILE in os.environ:
    tell_uncaught(listeners)


def judge() -> None:
    """Pass nothing on from this process: it tells by itself what was found, as a command or a test session does."""
    if forward in listeners:
        listeners.remove(forward)


def run_past(found: Sequence[Finding]) -> None:
    """Tell of errors that a debug session ran past."""
    for told in hearers:
        told(found)
    if forward in listeners:
        pass_on(found)


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
def listening(listener: Listener, hearer: Hearer | None = None) -> Iterator[None]:
    """Tell ``listener`` of launches that end inside the context, and ``hearer`` of errors that debug sessions run past."""
    heard = [] if hearer is None else [hearer]
    listeners.append(listener)
    hearers.extend(heard)
    try:
        yield
    finally:
        listeners.remove(listener)
        for each in heard:
            hearers.remove(each)
