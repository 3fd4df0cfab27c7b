"""Launch arguments: scalars, bytes, and arrays mapped into device memory for the launch."""

from __future__ import annotations

import functools
import itertools
import operator
import struct
from collections.abc import Sequence, Sized
from typing import Any, TypeAlias

import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.host.arrays import DeviceArray, Mapping, bytes_of, extent, plain, readable
from warpsim.host.device import Device
from warpsim.host.host_memory import memory_at
from warpsim.host.tensor_map import TensorMap
from warpsim.host.texture import HANDLES, Opaque, taken
from warpsim.layout.textures import KINDS
from warpsim.numerics.arrays import Array, DType
from warpsim.program.program import Function, Param

_writeable = operator.attrgetter("writeable")
_LEAST_INFINITE = 3.4e38
"""`struct` refuses what rounds to an infinity of 32 bits."""

Arguments: TypeAlias = Sequence[Any]
"""One for each parameter: a number, an address, an array, or an object with a protocol of arrays."""


def pack(function: Function, args: Arguments, device: Device, mapped: list[int]) -> bytes:
    """Make the parameter block of a launch; adds the addresses of arrays that it maps to ``mapped``."""
    params, name = function.params, function.name
    live = [one for one in HANDLES.all() if _lives_on(device, one)]
    if isinstance(args, (bytes, bytearray, memoryview)):
        if live:
            Mappings(device, mapped, _arrays_of(live)).add(live)
        return _packed(function, bytes(args))
    if type(args) is not tuple:
        try:
            args = list(args) if isinstance(args, Sized) else list(itertools.islice(args, len(params) + 1))
        except Exception:  # whatever an object of the caller's raises
            raise LaunchError(f"args must be a sequence of arguments, not {shown(args)}") from None
    if len(args) != len(params):
        raise LaunchError(
            f"{name} takes {len(params)} arguments, not {len(args)}: "
            + ", ".join(f"{p.name} (.{p.type.name})" for p in params)
        )
    block = bytearray(function.parameter_bytes)
    values: list[object] = []
    arrays: list[Array] = []
    param = None
    try:
        for param, value in zip(params, args, strict=True):
            if type(value) is int or type(value) is float:
                values.append(value)
                continue
            given = value if param.array or isinstance(value, (TensorMap, Opaque)) else readable(value)
            values.append(given)
            arrays += _arrays(value, given)
        known = Mappings(device, mapped, arrays + _arrays_of(live))
        for param, value in zip(params, values, strict=True):
            raw = _argument(param, value, known)
            block[param.offset : param.offset + len(raw)] = raw
    except LaunchError as error:
        assert param is not None
        raise refused(function, param, error) from None
    known.add(live)
    return bytes(block)


def _lives_on(device: Device, one: Opaque) -> bool:
    """Whether an object can be in a device's memory: its arrays are the host's or there."""
    return all(isinstance(array, np.ndarray) or array.lives_in(device.memory) for array in one.arrays)


def _arrays_of(objects: Sequence[Opaque]) -> list[Array]:
    return [array for one in objects for array in one.host_arrays]


def _arrays(value: object, given: object) -> list[Array]:
    """The arrays that an argument needs in memory."""
    if isinstance(value, Opaque):
        return value.host_arrays
    array = value.array if isinstance(value, TensorMap) else given
    return [array] if isinstance(array, np.ndarray) and array.ndim > 0 else []


def refused(function: Function, param: Param, error: LaunchError) -> LaunchError:
    """An error that says which argument it is about."""
    index = function.params.index(param)
    return LaunchError(f"argument {index} ({param.name}, .{param.type.name}) of {function.name}: {error}")


def _packed(function: Function, block: bytes) -> bytes:
    """A parameter block packed by the caller. It may be longer than the parameters, as a driver's may be."""
    size = function.parameter_bytes
    if len(block) < size:
        raise LaunchError(f"{function.name} takes {size} bytes of parameters, not {len(block)}")
    return block[:size]


def _argument(param: Param, value: object, known: Mappings) -> bytes:
    if isinstance(value, TensorMap):
        value = value.encode(known.pointer(value.array))
    if param.type.name in KINDS and not (value is None or isinstance(value, (int, np.integer))):
        taken(param.type.name, value)
    if isinstance(value, Opaque):
        if param.array:
            raise LaunchError(f"takes {param.size} bytes; put the .handle of {value!r} among them")
        if param.type.kind == "f":
            raise LaunchError(f"takes a number, not {value!r}")
        value = known.handle(value)
    if param.array:
        return bytes_argument(param, value)
    if value is None:
        value = 0
    if isinstance(value, (bytes, bytearray)):
        return bytes_argument(param, value)
    return pack_scalar(known.pointer(value), param.type.kind, param.type.bits)


def bytes_argument(param: Param, value: Any) -> bytes:
    """The bytes of an argument that is a block of them."""
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.bytes_):
        plain(value.dtype)
        data = value.tobytes()
    else:
        try:
            data = bytes(memoryview(value))
        except Exception:  # whatever an object of the caller's raises
            raise LaunchError(
                f"takes {param.size} bytes (bytes, a structured NumPy scalar or a TensorMap), not {type(value).__name__}"
            ) from None
    if len(data) != param.size:
        raise LaunchError(f"takes {param.size} bytes, not {len(data)}")
    return data


