"""Steps that load what is undefined: bytes never written, and bytes that copies in flight still write."""

from __future__ import annotations

from typing import Any

from warpsim.checks.undefined_bits import TransferFunction, transfer_of
from warpsim.checks.undefined_products import Unfinished
from warpsim.machine.binding.warp_steps import spread
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.records import frozen


@frozen(eq=False)
class Met:
    """A step that read bytes never written, with its operands at that time; ``bits`` are those of its results, if it has
    written those bytes since."""

    group: Group
    flow: TransferFunction
    active: Array | None
    arguments: list[Any]
    bits: Any = None


EARLY: Note[tuple[Met, list[Unfinished]]] = Note("early")
"""What the present step loads while copies still write it."""


def read_early(machine: Machine, group: Group, part: Unfinished) -> bool:
    """Make undefined what the present step loads while a copy still writes it; False if that cannot be followed."""
    notes = machine.batch.notes
    if EARLY not in notes:
        met = meeting(machine, group)
        if met is None:
            return False
        notes[EARLY] = met, []
        machine.attend()
    notes[EARLY][1].append(part)
    return True


def meeting(machine: Machine, group: Group) -> Met | None:
    """The present step with its operands; None if it moves nothing from memory to registers."""
    flow = transfer_of(group.plan, present(group))
    if not flow.moves_memory:
        return None
    arguments = [get(machine, group) for get in flow.getters]
    if flow.warps:
        arguments = [spread(group.warps, a, wide=flow.wide) for a in arguments]
    active = None if flow.guard is None else flow.guard(machine, group)
    assert active is not False, "a step that no thread executes accesses no memory"
    return Met(group, flow, active, arguments)
