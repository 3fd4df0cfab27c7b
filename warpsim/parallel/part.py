"""A part of a launch: what is shipped, what comes back, and running it, wherever that is."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar

import attrs
import numpy as np

from warpsim.checks.watchers import watchers_of
from warpsim.errors import ExecutionError, Finding
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.engine import run
from warpsim.machine.plan import Image
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.launch import DeviceSpec, Dims, LaunchState, Settings
from warpsim.machine.values import Array
from warpsim.native.serving import compiled_for
from warpsim.parallel.footprint import Footprint, Reduction
from warpsim.parallel.shipping import Memory
from warpsim.program.build import program_of

Key = TypeVar("Key", int, tuple[int, Reduction])
WIDE = np.dtype(np.uint64)
KEPT = 8
"""Bound modules that a worker keeps for further launches."""


@attrs.frozen
class Part:
    """The batches ``first`` to ``last`` (not included) of a launch, with all that they need: plain data."""

    source: str
    file: str
    kernel: str
    addresses: dict[str, int]
    """Where the variables of the module lie."""
    memory: Memory
    grid: Dims
    block: Dims
    params: bytes
    device: DeviceSpec
    settings: Settings
    engine: str
    first: int
    last: int


@attrs.frozen
class Marks:
    """A set of bytes of an allocation: all from ``first`` to ``last`` (not included), or those of them that ``packed`` has
    bits for."""

    first: int
    last: int
    packed: Array | None

    @classmethod
    def of(cls, marks: Array) -> Marks | None:
        """From one uint8 a byte; None for no bytes."""
        bits = marks.view(np.bool_)
        words = np.flatnonzero(marks.view(WIDE))
        if not words.size:
            return None
        first, last = 8 * int(words[0]), 8 * int(words[-1]) + 8
        first, last = first + int(bits[first:last].argmax()), last - int(bits[first:last][::-1].argmax())
        bits = bits[first:last]
        return cls(first, last, None if bits.all() else np.packbits(bits))

    def bits(self, first: int, last: int) -> Array:
        """One bool for each byte of ``[first, last)``."""
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

    def meets(self, other: Marks) -> bool:
        """Whether a byte is in both."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if first >= last:
            return False
        return bool((self.bits(first, last) & other.bits(first, last)).any())

    def index(self) -> slice | Array:
        """What selects the bytes in an array of the allocation."""
        if self.packed is None:
            return slice(self.first, self.last)
        return self.first + np.flatnonzero(self._unpacked())


@attrs.frozen
class Change:
    """Bytes that a part wrote, or reduced into, and their values at its end, in their order."""

    marks: Marks
    values: Array


@attrs.frozen
class Outcome:
    """What a part did: the bytes that it read, wrote and reduced into, by the addresses of allocations."""

    read: dict[int, Marks]
    written: dict[int, Change]
    reduced: dict[tuple[int, Reduction], Change]
    known: bool
    """Whether the marks hold all bytes that changed."""
    ctas: int
    instructions: int
    thread_instructions: int
    cycles: int
    counts: dict[tuple[str, int], int]
    """Warps that have entered each block, by its function's name and its number."""
    findings: dict[tuple[str, int, int, str], Finding]
    printed: tuple[str, ...]
    error: tuple[Finding, ...] | None
    """The findings with which the launch ended, if it did."""


class _Worker(threading.local):
    """The modules that a thread has bound: steps are not shared between threads that run at the same time."""

    def __init__(self) -> None:
        self.images: OrderedDict[tuple[object, ...], Image] = OrderedDict()

    def image(self, part: Part) -> Image:
        """The module of a part, bound, with what was compiled of it."""
        key = part.source, part.file, tuple(part.addresses.items())
        found = self.images.pop(key, None)
        if found is None:
            found = Image(program_of(part.source, part.file), dict(part.addresses), bind_function)
        self.images[key] = found
        if len(self.images) > KEPT:
            self.images.popitem(last=False)
        return found


_MINE = _Worker()


def perform(part: Part) -> Outcome:
    """Run a part. A launch that ends with findings is an outcome too; any exception is a defect of the machine it ran on."""
    before, memory = part.memory.load()
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
            found[key] = Change(packed, memory.bytes_at(key[0] if isinstance(key, tuple) else key)[packed.index()])
    return found


def _all_marked(before: GlobalMemory, after: GlobalMemory, footprint: Footprint) -> bool:
    """Whether no byte changed beside the marked ones: what an instruction does to memory unseen must not be lost."""
    for old in before.allocations:
        new = after.at(old.start)
        if new is None or new.data.size != old.data.size:
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
