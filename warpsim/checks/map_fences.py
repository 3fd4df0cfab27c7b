"""Tensor maps that a kernel changes: the tensormap proxy sees them behind a release and an acquire (part of proxy-fence).

Who changes a map releases it with ``fence.proxy.tensormap::generic.release`` (``tensormap.cp_fenceproxy`` does so itself);
before a CTA uses it one of its threads acquires it by address. Maps among the parameters need neither.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.checks.cells import SHIFT, THREAD
from warpsim.checks.proxies import RULE, Proxies
from warpsim.machine.reporting import finding_at
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

SIZE = 128
ADVICE = (
    "fence.proxy.tensormap::generic.release of the thread that changed the map, and of a thread of the CTA that uses it"
    " fence.proxy.tensormap::generic.acquire with its address (membar-fence)"
)


class MapFences:
    """When each thread released last, and when each CTA acquired which map."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.released = np.zeros(machine.batch.shape.n, np.int64)
        self.acquired: dict[int, Array] = {}

    @property
    def _proxies(self) -> Proxies:
        found: Proxies = self.machine.batch.notes[RULE]
        return found

    def release(self, positions: Array) -> None:
        """Threads make their changes of maps visible."""
        self.released[positions] = self._proxies.tick(None)

    def acquire(self, addresses: Array, columns: Array) -> None:
        """Threads of CTAs are to see the maps at these addresses."""
        now = self._proxies.tick(None)
        for address, column in zip(addresses.tolist(), columns.tolist(), strict=True):
            self.acquired.setdefault(address, np.zeros(self.machine.batch.shape.n_ctas, np.int64))[column] = now

    def check(self, address: int, columns: Array) -> None:
        """CTAs use the map at ``address``: report a change of it that no such pair of fences made visible."""
        proxies = self._proxies
        if not proxies.shared_state.cells:
            return
        allocation = self.machine.memory.globals.find(address, address + SIZE)
        found = None if allocation is None else proxies.shared_state.cells.get(allocation.start)
        if allocation is None or found is None or found[0] is not allocation or "write" not in found[1].kinds:
            return
        cells, start = found[1], address - allocation.start
        seen = int(cells.kinds["write"][start // cells.granule : -(-(start + SIZE) // cells.granule)].max(initial=0))
        time, thread = seen >> SHIFT, seen & THREAD
        event = proxies.shared_state.events[time]
        if event is None:
            return
        owner = proxies.shared_state.batches[bisect.bisect(proxies.shared_state.bases, thread) - 1]
        fences: MapFences = owner.machine.batch.notes["maps"]
        released = "cp_fenceproxy" in event.text or int(fences.released[thread - owner.base]) > time
        acquired = self.acquired.get(address)
        if released and acquired is not None and (acquired[columns] > time).all():
            return
        lacking = "acquire of its own" if released else "release of the thread that changed it"
        position = (thread - owner.base) // owner.machine.batch.shape.n_ctas
        place = finding_at(proxies.shared_state.launch, event)
        self.machine.fault(
            RULE,
            f"the tensor map at byte {start} of {allocation.name} was changed in line {event.span.line}, and the CTA uses it"
            f" without a fence.proxy.tensormap::generic.{lacking.split()[0]} {lacking.split(' ', 1)[1]}",
            self.machine.memory.group,
            self.machine.memory.active,
            address=address,
            other=attrs.evolve(place, message="changed here", warp=position >> 5, lanes=(position & 31,)),
            advice=ADVICE,
        )
