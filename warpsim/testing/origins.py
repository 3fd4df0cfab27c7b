"""Where two kernels part: on the way back from a value, the first instruction whose inputs the other kernel has computed, too, and
whose result it has not.

Two texts share no registers, so values are compared by their bits, with all that the other kernel's CTA has computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

import attrs
import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Matrix
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import finding_at, locate
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import BoxStore, RunStore, Transfer, Which
from warpsim.machine.values import as_array
from warpsim.machine.watcher import ATOMIC, MemoryAccess, Watcher
from warpsim.numerics.arrays import Array
from warpsim.observe import accuracy_matrices as matrices
from warpsim.observe.accuracy_memory import moved
from warpsim.program.program import Function, Instruction
from warpsim.records import define, frozen
from warpsim.testing.replaying import cuda_lines
from warpsim.types import ScalarType

MOST = 200_000
"""Steps of a warp that are kept."""
HOPS = 16
"""How often a value is followed through memory."""
FOREVER = 1 << 62
Cta = tuple[int, int, int]


def batch_column(machine: Machine, cta: Cta) -> int:
    """The column of a CTA in the batch; -1 if it is in another."""
    found = machine.column_of(cta)
    return -1 if found is None else found


def _lanes(machine: Machine, group: Group, cta: Cta) -> tuple[Array, Array]:
    """The threads of a group that belong to a CTA: where they stand in the group, and their numbers in the CTA."""
    positions, count = group.selection.positions.reshape(-1), machine.batch.shape.n_ctas
    at = np.flatnonzero(positions % count == batch_column(machine, cta))
    return at, positions[at] // count


def _bits(group: Group, slot: int, at: Array) -> Array:
    """A register's bits in some threads; of 128 bits the low half."""
    value = np.broadcast_to(as_array(group.read(slot)), group.selection.shape).reshape(-1)[at]
    size = value.dtype.itemsize
    bits = value.view(f"u{size}") if size <= 8 else value.view(np.uint64)[::2]
    return bits.astype(np.uint64)


