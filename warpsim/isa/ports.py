"""Ports: the only operations besides computing that an instruction's body may use. The machine implements them.

A body requests a port by naming it as a keyword-only parameter; its signature is its effect list. Under a guard, the
ports know which lanes take part. ``Lanes`` below is an array: in element-wise instructions, of any shape that
broadcasts over the threads of the group; in warp-wide ones ``[n, 32, m]`` (warps, lanes, CTAs side by side; ``n`` or
``m`` may be 1 if all agree), in warpgroup-wide ones ``[n, 128, m]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from warpsim.layout.tensor_memory import Tile
from warpsim.layout.textures import Fields
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen
from warpsim.types import ScalarType

Lanes: TypeAlias = Array
Registers: TypeAlias = tuple[Lanes, ...]
Elements: TypeAlias = "Lanes | tuple[Lanes, ...]"
"""A scalar or a vector."""
Address: TypeAlias = Any
"""An address in brackets, with its coordinates in a tensor. Opaque: the machine has its own kind, and a trace another."""


def constant_of(operand: Lanes) -> int:
    """The value of an operand that is declared a constant."""
    return int(operand.reshape(-1)[0])


def first_of(values: Lanes, wrong: Lanes) -> int:
    """For a message: the value of the first lane that is wrong."""
    return int(np.broadcast_to(values, wrong.shape)[wrong][0])


class Choose(Protocol):
    """A reduction through the async proxy."""

    def __call__(self, type: ScalarType, *, flush: bool) -> Callable[[Lanes, Lanes], Lanes] | None:
        """The update ``new = update(old, operand)`` on elements of a type, flushing f32 subnormals or not; None if it
        does not exist."""


@frozen(eq=False)
class Atomic:
    """What lanes do to the elements that they address: ``new = update(old, *operands)`` on arrays of lanes with distinct addresses.

    ``kind`` names an update for which the machine may have a faster way: ``add``, ``min``, ``and`` ... ``shared`` is the update
    in shared memory, if it differs; ``safe_sum(old)`` says how large a sum of operands may be that does the same at once as its
    parts one after the other."""

    update: Callable[..., Lanes]
    operands: tuple[Lanes, ...]
    kind: str = ""
    shared: Callable[..., Lanes] | None = None
    safe_sum: Callable[[Lanes], Lanes] | None = None


class MemoryPort(Protocol):
    """Memory as seen by the lanes of one step. In element-wise instructions, ``address`` is only passed on.

    ``space`` is the text of a modifier: ``global``, ``shared``, ``shared::cta``, ``shared::cluster``, ``local``,
    ``const``, ``param``, ``param::func`` ... or "" for generic.
    """

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Lanes, ...]:
        """Load ``count`` consecutive elements from each lane's address, each an array of ``type.dtype``."""

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Lanes, ...]) -> None:
        """Store consecutive elements at each lane's address, in the order CTA, warp, lane."""

    def atomic(self, space: str, address: Address, type: ScalarType, atomic: Atomic, *, returns: bool) -> Lanes | None:
        """Do one atomic after another, in the order CTA, warp, lane; each lane's old value if ``returns``."""

    def among(self, active: Lanes) -> MemoryPort:
        """The port restricted to some of its lanes."""

    def multiples(self, address: Address, nbytes: int) -> MemoryPort:
        """The port restricted to the lanes whose address is a multiple of so many bytes; the others fault."""

    def advance(self, address: Address, nbytes: int) -> Address:
        """Advance an opaque address by ``nbytes``."""

    def shifted(self, address: Address, nbytes: Lanes) -> Address:
        """Advance an opaque address by a number of bytes per lane."""

    def residue(self, address: Address, nbytes: int) -> Lanes:
        """Each lane's address modulo a number of bytes."""

    def uneven(self, value: Address | Lanes) -> Lanes:
        """A mask of lanes whose value (or address) differs from that of the first lane of their warp."""

    def outside(self, space: str, address: Address, *, generic: bool = False) -> Lanes:
        """A mask of lanes whose addresses are outside a space; without one, outside both global and shared memory.
        ``generic``: these are generic addresses."""

    def read_words(self, space: str, address: Lanes, count: int) -> tuple[Lanes, ...]:
        """Load ``count`` 32-bit words from addresses of any shape ``[n, k, m]`` (matrix rows), with the same checks as
        `load`."""

    def write_words(self, space: str, address: Lanes, words: tuple[Lanes, ...], active: Lanes) -> None:
        """Store words at such addresses."""


