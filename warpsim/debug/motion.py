"""Moves a launch: with a thread instruction by instruction, to the next event, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.debug import expressions
from warpsim.debug.breakpoints import (
    Breakpoint,
    Catchpoint,
    LineColumn,
    MemoryTarget,
    Watch,
    Watchpoint,
    unknown_name,
    watch_of,
)
from warpsim.debug.errors import DebugError
from warpsim.debug.evaluation import Context
from warpsim.debug.places import places_of
from warpsim.debug.position import Position, Stop
from warpsim.debug.threads import Focus, GroupState, first_of, group_states, holds, warps_in
from warpsim.debug.timeline import StopTest
from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.watcher import WRITE, MemoryAccess
from warpsim.program.program import Instruction, line_column
from warpsim.records import frozen

Arrived = Callable[[Group, Instruction], bool]
Where = tuple[object, int, int]


def step(position: Position, n: int = 1) -> Stop:
    """Execute ``n`` instructions of the thread in focus, and of the next one when it has exited."""
    steps = _Steps(n)
    while True:
        stop = _follow(position, steps.arrived, steps)
        if steps.left <= 1 or stop.reason != "step":
            return stop
        steps.left -= 1  # the thread has exited


class _Steps:
    """Counts the steps that a thread has left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def arrived(self, group: Group, instruction: Instruction) -> bool:
        """Count a step; whether it was the last."""
        self.left -= 1
        return self.left == 0


def over(position: Position) -> Stop:
    """Execute one instruction, including everything it calls."""
    depth = _depth(position)
    return _follow(position, lambda group, instruction: len(group.stack) <= depth)


def out(position: Position) -> Stop:
    """Run until the function returns."""
    depth = _depth(position)
    if depth == 0:
        raise DebugError("the kernel is the outermost function: it has no caller")
    return _follow(position, lambda group, instruction: len(group.stack) < depth)


def line(position: Position, *, into: bool) -> Stop:
    """Run until the thread starts another CUDA line (with ``into``, also in a called function) or its function returns."""
    depth, source = _depth(position), _source(position)

    def arrived(group: Group, instruction: Instruction) -> bool:
        deep = len(group.stack)
        if deep < depth:
            return True
        if deep > depth:
            return into and instruction.source is not None
        return instruction.source is not None and instruction.source != source

    return _follow(position, arrived)


def line_back(position: Position) -> Stop:
    """Go back to the start of the CUDA line that the thread in focus executed last."""
    _source(position)
    timeline, focus, was = position.timeline, position.thread, position.timeline.step

    def executed(other: tuple[str, int] | None) -> StopTest:
        def hit(machine: Machine, group: Group, instruction: Instruction) -> int:
            source = instruction.source
            return int(source is not None and source != other and holds(machine, group, focus))

        return hit

    last = timeline.latest(executed(None), who=position.who)
    if last is None:
        return _go_back(position, None, was)
    timeline.goto(last)
    assert timeline.group is not None
    source = timeline.group.instruction.source
    before = timeline.latest(executed(source), who=position.who)
    if before is None and timeline.cut:
        return _go_back(position, None, was)
    timeline.goto(0 if before is None else before)
    if before is not None or timeline.group is None or timeline.group.instruction.source != source:
        timeline.forward(last, lambda machine, group, at: int(at.source == source and holds(machine, group, focus)))
    return position.stopped("step", refocus=True)


def _source(position: Position) -> tuple[str, int] | None:
    """The CUDA line at which the thread in focus stands; None if it has none.

    Raises:
        DebugError: the module has no line information.
    """
    if all(i.source is None for i in position.code):
        raise DebugError("the module has no line information: compile with -lineinfo")
    at = position.group_state()
    return at.instruction.source if at is not None else None


def until(position: Position, locations: frozenset[LineColumn]) -> Stop:
    """Run until the thread reaches one of these places or its function returns."""
    depth = _depth(position)
    return _follow(
        position, lambda group, instruction: line_column(instruction) in locations or len(group.stack) < depth
    )


def anywhere(position: Position) -> Stop:
    """Run until something stops the launch."""
    if position.timeline.ended:
        return position.stopped("end")
    stops = _Stops(position)
    return _report(position, position.timeline.forward(None, stops.ask, position.catches, stops.places), stops)


