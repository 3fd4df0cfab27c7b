"""The addresses of lanes: what an instruction's address operand passes to the ports."""

from __future__ import annotations

import numpy as np

from warpsim.machine.values import Array, Value, as_array

Coordinate = Value | tuple[Value, ...]
"""A coordinate, or several in braces."""


class Address:
    """``base + offset``: the base is a `Value` of the lanes (a traced one while compiling), the offset is from the
    text. ``coordinates`` are those of a box in a tensor.
    """

    __slots__ = ("base", "coordinates", "offset")

    def __init__(self, base: Value, offset: int = 0, coordinates: tuple[Coordinate, ...] = ()) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates

    def advance(self, nbytes: int) -> Address:
        """Advance the address by ``nbytes``."""
        return Address(self.base, self.offset + nbytes)

    @property
    def places(self) -> Array:
        """The address of each lane, int64."""
        return as_array(self.base).astype(np.int64) + self.offset
