"""What Triton asks of PyTorch's interface of a device: that of the CPU, with events that a benchmark can time."""

from __future__ import annotations

import time
from typing import Any


class Event:
    """The time of this machine when it was recorded: launches are done when they return."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self._at = 0.0

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self._at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        return 1e3 * (end._at - self._at)

    def synchronize(self) -> None:
        """Do nothing: everything is done."""

    wait = synchronize


class Interface:
    """PyTorch's interface of the CPU, with `Event`."""

    Event = Event

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch.cpu, name)
