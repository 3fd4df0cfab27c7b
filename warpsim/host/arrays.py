"""Arrays that live in a device's memory beyond a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.machine.memory.global_memory import GlobalMemory

Array = NDArray[Any]


class DeviceArray:
    """Memory of a device, seen as an array. ``ptr`` is its address; `get` copies out, `set` copies in."""

    def __init__(self, data: Array, ptr: int, memory: GlobalMemory) -> None:
        self._data = data
        self.ptr = ptr
        self._memory = memory

    def lives_in(self, memory: GlobalMemory) -> bool:
        """Whether it is in the memory of a device."""
        return self._memory is memory

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._data.nbytes

    def get(self) -> Array:
        """A copy of the contents."""
        return self._data.copy()

    def set(self, values: Any) -> None:
        """New contents, broadcast to the shape."""
        self._data[...] = values
        self._memory.define(self.ptr)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, ptr=0x{self.ptr:x})"