class Values(Watcher):
    """The bits that threads of a CTA write to registers, a value once."""

    def __init__(self, cta: Cta) -> None:
        self.cta, self.kept = cta, list[Array]()

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Keep them."""
        at, _ = _lanes(machine, group, self.cta)
        self.kept += [np.unique(_bits(group, slot, at)) for slot in registers if len(at)]
        if len(self.kept) > 4096:
            self.kept = [self.all()]

    def all(self) -> Array:
        """All of them, ascending."""
        return np.unique(np.concatenate(self.kept)) if self.kept else np.zeros(0, np.uint64)


@frozen
class Byte:
    """A byte of memory (of shared and local memory, that of a CTA) as it is at a moment: before that many events of the launch."""

    space: str
    place: int
    cta: Cta
    before: int


@define(eq=False)
class Step:
    """What a warp did at a moment: the bits of the registers that it read and wrote, and the addresses of the memory that it
    accessed, by lane, or by row of matrices."""

    instruction: Instruction
    function: Function
    lanes: list[int]
    moment: int
    reads: dict[int, list[int]] = attrs.field(factory=dict)
    writes: dict[int, list[int]] = attrs.field(factory=dict)
    space: str = ""
    places: list[int] | None = None
    rows: list[int] = attrs.field(factory=list)

    def passes(self, at: int) -> bool:
        """Whether a lane passes the guard."""
        guard = self.instruction.guard
        return guard is None or guard[0].index not in self.reads or bool(self.reads[guard[0].index][at]) != guard[1]

    def wrote(self, function: Function, slot: int, lane: int) -> bool:
        """Whether a lane wrote a register."""
        mine = self.function is function and slot in self.writes and lane in self.lanes
        return mine and self.passes(self.lanes.index(lane))

    @property
    def data(self) -> list[tuple[int, int]]:
        """The registers whose values it reads, not as addresses, and the byte at which each stands among those it stores."""
        found, first = [], 0
        for operand in (part for o in self.instruction.inputs if o.base is None for part in o.parts):
            if operand.register is not None and operand.type.bits > 1 and operand.register.index in self.reads:
                found.append((operand.register.index, first))
            first += operand.type.bytes
        return found

    def loaded(self, slot: int, lane: int) -> list[int]:
        """Where in memory a lane's register came from: one byte of each element."""
        number = list(self.writes).index(slot)
        if self.rows and self.instruction.traits.matrix is Matrix.LOAD:
            elements = matrices.loaded(self.instruction)[number][lane].tolist()
            return [self.rows[e // 8] + 2 * (e % 8) for e in elements]
        if self.instruction.traits.access not in (Access.LOAD, Access.ATOMIC) or self.places is None:
            return []
        return [self.places[self.lanes.index(lane)] + self.function.registers[slot].type.bytes * number]

    def stored(self, space: str, place: int) -> list[tuple[int, int]]:
        """The lanes and registers that it stored to a byte of memory, or added to it, the last first."""
        found: list[tuple[int, int]] = []
        if self.space != space:
            return found
        if self.rows and self.instruction.traits.matrix is Matrix.STORE:
            slots = [o.registers[0] for o in self.instruction.named["r"].parts]
            for row, first in enumerate(self.rows):
                if first <= place < first + 16:
                    table = matrices.stored(self.instruction)[row // 8][row % 8]
                    element = int(table.reshape(-1)[(place - first) // 2])
                    found.insert(0, (element // 2 % 32, slots[element // 64]))
            return found
        if self.instruction.traits.access not in (Access.STORE, Access.ATOMIC) or self.places is None:
            return found
        for at, first in reversed(list(enumerate(self.places))):
            if self.passes(at):
                found += [
                    (self.lanes[at], slot)
                    for slot, offset in reversed(self.data)
                    if first + offset <= place < first + offset + self.function.registers[slot].type.bytes
                ]
        return found


@frozen(eq=False)
class Copy:
    """An asynchronous copy that wrote a byte: where that byte was before."""

    instruction: Instruction
    source: Byte
    cta: Cta
    warp: int
    lane: int


class Steps(Watcher):
    """What a warp of a CTA does, and who wrote a byte of memory last: a warp, by its CTA and number, or a copy. Of those that add
    to it, the last that adds a value that is not ``known``."""

    def __init__(self, cta: Cta, warp: int, wanted: Byte | None = None, known: Set[int] = frozenset()) -> None:
        self.cta, self.warp, self.wanted, self.known = cta, warp, wanted, known
        self.steps: list[Step] = []
        self.launch: LaunchState | None = None
        self.writer: tuple[Cta, int] | Copy | None = None
        self.moment = 0

    def launch_began(self, launch: LaunchState) -> None:
        """Keep the launch, whose text the steps are from."""
        self.launch = launch

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A step begins."""
        self.moment += 1
        step = self._begin(machine, group)
        if step is not None:
            step[0].reads = {slot: _bits(group, slot, step[1]).tolist() for slot in registers}

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A step ends."""
        self.moment += 1
        step = self._of(machine, group)
        if step is not None:
            step[0].writes = {slot: _bits(group, slot, step[1]).tolist() for slot in registers}

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Keep the addresses of its loads and stores; note who writes what is wanted."""
        self.moment += 1
        step = self._of(machine, group)
        shape, space = group.selection.shape, access.space.split("::")[0]
        if step is not None:
            step[0].space, step[0].places = space, np.broadcast_to(access.places, shape).reshape(-1)[step[1]].tolist()
        if not access.writes or not self._wants(machine, space):
            return
        hit = np.broadcast_to(self._hit(machine, access), shape)
        if access.kind == ATOMIC and isinstance(self.writer, tuple) and not self._adds(group, hit):
            return
        if hit.any():
            cta, warp, _ = locate(machine.launch, machine.batch, group, hit)
            self.writer = cta, warp

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """The same for rows of matrices."""
        self.moment += 1
        step, warps = self._of(machine, group), group.warps
        shape = warps.n, access.places.shape[1], warps.m
        places, ctas = np.broadcast_to(access.places, shape), np.broadcast_to(warps.ctas, (warps.n, warps.m))
        if step is not None:
            column, thread = batch_column(machine, self.cta), warps.first_thread >> 5 == self.warp
            which = np.argwhere((ctas == column) & thread[:, None])
            step[0].space = "shared"
            step[0].rows += places[which[0][0], :, which[0][1]].tolist() if len(which) else []
        if access.writes and self._wants(machine, "shared"):
            which = np.argwhere(self._hit(machine, access).any(axis=1))
            for n, m in which.tolist():
                cta = machine.cta_at(int(ctas[n, m]))
                self.writer = cta, int(warps.first_thread[n]) >> 5

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which
    ) -> None:
        """Note a copy that writes what is wanted."""
        self.moment += 1
        found = moved(transfer, which)
        if found is None or self.wanted is None or self.moment >= self.wanted.before:
            return
        address, start, columns, size = found
        to_global = isinstance(transfer.work, RunStore | BoxStore)
        if self.wanted.space != ("global" if to_global else "shared"):
            return
        place, column = self.wanted.place, batch_column(machine, self.wanted.cta)
        there = address if to_global else start
        hit = np.flatnonzero((there <= place) & (place < there + size) & (to_global | (columns == column)))
        if len(hit):
            at, count = int(hit[-1]), machine.batch.shape.n_ctas
            thread, owner = divmod(int(transfer.positions[which][at if len(address) == len(which) else 0]), count)
            source = start if to_global else address
            cta = machine.cta_at(int(columns[at]))
            byte = Byte("shared" if to_global else "global", int(source[at] + place - there[at]), cta, self.moment)
            instruction = transfer.place or group.instruction
            self.writer = Copy(instruction, byte, machine.cta_at(owner), thread >> 5, thread & 31)

    def _wants(self, machine: Machine, space: str) -> bool:
        """Whether a byte of this memory is looked for now."""
        wanted = self.wanted
        if wanted is None or space != wanted.space or self.moment >= wanted.before:
            return False
        return space == "global" or batch_column(machine, wanted.cta) >= 0

    def _hit(self, machine: Machine, access: MemoryAccess) -> Array:
        assert self.wanted is not None
        hit = (access.places <= self.wanted.place) & (self.wanted.place < access.places + access.nbytes)
        if self.wanted.space == "shared":
            hit = hit & (access.columns == batch_column(machine, self.wanted.cta))
        return hit if access.active is None else hit & access.active

    def _adds(self, group: Group, hit: Array) -> bool:
        """Whether lanes add what is not known."""
        at = np.flatnonzero(hit)
        slots = [p.register.index for o in group.instruction.inputs if o.base is None for p in o.parts if p.register]
        return any(bits not in self.known for slot in slots for bits in _bits(group, slot, at).tolist())

    def _begin(self, machine: Machine, group: Group) -> tuple[Step, Array] | None:
        at, lanes = self._mine(machine, group)
        if not lanes or len(self.steps) >= MOST:
            return None
        self.steps.append(Step(group.instruction, group.plan.function, lanes, self.moment))
        return self.steps[-1], at

    def _mine(self, machine: Machine, group: Group) -> tuple[Array, list[int]]:
        at, threads = _lanes(machine, group, self.cta)
        mine = threads >> 5 == self.warp
        return at[mine], (threads[mine] & 31).tolist()

    def _of(self, machine: Machine, group: Group) -> tuple[Step, Array] | None:
        """The step that has begun; one that reads no register begins here."""
        at, lanes = self._mine(machine, group)
        last = self.steps[-1] if self.steps else None
        if last is not None and last.instruction is group.instruction and last.lanes == lanes and not last.writes:
            return last, at
        return self._begin(machine, group)


@frozen(eq=False)
class Parting:
    """The first value on the way that the other kernel has not: where, and the values that it was made of (``reached`` False: only
    how far it could be followed). Or where a value was read that nobody has stored in this launch (``taken``: its address)."""

    launch: LaunchState
    step: Step
    cta: Cta
    warp: int
    lane: int
    reached: bool = False
    taken: int | None = None

    def lines(self, what: str) -> list[str]:
        """As the end of an explanation, which says ``what`` happens here."""
        at, found = self.step.lanes.index(self.lane), finding_at(self.launch, self.step.instruction)

        def said(slots: Iterable[int], held: dict[int, list[int]]) -> str:
            registers = [self.step.function.registers[slot] for slot in dict.fromkeys(slots)]
            return ", ".join(f"{r.name} = {_shown(held[r.index][at], r.type)}" for r in registers)

        given = said((slot for slot, _ in self.step.data), self.step.reads)
        made = said(self.step.writes, self.step.writes)
        return [
            f"  {what}: CTA {self.cta}, warp {self.warp}, lane {self.lane}:",
            f"    {found.file}:{found.line}{cuda_lines(found)}: {found.text.strip()}",
            *([f"      {made}{f' from {given}' if given else ''}"] if made else []),
        ]


def _shown(bits: int, type: ScalarType) -> str:
    """A register's bits as the number that it holds, if its type tells."""
    if type.name in ("f32", "f64", "f16", "bf16"):
        value = np.array([bits], np.uint64).astype(f"u{type.bytes}").view(type.dtype)[0]
        return f"{float(value):.9g}"
    return f"0x{bits:x}"


Run = Callable[[Watcher], None]
"""Runs a launch with a watcher."""


class Way:
    """The way back from the last value that a warp, or a copy that it started, has left in a byte of global memory, along values that
    are not among the ``known`` ones of the other kernel, to the first instruction whose inputs are."""

    def __init__(self, run: Run, cta: Cta, warp: int, address: int, known: Set[int]) -> None:
        self.run, self.known = run, known
        self.reached: Parting | None = None
        """That instruction, or how far the way leads; None where the value itself is known."""
        self._end: tuple[Steps, int, list[tuple[int, int]]] | None = None
        """What of it is followed no further: the lanes and registers that a step reads."""
        self._memory(Byte("global", address, cta, FOREVER), cta, warp, HOPS)

    @property
    def inputs(self) -> set[int]:
        """The values at its end."""
        if self._end is None:
            return set()
        trace, number, ends = self._end
        return {_read(trace.steps[number], lane, slot) for lane, slot in ends}

    def source(self, others: Set[int]) -> Parting | None:
        """Where the first of these that is not among the ``others`` was read, if it was only moved since."""
        if self._end is None or (self.reached is not None and not self.reached.reached):
            return None
        trace, number, ends = self._end
        mine = ((lane, slot) for lane, slot in ends if _read(trace.steps[number], lane, slot) not in others)
        return next((self._moved(trace, number, lane, slot, HOPS) for lane, slot in mine), None)

    def _moved(self, trace: Steps, number: int, lane: int, slot: int, hops: int) -> Parting | None:
        """Where the value of a register that a step reads was read; None if it was computed."""
        bits = _read(trace.steps[number], lane, slot)
        while (number := _writer(trace.steps, number, lane, slot)) >= 0:
            step = trace.steps[number]
            if places := step.loaded(slot, lane):
                return self._brought(Byte(step.space, places[0], trace.cta, step.moment), trace, step, lane, hops)
            alike = [
                (other, each)
                for each, _ in step.data
                for other in ([lane] if step.instruction.form.scope is Scope.THREAD else step.lanes)
                if _read(step, other, each) == bits
            ]
            if not alike:
                break
            lane, slot = alike[0]
        return None

    def _brought(self, byte: Byte, trace: Steps, step: Step, lane: int, hops: int) -> Parting | None:
        """Where what a step reads from memory was read first."""
        asked = self._seen(trace.cta, trace.warp, byte)
        writer = asked.writer
        if writer is None and byte.space == "global" and trace.launch is not None:
            return Parting(trace.launch, step, trace.cta, trace.warp, lane, taken=byte.place)
        if writer is None or not hops:
            return None
        if isinstance(writer, Copy):
            there, number = self._start_of(writer)
            return (
                None
                if number is None
                else self._brought(writer.source, there, there.steps[number], writer.lane, hops - 1)
            )
        there = asked if writer == (trace.cta, trace.warp) else self._seen(*writer)
        for number, found in _stores(there, byte):
            moves = there.steps[number].instruction.traits.access is not Access.ATOMIC
            return self._moved(there, number, *found[0], hops - 1) if moves else None
        return None

    def _seen(self, cta: Cta, warp: int, wanted: Byte | None = None) -> Steps:
        found = Steps(cta, warp, wanted, self.known)
        self.run(found)
        return found

    def _memory(self, byte: Byte, cta: Cta, warp: int, hops: int) -> bool:
        """From a byte that a step of this warp has loaded; whether it is followed further."""
        asked = self._seen(cta, warp, byte)
        writer = asked.writer
        if writer is None or not hops:
            return False
        if isinstance(writer, Copy):
            self._copied(writer, hops - 1)
            return True
        trace = asked if writer == (cta, warp) else self._seen(*writer)
        for number, found in _stores(trace, byte):
            step = trace.steps[number]
            self._end = self._end or (trace, number, found[:1])
            for lane, slot in found:
                if _read(step, lane, slot) not in self.known:
                    self._follow(trace, number, lane, slot, hops)
                    return True
            if step.instruction.traits.access is not Access.ATOMIC:
                return False
        return False

    def _start_of(self, copy: Copy) -> tuple[Steps, int | None]:
        """What the warp does that started a copy, and which of its steps that is."""
        trace = self._seen(copy.cta, copy.warp)
        before = (k for k in range(len(trace.steps) - 1, -1, -1) if trace.steps[k].moment < copy.source.before)
        return trace, next((k for k in before if trace.steps[k].instruction is copy.instruction), None)

    def _copied(self, copy: Copy, hops: int) -> None:
        """From a copy to its source, or to what it was told if nobody has stored that in this launch."""
        trace, number = self._start_of(copy)
        if number is None or trace.launch is None:
            return
        step = trace.steps[number]
        self.reached = Parting(trace.launch, step, copy.cta, copy.warp, copy.lane)
        if not self._memory(copy.source, copy.cta, copy.warp, hops) and copy.lane in step.lanes:
            told = self._unknown(trace, number, step.lanes.index(copy.lane), 0, step.reads)
            if told:
                self._follow(trace, number, copy.lane, told[0][1], hops)

    def _follow(self, trace: Steps, number: int, lane: int, slot: int, hops: int) -> None:
        """From a register that a step reads."""
        steps = trace.steps
        bits = _read(steps[number], lane, slot)
        while bits not in self.known:
            number = _writer(steps, number, lane, slot)
            if number < 0 or trace.launch is None:
                return
            step = steps[number]
            at = step.lanes.index(lane)
            places, data = step.loaded(slot, lane), [slot for slot, _ in step.data]
            inputs = self._unknown(trace, number, at, bits, data)
            parts = not (places or inputs or not step.data)
            self.reached = Parting(trace.launch, step, trace.cta, trace.warp, lane, reached=parts)
            among = [lane] if step.instruction.form.scope is Scope.THREAD else step.lanes
            self._end = trace, number, [(each, slot) for slot in data for each in among]
            bytes_read = [Byte(step.space, place, trace.cta, step.moment) for place in places]
            if any(self._memory(byte, trace.cta, trace.warp, hops - 1) for byte in bytes_read):
                return
            inputs = inputs or self._unknown(trace, number, at, bits, step.reads if places else ())
            if not inputs:
                return
            at, slot = inputs[0]
            lane, bits = step.lanes[at], step.reads[slot][at]

    def _unknown(self, trace: Steps, number: int, at: int, bits: int, slots: Iterable[int]) -> list[tuple[int, int]]:
        """The inputs of a step that the other kernel has not computed: lane by lane and register; what a lane only passed on first.
        Numbers of the text, parameters and special registers are none."""
        step = trace.steps[number]
        lanes = [at] if step.instruction.form.scope is Scope.THREAD else range(len(step.lanes))
        found = [
            (k, slot)
            for slot in slots
            for k in lanes
            if step.reads[slot][k] not in self.known and not _given(trace.steps, number, step.lanes[k], slot)
        ]
        return sorted(found, key=lambda each: step.reads[each[1]][each[0]] != bits)


def _read(step: Step, lane: int, slot: int) -> int:
    return step.reads[slot][step.lanes.index(lane)]


def _stores(trace: Steps, byte: Byte) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The steps that stored a byte, the last first, with their lanes and registers."""
    for number in range(len(trace.steps) - 1, -1, -1):
        if trace.steps[number].moment < byte.before:
            found = trace.steps[number].stored(byte.space, byte.place)
            if found:
                yield number, found


def _writer(steps: list[Step], number: int, lane: int, slot: int) -> int:
    """The last step before another in which a lane wrote a register that it reads; -1 for none."""
    function = steps[number].function
    return next((k for k in range(number - 1, -1, -1) if steps[k].wrote(function, slot, lane)), -1)


def _given(steps: list[Step], number: int, lane: int, slot: int) -> bool:
    """Whether a register that a step reads holds what no register and no memory gave."""
    writer = _writer(steps, number, lane, slot)
    return writer >= 0 and not steps[writer].reads and steps[writer].places is None
