"""Small reductions with little call overhead; large temporaries for reuse, because fresh ones cost page faults."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from warpsim.numerics.bits import Array

KEPT = 1 << 22
"""Largest array that is kept, in elements."""
VIEWS = 256
"""Number of shapes in which the arrays are kept: the next step takes the same ones."""


class _Workspace(threading.local):
    """Arrays by name; each thread has its own."""

    def __init__(self) -> None:
        self.buffers: dict[str, Array] = {}
        self.views: dict[tuple[str, tuple[int, ...]], Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array. A name always has the same dtype. The array is valid until the name is taken again."""
        view = self.views.get((name, shape))
        return self._view(name, shape, dtype) if view is None else view

    def _view(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        size = 1
        for extent in shape:
            size *= extent
        if size > KEPT:
            return np.empty(shape, dtype)
        found = self.buffers.get(name)
        if found is None or found.size < size:
            found = self.buffers[name] = np.empty(size, dtype)
            self.views = {key: view for key, view in self.views.items() if key[0] != name}
        if len(self.views) >= VIEWS:
            self.views.clear()
        view = self.views[name, shape] = found[:size].reshape(shape)
        return view


WORKSPACE = _Workspace()


FEW = 4096
"""Largest number of lanes for which this pays."""


def few(x: Any) -> bool:
    """Whether a value is a small array (and not a stand-in for one)."""
    return type(x) is np.ndarray and 0 < x.size <= FEW


def least(x: Any) -> Any:
    """The least element of a small array; NaN if it contains one."""
    return x.item(x.argmin())
