"""Collectives and barriers: membermasks that disagree, lanes that have exited or took another path, who is to blame for a
stall; barriers whose numbers, counts and kinds disagree; setmaxnreg of part of a warpgroup.

A lane that exits before its warp reaches a collective is not waited for; only those need it that are undefined without it. A collective
with a membermask does not wait for lanes that exit later, either. Those without one are for whole warps: a lane that is
alive when others of its warp begin to wait, and exits without arriving, has *diverged*: the program splits the warp where
it must not, however it is scheduled.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Barrier, Family
from warpsim.machine.collectives import FULL, Members, masks_of, named_by, places, taking_part, wanted
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import counted, party, present
from warpsim.machine.stalled import BARRIER, LANES, PHASE, REGISTERS, WARP, Stall, StallValues
from warpsim.machine.state.batch import NEVER
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Affine, Array, as_array, spread
from warpsim.machine.watcher import Watcher
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import define

MEMBERMASK, DIVERGENCE, EXITED = "membermask", "aligned-divergence", "exited-lane"
RULES = frozenset({MEMBERMASK, DIVERGENCE, EXITED})
COLLECTIVES = frozenset({"collective_reached", "collective_waits", "collective_passed", "collective_incomplete"})
"""A collective of a whole warp with a full membermask cannot go wrong, and no other is compiled."""
DIVERGED: Note[Array] = Note("diverged")
"""Key of a batch's marks ``[n]`` for threads that skipped a collective of their warps."""