class Mappings:
    """A launch's NumPy arrays in device memory. Arrays that share bytes share addresses."""

    def __init__(self, device: Device, mapped: list[int], arrays: list[Array]) -> None:
        self.device, self.mapped = device, mapped
        self.extents = dict[int, tuple[int, int, Array, Any]]()
        """By the identities of the arrays that can be mapped: from where to where they lie, and their flags."""
        for array in arrays:
            flags = array.flags
            if flags.c_contiguous and not array.dtype.hasobject:
                self.extents[id(array)] = *extent(array), array, flags
        self.placed: list[tuple[int, int, int]] = []
        self.handles: dict[int, int] = {}
        """By the identities of textures and surfaces."""

    def add(self, objects: Sequence[Opaque]) -> None:
        """Put textures and surfaces into memory."""
        for one in objects:
            self.handle(one)

    def handle(self, one: Opaque) -> int:
        """The handle of a texture or surface."""
        found = self.handles.get(id(one))
        if found is None:
            block = one.encode([self.pointer(array) for array in one.arrays])
            found = self.device.memory.map(block, name=repr(one), read_only=True, address=one.fixed)
            self.mapped.append(found)
            self.handles[id(one)] = found
        return found

    def pointer(self, value: object) -> Any:
        """The address of an array; any other value unchanged."""
        if type(value) is np.ndarray and value.ndim > 0:
            return self.address(value)
        if isinstance(value, (DeviceArray, Mapping)):
            if not value.lives_in(self.device.memory):
                raise LaunchError(f"{value!r} is not on {self.device!r}; pass its own device with device=")
            return value.ptr
        if isinstance(value, np.ndarray) and value.ndim > 0:
            return self.address(value)
        return value

    def address(self, array: Array) -> int:
        """The address of an array during the launch; maps it together with everything that overlaps it."""
        found = self.extents.get(id(array))
        if found is None and not array.flags.c_contiguous:
            raise LaunchError("the array is not C-contiguous; pass np.ascontiguousarray(...) and copy the result back")
        plain(array.dtype)
        assert found is not None
        start, stop, _, flags = found
        for low, high, address in self.placed:
            if low <= start and stop <= high and start < high:
                return address + start - low
        low, high, sharing = self._sharing(flags, start, stop)
        data = bytes_of(array)
        if (low, high) != (start, stop):
            data = memory_at(low, high - low)
        read_only = not any(map(_writeable, sharing))
        name = f"array {array.shape} of {_named(array.dtype)}"
        address = self.device.memory.map(data, name=name, read_only=read_only)
        self.mapped.append(address)
        self.placed.append((low, high, address))
        return address + start - low

    def _sharing(self, flags: object, low: int, high: int) -> tuple[int, int, list[Any]]:
        """The extent of the arrays that share bytes with an array, directly or through others, and the flags of all."""
        sharing = [flags]
        while low < high:
            met = [e for e in self.extents.values() if e[0] < high and low < e[1]]
            if len(met) == len(sharing):
                break
            low, high = min([e[0] for e in met]), max([e[1] for e in met])
            sharing = [e[3] for e in met]
        return low, high, sharing


def pack_scalar(value: Any, kind: str, bits: int) -> bytes:
    """Pack a scalar argument as little-endian bytes. Integers may be signed or unsigned."""
    if type(value) is int and kind != "f":
        return _integer(value, bits)
    if isinstance(value, np.ndarray):
        value = value[()]
    typed = isinstance(value, np.generic) and value.dtype.kind in "fV" and not isinstance(value, np.void)
    if kind == "f" or (kind == "b" and (typed or isinstance(value, float))):
        return _float(value, kind, bits, typed=typed)
    if typed or isinstance(value, (float, str, bytes)):
        raise LaunchError(f"takes an integer of {bits} bits, not {type(value).__name__}")
    try:
        integer = int(value)
    except Exception:  # whatever an object of the caller's raises
        raise LaunchError(f"takes an integer, an array or None, not {type(value).__name__}") from None
    return _integer(integer, bits)


def _integer(value: int, bits: int) -> bytes:
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise LaunchError(f"{shown(value)} does not fit {bits} bits")
    return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def _float(value: Any, kind: str, bits: int, *, typed: bool) -> bytes:
    """Pack a number for a float parameter, or a float for an untyped one; a NumPy float must have the parameter's
    width."""
    if typed and value.dtype.itemsize * 8 == bits and (kind == "b" or value.dtype.kind == "f"):
        return value.astype(value.dtype.newbyteorder("<")).tobytes()
    if typed and kind == "b":
        raise LaunchError(f"a {value.dtype} does not fit {bits} bits; convert it to a type of that width")
    if isinstance(value, (str, bytes)):
        raise LaunchError(f"takes a number, not {type(value).__name__}")
    try:
        number = float(value)
    except Exception:  # whatever an object of the caller's raises
        raise LaunchError(f"takes a number, not {shown(value)}") from None
    if bits not in (16, 32, 64):
        raise LaunchError(f"a float does not fit {bits} bits")
    if bits == 64 or (bits == 32 and abs(number) < _LEAST_INFINITE):
        return struct.pack("<d" if bits == 64 else "<f", number)
    with np.errstate(all="ignore"):
        return np.array(number).astype(f"<f{bits // 8}").tobytes()


@functools.cache
def _named(dtype: DType) -> str:
    return str(dtype)
