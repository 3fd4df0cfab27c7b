"""How a session moves: instruction by instruction with a thread, to where something happens, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warpsim.debug.breakpoints import Spot, spot
from warpsim.debug.places import DebugError, Focus, Standing, holds
from warpsim.debug.standpoint import Standpoint
from warpsim.debug.stops import Stops, place_of
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.debug.records import Stop

Arrived = Callable[[Group, Instruction], bool]
Where = tuple[Any, int, int]


def step(session: Standpoint) -> Stop:
    """One instruction of the thread in focus."""
    return _follow(session, lambda group, instruction: True)


def over(session: Standpoint) -> Stop:
    """One instruction, with all of what it calls."""
    depth = _depth(session)
    return _follow(session, lambda group, instruction: len(group.stack) <= depth)


def out(session: Standpoint) -> Stop:
    """Until the function has returned."""
    depth = _depth(session)
    if depth == 0:
        raise DebugError("the kernel is the outermost function: it returns to nobody")
    return _follow(session, lambda group, instruction: len(group.stack) < depth)


def until(session: Standpoint, spots: frozenset[Spot]) -> Stop:
    """Until the thread comes to one of these places, or its function has returned."""
    depth = _depth(session)
    return _follow(session, lambda group, instruction: spot(instruction) in spots or len(group.stack) < depth)


def anywhere(session: Standpoint) -> Stop:
    """Until something happens."""
    if session.timeline.ended:
        return session.stopped("end")
    stops = Stops(session)
    return _report(session, session.timeline.forward(None, stops.ask, catch=session.stop_at_findings), stops)


def back(session: Standpoint) -> Stop:
    """To where the thread in focus was about to execute its last instruction; to the start where there was none."""
    focus, was = session.thread, session.timeline.step
    last: list[Where | None] = [None]

    def executed(machine: Machine, group: Group, instruction: Instruction) -> int:
        if not holds(machine, group, focus):
            return 0
        here = where(group)
        again = here == last[0] and instruction.traits.ending is None  # it waited there, and came again
        last[0] = here
        return 0 if again else 1

    return _go_back(session, session.timeline.latest(executed), was)


def reverse(session: Standpoint) -> Stop:
    """To the last position at which a breakpoint or a watchpoint stops; to the start where there is none."""
    was = session.timeline.step
    past: dict[int, Stops] = {}

    def struck(machine: Machine, group: Group, instruction: Instruction) -> int:
        run = id(machine.launch)
        if run not in past:
            past.clear()
            past[run] = Stops(session, counting=False)
        return past[run].ask(machine, group, instruction)

    found = session.timeline.latest(struck)
    if found is None:
        return _go_back(session, None, was)
    reached = next(iter(past.values())).struck if past else None
    session.timeline.goto(found)
    stops = Stops(session, counting=False)
    machine, group = session.timeline.machine, session.timeline.group
    if machine is not None and group is not None and stops.ask(machine, group, group.instruction) == 1:
        reached = stops.struck
    if reached is None or reached.reason == "watchpoint":
        return session.stopped("watchpoint", refocus=True)
    session.thread = reached.focus
    return session.stopped(reached.reason, number=reached.number)


def _go_back(session: Standpoint, step: int | None, was: int) -> Stop:
    """Be at a position of the past; at the start for None, where it was if the user interrupted the search."""
    timeline = session.timeline
    if step is None and timeline.cut:
        timeline.goto(was)
        return session.stopped("interrupted")
    timeline.goto(0 if step is None else step)
    return session.stopped("step", refocus=True)


def where(group: Group) -> Where:
    """The place of a group: its calls, block and step."""
    return group.stack, group.block, group.at


def _depth(session: Standpoint) -> int:
    at = session.standing()
    return len(at.group.stack) if at is not None else 0


class _Follower:
    """Goes with the thread in focus, and stops where it ``arrived``."""

    def __init__(self, session: Standpoint, at: Standing | None, arrived: Arrived) -> None:
        self.focus: Focus = session.thread
        self.arrived = arrived
        self.stops = Stops(session)
        self.gone = False
        self.last: Where | None = None
        self.coming = False
        """The thread stands where its next instruction has not been told yet."""
        if at is not None:
            group = at.group
            self.last = where(group)
            self.coming = not at.waits and group is not session.timeline.group

    def leaving(self, machine: Machine, group: Group) -> None:
        """Threads exit: maybe this one."""
        self.gone = self.gone or holds(machine, group, self.focus)

    def ask(self, machine: Machine, group: Group, instruction: Instruction) -> int:
        """Whether to stop before this step."""
        struck = self.stops.ask(machine, group, instruction)
        if struck or self.gone:
            return struck or 1
        if not holds(machine, group, self.focus):
            return 0
        here = where(group)
        if self.coming and here == self.last:
            self.coming = False
            return 0
        if here == self.last and instruction.traits.ending is None:
            return 0  # it waited for others, and comes again
        self.last, self.coming = here, False
        return int(self.arrived(group, instruction))


def _follow(session: Standpoint, arrived: Arrived) -> Stop:
    timeline = session.timeline
    if timeline.ended:
        return session.stopped("end")
    at = session.standing()
    if at is None and session.has_begun(session.thread.cta):
        raise DebugError(f"{session.thread} has exited; focus on another")
    stood = timeline.machine, timeline.group
    session.lock()
    follower = _Follower(session, session.standing(), arrived)
    if timeline.group is None and stood[0] is not None and stood[1] is not None:
        follower.stops.passed = place_of(stood[0], stood[1])
    timeline.leaving = follower.leaving
    try:
        reason = timeline.forward(None, follower.ask, catch=session.stop_at_findings)
    finally:
        timeline.leaving = None
    return _report(session, reason, follower.stops)


def _report(session: Standpoint, reason: str, stops: Stops) -> Stop:
    session.timeline.accessed = None
    if reason == "finding":
        assert session.timeline.found is not None
        finding = session.timeline.found[0]
        if finding.cta is not None and finding.warp is not None:
            session.thread = Focus(finding.cta, finding.warp, finding.lanes[0] if finding.lanes else 0)
        return session.stopped("finding", refocus=True, finding=finding)
    struck = stops.struck
    if reason == "hit" and struck is not None:
        session.thread = struck.focus
        return session.stopped(struck.reason, number=struck.number, old=struck.old, new=struck.new)
    if reason == "hit":
        return session.stopped("step", refocus=session.standing() is None)
    return session.stopped(reason, refocus=True)
