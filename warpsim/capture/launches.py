"""Launches as the driver sees them: their images and PTX, their arguments, and the memory that they can reach, before and
after."""

from __future__ import annotations

import ctypes
import fnmatch
import gc
import glob
import os
import re
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from warpsim.capture.gpu import (
    ENTER,
    PTX_INPUT,
    CallbackData,
    Driver,
    GraphLaunch,
    GraphUpdate,
    Im2col,
    Instantiate,
    Launch,
    LaunchEx,
    LinkAdd,
    LinkComplete,
    Load,
    NodeChange,
    Subscription,
    Tiled,
    attributes_of,
    params_of,
    u32,
    u64,
)
from warpsim.capture.graphs import Graphs, Kernel, Node, Refused
from warpsim.host import sources
from warpsim.records import define
from warpsim.types import JsonObject

LARGEST = 1 << 28
"""Largest allocation that is copied, and largest image that is read, in bytes."""
LOWEST = 1 << 20
"""Smaller numbers are not addresses."""


# ---- images ----------------------------------------------------------------------------------------

ELF, FATBIN, WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"
ENTRY = re.compile(r"^\s*(?:\.\w+\s+)*\.entry\s+([\w$%.]+)", re.M)
VARIABLE = re.compile(
    r"^\.(?:visible|weak|common|extern)?\s*\.?(?:global|const)\s+(?:\.\w+\s+(?:\d+\s+)?)*([A-Za-z_$%][\w$]*)\s*(?:\[|=|;)",
    re.M,
)


def image_at(address: int) -> bytes:
    """The image at an address: PTX text, a cubin, or a fatbin; empty for anything else."""
    head = ctypes.string_at(address, 4)
    if head == WRAPPER:
        return image_at(ctypes.c_uint64.from_address(address + 8).value)
    if head == FATBIN:
        _, _, header, size = struct.unpack("<4sHHQ", ctypes.string_at(address, 16))
        return ctypes.string_at(address, header + size) if size < LARGEST else b""
    if head == ELF:
        raw = ctypes.string_at(address, 64)
        (phoff, shoff) = struct.unpack_from("<QQ", raw, 32)
        phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", raw, 54)
        size = max(shoff + shsize * shnum, phoff + phsize * phnum)
        return ctypes.string_at(address, size) if size < LARGEST else b""
    return ctypes.string_at(address)


class Sources:
    """The PTX that a process has compiled or loaded."""

    def __init__(self) -> None:
        self.modules: dict[int, bytes] = {}
        self.libraries: dict[int, bytes] = {}
        self.linked: dict[int, list[str]] = {}
        self.cubins: dict[bytes, str] = {}
        """Cubins made by a linker, by their bytes, and the PTX that they were made from."""
        self.texts: list[str] = []
        self.notes: list[str] = []
        """Why PTX could not be obtained."""

    def see(self, text: str | bytes) -> None:
        """Note PTX that the process has produced."""
        found = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        found = found.rstrip("\0")
        if ".entry" in found and found not in self.texts:
            self.texts.append(found)

    def ptx(self, image: bytes, name: str, sm: int) -> str | None:
        """The PTX of a kernel launched from an image, on a GPU of capability ``sm`` (times ten)."""
        if image[:4] not in (ELF, FATBIN) and image:
            self.see(image)
            return image.decode("utf-8", "replace").rstrip("\0")
        for text in [
            *_in_fatbin(image, sm, self.notes),
            *([self.cubins[image]] if image in self.cubins else []),
            *_in_cache(image),
        ]:
            if name in ENTRY.findall(text):
                return text
        if (seen := self._seen(name)) is None:
            for text in _from_numba():
                self.see(text)
            seen = self._seen(name)
        return seen

    def _seen(self, name: str) -> str | None:
        return next((text for text in reversed(self.texts) if name in ENTRY.findall(text)), None)


def _from_numba() -> Iterator[str]:
    """The PTX of numba's kernels, because numba passes machine code to the driver."""
    library: Any = getattr(sys.modules.get("numba.cuda.codegen"), "CUDACodeLibrary", ())
    for code in gc.get_objects() if library else []:
        if isinstance(code, library):
            try:
                yield code.get_asm_str()
            except Exception:  # another version of the library, or an incomplete one
                continue


