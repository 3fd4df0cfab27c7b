"""What the parts of the memory port share: the accessing threads, and the memories of their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.state.group import Group
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


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
