"""Undefined bits in memory: a port on its shadows, and asynchronous copies, with which undefined bits travel and arrive, and
which are reported where a bulk copy stores them to global memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import attrs
import numpy as np

from warpsim.checks.difference import HIDDEN, Held, hidden, in_order, keep, note, report
from warpsim.checks.undefined_registers import CONTENTS, REGISTER, RULE, UNFINISHED, Use, early_use, lanes_of, origins
from warpsim.checks.written import LEFT, WrittenBits
from warpsim.isa.ports import Atomic
from warpsim.layout.tensor_memory import Tile
from warpsim.machine.asynchrony.transfers import copy_threads, late, store_remote
from warpsim.machine.hooks import Hooks
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address, space_of
from warpsim.machine.memory.global_access import resolve
from warpsim.machine.memory.tensor import Tensor
from warpsim.machine.reporting import present
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    RemoteStore,
    RunLoad,
    RunStore,
    ThreadCopy,
    Transfer,
    Which,
)
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, DType, as_array
from warpsim.numerics.arrays import distinct
from warpsim.program.program import called
from warpsim.types import ScalarType, bits_type

QUIET = Hooks()


def written_of(allocation: Allocation) -> Array | None:
    """The written bits of an allocation: uint8; None if all are."""
    return None if allocation.shadow is None else allocation.shadow.data


def left_in(written: WordSpace) -> WordSpace:
    """The bits of a memory with this shadow that a store has left undefined."""
    if written.shadow is None:
        written.shadow = WordSpace(written.size, written.n_columns)
    return written.shadow


def left_of(allocation: Allocation) -> Array | None:
    """The bits of an allocation that a store has left undefined, which the host has not seen: uint8; None if there are none."""
    marks = [one.marks.data for one in (allocation.withheld or {}).values()]
    return (reduce(np.bitwise_or, marks) & LEFT) * np.uint8(0xFF) if marks else None


BitsOf = Callable[[Allocation], Array | None]
ELSEWHERE: dict[BitsOf, int] = {written_of: 0xFF, left_of: 0}
"""The byte of memory of which these say nothing."""


def anything_left(machine: Machine) -> bool:
    """Whether anything is undefined because of a store."""
    spaces = [space.shadow for space in (machine.batch.shared, machine.batch.local)]
    some = any(space is not None and space.shadow is not None for space in spaces)
    return some or any(allocation.withheld for allocation in machine.launch.memory.shadowed())


class _ShadowMemory(Memory):
    """A group's port on the shadows of memories: a bit is 1 if it has been written. Memory without a shadow
    counts as written."""

    __slots__ = ()
    bits_of = staticmethod(written_of)

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        super().__init__(machine, group, active, unused=unused)
        self.shared, self.local = self.shared.shadow or self.shared, self.local.shadow or self.local
        self.hooks = QUIET

    def load_global(self, address: Address, dtype: DType, count: int) -> tuple[Array, ...]:
        """A 1 for each written bit of the elements."""
        base, offset = address.base, address.offset
        place, owner, good = resolve(self, as_array(base).view(np.int64), offset, dtype.itemsize * count, write=False)
        out = tuple([np.full((*place.shape, dtype.itemsize), ELSEWHERE[self.bits_of], np.uint8) for _ in range(count)])
        for index in distinct(owner[good]):
            allocation = self.globals.allocation(int(index))
            bits = self.bits_of(allocation)
            if bits is not None:
                here = good & (owner == index)
                for k, target in enumerate(out):
                    at = place[here] - allocation.start + k * dtype.itemsize
                    target[here] = bits[at[:, None] + np.arange(dtype.itemsize)]
        return tuple([target.view(dtype)[..., 0] for target in out])

    def atomic(self, space: str, address: Address, type: ScalarType, atomic: Atomic, *, returns: bool) -> Array | None:
        """Update the written bits; those of global memory are only read."""
        if space_of(space, address) != "global":
            return super().atomic(space, address, type, atomic, returns=returns)
        return self.load_global(address, type.dtype, 1)[0] if returns else None

    def store_global(self, address: Address, values: tuple[Array, ...]) -> None:
        """Mark as written; undefined values stored to global memory are reported elsewhere."""


class _LeftMemory(_ShadowMemory):
    """A group's port on what stores have left undefined: a bit is 1 if one has."""

    __slots__ = ()
    bits_of = staticmethod(left_of)

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, unused: bool = False) -> None:
        super().__init__(machine, group, active, unused=unused)
        self.shared, self.local = left_in(self.shared), left_in(self.local)