class ClusterPort(Protocol):
    """The shared memories of each thread's cluster in one window; addresses are offsets in it."""

    def map_shared(self, address: Lanes, rank: Lanes) -> Lanes:
        """The corresponding address in the CTA with a given rank."""

    def rank_of(self, address: Lanes) -> Lanes:
        """The rank of the CTA that contains an address."""

    def even(self, address: Lanes, mask: Lanes) -> Lanes:
        """The corresponding address in the even CTA of the pair; ``address & mask`` where it is none, or nothing is a pair."""

    def is_own(self, address: Lanes) -> Lanes:
        """Whether an address is in the thread's own CTA."""


class DevicePort(Protocol):
    """The GPU that runs the launch."""

    sm: int
    """Compute capability times ten: 80, 90, 120."""
    numerics: str
    """``exact`` or ``ieee``."""


class TexturePort(Protocol):
    """Textures and surfaces. Addresses are opaque and contain the sampler and the coordinates; ``geometry`` is that of the instruction."""

    def sample(
        self,
        geometry: str,
        texture: Address,
        lod: Lanes | None = None,
        gradients: tuple[tuple[Lanes, ...], tuple[Lanes, ...]] | None = None,
        offset: tuple[Lanes, ...] | None = None,
        *,
        whole: bool = False,
    ) -> tuple[tuple[Lanes, ...], Lanes]:
        """The four channels where the coordinates point, u32, and whether they are in memory; ``whole``: coordinates are
        integers."""

    def gather(
        self, geometry: str, texture: Address, channel: int, offset: tuple[Lanes, ...] | None = None
    ) -> tuple[tuple[Lanes, ...], Lanes]:
        """One channel of the four elements around the coordinates, u32, and whether they are in memory."""

    def query(self, texture: Address, what: Callable[[Fields], int]) -> Lanes:
        """A number that each lane's object has, u32."""

    def is_kind(self, address: Lanes, kind: str) -> Lanes:
        """Whether an address is that of an object of a kind."""

    def load(self, geometry: str, surface: Address, type: str, count: int, outside: str) -> tuple[Lanes, ...]:
        """``count`` values from each lane's byte offset and row."""

    def store(self, geometry: str, surface: Address, type: str, values: tuple[Lanes, ...], outside: str) -> None:
        """Store values at each lane's byte offset and row."""

    def store_elements(self, geometry: str, surface: Address, values: tuple[Lanes, ...], outside: str) -> None:
        """Store 32-bit channels as elements of the surface's format."""

    def reduce(self, geometry: str, surface: Address, type: str, atomic: Atomic, outside: str) -> None:
        """Combine values with what lies there, one lane after another."""


class ReportPort(Protocol):
    """Reports a broken rule. Whether that ends the launch is decided elsewhere."""

    def __call__(
        self,
        rule: str,
        message: str,
        lanes: Lanes | None,
        *,
        advice: str = "",
        severity: str = "error",
        **values: object,
    ) -> None:
        """Report a finding. ``lanes`` is a mask of the lanes at fault, in the operands' shape; None: all that execute
        the instruction."""


class AsyncGroupsPort(Protocol):
    """The groups of ``cp.async`` copies of each thread."""

    def copy(self, dst: Address, src: Address, nbytes: int, take: Lanes | None) -> None:
        """Copy ``nbytes`` per active lane from global memory at ``src`` to shared memory at ``dst``. Of these, ``take``
        bytes (None: all) are read, and the rest become zero. The copy happens now or when its completion is observed."""

    def commit(self) -> None:
        """Commit the current group."""

    def wait(self, n: int, *, everything: bool = False) -> None:
        """Wait until at most ``n`` groups are pending; with ``everything``, also for copies outside groups."""

    def arrive(self, columns: Lanes, address: Lanes) -> None:
        """Arrive at the mbarriers (from `ObjectsPort.places`) when the thread's copies complete."""


class MapFencesPort(Protocol):
    """Fences between the generic and the tensormap proxy."""

    def release(self) -> None:
        """Release the active lanes' changes to tensor maps, for threads that acquire them."""

    def acquire(self, map: Address) -> None:
        """Acquire the tensor maps at these addresses, for the active lanes."""


