"""Loading PTX: `load` and `Module`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from warpsim.errors import Finding, LaunchError, PtxError, UnknownName, WarpsimError, shown
from warpsim.host.arrays import DeviceArray, pages
from warpsim.host.device import Device, runs_on
from warpsim.host.kernel import Kernel
from warpsim.host.sources import read
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.plan import Image
from warpsim.machine.state.global_memory import SHARED_WINDOW
from warpsim.program.build import program_of
from warpsim.program.program import Program, Variable
from warpsim.types import StateSpace


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """Load a PTX module.

    Args:
        source: a path (``os.PathLike``), or a ``str`` or ``bytes``: text if it contains a newline, a brace or a
            semicolon or begins with a directive (``.version``), otherwise a path. Fatbins and executables yield the PTX inside.

    Raises:
        PtxError: the source cannot be read or is not valid PTX; it lists every problem.
    """
    __tracebackhide__ = True
    try:
        return load_text(*read(source))
    except WarpsimError as problem:
        raise problem.with_traceback(None) from None


def load_file(path: str) -> Module:
    """Load a PTX module from a file; findings use the path as given."""
    return load_text(*read(_Path(path)))


class _Path(os.PathLike[str]):
    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def load_text(text: str, file: str) -> Module:
    """Load a PTX module from text; findings use ``file`` as its name."""
    return Module(program_of(text, file))


class Module:
    """A loaded PTX module. Each device has its own copy of the module's variables for as long as the module lives."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.target = program.target
        self._images: weakref.WeakKeyDictionary[Device, Image] = weakref.WeakKeyDictionary()
        self._default: Device | None = None
        self._lock = threading.RLock()
        self._kernels = {name: Kernel(self, f) for name, f in program.functions.items() if f.entry}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by loading the text again; the copy has its own variables."""
        return load_text, (self.program.module.source, self.program.file)

    def _repr_html_(self) -> str:
        from warpsim.report.pages import module_html

        return module_html(self.program.file, self.target, [kernel.facts() for kernel in self._kernels.values()])

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Kernels by name."""
        return MappingProxyType(self._kernels)

    def __getitem__(self, name: str) -> Kernel:
        return self.get_function(name)

    def get_function(self, name: str) -> Kernel:
        """Look up a kernel by name.

        Raises:
            UnknownName: there is no such kernel. It is a `LaunchError` and a ``KeyError``.
        """
        if not isinstance(name, str) or name not in self._kernels:
            raise UnknownName(f"the module has no kernel {shown(name)}; it has: {', '.join(self._kernels) or 'none'}")
        return self._kernels[name]

    @property
    def source(self) -> str:
        """The text as loaded. Findings count its lines from 1."""
        return self.program.module.source

    def to_ptx(self) -> str:
        """Print the program as PTX text."""
        from warpsim.ptx.printer import print_module

        return print_module(self.program.module)

    @property
    def device(self) -> Device:
        """The GPU of the module's own target, the default for launches without ``device=``."""
        with self._lock:
            if self._default is None:
                self._default = Device(runs_on(self.target))
            return self._default

    def get_global(self, name: str, device: Device | None = None) -> DeviceArray:
        """A view of a module variable (``.global`` or ``.const``)."""
        device = self.device if device is None else device
        if not isinstance(device, Device):
            raise LaunchError(f"device must be a warpsim.Device, not {shown(device)}")
        image = self.image(device)
        for variable in self.program.variables:
            if variable.name == name and variable.unique in image.addresses:
                address = image.addresses[variable.unique]
                allocation = device.memory.at(address)
                assert allocation is not None
                dtype = variable.type.dtype if variable.size % variable.type.dtype.itemsize == 0 else np.dtype(np.uint8)
                return DeviceArray(allocation.data.view(dtype), address, device.memory, owns=False)
        names = ", ".join(variable.name for variable in self.program.variables if variable.unique in image.addresses)
        raise UnknownName(f"the module has no variable {shown(name)} in .global or .const; it has: {names or 'none'}")

    def unload(self, device: Device) -> None:
        """Remove the module's variables from a device's memory. Pointers to them become invalid."""
        with device.lock, self._lock:
            image = self._images.pop(device, None)
            for address in set(image.addresses.values()) if image is not None else ():
                if device.memory.at(address) is not None:
                    device.memory.unmap(address)

    def image(self, device: Device) -> Image:
        """The program with its variables placed in a device's memory."""
        with device.lock, self._lock:
            image = self._images.get(device)
            if image is None:
                addresses: dict[str, int] = {}
                try:
                    image = self._images[device] = self._place(device, addresses)
                except BaseException:
                    for address in set(addresses.values()):
                        device.memory.unmap(address)
                    raise
            return image

    def _place(self, device: Device, addresses: dict[str, int]) -> Image:
        image = Image(self.program, addresses, bind_function)
        placed = []
        variables = list(self.program.variables)
        for function in self.program.functions.values():
            variables += [v for v in function.variables if v.space in (StateSpace.GLOBAL, StateSpace.CONST)]
        for variable in variables:
            if variable.space not in (StateSpace.GLOBAL, StateSpace.CONST):
                continue
            if variable.managed and variable.size:
                data = pages(variable.size)
                address = device.memory.map(data, name=variable.name, address=data.ctypes.data)
            else:
                address, data = device.memory.allocate(
                    variable.size, variable.name, const=variable.space is StateSpace.CONST, align=variable.align
                )
            data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            addresses[variable.unique] = address
            addresses.setdefault(variable.name, address)
            placed.append((variable, data))
        for variable, data in placed:
            self._relocate(image, variable, data)
        return image

    def _relocate(self, image: Image, variable: Variable, data: np.ndarray[Any, Any]) -> None:
        """Put the addresses of symbols among the bytes of a variable."""
        symbols = {(r.symbol, r.generic) for r in variable.relocations}
        bases = {key: self._symbol(image, key[0], generic=key[1]) for key in symbols}
        values = []
        for _, _, symbol, addend, generic, mask in variable.relocations:
            value = bases[symbol, generic] + addend
            if mask is not None:
                value = (value & mask) >> ((mask & -mask).bit_length() - 1)
            values.append(value & 0xFFFFFFFFFFFFFFFF)
        offsets = np.array([r.offset for r in variable.relocations], np.int64)
        for byte in range(variable.type.bytes):
            data[offsets + byte] = np.array(values, np.uint64) >> np.uint64(8 * byte) & np.uint64(0xFF)

    def _symbol(self, image: Image, name: str, *, generic: bool) -> int:
        if name in image.addresses:
            return image.addresses[name]
        if name in image.function_numbers or name in self.program.aliases:
            return image.function_address(name)
        shared = next(
            (v for v in self.program.variables if v.name == name and v.space is StateSpace.SHARED),
            None,
        )
        if shared is not None and generic:
            return SHARED_WINDOW
        raise PtxError(
            findings=(Finding("linkage", f"{name} is used in an initialiser but not defined", file=self.program.file),)
        )
