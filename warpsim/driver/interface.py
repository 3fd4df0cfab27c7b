"""The part of the driver that modules, streams and work use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from warpsim.driver.memory import Memory
from warpsim.driver.reports import Report
from warpsim.driver.results import Result
from warpsim.host.device import Device


class DriverInterface(Protocol):
    """A driver."""

    devices: list[Device]
    memory: Memory
    report: Report
    error: Result
    """The sticky error of a kernel."""
    captures: int
    """Number of captures so far."""
    graph_memory: Any
    """The `GraphMemory` of all devices."""
    options: Mapping[str, Any]
    """Options of every launch."""

    def fail(self, error: Result) -> None:
        """Set the sticky error of a kernel."""

    def file_of(self, text: str) -> str:
        """The file name that findings use for a module's text."""