class Membermasks(Watcher):
    """Reports lanes missing from their own membermask, and lanes whose mask differs from that of others who name them."""

    compiled = COLLECTIVES

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Check the masks of arriving lanes."""
        if members is None:
            return
        value = group.value(members)
        full = type(value) is Affine and value.uniform and value.base & FULL == FULL
        if not full:
            _check_masks(machine, group, masks_of(group, members), taking_part(group, active))


def _check_masks(machine: Machine, group: Group, masks: Array, active: Array) -> None:
    outside = active & ~named_by(masks)
    if outside.any():
        found = int(np.broadcast_to(masks, active.shape)[outside][0])
        what = f"lanes that are not in their own membermask 0x{found:08x} execute this instruction"
        _report_members(machine, group, what, outside)
        return
    if masks.shape[1] == 1 or masks.strides[1] == 0:
        return
    masks = spread(masks, active.shape)
    for lane in range(32):
        own = masks[:, lane : lane + 1]
        wrong = active & active[:, lane : lane + 1] & ((masks >> np.uint32(lane)) & np.uint32(1) != 0) & (masks != own)
        if wrong.any():
            theirs = int(np.broadcast_to(own, masks.shape)[wrong][0])
            what = f"membermask 0x{int(masks[wrong][0]):08x} names lane {lane}, which passes 0x{theirs:08x}"
            _report_members(machine, group, what, wrong)
            return


def _report_members(machine: Machine, group: Group, message: str, lanes: Array) -> None:
    advice = "all lanes that a mask names must execute the instruction with that same mask"
    machine.fault(MEMBERMASK, message, group, _in_group(group, lanes), advice=advice)


class Absences(Watcher):
    """Tracks lanes that diverge from a collective of their warp, and reports those that can no longer arrive."""

    compiled = COLLECTIVES

    def collective_waits(self, machine: Machine, group: Group) -> None:
        """Note which lanes are alive elsewhere, and not about to exit, while others of their warp or warpgroup begin to wait."""
        instruction, batch = present(group), machine.batch
        wide = instruction.form.scope is Scope.WARPGROUP
        if wide and not instruction.traits.is_async(Family.WGMMA):
            return
        n_ctas, width = batch.shape.n_ctas, 128 if wide else 32
        here = group.selection.positions.reshape(-1)
        elsewhere = np.ones(batch.shape.n, np.bool_) if batch.exited is None else ~batch.exited
        elsewhere[here] = False
        for other in batch.runnable:
            if not other.stack and present(other).guard is None and present(other).traits.leaves:
                elsewhere[other.selection.positions.reshape(-1)] = False
        positions = np.arange(batch.shape.n)
        number = positions // n_ctas // width * n_ctas + positions % n_ctas
        _diverged(machine)[elsewhere & np.isin(number, number[here])] = True

    def collective_passed(self, machine: Machine, group: Group) -> None:
        """Note lanes that skip the collective."""
        _diverged(machine)[group.selection.positions.reshape(-1)] = True

    def collective_incomplete(self, machine: Machine, group: Group, active: Array | None) -> None:
        """All live lanes are here: report those that diverged and, where every lane is needed, those that exited."""
        whole = present(group).whole
        diverged = machine.batch.notes.get(DIVERGED)
        if not whole and diverged is None:
            return
        here = taking_part(group, active)
        absent = wanted(group, None, here) & ~here
        if diverged is not None:
            positions, exists = places(machine, group)
            left = absent & exists & diverged[positions]
            diverged[positions[here]] = False
            if left.any():
                _report_absent(machine, group, DIVERGENCE, here, left, "took another path and exited")
                return
        if whole and absent.any():
            _report_absent(machine, group, EXITED, here, absent, "exited, or never existed")

    def warpgroup_incomplete(self, machine: Machine, group: Group, broken: Array) -> None:
        """Report warpgroups whose missing threads can no longer arrive."""
        first = int(group.selection.positions[np.broadcast_to(broken, group.selection.shape)][0])
        shape = machine.batch.shape
        thread = first // shape.n_ctas & ~127
        threads = np.arange(thread, min(thread + 128, shape.n_threads))
        here = np.zeros(shape.n, np.bool_)
        here[group.selection.positions.reshape(-1)] = True
        absent = threads[~here[threads * shape.n_ctas + first % shape.n_ctas]]
        diverged = machine.batch.notes.get(DIVERGED)
        left = diverged is not None and diverged[absent * shape.n_ctas + first % shape.n_ctas].any()
        missing = counted("thread", absent) if len(absent) else f"threads from {len(threads) + thread} on"
        why = "took another path and exited" if left else "exited, or never existed"
        message = f"{missing} of the warpgroup can no longer arrive: {why}"
        lanes, advice = (
            np.broadcast_to(broken, group.selection.shape),
            "all 128 threads of the warpgroup must execute the instruction",
        )
        machine.fault(DIVERGENCE if left else EXITED, message, group, lanes, advice=advice)


def _diverged(machine: Machine) -> Array:
    found = machine.batch.notes.get(DIVERGED)
    if found is None:
        found = machine.batch.notes[DIVERGED] = np.zeros(machine.batch.shape.n, np.bool_)
    return found


def _report_absent(machine: Machine, group: Group, rule: str, active: Array, absent: Array, why: str) -> None:
    warp, column = np.argwhere(absent.any(axis=1))[0].tolist()
    missing = np.flatnonzero(absent[warp, :, column])
    message = f"{counted('lane', missing)} of the warp can no longer arrive: {why}"
    lanes = _in_group(group, active & absent.any(axis=1, keepdims=True))
    advice = "make every participating lane reach the instruction before any of them exits"
    machine.fault(rule, message, group, lanes, absent=tuple(missing.tolist()), advice=advice)


def _in_group(group: Group, lanes: Array) -> Array:
    """Lanes ``[n, 32, m]`` in the group's shape."""
    shape = group.warps.active.shape
    collected = as_array(group.warps.collect(np.ascontiguousarray(spread(lanes, shape))))
    return spread(collected, group.selection.shape)


BROKEN = {
    WARP: DIVERGENCE,
    LANES: "membermask",
    BARRIER: "barrier-divergence",
    REGISTERS: "setmaxnreg",
    PHASE: "mbarrier",
}
"""The rule broken by each kind of waiting in vain; anything else is a deadlock."""


