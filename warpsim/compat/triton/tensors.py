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


def _shown(name: str, tensor: Any) -> str:
    """A tensor in findings: the argument's name, its shape and its type."""
    shape, kind = getattr(tensor, "shape", None), str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    return name if shape is None else f"{name} {tuple(shape)} of {kind}"


class Mapped:
    """The memory of a launch's tensors on the device, each at its own address.

    ``tensors`` are pairs of an argument's name and a tensor. With ``word``, memory begins and ends at multiples of that
    many bytes, as GPU allocations do.
    """

    def __init__(self, device: Device, tensors: list[tuple[str, Any]], word: int = 1) -> None:
        spans: list[tuple[int, int, list[str]]] = []
        found = [(*_memory(tensor), _shown(name, tensor)) for name, tensor in tensors if tensor.data_ptr()]
        for first, end, text in sorted(found):
            low, high = first - first % word, end + -end % word
            if spans and low < high and low < spans[-1][1]:
                start, before, texts = spans[-1]
                spans[-1] = start, max(before, high), texts if text in texts else [*texts, text]
            elif low < high:
                spans.append((low, high, [text]))
        self.maps: list[Any] = []
        for low, high, texts in spans:
            if device.allocation(low) is None:
                data = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
                self.maps.append(device.map(data, address=low, name=" and ".join(texts)))

    def close(self) -> None:
        """Remove it from the device."""
        for mapping in self.maps:
            mapping.unmap()
