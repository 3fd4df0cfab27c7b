"""Arguments of the driver's functions, and the structures that they point to, as ctypes structures (cuda.h); two are
read by hand.
"""

from __future__ import annotations

import ctypes
from typing import Any

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
