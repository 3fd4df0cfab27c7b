"""Large temporaries for reuse, because fresh ones cost page faults."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from warpsim.numerics.bits import Array

KEPT = 1 << 22
"""Largest array that is kept, in elements."""


class _Workspace(threading.local):
    """Arrays by name; each thread has its own."""

    def __init__(self) -> None:
        self.buffers: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array. A name always has the same dtype. The array is valid until the name is taken again."""
        size = 1
        for extent in shape:
            size *= extent
        if size > KEPT:
            return np.empty(shape, dtype)
        found = self.buffers.get(name)
        if found is None or found.size < size:
            found = self.buffers[name] = np.empty(size, dtype)
        return found[:size].reshape(shape)


WORKSPACE = _Workspace()
