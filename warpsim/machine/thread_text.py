"""What a thread passes to printf: arguments on its stack or in global memory, strings at generic addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


class ThreadText:
    """Reads for the thread at a ``position`` of a batch; called with a size, it returns the next argument's bytes."""

    def __init__(self, machine: Machine, address: int, position: int) -> None:
        self.machine = machine
        self.address, self.position = address, position

    def __call__(self, size: int) -> bytes:
        """The next argument, aligned to its size."""
        at = -(-self.address // size) * size
        self.address = at + size
        if LOCAL_WINDOW <= at < LOCAL_WINDOW + WINDOW:
            return _column(self.machine.batch.local, at - LOCAL_WINDOW, size, self.position)
        allocation = self.machine.launch.memory.find(at, at + size)
        return allocation.data[at - allocation.start :][:size].tobytes() if allocation else bytes(size)

    def string(self, address: int) -> str:
        """The C string at a generic address."""
        if not address:
            return "(null)"
        for window, space, column in (
            (LOCAL_WINDOW, self.machine.batch.local, self.position),
            (SHARED_WINDOW, self.machine.batch.shared, self.position % self.machine.batch.shape.n_ctas),
        ):
            if window <= address < window + space.size:
                return text_of(_column(space, address - window, space.size - (address - window), column))
        return global_string(self.machine.launch, address)


def global_string(launch: LaunchState, address: int) -> str:
    """The C string at an address of global or constant memory."""
    allocation = launch.memory.find(address, address + 1)
    return "?" if allocation is None else text_of(allocation.data[address - allocation.start :].tobytes())


def text_of(raw: bytes) -> str:
    """The characters before the first zero."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _column(space: WordSpace, first: int, size: int, column: int) -> bytes:
    words = space.words[first >> 2 : first + size + 3 >> 2, column]
    return np.ascontiguousarray(words).tobytes()[first & 3 :][:size]
