"""The heap of the device: malloc and free of the CUDA run time, for every thread of a group one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.group import Group
    from warpsim.machine.launch import Launch

NAME = "device malloc"
SIZE = (7 << 20) + 1024
"""What the heap holds: the run time keeps a part of its 8 MiB (an H100 gives six blocks of 1 MiB, or one of 7 MiB)."""
HEADER = 256


def malloc(launch: Launch, group: Group, sizes: Array) -> Array:
    """Addresses of so many bytes, 0 where the heap is too full."""
    memory = launch.memory
    sizes = np.broadcast_to(sizes, group.selection.shape)
    out = np.zeros(sizes.shape, np.uint64)
    left = SIZE - memory.total(NAME, HEADER)
    for at in np.ndindex(sizes.shape):
        size = int(sizes[at])
        if size + HEADER <= left:
            left -= size + HEADER
            address = memory.allocate(size, NAME)[0]
            memory.undefine(address)
            out[at] = address
    return out


def free(launch: Launch, group: Group, addresses: Array) -> None:
    """Give back what malloc gave; 0 is allowed."""
    for address in np.broadcast_to(addresses, group.selection.shape).reshape(-1).tolist():
        if not address:
            continue
        block = launch.memory.at(address)
        if block is None or block.name != NAME:
            group.batch.fault("out-of-bounds", f"free of 0x{address:x}, which malloc did not return", group)
        else:
            launch.memory.unmap(address)