class UndefinedMemory:
    """A memory port whose loads return, and whose stores take, a 1 for each undefined bit.

    A body that only moves bits computes with this port which bits of its result were never written.
    """

    PORT = _ShadowMemory

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, combines: bool = False) -> None:
        self.machine, self.combines = machine, combines
        self.port = self.PORT(machine, group, active)

    def among(self, active: Array) -> UndefinedMemory:
        """The port restricted to some of its threads."""
        return type(self)(self.machine, self.port.group, self.port.among(active).active, combines=self.combines)

    def multiples(self, address: Address, nbytes: int) -> UndefinedMemory:
        """The port restricted to the threads whose address is a multiple of so many bytes."""
        with muted(self.machine):
            active = self.port.multiples(address, nbytes).active
        return self if active is None else self.among(active)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    @staticmethod
    def turned(array: Array) -> Array:
        """Bits of a shadow as this port gives them, and the reverse."""
        return _inverted(array)

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """Load the undefined bits of ``count`` consecutive elements."""
        with muted(self.machine):
            values = self.port.load(space, address, type, count)
        return tuple([self.turned(v) for v in values])

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Store the undefined bits of elements."""
        kept = tuple([self.turned(as_array(v)).view(type.dtype) for v in values])
        with muted(self.machine):
            self.port.store(space, address, type, kept)
        self._reopen()

    def _reopen(self) -> None:
        for memory in (self.machine.batch.shared, self.machine.batch.local):
            shadow: WrittenBits | None = memory.shadow  # type: ignore[assignment]
            if shadow is not None:
                shadow.reopen()

    def atomic(self, space: str, address: Address, type: ScalarType, atomic: Atomic, *, returns: bool) -> Array | None:
        """The undefined bits of the old value. With ``combines``, memory becomes undefined as the operands are that lanes
        exchange it for, and wholly undefined where they combine it with undefined ones; else it stays as it is."""
        if not self.combines:
            return self.load(space, address, type)[0] if returns else None
        word = bits_type(type.bits)
        written = tuple([_inverted(as_array(v)).view(word.dtype) for v in atomic.operands])
        bits = Atomic(_exchanged if atomic.kind == "exch" else _combined, written)
        with muted(self.machine):
            old = self.port.atomic(space, address, word, bits, returns=returns)
        self._reopen()
        return None if old is None else _inverted(old)

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """The undefined bits of matrix rows, which are in shared memory."""
        with muted(self.machine):
            words = self.port.read_words(space, address, count)
        return tuple([self.turned(w) for w in words])

    def write_words(self, space: str, address: Array, words: tuple[Array, ...], active: Array) -> None:
        """Store the undefined bits of matrix rows."""
        with muted(self.machine):
            self.port.write_words(space, address, tuple([self.turned(w) for w in words]), active)
        self._reopen()


class LeftMemory(UndefinedMemory):
    """A memory port whose loads return, and whose stores take, a 1 for each bit that is undefined because of a store, which no padding
    of a structure is. What is defined counts, too."""

    PORT = _LeftMemory

    @staticmethod
    def turned(array: Array) -> Array:
        """Bits as they are, unsigned."""
        return _inverted(_inverted(array))


class UndefinedTensor(Tensor):
    """A port on tensor memory whose loads return, and whose stores take, a 1 for each undefined bit."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        super().__init__(machine, group, active)
        self.memory = written_cells(self.memory)

    def load(self, address: Array, tile: Tile) -> tuple[Array, ...]:
        """Load the undefined bits of registers."""
        with muted(self.machine):
            return tuple([~word for word in super().load(address, tile)])

    def store(self, address: Array, tile: Tile, registers: tuple[Array, ...]) -> None:
        """Store the undefined bits of registers."""
        with muted(self.machine):
            super().store(address, tile, tuple([~as_array(bits).view(np.uint32) for bits in registers]))


