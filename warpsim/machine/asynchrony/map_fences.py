"""The port of fences through the tensormap proxy: maps are coherent at once here, and whoever follows them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


class TensorMapFences:
    """The port of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def release(self) -> None:
        """The threads of the step make their changes of maps visible."""
        told = self.machine.window.map_changed
        if told is not None:
            told(self.machine, self.machine.memory.group, self.machine.transfers.lanes())

    def acquire(self, map: Any) -> None:
        """The threads of the step are to see the maps at these addresses."""
        told = self.machine.window.map_acquired
        if told is not None:
            bulk = self.machine.ports["bulk"]
            lanes = bulk.lanes()
            told(self.machine, self.machine.memory.group, bulk.address(map, lanes), lanes.columns)