class Stalls(Watcher):
    """Reports a stall under the rule that it breaks, and warps that arrive at a barrier in parts."""

    def warp_split(self, machine: Machine, group: Group, other: Group | None) -> None:
        """Report lanes that arrive at an aligned barrier without the rest of their warps."""
        message = f"{present(group).text} waits for all lanes of the warp, but some are elsewhere"
        place = None if other is None else party(machine.launch, machine.batch, other, "lanes of the warp wait here")
        advice = "move it to where the lanes have reconverged, or use barrier without .aligned"
        machine.fault(DIVERGENCE, message, group, other=place, advice=advice)

    def stalled(self, machine: Machine, first: Stall, message: str, values: StallValues) -> None:
        """Report the stall under a rule, if one applies."""
        rule = BROKEN.get(first.wait)
        if rule in machine.launch.settings.checks:
            machine.fault(rule, message, first.group, **values)


BARRIER_RULE, OPERANDS = "barrier-divergence", "nonuniform-operand"
ARRIVALS: Note[dict[int, Last]] = Note("arrivals")
BARRIER_RULES = frozenset({BARRIER_RULE, OPERANDS})
BARRIERS = 16
UNIFORM = "leave out .uni, which promises that all lanes of a warp that execute it go the same way (bra)"


@define(eq=False)
class Last:
    """Where threads of each CTA last arrived at a barrier, by number in ``places``, and whether they vote there.

    CTAs of a batch stand at different places of the kernel: what one did says nothing of the others.
    """

    place: Array
    votes: Array
    places: list[Instruction] = attrs.Factory(list)

    @classmethod
    def of(cls, n_ctas: int) -> Last:
        """No arrival."""
        return cls(np.zeros(n_ctas, np.intp), np.zeros(n_ctas, bool))

    def note(self, group: Group, here: Instruction, *, votes: bool) -> None:
        """The group arrives here."""
        index = next((i for i, place in enumerate(self.places) if place is here), len(self.places))
        if index == len(self.places):
            self.places.append(here)
        ctas = slice(None) if group.selection.all_ctas else group.selection.per_cta > 0
        self.place[ctas], self.votes[ctas] = index, votes

    def before(self, met: Array) -> Instruction:
        """Where threads of the first of some CTAs arrived."""
        return self.places[int(self.place[met.argmax()])]


