"""The port of tensormap proxy fences. Maps are always coherent here; fences are only reported to the hooks."""

from __future__ import annotations

from warpsim.machine.address import Address
from warpsim.machine.asynchrony.bulk_reach import BulkReach


class TensorMapFences(BulkReach):
    """The port of a group."""

    def release(self) -> None:
        """Release the threads' changes of maps."""
        told = self.machine.hooks.map_changed
        if told is not None:
            told(self.machine, self.group, self.group.lanes(self.active))

    def acquire(self, map: Address) -> None:
        """Acquire the maps at these addresses."""
        told = self.machine.hooks.map_acquired
        if told is not None:
            lanes = self.lanes()
            told(self.machine, self.group, self.address(map, lanes), lanes.columns)
