"""Where two kernels part: on the way back from a value, the first instruction whose inputs the other kernel has computed, too, and
whose result it has not.

Two texts share no registers, so values are compared by their bits, with all that the other kernel's CTA has computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import finding_at, locate
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import as_array
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction
from warpsim.records import define, frozen
from warpsim.types import ScalarType

MOST = 200_000
"""Steps of a warp that are kept."""
HOPS = 8
"""How often a value is followed from one warp to another."""
Cta = tuple[int, int, int]


def _lanes(machine: Machine, group: Group, cta: Cta) -> tuple[Array, Array]:
    """The threads of a group that belong to a CTA: where they stand in the group, and their numbers in the CTA."""
    gx, gy, _ = machine.launch.grid
    columns = np.flatnonzero(machine.batch.ctas == cta[0] + gx * (cta[1] + gy * cta[2]))
    positions, count = group.selection.positions.reshape(-1), machine.batch.shape.n_ctas
    at = np.flatnonzero(positions % count == columns[0]) if len(columns) else columns
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


@define(eq=False)
class Step:
    """What a warp did: the bits of the registers that it read and wrote, and the addresses of the memory that it accessed, by
    lane."""

    instruction: Instruction
    function: Function
    lanes: list[int]
    reads: dict[int, list[int]] = attrs.field(factory=dict)
    writes: dict[int, list[int]] = attrs.field(factory=dict)
    space: str = ""
    places: list[int] | None = None

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

    def stored(self, space: str, place: int) -> tuple[int, int] | None:
        """The lane and the register that it stored to a byte of memory."""
        if self.instruction.traits.access is not Access.STORE or self.space != space or self.places is None:
            return None
        for at, first in reversed(list(enumerate(self.places))):
            if self.passes(at):
                for slot, offset in reversed(self.data):
                    if first + offset <= place < first + offset + self.function.registers[slot].type.bytes:
                        return self.lanes[at], slot
        return None


class Steps(Watcher):
    """What a warp of a CTA does. ``wanted``: who wrote bytes of memory last before its step of that number."""

    def __init__(self, cta: Cta, warp: int, wanted: tuple[str, int, int] | None = None) -> None:
        self.cta, self.warp, self.wanted = cta, warp, wanted
        self.steps: list[Step] = []
        self.launch: LaunchState | None = None
        self.writer: tuple[Cta, int] | None = None

    def launch_began(self, launch: LaunchState) -> None:
        """Keep the launch, whose text the steps are from."""
        self.launch = launch

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A step begins."""
        step = self._begin(machine, group)
        if step is not None:
            step[0].reads = {slot: _bits(group, slot, step[1]).tolist() for slot in registers}

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A step ends."""
        step = self._of(machine, group)
        if step is not None:
            step[0].writes = {slot: _bits(group, slot, step[1]).tolist() for slot in registers}

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Keep the addresses of its loads and stores; note who writes what is wanted."""
        step = self._of(machine, group)
        shape, space = group.selection.shape, access.space.split("::")[0]
        if step is not None:
            step[0].space, step[0].places = space, np.broadcast_to(access.places, shape).reshape(-1)[step[1]].tolist()
        if self.wanted is None or not access.writes or space != self.wanted[0] or len(self.steps) > self.wanted[2]:
            return
        hit = (access.places <= self.wanted[1]) & (self.wanted[1] < access.places + access.nbytes)
        if access.active is not None:
            hit = hit & access.active
        if hit.any():
            cta, warp, _ = locate(machine.launch, machine.batch, group, np.broadcast_to(hit, shape))
            if space == "global" or cta == self.cta:
                self.writer = cta, warp

    def _begin(self, machine: Machine, group: Group) -> tuple[Step, Array] | None:
        at, lanes = self._mine(machine, group)
        if not lanes or len(self.steps) >= MOST:
            return None
        self.steps.append(Step(group.instruction, group.plan.function, lanes))
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
    how far it could be followed)."""

    launch: LaunchState
    step: Step
    cta: Cta
    warp: int
    lane: int
    reached: bool

    def lines(self, other: str) -> list[str]:
        """As the end of an explanation."""
        at, found = self.step.lanes.index(self.lane), finding_at(self.launch, self.step.instruction)

        def said(slots: Iterable[int], held: dict[int, list[int]]) -> str:
            registers = [self.step.function.registers[slot] for slot in dict.fromkeys(slots)]
            return ", ".join(f"{r.name} = {_shown(held[r.index][at], r.type)}" for r in registers)

        cuda = f" ({found.source[0]}:{found.source[1]})" if found.source else ""
        what = (
            f"parts from {other} here, by the same values with another result"
            if self.reached
            else "followed back to here"
        )
        given = said((slot for slot, _ in self.step.data), self.step.reads)
        return [
            f"  {what}: CTA {self.cta}, warp {self.warp}, lane {self.lane}:",
            f"    {found.file}:{found.line}{cuda}: {found.text.strip()}",
            f"      {said(self.step.writes, self.step.writes)}{f' from {given}' if given else ''}",
        ]


def _shown(bits: int, type: ScalarType) -> str:
    """A register's bits as the number that it holds, if its type tells."""
    if type.name in ("f32", "f64", "f16", "bf16"):
        value = np.array([bits], np.uint64).astype(f"u{type.bytes}").view(type.dtype)[0]
        return f"{float(value):.9g}"
    return f"0x{bits:x}"


