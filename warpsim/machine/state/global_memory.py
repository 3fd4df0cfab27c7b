"""Global memory: allocations at 256-byte aligned addresses, far enough apart that a stray access hits none."""

from __future__ import annotations

import bisect
import copy
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import ClassVar

import attrs
import numpy as np

from warpsim.errors import Finding, LaunchError
from warpsim.machine.values import Array, DType
from warpsim.records import define, frozen

ALIGNMENT = 256
GUARD = 1 << 20
LARGE, LARGE_ALIGNMENT = 1 << 20, 1 << 21
"""Allocations of more bytes have pages of their own, which are so aligned (cuMemAlloc, asked on an H200)."""
CAPACITY = 80 << 30
"""Global memory of a GPU in bytes, as on an A100 or H100."""
FIRST_ADDRESS = 0x7F_0000_0000
CONST_ADDRESS = 0x7C00_0000_0000
PARAM_WINDOW = 0x7B00_0000_0000
HANDLE_WINDOW = 0x7A00_0000_0000
"""Where the handles of textures and surfaces point that a program made itself."""
PARAM_ADDRESS = PARAM_WINDOW + 0xC000_0000
"""Address of kernel parameters; its low 32 bits are outside any stack frame."""
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
WINDOW = 1 << 32
EPOCH = 1_700_000_000 * 10**9
"""%globaltimer on a new device: nanoseconds since 1970, as GPUs count."""


@frozen(eq=False)
class Withheld:
    """The finding for the host that copies undefined values that were stored; ``marks`` has a byte beside each of the memory, 0 for
    those without (others are `warpsim.checks.written.LEFT` and `LOOSE`)."""

    finding: Finding
    marks: Allocation