def written_cells(memory: TensorMemory) -> TensorMemory:
    """The shadow of tensor memory, with a 1 for each written bit."""
    space = memory.space
    if space.shadow is None:
        space.shadow = WordSpace(space.size, space.n_columns)
    return attrs.evolve(memory, space=space.shadow)


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
            machine.batch.transfers.open[-1].undefined += (values,)
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


def _exchanged(old: Array, new: Array, *_: Array) -> Array:
    return new


def _combined(old: Array, *operands: Array) -> Array:
    """The written bits of memory combined with operands of such written bits."""
    unsure = reduce(np.logical_or, [lanes_of(_inverted(operand)) for operand in operands])  # some for all lanes
    return np.where(unsure, np.zeros(1, old.dtype), old)


def _inverted(array: Array) -> Array:
    """Invert every bit; floats become unsigned integers of the same width, 128-bit values keep their type."""
    flipped = ~np.ascontiguousarray(array).view(np.uint8)
    size = array.dtype.itemsize
    turned: Array = flipped.view(f"u{size}" if size <= 8 else array.dtype)
    return turned


U32 = np.dtype(np.uint32)


def landed(machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which) -> None:
    """Mark the bytes that copies have written as written, except those whose source bits are undefined.

    Without late effects, copies of single threads did this when they were started.
    """
    work = transfer.work
    if isinstance(work, (RunLoad, BoxLoad)):
        _land(machine, work, which)
        return
    if not late(machine):
        return
    with muted(machine):
        if isinstance(work, ThreadCopy):
            for port in (UndefinedMemory, LeftMemory)[: 1 + anything_left(machine)]:
                memory = port(machine, transfer.group, transfer.lanes(which))
                copy_threads(memory, work.dst, work.src, work.nbytes, work.take)
        elif isinstance(work, RemoteStore):
            for port, values in zip((UndefinedMemory, LeftMemory), transfer.undefined, strict=False):
                store_remote(port(machine, transfer.group, transfer.lanes(which)), work.dst, work.type, values, None)


def _land(machine: Machine, work: RunLoad | BoxLoad, which: Which) -> None:
    """Copy the written state of a bulk copy's sources to shared memory."""
    bits = machine.batch.shared.shadow
    assert isinstance(bits, WrittenBits)
    to = work.to
    if isinstance(work, RunLoad):
        address = to.start[which][:, None] + np.arange(0, work.nbytes, 4)
        written = _of_runs(machine, work, which, bits, written_of)
        if work.reduction is not None:
            assert work.type is not None
            elements = np.ascontiguousarray(written).view(f"u{work.type.bytes}")
            whole = elements == np.iinfo(elements.dtype).max
            written = np.where(whole, elements, elements.dtype.type(0)).view(np.uint32)
    else:
        if not (followed := machine.launch.memory.shadowed()):
            return
        low, high = work.boxes.span()
        if not [a for a in followed if a.start < high and low < a.end]:
            return
        address = work.boxes.shared(to.start[which])
        written = _of_boxes(machine, work, which, written_of)
    if (written == np.iinfo(written.dtype).max).all():
        return
    columns = np.broadcast_to(to.columns[which][:, None], written.shape)
    if anything_left(machine):
        beside = left_in(bits)
        if isinstance(work, RunLoad):
            kept = _of_runs(machine, work, which, beside, left_of)
        else:
            kept = _of_boxes(machine, work, which, left_of)
        beside.scatter(address, columns, kept)
    if isinstance(work, RunLoad) and work.reduction is not None:
        written = written & bits.gather(address, columns, U32)
    bits.scatter(address, columns, np.ascontiguousarray(written))
    bits.reopen()


