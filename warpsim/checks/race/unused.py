"""Races that are decided when a launch ends: of matrix rows that may reach no result, and of values that go into flags.

`wgmma` and `ldmatrix` read whole tiles, of which a kernel may use some rows only; the others may lie where copies write meanwhile. A
launch with such races runs again from its beginning, and what those reads found is undefined there. A race whose read then reaches a
result is an error, another one a note.

A load whose value goes into a flag, and a store by a thread that has read the flag, are a data race where no fences order them. But the
load can't see the store: the value would have to cause itself (memory consistency model, No Thin Air). Decoupled look-back does so in place.
The launch runs again in which flags that the value goes into, and those that the store waits for, order as if there were fences; a race
that is gone then is a note.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

import attrs
import numpy as np
from attrs import field

from warpsim.analysis.flag_values import awaited, deciding, published, publishing
from warpsim.checks.found import all_found
from warpsim.checks.race import RULE
from warpsim.checks.undefined_products import Unfinished
from warpsim.checks.undefined_registers import travels
from warpsim.errors import ExecutionError, Finding, Span
from warpsim.isa.traits import Family, Matrix
from warpsim.machine.machine import Machine
from warpsim.machine.plan import KernelPlan
from warpsim.machine.reporting import ends_launch, stop
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.program.program import Function, Instruction
from warpsim.records import SharedByCopies, define, frozen

ROW = 16
"""Bytes of a row of an 8x8 matrix of 16-bit elements, which are read together."""
UNUSED = "; what is read reaches no result"
PUBLISHED = "; but the value read goes into a flag that the writer waits for, so it can't be what is written"
Flags = tuple[frozenset[Span], frozenset[Span]]
"""The places of flags into which a value goes, and of those that a store waits for."""
Places = tuple[Span, Span]
"""Of a race: what happens now, and which of the two reads."""
Run = Callable[[LaunchState], None]
"""Runs a launch under its own rules."""
ROUNDS = 4
"""How often a launch runs again while this brings other races to light."""


@define(eq=False)
class Undecided:
    """A race and its reads ``[n, 4]``: the row's address, the column (-1: each), and from when to when it is read; none if their value
    goes into a flag."""

    finding: Finding
    reads: list[Array] = field(factory=list)


@define(eq=False)
class Again:
    """A run in which what some ``reads`` find is undefined, in the order in which they begin: those ``due``, and what is ``found`` by
    the present step. ``flags``: those that release, and those that acquire, as if there were fences."""

    reads: Array
    flags: Flags | None = None
    begun: int = 0
    due: Array = field(factory=lambda: np.zeros((0, 4), np.int64))
    found: list[Unfinished] = field(factory=list)

    def look(self, address: Array, columns: Array, now: int, place: Instruction) -> None:
        """Note which rows of shared memory that are read now are among them."""
        end = int(np.searchsorted(self.reads[:, 2], now, "right"))
        due = np.concatenate([self.due, self.reads[self.begun : end]])
        self.begun, self.due = end, due[due[:, 3] >= now]
        rows, address = self.due[:, 0] | self.due[:, 1] << 32, address & -ROW
        here = np.isin(address | columns << 32, rows) | np.isin(address | -1 << 32, rows)
        if here.any():
            self.found.append(Unfinished(address[here], columns[here], ROW, place, RULE))


@frozen(eq=False)
class Begun(SharedByCopies):
    """The state in which a launch began, which nobody changes, and what runs from there have left: the same for the launch and for
    those that repeat a part of it with other values."""

    state: LaunchState
    harmless: list[set[Places]] = field(factory=list)
    left: dict[Flags, set[Places]] = field(factory=dict)


BEGUN: Note[Begun] = Note("begun")
AGAIN: Note[Again] = Note("again")
UNDECIDED: Note[dict[Places, Undecided]] = Note("undecided")


def begin(launch: LaunchState) -> None:
    """Keep the state in which a launch begins, if its races can be decided."""
    settings = launch.settings
    if settings.by_warp:  # a debugger stops at once
        return
    if (travels(settings.checks) and launch.plan.uses.asynchronous) or waits_for_values(launch.plan):
        if AGAIN not in launch.notes:
            launch.notes[BEGUN] = Begun(launch.copy())
        launch.notes[UNDECIDED] = {}


def waits_for_values(plan: KernelPlan) -> bool:
    """Whether a module has loads whose values go into flags, and flags that decide."""
    return bool(all_found(plan, published) and all_found(plan, deciding))


def row_readers(function: Function) -> Iterator[Span]:
    """The instructions that read rows of matrices from shared memory. One whose registers no other instruction reads does not say
    what they are for."""
    readers = Counter(register for instruction in function.code for register in {*instruction.reads})
    for instruction in function.code:
        traits = instruction.traits
        if traits.is_async(Family.WGMMA) or (traits.matrix is Matrix.LOAD and not traits.opaque_fragments):
            own = {*instruction.reads}
            if any(readers[register] > (register in own) for register in instruction.writes):
                yield instruction.span


def undefined_reads(machine: Machine) -> list[Unfinished]:
    """What the present step reads that is undefined in this run."""
    again = machine.launch.notes.get(AGAIN)
    if again is None or not again.found:
        return []
    found, again.found = again.found, []
    return found


def decide(launch: LaunchState, run: Run) -> None:
    """Record the races that were left open as errors or as notes, and end the launch at an error; ``run`` runs it again."""
    begun, undecided = launch.notes.get(BEGUN), launch.notes.get(UNDECIDED)
    if begun is None:
        return
    del launch.notes[BEGUN]  # and let go of what memory held
    undecided = undecided or {}
    unread = [key for key, one in undecided.items() if not one.reads]
    if len(undecided) > len(unread) and not begun.harmless:
        begun.harmless.append(_harmless(begun.state, run))
    harmless = dict.fromkeys(begun.harmless[0] if len(undecided) > len(unread) else (), UNUSED)
    functions = launch.plan.program.functions.values()
    awaits = {s: frozenset(at for f in functions for at in awaited(f, s)) for s in {s for s, _ in unread}}
    publishes = {r: frozenset(at for f in functions for at in publishing(f, r)) for r in {r for _, r in unread}}
    unfenced: dict[Flags, list[Places]] = {}
    for store, load in unread:
        unfenced.setdefault((publishes[load], awaits[store]), []).append((store, load))
    for flags, keys in unfenced.items():
        if flags not in begun.left:
            begun.left[flags] = {*_again(begun.state, run, np.zeros((0, 4), np.int64), flags)[1]}
        harmless |= dict.fromkeys(set(keys) - begun.left[flags], PUBLISHED)
    for key, one in undecided.items():
        severity = "note" if key in harmless else "error"
        found = attrs.evolve(one.finding, severity=severity, message=one.finding.message + harmless.get(key, ""))
        if severity == "error" or severity in launch.settings.checks:
            launch.findings.setdefault((RULE, found.line, found.column, severity), found)
        if ends_launch(launch, found):
            stop(launch, found)


def give_up(launch: LaunchState) -> None:
    """Record the races that were left open as errors, because the launch ends before they can be decided."""
    if AGAIN not in launch.notes:
        for one in (launch.notes.get(UNDECIDED) or {}).values():
            launch.findings.setdefault((RULE, one.finding.line, one.finding.column, "error"), one.finding)


def _harmless(begun: LaunchState, run: Run) -> set[Places]:
    """The races of which nothing that is read reaches a result."""
    reads = np.zeros((0, 4), np.int64)
    errors, left = usual, _ = _again(begun, run, reads)
    for _ in range(ROUNDS):
        more = np.unique(np.concatenate([reads, *(part for one in left.values() for part in one.reads)]), axis=0)
        if len(more) == len(reads):
            break
        reads = more
        errors, left = _again(begun, run, reads)
    else:
        return set()
    if errors <= usual:
        return set(left)
    found, parts = set[Places](), [*_halves([*left])]
    for keys in parts:
        if _again(begun, run, np.concatenate([part for key in keys for part in left[key].reads]))[0] <= usual:
            found.update(keys)
        else:
            parts += _halves(keys)  # to be tried next
    return found if len(found) < len(left) else set()


def _halves(keys: list[Places]) -> Iterator[list[Places]]:
    """The halves of some races; nothing of a single one."""
    half = len(keys) // 2
    yield from (keys[:half], keys[half:]) if half else ()


def _again(
    begun: LaunchState, run: Run, reads: Array, flags: Flags | None = None
) -> tuple[set[tuple[object, ...]], dict[Places, Undecided]]:
    """Run a launch again with what some reads find undefined, or with ``flags`` that order: the errors by place, and the races of
    that kind left open."""
    state = begun.copy()
    state.settings = attrs.evolve(state.settings, on_finding="collect")
    state.notes[AGAIN] = Again(reads[np.argsort(reads[:, 2], kind="stable")], flags)
    with contextlib.suppress(ExecutionError):  # the findings say so
        run(state)
    errors = {key for key, found in state.findings.items() if found.severity == "error"}
    return errors, {key: one for key, one in state.notes[UNDECIDED].items() if bool(one.reads) is (flags is None)}
