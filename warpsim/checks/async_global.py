"""Accesses to global memory that come too early: what bulk stores in flight have not written yet.

``cp.async.bulk.wait_group.read`` waits until a copy has read its source; what it writes is there behind the full wait, or at the
end of the kernel. A copy is compared with accesses to its own tensor (or run of bytes) alone, and where there are such
accesses by stamps of granules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.stamps import Stamps
from warpsim.machine.asynchrony.footprints import GRANULE, Footprint, GlobalTarget
from warpsim.machine.values import Affine, Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.transfers import Transfer
    from warpsim.machine.machine import Machine

EARLY = "async-read-early"
ADVICE = (
    "cp.async.bulk.wait_group without .read, which waits for what the copies write; .read waits for their sources alone"
)


class GlobalStores:
    """The bulk stores of a batch in flight, by the memory that they may write."""

    def __init__(self) -> None:
        self.stores: dict[int, Transfer] = {}
        self._ranges: dict[tuple[int, int], Stamps | None] = {}

    def enter(self, copy: Transfer) -> None:
        """A copy is to write global memory."""
        target = copy.target
        if target is None:
            return
        self.stores[copy.serial] = copy
        stamps = self._ranges.setdefault((target.low, target.high), None)
        if stamps is not None:
            self._put(stamps, copy.serial, target)

    def settle(self) -> None:
        """Forget those that have written all."""
        self.stores = {number: copy for number, copy in self.stores.items() if copy.open.any()}
        if not self.stores:
            self._ranges = {}

    def _put(self, stamps: Stamps, serial: int, target: GlobalTarget) -> None:
        address, _, size = target.runs()
        stamps.put(Footprint(np.zeros(len(address), np.int64), address - target.low, size), serial)

    def touch(
        self,
        machine: Machine,
        access: str,
        base: Affine | Array,
        nbytes: int,
        active: Array | None,
        *,
        atomic: bool,
    ) -> None:
        """Accesses of the lanes of the step (``read`` or ``write``) at ``base``."""
        low, high = base.limits() if isinstance(base, Affine) else (int(base.min()), int(base.max()))
        near = self._near(low, high + nbytes)
        if near:
            place = as_array(base).view(np.int64)
            place = np.broadcast_to(place, machine.memory.group.selection.shape)
            for start, end, stamps in near:
                self._meet(machine, access, stamps, start, end, place, nbytes, active, atomic)

    def read_by_copies(self, machine: Machine, address: Array, nbytes: int) -> None:
        """Copies of the step read runs of bytes."""
        for start, end, stamps in self._near(int(address.min()), int(address.max()) + nbytes):
            place = (address.reshape(-1, 1) + np.arange(0, nbytes, GRANULE)).reshape(-1)
            self._meet(machine, "read", stamps, start, end, place, min(nbytes, GRANULE), None, False)

    def _near(self, low: int, high: int) -> list[tuple[int, int, Stamps]]:
        """The memory that stores may write and that has bytes of ``[low, high)``."""
        found = []
        for (start, end), stamps in list(self._ranges.items()):
            if low < end and start < high:
                if stamps is None:
                    stamps = self._ranges[start, end] = Stamps(end - start, 1)
                    for serial, copy in self.stores.items():
                        if copy.target is not None and (copy.target.low, copy.target.high) == (start, end):
                            self._put(stamps, serial, copy.target)
                found.append((start, end, stamps))
        return found

    def _meet(
        self,
        machine: Machine,
        access: str,
        stamps: Stamps,
        start: int,
        end: int,
        place: Array,
        nbytes: int,
        active: Array | None,
        atomic: bool,
    ) -> None:
        inside = (place + nbytes > start) & (place < end)
        inside = inside if active is None else inside & active
        near = np.clip(place, start, end - 1) - start
        met = stamps.met(near, nbytes, np.zeros(1, np.int64), inside, next(iter(self.stores)))
        if met is None:
            return
        index, address, _, numbers = met
        for number in np.unique(numbers).tolist():
            copy = self.stores.get(number)
            if copy is None or copy.target is None or (atomic and copy.target.reduces):
                continue
            which = numbers == number
            held = copy.target.holders(address[which] + start, copy.open)
            if held.any():
                lanes = np.zeros(place.shape, np.bool_)
                lanes.reshape(-1)[index[which][held]] = True
                first = int(place[lanes][0])
                memory = machine.memory
                machine.fault(
                    EARLY,
                    f"global address 0x{first:x} is {'written' if access == 'write' else 'read'} while an unfinished copy"
                    " writes it",
                    memory.group,
                    lanes if lanes.shape == memory.group.selection.shape else memory.active,
                    address=first,
                    advice=ADVICE,
                    other=copy.place,
                )
