"""The fragment-mismatch rule at run time: reports what the static flow of fragments shows when an instruction executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.analysis.wmma_fragments import ADVICE, RULE, Mismatch, mismatches
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.collectives import Members
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.machine.values import Array


class Fragments(Watcher):
    """Reports warps that execute an instruction with a wrong fragment."""

    compiled = frozenset({"collective_reached"})  # matrix instructions are not compiled into units

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Look the instruction up among those with wrong fragments."""
        wrong = _mismatches_of(group.plan)
        if not wrong:
            return
        found = wrong.get(group.plan.flow[group.block].first + group.at)
        if found is not None:
            machine.fault(RULE, found.message, group, register=found.register, other=found.found.maker, advice=ADVICE)


def _mismatches_of(plan: FunctionPlan) -> dict[int, Mismatch]:
    """The wrong uses of a function, by the index of the instruction in its code; found out once."""
    found: dict[int, Mismatch] | None = plan.notes.get(RULE)
    if found is None:
        found = plan.notes[RULE] = mismatches(plan.function, plan.flow)
    return found
