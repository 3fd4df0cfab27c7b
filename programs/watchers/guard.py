"""A guard over an address range: the launch stops when any thread writes there."""

import numpy as np

import warpsim
from warpsim.machine.window import READ


class Guard(warpsim.Watcher):
    """Reports stores and atomics to ``nbytes`` of global memory from ``address`` on."""

    def __init__(self, address, nbytes):
        self.low, self.high = address, address + nbytes

    def memory_accessed(self, machine, group, access, space, place, nbytes, where, active, differs):
        """Compare each lane's bytes with the range."""
        if access == READ or space != "global":
            return
        place = np.broadcast_to(np.asarray(place), group.selection.shape)
        hit = (place < self.high) & (place + nbytes > self.low)
        if active is not None:
            hit = hit & active
        if hit.any():
            first = int(place[hit][0])
            self.report(machine, group, "guard", f"address 0x{first:x} is guarded and written", hit, address=first)
