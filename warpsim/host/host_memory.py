"""Memory of this process as arrays."""

from __future__ import annotations

import numpy as np

from warpsim.numerics.arrays import Array


class _Memory:
    """Memory of this process as NumPy takes it, and what has to live as long."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (address, False)}


def memory_at(address: int, nbytes: int, owner: object = None) -> Array:
    """View memory of this process as flat uint8; the view keeps ``owner`` alive."""
    return np.asarray(_Memory(address, nbytes, owner))