def _in_fatbin(image: bytes, sm: int, notes: list[str]) -> Iterator[str]:
    if image[:4] != FATBIN:
        return
    for unit in sources.units(image):
        for entry in sorted([e for e in unit if e.arch <= sm], key=lambda e: -e.arch):
            try:
                yield entry.text().decode("utf-8", "replace").rstrip("\0")
            except (sources.Packed, ValueError) as problem:
                notes.append(f"a fatbin holds PTX that cannot be unpacked: {problem}")


def _in_cache(image: bytes) -> Iterator[str]:
    """The PTX that Triton caches beside a cubin."""
    if image[:4] != ELF:
        return
    home = os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~/.triton/cache")
    for path in glob.glob(os.path.join(home, "*", "*.cubin")):
        if os.path.getsize(path) != len(image):
            continue
        with open(path, "rb") as stream:
            if stream.read() != image:
                continue
        text = path.removesuffix(".cubin") + ".ptx"
        if os.path.exists(text):
            with open(text, encoding="utf-8", errors="replace") as source:
                yield source.read()


# ---- launches --------------------------------------------------------------------------------------


@define(eq=False)
class Captured:
    """A launch. ``memory`` maps the start of an allocation to its bytes before and after; ``variables`` are the
    module's variables by name; ``maps`` are the tensor maps among the parameters, by parameter."""

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
    maps: dict[int, JsonObject] = attrs.field(factory=dict)
    hardware: JsonObject = attrs.field(factory=dict)
    places: dict[str, tuple[int, int]] = attrs.field(factory=dict)