class BulkPort(Protocol):
    """Bulk copies of the active lanes. Addresses are opaque; a tensor address contains its coordinates."""

    def tensor_load(
        self,
        dst: Address,
        map: Address,
        bar: Address,
        offsets: tuple[Lanes, ...] | None,
        mask: Lanes | None,
        mode: str = "tile",
        cta_group: int = 0,
        *,
        own: bool = False,
    ) -> None:
        """Copy a box to shared memory (of the CTAs in ``mask``, or its ``own``), and count its bytes at the mbarrier; with ``cta_group`` 2, in
        either CTA of each pair."""

    def tensor_store(self, map: Address, src: Address, reduction: Choose | None, mode: str = "tile") -> None:
        """Copy a box from shared memory to a tensor, or reduce it into the tensor."""

    def copy(
        self,
        dst: tuple[str, Address],
        src: tuple[str, Address],
        size: Lanes,
        bar: Address | None = None,
        mask: Lanes | None = None,
        reduction: Choose | None = None,
        type: ScalarType | None = None,
        bytes: Lanes | None = None,
        ignored: tuple[Lanes, Lanes] | None = None,
    ) -> None:
        """Copy ``size`` bytes between (space, address) pairs; of every 16, those in ``bytes``; as many as ``ignored`` at
        either end may be outside."""

    def remote(
        self, dst: Address, bar: Address, type: ScalarType, values: tuple[Lanes, ...], operation: str | None = None
    ) -> None:
        """Store each lane's values at ``dst`` in the cluster's shared memory, or reduce them into it, and count the
        bytes at the mbarrier."""

    def commit(self) -> None:
        """Commit the group of copies that complete by groups."""

    def wait(self, n: int, *, read_only: bool) -> None:
        """Wait for all but ``n`` groups, or only until they have read their sources."""


class ClusterLaunchesPort(Protocol):
    """Clusters of the launch that have not begun."""

    def cancel(self, address: Address, bar: Address, *, everywhere: bool) -> None:
        """Cancel the launch of a cluster for each active lane. An answer of 16 bytes goes to shared memory (``everywhere``:
        of each CTA of the cluster) and counts at the mbarrier: four words, 1 or 0 for failure, and x, y, z of its first CTA."""


class ObjectsPort(Protocol):
    """The mbarrier objects in shared memory, as the 64-bit words of `warpsim.layout.mbarriers`."""

    def init(self, space: str, address: Address, count: Lanes) -> None:
        """Initialise objects that expect ``count`` arrivals."""

    def invalidate(self, space: str, address: Address) -> None:
        """Invalidate objects."""

    def update(
        self,
        space: str,
        address: Address,
        change: Callable[..., Lanes],
        *operands: Lanes,
        returns: bool = True,
        arrivals: bool = False,
    ) -> Lanes | None:
        """Replace each word by ``change(word, *operands)``, one lane after another; returns the word before.
        ``arrivals``: the operand only counts arrivals."""

    def look(self, space: str, address: Address, parity: Lanes) -> Lanes:
        """Read the word, for a thread that waits for the phase with ``parity`` to complete."""

    def fence(self) -> None:
        """Make initialised objects visible to other proxies and CTAs."""

    def check_own(self, space: str, address: Address) -> None:
        """Report an object of another CTA."""

    def places(self, space: str, address: Address) -> tuple[Lanes, Lanes]:
        """CTA column and offset of each active lane's object."""


@frozen(eq=False)
class SharedRuns:
    """Runs of ``nbytes`` of shared memory that operations read: the ``issuer`` of each, the column of its CTA, and its offset."""

    issuer: Lanes
    cta: Lanes
    start: Lanes
    nbytes: int


@frozen(eq=False)
class TensorRuns:
    """Rectangles of tensor memory that operations read or write: the ``issuer`` of each, the column of its CTA, and where it
    begins; all have ``n_lanes`` lanes and ``n_columns`` columns of 32 bits. ``part`` names the operand."""

    issuer: Lanes
    cta: Lanes
    lane: Lanes
    column: Lanes
    n_lanes: int
    n_columns: int
    part: str = ""