def back(position: Position, n: int = 1) -> Stop:
    """Go back to before the ``n``-th last instruction of the thread in focus, or to the start if there are fewer."""
    focus, was = position.thread, position.timeline.step
    last: list[Where | None] = [None]

    def executed(machine: Machine, group: Group, instruction: Instruction) -> int:
        if not holds(machine, group, focus):
            return 0
        here = where(group)
        again = here == last[0] and instruction.traits.ending is None  # it waited there and resumed
        last[0] = here
        return 0 if again else 1

    return _go_back(position, position.timeline.latest(executed, n, who=position.who), was)


def reverse(position: Position) -> Stop:
    """Go back to the last position at which `anywhere` would have stopped, or to the start."""
    timeline, was = position.timeline, position.timeline.step
    make = partial(_Stops, position, counting=False, findings=bool(timeline.state.findings))
    past: dict[int, _Stops] = {}
    reached: dict[int, _Hit] = {}

    def hit(machine: Machine, group: Group, instruction: Instruction) -> int:
        run = id(machine.launch)
        if run not in past:
            past.clear()
            past[run] = make()
        stops = past[run]
        answer = stops.ask(machine, group, instruction)
        if answer and stops.hit is not None:
            reached[timeline.step - answer + 1] = stops.hit
        return answer

    try:
        found = timeline.latest(hit, places=make().places)
    finally:
        timeline.accessed = timeline.occurred = None
    if found is None:
        return _go_back(position, None, was)
    timeline.goto(found)
    at = reached[found]
    if (
        timeline.machine is not None
        and timeline.group is not None
        and holds(timeline.machine, timeline.group, at.focus)
    ):
        position.thread = at.focus
    return position.stopped(at.reason, refocus=at.reason != "breakpoint", **at.found)


def _go_back(position: Position, step: int | None, was: int) -> Stop:
    """Go to an earlier position, to the start for None, or to ``was`` if the user interrupted the search."""
    timeline = position.timeline
    if step is None and timeline.cut:
        timeline.goto(was)
        return position.stopped("interrupted")
    timeline.goto(0 if step is None else step)
    return position.stopped("step", refocus=True)


def where(group: Group) -> Where:
    """The place of a group: its calls, block and step."""
    return group.stack, group.block, group.at


def _depth(position: Position) -> int:
    at = position.group_state()
    return len(at.group.stack) if at is not None else 0


class _Follower:
    """Follows the thread in focus, and stops where ``arrived`` holds."""

    def __init__(self, position: Position, at: GroupState | None, arrived: Arrived, steps: _Steps | None) -> None:
        self.focus: Focus = position.thread
        self.arrived, self.steps = arrived, steps
        self.stops = _Stops(position)
        self.gone = False
        self.last: Where | None = None
        self.coming = False
        """The thread stands at a step that has not been reported yet."""
        if at is not None:
            group = at.group
            self.last = where(group)
            self.coming = not at.waits and group is not position.timeline.group

    @property
    def left(self) -> int:
        """How many steps are left to count."""
        return 0 if self.steps is None else self.steps.left

    def passed(self, steps: int) -> None:
        """Count steps of the thread that compiled code has executed."""
        if steps > 0 and self.steps is not None:
            self.steps.left -= steps - int(self.coming)
            self.last, self.coming = None, False

    def leaving(self, machine: Machine, group: Group) -> None:
        """Note that threads exit; the thread followed may be among them."""
        self.gone = self.gone or holds(machine, group, self.focus)

    def ask(self, machine: Machine, group: Group, instruction: Instruction) -> int:
        """Whether to stop before this step."""
        hit = self.stops.ask(machine, group, instruction)
        if hit or self.gone:
            return hit or 1
        if not holds(machine, group, self.focus):
            return 0
        here = where(group)
        if self.coming and here == self.last:
            self.coming = False
            return 0
        if here == self.last and instruction.traits.ending is None:
            return 0  # it waited for others and resumes
        self.last, self.coming = here, False
        return int(self.arrived(group, instruction))


def _follow(position: Position, arrived: Arrived, steps: _Steps | None = None) -> Stop:
    timeline = position.timeline
    if timeline.ended:
        return position.stopped("end")
    at = position.group_state()
    if at is None and position.has_begun(position.thread.cta):
        raise DebugError(f"{position.thread} has exited; focus on another")
    stood = timeline.machine, timeline.group
    position.lock()
    follower = _Follower(position, position.group_state(), arrived, steps)
    if timeline.group is None and stood[0] is not None and stood[1] is not None:
        follower.stops.passed = place_of(stood[0], stood[1])
    places = None
    if steps is not None and steps.left > 1 and position.who is not None:
        places, timeline.counting = (
            attrs.evolve(follower.stops.places, who=position.who, lane=position.thread.lane),
            follower,
        )
    timeline.leaving = follower.leaving
    try:
        reason = timeline.forward(None, follower.ask, position.catches, places)
    finally:
        timeline.leaving = timeline.counting = None
    return _report(position, reason, follower.stops)


