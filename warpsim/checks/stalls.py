"""Who is to blame for a stall: the rule broken by threads that do not arrive, according to what the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.reporting import party, present
from warpsim.machine.stalled import BARRIER, LANES, PHASE, REGISTERS, WARP
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.stalled import Stall, StallValues
    from warpsim.machine.state.group import Group

DIVERGENCE = "aligned-divergence"
BROKEN = {
    WARP: DIVERGENCE,
    LANES: "membermask",
    BARRIER: "barrier-divergence",
    REGISTERS: "setmaxnreg",
    PHASE: "mbarrier",
}
"""The rule broken by each kind of waiting in vain; anything else is a deadlock."""


class Stalls(Watcher):
    """Reports a stall under the rule that it breaks, and warps that arrive at a barrier in parts."""

    def warp_split(self, machine: Machine, group: Group, other: Group | None) -> None:
        """Report lanes that arrive at an aligned barrier without the rest of their warps."""
        where = "lanes of the warp wait here"
        machine.fault(
            DIVERGENCE,
            f"{present(group).text} waits for all lanes of the warp, but some are elsewhere",
            group,
            other=None if other is None else party(machine.launch, machine.batch, other, where),
            advice="move it to where the lanes have reconverged, or use barrier without .aligned",
        )

    def stalled(self, machine: Machine, first: Stall, message: str, values: StallValues) -> None:
        """Report the stall under a rule, if one applies."""
        rule = BROKEN.get(first.wait)
        if rule in machine.launch.settings.checks:
            machine.fault(rule, message, first.group, **values)
