"""A part of a launch: the work unit, its result, and running it anywhere."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

import numpy as np

from warpsim.checks.watchers import watchers_of
from warpsim.errors import ExecutionError, Finding
from warpsim.isa.traits import Access
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.engine import run
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import pattern_of
from warpsim.machine.plan import Image
from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import DeviceSpec, Dims, LaunchState, Settings
from warpsim.machine.values import Affine, Array
from warpsim.machine.watcher import READ, MemoryAccess, Watcher
from warpsim.native.tiering.eligibility import compiled_for
from warpsim.parallel.processes import Memory
from warpsim.program.load import program_of
from warpsim.records import frozen

Reduction = tuple[str, str]
"""Operation and type of a reduction."""
Extents = list[tuple[int, int]]
ONES = 0x0101010101010101


class Footprint(Watcher):
    """Marks the bytes of each allocation (by address) that are read, written and reduced into, in arrays of one uint8
    per byte. Compiled regions report their accesses themselves (`warpsim.native.runtime.extents.FootprintObserver`)."""

    compiled: ClassVar[frozenset[str]] = frozenset({"memory_accessed"})

    def __init__(self) -> None:
        self.read: dict[int, Array] = {}
        self.written: dict[int, Array] = {}
        self.reduced: dict[tuple[int, Reduction], Array] = {}
        self._seen: set[tuple[bool, int, tuple[int, ...], tuple[int, ...], int]] = set()

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark accesses of lanes."""
        allocation = access.allocation
        if allocation is None:
            return
        instruction = group.instruction
        at, reduces = access.at, instruction.traits.access is Access.ATOMIC
        plain = at if type(at) is Affine and access.active is None and not reduces else None
        if plain is not None:
            key = access.writes, plain.base, plain.strides, plain.extents, access.nbytes
            if key in self._seen:  # the same tile again, in a loop
                return
            self._seen.add(key)
        if reduces:
            kind = instruction.op.op, instruction.op.type.name
            marks = marks_of(self.reduced, (allocation.start, kind), allocation)
        else:
            marks = marks_of(self.written if access.writes else self.read, allocation.start, allocation)
        if plain is not None:
            mark_affine(marks, plain, allocation.start, access.nbytes)
            return
        place = access.places
        if access.active is not None:
            place, active = np.broadcast_arrays(place, access.active)
            place = place[active]
        mark(marks, place - allocation.start, access.nbytes)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Mark accesses of bulk copies."""
        memory, marks = machine.launch.memory, self.read if access == READ else self.written
        whole = memory.find(int(address.min()), int(address.max()) + nbytes) if address.size else None
        if whole is not None:
            mark(marks_of(marks, whole.start, whole), address - whole.start, nbytes)
            return
        owner = memory.owners(address, nbytes)
        for index in np.unique(owner[owner >= 0]):
            allocation = memory.allocation(int(index))
            mark(marks_of(marks, allocation.start, allocation), address[owner == index] - allocation.start, nbytes)

    # ---- what compiled regions report -----------------------------------------------------------------

    def extents_read(self, memory: GlobalMemory, extents: Extents) -> None:
        """Mark extents as read."""
        for allocation, first, last in _within(memory, extents):
            marks_of(self.read, allocation.start, allocation)[first:last] = 1

    def extents_written(
        self, memory: GlobalMemory, extents: Extents, mark: Callable[[int, int, int], None] | None
    ) -> None:
        """Mark what was stored, or the whole extents if that is unknown."""
        if mark is None:
            for allocation, first, last in _within(memory, extents):
                marks_of(self.written, allocation.start, allocation)[first:last] = 1
            return
        for allocation in {id(found[0]): found[0] for found in _within(memory, extents)}.values():
            host = allocation.data.ctypes.data
            marks = marks_of(self.written, allocation.start, allocation)
            mark(host, host + allocation.data.size, marks.ctypes.data)

    def extents_reduced(self, memory: GlobalMemory, extents: Extents, reduction: Reduction) -> None:
        """Mark extents as reduced into; unchanged elements do no harm (`merge`)."""
        for allocation, first, last in _within(memory, extents):
            marks_of(self.reduced, (allocation.start, reduction), allocation)[first:last] = 1


def _within(memory: GlobalMemory, extents: Extents) -> Iterator[tuple[Allocation, int, int]]:
    """The parts of allocations within address extents."""
    every = memory.allocations
    for low, high in extents:
        found = memory.find(low, high)
        for allocation in every if found is None else (found,):
            first, last = max(low, allocation.start), min(high, allocation.end)
            if first < last:
                yield allocation, first - allocation.start, last - allocation.start


def marks_of(marks: dict[Key, Array], key: Key, allocation: Allocation) -> Array:
    """The marks of an allocation, padded to whole elements."""
    found = marks.get(key)
    if found is None:
        found = marks[key] = np.zeros(-(-allocation.data.size // 16) * 16, np.uint8)
    return found


def mark(marks: Array, place: Array, nbytes: int) -> None:
    """Mark ``nbytes`` from each place, in the widest units that divide them all."""
    every = int(np.bitwise_or.reduce(place, axis=None)) | nbytes | 16
    unit = every & -every
    for first in range(0, nbytes, unit):
        index = (place + first) // unit if first else place // unit
        if unit == 16:
            marks.view(np.uint64).reshape(-1, 2)[index] = ONES
        else:
            marks.view(f"u{unit}")[index] = ONES & ((1 << 8 * unit) - 1)


def mark_affine(marks: Array, at: Affine, start: int, nbytes: int) -> None:
    """Mark affine addresses in an allocation that starts at ``start``, without expanding them."""
    unit = min(nbytes & -nbytes, 8)
    strides, shape = at.strides, pattern_of(at.strides, at.extents, nbytes).shape
    if nbytes > unit:
        strides, shape = (*strides, unit), (*shape, nbytes // unit)
    np.ndarray(shape, f"u{unit}", marks, at.base - start, strides)[...] = ONES & ((1 << 8 * unit) - 1)


Key = TypeVar("Key", int, tuple[int, Reduction])
WIDE = np.dtype(np.uint64)
KEPT = 8
"""Number of bound modules that a worker caches."""


@frozen
class Part:
    """The batches ``first`` to ``last`` (exclusive) of a launch, with everything they need, as plain data."""

    source: str
    file: str
    kernel: str
    addresses: dict[str, int]
    """Addresses of the module's variables."""
    grid: Dims
    block: Dims
    params: bytes
    device: DeviceSpec
    settings: Settings
    engine: str
    first: int
    last: int


