"""Asked before each step while a launch runs: is this where it stops?"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.debug import expressions
from warpsim.debug.breakpoints import Breakpoint, Watchpoint, spot
from warpsim.debug.evaluation import Scene
from warpsim.debug.places import Focus, column_of, first_of, holds
from warpsim.debug.standpoint import Standpoint
from warpsim.debug.watching import MemoryTarget, MemoryWatch, RegisterTarget, RegisterWatch
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.window import WRITE
from warpsim.program.program import Instruction


@attrs.frozen(eq=False)
class Struck:
    """A breakpoint or watchpoint at which a launch stops, and whom it looks at then."""

    reason: str
    number: int
    focus: Focus
    old: Any = None
    new: Any = None


def place_of(machine: Machine, group: Group) -> tuple[Any, ...]:
    """Who stands where."""
    return machine.number_of(group), group.stack, group.block, group.at


class Stops:
    """The breakpoints and watchpoints of a session for one motion; ``counting`` unless it is a look into the past."""

    def __init__(self, session: Standpoint, *, counting: bool = True) -> None:
        self.session, self.counting = session, counting
        self.struck: Struck | None = None
        self.passed: tuple[Any, ...] | None = None
        """Where somebody stands for whom the launch has stopped already."""
        self._marks: dict[int, list[Breakpoint]] = {}
        self._registers: list[tuple[Watchpoint, RegisterWatch]] = []
        self._memory: list[tuple[Watchpoint, MemoryWatch]] = []
        self._read: tuple[Watchpoint, Focus] | None = None
        self._last: Focus | None = None
        self._conditions: dict[int, expressions.Node] = {}
        scene = session.scene
        for point in session.breakpoints.values():
            if not point.enabled:
                continue
            if isinstance(point, Breakpoint):
                for line in point.lines:
                    self._marks.setdefault(line, []).append(point)
                if point.condition is not None:
                    self._conditions[point.number] = expressions.parse(point.condition)
            elif isinstance(point.target, RegisterTarget):
                self._registers.append((point, RegisterWatch(point.target)))
            elif isinstance(point.target, MemoryTarget):
                watch_scene = Scene(scene.launch, _machine_of(session, point.target.focus), None, point.target.focus)
                self._memory.append((point, MemoryWatch(point.target, watch_scene)))
        session.timeline.accessed = self._accessed if any(point.read for point, _ in self._memory) else None
        timeline = session.timeline
        if timeline.machine is not None and timeline.group is not None:
            self._changes(timeline.machine, timeline.group, timeline.group.instruction)

    def ask(self, machine: Machine, group: Group, instruction: Instruction) -> int:
        """0: go on; 1: stop here; 2: the step before this position is meant."""
        if self._registers or self._memory:
            self.struck = self._changes(machine, group, instruction)
            if self.struck is not None:
                return 2
        points = self._marks.get(instruction.span.line)
        if points is not None and not self._passes(machine, group):
            place = spot(instruction)
            for point in points:
                if place in point.spots and self._holds(point, machine, group):
                    return 1
        return 0

    def _passes(self, machine: Machine, group: Group) -> bool:
        """Whether the launch stood here already: another warp went first."""
        if self.passed is None or self.passed != place_of(machine, group):
            return False
        self.passed = None
        return True

    def _holds(self, point: Breakpoint, machine: Machine, group: Group) -> bool:
        focus = self.session.thread if holds(machine, group, self.session.thread) else first_of(machine, group)
        if point.number in self._conditions:
            scene = Scene(machine.launch, machine, group, focus)
            value = scene.evaluate(self._conditions[point.number])
            truth = np.broadcast_to(np.asarray(value.data != 0, np.bool_), 32) & scene.lanes()
            if not truth.any():
                return False
            if not truth[focus.lane]:
                focus = attrs.evolve(focus, lane=int(np.flatnonzero(truth)[0]))
        if self.counting:
            point.hits += 1
            if point.ignore > 0:
                point.ignore -= 1
                return False
            if point.temporary:
                self.session.breakpoints.pop(point.number, None)
        self.struck = Struck("breakpoint", point.number, focus)
        return True

    def _changes(self, machine: Machine, group: Group, instruction: Instruction) -> Struck | None:
        who, self._last = self._last, first_of(machine, group)
        found: Struck | None = None
        read, self._read = self._read, None
        if read is not None:
            found = Struck("watchpoint", read[0].number, read[1])
        for point, watch in self._registers:
            change = watch.changed(machine, group, instruction)
            if change is not None and found is None and who is not None:
                found = Struck("watchpoint", point.number, who, *change)
        scene = Scene(machine.launch, machine, group, self._last)
        for point, memory in self._memory:
            change = memory.changed(machine, scene)
            if change is not None and point.write and found is None:
                found = Struck("watchpoint", point.number, who or self._last, *change)
        if found is not None and self.counting:
            hit = self.session.breakpoints.get(found.number)
            if hit is not None:
                hit.hits += 1
        return found

    def _accessed(
        self, machine: Machine, group: Group, access: int, space: str, place: Any, nbytes: int, where: Any, active: Any
    ) -> None:
        if access == WRITE:
            return
        for point, watch in self._memory:
            if point.read and watch.touches(machine, space, place, nbytes, where, active, group.selection.shape):
                self._read = point, first_of(machine, group)


def _machine_of(session: Standpoint, focus: Focus) -> Machine | None:
    return next((m for m in session.timeline.machines() if column_of(m, focus.cta) is not None), None)
