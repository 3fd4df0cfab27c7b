"""Findings of the race rule: threads, places, and the conflicting access; stores that are harmless if they change
nothing; and accesses to the shared memory of a CTA that exits.

A peer's access to shared memory of a CTA is in time if it happens before the exit of some thread of the CTA, because the CTA
lives until its last thread has exited. Accesses after the exit are found like races with a write of all of it.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.analysis.flag_values import published
from warpsim.analysis.verified_loads import guesses, tests
from warpsim.checks.async_global import Use
from warpsim.checks.cells import SHIFT, THREAD
from warpsim.checks.found import is_found
from warpsim.checks.other_variables import RULE as OTHER
from warpsim.checks.race import RULE
from warpsim.checks.race.clocks import BatchClocks
from warpsim.checks.race.unused import AGAIN, UNDECIDED, Undecided
from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import SHARED_ADDRESS, finding_at, made, named, present
from warpsim.machine.selection import Selection
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.program.program import Instruction
from warpsim.records import frozen

UNCHANGED = "; the value there stays the same"
CHECKED = "; the value read is only a guess, which a compare-and-swap verifies"
IN_TURN = "; the warp that reads also starts the copy, and no GPU so far starts the copy before the loads"
TESTED = "; the value read only decides whether to execute an atomic on the same place, whose result is checked"
UNFENCED = "; a flag signals that it is done, but no fence follows the read of the flag"
IN_PART = "; both are strong, but of different sizes, so neither is sure to see the other as a whole"
IN_WORD = "; a compare-and-swap of the word makes it an atomic of fewer bits, as libcu++ does"
ATOMS = "; both are atomics, but of different sizes: each is performed as a whole, and orders nothing for the other"
COPIED = ": who goes on has neither seen the end of the copy nor met a thread that has"
EXITED = "; it has exited without arriving at the barrier in between"
ALIKE: Note[Selection | None] = Note("alike")
"""The threads whose present store puts the same in each place, whatever memory holds."""
SEVERITY = {
    "": "error",
    UNCHANGED: "note",
    COPIED: "error",
    CHECKED: "note",
    IN_TURN: "warning",
    TESTED: "warning",
    UNFENCED: "warning",
    EXITED: "warning",
    IN_PART: "error",
    IN_WORD: "note",
    ATOMS: "warning",
}
SIZES = (
    "use one size for all strong accesses to a place, or order them (memory consistency model, mixed-size data-races)"
)
FENCE = "read the flag with .acquire, or add a fence after reading it; otherwise later reads may be performed before it"
SOURCE_ADVICE = (
    "wait for the copy (wait_group, or the phase of its mbarrier) before writing to its source: it may be performed at any"
    " time until then (memory consistency model, asynchronous operations)"
)
ARRIVE = (
    "let the thread arrive at the barrier before it exits (bar.arrive, or bar.sync): a barrier does not wait for threads that"
    " have exited, and orders nothing that they did (memory consistency model)"
)
PLAIN = "load it with ld.global (in CUDA: without __ldg, and no const __restrict__ pointer): caches of read-only memory do not see writes (ld.global.nc)"
ADVICE = "order the accesses with a barrier, a release and acquire of a flag, or an atomic (memory consistency model)"
OBSERVE = (
    "wait for the phase of the copy's mbarrier, or meet a thread that has: meeting the thread that started it does not order what"
    " the copy does (memory consistency model, asynchronous operations)"
)
ADVICES = {COPIED: OBSERVE, UNFENCED: FENCE, EXITED: ARRIVE, IN_PART: SIZES, IN_WORD: SIZES, ATOMS: SIZES}


@frozen(eq=False)
class Race:
    """An access to byte ``at`` (of an ``allocation``, or of shared memory) and that of another ``thread`` at ``time``, which
    nothing orders; ``reason`` says why it is no error, if it is none."""

    at: int
    thread: int
    time: int
    allocation: Allocation | None
    write: bool
    was_write: bool
    reason: str = ""
    reads: Array | None = None
    """What is read, if it may reach no result (`warpsim.checks.race.unused`)."""


@frozen(eq=False)
class Doubt:
    """A race of a store that is harmless if it changes nothing. ``together``: its own threads race, those of a column at one
    place. ``reason`` says why it is then no error."""

    threads: Array
    message: str
    address: int
    other: Finding
    alike: bool
    together: bool
    reason: str = ""
    reader: Instruction | None = None
    reads: Array | None = None
    published: bool = False

    def lanes(self, group: Group, n_ctas: int) -> Array:
        """The lanes of a group that are its threads; ``alike``: and the same threads of all CTAs."""
        scale = n_ctas if self.alike else 1
        return np.isin(group.selection.positions // scale, self.threads // scale)


class Reports:
    """Reports the races of a batch, at once or when a store is done."""

    def __init__(self, clocks: BatchClocks) -> None:
        self.clocks = clocks
        self.doubts: list[Doubt] = []

    def report(self, machine: Machine, group: Group, positions: Array, race: Race) -> None:
        """Report that these threads race with an earlier access."""
        allocation, level, launch = race.allocation, self.clocks.role.level, self.clocks.launch
        event = launch.access(race.time)
        cta, warp, lanes = launch.place(race.thread, race.time)
        done, did = ("written", "wrote") if race.was_write else ("read", "read")
        does = "written" if race.write else "read"
        other = attrs.evolve(finding_at(machine.launch, event), message=f"{done} here", cta=cta, warp=warp, lanes=lanes)
        copied = race.thread in launch.starters
        message = (
            f"{_name(race.at, allocation)} is {does} after {'a copy by ' * copied}CTA {cta}, warp {warp}, lane {lanes[0]} {did} it in line"
            f" {event.span.line}, and nothing orders the two"
        )
        address = race.at if allocation is None else race.at + allocation.start
        alike = self.clocks.order.uniform and allocation is None
        reader = launch.access(-1) if race.was_write else event
        doubt = Doubt(
            positions,
            message,
            address,
            other,
            alike,
            together=False,
            reason=race.reason or COPIED * copied,
            reader=reader,
            reads=race.reads,
            published=self._is_published(machine, race, event),
        )
        reach = launch.levels[race.time] if race.was_write else level
        reads = reach and race.write != race.was_write
        if race.reason != IN_TURN and race.write and not level:
            self.doubts.append(doubt)
        elif race.reason != IN_TURN and reads and is_found(machine.launch.plan, reader, guesses):
            self._fault(machine, group, doubt, CHECKED)
        elif race.reason != IN_TURN and reads and is_found(machine.launch.plan, reader, tests):
            self._fault(machine, group, doubt, TESTED)
        else:
            self._fault(machine, group, doubt)

    def _is_published(self, machine: Machine, race: Race, event: Instruction) -> bool:
        """Whether a weak store races with an earlier load of one size, whose value goes into a flag."""
        launch = self.clocks.launch
        if (
            race.was_write
            or not race.write
            or self.clocks.role.level
            or launch.levels[race.time]
            or race.allocation is None
        ):
            return False
        kinds = [i.op.get("type") for i in (event, launch.access(-1))]
        return (
            None not in kinds and kinds[0].bytes == kinds[1].bytes
            and UNDECIDED in machine.launch.notes and is_found(machine.launch.plan, event, published)
        )  # fmt: skip

    def report_source(self, machine: Machine, group: Group, address: int, lanes: Array, use: Use) -> None:
        """Report that these lanes write what a copy in flight may still read."""
        message = f"global address 0x{address:x} is written while an unfinished copy reads it"
        machine.fault(RULE, message, group, lanes, address=address, other=use.place, advice=SOURCE_ADVICE)

    def report_read_only(self, machine: Machine, group: Group, allocation: Allocation, at: Array, seen: Array) -> None:
        """Report loads of places that are read-only while the kernel runs, and were ``seen`` to be written."""
        event = self.clocks.launch.access(int(seen.max()) >> SHIFT)
        first = int(np.broadcast_to(at, seen.shape)[seen == seen.max()][0])
        message = f"{_name(first - allocation.start, allocation)} is read as read-only memory, and line {event.span.line} has written it in this launch"
        other = attrs.evolve(finding_at(machine.launch, event), message="written here")
        machine.fault(RULE, message, group, seen != 0, address=first, other=other, advice=PLAIN)

    def together(
        self, machine: Machine, group: Group, at: Array, threads: Array, allocation: Allocation | None
    ) -> None:
        """Report that threads store to one place in one step, or leave it to `settle`, unless they are strong."""
        here = finding_at(machine.launch, self.clocks.launch.access(-1))
        other = attrs.evolve(here, message="and here by another thread")
        alike = self.clocks.order.uniform and allocation is None
        threads = threads * (self.clocks.n_ctas if alike else 1) if allocation is None else threads - self.clocks.base
        message = f"{_name(int(at[0]), allocation)} is written by several threads in one instruction"
        doubt = Doubt(threads, message, int(at[0]), other, alike, together=True)
        if self.clocks.role.level:
            self._fault(
                machine, group, attrs.evolve(doubt, message=message + " whose scope does not include all of them")
            )
        else:
            self.doubts.append(doubt)

    def settle(self, machine: Machine, group: Group, changed: Array | None, lost: Array | None) -> None:
        """Settle a store after it is done. ``changed`` is a mask of the lanes that found a value other than the one
        they stored, ``lost`` of those whose value is no longer there (None: unknown). A store that changes nothing is
        no error."""
        doubts, self.doubts = self.doubts, []
        for doubt in doubts:
            mask, n_ctas = lost if doubt.together else changed, self.clocks.n_ctas
            harmful = mask is None or bool((doubt.lanes(group, n_ctas) & mask).any())
            if self.clocks.launch.any_contents:  # the same only if all threads store the same known value
                same = machine.batch.notes.get(ALIKE) is group.selection
                harmful = harmful or not doubt.together or (group.shadowed(present(group).registers) and not same)
            warps = (doubt.threads // n_ctas >> 5) * n_ctas + doubt.threads % n_ctas
            if harmful or not (doubt.together and (warps == warps[0]).all()):
                self._fault(machine, group, doubt, "" if harmful else UNCHANGED)

    def _fault(self, machine: Machine, group: Group, doubt: Doubt, reason: str = "") -> None:
        """Report a finding; one that is no error says why."""
        reason = reason or doubt.reason
        lanes = doubt.lanes(group, self.clocks.n_ctas)
        advice, place, other = ADVICES.get(reason, ADVICE), present(group), doubt.other
        again = machine.launch.notes.get(AGAIN)
        is_open = reason in ("", COPIED) or (again is not None and again.flags is not None)
        if is_open and doubt.reader is not None and (doubt.reads is not None or doubt.published):
            left = machine.launch.notes[UNDECIDED]
            key = place.span, doubt.reader.span
            if key not in left:
                values = {"address": doubt.address, "other": other, "advice": advice}
                message = SHARED_ADDRESS.sub(lambda found: named(machine.launch, found), doubt.message)
                found = made(machine.launch, machine.batch, group, RULE, message, lanes, values)
                left[key] = Undecided(found)
            if doubt.reads is not None:
                left[key].reads.append(doubt.reads)
            return
        machine.fault(
            RULE,
            doubt.message + reason,
            group,
            lanes if lanes.any() else None,
            address=doubt.address,
            other=other,
            advice=lambda: _astray(machine, (finding_at(machine.launch, place), other)) or advice,
            severity=SEVERITY[reason],
            repeats=not self.clocks.launch.any_contents,
        )


def _astray(machine: Machine, parties: tuple[Finding, Finding]) -> str:
    """The advice where one of two accesses is not meant to come here, because it leaves its variable."""
    for finding in machine.launch.findings.values():
        for party in parties if finding.rule == OTHER else ():
            same = finding.source == party.source and finding.instruction == party.instruction
            if finding.line == party.line or (same and party.source is not None):
                return f"{OTHER} in line {party.line} comes first: {finding.message}; correct the index, no barrier is missing"
    return ""


def _name(at: int, allocation: Allocation | None) -> str:
    return f"shared address 0x{at:x}" if allocation is None else f"byte {at} of {allocation.name}"


EXIT_ADVICE = (
    "all threads of the cluster must pass barrier.cluster.arrive (not .relaxed) and barrier.cluster.wait after the last access to a peer's"
    " shared memory (barrier-cluster, mapa)"
)


def check_exit(clocks: BatchClocks, machine: Machine, group: Group) -> None:
    """Check the CTAs that have no threads left after the group's threads exited."""
    cells = clocks.shared_cells
    if not clocks.clustered or clocks.order.uniform or not cells.kinds:
        return
    ended = np.flatnonzero((machine.batch.alive == 0) & (group.selection.per_cta > 0))
    clocks.launch.begin(present(group), 0)
    for column in ended.tolist():
        seen = cells.of("remote").reshape(-1, cells.width)[:, column]
        late = np.flatnonzero(seen)
        for witness in _witnesses(clocks, column).tolist():
            theirs, times = seen[late] & THREAD, seen[late] >> SHIFT
            late = late[clocks.order.unordered(theirs + clocks.base, times, np.full(len(late), witness))]
            if not len(late):
                break
        else:
            first = int(seen[late[0]])
            _report(clocks, machine, group, column, int(late[0]) * cells.granule, first & THREAD, first >> SHIFT)
        last = column + (machine.batch.shape.n_threads - 1) * machine.batch.shape.n_ctas
        cells.of("write").reshape(-1, cells.width)[:, column] = clocks.now << SHIFT | last


