"""Where lanes access memory: what the address operand of an instruction gives to the ports."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.machine.values import Array, as_array


class Address:
    """``base + offset``: the base a `Value` of the lanes (a traced one while code is compiled), the offset what the text adds to
    it; ``coordinates`` those of a box in a tensor. It never changes."""

    __slots__ = ("base", "coordinates", "offset")

    def __init__(self, base: Any, offset: int = 0, coordinates: tuple[Any, ...] = ()) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates

    def __deepcopy__(self, memo: object) -> Address:
        return self  # never changes

    def advance(self, nbytes: int) -> Address:
        """The address ``nbytes`` further on."""
        return Address(self.base, self.offset + nbytes)

    @property
    def places(self) -> Array:
        """The address of each lane, int64."""
        return as_array(self.base).astype(np.int64) + self.offset
