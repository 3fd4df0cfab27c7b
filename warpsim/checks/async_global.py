"""Premature accesses to global memory that bulk stores in flight have not written yet.

``cp.async.bulk.wait_group.read`` waits until a copy has read its source; its writes are visible after the full wait, or
at the end of the kernel. A copy is compared only with accesses to its own tensor (or run of bytes), through stamps on
granules.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.stamps import Claims, Met
from warpsim.machine.state.footprints import GRANULE, Footprint, GlobalTarget
from warpsim.machine.values import Affine, Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer

EARLY = "async-read-early"
ADVICE = "use cp.async.bulk.wait_group without .read: .read waits only until the sources have been read"


class GlobalStores:
    """The bulk stores of a batch in flight, by the memory that they may write."""

    def __init__(self) -> None:
        self.stores: dict[int, Transfer] = {}
        self._ranges: dict[tuple[int, int], Claims | None] = {}

    def enter(self, copy: Transfer) -> None:
        """Add a copy that writes global memory."""
        target = copy.target
        if target is None:
            return
        self.stores[copy.serial] = copy
        claims = self._ranges.setdefault((target.low, target.high), None)
        if claims is not None:
            self._put(claims, copy.serial, target)

    def settle(self) -> None:
        """Drop copies that have written everything."""
        self.stores = {number: copy for number, copy in self.stores.items() if copy.open.any()}
        if not self.stores:
            self._ranges = {}

    def _put(self, claims: Claims, serial: int, target: GlobalTarget) -> None:
        address, _, size = target.runs()
        footprint = Footprint(np.zeros(len(address), np.int64), address - target.low, size)
        claims.put(footprint, serial, next(iter(self.stores)), partial(self._holders, low=target.low))

    def _holders(self, met: Met, low: int) -> Iterator[tuple[Transfer, Array]]:
        """The stores that still write granules, and the accesses (flat indices) that touch them."""
        index, address, _, numbers = met
        for number in np.unique(numbers).tolist():
            copy = self.stores.get(number)
            if copy is not None and copy.target is not None:
                which = numbers == number
                held = copy.target.holders(address[which] + low, copy.open)
                if held.any():
                    yield copy, index[which][held]

    def touch(
        self,
        machine: Machine,
        group: Group,
        access: str,
        base: Affine | Array,
        nbytes: int,
        active: Array | None,
    ) -> None:
        """Check accesses of the step's lanes (``read``, ``write`` or ``atomic``) at ``base``."""
        low, high = base.limits() if isinstance(base, Affine) else (int(base.min()), int(base.max()))
        near = self._near(low, high + nbytes)
        if near:
            place = as_array(base).view(np.int64)
            place = np.broadcast_to(place, group.selection.shape)
            for start, end, claims in near:
                self._meet(machine, group, access, claims, start, end, place, nbytes, active)

    def read_by_copies(self, machine: Machine, group: Group, positions: Array, address: Array, nbytes: int) -> None:
        """Check runs of bytes that copies of the step read."""
        for start, end, claims in self._near(int(address.min()), int(address.max()) + nbytes):
            place = (address.reshape(-1, 1) + np.arange(0, nbytes, GRANULE)).reshape(-1)
            self._meet(machine, group, "read", claims, start, end, place, min(nbytes, GRANULE), None, positions)

    def _near(self, low: int, high: int) -> list[tuple[int, int, Claims]]:
        """The memory that stores may write and that overlaps ``[low, high)``."""
        found = []
        for (start, end), claims in list(self._ranges.items()):
            if low < end and start < high:
                if claims is None:
                    claims = self._ranges[start, end] = Claims(end - start, 1)
                    for serial, copy in self.stores.items():
                        if copy.target is not None and (copy.target.low, copy.target.high) == (start, end):
                            self._put(claims, serial, copy.target)
                found.append((start, end, claims))
        return found

    def _meet(
        self,
        machine: Machine,
        group: Group,
        access: str,
        claims: Claims,
        start: int,
        end: int,
        place: Array,
        nbytes: int,
        active: Array | None,
        by: Array | None = None,
    ) -> None:
        inside = (place + nbytes > start) & (place < end)
        inside = inside if active is None else inside & active
        near = np.clip(place, start, end - 1) - start
        for met in claims.met(near, nbytes, np.zeros(1, np.int64), inside, next(iter(self.stores))):
            for copy, index in self._holders(met, start):
                if access == "atomic" and copy.reduces:
                    continue  # each reduction is atomic
                lanes = np.zeros(place.shape, np.bool_)
                lanes.reshape(-1)[index] = True
                first = int(place[lanes][0])
                machine.fault(
                    EARLY,
                    f"global address 0x{first:x} is {'read' if access == 'read' else 'written'} while an unfinished copy"
                    " writes it",
                    group,
                    lanes if by is None else np.isin(group.selection.positions, by),
                    address=first,
                    advice=ADVICE,
                    other=copy.place,
                )
