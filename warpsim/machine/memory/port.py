"""What the parts of the memory port share: the accessing threads, and the memories of their batch."""

from __future__ import annotations

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import INDEX, Extent
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array, Place, spread


class Port:
    """Memory as the threads of a group see it in one step: those that are ``active`` (None: all). ``unused``: an
    atomic's old value is never read. ``within`` is the variable that the addresses of matrix rows are made from, if known."""

    __slots__ = ("active", "globals", "group", "hooks", "local", "machine", "shared", "unused", "within")

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        self.machine = machine
        self.group = group
        self.active = active
        self.unused = unused
        self.within: Extent | None = None
        self.globals = machine.launch.memory
        self.shared = machine.batch.shared
        self.local = machine.batch.local
        self.hooks = machine.hooks


def leave(port: Port, within: Extent, place: Place, nbytes: int, active: Array | None) -> None:
    """Notify of ``active`` lanes that leave the variable that their addresses, ``place``, are made from."""
    notify = port.hooks.variable_left
    if notify is None:
        return
    shape = port.group.selection.shape
    place = spread(np.asarray(place), shape)
    left = (place < within.low) | (place + nbytes > within.high)
    if active is not None:
        left = left & spread(active, shape)
    if left.any():
        notify(port.machine, port.group, within, place, nbytes, left)


def shared_advice(launch: LaunchState) -> str:
    """Advice for an address outside the shared memory of a CTA."""
    if not launch.plan.shared.open:
        return INDEX
    given = launch.settings.dynamic_shared
    if not given:
        return "pass shared_mem=: the kernel uses dynamic shared memory, and this launch gives it none"
    return f"pass more than shared_mem={given}, or check the index"
