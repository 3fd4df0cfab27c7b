"""A guard over an address range: the launch stops when any thread writes there."""

import numpy as np

import warpsim


class Guard(warpsim.Watcher):
    """Reports stores and atomics to ``nbytes`` of global memory from ``address`` on."""

    def __init__(self, address, nbytes):
        self.low, self.high = address, address + nbytes

    def memory_accessed(self, machine, group, access):
        """Compare each lane's bytes with the range."""
        if not access.writes or access.space != "global":
            return
        place = np.broadcast_to(access.place, group.selection.shape)
        hit = (place < self.high) & (place + access.nbytes > self.low)
        if access.active is not None:
            hit = hit & access.active
        if hit.any():
            first = int(place[hit][0])
            self.report(machine, group, "guard", f"address 0x{first:x} is guarded and written", hit, address=first)
