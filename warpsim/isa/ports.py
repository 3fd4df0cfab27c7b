"""The only verbs that semantics may use beside their operands: the machine implements them.

A semantics function asks for a port by naming it as a keyword-only parameter; its signature is its effect list.
Under a guard the ports know which lanes take part. ``Lanes`` below is an array: in element-wise instructions of any
shape that broadcasts over the threads of the group; in warp-wide ones ``[n, 32, m]`` (warps, lanes, CTAs side by side;
``n`` or ``m`` may be 1 where all agree), in warpgroup-wide ones ``[n, 128, m]``.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsim.types import ScalarType

Lanes = NDArray[Any]


class MemoryPort(Protocol):
    """Memory as the lanes of one step see it. ``address`` is opaque in element-wise instructions: hand it on.

    ``space`` is a modifier text: ``global``, ``shared``, ``shared::cta``, ``shared::cluster``, ``local``, ``const``,
    ``param``, ``param::func`` ... or "" for generic."""

    def load(self, space: str, address: Any, type: ScalarType, count: int = 1) -> tuple[Lanes, ...]:
        """``count`` consecutive elements from each lane's address, each an array of ``type.dtype``."""

    def store(self, space: str, address: Any, type: ScalarType, values: tuple[Lanes, ...]) -> None:
        """Write consecutive elements at each lane's address, in the order CTA, warp, lane."""

    def atomic(
        self,
        space: str,
        address: Any,
        type: ScalarType,
        update: Any,
        operands: tuple[Lanes, ...],
        *,
        returns: bool,
        kind: str = "",
    ) -> Lanes | None:
        """One after the other in the order CTA, warp, lane: ``new = update(old, *operands)`` on arrays of lanes
        whose addresses are distinct; gives each lane the old value where ``returns``. ``kind`` names an update that
        the machine may know a faster way for: ``add``, ``min``, ``and`` ..."""

    def advance(self, address: Any, nbytes: int) -> Any:
        """The opaque address ``nbytes`` further on."""

    def read_words(self, space: str, address: Lanes, count: int) -> tuple[Lanes, ...]:
        """``count`` 32-bit words from addresses of any shape ``[n, k, m]`` (matrix rows); same checks as load."""

    def write_words(self, space: str, address: Lanes, words: tuple[Lanes, ...], active: Lanes) -> None:
        """The same, stored."""


class DevicePort(Protocol):
    """The GPU that runs the launch."""

    sm: int
    """Compute capability times ten: 80, 90, 120."""
    numerics: str
    """``exact`` or ``ieee``."""


class ReportPort(Protocol):
    """Where semantics say that a rule was broken; whether that ends the launch is not theirs to know."""

    def __call__(
        self,
        rule: str,
        message: str,
        lanes: NDArray[np.bool_],
        *,
        advice: str = "",
        severity: str = "error",
        **values: object,
    ) -> None:
        """``lanes`` marks, in the shape of the operands, the lanes concerned."""


class ClusterPort(Protocol):
    """Shared memory of the other CTAs of the cluster. Addresses are offsets in ``.shared::cluster``."""

    def map_shared(self, address: Lanes, rank: Lanes) -> Lanes:
        """The address of the same offset in the CTA of a rank."""

    def rank_of(self, address: Lanes) -> Lanes:
        """The rank of the CTA that an address belongs to, uint32."""

    def is_own(self, address: Lanes) -> Lanes:
        """Whether an address belongs to the thread's own CTA."""


class AsyncGroupsPort(Protocol):
    """The groups of ``cp.async`` copies of each thread."""

    def commit(self) -> None:
        """Close the present group."""

    def wait(self, n: int) -> None:
        """Wait until at most ``n`` groups are unfinished."""
