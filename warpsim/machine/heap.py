"""The device heap: malloc and free of the CUDA runtime, for every thread of a group in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

NAME = "device malloc"
SIZE = (7 << 20) + 1024
"""Capacity of the heap: the runtime reserves part of its 8 MiB (an H100 provides six blocks of 1 MiB, or one of 7 MiB).
"""
HEADER = 256


def malloc(machine: Machine, group: Group, sizes: Array) -> Array:
    """Allocate; gives addresses, 0 if the heap is too full."""
    memory = machine.launch.memory
    sizes = np.broadcast_to(sizes, group.selection.shape)
    out = np.zeros(sizes.shape, np.uint64)
    left = SIZE - memory.total(NAME, HEADER)
    for at in np.ndindex(sizes.shape):
        size = int(sizes[at])
        if size + HEADER <= left:
            left -= size + HEADER
            address = memory.allocate(size, NAME)[0]
            if machine.hooks.memory_allocated is not None:
                machine.hooks.memory_allocated(machine, group, memory.at(address))
            out[at] = address
    return out


def free(machine: Machine, group: Group, addresses: Array) -> None:
    """Free memory from malloc; 0 is allowed."""
    for address in np.broadcast_to(addresses, group.selection.shape).reshape(-1).tolist():
        if not address:
            continue
        block = machine.launch.memory.at(address)
        if block is None or block.name != NAME:
            machine.fault("out-of-bounds", f"free of 0x{address:x}, which malloc did not return", group)
        else:
            machine.launch.memory.unmap(address)
