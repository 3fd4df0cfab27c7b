"""The heap of the device, from which kernels take memory."""

from __future__ import annotations

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array

NAME = "device malloc"
SIZE = (7 << 20) + 1024
"""Capacity of the heap: the runtime reserves part of its 8 MiB (an H100 provides six blocks of 1 MiB, or one of 7 MiB)."""
HEADER = 256


def malloc(machine: Machine, group: Group, sizes: Array) -> Array:
    """Allocate; gives addresses, 0 if the heap is too full."""
    memory = machine.launch.memory
    sizes = np.broadcast_to(sizes, group.selection.shape)
    out = np.zeros(sizes.shape, np.uint64)
    left = SIZE - memory.total(NAME, HEADER)
    for at in np.ndindex(sizes.shape):
        out[at] = malloc_one(machine, group, int(sizes[at]), left)
        left -= int(sizes[at]) + HEADER if out[at] else 0
    return out


def malloc_one(machine: Machine, group: Group, size: int, left: int) -> int:
    """Allocate for one thread, with so much ``left`` on the heap."""
    if size + HEADER > left:
        return 0
    memory = machine.launch.memory
    address = memory.allocate(size, NAME)[0]
    if machine.hooks.memory_allocated is not None:
        machine.hooks.memory_allocated(machine, group, memory.at(address))
    return address


def free(machine: Machine, group: Group, addresses: Array) -> None:
    """Free memory from malloc; 0 is allowed."""
    for address in np.broadcast_to(addresses, group.selection.shape).reshape(-1).tolist():
        free_one(machine, group, address)


def free_one(machine: Machine, group: Group, address: int) -> None:
    """Free memory from malloc for one thread."""
    block = machine.launch.memory.at(address) if address else None
    if block is not None and block.name == NAME:
        machine.launch.memory.unmap(address)
    elif address:
        machine.fault("out-of-bounds", f"free of 0x{address:x}, which malloc did not return", group)
