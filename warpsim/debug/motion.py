"""Moves a launch: with a thread instruction by instruction, to the next event, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsim.debug.breakpoints import LineColumn, line_column
from warpsim.debug.errors import DebugError
from warpsim.debug.position import Position, Stop
from warpsim.debug.stops import Hit, Stops, place_of
from warpsim.debug.threads import Focus, Standing, holds
from warpsim.debug.timeline import StopTest
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction

Arrived = Callable[[Group, Instruction], bool]
Where = tuple[Any, int, int]


def step(position: Position) -> Stop:
    """Execute one instruction of the thread in focus."""
    return _follow(position, lambda group, instruction: True)


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

    last = timeline.latest(executed(None))
    if last is None:
        return _go_back(position, None, was)
    timeline.goto(last)
    assert timeline.group is not None
    source = timeline.group.instruction.source
    before = timeline.latest(executed(source))
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
    code = (i for f in position.timeline.state.plan.program.functions.values() for i in f.code)
    if all(i.source is None for i in code):
        raise DebugError("the module has no line information: compile with -lineinfo")
    at = position.standing()
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
    stops = Stops(position)
    return _report(position, position.timeline.forward(None, stops.ask, position.catches), stops)


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

    return _go_back(position, position.timeline.latest(executed, n), was)


def reverse(position: Position) -> Stop:
    """Go back to the last position at which `anywhere` would have stopped, or to the start."""
    timeline, was = position.timeline, position.timeline.step
    past: dict[int, Stops] = {}
    reached: dict[int, Hit] = {}

    def hit(machine: Machine, group: Group, instruction: Instruction) -> int:
        run = id(machine.launch)
        if run not in past:
            past.clear()
            past[run] = Stops(position, counting=False)
        stops = past[run]
        answer = stops.ask(machine, group, instruction)
        if answer and stops.hit is not None:
            reached[timeline.step - answer + 1] = stops.hit
        return answer

    try:
        found = timeline.latest(hit)
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
    return position.stopped(
        at.reason,
        refocus=at.reason != "breakpoint",
        number=at.number,
        old=at.old,
        new=at.new,
        event=at.event,
        finding=at.finding,
    )


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
    at = position.standing()
    return len(at.group.stack) if at is not None else 0


class _Follower:
    """Follows the thread in focus, and stops where ``arrived`` holds."""

    def __init__(self, position: Position, at: Standing | None, arrived: Arrived) -> None:
        self.focus: Focus = position.thread
        self.arrived = arrived
        self.stops = Stops(position)
        self.gone = False
        self.last: Where | None = None
        self.coming = False
        """The thread stands at a step that has not been reported yet."""
        if at is not None:
            group = at.group
            self.last = where(group)
            self.coming = not at.waits and group is not position.timeline.group

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


def _follow(position: Position, arrived: Arrived) -> Stop:
    timeline = position.timeline
    if timeline.ended:
        return position.stopped("end")
    at = position.standing()
    if at is None and position.has_begun(position.thread.cta):
        raise DebugError(f"{position.thread} has exited; focus on another")
    stood = timeline.machine, timeline.group
    position.lock()
    follower = _Follower(position, position.standing(), arrived)
    if timeline.group is None and stood[0] is not None and stood[1] is not None:
        follower.stops.passed = place_of(stood[0], stood[1])
    timeline.leaving = follower.leaving
    try:
        reason = timeline.forward(None, follower.ask, position.catches)
    finally:
        timeline.leaving = None
    return _report(position, reason, follower.stops)


def _report(position: Position, reason: str, stops: Stops) -> Stop:
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
        return position.stopped(hit.reason, number=hit.number, old=hit.old, new=hit.new, event=hit.event)
    if reason == "hit":
        return position.stopped("step", refocus=position.standing() is None)
    return position.stopped(reason, refocus=True)
