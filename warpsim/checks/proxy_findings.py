"""Findings of the proxy-fence rule: what was accessed through both proxies, by whom, and how grave that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.errors import Finding
from warpsim.isa.traits import Family, Mbarrier
from warpsim.machine.reporting import finding_at, present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.checks.proxies import Proxies
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group

RULE = "proxy-fence"
ADVICE = "add fence.proxy.async after the generic accesses, before the barrier that the issuing thread waits at (async proxy)"


def report_access(
    proxies: Proxies,
    machine: Machine,
    group: Group,
    starters: Array | None,
    time: int,
    thread: int,
    at: int,
    kind: str,
    allocation: Allocation | None,
    *,
    write: bool,
) -> None:
    """Report that the threads at ``starters`` (None: all) access what ``thread`` has accessed at ``time``."""
    event = proxies.shared_state.events[time]
    assert event is not None
    by_copy = event.traits.is_async(Family.CP_ASYNC)
    copied = by_copy and present(group).traits.is_async(Family.WGMMA)
    # compilers put data where an mbarrier or a tensor map was, after just a barrier
    reused = event.traits.tensor_map or event.traits.does(Mbarrier.INIT | Mbarrier.INVAL)
    owner = proxies.shared_state.owner(thread)
    position = thread - owner.base
    met = bool(owner.cta_time[position] > time)
    # libraries hand over stages that they have read through just an mbarrier
    handed = kind == "read" and not met
    # Triton's sanitizer fills buffers before copies load them: after a barrier the write is done, on GPUs so far
    over = write and kind == "write" and met and allocation is None
    severity = "note" if copied or reused or handed else "warning" if over else "error"
    warp, lane = (
        position // owner.n_ctas >> 5,
        position // owner.n_ctas & 31,
    )
    was = "written" if kind == "write" else "read"
    how = "by cp.async" if by_copy else "through the generic proxy"
    name = f"shared address 0x{at:x}" if allocation is None else f"byte {at} of {allocation.name}"
    other: Finding = attrs.evolve(finding_at(machine.launch, event), message=f"{was} here", warp=warp, lanes=(lane,))
    machine.fault(
        RULE,
        f"{name} is {'written' if write else 'read'} through the async proxy; warp {warp}, lane {lane} has {was} it"
        f" {how} in line {event.span.line}, with no proxy fence in between",
        group,
        None if starters is None or kind == "read" else np.isin(group.selection.positions, starters),
        severity=severity,
        other=other,
        address=at,
        advice=ADVICE,
    )
