"""Graphs: the graph that each executable was instantiated from, and its nodes one by one in a legal order."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from warpsim.capture.gpu import CLUSTER, COOPERATIVE, Attribute, Config, Driver, KernelNode, Memset, pointer, u32, u64
from warpsim.records import define

KERNEL, COPY, FILL, CHILD = 0, 1, 2, 4
HARMLESS = {5: "empty", 6: "wait for an event", 7: "record of an event"}
OTHERS = {3: "host function", 8: "semaphore", 9: "semaphore", 10: "allocation", 11: "release of memory",
          12: "batch of memory operations", 13: "conditional"}  # fmt: skip
"""CUgraphNodeType."""
COPY_BYTES, SOURCE, DESTINATION, POINTER_AT = 200, 0, 88, 48
"""CUDA_MEMCPY3D: its size, the offsets of its two sides, and the offset of the device pointer in each."""


class Refused(Exception):
    """A graph cannot be run node by node; the message says why."""


@define(eq=False)
class Kernel:
    """A kernel node; ``given`` holds its parameters as the graph has them."""

    driver: Driver
    given: Any
    cluster: tuple[int, int, int] | None
    cooperative: bool

    @property
    def function(self) -> int:
        """Its function or kernel."""
        return self.given.f or self.given.kernel or 0

    def places(self) -> Iterator[int]:
        """No addresses outside its parameters."""
        yield from ()

    def run(self) -> bool:
        """Launch it."""
        wanted = []
        if self.cluster is not None:
            wanted.append(Attribute(kind=CLUSTER, value=(u32 * 16)(*self.cluster)))
        if self.cooperative:
            wanted.append(Attribute(kind=COOPERATIVE, value=(u32 * 16)(1)))
        attributes = (Attribute * max(len(wanted), 1))(*wanted)
        shape = {name: getattr(self.given, name) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")}
        config = Config(**shape, stream=0, attributes=ctypes.addressof(attributes), count=len(wanted))
        return self.driver.ok(
            "cuLaunchKernelEx", ctypes.byref(config), pointer(self.function), pointer(self.given.params),
            pointer(self.given.extra),
        )  # fmt: skip


@define(eq=False)
class Copy:
    """A copy node."""

    driver: Driver
    given: Any

    def places(self) -> Iterator[int]:
        """The address that it writes, if that is in GPU memory."""
        yield u64.from_buffer(self.given, DESTINATION + POINTER_AT).value

    def run(self) -> bool:
        """Copy."""
        return self.driver.ok("cuMemcpy3D_v2", ctypes.byref(self.given))


@define(eq=False)
class Fill:
    """A memset node."""

    driver: Driver
    given: Any

    def places(self) -> Iterator[int]:
        """The address that it writes."""
        yield self.given.address

    def run(self) -> bool:
        """Fill."""
        given = self.given
        pitch = given.pitch if given.height > 1 else given.width * given.size
        return self.driver.ok(
            f"cuMemsetD2D{8 * given.size}_v2", u64(given.address), ctypes.c_size_t(pitch), u32(given.value),
            ctypes.c_size_t(given.width), ctypes.c_size_t(given.height),
        )  # fmt: skip


Node = Kernel | Copy | Fill


class Graphs:
    """Each executable graph with a copy of the graph that it was made from, kept up to date."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._graphs: dict[int, int] = {}
        self._refused: dict[int, str] = {}

    def made(self, executable: int, graph: int) -> None:
        """Note that an executable was instantiated from, or updated with, a graph."""
        self.dropped(executable)
        copy = pointer()
        if self.driver.ok("cuGraphClone", ctypes.byref(copy), pointer(graph)) and copy.value:
            self._graphs[executable] = copy.value

    def dropped(self, executable: int) -> None:
        """Note that an executable was destroyed."""
        self._refused.pop(executable, None)
        copy = self._graphs.pop(executable, None)
        if copy is not None:
            self.driver.ok("cuGraphDestroy", pointer(copy))

    def kernel_changed(self, executable: int, node: int, params: int) -> None:
        """Note that a kernel node of an executable got new parameters."""
        own = pointer()
        copy = self._graphs.get(executable)
        if copy is None or not (
            self.driver.ok("cuGraphNodeFindInClone", ctypes.byref(own), pointer(node), pointer(copy))
            and self.driver.ok("cuGraphKernelNodeSetParams_v2", own, pointer(params))
        ):
            self.changed(executable, "a kernel node")

    def changed(self, executable: int, what: str) -> None:
        """Note a change of an executable that is not tracked."""
        self._refused[executable] = f"{what} was changed after the graph was instantiated"

    def nodes(self, executable: int) -> list[Node]:
        """The work of an executable, in a legal order."""
        if executable in self._refused:
            raise Refused(self._refused[executable])
        if executable not in self._graphs:
            raise Refused("it was instantiated before recording began, or cannot be cloned")
        return list(self._of(self._graphs[executable]))

    def _of(self, graph: int) -> Iterator[Node]:
        for handle in self.driver.graph_nodes(graph):
            kind = self.driver.graph_node_type(handle)
            if kind == CHILD:
                child = pointer()
                self._need("cuGraphChildGraphNodeGetGraph", pointer(handle), ctypes.byref(child))
                yield from self._of(child.value or 0)
            elif kind == KERNEL:
                kernel = KernelNode()
                self._need("cuGraphKernelNodeGetParams_v2", pointer(handle), ctypes.byref(kernel))
                x, y, z = self._attribute(handle, CLUSTER)[:3]
                cooperative = self._attribute(handle, COOPERATIVE)[0] != 0
                yield Kernel(self.driver, kernel, (x, y, z) if x * y * z > 1 else None, cooperative)
            elif kind == COPY:
                copy = (ctypes.c_char * COPY_BYTES)()
                self._need("cuGraphMemcpyNodeGetParams", pointer(handle), ctypes.byref(copy))
                yield Copy(self.driver, copy)
            elif kind == FILL:
                fill = Memset()
                self._need("cuGraphMemsetNodeGetParams", pointer(handle), ctypes.byref(fill))
                yield Fill(self.driver, fill)
            elif kind not in HARMLESS:
                raise Refused(f"it has a node of kind {OTHERS.get(kind, f'node of type {kind}')}")

    def _need(self, name: str, *args: object) -> None:
        if not self.driver.ok(name, *args):
            raise Refused(f"{name} failed")

    def _attribute(self, node: int, kind: int) -> list[int]:
        value = (u32 * 16)()
        self.driver.ok("cuGraphKernelNodeGetAttribute", pointer(node), ctypes.c_int(kind), ctypes.byref(value))
        return list(value)
