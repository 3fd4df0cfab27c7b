"""Which bytes of shared, local and global memory have been written.

Every memory that starts undefined has a twin of the same layout whose bits are 1 where something was written. Rows of
words that are written in every column are remembered, so that memory which is completely written costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.memory.addresses import Address, space_of
from warpsim.machine.memory.word_space import WordSpace
from warpsim.machine.values import Array, as_array
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.memory.access import Memory

ALL = np.uint32(0xFFFFFFFF)


class DefinedBits(WordSpace):
    """The twin of a `WordSpace`. ``full`` marks rows written in every column, ``open`` counts the others."""

    def __init__(self, size: int, n_columns: int) -> None:
        super().__init__(size, n_columns)
        self.full = np.zeros(len(self.words), np.bool_)
        self.open = len(self.words)
        self._marked = 0

    def grow(self, size: int) -> None:
        """Room for at least ``size`` bytes in each column; what is new is undefined."""
        super().grow(size)
        if len(self.words) > len(self.full):
            full = np.zeros(len(self.words), np.bool_)
            full[: len(self.full)] = self.full
            self.full = full
            self._recount()

    def mark(self, place: Any, columns: Array, rows: bool, nbytes: int, active: Array | None) -> None:
        """``nbytes`` at each ``place`` of ``columns`` (broadcast) were written; ``rows``: by all columns alike."""
        if (one := self._one_place(place, columns, nbytes, active)) is not None:
            one[...] = ALL
            self._marked += len(one)
            return
        if not self.open or self._is_full(place, nbytes):
            return
        if rows and active is None and nbytes >= 4:
            first = np.asarray(place).reshape(-1) >> 2
            for k in range(nbytes // 4):
                self.words[first + k] = ALL
                self.full[first + k] = True
            self._recount()
            return
        for view, index in self._places(place, columns, nbytes, active):
            view[index] = view.dtype.type(ALL & ((1 << 8 * view.dtype.itemsize) - 1))
            self._marked += index.size

    def forget(self, first: int, nbytes: int, columns: Array) -> None:
        """``nbytes`` from ``first`` (whole words) of these columns are undefined again."""
        low, high = first >> 2, first + nbytes + 3 >> 2
        if nbytes:
            self.words[low:high, columns] = 0
            self.full[low:high] = False
            self._recount()

    def move(self, source: int, target: int, nbytes: int, columns: Array) -> None:
        """What is defined is copied with the words."""
        super().move(source, target, nbytes, columns)
        self.full[target >> 2 : target + nbytes + 3 >> 2] = False
        self._recount()

    def reopen(self) -> None:
        """Bits were cleared from outside: no row counts as full."""
        self.full[:] = False
        self._recount()

    def lacks(self, place: Any, columns: Array, rows: bool, nbytes: int, active: Array | None) -> bool:
        """Whether any of these bytes was never written."""
        if (one := self._one_place(place, columns, nbytes, active)) is not None:
            return bool((one != ALL).any())
        if not self.open or self._is_full(place, nbytes):
            return False
        first = np.asarray(place) >> 2
        if rows and nbytes >= 4:
            index = np.unique(first)
            self._refresh(np.unique(np.concatenate([index + k for k in range(nbytes // 4)])))
            if self._is_full(place, nbytes):
                return False
        else:
            low, high = int(first.min()), int(first.max()) + nbytes // 4 + 1
            if self._marked * 2 >= (high - low) * self.n_columns:
                self._marked = 0
                self._refresh(np.arange(low, min(high, len(self.full))))
                if self._is_full(place, nbytes):
                    return False
        for view, index in self._places(place, columns, nbytes, active):
            if (view[index] != view.dtype.type(ALL & ((1 << 8 * view.dtype.itemsize) - 1))).any():
                return True
        return False

    def _one_place(self, place: Any, columns: Array, nbytes: int, active: Array | None) -> Array | None:
        """The bits themselves where whole words at one address of one column are meant, as in a CTA that goes its own way."""
        if columns.size != 1 or self.n_columns == 1 or nbytes < 4 or active is not None or not isinstance(place, int):
            return None
        return self.words[place >> 2 : place + nbytes >> 2, columns.item()]

    def covers(self, low: int, high: int) -> bool:
        """Whether rows are known to be full that hold ``[low, high)``; False may mean that nobody has looked."""
        return bool(self.full[low >> 2 : high + 3 >> 2].all())

    def _is_full(self, place: Any, nbytes: int) -> bool:
        if isinstance(place, int):
            return bool(self.full[place >> 2 : place + nbytes + 3 >> 2].all())
        first = np.asarray(place) >> 2
        if self.full[int(first.min()) : int(first.max()) + max(nbytes // 4, 1)].all():
            return True
        return all(bool(self.full[first + k].all()) for k in range(max(nbytes // 4, 1)))

    def _refresh(self, rows: Array) -> None:
        rows = rows[~self.full[rows]]
        if len(rows):
            self.full[rows[(self.words[rows] == ALL).all(axis=1)]] = True
            self._recount()

    def _recount(self) -> None:
        self.open = len(self.full) - int(np.count_nonzero(self.full))

    def _places(self, place: Any, columns: Array, nbytes: int, active: Array | None) -> list[tuple[Array, Array]]:
        """Views of the bits as elements, and the flat indices that an access touches in them."""
        at = np.asarray(place, np.int64)
        if active is not None:
            at, columns, mask = np.broadcast_arrays(at, columns, active)
            at, columns = at[mask], columns[mask]
        if nbytes < 4:
            return [(self.flat.view(f"u{nbytes}"), self.element_index(at, columns, nbytes))]
        index = (at >> 2) * self.n_columns + columns
        return [(self.flat, index + k * self.n_columns) for k in range(nbytes // 4)]


class UndefinedMemory:
    """The memory port once more, over the twins: loads give 1 for each undefined bit, stores take such bits.

    A body that only moves bits tells with this port which bits of its result nobody wrote."""

    def __init__(self, port: Memory) -> None:
        self.port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """The undefined bits of ``count`` consecutive elements."""
        with _Twins(self.port):
            values = self.port.load(space, address, type, count)
        return tuple([_inverted(v) for v in values])

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Elements with these undefined bits were written."""
        kept = tuple([_inverted(as_array(v)).view(type.dtype) for v in values])
        with _Twins(self.port):
            self.port.store(space, address, type, kept)
        for space_ in (self.port.shared, self.port.local):
            if space_.defined is not None:
                space_.defined.reopen()

    def atomic(self, space: str, address: Address, type: ScalarType, *_: Any, returns: bool, **__: Any) -> Array | None:
        """The undefined bits of the old value; what memory holds stays as undefined as it was."""
        return self.load(space, address, type)[0] if returns else None

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """The undefined bits of matrix rows."""
        if space_of(space) == "" or not space.startswith("shared"):
            return tuple([np.zeros(address.shape, np.uint32)] * count)
        with _Twins(self.port):
            words = self.port.read_words(space, address, count)
        return tuple([~w for w in words])


