"""CUPTI's callback API through ctypes: reports calls of driver functions with their arguments.

The driver reports every call to CUPTI, no matter who makes it or how the caller got the function's address, so nothing
has to be patched. CUPTI comes with the CUDA toolkit and with PyTorch and JAX.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from warpsim.errors import LaunchError

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
Told = Callable[[int, str, int, CallbackData], None]
"""Called with the site (`ENTER`, `EXIT`), the function's name without its suffix, the address of its arguments, and the
callback data.
"""


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
    """Load CUPTI.

    Raises:
        LaunchError: it cannot be found.
    """
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
    """Calls ``told`` on entry to and exit from every driver function, until closed."""

    def __init__(self, told: Told) -> None:
        self.cupti, self.told = library(), told
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
        self.told(contents.site, name, contents.params or 0, contents)

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


def _structure(name: str, **fields: Any) -> type[Any]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
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
