"""The heap of the device: malloc and free of the CUDA run time, for every thread of a group one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

NAME = "device malloc"
SIZE = (7 << 20) + 1024
"""What the heap holds: the run time keeps a part of its 8 MiB (an H100 gives six blocks of 1 MiB, or one of 7 MiB)."""
HEADER = 256


def malloc(machine: Machine, group: Group, sizes: Array) -> Array:
    """Addresses of so many bytes, 0 where the heap is too full."""
    memory = machine.launch.memory
    sizes = np.broadcast_to(sizes, group.selection.shape)
    out = np.zeros(sizes.shape, np.uint64)
    left = SIZE - memory.total(NAME, HEADER)
    for at in np.ndindex(sizes.shape):
        size = int(sizes[at])
        if size + HEADER <= left:
            left -= size + HEADER
            address = memory.allocate(size, NAME)[0]
            if machine.window.memory_allocated is not None:
                machine.window.memory_allocated(machine, group, memory.at(address))
            out[at] = address
    return out


def free(machine: Machine, group: Group, addresses: Array) -> None:
    """Give back what malloc gave; 0 is allowed."""
    for address in np.broadcast_to(addresses, group.selection.shape).reshape(-1).tolist():
        if not address:
            continue
        block = machine.launch.memory.at(address)
        if block is None or block.name != NAME:
            machine.fault("out-of-bounds", f"free of 0x{address:x}, which malloc did not return", group)
        else:
            machine.launch.memory.unmap(address)