class Barriers(Watcher):
    """Checks arrivals at barriers. A batch records the last arrival at each barrier, by number."""

    compiled = frozenset({"barrier_reached", "uniform_split"})
    """In compiled code, all threads of a CTA arrive at the same place, and no branch with ``.uni`` parts threads."""

    def batch_began(self, machine: Machine) -> None:
        """Start with no arrivals."""
        machine.batch.notes[ARRIVALS] = {}

    def uniform_split(self, machine: Machine, group: Group, parts: tuple[Group, Group]) -> None:
        """Report an instruction with ``.uni`` that lanes of one warp leave for different places."""
        here = present(group)
        if here.guard is None and not here.reads:  # it has one way, which some lanes go first in another order
            return
        taken = group.warps.spread(np.isin(group.selection.positions, parts[0].selection.positions))
        wrong = taken & (group.warps.active & ~taken).any(axis=1, keepdims=True)
        if wrong.any():
            message = f"{here.text}: some lanes of a warp go one way, others another"
            machine.fault(OPERANDS, message, group, _in_group(group, wrong), advice=UNIFORM)

    def barrier_operands_differ(self, machine: Machine, group: Group, operands: list[Array]) -> None:
        """Report the number or the count of an aligned barrier that differs within a warp; elsewhere they may differ."""
        here = group.warps.active
        for name, value in zip(("barrier number", "thread count"), operands, strict=False):
            if value.size == 1 or not present(group).traits.aligned_barrier:
                continue
            spread = np.broadcast_to(group.warps.spread(value), here.shape)
            first = np.take_along_axis(spread, here.argmax(axis=1)[:, None], axis=1)
            wrong = here & (spread != first)
            if wrong.any():
                other = int(np.broadcast_to(first, wrong.shape)[wrong][0])
                message = f"the {name} differs between lanes of a warp: {other} and {int(spread[wrong][0])}"
                advice = (
                    "all lanes of a warp must name the same barrier; only barrier without .aligned lets them differ"
                )
                machine.fault(OPERANDS, message, group, _in_group(group, wrong), advice=advice)

    def barrier_reached(self, machine: Machine, group: Group, number: int, count: int) -> None:
        """Report what no barrier can have, and what differs from the operands of threads that have arrived in this phase."""
        here, barrier, arrived = group.instruction, machine.batch.barrier(number), machine.batch.notes[ARRIVALS]
        if (last := arrived.get(number)) is None:
            last = arrived[number] = Last.of(len(barrier.arrived))
        for message, advice in _problems(here.traits.barrier, number, count, machine.batch.shape.n_threads):
            machine.fault(BARRIER_RULE, message, group, advice=advice)
        votes = here.traits.barrier is not None and here.traits.barrier.reduction is not None
        names = ("sync or arrive", "red")
        met = (barrier.arrived > 0) & (group.selection.per_cta > 0)
        counts, kinds = met & (barrier.expected != count), met & (last.votes != votes)
        if np.logical_or.reduce(counts):
            theirs = _threads(int(barrier.expected[counts.argmax()]))
            message = f"barrier {number} expects {_threads(count)} here; threads that have arrived expect {theirs}"
            self._differs(machine, group, message, last, counts, "all threads of a barrier must give the same count")
        if np.logical_or.reduce(kinds):
            message = f"barrier {number} is used with .{names[votes]} here; other threads have arrived with .{names[not votes]}"
            advice = "use one kind of barrier instruction until the barrier is complete"
            self._differs(machine, group, message, last, kinds, advice)
        last.note(group, here, votes=votes)

    def _differs(self, machine: Machine, group: Group, message: str, last: Last, ctas: Array, advice: str) -> None:
        lanes, other = ctas[group.selection.ctas], last.before(ctas)
        machine.fault(BARRIER_RULE, message, group, lanes, other=other, advice=advice)

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Report threads that arrive again without having waited."""
        barrier = machine.batch.cluster_barrier
        assert barrier is not None
        again = barrier.entered[group.selection.positions] != NEVER
        if again.any():
            message = "threads arrive at the cluster barrier again before they have waited for their last arrival"
            advice = "each thread must execute barrier.cluster.wait after each barrier.cluster.arrive"
            machine.fault(BARRIER_RULE, message, group, again, advice=advice)


def _problems(traits: Barrier | None, number: int, count: int, n_threads: int) -> Iterator[tuple[str, str]]:
    """What no barrier can have, and advice."""
    if count == 0 and traits is not None and not traits.waits:
        message = f"threads arrive at barrier {number} without the number of threads that it expects"
        yield message, "an arrival that does not wait must give a thread count, which is not 0"
    if count % 32 or count > -(-n_threads // 32) * 32:
        advice = "the count must be a multiple of 32, and at most the CTA's threads rounded up to whole warps"
        yield f"barrier {number} expects {count} threads; the CTA has {n_threads}", advice
    if number >= BARRIERS:
        yield f"barrier {number} does not exist: a CTA has {BARRIERS}", f"barrier numbers are 0 to {BARRIERS - 1}"


def _threads(count: int) -> str:
    return f"{count} threads" if count else "all threads of the CTA"


SETMAXNREG = "setmaxnreg"
CHANGES: Note[Changes] = Note(SETMAXNREG)
SAME_COUNT = "all warps of the warpgroup must execute the same setmaxnreg"


@define(eq=False)
class Change:
    """One setmaxnreg of a sequence that warps execute: the count requested by each warp ``[W, n_ctas]``, 0 if it has
    not reached it; who requested, and where."""

    counts: Array
    groups: list[tuple[Group, Instruction]]


@define(eq=False)
class Changes:
    """The setmaxnreg of a batch, and how many each warp ``[W, n_ctas]`` (W: whole warpgroups) has executed."""

    done: Array
    changes: list[Change] = attrs.field(factory=list)


class RegisterCountRules(Watcher):
    """Tracks the setmaxnreg of each batch."""

    def batch_began(self, machine: Machine) -> None:
        """Start without any."""
        shape = machine.batch.shape
        machine.batch.notes[CHANGES] = Changes(np.zeros((-(-shape.n_threads // 128) * 4, shape.n_ctas), np.int64))

    def registers_changed(self, machine: Machine, group: Group, count: int) -> None:
        """Report warps of a warpgroup that request different counts."""
        known = machine.batch.notes[CHANGES]
        warps, place = _warps(known, group), present(group)
        for number in distinct(known.done[warps]).tolist():
            here = warps & (known.done == number)
            if number == len(known.changes):
                known.changes.append(Change(np.zeros(known.done.shape, np.int64), []))
            change = known.changes[number]
            change.counts[here] = count
            if number:
                _check_direction(machine, group, here, known.changes[number - 1], count)
            change.groups.append((group, place))
            groups = change.counts.reshape(-1, 4, change.counts.shape[1])
            differs = ((groups != 0) & (groups != count)).any(axis=1, keepdims=True)
            wrong = here & np.broadcast_to(differs, groups.shape).reshape(here.shape)
            if wrong.any():
                other = next(p for g, p in change.groups if p is not place)
                what = "asks for a different count than other warps of its warpgroup"
                _fault(machine, group, wrong, what, place, other)
        known.done[warps] += 1
        if machine.batch.exited is not None:
            _check_left(machine, known)

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Check warpgroups whose threads have exited, because they execute no more setmaxnreg."""
        known = machine.batch.notes[CHANGES]
        if known.changes:
            _check_left(machine, known)


