"""The accumulator registers of wgmma, all at once: from a group's environment to one stack, and back."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, Value, as_array
from warpsim.program.program import Operand

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

U32 = np.dtype(np.uint32)


class Accumulators:
    """The registers of an operand."""

    def __init__(self, operand: Operand) -> None:
        self.slots = operand.registers
        first, count = self.slots[0], len(self.slots)
        self.run = slice(first, first + count) if list(self.slots) == list(range(first, first + count)) else None

    def read(self, machine: Machine, group: Group) -> Array:
        """Bits ``[registers, n, 128, m]``."""
        if group.stacked is not None:
            stack, rows = group.stacked
            if len(rows) == len(self.slots) and all(map(is_, self._values(group), rows)):
                return stack
        shape = group.selection.shape
        stack = np.empty((*shape[2:], len(self.slots), *shape[:2]), U32)  # those of a CTA side by side
        if len(shape) == 4:
            stack = stack.transpose(2, 3, 4, 0, 1)
        for row, slot in enumerate(self.slots):
            value = group.env[slot]
            value = as_array(group.fetch(slot) if value is None else value)
            if value.ndim != len(shape):
                value = value.reshape((1,) * len(shape))
            stack[row] = value if value.dtype is U32 else value.view(U32)
        return _in_warpgroups(group, stack)

    def _values(self, group: Group) -> Iterable[Value | None]:
        return map(group.env.__getitem__, self.slots) if self.run is None else group.env[self.run]

    def write(self, machine: Machine, group: Group, stack: Array, active: Array | None) -> None:
        """Commit them in the ``active`` threads."""
        rows = list(_in_group(group, stack))
        if active is not None:
            rows = [
                np.where(active, row, as_array(group.read(slot)).view(row.dtype))
                for slot, row in zip(self.slots, rows, strict=True)
            ]
        if self.run is not None:
            group.env[self.run] = rows
        else:
            for slot, row in zip(self.slots, rows, strict=True):
                group.env[slot] = row
        group.dirty.update(self.slots)
        group.stacked = (stack.view(U32), rows) if active is None else None


def _in_warpgroups(group: Group, stack: Array) -> Array:
    warps, count = group.warps, len(stack)
    if warps.dense:
        return stack.reshape(count, warps.n // 4, 128, warps.m)
    out = np.zeros((count, warps.n * 32), stack.dtype)
    out[:, warps.slots] = stack
    return out.reshape(count, warps.n // 4, 128, 1)


def _in_group(group: Group, stack: Array) -> Array:
    warps, shape = group.warps, group.selection.shape
    if warps.dense:
        return stack.reshape(len(stack), *shape)
    return stack.reshape(len(stack), -1)[:, warps.slots].reshape(len(stack), *shape)
