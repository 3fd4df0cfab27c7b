"""The CUDA runtime's functions for kernels (printf, malloc, free, assertions), and the ports other than memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.memory.addresses import CLUSTER_SHIFT
from warpsim.machine.printf import ThreadText, format_text, global_string
from warpsim.machine.specials import cta_coordinates
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Operand

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group


class Clusters:
    """The cluster port. The bits above a shared memory offset hold a CTA's rank plus one; zero means the thread's own
    CTA.
    """

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group = machine, group

    def map_shared(self, address: Array, rank: Array) -> Array:
        """The shared::cluster address of the same offset in the CTA with a rank."""
        low = address.dtype.type((1 << CLUSTER_SHIFT) - 1)
        return (address & low) | (
            (rank.astype(address.dtype) + address.dtype.type(1)) << address.dtype.type(CLUSTER_SHIFT)
        )

    def rank_of(self, address: Array) -> Array:
        """The rank of the CTA that contains a shared memory address, uint32."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return np.where(field > 0, field - np.uint32(1), self._own())

    def is_own(self, address: Array) -> Array:
        """Whether a shared memory address is in the thread's own CTA."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return (field == 0) | (field - np.uint32(1) == self._own())

    def _own(self) -> Array:
        cx, cy, cz = self.machine.launch.cluster
        if cx * cy * cz == 1:
            return np.zeros(1, np.uint32)
        x, y, z = cta_coordinates(self.machine.launch, self.machine.batch)
        ranks = (x % cx + cx * (y % cy + cy * (z % cz))).astype(np.uint32)
        return ranks[self.group.selection.ctas]


def system_call(
    machine: Machine,
    group: Group,
    name: str,
    plan: FunctionPlan,
    arguments: Sequence[Operand],
    returns: Sequence[Operand],
) -> None:
    """Run a function of the CUDA runtime for every thread of a group."""
    values = [_argument(machine, group, plan, a) for a in arguments]
    if name == "vprintf":
        _result(machine, group, plan, returns, _vprintf(machine, group, values[0], values[1]))
    elif name == "malloc":
        _result(machine, group, plan, returns, malloc(machine, group, values[0]))
    elif name == "free":
        free(machine, group, values[0])
    elif name == "__assertfail":
        _assertfail(machine, group, values)
    else:
        machine.fault("trap", f"call of extern function {name}, which warpsim does not provide", group)


def _argument(machine: Machine, group: Group, plan: FunctionPlan, argument: Operand) -> Array:
    if argument.base is None:
        return as_array(group.value(argument))
    assert argument.base.variable is not None
    dtype, positions = np.dtype(f"u{max(argument.base.variable.size, 4)}"), group.selection.positions
    places = np.full(positions.shape, group.local_base + plan.place(argument.base))
    return machine.batch.local.gather(places, positions, dtype)


def _result(machine: Machine, group: Group, plan: FunctionPlan, returns: Sequence[Operand], value: Array) -> None:
    for target in returns:
        if target.register is not None:
            group.set(target.register.index, value)
        elif target.base is not None:
            positions = group.selection.positions
            full = np.ascontiguousarray(np.broadcast_to(value, positions.shape))
            machine.fill("local", np.full(positions.shape, group.local_base + plan.place(target.base)), positions, full)


def _assertfail(machine: Machine, group: Group, values: list[Array]) -> None:
    """Report the CUDA runtime's message for the first failing thread; the others are counted."""
    message, file, line, function = (int(value.reshape(-1)[0]) for value in values[:4])
    position = int(group.selection.positions.reshape(-1)[0])
    cta, thread = (
        cta_coordinates(machine.launch, machine.batch)[:, position % machine.batch.shape.n_ctas],
        position // machine.batch.shape.n_ctas,
    )
    bx, by, _ = machine.launch.block
    text = (
        f"{global_string(machine.launch, file)}:{line}: {global_string(machine.launch, function)}: "
        f"block: [{','.join(map(str, cta.tolist()))}], thread: [{thread % bx},{thread // bx % by},{thread // (bx * by)}] "
        f"Assertion `{global_string(machine.launch, message)}` failed."
    )
    machine.fault("assert", text, group)


def _vprintf(machine: Machine, group: Group, formats: Array, arguments: Array) -> Array:
    """Print for every thread; returns the number of arguments that each printed."""
    selection = group.selection
    values = [np.broadcast_to(v, selection.shape) for v in (formats, arguments, selection.positions)]
    counts = np.zeros(selection.n, np.int32)
    for k, (fmt, where, position) in enumerate(zip(*(selection.in_order(v).tolist() for v in values), strict=True)):
        thread = ThreadText(machine, where, position)
        text, counts[k] = format_text(global_string(machine.launch, fmt), thread, thread.string)
        machine.launch.printed.append((position, text))
    return selection.from_order(counts)


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
