"""The tops of the threads' stacks, which move when a function allocates."""

from __future__ import annotations

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.records import frozen

LIMIT = 512 * 1024
"""Most local memory of a thread in bytes (CUDA C++ Programming Guide, Technical Specifications)."""
LIMIT_OF_ALL = 1 << 32
"""Most local memory of all threads that run side by side, in bytes."""
STEP = 256
"""Alignment of frames above allocations, so that threads with different allocations make the same calls."""


@frozen(eq=False)
class ThreadStack:
    """The stacks of a group's threads, in their current function. A function that allocates has a word in its frame
    (`FunctionPlan.stack_word`) with the top of its part of the stack, 0 while that is the end of the frame."""

    machine: Machine
    group: Group
    active: Array | None = None

    @property
    def _word(self) -> int:
        assert self.group.plan.stack_word is not None
        return self.group.local_base + self.group.plan.stack_word

    def top(self) -> Array:
        """The top of each thread's part of the stack, an address in local memory, int64 in the group's shape."""
        group = self.group
        positions = group.selection.positions
        held = self.machine.batch.local.gather(np.full(positions.shape, self._word), positions, np.dtype(np.uint32))
        return np.where(held == 0, group.local_base + group.plan.frame_size, held.astype(np.int64))

    def allocate(self, size: Array, align: int) -> Array:
        """Allocate ``size`` bytes at a multiple of ``align``; returns their address."""
        address = -(-self.top() // align) * align
        size = np.broadcast_to(size, address.shape)
        wide = np.minimum(size, size.dtype.type(LIMIT)).astype(np.int64)
        end = address + wide
        used = end if self.active is None else end[np.broadcast_to(self.active, end.shape)]
        if used.size:
            self.reach(int(used.max()), "alloca")
        self._move(end)
        self._forget(address, end)
        return address

    def restore(self, end: Array) -> None:
        """Restore an earlier top; what was above it is no longer allocated."""
        group, top = self.group, self.top()
        ends = np.broadcast_to(end, top.shape).astype(np.int64)
        wrong = (ends < group.local_base + group.plan.frame_size) | (ends > top)
        if self.active is not None:
            wrong &= self.active
        if wrong.any():
            message = f"stackrestore to 0x{int(ends[wrong][0]):x}; the stack is in use up to 0x{int(top[wrong][0]):x}"
            advice = "pass what stacksave returned in this function, unchanged (stackrestore)"
            self.machine.fault("out-of-bounds", message, group, wrong, advice=advice)
            return
        self._move(end)
        self._forget(ends, top)

    def _forget(self, start: Array, end: Array) -> None:
        """Notify that what these bytes of the stack hold is undefined."""
        notify = self.machine.hooks.stack_extended
        if notify is None:
            return
        for at in distinct(start):
            there = (start == at) & (end > at)
            if self.active is not None:
                there &= self.active
            if there.any():
                first = int(at) & ~3
                positions = self.group.selection.positions[there]
                notify(self.machine, self.group, positions, first, int(end[there].max()) - first)

    def _move(self, end: Array) -> None:
        positions = self.group.selection.positions
        ends = np.broadcast_to(end, positions.shape).astype(np.uint32)
        if self.active is not None:
            mask = np.broadcast_to(self.active, positions.shape)
            positions, ends = positions[mask], ends[mask]
        self.machine.fill("local", np.full(positions.shape, self._word), positions, np.ascontiguousarray(ends))

    def reach(self, end: int, cause: str) -> None:
        """Grow the stacks, or report that they cannot be that large."""
        group, local = self.group, self.machine.batch.local
        if end > LIMIT:
            self.machine.fault(
                "limit",
                f"{cause} makes the local memory of a thread larger than {LIMIT} bytes",
                group,
                advice="check that the size, or the recursion, is bounded",
            )
        if end > local.size and 2 * end * local.n_columns > LIMIT_OF_ALL:
            self.machine.fault(
                "limit",
                f"{cause} makes the local memory of the {local.n_columns} threads that run side by side larger than {LIMIT_OF_ALL} bytes",
                group,
                advice="check that the size is bounded; if it is, pass a smaller batch_threads=",
            )
        local.grow(end + 16)

    def callee_frame(self) -> int:
        """The start of a called function's frame."""
        group = self.group
        if group.plan.stack_word is None:
            return group.local_base + group.plan.frame_size
        return -(-int(self.top().max()) // STEP) * STEP