@frozen
class Marks:
    """A set of bytes of an allocation: all from ``first`` to ``last`` (exclusive), or those whose bits in ``packed``
    are set."""

    first: int
    last: int
    packed: Array | None

    @classmethod
    def of(cls, marks: Array) -> Marks | None:
        """Convert one uint8 per byte; None for an empty set."""
        bits = marks.view(np.bool_)
        words = np.flatnonzero(marks.view(WIDE))
        if not words.size:
            return None
        first, last = 8 * int(words[0]), 8 * int(words[-1]) + 8
        first, last = first + int(bits[first:last].argmax()), last - int(bits[first:last][::-1].argmax())
        bits = bits[first:last]
        return cls(first, last, None if bits.all() else np.packbits(bits))

    def bits(self, first: int, last: int) -> Array:
        """One bool per byte of ``[first, last)``."""
        found = np.zeros(last - first, np.bool_)
        low, high = max(first, self.first), min(last, self.last)
        if low < high:
            found[low - first : high - first] = (
                True if self.packed is None else self._unpacked()[low - self.first : high - self.first]
            )
        return found

    def _unpacked(self) -> Array:
        assert self.packed is not None
        return np.unpackbits(self.packed, count=self.last - self.first).view(np.bool_)

    def overlaps(self, other: Marks) -> bool:
        """Whether two sets share a byte."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if first >= last:
            return False
        return bool((self.bits(first, last) & other.bits(first, last)).any())

    def index(self) -> slice | Array:
        """An index that selects the bytes in an array of the allocation."""
        if self.packed is None:
            return slice(self.first, self.last)
        return self.first + np.flatnonzero(self._unpacked())


@frozen
class Change:
    """Bytes that a part wrote or reduced into, their final values, and those of their shadow (None for none), in order."""

    marks: Marks
    values: Array
    written: Array | None = None


@frozen
class Outcome:
    """The result of a part: the bytes that it read, wrote and reduced into, by allocation address."""

    read: dict[int, Marks]
    written: dict[int, Change]
    reduced: dict[tuple[int, Reduction], Change]
    known: bool
    """Whether the marks cover all bytes that changed."""
    ctas: int
    instructions: int
    thread_instructions: int
    cycles: int
    counts: dict[tuple[str, int], int]
    """Warps that entered each block, by function name and block number."""
    findings: dict[tuple[object, ...], Finding]
    printed: tuple[str, ...]
    error: tuple[Finding, ...] | None
    """The findings that ended the launch, if any."""


class _Worker(threading.local):
    """The modules that a thread has bound. Threads that run at the same time do not share bound steps."""

    def __init__(self) -> None:
        self.images: OrderedDict[tuple[object, ...], Image] = OrderedDict()

    def image(self, part: Part) -> Image:
        """The bound module of a part, with its compiled code."""
        key = part.source, part.file, tuple(part.addresses.items())
        found = self.images.pop(key, None)
        if found is None:
            found = Image(program_of(part.source, part.file), dict(part.addresses), bind_function)
        self.images[key] = found
        if len(self.images) > KEPT:
            self.images.popitem(last=False)
        return found


_MINE = _Worker()


def perform(part: Part, sent: Memory) -> Outcome:
    """Run a part. A launch that ends with findings is a valid outcome; any exception is a defect of the machine it ran
    on."""
    before, memory = sent.load()
    plan = _MINE.image(part).plan(part.kernel)
    state = LaunchState(plan, part.grid, part.block, part.params, memory, part.device, part.settings)
    state.waves, state.last_wave = part.first, part.last
    footprint, printed = Footprint(), list[str]()
    error = None
    try:
        seeing = [*watchers_of(state), footprint]
        run(state, seeing, printed.append, None, compiled_for(part.engine, seeing, state, footprint))
    except ExecutionError as problem:
        error = problem.findings
    return Outcome(
        {at: marks for at, m in footprint.read.items() if (marks := Marks.of(m)) is not None},
        _changes(footprint.written, memory),
        _changes(footprint.reduced, memory),
        _all_marked(before, memory, footprint),
        state.done_ctas,
        state.instructions,
        state.thread_instructions,
        state.now,
        {
            (function.function.name, block.index): state.counts[block]
            for function in plan.functions
            for block in function.blocks
            if block in state.counts
        },
        state.findings,
        tuple(printed),
        error,
    )


def _changes(touched: dict[Key, Array], memory: GlobalMemory) -> dict[Key, Change]:
    found = {}
    for key, marks in touched.items():
        packed = Marks.of(marks)
        if packed is not None:
            at = memory.at(key[0] if isinstance(key, tuple) else key)
            assert at is not None
            bits = None if at.shadow is None else at.shadow.data[packed.index()]
            found[key] = Change(packed, at.data[packed.index()], bits)
    return found


def _withheld(allocation: Allocation) -> dict[object, int]:
    """What tells the undefined bytes that are withheld from those of a copy, as long as both exist."""
    return {key: id(one.marks.data) for key, one in (allocation.withheld or {}).items()}


def _all_marked(before: GlobalMemory, after: GlobalMemory, footprint: Footprint) -> bool:
    """Whether all changed bytes are marked, so that no unobserved memory change is lost."""
    for old in before.allocations:
        new = after.at(old.start)
        if new is None or new.data.size != old.data.size or _withheld(new) != _withheld(old):
            return False
        if new.data is old.data:
            continue
        if np.array_equal(old.elements(WIDE), new.elements(WIDE)) and np.array_equal(old.data[-7:], new.data[-7:]):
            continue
        changed = new.data != old.data
        for marks in (
            footprint.written.get(old.start),
            *(m for (at, _), m in footprint.reduced.items() if at == old.start),
        ):
            if marks is not None:
                changed[marks.view(np.bool_)[: changed.size]] = False
        if changed.any():
            return False
    return True
