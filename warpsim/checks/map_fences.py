"""Tensor maps changed by a kernel: the tensormap proxy sees them after a release and an acquire (part of proxy-fence).

The thread that changes a map releases it with ``fence.proxy.tensormap::generic.release`` (``tensormap.cp_fenceproxy``
includes it). Before a CTA uses the map, one of its threads acquires it by address. Maps among the parameters need
neither.
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
    from warpsim.machine.state.group import Group

SIZE = 128
ADVICE = (
    "fence.proxy.tensormap::generic.release of the thread that changed the map, and of a thread of the CTA that uses it"
    " fence.proxy.tensormap::generic.acquire with its address (membar-fence)"
)


def release_maps(proxies: Proxies, positions: Array) -> None:
    """Release the threads' changes of maps."""
    proxies.maps_released[positions] = proxies.tick(None)


def acquire_maps(proxies: Proxies, addresses: Array, columns: Array) -> None:
    """Acquire the maps at these addresses for CTAs."""
    now = proxies.tick(None)
    for address, column in zip(addresses.tolist(), columns.tolist(), strict=True):
        proxies.maps_acquired.setdefault(address, np.zeros(proxies.n_ctas, np.int64))[column] = now


def check_map(
    proxies: Proxies, machine: Machine, group: Group, address: int, columns: Array, active: Array | None
) -> None:
    """Report a change of the map at ``address`` that no such pair of fences made visible to the CTAs that use it."""
    shared = proxies.shared_state
    allocation = machine.launch.memory.find(address, address + SIZE) if shared.cells else None
    cells = None if allocation is None else shared.cells.get(allocation.number)
    if allocation is None or cells is None or "write" not in cells.kinds:
        return
    start = address - allocation.start
    seen = int(cells.kinds["write"][start // cells.granule : -(-(start + SIZE) // cells.granule)].max(initial=0))
    time, thread = seen >> SHIFT, seen & THREAD
    event = shared.events[time]
    if event is None:
        return
    owner = shared.batches[bisect.bisect(shared.bases, thread) - 1]
    released = "cp_fenceproxy" in event.text or int(owner.maps_released[thread - owner.base]) > time
    acquired = proxies.maps_acquired.get(address)
    if released and acquired is not None and (acquired[columns] > time).all():
        return
    lacking = "acquire of its own" if released else "release of the thread that changed it"
    position = (thread - owner.base) // owner.n_ctas
    place = finding_at(machine.launch, event)
    machine.fault(
        RULE,
        f"the tensor map at byte {start} of {allocation.name} was changed in line {event.span.line}, and the CTA uses it"
        f" without a fence.proxy.tensormap::generic.{lacking.split()[0]} {lacking.split(' ', 1)[1]}",
        group,
        active,
        address=address,
        other=attrs.evolve(place, message="changed here", warp=position >> 5, lanes=(position & 31,)),
        advice=ADVICE,
    )
