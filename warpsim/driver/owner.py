"""What modules, streams and pieces of work need of the driver that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from warpsim.driver.memory import Memory
from warpsim.driver.reports import Report
from warpsim.driver.results import Result
from warpsim.host.device import Device


class Owner(Protocol):
    """A driver, as its objects see it."""

    devices: list[Device]
    memory: Memory
    report: Report
    error: Result
    """What a kernel did wrong; it sticks."""
    captures: int
    """How many captures have begun."""
    options: Mapping[str, Any]
    """Arguments of every launch."""

    def file_of(self, text: str) -> str:
        """The file that findings name for a module's text."""