def _of_runs(machine: Machine, work: RunLoad, which: Which, shared: WordSpace, bits_of: BitsOf) -> Array:
    """Bits of runs of global memory, or of ``shared``, which has those of shared memory: words ``[runs, nbytes / 4]``."""
    nbytes, source = work.nbytes, work.source
    if source is not None:
        return shared.gather(
            source.start[which][:, None] + np.arange(0, nbytes, 4), source.columns[which][:, None], U32
        )
    addresses = work.address[work.to.lane[which]]
    out = np.full((len(addresses), nbytes), ELSEWHERE[bits_of], np.uint8)
    for allocation in machine.launch.memory.shadowed():
        bits = bits_of(allocation)
        if bits is not None:
            for row in np.flatnonzero((addresses >= allocation.start) & (addresses + nbytes <= allocation.end)):
                at = int(addresses[row]) - allocation.start
                out[row] = bits[at : at + nbytes]
    return out.view(np.uint32)


def _of_boxes(machine: Machine, work: BoxLoad, which: Which, bits_of: BitsOf) -> Array:
    """Bits of the elements of boxes; elements outside the tensor are filled."""
    boxes = work.boxes
    place, inside = boxes.elements(work.to.lane[which])
    size = boxes.dtype.itemsize
    out = np.full((*place.shape, size), ELSEWHERE[bits_of], np.uint8)
    for allocation in machine.launch.memory.shadowed():
        bits = bits_of(allocation)
        address = boxes.fields.address + place
        here = inside & (address >= allocation.start) & (address + size <= allocation.end)
        if bits is not None and here.any():
            at = address[here] - allocation.start
            out[here] = bits[at[:, None] + np.arange(size)]
    return out.view(boxes.dtype)[..., 0]


U64 = np.dtype(np.uint64)
COPY_ADVICE = "write everything that the copy reads before starting it"
ARGUMENT_ADVICE = "initialise what is printed, or given to malloc or free, on every path to here"