def _report(position: Position, reason: str, stops: _Stops) -> Stop:
    position.timeline.accessed = position.timeline.occurred = None
    if reason == "finding":
        assert position.timeline.found is not None
        finding = position.timeline.found[0]
        if finding.cta is not None and finding.warp is not None:
            position.thread = Focus(finding.cta, finding.warp, finding.lanes[0] if finding.lanes else 0)
        point = position.catcher(finding.rule)
        if point is not None:
            point.hits += 1
        return position.stopped(
            "finding", refocus=True, finding=finding, number=None if point is None else point.number
        )
    hit = stops.hit
    if reason == "hit" and hit is not None:
        position.thread = hit.focus
        return position.stopped(hit.reason, refocus=False, **hit.found)
    if reason == "hit":
        return position.stopped("step", refocus=position.group_state() is None)
    return position.stopped(reason, refocus=True)


# ---- what stops the launch -----------------------------------------------------------------------


@frozen(eq=False)
class _Hit:
    """A breakpoint, watchpoint or catchpoint that was hit, and the thread to focus on."""

    reason: str
    number: int | None
    focus: Focus
    old: ArrayLike | None = None
    new: ArrayLike | None = None
    event: str = ""
    finding: Finding | None = None

    @property
    def found(self) -> dict[str, object]:
        """What a `Stop` says of it besides the reason."""
        return attrs.asdict(self, recurse=False, filter=attrs.filters.exclude("reason", "focus"))


def place_of(machine: Machine, group: Group) -> tuple[object, ...]:
    """A key for which threads stand where."""
    return machine.number_of(group), group.stack, group.block, group.at


