"""Accesses to global memory that come too early: what bulk stores in flight have not written yet.

``cp.async.bulk.wait_group.read`` waits until a copy has read its source; what it writes is there behind the full wait, or at the
end of the kernel. A copy is compared with accesses to its own tensor (or run of bytes) alone, and where there are such
accesses by stamps of granules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.asynchrony.footprints import Footprint
from warpsim.machine.asynchrony.stamps import LARGEST, Stamps
from warpsim.machine.values import Affine, Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.transfers import Transfer
    from warpsim.machine.machine import Machine

EARLY = "async-read-early"
ADVICE = (
    "cp.async.bulk.wait_group without .read, which waits for what the copies write; .read waits for their sources alone"
)


@attrs.define(eq=False)
class GlobalTarget:
    """What a store writes, within ``[low, high)``: ``spread`` gives the addresses of elements, the receiver of each, and the
    size of an element. ``reduces`` where it combines them with what is there."""

    low: int
    high: int
    spread: Callable[[], tuple[Array, Array, int]]
    reduces: bool = False
    _runs: tuple[Array, Array, int] | None = None

    def runs(self) -> tuple[Array, Array, int]:
        """Addresses in order, receivers and size of runs; of 16 bytes where whole ones are written."""
        if self._runs is None:
            address, receiver, size = self.spread()
            whole = np.unique(receiver << 44 | address // LARGEST)
            if len(whole) * LARGEST == len(address) * size:
                address, receiver, size = (whole & (1 << 44) - 1) * LARGEST, whole >> 44, LARGEST
            order = np.argsort(address, kind="stable")
            self._runs = address[order], receiver[order], size
        return self._runs

    def holders(self, address: Array, open: Array) -> Array:
        """Which of these bytes a receiver that is open writes."""
        starts, receivers, size = self.runs()
        at = np.searchsorted(starts, address, "right") - 1
        inside: Array = (at >= 0) & (address < starts[at] + size)
        return inside & open[receivers[at]]


class GlobalFlight:
    """The bulk stores of a batch in flight, by the memory that they may write."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
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

    def leave(self, copy: Transfer) -> None:
        """It has written all."""
        if self.stores.pop(copy.serial, None) is not None and not self.stores:
            self._ranges = {}

    def _put(self, stamps: Stamps, serial: int, target: GlobalTarget) -> None:
        address, _, size = target.runs()
        stamps.put(Footprint(np.zeros(len(address), np.int64), address - target.low, size), serial)

    def touch(
        self, access: str, base: Affine | Array, offset: int, nbytes: int, active: Array | None, atomic: bool = False
    ) -> None:
        """Accesses of the lanes of the step (``read`` or ``write``) at ``base + offset``."""
        low, high = base.limits() if isinstance(base, Affine) else (int(base.min()), int(base.max()))
        near = self._near(low + offset, high + offset + nbytes)
        if near:
            place = as_array(base).view(np.int64) + offset
            place = np.broadcast_to(place, self.machine.memory.group.selection.shape)
            for start, end, stamps in near:
                self._meet(access, stamps, start, end, place, nbytes, active, atomic)

    def read_by_copies(self, address: Array, nbytes: int) -> None:
        """Copies of the step read runs of bytes."""
        for start, end, stamps in self._near(int(address.min()), int(address.max()) + nbytes):
            place = (address.reshape(-1, 1) + np.arange(0, nbytes, LARGEST)).reshape(-1)
            self._meet("read", stamps, start, end, place, min(nbytes, LARGEST), None, False)

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
                memory = self.machine.memory
                self.machine.fault(
                    EARLY,
                    f"global address 0x{first:x} is {'written' if access == 'write' else 'read'} while an unfinished copy"
                    " writes it",
                    memory.group,
                    lanes if lanes.shape == memory.group.selection.shape else memory.active,
                    address=first,
                    advice=ADVICE,
                    other=copy.place,
                )
