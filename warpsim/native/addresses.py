"""Where arrays are. What runs in a browser, which has no ctypes, does without it."""

from __future__ import annotations

import sys
from ctypes import c_size_t

import numpy as np

from warpsim.numerics.arrays import Array

_DATA = object.__basicsize__
"""Where an array's structure says where its elements begin: it is the first member (NumPy C API, PyArrayObject)."""


def _structured(array: Array) -> int:
    return c_size_t.from_address(id(array) + _DATA).value


def _asked(array: Array) -> int:
    """What NumPy offers takes seven times as long."""
    found: int = array.ctypes.data
    return found


def _is_structured() -> bool:
    sample = np.zeros(2)[1:]
    return sys.implementation.name == "cpython" and _structured(sample) == _asked(sample)


address_of = _structured if _is_structured() else _asked
"""Where the elements of an array begin."""