def _check_direction(machine: Machine, group: Group, warps: Array, last: Change, count: int) -> None:
    """Report a .dec to more registers than warps have, or an .inc to fewer."""
    place, held = present(group), last.counts
    wrong = warps & ((held > count) if "inc" in place.op.modifiers else (held < count))
    if wrong.any():
        what = f"asks for {count} registers; the last one has left {int(held[wrong][0])}"
        _fault(machine, group, wrong, what, place, last.groups[-1][1])


def _warps(known: Changes, group: Group) -> Array:
    warps = np.zeros(known.done.shape, np.bool_)
    warps[group.selection.threads >> 5, group.selection.ctas] = True
    return warps


def _ended(machine: Machine, known: Changes) -> Array:
    """Warps all of whose threads have exited."""
    shape, exited = machine.batch.shape, machine.batch.exited
    out = np.zeros(known.done.shape, np.bool_)
    if exited is not None:
        threads = exited.reshape(shape.n_threads, shape.n_ctas)
        warps = np.logical_and.reduceat(threads, np.arange(0, shape.n_threads, 32), axis=0)
        out[: len(warps)] = warps
    return out


def _check_left(machine: Machine, known: Changes) -> None:
    """Report changes made by part of a warpgroup whose other part has exited."""
    ended = _ended(machine, known)
    for change in known.changes:
        counts = change.counts.reshape(-1, 4, change.counts.shape[1])
        if not (change.counts != 0).any():
            continue
        lacking = (ended.reshape(counts.shape) & (counts == 0)).any(axis=1, keepdims=True)
        made = np.broadcast_to(lacking, counts.shape).reshape(ended.shape) & (change.counts != 0)
        for group, place in change.groups:
            here = made & _warps(known, group)
            if here.any():
                what = "was executed by some warps of a warpgroup but not by the others"
                _fault(machine, group, here, what, place)
                change.counts[here] = 0


def _fault(
    machine: Machine, group: Group, warps: Array, what: str, place: Instruction, other: Instruction | None = None
) -> None:
    lanes = warps[group.selection.threads >> 5, group.selection.ctas]
    who = ", ".join(str(w) for w in np.flatnonzero(warps.any(axis=1)).tolist())
    machine.fault(
        SETMAXNREG, f"setmaxnreg {what} (warps {who})", group, lanes, place=place, other=other, advice=SAME_COUNT
    )