class Recorder:
    """Listens to the driver while it is open."""

    def __init__(self, kernels: str = "*", most: int | None = None, largest: int = LARGEST) -> None:
        self.kernels, self.most, self.largest = kernels, most, largest
        self.driver, self.sources = Driver(), Sources()
        self.graphs = Graphs(self.driver)
        self.launches: list[Captured] = []
        self.notes: list[str] = []
        self.tensor_maps: dict[bytes, JsonObject] = {}
        self._local = threading.local()
        self._subscription: Subscription | None = None

    def open(self) -> None:
        """Start listening."""
        self._subscription = Subscription(self._called)

    def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def note(self, text: str) -> None:
        """Say once why something was not recorded."""
        if text not in self.notes:
            self.notes.append(text)

    def _called(self, site: int, name: str, params: int, data: CallbackData) -> None:
        done, handler = _DONE.get(name), _HANDLERS.get(name)
        if (done is None and handler is None) or getattr(self._local, "busy", False):
            return
        self._local.busy = True
        try:
            if handler is not None:
                handler(self, site, params, data)
            elif done is not None and site != ENTER and data.result and data.result[0] == 0:
                done(self, params, data)
        except Exception as problem:  # exceptions must not propagate into the driver
            self.note(f"{name}: {type(problem).__name__}: {problem}")
        finally:
            self._local.busy = False

    # ---- images ------------------------------------------------------------------------------

    def _load(self, params: int, data: CallbackData) -> None:
        given = Load.from_address(params)
        if given.out:
            name = (data.function or b"").decode()
            kept = self.sources.libraries if "Library" in name else self.sources.modules
            if "File" in name or name == "cuModuleLoad":
                with open(ctypes.string_at(given.image), "rb") as stream:
                    image = stream.read()
            else:
                image = image_at(given.image)
            kept[given.out[0] or 0] = image
            if image[:4] not in (ELF, FATBIN):
                self.sources.see(image)

    def _link_add(self, site: int, params: int, data: CallbackData) -> None:
        if site == ENTER:
            given = LinkAdd.from_address(params)
            if given.kind == PTX_INPUT:
                text = ctypes.string_at(given.data, given.size).decode("utf-8", "replace")
                self.sources.see(text)
                self.sources.linked.setdefault(given.state or 0, []).append(text.rstrip("\0"))

    def _link_complete(self, params: int, data: CallbackData) -> None:
        given = LinkComplete.from_address(params)
        texts = self.sources.linked.pop(given.state or 0, [])
        if texts:
            self.sources.cubins[image_at(given.out[0])] = texts[0]

    # ---- tensor maps -------------------------------------------------------------------------

    def _encode(self, params: int, data: CallbackData) -> None:
        im2col = (data.function or b"").startswith(b"cuTensorMapEncodeIm2col")
        given = (Im2col if im2col else Tiled).from_address(params)
        n = given.rank

        def values(address: int, kind: Any, count: int) -> list[int]:
            return [int(v) for v in (kind * count).from_address(address)] if count else []

        found: JsonObject = {
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
                self._after(launch, launched=bool(data.result) and data.result[0] == 0)
            return
        stack.append(None)
        name = (data.function or b"").decode()
        if name.startswith("cuLaunchKernelEx"):
            given = LaunchEx.from_address(params)
            shape = given.config[0]
            cluster, cooperative = attributes_of(shape)
        else:
            given = shape = Launch.from_address(params)
            cluster, cooperative = None, "Cooperative" in name
        extra = 0 if "Cooperative" in name else given.extra
        if not self._room(len(stack)) or self.driver.capturing(shape.stream or 0):
            return
        symbol = (data.symbol or b"").decode()
        launch = self._captured(given.f, shape, cluster, given.params, extra, symbol, cooperative=cooperative)
        if launch is not None and self.driver.synchronise() and self._before(launch):
            stack[-1] = launch

    def _room(self, more: int) -> bool:
        """Whether another launch is wanted, after those recorded and ``more`` in progress."""
        return self.most is None or len(self.launches) + more <= self.most

    def _captured(
        self,
        function: int,
        shape: Any,
        cluster: tuple[int, int, int] | None,
        params: int | None,
        extra: int | None,
        symbol: str = "",
        *,
        cooperative: bool,
    ) -> Captured | None:
        """A launch without its memory; None if it is not wanted or has no PTX."""
        symbol = symbol or self.driver.name_of(function)
        if not fnmatch.fnmatchcase(symbol, self.kernels):
            return None
        module, library = self.driver.module_of(function)
        image = self.sources.modules.get(module, b"") or self.sources.libraries.get(library, b"")
        if not image:
            by_module = {self.driver.library_module(at): held for at, held in self.sources.libraries.items()}
            image = by_module.get(module, b"")
        hardware = self.driver.hardware()
        ptx = self.sources.ptx(image, symbol, int(hardware["sm"][3:]))
        if ptx is None:
            self.note(f"{symbol}: no PTX found (it was loaded as machine code only)")
            return None
        raw = params_of(self.driver.params(function), params, extra)
        grid, block = (shape.gx, shape.gy, shape.gz), (shape.bx, shape.by, shape.bz)
        launch = Captured(symbol, ptx, grid, block, shape.shared, cluster, cooperative, raw, hardware=hardware)
        for name in dict.fromkeys(VARIABLE.findall(ptx)):
            place = self.driver.variable(module, name)
            if place and place[1]:
                launch.places[name] = place
        return launch

    def _before(self, launch: Captured) -> bool:
        """Copy the memory that the launch can reach; False if it is too much."""
        for index, raw in enumerate(launch.params):
            if raw in self.tensor_maps:
                launch.maps[index] = self.tensor_maps[raw]
        for address in self._addresses(launch.params):
            self._reach(launch, address)
        for name, place in launch.places.items():
            held = self.driver.read(*place)
            if held is not None:
                launch.variables[name] = [held]
        if None in launch.memory.values():
            self.note(f"{launch.name}: it can reach an allocation of more than {self.largest} bytes")
            return False
        return True

    def _addresses(self, params: list[bytes]) -> Iterator[int]:
        """Words in parameters that may be pointers, including those in tensor maps."""
        for raw in params:
            if raw in self.tensor_maps:
                yield self.tensor_maps[raw]["address"]
            else:
                yield from (int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw) - 7, 8))

    def _reach(self, launch: Captured, address: int) -> None:
        found = self.driver.allocation(address) if address >= LOWEST else None
        if found is None or found[0] in launch.memory:
            return
        start, size = found
        held = self.driver.read(start, size) if size <= self.largest else None
        launch.memory[start] = None if held is None else [held]  # type: ignore[assignment]

    def _after(self, launch: Captured, *, launched: bool) -> None:
        if not launched or not self.driver.synchronise():
            self.note(f"{launch.name}: the launch failed")
            return
        for start, held in launch.memory.items():
            held.append(self.driver.read(start, len(held[0])) or held[0])
        for name, held in launch.variables.items():
            held.append(self.driver.read(*launch.places[name]) or held[0])
        self.launches.append(launch)

    # ---- graphs ------------------------------------------------------------------------------

    def _instantiate(self, params: int, data: CallbackData) -> None:
        given = Instantiate.from_address(params)
        self.graphs.made(given.out[0] or 0, given.graph or 0)

    def _update(self, params: int, data: CallbackData) -> None:
        given = GraphUpdate.from_address(params)
        self.graphs.made(given.executable or 0, given.graph or 0)

    def _change(self, params: int, data: CallbackData) -> None:
        given, name = NodeChange.from_address(params), (data.function or b"").decode()
        if name.startswith("cuGraphExecKernelNodeSetParams"):
            self.graphs.kernel_changed(given.executable or 0, given.node or 0, given.params or 0)
        else:
            self.graphs.changed(given.executable or 0, "a node")

    def _drop(self, site: int, params: int, data: CallbackData) -> None:
        if site == ENTER:
            self.graphs.dropped(GraphLaunch.from_address(params).executable or 0)

    def _graph_launch(self, site: int, params: int, data: CallbackData) -> None:
        """Run the nodes of a graph one by one, record its kernels, and restore memory before the graph itself runs."""
        given = GraphLaunch.from_address(params)
        if site != ENTER or not self._room(1) or self.driver.capturing(given.stream or 0):
            return
        try:
            nodes = self.graphs.nodes(given.executable or 0)
            wanted = self._wanted(nodes)
            if not wanted or not self.driver.synchronise():
                return
            saved = self._saved(nodes, wanted)
        except Refused as why:
            self.note(f"a graph was not recorded: {why}")
            return
        for number, node in enumerate(nodes):
            launch = wanted.get(number)
            ready = launch is not None and self._before(launch)
            if not node.run() or not self.driver.synchronise():
                self.note("a graph was not recorded: one of its nodes failed when run alone")
                break
            if launch is not None and ready:
                self._after(launch, launched=True)
        for address, held in saved.items():
            self.driver.write(address, held)

    def _wanted(self, nodes: list[Node]) -> dict[int, Captured]:
        wanted: dict[int, Captured] = {}
        for number, node in enumerate(nodes):
            if isinstance(node, Kernel) and self._room(len(wanted) + 1):
                given = node.given
                launch = self._captured(
                    node.function, given, node.cluster, given.params, given.extra, cooperative=node.cooperative
                )
                if launch is not None:
                    wanted[number] = launch
        return wanted

    def _saved(self, nodes: list[Node], wanted: dict[int, Captured]) -> dict[int, bytes]:
        """The contents of all memory that nodes may write, by address."""
        saved: dict[int, bytes] = {}
        for node in nodes:
            places = node.places()
            if isinstance(node, Kernel):
                layout = self.driver.params(node.function)
                places = self._addresses(params_of(layout, node.given.params, node.given.extra))
            for address in places:
                found = self.driver.allocation(address) if address >= LOWEST else None
                if found is not None and found[0] not in saved:
                    held = self.driver.read(*found) if found[1] <= self.largest else None
                    if held is None:
                        raise Refused(f"it can reach an allocation of more than {self.largest} bytes")
                    saved[found[0]] = held
        for launch in wanted.values():
            for address, size in launch.places.values():
                held = self.driver.read(address, size)
                if held is not None:
                    saved[address] = held
        return saved


_HANDLERS = {
    **dict.fromkeys(("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"), Recorder._launch),
    "cuLinkAddData": Recorder._link_add,
    "cuGraphExecDestroy": Recorder._drop,
    "cuGraphLaunch": Recorder._graph_launch,
}
"""What looks at a call before it and after it."""
_DONE = {
    **dict.fromkeys((f"cuModuleLoad{how}" for how in ("", "Data", "DataEx", "FatBinary")), Recorder._load),
    **dict.fromkeys(("cuLibraryLoadData", "cuLibraryLoadFromFile"), Recorder._load),
    "cuLinkComplete": Recorder._link_complete,
    **dict.fromkeys((f"cuGraphInstantiate{how}" for how in ("", "WithFlags", "WithParams")), Recorder._instantiate),
    "cuGraphExecUpdate": Recorder._update,
    **dict.fromkeys(
        (
            f"cuGraphExec{kind}NodeSetParams"
            for kind in ("Kernel", "Memcpy", "Memset", "Host", "ChildGraph", "BatchMemOp", "")
        ),
        Recorder._change,
    ),
    "cuGraphNodeSetEnabled": Recorder._change,
    **dict.fromkeys(("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"), Recorder._encode),
}
"""What looks at a call that the driver has done."""
