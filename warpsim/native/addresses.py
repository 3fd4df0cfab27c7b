"""Where arrays are. What runs in a browser, which has no ctypes, does without it."""

from __future__ import annotations

from ctypes import addressof, c_char

from warpsim.numerics.arrays import Array


def address_of(array: Array) -> int:
    """Where the elements of an array begin. What NumPy offers for that takes longer."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is only read, empty, or not in a row
        found: int = array.ctypes.data
        return found
