"""A memory port on the shadows of memory: transfers the undefined bits of what a body loads and stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.undefined_registers import lanes_of
from warpsim.machine.asynchrony.moves import copy_threads, store_remote
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.hooks import Hooks
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address, space_of
from warpsim.machine.memory.global_access import resolve
from warpsim.machine.values import Array, DType, as_array
from warpsim.types import ScalarType, bits_type

if TYPE_CHECKING:
    from warpsim.checks.written import WrittenBits
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

QUIET = Hooks()


class UndefinedMemory:
    """A memory port whose loads return, and whose stores take, a 1 for each undefined bit.

    A body that only moves bits computes with this port which bits of its result were never written.
    """

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, combines: bool = False) -> None:
        self.machine, self.combines = machine, combines
        self.port = _ShadowMemory(machine, group, active)

    def among(self, active: Array) -> UndefinedMemory:
        """The port restricted to some of its threads."""
        return UndefinedMemory(self.machine, self.port.group, self.port.among(active).active, combines=self.combines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """Load the undefined bits of ``count`` consecutive elements."""
        with muted(self.machine):
            values = self.port.load(space, address, type, count)
        return tuple([_inverted(v) for v in values])

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Store the undefined bits of elements."""
        kept = tuple([_inverted(as_array(v)).view(type.dtype) for v in values])
        with muted(self.machine):
            self.port.store(space, address, type, kept)
        self._reopen()

    def _reopen(self) -> None:
        for memory in (self.machine.batch.shared, self.machine.batch.local):
            shadow: WrittenBits | None = memory.shadow  # type: ignore[assignment]
            if shadow is not None:
                shadow.reopen()

    def atomic(
        self,
        space: str,
        address: Address,
        type: ScalarType,
        update: Any,
        operands: tuple[Array, ...],
        *,
        returns: bool,
        kind: str = "",
        **_: Any,
    ) -> Array | None:
        """The undefined bits of the old value. With ``combines``, memory becomes undefined as the operands are that lanes
        exchange it for, and wholly undefined where they combine it with undefined ones; else it stays as it is.
        """
        if not self.combines:
            return self.load(space, address, type)[0] if returns else None
        word = bits_type(type.bits)
        written = tuple([_inverted(as_array(v)).view(word.dtype) for v in operands])
        with muted(self.machine):
            old = self.port.atomic(
                space, address, word, _exchanged if kind == "exch" else _combined, written, returns=returns
            )
        self._reopen()
        return None if old is None else _inverted(old)

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """The undefined bits of matrix rows, which are in shared memory."""
        with muted(self.machine):
            words = self.port.read_words(space, address, count)
        return tuple([~w for w in words])

    def write_words(self, space: str, address: Array, words: tuple[Array, ...], active: Array) -> None:
        """Store the undefined bits of matrix rows."""
        with muted(self.machine):
            self.port.write_words(space, address, tuple([~w for w in words]), active)
        self._reopen()


class AtOnce:
    """Replaces the ports of asynchronous copies when moving undefined bits, which needs no waiting."""

    def __init__(self, memory: UndefinedMemory) -> None:
        self.memory = memory

    def copy(self, dst: Address, src: Address, nbytes: int, take: Array | None) -> None:
        """Copy now."""
        copy_threads(self.memory, dst, src, nbytes, take)

    def remote(
        self, dst: Address, bar: Address, type: ScalarType, values: tuple[Array, ...], operation: str | None = None
    ) -> None:
        """Store in the cluster now, or keep the bits with the store in flight."""
        machine = self.memory.machine
        if late(machine) and operation is None:
            machine.batch.transfers.open[-1].undefined = values
            return
        store_remote(self.memory, dst, type, values, operation)


@contextmanager
def muted(machine: Machine) -> Iterator[None]:
    """Suppress reports in the context, because the step itself has made them."""
    machine.muted += 1
    try:
        yield
    finally:
        machine.muted -= 1


class _ShadowMemory(Memory):
    """A group's port on the shadows of memories: a bit is 1 if it has been written. Memory without a shadow
    counts as written.
    """

    __slots__ = ()

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        super().__init__(machine, group, active, unused=unused)
        self.shared, self.local = self.shared.shadow or self.shared, self.local.shadow or self.local
        self.hooks = QUIET

    def load_global(self, address: Address, dtype: DType, count: int) -> tuple[Array, ...]:
        """A 1 for each written bit of the elements."""
        base, offset = address.base, address.offset
        place, owner, good = resolve(self, as_array(base).view(np.int64), offset, dtype.itemsize * count, write=False)
        out = tuple([np.full((*place.shape, dtype.itemsize), 0xFF, np.uint8) for _ in range(count)])
        for index in np.unique(owner[good]):
            bits = self.globals.allocation(int(index)).shadow
            if bits is not None:
                here = good & (owner == index)
                for k, target in enumerate(out):
                    at = place[here] - bits.start + k * dtype.itemsize
                    target[here] = bits.data[at[:, None] + np.arange(dtype.itemsize)]
        return tuple([target.view(dtype)[..., 0] for target in out])

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
        """Update the written bits; those of global memory are only read."""
        if space_of(space, address) != "global":
            return super().atomic(space, address, type, update, operands, returns=returns)
        return self.load_global(address, type.dtype, 1)[0] if returns else None

    def store_global(self, address: Address, values: tuple[Array, ...]) -> None:
        """Mark as written; undefined values stored to global memory are reported elsewhere."""


def _exchanged(old: Array, new: Array, *_: Array) -> Array:
    return new


def _combined(old: Array, *operands: Array) -> Array:
    """The written bits of memory combined with operands of such written bits."""
    unsure = np.any([lanes_of(_inverted(operand)) for operand in operands], axis=0)
    return np.where(unsure, np.zeros(1, old.dtype), old)


def _inverted(array: Array) -> Array:
    """Invert every bit; floats become unsigned integers of the same width, 128-bit values keep their type."""
    flipped = ~np.ascontiguousarray(array).view(np.uint8)
    size = array.dtype.itemsize
    turned: Array = flipped.view(f"u{size}" if size <= 8 else array.dtype)
    return turned
