"""What events describe by records: memory accesses, and boxes that cannot be copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.values import Affine, Array, Place

if TYPE_CHECKING:
    from warpsim.machine.state.global_memory import Allocation

READ, WRITE, ATOMIC = 0, 1, 2
"""What an access does to memory."""


NO_COLUMNS: Array = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class MemoryAccess:
    """An access of ``nbytes`` of memory per lane; created only if there is a listener."""

    kind: int
    """READ, WRITE or ATOMIC."""
    space: str
    """"global", "local", "shared" or "shared::cluster"."""
    at: Place | Affine
    """The byte addresses in the machine's representation: an int, an int64 array or an `Affine`."""
    nbytes: int
    allocation: Allocation | None
    """The allocation, in global memory."""
    columns: Array
    """In other memory: the CTA (for local memory the thread) of each lane, by its number in the batch; else empty."""
    active: Array | None
    """The participating lanes, None for all."""
    differs: Callable[[], Array] | None = None
    """For a store: a mask of the lanes whose value differs from memory, before the store and (in `memory_written`)
    after it.
    """
    everywhere: bool = False
    """All columns are accessed alike, each at every ``place``."""

    @property
    def place(self) -> Place:
        """The byte addresses, an int or an int64 array: absolute in global memory, else offsets."""
        return self.at.array().view(np.int64) if type(self.at) is Affine else self.at

    @property
    def places(self) -> Array:
        """The same as an int64 array."""
        return np.asarray(self.place, np.int64)

    @property
    def writes(self) -> bool:
        """Whether memory may change."""
        return self.kind != READ


@attrs.frozen
class BoxProblem:
    """Why boxes of a tensor cannot be copied; ``address`` is that of the map, if the map is the reason."""

    message: str
    advice: str = ""
    address: int | None = None
