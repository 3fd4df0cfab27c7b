"""Accesses at an address that is made from one variable and reach another one: legal, and hardly ever meant.

What an address is made from is known before anything runs (`warpsim.analysis.made_from`), so the machine compares the addresses
of an access with the extent of one variable instead of that of all memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import INDEX, Extent
from warpsim.machine.state.global_memory import PARAM_ADDRESS
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher
from warpsim.program.mangling import source_name

RULE = "other-variable"


class OtherVariables(Watcher):
    """Names both variables, and the distance."""

    compiled = frozenset({"variable_left"})  # machine code leaves such an access to the interpreter

    def variable_left(
        self, machine: Machine, group: Group, within: Extent, place: Array, nbytes: int, left: Array
    ) -> None:
        """Report the lanes that reach another variable."""
        for name, low, high in _variables(machine, group, within.kind):
            lanes = left & (place + nbytes > low) & (place < high) & (name != within.name)
            if lanes.any():
                first = int(place[lanes][0])
                below = within.low - first
                past = first + nbytes - within.high
                where = f"{below} bytes before it" if below > 0 else f"{past} bytes past its end"
                message = f"address made from `{within.name}`, {where}, in `{name}`"
                machine.fault(
                    RULE,
                    message,
                    group,
                    lanes,
                    severity="warning",
                    advice=INDEX,
                    address=first,
                    made_from=within.name,
                    repeats=True,
                )


def _variables(machine: Machine, group: Group, kind: str) -> Iterator[tuple[str, int, int]]:
    """The variables in a kind of memory: name, and from where to where."""
    plan, launch = group.plan, machine.launch
    if kind == "shared":
        for name, start, size in plan.kernel.shared.variables:
            yield name, start, start + size if size else launch.shared_size
    elif kind == "local":
        for variable in plan.function.variables:
            if variable.in_frame:
                start = group.local_base + plan.offset(variable)
                yield source_name(variable.name), start, start + variable.size
    else:
        for param in plan.kernel.entry.params:
            yield param.name, PARAM_ADDRESS + param.offset, PARAM_ADDRESS + param.offset + param.size
        for allocation in launch.memory.allocations:
            if allocation.start != PARAM_ADDRESS:
                yield source_name(allocation.name), allocation.start, allocation.end
