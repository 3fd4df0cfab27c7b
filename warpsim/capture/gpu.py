"""The GPU's driver: calls that a recording makes itself, which are not recorded, and calls of the program, as CUPTI reports them
with their arguments.

The driver reports every call to CUPTI, no matter who makes it or how the caller got the function's address, so nothing
has to be patched. CUPTI comes with the CUDA toolkit and with PyTorch and JAX.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import graphlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from warpsim.errors import LaunchError
from warpsim.types import JsonObject

u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
MEMORY_TYPE, RANGE_START, RANGE_SIZE = 2, 11, 12
HOST, DEVICE = 1, 2
MAJOR, MINOR = 75, 76


class Driver:
    """libcuda."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def ok(self, name: str, *args: object) -> bool:
        """Make a call; returns whether it succeeded."""
        return bool(getattr(self.cuda, name)(*args) == 0)

    def ask(self, name: str, *args: Any) -> list[Any]:
        """Make a call; returns what it stores where a type stands among its arguments, zeros if it fails."""
        cells = [arg() if isinstance(arg, type) else arg for arg in args]
        stored = [cell for cell, arg in zip(cells, args, strict=True) if isinstance(arg, type)]
        done = self.ok(name, *(ctypes.byref(cell) if cell in stored else cell for cell in cells))
        return [(cell.value or 0) if done else 0 for cell in stored]

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Start and size of the device allocation that contains an address."""
        if self.ask("cuPointerGetAttribute", u32, MEMORY_TYPE, u64(address)) != [DEVICE]:
            return None
        (start,) = self.ask("cuPointerGetAttribute", u64, RANGE_START, u64(address))
        (size,) = self.ask("cuPointerGetAttribute", u64, RANGE_SIZE, u64(address))
        return (start, size) if start and size else None

    def read(self, address: int, size: int) -> bytes | None:
        """Read device memory."""
        buffer = (ctypes.c_char * size)()
        return buffer.raw if self.ok("cuMemcpyDtoH_v2", buffer, u64(address), ctypes.c_size_t(size)) else None

    def write(self, address: int, held: bytes) -> bool:
        """Write device memory."""
        return self.ok("cuMemcpyHtoD_v2", u64(address), held, ctypes.c_size_t(len(held)))

    def synchronise(self) -> bool:
        """Wait for all work in the context."""
        return self.ok("cuCtxSynchronize")

    def capturing(self, stream: int) -> bool:
        """Whether a stream is capturing a graph; memory cannot be read then."""
        return self.ask("cuStreamIsCapturing", pointer(stream), ctypes.c_int) != [0]

    def params(self, function: int) -> list[tuple[int, int]]:
        """Offset and size of each parameter of a function."""
        for name in ("cuFuncGetParamInfo", "cuKernelGetParamInfo"):
            found: list[tuple[int, int]] = []
            while True:
                offset, size = self.ask(
                    name, pointer(function), ctypes.c_size_t(len(found)), ctypes.c_size_t, ctypes.c_size_t
                )
                if not size:
                    break
                found.append((offset, size))
            if found:
                return found
        return []

    def module_of(self, function: int) -> tuple[int, int]:
        """The module and the library of a function; 0 where there is none."""
        module, plain = pointer(), pointer()
        if self.ok("cuFuncGetModule", ctypes.byref(module), pointer(function)):
            return module.value or 0, 0
        if self.ok("cuKernelGetFunction", ctypes.byref(plain), pointer(function)):
            self.ok("cuFuncGetModule", ctypes.byref(module), plain)
        return module.value or 0, self.ask("cuKernelGetLibrary", pointer, pointer(function))[0]

    def name_of(self, function: int) -> str:
        """The name of a function."""
        for name in ("cuFuncGetName", "cuKernelGetName"):
            (found,) = self.ask(name, ctypes.c_char_p, pointer(function))
            if found:
                return str(found.decode())
        return ""

    def library_module(self, library: int) -> int:
        """The module of a library in the current context."""
        return int(self.ask("cuLibraryGetModule", pointer, pointer(library))[0])

    def variable(self, module: int, name: str) -> tuple[int, int] | None:
        """Address and size of a module variable."""
        address, size = self.ask("cuModuleGetGlobal_v2", u64, ctypes.c_size_t, pointer(module), name.encode())
        return (address, size) if address else None

    def graph_nodes(self, graph: int) -> list[int]:
        """The nodes of a graph, in dependency order."""
        at, count = pointer(graph), ctypes.c_size_t()
        self.ok("cuGraphGetNodes", at, None, ctypes.byref(count))
        nodes = (u64 * count.value)()
        self.ok("cuGraphGetNodes", at, nodes, ctypes.byref(count))
        name = "cuGraphGetEdges_v2" if hasattr(self.cuda, "cuGraphGetEdges_v2") else "cuGraphGetEdges"
        data = name.endswith("_v2")
        self.ok(name, at, None, None, *[None] * data, ctypes.byref(count))
        before, after, about = ((u64 * count.value)() for _ in range(3))
        self.ok(name, at, before, after, *[about] * data, ctypes.byref(count))
        needs: dict[int, set[int]] = {int(node): set() for node in nodes}
        for earlier, later in zip(before, after, strict=True):
            needs[later].add(earlier)
        return list(graphlib.TopologicalSorter(needs).static_order())

    def graph_node_type(self, node: int) -> int:
        """The CUgraphNodeType of a node."""
        kind = ctypes.c_int(-1)
        self.ok("cuGraphNodeGetType", pointer(node), ctypes.byref(kind))
        return kind.value

    def hardware(self) -> JsonObject:
        """The GPU of the current context, as a case names it."""
        device, name = ctypes.c_int(*self.ask("cuCtxGetDevice", ctypes.c_int)), (ctypes.c_char * 100)()
        self.ok("cuDeviceGetName", name, 100, device)
        (major,) = self.ask("cuDeviceGetAttribute", ctypes.c_int, MAJOR, device)
        (minor,) = self.ask("cuDeviceGetAttribute", ctypes.c_int, MINOR, device)
        return {"gpu": name.value.decode(), "driver": driver_version(), "sm": f"sm_{major}{minor}", "launches": 1}


def driver_version() -> str:
    """The version of the kernel driver, in NVIDIA's numbering."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as stream:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", stream.read())
    except OSError:
        return ""
    return found[1] if found else ""


