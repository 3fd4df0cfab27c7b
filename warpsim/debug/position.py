"""The position of a session: where the launch stands, the thread in focus, and what stops the launch."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.debug.breakpoints import Catchpoint, Point
from warpsim.debug.errors import DebugError
from warpsim.debug.evaluation import Context
from warpsim.debug.symbols import symbols_of
from warpsim.debug.threads import (
    Focus,
    GroupState,
    activation,
    first_of,
    group_states,
    holds,
    is_written,
    places,
    ranges,
    warps_in,
)
from warpsim.debug.timeline import Timeline
from warpsim.debug.values import Value
from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.values import Array
from warpsim.program.program import Instruction, Program, line_column
from warpsim.records import frozen


@frozen
class Stop:
    """Where a session stopped, and why.

    ``reason`` is ``step``, ``breakpoint``, ``watchpoint``, ``catchpoint``, ``finding``, ``end`` or ``interrupted``.
    ``step`` counts the steps begun so far. ``line``, ``source`` and ``instruction`` give the PTX line, the CUDA line
    and the opcode of the next instruction. ``number`` is that of the breakpoint, watchpoint or catchpoint; ``old`` and
    ``new`` are the watched values; ``event`` describes the event caught.
    """

    reason: str
    step: int
    line: int | None = None
    source: tuple[str, int] | None = None
    instruction: str | None = None
    focus: Focus | None = None
    finding: Finding | None = None
    number: int | None = None
    old: ArrayLike | None = attrs.field(default=None, eq=False)
    new: ArrayLike | None = attrs.field(default=None, eq=False)
    event: str = ""


@frozen
class Call:
    """A frame of the call stack. That of a function which was ``inlined`` has the PTX line of the frame around it."""

    function: str
    line: int
    source: tuple[str, int] | None
    text: str
    inlined: bool = False


@frozen
class WarpState:
    """Lanes of one warp that stand together: where they stand, and what they do or wait for."""

    cta: tuple[int, int, int]
    warp: int
    lanes: str
    line: int
    instruction: str
    function: str
    state: str


def warps_of(machines: Iterable[Machine]) -> tuple[WarpState, ...]:
    """List where the warps of the given batches stand."""
    found = []
    for machine in machines:
        for at in group_states(machine):
            name, instruction = at.group.plan.function.name, at.instruction
            for focus in warps_in(at.machine, at.group):
                lanes = ranges(np.flatnonzero(places(machine, at.group, focus) >= 0))
                line, text = instruction.span.line, instruction.text
                found.append(WarpState(focus.cta, focus.warp, lanes, line, text, name, at.state))
    return tuple(sorted(found, key=lambda w: (w.cta[::-1], w.warp, int(w.lanes.split("-")[0].split(",")[0]))))


_PRINTED = re.compile(r"\$(\$?)([0-9]*)")


class Convenience:
    """Values that the user keeps: those printed (``$1``, ``$``, ``$$``, ``$$3``) and those given a name (``$i``)."""

    def __init__(self) -> None:
        self.history: list[Value] = []
        self.named: dict[str, Value] = {}

    def keep(self, value: Value) -> None:
        """Append a printed value to the history."""
        self.history.append(value)

    def name(self, name: str, value: Value) -> None:
        """Give a convenience variable a value.

        Raises:
            DebugError: this is not the name of one.
        """
        if not re.fullmatch(r"\$[A-Za-z_]\w*", name) or name == "$pc":
            raise DebugError(f"{name} cannot be changed: a convenience variable is a $ and a name, such as $i")
        self.named[name] = value

    def find(self, name: str) -> Value | None:
        """The value of ``$name``; of ``$3``, the third of the history; of ``$``, ``$$`` and ``$$3``, the last, the one
        before it, and the third before it. None if there is none."""
        found = _PRINTED.fullmatch(name)
        if found is None:
            return self.named.get(name)
        back, digits = found.groups()
        last = len(self.history)
        number = last - int(digits or 1) if back else int(digits or last)
        return self.history[number - 1] if 1 <= number <= last else None


class Position:
    """Where a launch stands, and the thread in focus: what motion, searches and changes work on."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.scheduler_locking = "step"
        self.stop_at_findings = True
        self.breakpoints: dict[int, Point] = {}
        self.kept = Convenience()
        """The values that the user keeps."""
        self.thread = Focus((0, 0, 0), 0, 0)
        """The thread in focus."""
        self.frame = 0
        """The selected frame; 0 is the innermost."""
        timeline.forward(0)
        self.stop = self.stopped("step", refocus=True)

    def stopped(self, reason: str, *, refocus: bool = False, **more: Any) -> Stop:
        """Record and return the current position as a `Stop`. ``refocus`` moves the focus to the thread that executes
        next."""
        timeline, self.frame = self.timeline, 0
        machine, group = timeline.machine, timeline.group
        if timeline.ended:
            findings = timeline.error.findings if timeline.error is not None else ()
            stop = Stop("end", timeline.step, finding=next(iter(findings), None))
        elif machine is None or group is None:
            found = more.get("finding")
            line, source, text = (found.line, found.source, found.instruction) if found else (None, None, None)
            stop = Stop(reason, timeline.step, line, source, text, self.thread, **more)
        else:
            if refocus and not holds(machine, group, self.thread):
                self.thread = first_of(machine, group)
            at = self.group_state()
            next_one = at.instruction if at is not None else group.instruction
            stop = Stop(reason, timeline.step, next_one.span.line, next_one.source, next_one.text, self.thread, **more)
        self._reached(stop)
        self.stop = stop
        return stop

    def _reached(self, stop: Stop) -> None:
        """Called at each stop."""

    @property
    def who(self) -> tuple[int, int] | None:
        """The CTA and warp in focus (linear); None if several warps may move at once."""
        state = self.timeline.state
        return (state.number_of(self.thread.cta), self.thread.warp) if state.settings.by_warp else None

    def group_state(self) -> GroupState | None:
        """Where the thread in focus stands; None if it is not running."""
        return group_state_of(self.timeline, self.thread)

    @property
    def context(self) -> Context:
        """The thread in focus and its selected frame, for evaluating expressions."""
        return attrs.evolve(context_of(self.timeline, self.thread, self.frame), kept=self.kept.find)

    @property
    def program(self) -> Program:
        """The module."""
        return self.timeline.state.plan.program

    @functools.cached_property
    def code(self) -> list[Instruction]:
        """Every instruction of the module, in the order of the text."""
        return sorted((i for f in self.program.functions.values() for i in f.code), key=line_column)

    @property
    def function(self) -> str | None:
        """The name of the function of the selected frame."""
        group = self.context.group
        return None if group is None else group.plan.function.name

    @property
    def registers(self) -> Mapping[str, Array]:
        """The registers of the selected function as arrays ``[32]`` over the warp, masked for lanes that stand
        elsewhere. Registers never written are left out."""
        context = self.context
        group = context.group
        if group is None:
            return {}
        mask = ~context.lanes()
        return {
            register.name: np.ma.MaskedArray(context.held(register), mask)
            for register in group.plan.function.registers
            if is_written(group, register.index) and not register.hidden
        }

    def catcher(self, what: str) -> Catchpoint | None:
        """The enabled catchpoint for an event or a rule, if there is one."""
        points = (p for p in self.breakpoints.values() if isinstance(p, Catchpoint) and p.enabled)
        return next((p for p in points if p.what == what), None)

    def catches(self, finding: Finding) -> bool:
        """Whether a finding stops the launch."""
        return self.stop_at_findings or self.catcher(finding.rule) is not None

    def has_begun(self, cta: tuple[int, int, int]) -> bool:
        """Whether a CTA has begun. CTAs begin in order of their linear number."""
        state = self.timeline.state
        number = state.number_of(cta)
        if any(number in batch.ctas for batch in state.batches):
            return True
        cx, cy, cz = state.cluster
        return number < state.waves * cx * cy * cz

    def lock(self) -> None:
        """Prefer the warp in focus, or no warp, as ``scheduler_locking`` says."""
        state = self.timeline.state
        free = self.scheduler_locking == "off" or state.schedule is not None
        self.timeline.prefer(None if free else (state.number_of(self.thread.cta), self.thread.warp))


