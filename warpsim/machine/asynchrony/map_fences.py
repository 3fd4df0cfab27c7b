"""The port of fences through the tensormap proxy: maps are coherent at once here, and whoever follows them is told."""

from __future__ import annotations

from typing import Any

from warpsim.machine.asynchrony.bulk_reach import BulkReach


class TensorMapFences(BulkReach):
    """The port of a group."""

    def release(self) -> None:
        """The threads of the step make their changes of maps visible."""
        told = self.machine.window.map_changed
        if told is not None:
            told(self.machine, self.group, self.group.lanes(self.active))

    def acquire(self, map: Any) -> None:
        """The threads of the step are to see the maps at these addresses."""
        told = self.machine.window.map_acquired
        if told is not None:
            lanes = self.lanes()
            told(self.machine, self.group, self.address(map, lanes), lanes.columns)
