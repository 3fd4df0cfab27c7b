"""The accumulator registers of wgmma, all at once: from a group's environment to one stack and back."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.analysis.flow import registers_of
from warpsim.machine.state.group import Group
from warpsim.machine.values import Affine, Array, as_array
from warpsim.program.program import Operand

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

U32 = np.dtype(np.uint32)


def bind_accumulators(
    operand: Operand,
) -> tuple[Callable[[Machine, Group], Array], Callable[[Machine, Group, Array, Any], None]]:
    """``read(group)`` gives bits ``[registers, n, 128, m]``; ``write(group, stack, active or None)`` commits them."""
    slots = registers_of(operand)
    dirty = set(slots)

    def read(machine: Machine, group: Group) -> Array:
        env, shape = group.env, group.selection.shape
        if group.stacked is not None:
            stack, rows = group.stacked
            if len(rows) == len(slots) and all(map(is_, map(env.__getitem__, slots), rows)):
                return stack
        stack = np.empty((len(slots), *shape), U32)
        for row, slot in enumerate(slots):
            value = env[slot]
            if value is None:
                value = group.fetch(slot)
            if type(value) is Affine:
                value = value.array()
            if value.ndim != len(shape):
                value = value.reshape((1,) * len(shape))
            stack[row] = value if value.dtype is U32 else value.view(U32)
        return _in_warpgroups(group, stack)

    def write(machine: Machine, group: Group, stack: Array, active: Any) -> None:
        rows = list(_in_group(group, stack))
        if active is not None:
            rows = [
                np.where(active, row, as_array(group.read(slot)).view(row.dtype))
                for slot, row in zip(slots, rows, strict=True)
            ]
        env = group.env
        for slot, row in zip(slots, rows, strict=True):
            env[slot] = row
        group.dirty |= dirty
        group.stacked = (stack.view(U32), rows) if active is None else None

    return read, write


def _in_warpgroups(group: Group, stack: Array) -> Array:
    warps, count = group.warps, len(stack)
    if warps.dense:
        return stack.reshape(count, warps.n // 4, 128, warps.m)
    out = np.zeros((count, warps.n * 32), stack.dtype)
    out[:, warps.slots] = stack
    return out.reshape(count, warps.n // 4, 128, 1)


def _in_group(group: Group, stack: Array) -> Array:
    warps, shape = group.warps, group.selection.shape
    flat = stack.reshape(len(stack), -1)
    return (flat if warps.dense else flat[:, warps.slots]).reshape(len(stack), *shape)
