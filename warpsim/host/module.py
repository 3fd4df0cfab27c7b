"""Loading PTX: `load` and `Module`."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from warpsim.errors import Finding, PtxError, UnknownName
from warpsim.host.arrays import DeviceArray
from warpsim.host.device import Device
from warpsim.machine.memory.global_memory import SHARED_WINDOW
from warpsim.machine.plan import Image
from warpsim.program.build import load_program
from warpsim.program.program import Program, Variable
from warpsim.ptx.parser import parse
from warpsim.types import StateSpace

if TYPE_CHECKING:
    from warpsim.host.kernel import Kernel


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """Load a PTX module from a path, or from text (a ``str`` or ``bytes`` that holds a newline).

    Raises:
        PtxError: for a text that cannot be read or is no valid PTX, with every problem found.
    """
    text, file = _read(source)
    program = load_program(parse(text, file), text)
    return Module(program)


def _read(source: str | bytes | os.PathLike[str]) -> tuple[str, str]:
    if isinstance(source, bytes):
        if source[:4] in (b"\x7fELF", b"\x50\xed\x55\xba") or b"\n" in source:
            return _decode(source, "<ptx>"), "<ptx>"
        source = os.fsdecode(source)
    if isinstance(source, str) and "\n" in source:
        return _checked(source, "<ptx>"), "<ptx>"
    path = os.fspath(source)
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(
            path, f"cannot read {path!r}: {reason}", "give a path to a PTX file, or PTX text with its newlines"
        ) from None
    return _decode(data, path), path


def _decode(data: bytes, file: str) -> str:
    if data[:4] == b"\x7fELF":
        raise _unreadable(
            file,
            "this is a cubin: machine code, not PTX",
            "extract the PTX: cuobjdump -ptx FILE, or compile with nvcc -ptx",
        )
    if data[:4] == b"\x50\xed\x55\xba":
        raise _unreadable(file, "this is a fatbin", "extract the PTX: cuobjdump -ptx FILE")
    try:
        return _checked(data.rstrip(b"\0").decode("utf-8"), file)
    except UnicodeDecodeError:
        try:
            return _checked(data.decode("latin-1"), file) if b".version" in data else _raise(file)
        except UnicodeDecodeError:
            return _raise(file)


def _raise(file: str) -> str:
    raise _unreadable(file, "this is not text", "give PTX text")


def _checked(text: str, file: str) -> str:
    if ".version" not in text and re.search(r"__global__|#include\s*<", text):
        raise _unreadable(
            file, "this is CUDA source, not PTX", "compile it: nvcc -ptx -arch=sm_90a FILE.cu -o FILE.ptx"
        )
    return text


def _unreadable(file: str, message: str, advice: str) -> PtxError:
    return PtxError(findings=(Finding("unreadable", message, advice=advice, file=file, line=1, column=1),))


class Module:
    """A loaded PTX module. Its variables live as long as it does, once on each device."""

    def __init__(self, program: Program) -> None:
        from warpsim.host.kernel import Kernel

        self.program = program
        self.target = program.target
        self._images: weakref.WeakKeyDictionary[Device, Image] = weakref.WeakKeyDictionary()
        self._default: Device | None = None
        self._kernels = {name: Kernel(self, f) for name, f in program.functions.items() if f.entry}

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Kernels by name."""
        return MappingProxyType(self._kernels)

    def __getitem__(self, name: str) -> Kernel:
        return self.get_function(name)

    def get_function(self, name: str) -> Kernel:
        """A kernel by name.

        Raises:
            UnknownName: a `LaunchError` that is a ``KeyError`` too.
        """
        if name not in self._kernels:
            raise UnknownName(f"the module has no kernel {name!r}; it has: {', '.join(self._kernels) or 'none'}")
        return self._kernels[name]

    def to_ptx(self) -> str:
        """The program as PTX text."""
        from warpsim.ptx.printer import print_module

        return print_module(self.program.module)

    @property
    def device(self) -> Device:
        """The GPU of the module's own target, used where a launch names none."""
        if self._default is None:
            self._default = Device(self.target)
        return self._default

    def get_global(self, name: str, device: Device | None = None) -> DeviceArray:
        """A view of a module variable (``.global`` or ``.const``)."""
        device = device or self.device
        image = self.image(device)
        for variable in self.program.variables:
            if variable.name == name and variable.unique in image.addresses:
                address = image.addresses[variable.unique]
                allocation = device.memory.at(address)
                assert allocation is not None
                dtype = variable.type.dtype if variable.size % variable.type.dtype.itemsize == 0 else np.dtype(np.uint8)
                return DeviceArray(allocation.data.view(dtype), address, device.memory)
        names = ", ".join(variable.name for variable in self.program.variables if variable.unique in image.addresses)
        raise UnknownName(f"the module has no variable {name!r} in .global or .const; it has: {names or 'none'}")

    def image(self, device: Device) -> Image:
        """The program placed in a device's memory."""
        image = self._images.get(device)
        if image is None:
            image = self._images[device] = self._place(device)
        return image

    def _place(self, device: Device) -> Image:
        addresses: dict[str, int] = {}
        image = Image(self.program, addresses)
        placed = []
        variables = list(self.program.variables)
        for function in self.program.functions.values():
            variables += [v for v in function.variables if v.space in (StateSpace.GLOBAL, StateSpace.CONST)]
        for variable in variables:
            if variable.space not in (StateSpace.GLOBAL, StateSpace.CONST):
                continue
            address, data = device.memory.allocate(
                variable.size, variable.name, const=variable.space is StateSpace.CONST
            )
            data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            addresses[variable.unique] = address
            addresses.setdefault(variable.name, address)
            placed.append((variable, data))
        for variable, data in placed:
            for offset, width, symbol, addend, generic, mask in variable.relocations:
                value = self._symbol(image, symbol, generic) + addend
                if mask is not None:
                    shift = (mask & -mask).bit_length() - 1
                    value = (value & mask) >> shift
                data[offset : offset + width] = np.frombuffer(
                    (value & ((1 << 8 * width) - 1)).to_bytes(width, "little"), np.uint8
                )
        return image

    def _symbol(self, image: Image, name: str, generic: bool) -> int:
        if name in image.addresses:
            return image.addresses[name]
        if name in image.function_numbers or name in self.program.aliases:
            return image.function_address(name)
        shared = next(
            (
                v
                for v in self.program.variables
                if isinstance(v, Variable) and v.name == name and v.space is StateSpace.SHARED
            ),
            None,
        )
        if shared is not None and generic:
            return SHARED_WINDOW
        raise PtxError(
            findings=(
                Finding("linkage", f"{name} is used in an initialiser and defined nowhere", file=self.program.file),
            )
        )
