"""Reads and writes bytes of any state space as a thread sees them."""

from __future__ import annotations

import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.errors import DebugError
from warpsim.layout.tensor_memory import BLOCK, COLUMNS, LANES
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import CLUSTER_SHIFT, first_rank
from warpsim.machine.state.global_memory import CONST_ADDRESS, LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array

LARGEST = 1 << 30
"""Most bytes that are read at once."""


class Place:
    """A run of bytes in a state space, as a thread sees it. ``machine`` is the batch of its CTA, ``column`` the CTA's
    column, ``thread`` the thread's number in the CTA."""

    def __init__(
        self, launch: LaunchState, space: str, address: int, machine: Machine | None, column: int, thread: int
    ) -> None:
        self.launch, self.machine = launch, machine
        self.column, self.thread = column, thread
        self.space, self.address = self._resolved(space, address)

    def _resolved(self, space: str, address: int) -> tuple[str, int]:
        if space not in ex.SPACES:
            raise DebugError(f"{space!r} is not a state space; state spaces: {', '.join(ex.SPACES)}")
        if space == "generic":
            if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW:
                return "shared", address - SHARED_WINDOW
            if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
                return "local", address - LOCAL_WINDOW
            return "global", address
        if space == "const" and address < 1 << 32:
            return "global", address + CONST_ADDRESS
        return ("global", address) if space == "const" else (space, address)

    def read(self, nbytes: int) -> bytes:
        """Read bytes from here on.

        Raises:
            DebugError: they are not all in memory.
        """
        if not 0 <= nbytes <= LARGEST:
            raise DebugError(f"{nbytes} bytes are too many to read at once")
        if self.space == "param":
            return self._param(nbytes)
        if self.space == "global":
            return self._allocated(nbytes).tobytes()
        space, column, address, first, last = self._words(nbytes)
        raw = np.ascontiguousarray(space.words[first:last, column]).view(np.uint8)
        return raw[address - 4 * first :][:nbytes].tobytes()

    def write(self, data: bytes) -> None:
        """Write bytes from here on."""
        if self.space == "param":
            raise DebugError("kernel parameters are read-only")
        if self.space == "global":
            self._allocated(len(data), write=True)[:] = np.frombuffer(data, np.uint8)
            self.launch.memory.version += 1
            return
        space, column, address, first, last = self._words(len(data))
        space.own()
        words = np.ascontiguousarray(space.words[first:last, column])
        words.view(np.uint8)[address - 4 * first :][: len(data)] = np.frombuffer(data, np.uint8)
        space.words[first:last, column] = words
        self.launch.memory.version += 1

    def _param(self, nbytes: int) -> bytes:
        params = self.launch.params
        if not 0 <= self.address <= len(params) - nbytes:
            raise DebugError(f"out of range: the kernel has {len(params)} bytes of parameters")
        return params[self.address : self.address + nbytes]

    def _allocated(self, nbytes: int, *, write: bool = False) -> Array:
        memory, address = self.launch.memory, self.address
        found = memory.find(address, address + nbytes) if address >= 0 else None
        if found is None:
            nearest = memory.nearest(max(address, 0))
            near = (
                f"; the nearest is {nearest[0].name} [0x{nearest[0].start:x}, 0x{nearest[0].end:x})" if nearest else ""
            )
            raise DebugError(f"{nbytes} bytes at 0x{address:x} are outside any allocation of global memory{near}")
        if write:
            found.own()
        return found.data[address - found.start : address - found.start + nbytes]

    def of_whom(self, nbytes: int) -> tuple[int, int]:
        """The column and the offset of bytes in the shared memory of a CTA: the thread's own, or another of its cluster."""
        _, column, address, _, _ = self._words(nbytes)
        return column, address

    def _words(self, nbytes: int) -> tuple[WordSpace, int, int, int, int]:
        """The memory, column and address, and the first and one-past-last word of a run of bytes."""
        machine = self.machine
        if machine is None:
            raise DebugError(f"the CTA is not running, so it has no {self.space} memory")
        address, column, batch = self.address, self.column, machine.batch
        if self.space == "shared":
            there = address >> CLUSTER_SHIFT
            if there > 0:
                rank = there - first_rank(self.launch.cluster)
                column = int(machine.cluster_peer(np.array([column]), np.array([rank]))[0])
                address &= (1 << CLUSTER_SHIFT) - 1
            space, size = batch.shared, self.launch.shared_size
        else:
            column = self.thread * batch.shape.n_ctas + column
            space, size = batch.local, batch.local.size
        if column < 0 or not 0 <= address <= size - nbytes:
            raise DebugError(f"{nbytes} bytes at 0x{address:x} are outside the {size} bytes of {self.space} memory")
        return space, column, address, address >> 2, -(-(address + nbytes) >> 2)


def tensor_cells(machine: Machine | None, column: int | None) -> Array:
    """The tensor memory of the CTA in a column of a batch, ``[128, 512]``, masked where no columns are allocated.

    Raises:
        DebugError: the CTA is not running.
    """
    if machine is None or column is None:
        raise DebugError("the CTA is not running, so it has no tensor memory")
    memory, shape = machine.batch.tensor, (LANES, COLUMNS)
    if memory is None:
        return np.ma.masked_array(np.zeros(shape, np.uint32), np.ones(shape, np.bool_))
    free = np.repeat(memory.owner[column] == 0, BLOCK)
    return np.ma.masked_array(memory.cells()[:, :, column].copy(), np.broadcast_to(free, shape))
