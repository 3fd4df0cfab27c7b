"""Tensors of a launch: NumPy arrays in place of Triton's tensors, and their memory on the device."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from warpsim.errors import LaunchError
from warpsim.host.arrays import Array, extent
from warpsim.host.device import Device


class Arrays:
    """Makes a NumPy array usable where Triton expects a tensor."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """The array's address."""
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> Any:
        """Strides in elements."""
        found = tuple(s // self.array.itemsize for s in self.array.strides)
        return found if axis is None else found[axis]


def aligned(nbytes: int, align: int) -> Array:
    """New memory at a multiple of ``align``."""
    data = np.zeros(nbytes + align, np.uint8)
    start = -data.ctypes.data % align
    return data[start : start + nbytes]


def _memory(value: Any) -> tuple[int, int]:
    """First address and end of the memory that contains a tensor."""
    while hasattr(value, "base") and not isinstance(value, (Arrays, np.ndarray)):
        value = value.base  # Triton's wrapper of a tensor viewed as another type
    if isinstance(value, Arrays):
        array = value.array
        while isinstance(array.base, np.ndarray):
            array = array.base
        return extent(array)
    if getattr(value, "device", None) is not None and value.device.type != "cpu":
        raise LaunchError(f"the tensor is on {value.device}; the simulated GPU takes CPU tensors")
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        return int(storage.data_ptr()), int(storage.data_ptr() + storage.nbytes())
    raise LaunchError(f"{type(value).__name__} is not a tensor or array with known memory")


class Mapped:
    """The memory of a launch's tensors on the device, each at its own address.

    With ``word``, it begins and ends at multiples of that many bytes, as GPU allocations do.
    """

    def __init__(self, device: Device, tensors: list[Any], word: int = 1) -> None:
        spans: list[list[int]] = []
        for first, end in sorted(_memory(t) for t in tensors if t.data_ptr()):
            low, high = first - first % word, end + -end % word
            if spans and low <= spans[-1][1] and low < high and low < spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], high)
            elif low < high:
                spans.append([low, high])
        self.maps: list[Any] = []
        for low, high in spans:
            if device.allocation(low) is None:
                data = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
                self.maps.append(device.map(data, address=low))

    def close(self) -> None:
        """Remove it from the device."""
        for mapping in self.maps:
            mapping.unmap()