def _witnesses(clocks: BatchClocks, column: int) -> Array:
    """Threads of a CTA that together know what all of its threads know, those first that know most."""
    order, n_ctas = clocks.order, clocks.n_ctas
    threads = np.arange(clocks.shape.n_threads) * n_ctas + column
    known = (
        np.zeros(len(threads), np.int64) if order.acquired.known is None else order.acquired.known.reshape(-1)[threads]
    )
    phase = np.zeros(len(threads), np.int64) if order.phases is None else order.phases.waited.reshape(-1)[threads]
    _, first = np.unique(np.stack([phase, known]), axis=1, return_index=True)
    return threads[first[::-1]]


def _report(clocks: BatchClocks, machine: Machine, group: Group, column: int, at: int, thread: int, time: int) -> None:
    cta, warp, lanes = clocks.launch.place(thread + clocks.base)
    event = clocks.launch.access(time)
    place = finding_at(machine.launch, event)
    other = attrs.evolve(place, message="used here", cta=cta, warp=warp, lanes=lanes)
    message = (
        f"the CTA exits and its shared memory ends: CTA {cta}, warp {warp}, lane {lanes[0]} uses address 0x{at:x}"
        f" in line {event.span.line}, and nothing orders that use before the exit"
    )
    here = group.selection.ctas == column
    machine.fault(RULE, message, group, here, address=at, other=other, advice=EXIT_ADVICE)
