"""The driver's modules, functions and module variables, its linker, and the PTX in images: text, a fatbin, the wrapper that nvcc
registers, or linked PTX."""

from __future__ import annotations

import os
import re
import struct
import threading
from typing import Any, Protocol

import attrs

from warpsim.driver.memory import Memory
from warpsim.driver.raw import bytes_at, string_at
from warpsim.driver.results import DriverError, Report, Result, of_module, require
from warpsim.errors import LaunchError, PtxError
from warpsim.host import sources
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel, Module, load_text
from warpsim.host.launch_options import Keywords
from warpsim.ptx.words import TILE_IR
from warpsim.records import define
from warpsim.types import StateSpace

DEFAULT_SHARED = 48 << 10
"""Dynamic shared memory that a launch may use without opting in to more."""
REGISTERS = 32
"""Reported registers per thread, because PTX does not determine them."""


# ---- images ----------------------------------------------------------------------------------------

ELF, ARCHIVE = b"\x7fELF", b"!<arch>\n"
WRAPPER = 0x466243B1
"""__fatBinC_Wrapper_t: magic, version, the fatbin's address, and one more pointer."""
LARGEST = 1 << 30
GENCODE = "nvcc -gencode arch=compute_80,code=compute_80"
ADVICE = f"compile with PTX in the fatbin: {GENCODE} (or -arch=sm_80, which keeps both)"
_TARGET = re.compile(rb"\.target\s+(sm_(\d+)([af]?))")


class MachineCode(DriverError):
    """An image that holds no PTX for any GPU."""

    def __init__(self, what: str) -> None:
        super().__init__(Result.NO_BINARY_FOR_GPU, what)


def image_at(address: int) -> bytes:
    """Read an image from memory, as long as its header says."""
    require(address, "the image is null")
    magic, _, data = struct.unpack("<IIQ", bytes_at(address, 16))
    if magic == WRAPPER:
        return image_at(data)
    head = bytes_at(address, 4)
    if head == sources.MAGIC:
        _, _, header, size = struct.unpack("<4sHHQ", bytes_at(address, 16))
        return bytes_at(address, header + size)
    if head == ELF:
        return bytes_at(address, 64)
    return string_at(address)


def ptx_of(image: bytes, sm: int) -> bytes:
    """The PTX of an image for a GPU (its capability times ten).

    Raises:
        DriverError: the image contains none.
    """
    if image[:4] == sources.MAGIC:
        return _of_fatbin(image, sm)
    if image[:4] == ELF:
        raise MachineCode(f"this is a cubin: machine code, not PTX; {ADVICE}")
    text = image.rstrip(b"\0")
    require(b".version" in text, "the image is neither PTX nor a fatbin", Result.INVALID_IMAGE)
    return text


def _of_fatbin(image: bytes, sm: int) -> bytes:
    entries = [entry for unit in sources.units(image) for entry in unit]
    if not entries:
        raise MachineCode(f"the fatbin holds machine code and no PTX; {ADVICE}")
    text = _newest(entries, sm)
    if text is not None:
        return text
    have = ", ".join(f"compute_{entry.arch}" for entry in entries)
    raise DriverError(Result.NO_BINARY_FOR_GPU, f"the fatbin holds PTX for {have}; the GPU is sm_{sm} (--device)")


def _newest(entries: list[sources.Entry], sm: int) -> bytes | None:
    for entry in sorted(entries, key=lambda e: e.order, reverse=True):
        try:
            text = entry.text().rstrip(b"\0")
        except sources.Packed as problem:
            raise DriverError(Result.NO_BINARY_FOR_GPU, str(problem)) from None
        if runs(text, sm):
            return text
    return None


def members(archive: bytes, sm: int) -> list[bytes]:
    """The PTX of each object in a static library that has some for a GPU. Objects of machine code are passed over."""
    texts = (_newest(unit, sm) for unit in sources.units(archive))
    return [text for text in texts if text is not None]


def separately_compiled(path: str, sm: int) -> bytes:
    """The PTX of the objects that a program or library was linked from, linked; empty if there is none.

    nvcc links machine code alone where objects were compiled for it (``-rdc=true``), and keeps each object's own fatbin in
    a section of the host's file.
    """
    texts = members(section(path, b"__nv_relfatbin"), sm)
    if not texts:
        return b""
    from warpsim.driver.merging import linked  # it imports what reads PTX

    return linked(texts) + b"\0"


