"""What the CUDA run time gives to kernels: printf, malloc, assertions, and the ports that are not memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.addresses import CLUSTER_SHIFT
from warpsim.machine.bulk import BulkCopies
from warpsim.machine.clusters import ClusterBarrier
from warpsim.machine.map_fences import MapFences
from warpsim.machine.specials import cta_coordinates
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Imm, Reg, Variable

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.group import Group
    from warpsim.machine.launch import Launch


class Clusters:
    """The cluster as instructions see it. The rank of a CTA plus one stands in the bits above a shared-memory offset;
    nothing there is the thread's own CTA."""

    def __init__(self, launch: Launch, batch: Batch) -> None:
        self.launch = launch
        self.batch = batch

    def map_shared(self, address: Array, rank: Array) -> Array:
        """The shared::cluster address of the same offset in the CTA of a rank."""
        low = address.dtype.type((1 << CLUSTER_SHIFT) - 1)
        return (address & low) | (
            (rank.astype(address.dtype) + address.dtype.type(1)) << address.dtype.type(CLUSTER_SHIFT)
        )

    def rank_of(self, address: Array) -> Array:
        """The rank of the CTA that a shared-memory address belongs to, uint32."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return np.where(field > 0, field - np.uint32(1), self._own())

    def is_own(self, address: Array) -> Array:
        """Whether a shared-memory address lies in the thread's own CTA."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return (field == 0) | (field - np.uint32(1) == self._own())

    def _own(self) -> Array:
        cx, cy, cz = self.launch.cluster
        if cx * cy * cz == 1:
            return np.zeros(1, np.uint32)
        x, y, z = cta_coordinates(self.launch, self.batch)
        ranks = (x % cx + cx * (y % cy + cy * (z % cz))).astype(np.uint32)
        return ranks[self.batch.memory.group.selection.ctas]


def make_ports(launch: Launch, batch: Batch) -> dict[str, Any]:
    """Ports by name."""
    return {
        "async_groups": batch.async_groups,
        "cluster": Clusters(launch, batch),
        "bulk": BulkCopies(batch),
        "maps": MapFences(batch),
        "objects": batch.objects,
    }


def cluster_barrier(launch: Launch, group: Group, arrives: bool, waits: bool) -> bool:
    """barrier.cluster.arrive and .wait; True where the group has to wait."""
    batch = group.batch
    barrier = batch.cluster_barrier
    if barrier is None:
        barrier = batch.cluster_barrier = ClusterBarrier(launch, batch)
    if arrives:
        barrier.arrive(group)
    return waits and barrier.wait(group)


def flush_output(launch: Launch) -> None:
    """Hand over what threads printed, thread by thread in their order."""
    for _, text in launch.printed:
        launch.settings.stdout(text)
    launch.printed = []


def system_call(launch: Launch, group: Group, name: str, plan: Any, arguments: Any, returns: Any) -> None:
    """Run a function of the CUDA run time for every thread of a group."""
    values = [_argument(group, plan, a) for a in arguments]
    if name == "vprintf":
        _result(group, plan, returns, _vprintf(launch, group, values[0], values[1]))
    elif name == "malloc":
        sizes = np.broadcast_to(values[0], group.selection.shape)
        out = np.array([launch.memory.allocate(int(n), "device malloc")[0] for n in sizes.reshape(-1)], np.uint64)
        for address in out:
            launch.memory.undefine(int(address))
        _result(group, plan, returns, out.reshape(sizes.shape))
    elif name == "free":
        for address in np.broadcast_to(values[0], group.selection.shape).reshape(-1):
            if int(address):
                if launch.memory.at(int(address)) is None:
                    group.batch.fault(
                        "out-of-bounds", f"free of 0x{int(address):x}, which malloc did not return", group
                    )
                else:
                    launch.memory.unmap(int(address))
    elif name == "__assertfail":
        message, file, line, function = values[0], values[1], values[2], values[3]
        text = f"{_string(launch, _first(file))}:{_first(line)}: {_string(launch, _first(function))}: assertion `{_string(launch, _first(message))}` failed"
        group.batch.fault("assert", text, group)
    else:
        group.batch.fault("trap", f"call of extern function {name}, which the simulator does not provide", group)


def _argument(group: Group, plan: Any, argument: Any) -> Array:
    if isinstance(argument, Reg):
        return as_array(group.read(argument.register.index))
    if isinstance(argument, Imm):
        return np.array([argument.bits], np.uint64)
    assert isinstance(argument, Variable)
    size = max(argument.size, 4)
    dtype = np.dtype(f"u{size}")
    positions = group.selection.positions
    return group.batch.local.gather(
        np.full(positions.shape, group.local_base + plan.offset(argument)), positions, dtype
    )


def _result(group: Group, plan: Any, returns: Any, value: Array) -> None:
    for target in returns:
        if isinstance(target, Reg):
            group.set(target.register.index, value)
        elif isinstance(target, Variable):
            positions = group.selection.positions
            full = np.ascontiguousarray(np.broadcast_to(value, positions.shape))
            group.batch.local.scatter(np.full(positions.shape, group.local_base + plan.offset(target)), positions, full)


def _first(value: Array) -> int:
    return int(value.reshape(-1)[0])


def _string(launch: Launch, address: int) -> str:
    allocation = launch.memory.find(address, address + 1)
    if allocation is None:
        return "?"
    raw = allocation.data[address - allocation.start :].tobytes()
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _vprintf(launch: Launch, group: Group, formats: Array, arguments: Array) -> Array:
    """Print for every thread: how many arguments each of them printed."""
    from warpsim.machine.printf import format_text

    shape = group.selection.shape
    formats = np.broadcast_to(formats, shape)
    arguments = np.broadcast_to(arguments, shape)
    counts = np.zeros(shape, np.int32)
    order = (2, 3, 0, 1) if len(shape) == 4 else (0,)
    positions = group.selection.positions
    columns = [x.transpose(order) for x in (formats, arguments, positions, counts)]
    for at in np.ndindex(columns[0].shape):
        fmt, where, position = (int(x[at]) for x in columns[:3])
        reader = _Reader(launch, group.batch, where, position)
        text, columns[3][at] = format_text(_string(launch, fmt), reader, lambda address: _string(launch, address))
        launch.printed.append((position, text))
    return counts


class _Reader:
    """Reads a thread's printf arguments, one after the other, from its stack or from global memory."""

    def __init__(self, launch: Launch, batch: Batch, address: int, position: int) -> None:
        self.launch, self.batch = launch, batch
        self.address, self.position = address, position

    def __call__(self, size: int) -> bytes:
        from warpsim.machine.memory import LOCAL_WINDOW, WINDOW

        at = -(-self.address // size) * size
        self.address = at + size
        if LOCAL_WINDOW <= at < LOCAL_WINDOW + WINDOW:
            word = (at - LOCAL_WINDOW) >> 2
            return self.batch.local.words[word : word + -(-size // 4), self.position].tobytes()[:size]
        allocation = self.launch.memory.find(at, at + size)
        return allocation.data[at - allocation.start :][:size].tobytes() if allocation else bytes(size)
