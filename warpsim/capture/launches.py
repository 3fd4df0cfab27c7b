"""Launches as the driver sees them: what each was given, and the memory that it can reach before and after."""

from __future__ import annotations

import ctypes
import fnmatch
import threading
from typing import Any

import attrs

from warpsim.capture.cupti import ENTER, CallbackData, Subscription
from warpsim.capture.gpu import Driver
from warpsim.capture.images import VARIABLE, Sources, image_at

PTX_INPUT = 1
COOPERATIVE, CLUSTER = 2, 4
END, POINTER, SIZE = 0, 1, 2
LARGEST = 1 << 28
"""Bytes of an allocation that is copied."""


def _structure(name: str, **fields: Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
_SHAPE = {"gx": u32, "gy": u32, "gz": u32, "bx": u32, "by": u32, "bz": u32, "shared": u32, "stream": pointer}
Launch = _structure("Launch", f=pointer, **_SHAPE, params=pointer, extra=pointer)
Config = _structure("Config", **_SHAPE, attributes=pointer, count=u32)
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


@attrs.define(eq=False)
class Captured:
    """A launch. ``memory`` maps the start of an allocation to its bytes before and after; ``variables`` are those of the
    module by name; ``maps`` are the tensor maps among the parameters, by parameter."""

    name: str
    ptx: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    cluster: tuple[int, int, int] | None
    cooperative: bool
    params: list[bytes]
    memory: dict[int, list[bytes]] = attrs.field(factory=dict)
    variables: dict[str, list[bytes]] = attrs.field(factory=dict)
    maps: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    hardware: dict[str, Any] = attrs.field(factory=dict)
    _places: dict[str, tuple[int, int]] = attrs.field(factory=dict)


class Recorder:
    """Listens at the driver while it is open."""

    def __init__(self, kernels: str = "*", most: int | None = None, largest: int = LARGEST) -> None:
        self.kernels, self.most, self.largest = kernels, most, largest
        self.driver, self.sources = Driver(), Sources()
        self.launches: list[Captured] = []
        self.notes: list[str] = []
        self.tensor_maps: dict[bytes, dict[str, Any]] = {}
        self._local = threading.local()
        self._subscription: Subscription | None = None

    def open(self) -> None:
        """Begin to listen."""
        self._subscription = Subscription(self._told)

    def close(self) -> None:
        """End."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def note(self, text: str) -> None:
        """Say once why something was not recorded."""
        if text not in self.notes:
            self.notes.append(text)

    def _told(self, site: int, name: str, params: int, data: CallbackData) -> None:
        handler = _HANDLERS.get(name)
        if handler is None or getattr(self._local, "busy", False):
            return
        self._local.busy = True
        try:
            handler(self, site, params, data)
        except Exception as problem:  # must not go on into the driver
            self.note(f"{name}: {type(problem).__name__}: {problem}")
        finally:
            self._local.busy = False

    # ---- images ------------------------------------------------------------------------------

    def _load(self, site: int, params: int, data: CallbackData) -> None:
        if site == ENTER:
            return
        given = Load.from_address(params)
        if data.result and data.result[0] == 0 and given.out:
            name = (data.function or b"").decode()
            kept = self.sources.libraries if "Library" in name else self.sources.modules
            if "File" in name or name == "cuModuleLoad":
                with open(ctypes.string_at(given.image), "rb") as stream:
                    image = stream.read()
            else:
                image = image_at(given.image)
            kept[given.out[0] or 0] = image
            if image[:4] not in (b"\x7fELF", b"\x50\xed\x55\xba"):
                self.sources.see(image)

    def _link_add(self, site: int, params: int, data: CallbackData) -> None:
        if site == ENTER:
            given = LinkAdd.from_address(params)
            if given.kind == PTX_INPUT:
                text = ctypes.string_at(given.data, given.size).decode("utf-8", "replace")
                self.sources.see(text)
                self.sources.linked.setdefault(given.state or 0, []).append(text.rstrip("\0"))

    def _link_complete(self, site: int, params: int, data: CallbackData) -> None:
        if site != ENTER and data.result and data.result[0] == 0:
            given = LinkComplete.from_address(params)
            texts = self.sources.linked.pop(given.state or 0, [])
            if texts:
                self.sources.cubins[image_at(given.out[0])] = texts[0]

    # ---- tensor maps -------------------------------------------------------------------------

    def _encode(self, site: int, params: int, data: CallbackData) -> None:
        if site == ENTER or not data.result or data.result[0] != 0:
            return
        im2col = (data.function or b"").startswith(b"cuTensorMapEncodeIm2col")
        given = (Im2col if im2col else Tiled).from_address(params)
        n = given.rank

        def values(address: int, kind: Any, count: int) -> list[int]:
            return [int(v) for v in (kind * count).from_address(address)] if count else []

        found: dict[str, Any] = {
            "address": given.address or 0,
            "data_type": given.kind,
            "rank": n,
            "global_dim": values(given.dims, u64, n),
            "global_strides_bytes": values(given.strides, u64, n - 1),
            "element_strides": values(given.steps, u32, n),
            "interleave": given.interleave,
            "swizzle": given.swizzle,
            "l2_promotion": given.l2,
            "oob_fill": given.fill,
        }
        if im2col:
            found["im2col"] = {
                "pixel_box_lower_corner": values(given.lower, ctypes.c_int, n - 2),
                "pixel_box_upper_corner": values(given.upper, ctypes.c_int, n - 2),
                "channels_per_pixel": given.channels,
                "pixels_per_column": given.pixels,
            }
        else:
            found["box_dim"] = values(given.box, u32, n)
        self.tensor_maps[ctypes.string_at(given.map, 128)] = found

    # ---- launches ----------------------------------------------------------------------------

    def _launch(self, site: int, params: int, data: CallbackData) -> None:
        stack = self._local.__dict__.setdefault("stack", [])
        if site != ENTER:
            launch = stack.pop() if stack else None
            if launch is not None:
                self._after(launch, bool(data.result) and data.result[0] == 0)
            return
        stack.append(None)
        name = (data.function or b"").decode()
        if name.startswith("cuLaunchKernelEx"):
            given = LaunchEx.from_address(params)
            shape = given.config[0]
            cluster, cooperative = _attributes(shape)
        else:
            given = shape = Launch.from_address(params)
            cluster, cooperative = None, "Cooperative" in name
        extra = 0 if "Cooperative" in name else given.extra
        if self.most is not None and len(self.launches) + len(stack) > self.most:
            return
        if self.driver.capturing(shape.stream or 0):
            self.note("launches of a stream that records a graph cannot be seen")
            return
        symbol = (data.symbol or b"").decode() or self.driver.name_of(given.f)
        if not fnmatch.fnmatchcase(symbol, self.kernels):
            return
        module, library = self.driver.module_of(given.f)
        image = self.sources.modules.get(module, b"") or self.sources.libraries.get(library, b"")
        if not image:
            by_module = {self.driver.library_module(at): held for at, held in self.sources.libraries.items()}
            image = by_module.get(module, b"")
        hardware = self.driver.hardware()
        ptx = self.sources.ptx(image, symbol, int(hardware["sm"][3:]))
        if ptx is None:
            self.note(f"{symbol}: its PTX is nowhere to be found (loaded as machine code alone)")
            return
        launch = Captured(
            symbol,
            ptx,
            (shape.gx, shape.gy, shape.gz),
            (shape.bx, shape.by, shape.bz),
            shape.shared,
            cluster,
            cooperative,
            _params(self.driver.params(given.f), given.params, extra),
            hardware=hardware,
        )
        if self._before(launch, module):
            stack[-1] = launch

    def _before(self, launch: Captured, module: int) -> bool:
        """Copy what the launch can reach; False where that is too much."""
        if not self.driver.synchronise():
            return False
        for index, raw in enumerate(launch.params):
            if raw in self.tensor_maps:
                launch.maps[index] = self.tensor_maps[raw]
                self._reach(launch, self.tensor_maps[raw]["address"])
                continue
            for at in range(0, len(raw) - 7, 8):
                self._reach(launch, int.from_bytes(raw[at : at + 8], "little"))
        for name in dict.fromkeys(VARIABLE.findall(launch.ptx)):
            place = self.driver.variable(module, name)
            held = self.driver.read(*place) if place and place[1] else None
            if place is not None and held is not None:
                launch._places[name] = place
                launch.variables[name] = [held]
        if None in launch.memory.values():
            self.note(f"{launch.name}: it was given more than {self.largest} bytes of memory")
            return False
        return True

    def _reach(self, launch: Captured, address: int) -> None:
        found = self.driver.allocation(address) if address >= 1 << 20 else None
        if found is None or found[0] in launch.memory:
            return
        start, size = found
        held = self.driver.read(start, size) if size <= self.largest else None
        launch.memory[start] = None if held is None else [held]  # type: ignore[assignment]

    def _after(self, launch: Captured, launched: bool) -> None:
        if not launched or not self.driver.synchronise():
            self.note(f"{launch.name}: the launch failed")
            return
        for start, held in launch.memory.items():
            held.append(self.driver.read(start, len(held[0])) or held[0])
        for name, (address, size) in launch._places.items():
            launch.variables[name].append(self.driver.read(address, size) or launch.variables[name][0])
        self.launches.append(launch)


def _attributes(config: Any) -> tuple[tuple[int, int, int] | None, bool]:
    """The cluster and whether the launch is cooperative, from the attributes of a launch."""
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


def _params(layout: list[tuple[int, int]], params: int | None, extra: int | None) -> list[bytes]:
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


_HANDLERS = {
    **dict.fromkeys(("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"), Recorder._launch),
    **dict.fromkeys(
        ("cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"), Recorder._load
    ),
    **dict.fromkeys(("cuLibraryLoadData", "cuLibraryLoadFromFile"), Recorder._load),
    "cuLinkAddData": Recorder._link_add,
    "cuLinkComplete": Recorder._link_complete,
    **dict.fromkeys(("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"), Recorder._encode),
}