def section(path: str, wanted: bytes) -> bytes:
    """A section of an ELF file of 64 bits (System V ABI, chapter 4); empty if there is none."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != ELF + b"\2":
                return b""
            start, size, count, names = *struct.unpack_from("<Q", head, 40), *struct.unpack_from("<3H", head, 58)
            file.seek(start)
            table = file.read(size * count)
            found = [struct.unpack_from("<I20xQQ", table, at) for at in range(0, len(table) - 63, size)]
            for name, at, length in found:
                file.seek(found[names][1] + name)
                if file.read(len(wanted) + 1) == wanted + b"\0":
                    file.seek(at)
                    return file.read(min(length, LARGEST))
    except (OSError, IndexError, struct.error):
        pass
    return b""


def runs(text: bytes, sm: int) -> bool:
    """Whether a GPU can run PTX, according to its target."""
    match = _TARGET.search(text)
    if match is None:
        return True
    number, kind = int(match[2]), match[3]
    if kind == b"a":
        return number == sm
    return number <= sm and (kind != b"f" or number // 10 == sm // 10)


# ---- modules ---------------------------------------------------------------------------------------


class DriverInterface(Protocol):
    """A driver."""

    devices: list[Device]
    memory: Memory
    report: Report
    error: Result
    """The sticky error of a kernel."""
    captures: int
    """Number of captures so far."""
    graph_memory: Any
    """The `GraphMemory` of all devices."""
    options: Keywords
    """Options of every launch."""

    def pending(self) -> int:
        """How many grids that kernels launch may wait."""

    def fail(self, error: Result) -> None:
        """Set the sticky error of a kernel."""

    def file_of(self, text: str) -> str:
        """The file name that findings use for a module's text."""


@define(eq=False)
class Function:
    """A kernel with its settable attributes."""

    kernel: Kernel
    module: DriverModule
    max_dynamic: int
    non_portable_cluster: bool = False
    carveout: int = -1
    cluster: tuple[int, int, int] | None = None
    origin: LibraryKernel | None = None
    """The library kernel that it belongs to."""

    @property
    def name(self) -> str:
        """Its name in the PTX."""
        return self.kernel.name

    def check(self) -> None:
        """Raise an error if its module has been unloaded."""
        if self.module.unloaded:
            raise DriverError(Result.INVALID_HANDLE, f"the module of {self.name} has been unloaded")

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter block."""
        return self.kernel.function.parameter_bytes

    @property
    def static_shared(self) -> int:
        """Static shared memory in bytes."""
        return self.kernel.module.image(self.module.device).plan(self.name).shared.static

    @property
    def const_bytes(self) -> int:
        """Constant memory of its module in bytes."""
        variables = self.kernel.module.program.variables
        return sum(variable.size for variable in variables if variable.space is StateSpace.CONST)

    @property
    def local_bytes(self) -> int:
        """Local memory per thread in bytes."""
        return self.kernel.module.image(self.module.device).plan(self.name).main.frame_size

    @property
    def max_threads(self) -> int:
        """Most threads per block."""
        directives = self.kernel.function.directives
        most = 1024
        for word in ("maxntid", "reqntid"):
            if word in directives:
                product = 1
                for extent in directives[word]:
                    product *= int(extent)
                most = min(most, product)
        return most

    @property
    def tile_block(self) -> tuple[int, int, int] | None:
        """The block of a kernel in Tile IR, which a launch calls one thread; None for any other kernel."""
        directives = self.kernel.function.directives
        if TILE_IR not in directives.get("language", ()):
            return None
        x, y, z = [*map(int, directives.get("reqntid", ())), 1, 1, 1][:3]
        return x, y, z

    @property
    def required_cluster(self) -> tuple[int, int, int]:
        """The cluster size that the kernel requires, 0 if none."""
        declared = self.kernel.function.directives.get("reqnctapercluster")
        if not declared:
            return 0, 0, 0
        x, y, z = [*(int(v) for v in declared), 1, 1][:3]
        return x, y, z


class DriverModule:
    """PTX that is loaded on first use, as CUDA's lazy loading does."""

    def __init__(self, driver: DriverInterface, image: bytes, ordinal: int = 0, name: str | None = None) -> None:
        self.driver, self.image, self.ordinal = driver, image, ordinal
        self.device: Device = driver.devices[ordinal]
        self.name = name
        self.owner: object = None
        """The context that it is unloaded with."""
        self.library: Library | None = None
        self.unloaded = False
        self.references: dict[str, Any] = {}
        """Its textures and surfaces by name."""
        self._module: Module | None = None
        self._functions: dict[str, Function] = {}
        self._lock = threading.RLock()

    @property
    def module(self) -> Module:
        """The loaded module."""
        with self._lock:
            if self._module is None:
                self._module = self._load()
            return self._module

    def _load(self) -> Module:
        text = ptx_of(self.image, self.device.sm).decode("utf-8", "replace")
        file = self.name or self.driver.file_of(text)
        try:
            return load_text(text, file)
        except PtxError as problem:
            result = of_module(problem)
            for finding in problem.findings[:1]:
                self.driver.report.finding(finding, result.driver_name)
            raise DriverError(result, str(problem), problem.findings) from None

    def functions(self) -> list[str]:
        """Names of the kernels."""
        return list(self.module.kernels)

    def function(self, name: str) -> Function:
        """Look up a kernel by name."""
        with self._lock:
            found = self._functions.get(name)
            if found is None:
                kernels = self.module.kernels
                if name not in kernels:
                    raise DriverError(
                        Result.NOT_FOUND, f"the module has no kernel {name}; kernels: {', '.join(kernels) or 'none'}"
                    )
                found = self._functions[name] = Function(kernels[name], self, 0)
                found.max_dynamic = max(DEFAULT_SHARED - found.static_shared, 0)
            return found

    def variable(self, name: str) -> tuple[int, int]:
        """Address and size of a module variable."""
        try:
            found = self.module.get_global(name, self.device)
        except LaunchError as problem:
            raise DriverError(Result.NOT_FOUND, str(problem)) from None
        return found.ptr, found.nbytes

    def unload(self) -> None:
        """Remove its variables from device memory, and refuse later launches of its functions."""
        with self._lock:
            module, self._module = self._module, None
            self.unloaded = True
            self._functions.clear()
        if module is not None:
            module.unload(self.device)


