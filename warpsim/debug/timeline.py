"""Runs a launch forward step by step, keeps snapshots of its state, and replays from them to reach any earlier step.

A step is what one group executes at once. Here groups are warps (`Settings.by_warp`), except in the order of a seed.
Position ``n`` is the state in which ``n`` steps have begun and the next has not. It depends only on the start and on
what the user changed on the way (`Change`), so it is the same whichever way the session reaches it.
"""

from __future__ import annotations

import bisect
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from attrs import field

from warpsim.checks.watchers import attended, watchers_of
from warpsim.debug import waiting
from warpsim.debug.batches import Batches
from warpsim.debug.threads import Focus, cta_text
from warpsim.errors import ExecutionError, Finding
from warpsim.machine.engine import ANY, Compiled, Run
from warpsim.machine.hooks import Listener as Listening
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.native.regions.options import Stops
from warpsim.native.tiering.eligibility import BARRIERS, compiled_for
from warpsim.program.program import Instruction, line_column
from warpsim.records import frozen

Turn = tuple[int, int, int]
"""From a step on, the warp of this CTA and number runs (linear); -n: so many CTAs side by side, this one is the first."""
StopTest = Callable[[Machine, Group, Instruction], int]
"""Called before each step. Returns 1 to stop there, 2 to stop for the step just executed, 0 to continue."""
Catch = Callable[[Finding], bool]
SNAPSHOT_EVERY = 0.05
"""Minimum run time between two snapshots, in seconds."""
SNAPSHOT_SHARE = 10
"""Minimum run time between two snapshots, as a multiple of the time that taking one needs."""
MOST_SNAPSHOTS = 64
SPAN = 512
"""Steps of a warp that a search looks at first."""
STRIDE = 1024
"""Steps between checks for a snapshot that is due, at first."""
BETWEEN_LOOKS = 0.02
"""Seconds between these checks."""
PAST = 1 << 16
"""Steps that compiled code may take past where a check is due: it stops late rather than often."""


@frozen(eq=False)
class Change:
    """A change made by the user at a position. ``act(timeline)`` applies it, and again whenever the launch reaches that
    position anew."""

    step: int
    key: tuple[object, ...]
    act: Callable[[Timeline], None]


@frozen
class Places:
    """Where a motion may stop: before the instructions of ``stops``, on their conditions, and after those of ``after``. ``who``:
    only the steps of this CTA matter, or only those of this warp of it (linear). ``lane``: the steps of all do, and those of this
    lane of the warp are counted. ``watched`` are the addresses that conditions name by their numbers."""

    stops: Stops = field(factory=dict)
    after: frozenset[tuple[int, int]] = frozenset()
    who: tuple[int, int | None] | None = None
    lane: int | None = None
    watched: tuple[int, ...] = ()

    @property
    def both(self) -> list[tuple[Stops, int | None]]:
        """The stops and the lane to count for ``who``, and those for others; one where they are the same."""
        others: list[tuple[Stops, int | None]] = [(self.stops if self.lane is not None else {}, None)]
        return [(self.stops, self.lane), *(others if self.who is not None else [])]


class Count(Protocol):
    """Counts the steps of a thread."""

    @property
    def left(self) -> int:
        """How many are left."""

    def passed(self, steps: int) -> None:
        """Count steps that compiled code has executed, fewer than are left."""


@frozen(eq=False)
class Snapshot:
    """A snapshot: the state at a position, after some number of changes."""

    step: int
    changes: int
    state: LaunchState


