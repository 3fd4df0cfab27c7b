"""Arrays in device memory that outlive a launch, and the host's arrays: conversion, DLPack, memory at the host's addresses."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from warpsim.checks.written import all_written
from warpsim.errors import LaunchError, shown
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.numerics.arrays import Array, DType
from warpsim.types import JsonObject

CPU = 1
"""DLPack's device type for host memory."""


class DeviceArray:
    """An array in device memory. ``ptr`` is its address; `get` copies it out, `set` copies new contents in.

    If it ``owns`` the memory, `free` releases it, and so does dropping the last reference.
    """

    def __init__(self, data: Array, ptr: int, memory: GlobalMemory, *, owns: bool = True) -> None:
        self._data = data
        self.ptr = ptr
        self._memory = memory
        self._release = weakref.finalize(self, memory.drop, ptr) if owns else None

    def lives_in(self, memory: GlobalMemory) -> bool:
        """Whether it is in the given device memory."""
        self._check()
        return self._memory is memory

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, as in NumPy."""
        return self._data.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._data.nbytes

    def get(self) -> Array:
        """A copy of the contents."""
        self._check()
        with self._memory.lock:
            return self._data.copy()

    def set(self, values: ArrayLike) -> None:
        """Replace the contents; ``values`` are broadcast to the shape."""
        self._check()
        with self._memory.lock:
            try:
                self._data[...] = values
            except Exception as error:  # whatever an object of the caller's raises
                raise LaunchError(f"{shown(values)} cannot be written to {self!r}: {error}") from None
            all_written(self._memory, self.ptr)

    def free(self) -> None:
        """Release the memory. A kernel that accesses it afterwards is reported."""
        self._check()
        if self._release is None:
            raise LaunchError("a module variable lives as long as its module; it cannot be freed")
        self._release.detach()
        self._release = None
        with self._memory.lock:
            self._memory.unmap(self.ptr)
        self._data = np.zeros((0,), self.dtype)
        self.ptr = 0

    def _check(self) -> None:
        if self.ptr == 0:
            raise LaunchError("this DeviceArray was freed")

    def __copy__(self) -> DeviceArray:
        """Another array with the same contents, in memory of its own on the same device."""
        data = self.get()
        with self._memory.lock:
            return DeviceArray(data, self._memory.map(bytes_of(data), name=f"a copy of {self!r}"), self._memory)

    def __deepcopy__(self, memo: object) -> DeviceArray:
        return self.__copy__()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001  NumPy's protocol
        """A copy of the contents, for NumPy."""
        if copy is False:
            raise ValueError("the contents of a DeviceArray are in device memory: they can only be copied")
        found = self.get()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> object:
        """Export the memory itself. The consumer may write there without notice, so all of it counts as written."""
        self._check()
        with self._memory.lock:
            all_written(self._memory, self.ptr)
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU: the simulated memory is host memory."""
        return CPU, 0

    @property
    def __cuda_array_interface__(self) -> JsonObject:
        """Version 3 of the interface; the address is one of the simulated device."""
        self._check()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr if self.dtype.names else [("", self.dtype.str)],
            "data": (self.ptr, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, ptr=0x{self.ptr:x})"


class Mapping:
    """Host memory that a device sees at ``ptr`` until `unmap`."""

    def __init__(self, data: Array, ptr: int, memory: GlobalMemory) -> None:
        self.ptr, self.nbytes = ptr, data.nbytes
        self._memory = memory

    def lives_in(self, memory: GlobalMemory) -> bool:
        """Whether it is in the given device memory."""
        if self.ptr == 0:
            raise LaunchError("this memory was unmapped")
        return self._memory is memory

    def unmap(self) -> None:
        """Remove the memory from the device."""
        self.lives_in(self._memory)
        with self._memory.lock:
            self._memory.unmap(self.ptr)
        self.ptr = 0

    def __repr__(self) -> str:
        return f"Mapping(ptr=0x{self.ptr:x}, nbytes={self.nbytes})"


# ---- arrays of the host --------------------------------------------------------------------------


def is_buffer(value: Any) -> bool:
    """Whether a value exposes the place of its elements in memory."""
    try:
        if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
            return True
        memoryview(value)
    except Exception:  # whatever an object of the caller's raises
        return False
    return True


def array_of(value: Any) -> Array:
    """A NumPy array on the memory of a buffer, or of an object with ``__array_interface__`` or ``__dlpack__``."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            from warpsim.host.dlpack import from_dlpack

            return from_dlpack(value)
        return np.asarray(memoryview(value))
    except Exception as error:  # whatever an object of the caller's raises
        raise LaunchError(f"{type(value).__name__} does not provide an array that NumPy can read: {error}") from None


def readable(value: object) -> Any:
    """View an array-like as a NumPy array on the same memory, or give its address on the device; return any other
    value unchanged."""
    if isinstance(value, (np.ndarray, np.generic, str, bytes, int, float, DeviceArray, Mapping)) or value is None:
        return value
    if is_buffer(value):
        return array_of(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    return value if interface is None else _address_of(interface)


def _address_of(interface: Any) -> int:
    """The address in a CUDA array interface: one of the simulated device."""
    try:
        return int(interface["data"][0])
    except Exception:  # whatever an object of the caller's raises
        raise LaunchError(f"__cuda_array_interface__ has no address: {shown(interface)}") from None


@functools.cache
def plain(dtype: DType) -> None:
    """Reject elements that a GPU cannot read: Python objects and big-endian numbers."""
    if dtype.hasobject:
        raise LaunchError("an array of Python objects cannot be mapped")
    if dtype.isbuiltin == 1:  # as this machine has them
        return
    if dtype.newbyteorder("<") != dtype:
        raise LaunchError(
            f"its elements are big-endian ({dtype}), but a GPU's are little-endian; "
            "pass array.astype(array.dtype.newbyteorder('<')) and copy the result back"
        )


def extent(array: Array) -> tuple[int, int]:
    """The first address of a C-contiguous array, and the one past its end."""
    start: int = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def bytes_of(array: Array) -> Array:
    """View a C-contiguous array's memory as flat uint8."""
    return array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)


GUARD = 1 << 16
"""Bytes left free on either side, so that a stray access hits nothing."""


def pages(nbytes: int) -> Array:
    """Allocate zeroed memory, at least page aligned. Raises OSError, ValueError or OverflowError if that fails."""
    import mmap  # a browser has none

    return np.frombuffer(mmap.mmap(-1, nbytes + 2 * GUARD), np.uint8)[GUARD : GUARD + nbytes]