class _Stops:
    """The breakpoints, watchpoints and catchpoints during one motion. ``counting``: hits count; off when
    searching the past, which may have ``findings``."""

    def __init__(self, position: Position, *, counting: bool = True, findings: bool = False) -> None:
        self.position, self.counting = position, counting
        self.hit: _Hit | None = None
        self.passed: tuple[object, ...] | None = None
        """The place at which the launch has already stopped for this group."""
        self._marks: dict[int, list[Breakpoint]] = {}
        self._watched: list[tuple[Watchpoint, Watch]] = []
        self._read: tuple[Watchpoint, Focus] | None = None
        self._events: list[tuple[Catchpoint | None, Focus | None, str | Finding]] = []
        self._last: Focus | None = None
        self._machine: Machine | None = None
        self._conditions: dict[int, expressions.Node] = {}
        self._lacking: dict[tuple[int, str], str | None] = {}
        """By breakpoint and function: the first name in the condition that the function lacks."""
        enabled = [point for point in position.breakpoints.values() if point.enabled]
        for point in enabled:
            if isinstance(point, Breakpoint):
                for line in point.lines:
                    self._marks.setdefault(line, []).append(point)
            elif isinstance(point, Watchpoint):
                self._watched.append((point, watch_of(point.target, position.timeline)))
            if not isinstance(point, Catchpoint) and point.condition is not None:
                self._conditions[point.number] = expressions.parse(point.condition)
        timeline = position.timeline
        timeline.accessed = self._accessed if any(point.read for point, _ in self._watched) else None
        caught = any(isinstance(point, Catchpoint) for point in enabled)
        timeline.occurred = self._occurred if caught or (position.stop_at_findings and findings) else None
        self.places = places_of([point for point in enabled if not isinstance(point, Catchpoint)], timeline.state)
        if timeline.machine is not None and timeline.group is not None:
            self._changes(timeline.machine, timeline.group, timeline.group.instruction)

    def ask(self, machine: Machine, group: Group, instruction: Instruction) -> int:
        """Return 0 to continue, 1 to stop here, 2 to stop for the step just executed."""
        if self._watched:
            self.hit = self._changes(machine, group, instruction)
            if self.hit is not None:
                return 2
        if self._events:
            self.hit = self._happened(machine, group)
            return 2
        if not self._watched:
            self._last = None if self.position.timeline.occurred is None else first_of(machine, group)
        points = self._marks.get(instruction.span.line)
        if points is not None and not self._passes(machine, group):
            place = line_column(instruction)
            for point in points:
                if place in point.locations and self._holds(point, machine, group):
                    return 1
        return 0

    def _occurred(self, what: str, machine: Machine, group: Group | None, event: str | Finding) -> None:
        """Note an event, or a rule broken by a step (which stops a forward motion by itself)."""
        rule = event.rule if isinstance(event, Finding) else None
        if rule is not None and self.counting:
            return
        point = self.position.catcher(rule or what)
        if point is None and (rule is None or not self.position.stop_at_findings):
            return
        if all(point is not known or event != text for known, _, text in self._events):
            self._events.append((point, self._last if group is None else first_of(machine, group), event))

    def _happened(self, machine: Machine, group: Group) -> _Hit:
        """Describe the events of a step; the first one decides the focus."""
        events, self._events = self._events, []
        for caught in {id(p): p for p, _, _ in events if p is not None and self.counting}.values():
            caught.hits += 1
        point, focus, text = events[0]
        number, who = None if point is None else point.number, focus or first_of(machine, group)
        if isinstance(text, Finding):
            return _Hit("finding", number, who, finding=text)
        return _Hit("catchpoint", number, who, event="; ".join(str(e) for _, _, e in events))

    def _passes(self, machine: Machine, group: Group) -> bool:
        """Whether the launch already stood here, because another warp ran first."""
        if self.passed is None or self.passed != place_of(machine, group):
            return False
        self.passed = None
        return True

    def _holds(self, point: Breakpoint, machine: Machine, group: Group) -> bool:
        focus = self.position.thread if holds(machine, group, self.position.thread) else first_of(machine, group)
        if point.number in self._conditions:
            others = [] if group.selection.n_warps == 1 else warps_in(machine, group)
            met = (self._where(point, machine, group, each) for each in [focus, *others])
            found = next((each for each in met if each is not None), None)
            if found is None:
                return False
            focus = found
        if not self._counts(point):
            return False
        self.hit = _Hit("breakpoint", point.number, focus)
        return True

    def _counts(self, point: Breakpoint | Watchpoint) -> bool:
        """Count a hit; whether it stops."""
        if self.counting:
            point.hits += 1
            if point.ignore > 0:
                point.ignore -= 1
                return False
            if point.temporary:
                self.position.breakpoints.pop(point.number, None)
        return True

    def _where(
        self, point: Breakpoint | Watchpoint, machine: Machine, group: Group | None, focus: Focus
    ) -> Focus | None:
        """The thread of a warp for which a condition holds: the one in focus, or the first. ``group`` is None if the
        thread has exited."""
        condition, plan = self._conditions[point.number], machine.launch.plan.main if group is None else group.plan
        key = point.number, plan.function.name
        if key not in self._lacking:
            self._lacking[key] = unknown_name(condition, plan.function, machine.launch.plan.program)
        if self._lacking[key] is not None:
            return None
        context = Context(machine.launch, machine, group, focus, kept=self.position.kept.find)
        value = context.evaluate(condition)
        truth = np.broadcast_to(np.asarray(value.data != 0, np.bool_), 32)
        truth = truth & context.lanes() if group is not None else truth
        if not truth.any():
            return None
        return focus if truth[focus.lane] else attrs.evolve(focus, lane=int(np.flatnonzero(truth)[0]))

    def _changes(self, machine: Machine, group: Group, instruction: Instruction) -> _Hit | None:
        where, who = self._machine, self._last
        self._machine, self._last = machine, first_of(machine, group)
        found: _Hit | None = None
        read, self._read = self._read, None
        if read is not None:
            found = self._watch_hit(read[0], machine if where is None else where, read[1])
        for point, watch in self._watched:
            change = watch.changed(machine, group, instruction)
            if change is not None and point.write and found is None:
                found = self._watch_hit(point, machine if where is None else where, who or self._last, *change)
        return found

    def _watch_hit(self, point: Watchpoint, machine: Machine, focus: Focus, *change: Any) -> _Hit | None:
        """A hit of a watchpoint by the last step, which ``focus`` executed; None if its condition is false there, or if
        it is to be passed."""
        if point.number in self._conditions:
            group = next((at.group for at in group_states(machine) if holds(machine, at.group, focus)), None)
            met = self._where(point, machine, group, focus)
            if met is None:
                return None
            focus = met
        return _Hit("watchpoint", point.number, focus, *change) if self._counts(point) else None

    def _accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        if access.kind == WRITE:
            return
        for point, _ in self._watched:
            if (
                point.read
                and isinstance(point.target, MemoryTarget)
                and point.target.touching(machine, group, access).any()
            ):
                self._read = point, first_of(machine, group)