class TensorCoreMemory(Protocol):
    """What asynchronous tcgen05 operations reach when they act."""

    sm: int
    """Compute capability times ten, and ``exact`` or ``ieee``, as `DevicePort`."""
    numerics: str

    def read_shared(self, cta: Lanes, address: Lanes, dtype: DType) -> Lanes:
        """Elements at byte offsets in the shared memory of CTA columns (broadcast)."""

    def write_shared(self, cta: Lanes, address: Lanes, values: Lanes) -> None:
        """Write elements there."""

    def read_tensor(self, ctas: Lanes, address: Lanes, lanes: int, columns: int) -> Lanes:
        """The words ``[k, lanes, columns]`` of rectangles of tensor memory, one in each CTA column."""

    def write_tensor(self, ctas: Lanes, address: Lanes, words: Lanes, mask: Lanes | None = None) -> None:
        """Write such rectangles, or the cells in ``mask`` (which broadcasts)."""

    def report(self, rule: str, message: str, which: Lanes, advice: str) -> None:
        """Report what ``which`` (indices) of the issuing lanes ask for."""


class TensorCoreWork(Protocol):
    """What asynchronous tcgen05 operations do: a record of arrays with one row for each issuing lane, and of plain values."""

    def perform(self, memory: TensorCoreMemory, which: Lanes) -> None:
        """Act for ``which`` (indices) of the issuing lanes, at issue or later."""


class TensorCorePort(Protocol):
    """Asynchronous tcgen05 operations, of which each active lane issues one. Columns are those of CTAs in the batch."""

    def each(self, *values: Lanes | Address) -> tuple[Lanes, ...]:
        """Operands of the ``k`` active lanes, ``[k]`` each; addresses as int64."""

    def ctas(self, cta_group: int) -> tuple[Lanes, ...]:
        """The columns of the CTAs that take part, ``[k]`` each: the lane's own, or the even and the odd one of its pair."""

    def collect(self, buffer: int, usage: str, ctas: tuple[Lanes, ...], matrix: Lanes) -> None:
        """Note what a collector buffer (a: 0, b0 to b3: 1 to 4) of some CTAs holds after a ``fill``, ``use``, ``lastuse`` or
        ``discard`` of a ``matrix`` ``[k, 2]``, and report the use of another."""

    def start(
        self,
        work: TensorCoreWork,
        *,
        cta_group: int,
        shared: tuple[SharedRuns, ...] = (),
        reads: tuple[TensorRuns, ...] = (),
        writes: tuple[TensorRuns, ...] = (),
    ) -> None:
        """Start operations that read ``shared`` memory, and read and write tensor memory."""

    def commit(self, cta_group: int, address: Address, mask: Lanes | None) -> None:
        """Arrive at mbarriers (in each CTA of ``mask``) once the earlier operations of each lane are complete."""

    def fence(self, *, before: bool) -> None:
        """Order earlier operations with a synchronisation that follows (``before`` it), or later ones with one before."""


class SharedMatrixPort(Protocol):
    """Matrices in the shared memory of each warpgroup's CTA, for wgmma.

    wgmma also requests ``accumulator``: the bits of its destination registers, ``[registers, n, 128, m]`` u32.
    """

    extent: tuple[int, int]
    """``(n, m)``: warpgroups, and CTAs side by side."""

    def read(self, bits: Lanes, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Lanes:
        """The matrix ``[n * m, k, extent]`` of descriptors ``[n, m]`` (both may be 1). ``by_warp``: each warp reads 16 of
        the ``extent``."""


class StackPort(Protocol):
    """The top of each active thread's stack, an address in local memory."""

    def top(self) -> Lanes:
        """Its address."""

    def allocate(self, size: Lanes, align: int) -> Lanes:
        """Allocate ``size`` bytes at a multiple of ``align``; returns their address."""

    def restore(self, end: Lanes) -> None:
        """Restore an earlier top."""


class TensorPort(Protocol):
    """The tensor memory of each warp's CTA."""

    def load(self, address: Lanes, tile: Tile) -> Registers:
        """Load registers ``[n, 32, m]``, as a tile names cells from each warp's address on."""

    def store(self, address: Lanes, tile: Tile, registers: Registers) -> None:
        """Store registers likewise."""

    def waited(self, *, stores: bool) -> None:
        """The warps have waited for their stores, or their loads."""

    def allocate(self, space: str, at: Address, columns: Lanes) -> None:
        """Allocate columns for each warp, of which there are enough, and store their address in shared memory."""

    def free(self, address: Lanes, columns: Lanes) -> None:
        """Free what was allocated."""

    def relinquish(self) -> None:
        """The warps' CTAs allocate nothing any more."""
