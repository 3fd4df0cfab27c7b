"""What undefined values matter to, found by difference.

Where one decides a branch, a guard or a predicate, the launch goes on. At its end, what follows the first use of anything
undefined runs again from the state of then, with other values in every undefined bit. If each of these runs leaves the same
in every defined bit, prints the same and breaks no other rule, what was decided reaches no result: a note. If not, the first
use is an error.

Where one is an address, or is stored to global memory, these runs go as far as that: it is an error if they come with other
values. If they come with the same, as of ``x + u - u``, nothing there is undefined, and the end of the launch decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

import attrs
import numpy as np
from attrs import field

from warpsim.checks.undefined_products import EARLY
from warpsim.checks.undefined_registers import WRITE_FIRST, Use, travels, use_of, used_by
from warpsim.checks.written import LEFT, LOOSE, spoil
from warpsim.errors import Finding
from warpsim.machine.heap import NAME as HEAP
from warpsim.machine.hooks import Hooks
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import made, present
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.launched import ordered
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction, line_column
from warpsim.records import define, frozen

Key = tuple[object, ...]
TIMES = 8
"""How many times as many instructions a run with other values may take."""
AHEAD = 1_000_000
"""As many more instructions may be looked ahead for what replaces a value."""
WEAK, HIDDEN = "weak", "hidden"
"""Stores that others may see after a barrier alone, and those to memory that the host sees by copies alone."""
Held = tuple[Array, Array]
"""Positions of threads, or addresses, in ascending order, and the values there."""


class Again(Protocol):
    """Runs what follows `Decided.before` again. A function of a module: `Decided` is data."""

    def __call__(self, decided: Decided, took: int | None, *, stops: bool) -> Iterator[tuple[str, LaunchState]]:
        """What the values in place of the undefined ones are, and the state that such a run leaves, in at most many times as many
        instructions as the launch ``took``; ``stops``: at its first error. If that is not known, what the launch leaves comes first."""


@frozen(eq=False)
class Stored:
    """Bytes that an instruction stored in global memory: their addresses, their undefined bits, the threads that stored them (-1: a
    bulk copy), by their numbers in the grid."""

    key: Key
    places: Array
    bits: Array
    threads: Array


@define(eq=False)
class Decided:
    """What undefined values have decided in a launch."""

    before: LaunchState | None
    """The state before anything undefined was used; None in a run with other values."""
    again: Again | None = None
    same: frozenset[Key] = frozenset()
    """Places where registers with undefined bits have the same values in every run."""
    sought: Key | None = None
    """The register and the place where a run with other values shall end."""
    reached: dict[Key, Held] = field(factory=dict)
    """What such a run finds where undefined bits matter, the first time that it comes there."""
    others: list[tuple[str, LaunchState]] = field(factory=list)
    """What each such run leaves, in a launch that collects its findings."""
    known: object = None
    """The `places` when they ran."""
    took: int | None = None
    """How many instructions the launch takes, once a run has looked."""
    unseen: frozenset[Key] | None = None
    """The places where undefined bits go to global memory but nobody sees them, once a run has looked."""
    judged: bool = False
    """Whether it was decided at the first use, as a debugger asks."""
    uses: dict[Key, Finding] = field(factory=dict)
    """The findings to be made where undefined bits first decided something, by place."""
    stored: list[Stored] = field(factory=list)
    """What went silently to global memory."""

    @property
    def places(self) -> tuple[object, ...]:
        """The places that are decided, and whether anything is read while a copy writes it."""
        return self.same, any(use.rule == EARLY for use in self.uses.values())


DECIDED: Note[Decided] = Note("undefined decisions")
WITHHELD: Note[dict[Key, Finding]] = Note("undefined values that stores leave")
"""By place, the findings about undefined bits that stay undefined in global memory, for the host that copies them."""


def remember(machine: Machine, group: Group, again: Again | None, *, past: bool) -> None:
    """Keep the state of a launch in which something undefined is used for the first time; ``past``: by the step just executed,
    else by the next one."""
    launch = machine.launch
    if again is None or DECIDED in launch.notes or launch.running is not group or not travels(launch.settings.checks):
        return
    before = launch.copy()
    first = before.running
    assert first is not None
    if past:
        first.at += 1
    else:
        Machine(before, before.turns[0], Hooks()).count_entry(first, -1)  # its block counts again
    launch.notes[DECIDED] = Decided(before, again)


def _found_at(group: Group, values: dict[str, object]) -> Key:
    return line_column(cast("Instruction | None", values.get("place")) or present(group))


def decide(machine: Machine, group: Group, slot: int, bits: Array, active: Array | None, use: str) -> None:
    """Note that undefined bits of a register decide what happens here. Report them if nothing was remembered."""
    lanes = used_by(group, bits, active)
    if lanes is not None and not machine.muted:
        note(machine, group, lanes, use_of(machine, group, slot, use))


def note(machine: Machine, group: Group, lanes: Array, use: Use) -> None:
    """Note what something undefined in some lanes decides here, or that it is printed. Report it if nothing was remembered."""
    decided = machine.launch.notes.get(DECIDED)
    if decided is None:
        _fault(machine, group, lanes, use)
        return
    rule, message, values = use
    if (place := _found_at(group, values)) in decided.uses:
        return
    decided.uses[place] = made(machine.launch, machine.batch, group, rule, message, lanes, {**values})
    if machine.launch.settings.by_warp and decided.before is not None and not decided.judged:
        differs = _differs_here(decided)  # a debugger stops where a rule is broken
        if differs:
            _fault(machine, group, lanes, (rule, f"{message}: {differs}", values))


def _fault(machine: Machine, group: Group, lanes: Array, use: Use) -> None:
    rule, message, values = use
    machine.fault(rule, message, group, lanes, before="register" in values, **values)


def _differs_here(decided: Decided) -> str:
    """What differs at the end of the launch, which has only come to the first use."""
    assert decided.again is not None
    decided.judged = True
    runs = decided.again(decided, None, stops=False)
    _, launch = next(runs)
    differs = _first(launch, launch.notes[DECIDED].stored, runs, decided)
    if differs:
        decided.uses.clear()
    return differs


def report_use(
    machine: Machine, group: Group, slot: int, bits: Array, active: Array | None, use: str, advice: str = WRITE_FIRST,
    *, store: str = "", nbytes: int | None = None
) -> None:  # fmt: skip
    """Report undefined bits of a register (of its ``nbytes`` lowest bytes) that matter here, unless they are the same whatever is
    undefined; ``advice`` is for one that nothing wrote. Of a ``store``, as `report` says."""
    lanes = used_by(group, bits, active)
    if lanes is not None and not machine.muted:
        made = use_of(machine, group, slot, use, advice)
        at = present(group)
        report(machine, group, lanes, made, at, slot, lambda: _held(group, slot, lanes, nbytes), store=store)


def report(
    machine: Machine, group: Group, lanes: Array, use: Use, at: Instruction, what: int | str, held: Callable[[], Held],
    *, store: str = ""
) -> None:  # fmt: skip
    """Report something undefined that matters ``at`` an instruction (the finding may be where it was read too early), unless what is
    ``held`` is the same whatever is undefined; ``what`` tells it from other such things in the same place. Nor if a ``store`` is weak
    and never seen, or goes to memory that is `HIDDEN`: it stays undefined there."""
    decided = machine.launch.notes.get(DECIDED)
    if decided is None:
        if store == HIDDEN:
            leave(machine, group, lanes, use, at)
        else:
            _fault(machine, group, lanes, use)
        return
    place = line_column(at)
    key = (what, place)
    if decided.before is None:
        if key not in decided.reached:
            decided.reached[key] = held()
        if decided.sought == key:
            raise Reached
    elif place not in decided.same and not (store == HIDDEN and place in (machine.launch.notes.get(WITHHELD) or ())):
        known = any(found[:3] == (use[0], *_found_at(group, use[2])) for found in machine.launch.findings)
        unseen = not known and store == WEAK and place in _unseen(machine.launch, decided)
        if unseen or (not known and not _changes(machine.launch, decided, key, held())):
            decided.same |= {place}
    if place in decided.same:
        note(machine, group, lanes, use)
    elif store == HIDDEN:
        leave(machine, group, lanes, use, at)
    else:
        _fault(machine, group, lanes, use)


def leave(machine: Machine, group: Group, lanes: Array, use: Use, at: Instruction) -> None:
    """Keep the finding about undefined bits that stay undefined in global memory for the host that copies them."""
    known, (rule, message, values) = machine.launch.notes.setdefault(WITHHELD, {}), use
    if line_column(at) not in known:
        found = made(machine.launch, machine.batch, group, rule, message, lanes, {**values})
        known[line_column(at)] = found


def hidden(machine: Machine, address: Array) -> Array | None:
    """A mask of the addresses of global memory that the host sees by copies alone; None if there are none."""
    memory = machine.launch.memory
    if not travels(machine.launch.settings.checks) or all(one.withheld is None for one in memory.allocations):
        return None
    alone = np.array([*(one.withheld is not None for one in memory.allocations), False])  # the last: nobody's
    found: Array = alone[memory.owners(address, 1)]
    return found if found.any() else None


class Reached(Exception):
    """A run with other values came to the place that was sought."""


def _held(group: Group, slot: int, lanes: Array, nbytes: int | None) -> Held:
    values = np.ascontiguousarray(np.broadcast_to(as_array(group.read(slot)), lanes.shape)[lanes])
    return in_order(group.selection.positions[lanes], values[:, None].view(np.uint8)[:, :nbytes])


def in_order(positions: Array, values: Array) -> Held:
    """Positions, in ascending order, and the values there."""
    order = np.argsort(positions, kind="stable")
    return positions[order], values[order]


def _changes(launch: LaunchState, decided: Decided, key: Key, held: Held) -> bool:
    """Whether a register has other values at a place in some of the runs with other values."""
    assert decided.again is not None
    runs: Iterable[tuple[str, LaunchState]]
    if launch.settings.on_finding == "collect":  # more places may follow
        if not decided.others:
            ends = [*decided.again(decided, decided.took, stops=False)]
            decided.others, decided.known = ends[decided.took is None :], decided.places
        runs = decided.others
    else:
        runs = decided.again(attrs.evolve(decided, sought=key), launch.instructions, stops=False)
    return any(not _alike(other.notes[DECIDED].reached.get(key), held) for _, other in runs)


def _unseen(launch: LaunchState, decided: Decided) -> frozenset[Key]:
    """The places where nobody sees what is stored in global memory, by a run of the rest of the launch, if that is not much longer."""
    if decided.unseen is None:
        assert decided.again is not None
        assert decided.before is not None
        before = decided.before.copy()
        most = launch.instructions + TIMES * (launch.instructions - before.instructions) + AHEAD
        before.settings = attrs.evolve(
            before.settings, max_instructions=min(most, before.settings.max_instructions or most)
        )
        _, end = next(decided.again(attrs.evolve(decided, before=before), None, stops=False))
        decided.unseen = end.notes[DECIDED].unseen
        if not any(found.rule == "limit" for found in end.findings.values()):
            decided.took = end.instructions
    assert decided.unseen is not None
    return decided.unseen


def _alike(one: Held | None, other: Held) -> bool:
    return one is not None and np.array_equal(one[0], other[0]) and one[1].tobytes() == other[1].tobytes()


def keep(
    machine: Machine, at: Instruction, address: Array, bits: Array, threads: Array, padding: Array | None = None,
    *, apart: Array | None = None, moved: bool = False
) -> None:  # fmt: skip
    """Note undefined bits (unsigned, one per address; 0 for none) of values that an instruction of ``threads`` stores in global memory;
    ``apart``, a mask, of those where they stay undefined, so this comes after the step. Nobody reports ``padding``, a mask. Elements that
    are undefined in part may be made of structures, too, if they were only ``moved`` from a register that nothing wrote."""
    decided, place = machine.launch.notes.get(DECIDED), line_column(at)
    if decided is None and apart is None:
        return
    same = decided is not None and place in decided.same
    each = np.ascontiguousarray(bits)[..., None].view(np.uint8)
    some = each != 0
    pads = np.zeros(1, np.bool_) if padding is None else padding
    marks = np.where(moved & ~some.all(axis=-1, keepdims=True), LOOSE, LEFT) * ~pads[..., None]
    left = np.zeros(1, np.bool_) if apart is None or same else apart
    places, each, threads, left, marks, silent = np.broadcast_arrays(
        address[..., None] + np.arange(each.shape[-1]),
        each,
        threads[..., None],
        left[..., None],
        marks,
        (pads | (not same))[..., None],
    )
    left, silent = some & left, some & silent & ~left
    if left.any():
        found = machine.launch.notes.setdefault(WITHHELD, {}).get(place)
        spoil(machine.launch.memory, found, places[left], marks[left])
    if decided is not None and silent.any():
        decided.stored.append(Stored(place, places[silent], each[silent], threads[silent]))


def in_grid(machine: Machine, positions: Array) -> Array:
    """Numbers in the grid of threads at these positions of a batch."""
    threads, columns = np.divmod(positions, machine.batch.shape.n_ctas)
    numbers: Array = machine.batch.ctas[columns] << 10 | threads
    return numbers


def judge(launch: LaunchState, ended: Finding | None = None) -> Finding | None:
    """Decide what undefined values have decided, at the end of a launch, or when a finding has ``ended`` it. Records notes, or
    an error, which it returns."""
    decided = launch.notes.get(DECIDED)
    if decided is None or decided.again is None:
        return None
    del launch.notes[DECIDED]  # and let go of what memory held
    if decided.uses and not decided.judged:
        runs = iter(decided.others)
        if not decided.others or decided.known != decided.places:
            runs = decided.again(decided, launch.instructions, stops=ended is not None)
        differs = _first(launch, decided.stored, runs, decided, ended)
        if differs:
            first = next(iter(decided.uses.values()))
            return _record(launch, first, "error", f"{first.message}: {differs}")
    if "note" in launch.settings.checks:
        for use in decided.uses.values():
            _record(launch, use, "note", f"{use.message}; other values in its place change no result")
    return None


def _first(
    launch: LaunchState,
    stored: list[Stored],
    runs: Iterator[tuple[str, LaunchState]],
    decided: Decided,
    ended: Finding | None = None,
) -> str:
    """In words: what differs first in a run with other values from what a launch leaves; empty if nothing does."""
    assert decided.before is not None
    for values, other in runs:
        differs = _broken(launch, other)
        if not differs and ended is None:
            differs = "" if ordered(launch) == ordered(other) else "it launches other grids"
            differs = differs or _difference(launch, stored, other, len(decided.before.printed))
        if differs:
            return f"with {values} in its place, {differs}"
    return ""


def _record(launch: LaunchState, finding: Finding, severity: str, message: str) -> Finding:
    """Record a finding before all that followed from it."""
    finding = attrs.evolve(finding, severity=severity, message=message)
    key = finding.rule, finding.line, finding.column, severity
    launch.findings = {key: finding, **launch.findings}
    return finding


def _broken(launch: LaunchState, other: LaunchState) -> str:
    """In words: a rule that only one of two launches breaks."""

    def errors(state: LaunchState) -> dict[Key, Finding]:
        return {key[:3]: f for key, f in state.findings.items() if f.severity == "error"}

    mine, others = errors(launch), errors(other)
    for found in (found for key, found in others.items() if key not in mine):
        if found.rule == "limit":
            return "the launch does not end in many times as many instructions"
        return f"line {found.line} breaks {found.rule}: {found.message}"
    for found in (found for key, found in mine.items() if key not in others):
        return f"line {found.line} does not break {found.rule}"
    return ""


def _difference(launch: LaunchState, stored: list[Stored], other: LaunchState, begun: int) -> str:
    """In words: what two launches leave, or print after so many texts, that differs in a bit which is defined."""
    silent = [*stored, *other.notes[DECIDED].stored]
    for one in launch.memory.allocations:
        two = other.memory.at(one.start)
        if two is None or two.data.size != one.data.size:
            if one.name == HEAP:
                return f"{one.name} at 0x{one.start:x} is free"
            continue
        if one.shadow is not None and two.shadow is not None and (one.shadow.data != two.shadow.data).any():
            at = int(np.flatnonzero(one.shadow.data != two.shadow.data)[0])
            return f"byte 0x{at:x} of {one.name} at 0x{one.start:x} is {'' if two.shadow.data[at] else 'not '}written"
        if one.data is two.data:
            continue
        differs = one.data ^ two.data
        if one.shadow is not None:
            differs &= one.shadow.data
        for part in silent if differs.any() else ():
            here = (part.places >= one.start) & (part.places < one.end)
            np.bitwise_and.at(differs, part.places[here] - one.start, ~part.bits[here])
        found = np.flatnonzero(differs)
        if found.size:
            at = int(found[0])
            return f"byte 0x{at:x} of {one.name} at 0x{one.start:x} is 0x{two.data[at]:02x}, not 0x{one.data[at]:02x}"
    mine, printed = Counter(launch.printed[begun:]), Counter(other.printed[begun:])
    for _, text in printed - mine:
        return f"it prints {text!r}"
    return next((f"it does not print {text!r}" for _, text in mine - printed), "")