@define(eq=False, repr=False)
class Allocation:
    """A run of bytes of global memory. ``data`` is the memory itself, as uint8, for reading; call `own` before writing
    to it.

    ``number`` is unique within a memory. ``shadow`` has the same number of bytes beside it, for watchers, which
    make, fill and read it. A copy shares the bytes until either side writes. ``anchored`` bytes belong to an outside
    owner and stay in place; copies move away instead. ``withheld`` findings, by their places, wait for the host to read
    undefined bytes; it is None where the host sees the bytes without a copy.
    """

    CACHES: ClassVar[frozenset[str]] = frozenset({"sharing", "_views", "anchored"})
    """Attributes that are not part of the state."""

    start: int
    data: Array
    name: str
    number: int = 0
    read_only: bool = attrs.field(kw_only=True)
    anchored: bool = attrs.field(default=True, kw_only=True)
    end: int = attrs.field(init=False)
    shadow: Allocation | None = None
    withheld: dict[object, Withheld] | None = None
    sharing: weakref.WeakSet[Allocation] | None = None
    _views: dict[tuple[DType, int], Array] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.end = self.start + self.data.size

    def __deepcopy__(self, memo: dict[int, object]) -> Allocation:
        copied = Allocation(self.start, self.data, self.name, self.number, read_only=self.read_only, anchored=False)
        if self.sharing is None:
            self.sharing = weakref.WeakSet((self,))
        self.sharing.add(copied)
        copied.sharing = self.sharing
        copied.shadow = copy.deepcopy(self.shadow, memo)
        if self.withheld is not None:
            copied.withheld = {
                key: Withheld(one.finding, copy.deepcopy(one.marks, memo)) for key, one in self.withheld.items()
            }
        return copied

    def __reduce__(self) -> tuple[Callable[[Pickled], Allocation], tuple[Pickled]]:
        state = self.start, self.data, self.name, self.read_only, self.number, self.shadow, self.withheld
        return _unpickled, (state,)

    def own_shadow(self) -> Allocation:
        """Its shadow, to be changed; one with all bits, if it had none."""
        if self.shadow is None:
            whole = np.full(self.data.size, 0xFF, np.uint8)
            self.shadow = Allocation(self.start, whole, self.name, read_only=False, anchored=False)
        self.shadow.own()
        return self.shadow

    def withhold(self, key: object, finding: Finding, at: Array | slice, marks: Array | int = 1) -> None:
        """Add to what is withheld, if the host does not see these bytes."""
        if self.withheld is None:
            return
        if key not in self.withheld:
            none = np.zeros(self.data.size, np.uint8)
            beside = Allocation(self.start, none, self.name, read_only=False, anchored=False)
            self.withheld[key] = Withheld(finding, beside)
        known = self.withheld[key].marks
        known.own()
        known.data[at] |= np.uint8(marks)

    def forget(self, at: Array | slice) -> None:
        """Withhold nothing about these bytes: something else was stored there."""
        for one in (self.withheld or {}).values():
            one.marks.own()
            one.marks.data[at] = 0

    def own(self) -> None:
        """Make the bytes exclusive before they change."""
        sharing, self.sharing = self.sharing, None
        if sharing is None:
            return
        sharing.discard(self)
        if len(sharing):
            kept = self.data.copy()
            for one in list(sharing) if self.anchored else (self,):
                one.data, one._views = kept, {}

    def elements(self, dtype: DType, count: int = 1) -> Array:
        """The memory as whole elements (``[n]``) or rows of ``count`` elements (``[n, count]``)."""
        view = self._views.get((dtype, count))
        if view is None:
            row = dtype.itemsize * count
            view = self.data[: self.data.size // row * row].view(dtype)
            if count > 1:
                view = view.reshape(-1, count)
            self._views[dtype, count] = view
        return view


Pickled = tuple[int, Array, str, bool, int, "Allocation | None", dict[object, Withheld] | None]


def _unpickled(state: Pickled) -> Allocation:
    start, data, name, read_only, number, shadow, withheld = state
    made = Allocation(start, data, name, number, read_only=read_only, anchored=False)
    made.shadow, made.withheld = shadow, withheld
    return made


class GlobalMemory:
    """The address space shared by kernels, arrays, module variables and the heap.

    ``version`` counts changes, for waiters; ``private`` counts those of local memory. ``nanoseconds`` is the device
    time when a launch begins.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._mapped = 0
        self._next = FIRST_ADDRESS
        self._next_const = CONST_ADDRESS
        self.version = 0
        self.lock = threading.RLock()
        self._dropped: deque[int] = deque()
        self.private = 0
        self.nanoseconds = EPOCH

    CACHES = frozenset({"lock"})

    def __deepcopy__(self, memo: dict[int, object]) -> GlobalMemory:
        """Copy the memory; running on the copy leaves the caller's arrays alone. Until `settle`, changing these other
        than through `Allocation.own` changes the copy too."""
        copied = GlobalMemory()
        memo[id(self)] = copied
        for name, value in self.__getstate__().items():
            setattr(copied, name, copy.deepcopy(value, memo))
        return copied

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, lock=threading.RLock())

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """All allocations, by their addresses."""
        return tuple(self._allocations)

    def own(self, address: int) -> None:
        """Make the bytes of the allocation at an address exclusive before they change."""
        found = self.at(address)
        if found is None:
            raise KeyError(address)
        found.own()

    def bytes_at(self, address: int) -> Array:
        """The memory of the allocation that starts at an address."""
        found = self.at(address)
        if found is None:
            raise KeyError(address)
        return found.data

    def settle(self) -> None:
        """Make the caller's arrays exclusive again: copies share nothing with them any more."""
        for allocation in self._allocations:
            if allocation.sharing is not None:
                allocation.own()

    def restore(self, other: GlobalMemory) -> None:
        """Return to the state of ``other``, a copy from another time, in the arrays mapped here."""
        here = {allocation.number: allocation for allocation in self._allocations}
        for name, value in copy.deepcopy(other).__getstate__().items():
            setattr(self, name, value)
        for at, then in enumerate(self._allocations):
            now = here.get(then.number)
            if now is None:
                then.anchored = True
                continue
            if now.data is not then.data:
                now.own()
                now.data[...] = then.data
            now.shadow, now.withheld = then.shadow, then.withheld
            self._allocations[at] = now

    def map(
        self,
        array: Array,
        *,
        name: str = "array",
        read_only: bool = False,
        address: int | None = None,
        align: int = ALIGNMENT,
    ) -> int:
        """Map a flat uint8 array into memory, in place; returns its address."""
        while self._dropped:
            self.unmap(self._dropped.popleft())
        if address is None:
            align = max(align, LARGE_ALIGNMENT if array.size > LARGE else ALIGNMENT)
            address = self._free_place(self._next, array.size, align)
            self._next = address + max(array.size, 1) + GUARD
        at = bisect.bisect(self._starts, address)
        self._mapped += 1
        self._starts.insert(at, address)
        self._allocations.insert(at, Allocation(address, array, name, self._mapped, read_only=read_only))
        return address

    def _free_place(self, first: int, nbytes: int, align: int) -> int:
        """The first aligned address with enough room, given what was mapped at chosen addresses."""
        address = -(-first // align) * align
        while (other := self._overlapped(address, nbytes)) is not None:
            address = -(-(other.end + GUARD) // align) * align
        return address

    def _overlapped(self, address: int, nbytes: int) -> Allocation | None:
        at = bisect.bisect_left(self._starts, address + max(nbytes, 1)) - 1
        if at >= 0 and self._allocations[at].end > address:
            return self._allocations[at]
        return None

    def overlapped_by(self, address: int, nbytes: int) -> str | None:
        """What a new mapping would overlap, in words."""
        for start, what in (
            (SHARED_WINDOW, "shared"),
            (LOCAL_WINDOW, "local"),
            (PARAM_WINDOW, "parameter"),
            (HANDLE_WINDOW, "texture"),
        ):
            if address < start + WINDOW and start < address + nbytes:
                return f"the window of {what} memory"
        found = self._overlapped(address, nbytes)
        return None if found is None else f"{found.name} at 0x{found.start:x}"

    def drop(self, address: int) -> None:
        """Note that an allocation is unreferenced. It is removed before the next one is made, because a launch may be
        running."""
        self._dropped.append(address)

    def unmap(self, address: int) -> None:
        """Unmap an array."""
        at = bisect.bisect_left(self._starts, address)
        if self._allocations[at].anchored:
            self._allocations[at].own()
        del self._starts[at], self._allocations[at]

    def allocate(
        self,
        nbytes: int,
        name: str = "allocation",
        *,
        read_only: bool = False,
        const: bool = False,
        align: int = ALIGNMENT,
    ) -> tuple[int, Array]:
        """Allocate zeroed memory (in the constant bank's range if ``const``); returns its address and bytes.

        Raises:
            LaunchError: the GPU or this machine does not have enough.
        """
        if nbytes > CAPACITY:
            raise LaunchError(f"{name} takes {nbytes} bytes of global memory; the GPU has {CAPACITY}")
        try:
            data = np.zeros(nbytes, np.uint8)
        except MemoryError:
            raise LaunchError(f"{name} takes {nbytes} bytes, which this machine does not have") from None
        if const:
            address = self._free_place(self._next_const, nbytes, max(align, ALIGNMENT))
            self._next_const = address + max(nbytes, 1) + GUARD
            return self.map(data, name=name, read_only=True, address=address), data
        return self.map(data, name=name, read_only=read_only, align=align), data

    def find(self, low: int, high: int) -> Allocation | None:
        """The allocation that contains all bytes of ``[low, high)``."""
        at = bisect.bisect(self._starts, low) - 1
        if at >= 0:
            allocation = self._allocations[at]
            if high <= allocation.end:
                return allocation
        return None

    def at(self, address: int) -> Allocation | None:
        """The allocation that starts at an address."""
        at = bisect.bisect_left(self._starts, address)
        if at < len(self._starts) and self._starts[at] == address:
            return self._allocations[at]
        return None

    def total(self, name: str, each: int) -> int:
        """Bytes of the allocations of a name, plus ``each`` for every one of them."""
        return sum(a.data.size + each for a in self._allocations if a.name == name)

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and the distance in bytes: negative before it, positive past its end."""
        at = bisect.bisect(self._starts, address)
        best: tuple[Allocation, int] | None = None
        for allocation in self._allocations[max(at - 1, 0) : at + 1]:
            distance = address - allocation.start if address < allocation.start else max(address - allocation.end, 0)
            if best is None or abs(distance) < abs(best[1]):
                best = allocation, distance
        return best

    def owners(self, low: Array, nbytes: int) -> Array:
        """Index of the allocation that contains ``[low, low + nbytes)`` for each lane, -1 if none does."""
        starts = np.array(self._starts or [0], np.int64)
        ends = np.array([a.end for a in self._allocations] or [0], np.int64)
        at = np.searchsorted(starts, low, "right") - 1
        inside = (at >= 0) & (low + nbytes <= ends[np.maximum(at, 0)])
        return np.where(inside, at, -1)

    def shadowed(self) -> list[Allocation]:
        """The allocations with shadows."""
        return [allocation for allocation in self._allocations if allocation.shadow is not None]

    def allocation(self, index: int) -> Allocation:
        """The allocation of an index that `owners` gave."""
        return self._allocations[index]