class Library:
    """PTX outside of contexts; in each context, it becomes a module."""

    def __init__(self, driver: DriverInterface, image: bytes) -> None:
        self.driver, self.image = driver, image
        self.modules: dict[object, DriverModule] = {}
        self.kernels: dict[str, LibraryKernel] = {}

    def module(self, context: object, ordinal: int) -> DriverModule:
        """The module in a context on a device."""
        found = self.modules.get(context)
        if found is None or found.unloaded:
            found = self.modules[context] = DriverModule(self.driver, self.image, ordinal)
            found.owner, found.library = context, self
        return found


@define(eq=False)
class LibraryKernel:
    """A kernel of a library; in each context, it becomes a function with these attributes."""

    library: Library
    name: str
    attributes: dict[int, int] = attrs.field(factory=dict)


class Linker:
    """cuLink: links PTX modules into one."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.members: list[bytes] = []
        """Modules of static libraries, linked only if needed."""
        self.result: Any = None

    def add(self, image: bytes, sm: int) -> None:
        """Add a module, or a static library."""
        if image.startswith(ARCHIVE):
            from warpsim.driver import merging

            self.members += [merging.DEVICE_RUNTIME] if merging.ARCHIVE in image[:4096] else []
            self.members += members(image, sm)
        else:
            self.texts.append(ptx_of(image, sm))

    def add_file(self, path: str, sm: int) -> None:
        """Add a module from a file."""
        try:
            with open(path, "rb") as stream:
                data = stream.read(LARGEST)
        except OSError as problem:
            raise DriverError(Result.FILE_NOT_FOUND, f"{os.fspath(path)}: {problem.strerror}") from None
        self.add(data, sm)

    def complete(self) -> bytes:
        """The linked module: PTX, which the driver loads like machine code."""
        from warpsim.driver import merging

        require(self.texts, "nothing to link")
        return merging.linked([*self.texts, *merging.needed(self.texts, self.members)]) + b"\0"