# ---- CUPTI ----------------------------------------------------------------------------------------

ENTER, EXIT = 0, 1
DRIVER_API = 1


class CallbackData(ctypes.Structure):
    """CUpti_CallbackData (cupti_callbacks.h)."""

    _fields_ = [
        ("site", ctypes.c_int),
        ("function", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("result", ctypes.POINTER(ctypes.c_int)),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_uid", ctypes.c_uint32),
        ("correlation_data", ctypes.POINTER(ctypes.c_uint64)),
        ("correlation_id", ctypes.c_uint32),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(CallbackData))
Notify = Callable[[int, str, int, CallbackData], None]
"""Called with the site (`ENTER`, `EXIT`), the function's name without its suffix, the address of its arguments, and the
callback data."""


def candidates() -> Iterator[str]:
    """Possible places of CUPTI: libraries loaded by the process, Python packages, the toolkit."""
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        yield from sorted({line.split()[-1] for line in maps if "libcupti.so" in line})
    if named := os.environ.get("WARPSIM_CUPTI"):
        yield named
    for folder in sys.path:
        for pattern in ("nvidia/cu[0-9]*/lib/libcupti.so*", "nvidia/cuda_cupti/lib/libcupti.so*"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), reverse=True)
    for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        for inside in ("lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            yield from sorted(glob.glob(os.path.join(folder, inside, "libcupti.so*")), reverse=True)
    yield from ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


def library() -> ctypes.CDLL:
    """Load CUPTI."""
    tried = []
    for name in candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as problem:
            tried.append(str(problem))
    raise LaunchError(
        "CUPTI was not found; it comes with the CUDA toolkit, or with pip install nvidia-cuda-cupti; "
        f"WARPSIM_CUPTI names the library. {tried[-1] if tried else ''}"
    )


class Subscription:
    """Calls ``notify`` on entry to and exit from every driver function, until closed."""

    def __init__(self, notify: Notify) -> None:
        self.cupti, self.notify = library(), notify
        self._callback = CALLBACK(self._called)
        self._handle = ctypes.c_void_p()
        self._do("cuptiSubscribe", ctypes.byref(self._handle), self._callback, None)
        self._do("cuptiEnableDomain", ctypes.c_uint32(1), self._handle, ctypes.c_int(DRIVER_API))

    def _do(self, name: str, *args: object) -> None:
        status = getattr(self.cupti, name)(*args)
        if status:
            said = ctypes.c_char_p()
            self.cupti.cuptiGetResultString(status, ctypes.byref(said))
            text = (said.value or b"").decode(errors="replace")
            raise LaunchError(f"{name}: {text} ({status}); does a profiler use CUPTI in this process?")

    def _called(self, user: object, domain: int, number: int, data: object) -> None:
        if domain != DRIVER_API:
            return
        contents: CallbackData = data.contents  # type: ignore[attr-defined]
        name = (contents.function or b"").decode()
        for suffix in ("_ptsz", "_v2"):
            name = name.removesuffix(suffix)
        self.notify(contents.site, name, contents.params or 0, contents)

    def close(self) -> None:
        """Stop the callbacks."""
        if self._handle:
            self._do("cuptiUnsubscribe", self._handle)
            self._handle = ctypes.c_void_p()


PTX_INPUT = 1
COOPERATIVE, CLUSTER = 2, 4
"""CUlaunchAttributeID."""
END, POINTER, SIZE = 0, 1, 2
"""Keys of a launch's `extra` array."""


def _structure(name: str, **fields: object) -> type[Any]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


_DIMENSIONS = {"gx": u32, "gy": u32, "gz": u32, "bx": u32, "by": u32, "bz": u32, "shared": u32}
_SHAPE = {**_DIMENSIONS, "stream": pointer}

Launch = _structure("Launch", f=pointer, **_SHAPE, params=pointer, extra=pointer)
Config = _structure("Config", **_SHAPE, attributes=pointer, count=u32)
Attribute = _structure("Attribute", kind=u32, padding=u32, value=u32 * 16)
LaunchEx = _structure("LaunchEx", config=ctypes.POINTER(Config), f=pointer, params=pointer, extra=pointer)
Load = _structure("Load", out=ctypes.POINTER(pointer), image=pointer)
LinkAdd = _structure("LinkAdd", state=pointer, kind=u32, data=pointer, size=ctypes.c_size_t)
LinkComplete = _structure(
    "LinkComplete", state=pointer, out=ctypes.POINTER(pointer), size=ctypes.POINTER(ctypes.c_size_t)
)
_MAP = {"map": pointer, "kind": u32, "rank": u32, "address": pointer, "dims": pointer, "strides": pointer}
_ENDS = {"interleave": u32, "swizzle": u32, "l2": u32, "fill": u32}
Tiled = _structure("Tiled", **_MAP, box=pointer, steps=pointer, **_ENDS)
Im2col = _structure("Im2col", **_MAP, lower=pointer, upper=pointer, channels=u32, pixels=u32, steps=pointer, **_ENDS)

Instantiate = _structure("Instantiate", out=ctypes.POINTER(pointer), graph=pointer)
GraphLaunch = _structure("GraphLaunch", executable=pointer, stream=pointer)
GraphUpdate = _structure("GraphUpdate", executable=pointer, graph=pointer)
NodeChange = _structure("NodeChange", executable=pointer, node=pointer, params=pointer)
KernelNode = _structure(
    "KernelNode", f=pointer, **_DIMENSIONS, params=pointer, extra=pointer, kernel=pointer, context=pointer
)
Memset = _structure(
    "Memset", address=u64, pitch=ctypes.c_size_t, value=u32, size=u32, width=ctypes.c_size_t, height=ctypes.c_size_t
)


def attributes_of(config: Any) -> tuple[tuple[int, int, int] | None, bool]:
    """The cluster of a launch, and whether it is cooperative, from its attributes."""
    cluster, cooperative = None, False
    for index in range(config.count):
        at = config.attributes + 72 * index
        kind = ctypes.c_int.from_address(at).value
        if kind == CLUSTER:
            x, y, z = (u32 * 3).from_address(at + 8)
            cluster = (int(x), int(y), int(z))
        elif kind == COOPERATIVE:
            cooperative = bool(ctypes.c_int.from_address(at + 8).value)
    return cluster, cooperative


def params_of(layout: list[tuple[int, int]], params: int | None, extra: int | None) -> list[bytes]:
    """The parameters' bytes, from an array of pointers or from a packed buffer."""
    if params:
        places: Any = (pointer * len(layout)).from_address(params) if layout else []
        return [ctypes.string_at(place, size) for place, (_, size) in zip(places, layout, strict=True)]
    packed, at = b"", 0
    address, size = 0, 0
    while extra and (word := u64.from_address(extra + 16 * at).value) != END:
        value = u64.from_address(extra + 16 * at + 8).value
        address, size = (value, size) if word == POINTER else (address, u64.from_address(value).value)
        at += 1
    packed = ctypes.string_at(address, size) if address else b""
    return [packed[offset : offset + width] for offset, width in layout]
