"""Driver calls that a recording makes itself: memory, names, versions. These are not recorded."""

from __future__ import annotations

import ctypes
import graphlib
import re
from typing import Any

MEMORY_TYPE, RANGE_START, RANGE_SIZE = 2, 11, 12
HOST, DEVICE = 1, 2
MAJOR, MINOR = 75, 76


class Driver:
    """libcuda."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def ok(self, name: str, *args: Any) -> bool:
        """Make a call; returns whether it succeeded."""
        return bool(getattr(self.cuda, name)(*args) == 0)

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Start and size of the device allocation that contains an address."""
        kind, start, size = ctypes.c_uint(), ctypes.c_uint64(), ctypes.c_size_t()
        at = ctypes.c_uint64(address)
        if not self.ok("cuPointerGetAttribute", ctypes.byref(kind), MEMORY_TYPE, at) or kind.value != DEVICE:
            return None
        found = self.ok("cuPointerGetAttribute", ctypes.byref(start), RANGE_START, at)
        found = found and self.ok("cuPointerGetAttribute", ctypes.byref(size), RANGE_SIZE, at)
        return (start.value, size.value) if found else None

    def read(self, address: int, size: int) -> bytes | None:
        """Read device memory."""
        buffer = (ctypes.c_char * size)()
        done = self.ok("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return buffer.raw if done else None

    def synchronise(self) -> bool:
        """Wait for all work in the context."""
        return self.ok("cuCtxSynchronize")

    def capturing(self, stream: int) -> bool:
        """Whether a stream is capturing a graph; memory cannot be read then."""
        status = ctypes.c_int(0)
        return self.ok("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status)) and status.value != 0

    def params(self, function: int) -> list[tuple[int, int]]:
        """Offset and size of each parameter of a function."""
        for name in ("cuFuncGetParamInfo", "cuKernelGetParamInfo"):
            found: list[tuple[int, int]] = []
            offset, size = ctypes.c_size_t(), ctypes.c_size_t()
            while self.ok(
                name, ctypes.c_void_p(function), ctypes.c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)
            ):
                found.append((offset.value, size.value))
            if found:
                return found
        return []

    def module_of(self, function: int) -> tuple[int, int]:
        """The module and the library of a function; 0 where there is none."""
        module, library = ctypes.c_void_p(), ctypes.c_void_p()
        if not self.ok("cuFuncGetModule", ctypes.byref(module), ctypes.c_void_p(function)):
            plain = ctypes.c_void_p()
            if self.ok("cuKernelGetFunction", ctypes.byref(plain), ctypes.c_void_p(function)):
                self.ok("cuFuncGetModule", ctypes.byref(module), plain)
            self.ok("cuKernelGetLibrary", ctypes.byref(library), ctypes.c_void_p(function))
        return module.value or 0, library.value or 0

    def name_of(self, function: int) -> str:
        """The name of a function."""
        for call in ("cuFuncGetName", "cuKernelGetName"):
            name = ctypes.c_char_p()
            if self.ok(call, ctypes.byref(name), ctypes.c_void_p(function)) and name.value:
                return name.value.decode()
        return ""

    def library_module(self, library: int) -> int:
        """The module of a library in the current context."""
        module = ctypes.c_void_p()
        self.ok("cuLibraryGetModule", ctypes.byref(module), ctypes.c_void_p(library))
        return module.value or 0

    def variable(self, module: int, name: str) -> tuple[int, int] | None:
        """Address and size of a module variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        done = self.ok(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), ctypes.c_void_p(module), name.encode()
        )
        return (address.value, size.value) if done else None

    def write(self, address: int, held: bytes) -> bool:
        """Write device memory."""
        return self.ok("cuMemcpyHtoD_v2", ctypes.c_uint64(address), held, ctypes.c_size_t(len(held)))

    def graph_nodes(self, graph: int) -> list[int]:
        """The nodes of a graph, in dependency order."""
        at, count = ctypes.c_void_p(graph), ctypes.c_size_t()
        self.ok("cuGraphGetNodes", at, None, ctypes.byref(count))
        nodes = (ctypes.c_uint64 * count.value)()
        self.ok("cuGraphGetNodes", at, nodes, ctypes.byref(count))
        name = "cuGraphGetEdges_v2" if hasattr(self.cuda, "cuGraphGetEdges_v2") else "cuGraphGetEdges"
        data = name.endswith("_v2")
        self.ok(name, at, None, None, *[None] * data, ctypes.byref(count))
        before, after, about = ((ctypes.c_uint64 * count.value)() for _ in range(3))
        self.ok(name, at, before, after, *[about] * data, ctypes.byref(count))
        needs: dict[int, set[int]] = {int(node): set() for node in nodes}
        for earlier, later in zip(before, after, strict=True):
            needs[later].add(earlier)
        return list(graphlib.TopologicalSorter(needs).static_order())

    def graph_node_type(self, node: int) -> int:
        """The CUgraphNodeType of a node."""
        kind = ctypes.c_int(-1)
        self.ok("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        return kind.value

    def hardware(self) -> dict[str, Any]:
        """The GPU of the current context, as a case names it."""
        device, name = ctypes.c_int(), (ctypes.c_char * 100)()
        self.ok("cuCtxGetDevice", ctypes.byref(device))
        self.ok("cuDeviceGetName", name, 100, device)
        major, minor, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.ok("cuDeviceGetAttribute", ctypes.byref(major), MAJOR, device)
        self.ok("cuDeviceGetAttribute", ctypes.byref(minor), MINOR, device)
        self.ok("cuDriverGetVersion", ctypes.byref(version))
        return {
            "gpu": name.value.decode(),
            "driver": driver_version(),
            "sm": f"sm_{major.value}{minor.value}",
            "launches": 1,
        }


def driver_version() -> str:
    """The version of the kernel driver, in NVIDIA's numbering."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as stream:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", stream.read())
    except OSError:
        return ""
    return found[1] if found else ""