class AtOnce:
    """Groups of asynchronous copies for undefined bits, which need no waiting."""

    def copy(self, dst: Address, nbytes: int, act: Callable[[], None]) -> None:
        """A copy that is made now."""
        act()


class _Twins:
    """While it lasts the port reaches the twins instead of the memories, and nothing is reported."""

    def __init__(self, port: Memory) -> None:
        self.port = port

    def __enter__(self) -> None:
        port = self.port
        self.kept = port.shared, port.local, port.races, port.flight, port.global_flight, port.proxies
        port.races = port.flight = port.proxies = port.global_flight = None
        port.shared = port.shared.defined or port.shared
        port.local = port.local.defined or port.local
        port.twins = True
        port.batch.launch.findings.muted += 1

    def __exit__(self, *_: object) -> None:
        port = self.port
        port.shared, port.local, port.races, port.flight, port.global_flight, port.proxies = self.kept
        self.port.twins = False
        self.port.batch.launch.findings.muted -= 1


def _inverted(array: Array) -> Array:
    """Every bit turned; floats keep their width as unsigned integers, 128 bits stay what they are."""
    flipped = ~np.ascontiguousarray(array).view(np.uint8)
    size = array.dtype.itemsize
    turned: Array = flipped.view(f"u{size}" if size <= 8 else array.dtype)
    return turned