def stored(machine: Machine, group: Group, transfer: Transfer, which: Which) -> None:
    """Report bytes never written in the sources that copies have read."""
    work, bits, at = transfer.work, machine.batch.shared.shadow, transfer.place or present(group)
    assert type(bits) is WrittenBits
    if CONTENTS in machine.launch.settings.checks:
        return
    assert type(work) is RunStore or type(work) is BoxStore
    if bits.covers(work.source.low, work.source.high):
        return
    columns, start, apart = work.source.columns[which][:, None], work.source.start[which], None
    if isinstance(work, RunStore):
        address = start[:, None] + np.arange(0, work.source.nbytes, 8)
        written, lacking = _lacking(bits, work, which, address, columns)
        places = work.address[which][:, None] + address - start[:, None]
        apart = None if work.reduction is not None else hidden(machine, places)
    else:
        boxes = work.boxes
        address = boxes.shared(start)
        written = bits.gather(address, columns, boxes.dtype)
        lacking = written != np.iinfo(written.dtype).max
        if lacking.any():
            lacking &= boxes.inside(which)
            address = np.broadcast_to(address, lacking.shape)
            parts, size = written.view(boxes.element), boxes.element.itemsize
            address = (address[..., None] + np.arange(0, boxes.dtype.itemsize, size)).reshape(parts.shape)
            lacking = np.repeat(lacking, boxes.dtype.itemsize // size, axis=1) & (parts != np.iinfo(parts.dtype).max)
    if not lacking.any():
        bits.look_again()
    elif not machine.muted:
        lanes = np.isin(group.selection.positions, transfer.positions[which[lacking.any(axis=1)]])
        first, dtype = int(address[lacking].min()), U64 if isinstance(work, RunStore) else work.boxes.element
        use = "stored to global memory by a bulk copy"
        rule, message, values = _use_of(machine, group, "shared", first, use, COPY_ADVICE)

        def held() -> Held:
            owners, source = np.broadcast_to(columns, lacking.shape)[lacking], machine.batch.shared
            return in_order(owners << 32 | address[lacking], source.gather(address[lacking], owners, dtype))

        kind = HIDDEN if apart is not None and apart[lacking].all() else ""
        report(machine, group, lanes, (rule, message, {"place": at, **values}), at, "a bulk copy", held, store=kind)
    if isinstance(work, RunStore):
        keep(machine, at, places, ~written, np.full(places.shape, -1), ~lacking, apart=apart)


def _lacking(bits: WrittenBits, work: RunStore, which: Which, address: Array, columns: Array) -> tuple[Array, Array]:
    """The written bits of 8-byte groups ``[runs, nbytes / 8]``, and a mask of those that lack a byte.

    One written byte suffices, because the rest may be structure padding, unless a store has left a byte undefined. The last group counts
    with those before it, because copy sizes are multiples of 16 bytes. Reduced data has no padding.
    """
    written = bits.gather(address, np.broadcast_to(columns, address.shape), U64)
    if work.reduction is not None:
        return written, np.asarray(written != np.iinfo(written.dtype).max)
    lacking = np.asarray(written == 0)
    if work.kept is None:
        lacking[:, -1] &= lacking[:, -2]
    else:
        stored = np.where(work.kept[which], np.uint8(255), np.uint8(0)).view(U64)
        lacking = (written & stored == 0) & (stored != 0)
        written = written | ~stored
    if bits.shadow is not None:
        lacking |= bits.shadow.gather(address, columns, U64) & ~written != 0
    return written, lacking


def _use_of(machine: Machine, group: Group, kind: str, first: int, use: str, advice: str) -> Use:
    """The finding that undefined memory matters; ``advice`` is for what nothing wrote."""
    origin = origins(machine).of(kind, first, first + 7)
    if origin is not None and UNFINISHED in origin.values:
        return early_use(group, origin, f"what comes of it is {use}")
    source, what = None if origin is None else origin.values.get(REGISTER), "uninitialised bytes"
    if origin is not None and source is not None:
        what = f"what comes from {called(str(source))}, which was never written"
        advice = f"write {source} before line {origin.line} reads it"
    message = f"{kind} address 0x{first:x} is {use}, but holds {what}"
    return RULE, message, {"address": first, "other": origin, "advice": advice}


def check_argument(machine: Machine, group: Group, address: int, positions: Array, nbytes: int) -> None:
    """Note undefined bytes in what a function of the CUDA runtime reads at a generic address."""
    batch, kind, positions = machine.batch, "global", positions.reshape(-1)
    if CONTENTS in machine.launch.settings.checks:
        return
    if SHARED_WINDOW <= address < SHARED_WINDOW + batch.shared.size:
        kind, first, space, columns = "shared", address - SHARED_WINDOW, batch.shared, positions % batch.shape.n_ctas
    elif LOCAL_WINDOW <= address < LOCAL_WINDOW + batch.local.size:
        kind, first, space, columns = "local", address - LOCAL_WINDOW, batch.local, positions
    if kind == "global":
        allocation = machine.launch.memory.find(address, address + nbytes)
        if allocation is None or allocation.shadow is None:
            return
        at = address - allocation.start
        bad = np.repeat((allocation.shadow.data[at : at + nbytes] != 0xFF).any(), len(positions))
        first = address
    else:
        assert isinstance(space.shadow, WrittenBits)
        places = np.arange(first, first + nbytes)[:, None]
        bad = (space.shadow.gather(places, columns, np.dtype(np.uint8)) != 0xFF).any(axis=0)
    if bad.any():
        lanes = np.isin(group.selection.positions, positions[bad])
        note(
            machine,
            group,
            lanes,
            _use_of(machine, group, kind, first, f"an argument of {present(group).callee}", ARGUMENT_ADVICE),
        )
