"""What the parts of the memory port share: the accessing threads, and the memories of their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.memory.addresses import INDEX
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.launch import LaunchState


class Port:
    """Memory as the threads of a group see it in one step: those that are ``active`` (None: all). ``unused``: an
    atomic's old value is never read.
    """

    __slots__ = ("active", "globals", "group", "hooks", "local", "machine", "shared", "unused")

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        self.machine = machine
        self.group = group
        self.active = active
        self.unused = unused
        self.globals = machine.launch.memory
        self.shared = machine.batch.shared
        self.local = machine.batch.local
        self.hooks = machine.hooks


def shared_advice(launch: LaunchState) -> str:
    """Advice for an address outside the shared memory of a CTA."""
    if not launch.plan.shared.open:
        return INDEX
    given = launch.settings.dynamic_shared
    if not given:
        return "pass shared_mem=: the kernel uses dynamic shared memory, and this launch gives it none"
    return f"pass more than shared_mem={given}, or check the index"
