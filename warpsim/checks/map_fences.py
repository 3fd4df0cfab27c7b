"""Tensor maps changed by a kernel: the tensormap proxy sees them after a release and an acquire (part of proxy-fence).

The thread that changes a map releases it with ``fence.proxy.tensormap::generic.release`` (``tensormap.cp_fenceproxy``
includes it). Before a CTA uses the map, one of its threads acquires it by address. Maps among the parameters need
neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.cells import SHIFT, THREAD
from warpsim.checks.proxies import RULE, Proxies
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
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


def check_maps(
    proxies: Proxies, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None
) -> None:
    """Report changes of the maps at ``addresses`` that no such pair of fences made visible to the CTAs (at
    ``columns``, one for each address) that use them.
    """
    shared, memory = proxies.shared_state, machine.launch.memory
    if not shared.cells:
        return
    owners = memory.owners(addresses, SIZE)
    for owner in np.unique(owners[owners >= 0]).tolist():
        allocation = memory.allocation(owner)
        cells = shared.cells.get(allocation.number)
        if cells is not None and "write" in cells.kinds:
            mine = np.flatnonzero(owners == owner)
            first = (addresses[mine] - allocation.start) // cells.granule
            changes = cells.kinds["write"][first[:, None] + np.arange(SIZE // cells.granule)].max(axis=1)
            _check_changes(proxies, machine, group, allocation, (addresses[mine], columns[mine], changes), active)


def _check_changes(
    proxies: Proxies,
    machine: Machine,
    group: Group,
    allocation: Allocation,
    uses: tuple[Array, Array, Array],
    active: Array | None,
) -> None:
    """Check uses of maps: their addresses, columns, and last changes. What a CTA was once allowed to use, it may use
    again until it changes.
    """
    new: dict[tuple[int, int], list[int]] = {}
    for address, column, change in zip(*[use.tolist() for use in uses], strict=True):
        if proxies.maps_visible.get((address, column)) != change:
            new.setdefault((address, change), []).append(column)
    for (address, change), columns in new.items():
        if _is_visible(proxies, address, change, columns):
            proxies.maps_visible.update({(address, column): change for column in columns})
        else:
            _report(proxies, machine, group, allocation, address, change, active)


def _is_visible(proxies: Proxies, address: int, change: int, columns: list[int]) -> bool:
    """Whether a change of a map was released, and acquired by each of the CTAs."""
    acquired = proxies.maps_acquired.get(address)
    if proxies.shared_state.events[change >> SHIFT] is None:
        return True
    return _is_released(proxies, change) and acquired is not None and bool((acquired[columns] > change >> SHIFT).all())


def _is_released(proxies: Proxies, change: int) -> bool:
    """Whether the thread that changed a map has released it."""
    time, thread = change >> SHIFT, change & THREAD
    event, owner = proxies.shared_state.events[time], proxies.shared_state.owner(thread)
    assert event is not None
    return "cp_fenceproxy" in event.text or int(owner.maps_released[thread - owner.base]) > time


def _report(
    proxies: Proxies,
    machine: Machine,
    group: Group,
    allocation: Allocation,
    address: int,
    change: int,
    active: Array | None,
) -> None:
    earlier = proxies.shared_state.access("write", change >> SHIFT, change & THREAD)
    lacking = "acquire of its own" if _is_released(proxies, change) else "release of the thread that changed it"
    machine.fault(
        RULE,
        f"the tensor map at byte {address - allocation.start} of {allocation.name} was changed in line"
        f" {earlier.instruction.span.line}, and the CTA uses it without a fence.proxy.tensormap::generic.{lacking}",
        group,
        active,
        address=address,
        other=earlier.finding(machine, "changed here"),
        advice=ADVICE,
    )