Run = Callable[[Watcher], None]
"""Runs a launch with a watcher."""


def parting(run: Run, cta: Cta, warp: int, address: int, other: Array) -> Parting | None:
    """Follow the last value that a warp stored to a byte of global memory back to the first instruction whose inputs are among the
    ``other`` values and whose result is not; None where the value itself is among them, or a copy stored it."""
    known, reached = set(other.tolist()), None
    space, place, before = "global", address, MOST
    for _ in range(HOPS):
        trace = Steps(cta, warp)
        run(trace)
        way = _Way(trace, known, cta, warp)
        start = way.stored(space, place, before)
        if start is None:
            return reached
        way.follow(*start)
        reached = way.reached or reached
        if way.memory is None:
            return reached
        space, place, before = way.memory
        asked = Steps(cta, warp, (space, place, before))
        run(asked)
        if asked.writer is None or asked.writer == (cta, warp):
            return reached
        (cta, warp), before = asked.writer, MOST
    return reached


class _Way:
    """The way back from a value in the steps of a warp, along values that are not ``known``."""

    def __init__(self, trace: Steps, known: set[int], cta: Cta, warp: int) -> None:
        self.trace, self.known, self.cta, self.warp = trace, known, cta, warp
        self.reached: Parting | None = None
        self.memory: tuple[str, int, int] | None = None
        """Where the way leaves the warp: a byte of memory that the step of that number has loaded."""

    def stored(self, space: str, place: int, before: int) -> tuple[int, int, int] | None:
        """The last step that stored to a byte, with lane and register."""
        for number in range(min(before, len(self.trace.steps)) - 1, -1, -1):
            found = self.trace.steps[number].stored(space, place)
            if found is not None:
                return number, *found
        return None

    def follow(self, number: int, lane: int, slot: int) -> None:
        """From a register that a step reads."""
        steps = self.trace.steps
        function = steps[number].function
        bits = steps[number].reads[slot][steps[number].lanes.index(lane)]
        while bits not in self.known:
            number = next((k for k in range(number - 1, -1, -1) if steps[k].wrote(function, slot, lane)), -1)
            if number < 0 or self.trace.launch is None:
                return
            step = steps[number]
            at = step.lanes.index(lane)
            loads, inputs = step.instruction.traits.access is Access.LOAD, self._unknown(step, at, bits)
            self.reached = Parting(
                self.trace.launch, step, self.cta, self.warp, lane, reached=not (loads or inputs or not step.data)
            )
            if loads and step.places is not None:
                size = step.function.registers[slot].type.bytes
                place = step.places[at] + size * list(step.writes).index(slot)
                found = self.stored(step.space, place, number)
                if found is None:
                    self.memory = step.space, place, number
                    return
                number, lane, slot = found
                at = steps[number].lanes.index(lane)
                bits = steps[number].reads[slot][at]
            elif not inputs:
                return
            else:
                at, slot = inputs[0]
                lane, bits = step.lanes[at], step.reads[slot][at]

    def _unknown(self, step: Step, at: int, bits: int) -> list[tuple[int, int]]:
        """The inputs of a step that the other kernel has not: lane by lane and register; what a lane only passed on first."""
        lanes = [at] if step.instruction.form.scope is Scope.THREAD else range(len(step.lanes))
        found = [(k, slot) for slot, _ in step.data for k in lanes if step.reads[slot][k] not in self.known]
        return sorted(found, key=lambda each: step.reads[each[1]][each[0]] != bits)
