"""Decides before each step whether the launch stops there."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.debug import expressions
from warpsim.debug.breakpoints import Breakpoint, Catchpoint, Watchpoint, line_column, unknown_name
from warpsim.debug.evaluation import Scene
from warpsim.debug.position import Position, machine_of
from warpsim.debug.threads import Focus, first_of, holds, warps_in
from warpsim.debug.watching import MemoryTarget, MemoryWatch, RegisterTarget, RegisterWatch, TileTarget, TileWatch
from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.watcher import WRITE, MemoryAccess
from warpsim.program.program import Instruction


@attrs.frozen(eq=False)
class Hit:
    """A breakpoint, watchpoint or catchpoint that was hit, and the thread to focus on."""

    reason: str
    number: int | None
    focus: Focus
    old: Any = None
    new: Any = None
    event: str = ""
    finding: Finding | None = None


def place_of(machine: Machine, group: Group) -> tuple[Any, ...]:
    """A key for which threads stand where."""
    return machine.number_of(group), group.stack, group.block, group.at


class Stops:
    """The breakpoints, watchpoints and catchpoints during one motion. ``counting``: hits count; off when
    searching the past.
    """

    def __init__(self, position: Position, *, counting: bool = True) -> None:
        self.position, self.counting = position, counting
        self.hit: Hit | None = None
        self.passed: tuple[Any, ...] | None = None
        """The place at which the launch has already stopped for this group."""
        self._marks: dict[int, list[Breakpoint]] = {}
        self._registers: list[tuple[Watchpoint, RegisterWatch]] = []
        self._memory: list[tuple[Watchpoint, MemoryWatch]] = []
        self._tiles: list[tuple[Watchpoint, TileWatch]] = []
        self._read: tuple[Watchpoint, Focus] | None = None
        self._events: list[tuple[Catchpoint | None, Focus | None, str | Finding]] = []
        self._last: Focus | None = None
        self._conditions: dict[int, expressions.Node] = {}
        self._lacking: dict[tuple[int, str], str | None] = {}
        """By breakpoint and function: the first name in the condition that the function lacks."""
        enabled = [point for point in position.breakpoints.values() if point.enabled]
        for point in enabled:
            if isinstance(point, Breakpoint):
                for line in point.lines:
                    self._marks.setdefault(line, []).append(point)
                if point.condition is not None:
                    self._conditions[point.number] = expressions.parse(point.condition)
            elif isinstance(point, Watchpoint):
                self._watch(point)
        position.timeline.accessed = self._accessed if any(point.read for point, _ in self._memory) else None
        timeline = position.timeline
        caught = any(isinstance(point, Catchpoint) for point in enabled)
        timeline.occurred = self._occurred if caught or (position.stop_at_findings and not counting) else None
        if timeline.machine is not None and timeline.group is not None:
            self._changes(timeline.machine, timeline.group, timeline.group.instruction)

    def _watch(self, point: Watchpoint) -> None:
        """Keep the value that is watched."""
        target = point.target
        if isinstance(target, RegisterTarget):
            self._registers.append((point, RegisterWatch(target)))
        elif isinstance(target, TileTarget):
            self._tiles.append((point, TileWatch(target, self.position.timeline.machines())))
        elif isinstance(target, MemoryTarget):
            machine = machine_of(self.position.timeline, target.focus)
            scene = Scene(self.position.scene.launch, machine, None, target.focus)
            self._memory.append((point, MemoryWatch(target, scene)))

    def ask(self, machine: Machine, group: Group, instruction: Instruction) -> int:
        """Return 0 to continue, 1 to stop here, 2 to stop for the step just executed."""
        if self._registers or self._memory or self._tiles:
            self.hit = self._changes(machine, group, instruction)
            if self.hit is not None:
                return 2
        if self._events:
            self.hit = self._happened(machine, group)
            return 2
        if not (self._registers or self._memory or self._tiles):
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

    def _happened(self, machine: Machine, group: Group) -> Hit:
        """Describe the events of a step; the first one decides the focus."""
        events, self._events = self._events, []
        for caught in {id(p): p for p, _, _ in events if p is not None and self.counting}.values():
            caught.hits += 1
        point, focus, text = events[0]
        number, who = None if point is None else point.number, focus or first_of(machine, group)
        if isinstance(text, Finding):
            return Hit("finding", number, who, finding=text)
        return Hit("catchpoint", number, who, event="; ".join(str(e) for _, _, e in events))

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
        if self.counting:
            point.hits += 1
            if point.ignore > 0:
                point.ignore -= 1
                return False
            if point.temporary:
                self.position.breakpoints.pop(point.number, None)
        self.hit = Hit("breakpoint", point.number, focus)
        return True

    def _where(self, point: Breakpoint, machine: Machine, group: Group, focus: Focus) -> Focus | None:
        """The thread of a warp for which a condition holds: the one in focus, or the first."""
        condition, function = self._conditions[point.number], group.plan.function
        key = point.number, function.name
        if key not in self._lacking:
            self._lacking[key] = unknown_name(condition, function, machine.launch.plan.program)
        if self._lacking[key] is not None:
            return None
        scene = Scene(machine.launch, machine, group, focus)
        value = scene.evaluate(condition)
        truth = np.broadcast_to(np.asarray(value.data != 0, np.bool_), 32) & scene.lanes()
        if not truth.any():
            return None
        return focus if truth[focus.lane] else attrs.evolve(focus, lane=int(np.flatnonzero(truth)[0]))

    def _changes(self, machine: Machine, group: Group, instruction: Instruction) -> Hit | None:
        who, self._last = self._last, first_of(machine, group)
        found: Hit | None = None
        read, self._read = self._read, None
        if read is not None:
            found = Hit("watchpoint", read[0].number, read[1])
        for point, watch in self._registers:
            change = watch.changed(machine, group, instruction)
            if change is not None and found is None and who is not None:
                found = Hit("watchpoint", point.number, who, *change)
        for point, tile in self._tiles:
            seen = tile.changed(machine, group, instruction)
            if seen is not None and found is None and who is not None:
                found = Hit("watchpoint", point.number, who, *seen)
        scene = Scene(machine.launch, machine, group, self._last)
        for point, memory in self._memory:
            change = memory.changed(machine, scene)
            if change is not None and point.write and found is None:
                found = Hit("watchpoint", point.number, who or self._last, *change)
        if found is not None and self.counting:
            hit = self.position.breakpoints.get(found.number or 0)
            if hit is not None:
                hit.hits += 1
        return found

    def _accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        if access.kind == WRITE:
            return
        for point, watch in self._memory:
            if point.read and watch.touches(machine, group, access):
                self._read = point, first_of(machine, group)
