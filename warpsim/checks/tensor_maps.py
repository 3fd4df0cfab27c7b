"""tensor-map: boxes of a tensor that cannot be copied, because of their map, their coordinates or their place in shared
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.window import BoxProblem, Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.values import Array

RULE = "tensor-map"


class TensorMaps(Watcher):
    """Reports the copies that the machine leaves out."""

    def boxes_refused(self, machine: Machine, group: Group, problem: BoxProblem, active: Array | None) -> None:
        """Report the copy."""
        where = {} if problem.address is None else {"address": problem.address}
        machine.fault(RULE, problem.message, group, active, advice=problem.advice, **where)