def group_state_of(timeline: Timeline, focus: Focus) -> GroupState | None:
    """Where a thread stands; None if it is not running."""
    machine = timeline.machine_of(focus)
    return (
        None if machine is None else next((at for at in group_states(machine) if holds(machine, at.group, focus)), None)
    )


def frames_of(at: GroupState, program: Program) -> list[tuple[Call, int, int]]:
    """The call stack of threads that stand together, innermost first: each call, the activation that it is in, and how many
    inlined functions that one is executing within it."""
    symbols, found = symbols_of(program), []
    active = [(at.group.plan, at.instruction)]
    active += [(plan, plan.blocks[block].instructions[-1]) for plan, block, _, _ in reversed(at.group.stack)]
    for level, (plan, instruction) in enumerate(active):
        line, source = instruction.span.line, instruction.source
        text, depth = program.lines[line - 1].strip(), 0
        for depth, (name, caller) in enumerate(symbols.inlined(plan.function, instruction), 1):
            found.append((Call(name, line, source, text, inlined=True), level, depth - 1))
            source = caller
        found.append((Call(plan.function.name, line, source, text), level, depth))
    return found


def context_of(timeline: Timeline, focus: Focus, frame: int = 0) -> Context:
    """A thread and one of its frames, for evaluating expressions."""
    at = group_state_of(timeline, focus)
    if at is None:
        return Context(timeline.state, timeline.machine_of(focus), None, focus)
    _, level, depth = frames_of(at, timeline.state.plan.program)[frame] if frame else (None, 0, 0)
    return Context(timeline.state, at.machine, activation(at.machine, at.group, level), focus, level, depth)
