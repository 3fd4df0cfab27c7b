"""Tensor maps that a kernel changes: the tensormap proxy sees them behind a release and an acquire (part of proxy-fence).

Who changes a map releases it with ``fence.proxy.tensormap::generic.release`` (``tensormap.cp_fenceproxy`` does so itself);
before a CTA uses it one of its threads acquires it by address. Maps among the parameters need neither.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.machine.hazards.cells import SHIFT, THREAD
from warpsim.machine.hazards.proxies import RULE, Proxies
from warpsim.machine.reporting import finding_at
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch

SIZE = 128
ADVICE = (
    "fence.proxy.tensormap::generic.release of the thread that changed the map, and of a thread of the CTA that uses it"
    " fence.proxy.tensormap::generic.acquire with its address (membar-fence)"
)


class MapFences:
    """The port of a batch: when each thread released last, and when each CTA acquired which map."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.released = np.zeros(batch.shape.n, np.int64)
        self.acquired: dict[int, Array] = {}

    @property
    def _proxies(self) -> Proxies | None:
        return self.batch.memory.proxies

    def release(self) -> None:
        """The threads of the step make their changes of maps visible."""
        if self._proxies is not None:
            self.released[self.batch.transfers.lanes()] = self._proxies.tick(None)

    def acquire(self, map: Any) -> None:
        """The threads of the step are to see the maps at these addresses."""
        if self._proxies is None:
            return
        bulk = self.batch.ports["bulk"]
        lanes = bulk.lanes()
        now = self._proxies.tick(None)
        for address, column in zip(bulk.address(map, lanes).tolist(), lanes.columns.tolist(), strict=True):
            self.acquired.setdefault(address, np.zeros(self.batch.shape.n_ctas, np.int64))[column] = now

    def check(self, address: int, columns: Array) -> None:
        """CTAs use the map at ``address``: report a change of it that no such pair of fences made visible."""
        proxies = self._proxies
        if proxies is None or not proxies.shared_state.cells:
            return
        allocation = self.batch.memory.globals.find(address, address + SIZE)
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
        fences: MapFences = owner.batch.ports["maps"]
        released = "cp_fenceproxy" in event.text or int(fences.released[thread - owner.base]) > time
        acquired = self.acquired.get(address)
        if released and acquired is not None and (acquired[columns] > time).all():
            return
        lacking = "acquire of its own" if released else "release of the thread that changed it"
        position = (thread - owner.base) // owner.batch.shape.n_ctas
        place = finding_at(proxies.shared_state.launch, event)
        self.batch.fault(
            RULE,
            f"the tensor map at byte {start} of {allocation.name} was changed in line {event.span.line}, and the CTA uses it"
            f" without a fence.proxy.tensormap::generic.{lacking.split()[0]} {lacking.split(' ', 1)[1]}",
            self.batch.memory.group,
            self.batch.memory.active,
            address=address,
            other=attrs.evolve(place, message="changed here", warp=position >> 5, lanes=(position & 31,)),
            advice=ADVICE,
        )
