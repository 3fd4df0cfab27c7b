"""Arrays that live in a device's memory beyond a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class DeviceArray:
    """Memory of a device, seen as an array. ``ptr`` is its address; `get` copies out, `set` copies in."""

    def __init__(self, data: Array, ptr: int, on_set: Callable[[int], object] = lambda ptr: None) -> None:
        self._data = data
        self.ptr = ptr
        self._on_set = on_set

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
        self._on_set(self.ptr)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, ptr=0x{self.ptr:x})"
