"""The memory port over the companions of memory: the undefined bits of what a body loads and stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.address import Address
from warpsim.machine.asynchrony.moves import copy_threads, store_remote
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.memory.access import Memory
from warpsim.machine.values import Array, as_array
from warpsim.machine.window import Window
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.checks.written import WrittenBits
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

QUIET = Window()


class UndefinedMemory:
    """A memory port whose loads give 1 for each undefined bit, and whose stores take such bits.

    A body that only moves bits tells with this port which bits of its result nobody wrote."""

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, combines: bool = False) -> None:
        self.machine, self.combines = machine, combines
        self.port = _Companions(machine, group, active)

    def among(self, active: Array) -> UndefinedMemory:
        """The port of only these of its threads."""
        return UndefinedMemory(self.machine, self.port.group, self.port.among(active).active, combines=self.combines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """The undefined bits of ``count`` consecutive elements."""
        with muted(self.machine):
            values = self.port.load(space, address, type, count)
        return tuple([_inverted(v) for v in values])

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Elements with these undefined bits were written."""
        kept = tuple([_inverted(as_array(v)).view(type.dtype) for v in values])
        with muted(self.machine):
            self.port.store(space, address, type, kept)
        for memory in (self.machine.batch.shared, self.machine.batch.local):
            companion: WrittenBits | None = memory.companion  # type: ignore[assignment]
            if companion is not None:
                companion.reopen()

    def atomic(
        self,
        space: str,
        address: Address,
        type: ScalarType,
        update: Any,
        operands: tuple[Array, ...],
        *,
        returns: bool,
        **_: Any,
    ) -> Array | None:
        """The undefined bits of the old value; what memory holds stays as undefined as it was, and where ``combines`` is undefined
        with the values that are combined with it."""
        old = self.load(space, address, type)[0] if returns or self.combines else None
        if self.combines and old is not None:
            unsigned = old.dtype.type
            for value in operands:
                unsure = as_array(value).view(old.dtype) != 0
                old_or_whole = old | np.where(unsure, ~unsigned(0), unsigned(0))
                self.store(space, address, type, (old_or_whole,))
        return old if returns else None

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """The undefined bits of matrix rows, which lie in shared memory."""
        with muted(self.machine):
            words = self.port.read_words(space, address, count)
        return tuple([~w for w in words])


class AtOnce:
    """Stands for the ports of asynchronous copies where undefined bits are moved, which need no waiting."""

    def __init__(self, memory: UndefinedMemory) -> None:
        self.memory = memory

    def copy(self, dst: Address, src: Address, nbytes: int, take: Array | None) -> None:
        """A copy that is made now."""
        copy_threads(self.memory, dst, src, nbytes, take)

    def remote(
        self, dst: Address, bar: Address, type: ScalarType, values: tuple[Array, ...], operation: str | None = None
    ) -> None:
        """A store in the cluster: made now, or kept with the one that is in flight."""
        machine = self.memory.machine
        if late(machine) and operation is None:
            machine.batch.transfers.open[-1].undefined = values
            return
        store_remote(self.memory, dst, type, values, operation)


@contextmanager
def muted(machine: Machine) -> Iterator[None]:
    """While it lasts nothing is reported: the step itself has done so."""
    machine.muted += 1
    try:
        yield
    finally:
        machine.muted -= 1


class _Companions(Memory):
    """The port of a group over the companions instead of the memories: a bit is 1 where something has written it. Memory that
    has none was written before."""

    __slots__ = ()

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        super().__init__(machine, group, active, unused=unused)
        self.shared, self.local = self.shared.companion or self.shared, self.local.companion or self.local
        self.window = QUIET

    def load_global(self, address: Address, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        """Ones for each bit of the elements that something has written."""
        base, offset = address.base, address.offset
        place, owner, good = self.resolve(as_array(base).view(np.int64), offset, dtype.itemsize * count, write=False)
        out = tuple([np.full((*place.shape, dtype.itemsize), 0xFF, np.uint8) for _ in range(count)])
        for index in np.unique(owner[good]):
            bits = self.globals.allocation(int(index)).companion
            if bits is not None:
                here = good & (owner == index)
                for k, target in enumerate(out):
                    at = place[here] - bits.start + k * dtype.itemsize
                    target[here] = bits.data[at[:, None] + np.arange(dtype.itemsize)]
        return tuple([target.view(dtype)[..., 0] for target in out])

    def store_global(self, address: Address, values: tuple[Array, ...]) -> None:
        """What is stored in global memory is reported where it is undefined, and counts as written."""


def _inverted(array: Array) -> Array:
    """Every bit turned; floats keep their width as unsigned integers, 128 bits stay what they are."""
    flipped = ~np.ascontiguousarray(array).view(np.uint8)
    size = array.dtype.itemsize
    turned: Array = flipped.view(f"u{size}" if size <= 8 else array.dtype)
    return turned