class Timeline(Watcher):
    """Runs a launch. ``step`` is the current position; ``machine`` and ``group`` are those whose step comes next (None
    before the first and after the last).

    ``most_bytes`` bounds the memory of snapshots and may be changed. With 0, going back runs again from the start.
    Memory accesses go to ``accessed``, threads that exit to ``leaving``, broken rules and the events that a catchpoint
    can name to ``occurred``.
    """

    leaving: Callable[[Machine, Group], None] | None = None
    accessed: Callable[[Machine, Group, MemoryAccess], None] | None = None
    counting: Count | None = None
    """Counts the steps of the lane of `Places`."""
    occurred: Callable[[str, Machine, Group | None, str | Finding], None] | None = None
    """Called with an event's name, the group that takes part, and a description; for a broken rule, with ``"finding"``
    and the finding."""

    def __init__(
        self, state: LaunchState, watchers: Sequence[Watcher], most_bytes: int, engine: str = "interpreter"
    ) -> None:
        self.most_bytes = most_bytes
        self.engine = engine
        """What runs the steps that nothing looks at."""
        self._turns: list[Turn] = []
        self._furthest = -1
        """The last step whose turn is known."""
        self._beginnings: dict[int, int] = {}
        """By CTA the step with which it begins, where those before it have ended."""
        self.cuts: frozenset[int] = frozenset()
        """The CTAs before which no others are to be side by side."""
        self.changes: list[Change] = []
        self.snapshots: list[Snapshot] = []
        self.last: int | None = None
        """Number of steps of the launch, once it is known."""
        self._watchers = watchers
        self.has_watchers = bool(watchers)
        """Whether user-defined watchers are present."""
        self._start = Snapshot(-1, 0, state)
        self.interrupted = self.cut = self._stopping = False
        self._catching: Catch | None = None
        self._known: set[tuple[int, str, int, int]] = set()
        self._hit: StopTest | None = None
        self._alarm = self._ahead = -2
        self._target: int | None = None
        self._between_stops: tuple[tuple[object, ...], Run] | None = None
        self._places: Places | None = None
        self._holding = False
        """Whether the step to come next is executed alone: something may have to be seen after the last one, or before it."""
        self.machine: Machine | None = None
        self.group: Group | None = None
        self.error: ExecutionError | None = None
        self.found: tuple[Finding, int, bool] | None = None
        """The finding that a motion has just stopped for, its step, and whether a step caused it."""
        self._restore(self._start)

    # ---- events ------------------------------------------------------------------------------

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Advance the position."""
        self.step += 1
        if group is not self.group:
            self._note_turn(machine, group)
        self._furthest = max(self._furthest, self.step)
        self.machine, self.group = machine, group
        places = self._places
        self._holding = places is not None and line_column(instruction) in places.after
        self._leave_room()
        if self.step == self._ahead:
            machine.hooks.pausing = True
        elif self._hit is not None and self._hit(machine, group, instruction):
            self._stopping = machine.hooks.pausing = True
        elif self.step >= self._alarm or self.interrupted:
            machine.hooks.pausing = True

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Handle a finding; each is reported once."""
        key = (self.step, finding.rule, finding.line, finding.column)
        if self.occurred is not None:
            self._hold()
            self.occurred("finding", machine, group, finding)
        if self._catching is not None and key not in self._known and self._catching(finding):
            self._known.add(key)
            self.found = finding, self.step, self.state.running is not None
            self._alarm = -1

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Report threads that exit."""
        if self.leaving is not None:
            self._hold()
            self.leaving(machine, group)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Report memory accesses."""
        if self.accessed is not None:
            self._hold()
            self.accessed(machine, group, access)

    def _report(self, event: str, machine: Machine, group: Group | None, text: Callable[[], str]) -> None:
        if self.occurred is not None:
            self._hold()
            self.occurred(event, machine, group, text())

    def _hold(self) -> None:
        """Execute the next step alone."""
        self._holding, self._run.room = True, 0

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Report an arrival."""
        self._report("arrival", machine, group, lambda: f"arrives at barrier {number}")

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Report that a barrier was passed."""
        self._report("barrier", machine, group, lambda: f"barrier {number} is complete")

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Report the completion of a barrier at which some threads only arrive."""
        self._report("barrier", machine, None, lambda: f"barrier {number} is complete")

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Report that the cluster barrier was passed."""
        self._report("barrier", machine, group, lambda: "the cluster barrier is complete")

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Array | None
    ) -> None:
        """Note where mbarriers are."""
        waiting.note_mbarriers(machine, columns, place, valid=True)

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Array | None
    ) -> None:
        """Note where mbarriers no longer are."""
        waiting.note_mbarriers(machine, columns, place, valid=False)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Report that a thread observed the end of a phase."""

        def text() -> str:
            return f"the phase of the mbarrier {waiting.shared_name(machine, int(np.asarray(place).flat[0]))} is over"

        self._report("phase", machine, group, text)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Defined so that the machine tracks copies."""

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report copies that threads have waited for."""
        text = partial(_copies, "{} have completed: threads have waited for them", machine, transfer)
        self._report("async", machine, None, text)

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report copies that have signalled their mbarriers."""
        text = partial(_copies, "{} have completed: their mbarrier has counted them", machine, transfer)
        self._report("async", machine, None, text)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report that data written by copies became readable."""
        text = partial(_copies, "the data that {} have written is visible", machine, transfer)
        self._report("visible", machine, None, text)

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Report wgmma that a warpgroup has waited for."""
        self._report("async", machine, group, lambda: "wgmma have completed: the warpgroup has waited for them")

    def region_executed(self, machine: Machine, group: Group, steps: int) -> None:
        """Advance the position past what compiled code has executed."""
        if group is not self.group:
            self.step += 1
            self._note_turn(machine, group)
            self.step -= 1
            self.machine = self.group = None
        self.step += steps
        self._furthest = max(self._furthest, self.step)
        compiled = self._run.compiled
        if self.counting is not None and isinstance(compiled, _ByWarp) and compiled.watches(machine, group):
            self.counting.passed(compiled.engines[0].followed)
        self._leave_room()

    def _note_turn(self, machine: Machine, group: Group) -> None:
        """Note whose turn begins with this step."""
        if self.step > self._furthest:
            self._add_turn(self.step, *machine.number_of(group))

    def _add_turn(self, step: int, cta: int, warp: int) -> None:
        if not self._turns or (self._turns[-1][0] < step and self._turns[-1][1:] != (cta, warp)):
            self._turns.append((step, cta, warp))

    def note_beginning(self, cta: int) -> None:
        """A CTA begins with the next step, and all before it have ended."""
        self._beginnings[cta] = self.step + 1

    def fitting(self, cta: int, most: int) -> int:
        """How many CTAs from one on, at most ``most``, do not end beyond where the launch has to stop, as far as is known."""
        last = self.step + 1 + self.room
        known = [(other, step) for other, step in self._beginnings.items() if cta < other <= cta + most]
        beyond = min((other for other, step in known if step > last), default=None)
        if beyond is None:
            return most
        return max((other for other, step in known if step <= last), default=beyond - 1) - cta

    def batch_executed(self, cta: int, n_ctas: int, steps: int) -> None:
        """Advance the position past what CTAs have executed, all of it, side by side; ``cta`` is the first."""
        begin = self.step
        self.step += steps
        if self.step > self._furthest:
            self._add_turn(max(begin, self._furthest) + 1, cta, -n_ctas)
            self._furthest = self.step
        self.machine = self.group = None
        self._leave_room()

    def has_to_look(self) -> bool:
        """Whether the launch has to stop at the next step: for the user, or for a snapshot."""
        due = self.most_bytes > 0 and time.monotonic() > self._next_snapshot
        if due:
            self._alarm, self._run.room = self.step, 0
        return due or self._holding or self.interrupted or self._alarm < 0

    @property
    def room(self) -> int:
        """How many steps may be executed before the launch has to stop."""
        places = [place for place in (self._target, self._ahead) if place is not None and place > self.step]
        return min(places) - self.step - 1 if places else ANY

    def _leave_room(self) -> None:
        """Let compiled code run up to where the launch may have to stop."""
        room = 0 if self.step + 1 >= self._alarm else min(max(self._alarm - self.step - 1, PAST), self.room)
        if self.counting is not None:
            room = min(room, self.counting.left - 1)
        self._run.room = 0 if self._holding else max(room, 0)

    # ---- states ------------------------------------------------------------------------------

    def _restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot."""
        self.state = copy.deepcopy(snapshot.state)
        self.step = snapshot.step
        self.made = snapshot.changes
        self.ended = False
        self.error = None
        self.found = None
        self.machine = self.group = None
        self._checks = [*watchers_of(self.state), *self._watchers]
        self._each_step = self._run = Run(self.state, [*self._checks, self], attended=attended)
        self._between_stops = None
        if self.state.running is not None:
            self.machine, self.group = self._run.machine(self.state.turns[0]), self.state.running
        self._next_snapshot = time.monotonic() + SNAPSHOT_EVERY

    def machines(self) -> list[Machine]:
        """The batches that have begun and not ended."""
        return [self._run.machine(batch) for batch in self.state.batches]

    def machine_of(self, focus: Focus) -> Machine | None:
        """The batch of a thread's CTA; None if it is not running."""
        return next((m for m in self.machines() if m.column_of(focus.cta) is not None), None)

    def _take_snapshot(self) -> None:
        """Take a snapshot of the current state, and drop some if there are too many."""
        began = time.monotonic()
        if not any(snapshot.step == self.step for snapshot in self.snapshots):
            snapshot = Snapshot(self.step, self.made, copy.deepcopy(self.state))
            self.snapshots = sorted([*self.snapshots, snapshot], key=lambda c: c.step)
            self._thin_out()
        took = time.monotonic() - began
        self._next_snapshot = time.monotonic() + max(SNAPSHOT_EVERY, SNAPSHOT_SHARE * took)

    def _thin_out(self) -> None:
        """Drop snapshots so that the gaps grow with the distance from the current position."""
        while len(self.snapshots) > MOST_SNAPSHOTS or self.bytes > self.most_bytes:
            if not self.snapshots:
                return
            steps = [self._start.step, *[snapshot.step for snapshot in self.snapshots]]
            steps.append(steps[-1] + 1)
            gaps = [
                (steps[at + 2] - steps[at]) / (abs(self.step - steps[at + 1]) + 1) for at in range(len(self.snapshots))
            ]
            del self.snapshots[gaps.index(min(gaps))]

    @property
    def bytes(self) -> int:
        """Memory of the snapshots, less what they share with each other."""
        found = {id(array): array.nbytes for snapshot in self.snapshots for array in arrays_of(snapshot.state)}
        shared = {id(array) for array in arrays_of(self._start.state)}
        return sum(nbytes for name, nbytes in found.items() if name not in shared)

    # ---- changes -----------------------------------------------------------------------------

    def change(self, key: tuple[object, ...], act: Callable[[Timeline], None]) -> None:
        """Change the state here, and again whenever the launch reaches this position. Discards everything recorded
        after it."""
        del self.changes[self.made :]
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.step <= self.step]
        self._known = {key for key in self._known if key[0] <= self.step}
        self._furthest = min(self._furthest, self.step - 1)
        self._beginnings = {cta: step for cta, step in self._beginnings.items() if step <= self.step}
        self.last = None
        self.changes.append(Change(self.step, key, act))
        act(self)  # which may give this step to another warp
        del self._turns[bisect.bisect_right(self._turns, self.step, key=lambda turn: turn[0]) :]
        self.made += 1

    def _make_changes(self) -> None:
        """Apply the changes that belong to this position."""
        step = self.step
        while self.made < len(self.changes) and self.changes[self.made].step <= step:
            self.changes[self.made].act(self)
            self.made += 1

    def prefer(self, warp: tuple[int, int] | None) -> None:
        """Prefer a warp (CTA, warp) over all others from here on; None restores the machine's own order."""
        if self.state.preferred != warp:
            self.change(("prefer", warp), lambda timeline: timeline.put_first(warp))

    def put_first(self, warp: tuple[int, int] | None) -> None:
        """Set the preferred warp, and requeue the running group if it belongs to another."""
        state = self.state
        state.preferred = warp
        running, machine = state.running, self.machine
        if warp is None or running is None or machine is None or machine.number_of(running) == warp:
            return
        machine.push(running)
        state.running, state.reported = None, False
        self.machine = self.group = None
        self.step -= 1

    # ---- motion ------------------------------------------------------------------------------

    def forward(
        self,
        target: int | None = None,
        hit: StopTest | None = None,
        catch: Catch | None = None,
        places: Places | None = None,
    ) -> str:
        """Run to position ``target``, to the first position where ``hit`` says so, or to the end.

        ``hit`` is asked before each step, or, with ``places``, at least before and after those that they name.
        ``catch`` decides which findings stop the run. For a finding caused by a step, the run stops before that step.

        Returns:
            Why it stopped: ``target``, ``hit``, ``finding``, ``end`` or ``interrupted``.
        """
        self._hit, self._catching, self.cut, self.found = hit, catch, False, None
        self._move_by(None if hit is not None and places is None else places or Places())
        self._holding = hit is not None
        try:
            return self._forward(target)
        except KeyboardInterrupt:  # in the middle of a step
            self._again(self.step)
            self.cut = True
            return "interrupted"
        finally:
            self._hit, self._catching = None, None

    def _move_by(self, places: Places | None) -> None:
        """Run the launch by compiled code, too, but at ``places``; step by step for None."""
        self._places, accesses = places, self.accessed is not None
        if places is None:
            self._run = self._each_step
            return
        self.state.watched = places.watched
        joins = self.state.settings.by_warp and self.leaving is None and self.occurred is None and not self.has_watchers
        key = places, accesses, joins
        if self._between_stops is None or self._between_stops[0] != key:
            watchers: list[Listening] = [*self._checks, _BetweenStops(self, accesses=accesses)]
            made = [
                compiled_for(self.engine, watchers, self.state, joins=False, stops=stops, lane=lane)
                for stops, lane in places.both
            ]
            compiled: Compiled | None = made[0] if places.who is None or made[0] is None else _ByWarp(made, places.who)
            if joins and compiled is not None and not self._stops_at_ends(places):
                compiled = self._joining(places, compiled)
            self._between_stops = key, Run(self.state, watchers, compiled=compiled, attended=attended)
        self._run = self._between_stops[1]

    def _stops_at_ends(self, places: Places) -> bool:
        """Whether a motion may stop where threads exit."""
        ends = {line_column(i) for i in self.state.plan.main.function.code if i.traits.leaves}
        return not ends.isdisjoint(places.stops.keys() | places.after)

    def _joining(self, places: Places, alone: Compiled) -> Compiled:
        """Code that runs CTAs side by side, too: nobody is to know what they do at barriers."""
        between = _BetweenStops(self, accesses=self.accessed is not None)
        between.compiled |= BARRIERS
        stops = places.both[-1][0]
        through = compiled_for(self.engine, [*self._checks, between], self.state, keeps=False, stops=stops)
        return (
            alone if through is None else Batches(self, alone, through, [None if places.who is None else places.who[0]])
        )

    def _forward(self, target: int | None) -> str:
        self._make_changes()
        stride = STRIDE
        while not self.ended:
            if target is not None and self.step >= target and self.group is not None:
                return "target"
            ahead = self.changes[self.made : self.made + 1]
            self._ahead = ahead[0].step if ahead else -2
            self._alarm = self.step + stride if target is None else min(self.step + stride, target)
            self._target = target
            self._stopping = False
            self._leave_room()
            began = time.monotonic()
            try:
                going = self._run.advance()
            except ExecutionError as error:
                return self._stop_at_finding() if self.found is not None else self._end(error)
            if self.found is not None:
                return self._stop_at_finding()
            if not going:
                return self._end(None)
            if self._stopping:
                return "hit"
            if self.step == self._ahead and self._changed_hits():
                return "hit"
            if self.interrupted:
                self.interrupted, self.cut = False, True
                return "interrupted"
            stride = max(stride // 2 if time.monotonic() - began > BETWEEN_LOOKS else stride * 2, STRIDE)
            if self.most_bytes > 0 and self.group is not None and time.monotonic() > self._next_snapshot:
                self._take_snapshot()
        return "end"

    def _changed_hits(self) -> bool:
        """Make the changes that were made here before; whether the run is to stop with them."""
        self._make_changes()
        if self._hit is None or self.machine is None or self.group is None:
            return False
        return bool(self._hit(self.machine, self.group, self.group.instruction))

    def _end(self, error: ExecutionError | None) -> str:
        self.ended, self.error = True, error
        self.step += 1
        self.last = self._beginnings[self.state.n_ctas] = self.step
        self.machine = self.group = None
        return "end"

    def _stop_at_finding(self) -> str:
        found = self.found
        assert found is not None
        if found[2]:
            self._again(found[1])
        else:
            self.machine = self.group = None
        self.found = found
        return "finding"

    def _again(self, step: int) -> None:
        """Abandon an unfinished step, and return to the position before it."""
        self._restore(self._nearest(step))
        self._hit, self._catching, self._holding = None, None, False
        self._move_by(Places())
        self._forward(step)

    @property
    def start(self) -> LaunchState:
        """The launch before its first step."""
        return self._start.state

    def restart(self) -> None:
        """Return to the start of the launch, and discard all changes."""
        self.changes, self.snapshots, self._turns, self._furthest = [], [], [], -1
        self._known.clear()
        self._beginnings.clear()
        self._restore(self._start)
        self.forward(0)

    def again(self, watchers: Sequence[Watcher]) -> Timeline:
        """The same launch from its start, with all changes and other watchers."""
        other = Timeline(self._start.state, watchers, 0)
        other.changes = list(self.changes)
        return other

    def interrupt(self) -> None:
        """Ask the current or the next motion to stop soon. Safe to call from a signal handler or another thread."""
        self.interrupted = True

    def _nearest(self, step: int) -> Snapshot:
        """The last snapshot at or before a position."""
        return max(
            [self._start, *[snapshot for snapshot in self.snapshots if snapshot.step <= step]], key=lambda c: c.step
        )

    def goto(self, step: int) -> str:
        """Go to a position, forward or backward; returns ``end`` if the launch ends before it."""
        here = self.step if not self.ended and self.group is not None else -2
        if here == step:
            return "target"
        if not 0 <= here < step or self._nearest(step).step > here:
            self._restore(self._nearest(step))
        return self.forward(step)

    def latest(
        self, hit: StopTest, n: int = 1, places: Places | None = None, who: tuple[int, int] | None = None
    ) -> int | None:
        """The ``n``-th last position before this one at which ``hit`` holds; None if there is none. Leaves the launch
        at an unspecified position.

        ``places``: the instructions at which it may hold, where these are known; ``who``: the CTA and warp (linear) at
        whose steps it may hold.
        """
        self.cut = False
        nowhere = places == Places() and self.accessed is None and self.occurred is None
        high = 0 if nowhere else self.step
        found: list[int] = []

        def note(machine: Machine, group: Group, instruction: Instruction) -> int:
            answer = hit(machine, group, instruction)
            at = self.step - answer + 1
            if answer and at < high and (not found or found[-1] < at):
                found.append(at)
            return 0

        span = SPAN
        while high > 0:
            found.clear()
            slices = [(max(high - span, 0), high)] if who is None else self._slices(who, high, span)
            span *= 8
            if not slices:
                return None
            for first, last in slices:
                if self.goto(max(first, 0)) == "interrupted":
                    return None
                if self.machine is not None and self.group is not None:
                    note(self.machine, self.group, self.group.instruction)
                if self.forward(last, note, places=places) == "interrupted":
                    return None
            if len(found) >= n:
                return found[-n]
            n -= len(found)
            high = slices[0][0]
        return None

    def _slices(self, who: tuple[int, int], high: int, span: int) -> list[tuple[int, int]]:
        """The last steps of a warp before a position, about ``span`` of them: first step and the step after the last, each.

        They begin within a turn: where one begins, the warp may resume what it has begun before.
        """
        cta, warp = who
        found: list[tuple[int, int]] = []
        for number in range(bisect.bisect_left(self._turns, high, key=lambda turn: turn[0]) - 1, -1, -1):
            begin, of, first = self._turns[number]
            if (of == cta and 0 <= first <= warp < first + 4) or of <= cta < of - first:
                end = min(self._turns[number + 1][0] if number + 1 < len(self._turns) else high, high)
                if first < 0:
                    begin, end = self._narrowed(cta, begin, end)
                if begin >= end:
                    continue
                found.append((max(begin, end - span), end))
                if found[-1][0] > begin:
                    break
                span = max(span - (end - begin), 1)
        return found[::-1]

    def _narrowed(self, cta: int, begin: int, end: int) -> tuple[int, int]:
        """The steps of a CTA that ran side by side with others from ``begin`` to ``end``: it runs again to find them."""
        if not {cta, cta + 1} <= self._beginnings.keys():
            self._restore(self._nearest(begin))
            self.cuts = frozenset({cta, cta + 1})
            self.forward(end)
            self.cuts = frozenset()
        return max(begin, self._beginnings.get(cta, begin)), min(end, self._beginnings.get(cta + 1, end))


def arrays_of(state: LaunchState) -> Iterator[Array]:
    """The large arrays of a state. Snapshots share those that have not been written in between."""
    yield from (allocation.data for allocation in state.memory.allocations)
    for batch in state.batches:
        yield from (batch.shared.words, batch.local.words)
        for frame in batch.frames.values():
            yield from (value for value in frame.values if isinstance(value, np.ndarray))


def _copies(text: str, machine: Machine, transfer: Transfer) -> str:
    """Insert a description of copies into a text."""
    place = transfer.place or transfer.group.instruction
    position, n_ctas = int(transfer.positions[0]), machine.batch.shape.n_ctas
    cta = cta_text(machine.cta_at(position % n_ctas))
    return text.format(f"the copies of line {place.span.line} ({cta}, warp {position // n_ctas >> 5})")


class _BetweenStops:
    """Listens for a `Timeline` where only stops matter: compiled code may take steps, and ``accesses`` between them."""

    compiled: frozenset[str] = frozenset({"step_before", "memory_accessed"})
    apart: frozenset[str] = frozenset()
    shadows = None

    def __init__(self, timeline: Timeline, *, accesses: bool) -> None:
        self.events = tuple(event for event in Timeline.events if accesses or event != "memory_accessed")
        for event in self.events:
            setattr(self, event, getattr(timeline, event))


class _ByWarp:
    """Runs the warps of ``who`` (a CTA, and a warp or None for all of it) by the first of two engines, all others by the second."""

    def __init__(self, engines: Sequence[Any], who: tuple[int, int | None]) -> None:
        self.engines, (self.cta, self.warp) = engines, who
        self.runs_steps, self.bodies = engines[0].runs_steps, engines[0].bodies

    def advance(
        self, machine: Machine, group: Group, limit: tuple[int, tuple[int, ...]] | None, room: int | None = None
    ) -> bool:
        """Run the region that begins where a group stands; False if it did not run."""
        return bool(self.engines[0 if self.watches(machine, group) else 1].advance(machine, group, limit, room))

    def watches(self, machine: Machine, group: Group) -> bool:
        """Whether a group belongs to ``who``."""
        cta, warp = machine.number_of(group)
        return cta == self.cta and (self.warp is None or warp == self.warp)

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which code may begin, else ``last``."""
        return min(engine.until(group, last) for engine in self.engines)

    def joined(self, state: LaunchState, failed: int = 0) -> int:
        """Each CTA is a batch."""
        return 1

    def records(self, state: LaunchState) -> bool:
        """Nobody looks at some CTAs only."""
        return False

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Only joined batches run through."""
        return False

    def over(self) -> None:
        """The launch is over."""
