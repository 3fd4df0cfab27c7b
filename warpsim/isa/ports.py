"""The only verbs that semantics may use beside their operands: the machine implements them.

A semantics function asks for a port by naming it as a keyword-only parameter; its signature is its effect list.
Under a guard the ports know which lanes take part. ``Lanes`` below is an array: in element-wise instructions of any
shape that broadcasts over the threads of the group; in warp-wide ones ``[n, 32, m]`` (warps, lanes, CTAs side by side;
``n`` or ``m`` may be 1 where all agree), in warpgroup-wide ones ``[n, 128, m]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsim.types import ScalarType

Lanes = NDArray[Any]


class Choose(Protocol):
    """A reduction by the async proxy."""

    def __call__(self, type: ScalarType, *, flush: bool) -> Callable[[Lanes, Lanes], Lanes] | None:
        """The update ``new = update(old, operand)`` on elements of a type, flushing f32 subnormals or not; None where it does
        not exist."""


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
        shared: Callable[..., Lanes] | None = None,
    ) -> Lanes | None:
        """One after the other in the order CTA, warp, lane: ``new = update(old, *operands)`` on arrays of lanes
        whose addresses are distinct; gives each lane the old value where ``returns``. ``kind`` names an update that
        the machine may know a faster way for: ``add``, ``min``, ``and`` ... ``shared`` is the update in shared memory,
        where it differs."""

    def advance(self, address: Any, nbytes: int) -> Any:
        """The opaque address ``nbytes`` further on."""

    def shifted(self, address: Any, nbytes: Lanes) -> Any:
        """The same, by another number of bytes in each lane."""

    def residue(self, address: Any, nbytes: int) -> Lanes:
        """Each lane's address modulo a number of bytes."""

    def uneven(self, value: Any) -> Lanes:
        """Which lanes' value (or address) is another than that of the first lane of their warp."""

    def outside(self, space: str, address: Any) -> Lanes:
        """Which lanes' addresses are not in a space; of generic ones, neither in global nor in shared memory."""

    def read_words(self, space: str, address: Lanes, count: int) -> tuple[Lanes, ...]:
        """``count`` 32-bit words from addresses of any shape ``[n, k, m]`` (matrix rows); same checks as load."""

    def write_words(self, space: str, address: Lanes, words: tuple[Lanes, ...], active: Lanes) -> None:
        """The same, stored."""


class ClusterPort(Protocol):
    """The shared memories of the cluster of each thread, in one window; addresses are offsets in it."""

    def map_shared(self, address: Lanes, rank: Lanes) -> Lanes:
        """What corresponds to an address in the CTA of a rank."""

    def rank_of(self, address: Lanes) -> Lanes:
        """The rank of the CTA that an address belongs to."""

    def is_own(self, address: Lanes) -> Lanes:
        """Whether that is the thread's own."""


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
        lanes: NDArray[np.bool_] | None,
        *,
        advice: str = "",
        severity: str = "error",
        **values: object,
    ) -> None:
        """``lanes`` marks, in the shape of the operands, the lanes concerned; None: all that execute the instruction."""


class AsyncGroupsPort(Protocol):
    """The groups of ``cp.async`` copies of each thread."""

    def copy(self, dst: Any, src: Any, nbytes: int, take: Lanes | None) -> None:
        """A copy of each active lane of ``nbytes`` from global memory at ``src`` to shared memory at ``dst``, of which all (None)
        or ``take`` are read, the others zero; now or when its completion is observed."""

    def commit(self) -> None:
        """Close the present group."""

    def wait(self, n: int, *, everything: bool = False) -> None:
        """Wait until at most ``n`` groups are unfinished; with ``everything`` for copies outside of groups too."""

    def arrive(self, columns: Lanes, address: Lanes) -> None:
        """Arrive at the mbarriers (as `ObjectsPort.places` gives them) when the thread's copies are complete."""


class MapFencesPort(Protocol):
    """Fences between the generic and the tensormap proxy."""

    def release(self) -> None:
        """What the active lanes changed in tensor maps is visible to who acquires it."""

    def acquire(self, map: Any) -> None:
        """The active lanes are to see the tensor maps at these addresses."""


class BulkPort(Protocol):
    """Bulk copies of the active lanes; addresses are opaque, a tensor address holds its coordinates."""

    def tensor_load(self, dst: Any, map: Any, bar: Any, offsets: Any, mask: Any) -> None:
        """A box into shared memory (of the CTAs of ``mask``); its bytes count at the mbarrier."""

    def tensor_store(self, map: Any, src: Any, reduction: Choose | None) -> None:
        """A box from shared memory into a tensor, or combined with it."""

    def copy(
        self,
        dst: tuple[str, Any],
        src: tuple[str, Any],
        size: Lanes,
        bar: Any = None,
        mask: Any = None,
        reduction: Choose | None = None,
        type: ScalarType | None = None,
    ) -> None:
        """``size`` bytes between (space, address) pairs."""

    def remote(
        self, dst: Any, bar: Any, type: ScalarType, values: tuple[Lanes, ...], operation: str | None = None
    ) -> None:
        """Store each lane's values at ``dst`` in the cluster's shared memory, or combine them with what is there; the bytes
        count at the mbarrier."""

    def commit(self) -> None:
        """Close the group of the copies that complete by groups."""

    def wait(self, n: int, *, read_only: bool) -> None:
        """Wait for all but ``n`` groups, or only until they have read their sources."""


class ObjectsPort(Protocol):
    """The mbarrier objects in shared memory, as the 64-bit words of `warpsim.layout.mbarriers`."""

    def init(self, space: str, address: Any, count: Lanes) -> None:
        """Make objects that expect ``count`` arrivals."""

    def invalidate(self, space: str, address: Any) -> None:
        """End their use."""

    def update(
        self,
        space: str,
        address: Any,
        change: Callable[..., Lanes],
        *operands: Lanes,
        returns: bool = True,
        arrivals: bool = False,
    ) -> Lanes | None:
        """The word before ``change(word, *operands)``, lane after lane; ``arrivals``: the operand counts arrivals only."""

    def look(self, space: str, address: Any, parity: Lanes) -> Lanes:
        """The word, for a thread that waits for the phase of ``parity`` to be over."""

    def fence(self) -> None:
        """What was initialised is visible to other proxies and CTAs."""

    def places(self, space: str, address: Any) -> tuple[Lanes, Lanes]:
        """CTA column and offset of the object of each active lane."""


class SharedMatrixPort(Protocol):
    """Matrices in the shared memory of each warpgroup's CTA, for wgmma.

    Beside it, wgmma asks for ``accumulator``: the bits of its destination registers, ``[registers, n, 128, m]`` u32."""

    extent: tuple[int, int]
    """``(n, m)``: warpgroups, and CTAs side by side."""

    def read(self, bits: Lanes, k: int, extent: int, dtype: np.dtype[Any], *, transposed: bool) -> Lanes:
        """The matrix ``[n * m, k, extent]`` of descriptors ``[n, m]`` (both may be 1)."""


class StackPort(Protocol):
    """The end of each active thread's stack, an address in local memory."""

    def top(self) -> Lanes:
        """Where it is."""

    def allocate(self, size: Lanes, align: int) -> Lanes:
        """Move it by ``size`` bytes from a multiple of ``align``: the address of what is new."""

    def restore(self, end: Lanes) -> None:
        """Move it back."""
