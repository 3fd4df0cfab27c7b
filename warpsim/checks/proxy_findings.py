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
    from warpsim.checks.cells import Cells
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

RULE = "proxy-fence"
ADVICE = "add fence.proxy.async after the generic accesses, before the barrier that the issuing thread waits at (async proxy)"


@attrs.frozen
class Earlier:
    """The access through the generic proxy, a ``write`` or a ``read``: its thread, and whether a barrier has ordered what
    its CTA does now after it.
    """

    kind: str
    instruction: Instruction
    warp: int
    lane: int
    met: bool

    def finding(self, machine: Machine, message: str) -> Finding:
        """The access as the other party of a finding."""
        place = finding_at(machine.launch, self.instruction)
        found: Finding = attrs.evolve(place, message=message, warp=self.warp, lanes=(self.lane,))
        return found


@attrs.frozen(eq=False)
class Uses:
    """Accesses of a step through the async proxy: of ``nbytes`` at each of ``at``, in ``columns`` of the ``cells`` of shared
    memory or of an ``allocation``, by ``users`` (the first of ``lanes`` threads each).
    """

    group: Group
    cells: Cells
    at: Array
    columns: Array
    nbytes: int
    users: Array
    lanes: int = 1
    allocation: Allocation | None = None
    write: bool = False

    @property
    def space(self) -> str:
        """Where they are."""
        return "shared" if self.allocation is None else "global"


def report_access(machine: Machine, uses: Uses, earlier: Earlier, at: int, starters: Array | None) -> None:
    """Report that the threads at ``starters`` (None: all) access what was read or written earlier."""
    group, allocation, kind, write = uses.group, uses.allocation, earlier.kind, uses.write
    event = earlier.instruction
    by_copy = event.traits.is_async(Family.CP_ASYNC)
    copied = by_copy and present(group).traits.is_async(Family.WGMMA)
    # compilers put data where an mbarrier or a tensor map was, after just a barrier
    reused = event.traits.tensor_map or event.traits.does(Mbarrier.INIT | Mbarrier.INVAL)
    # libraries hand over stages that they have read through just an mbarrier
    handed = kind == "read" and not earlier.met
    # cuda::memcpy_async loads over what was read, and Triton's sanitizer fills buffers before copies load them: after a
    # barrier the access is done, on GPUs so far
    over = write and earlier.met and allocation is None
    severity = "note" if copied or reused or handed else "warning" if over else "error"
    was = "written" if kind == "write" else "read"
    how = "by cp.async" if by_copy else "through the generic proxy"
    name = f"shared address 0x{at:x}" if allocation is None else f"byte {at} of {allocation.name}"
    machine.fault(
        RULE,
        f"{name} is {'written' if write else 'read'} through the async proxy; warp {earlier.warp}, lane"
        f" {earlier.lane} has {was} it {how} in line {event.span.line}, with no proxy fence in between",
        group,
        None if starters is None else np.isin(group.selection.positions, starters),
        severity=severity,
        other=earlier.finding(machine, f"{was} here"),
        address=at,
        advice=ADVICE,
    )
