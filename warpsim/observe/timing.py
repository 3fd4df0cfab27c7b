"""Takes the time of a launch: of each step, of each piece of machine code, and of the rules that look on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from warpsim.isa.spec import Scope
from warpsim.machine import engine
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.window import Watcher
from warpsim.program.program import Instruction, Program
from warpsim.report.timing import LineTime, Timing

UNITS = frozenset({"memory", "active", "report"})
"""Ports of instructions that machine code has."""


class Code(Protocol):
    """Machine code for a launch (`warpsim.native.engine.Compiled`), and what is known of why it has not more."""

    compiling: float

    def advance(self, machine: Machine, group: Group, limit: Any) -> bool:
        """Run what there is for a place."""

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction was left to the interpreter, where that was tried."""


class StopWatch:
    """Every moment of a launch belongs to one account: a rule that looks on, machine code, compiling, or a step."""

    def __init__(self) -> None:
        self.load = self.bind = 0.0
        self.compile = self.checks = self.total = 0.0
        self.lines: dict[int, tuple[Instruction, LineTime]] = {}
        self.code: Code | None = None
        self.program: Program | None = None
        self._present: LineTime | None = None
        self._since: float | None = None
        self._apart = 0.0
        self._inside = False

    def run(self, state: LaunchState, watchers: Sequence[Any], stdout: Any, progress: Any, code: Any) -> None:
        """Run a launch with its times taken."""
        self.code, self.program, began = code, state.plan.program, time.perf_counter()
        seeing: list[Any] = [*(_Timed(watcher, self) for watcher in watchers), _Steps(self)]
        try:
            engine.run(state, seeing, stdout, progress, None if code is None else _TimedCode(code, self))
        finally:
            self.total += time.perf_counter() - began

    def line(self, instruction: Instruction) -> LineTime:
        """The account of an instruction."""
        found = self.lines.get(id(instruction))
        if found is None:
            number, text = instruction.span.line, self.program.lines if self.program is not None else ()
            shown = text[number - 1].strip() if 0 < number <= len(text) else instruction.text
            found = self.lines[id(instruction)] = instruction, LineTime(number, shown)
        return found[1]

    def start(self, instruction: Instruction) -> None:
        """A step begins."""
        self.stop()
        self._present, self._apart = self.line(instruction), 0.0
        self._since = time.perf_counter()

    def stop(self) -> None:
        """What comes now is not the time of the step before."""
        if self._since is not None and self._present is not None:
            self._present.interpreted += time.perf_counter() - self._since - self._apart
        self._since = None

    def checked(self, told: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What a watcher does; what it makes the machine tell on the way is its time, too."""
        if self._inside:
            return told(*arguments)
        self._inside, began = True, time.perf_counter()
        try:
            return told(*arguments)
        finally:
            spent, self._inside = time.perf_counter() - began, False
            self.checks += spent
            self._apart += spent
            if self._since is not None and self._present is not None:
                self._present.checks += spent

    def timing(self) -> Timing:
        """What it says once the launch is over."""
        native = sum(line.native for _, line in self.lines.values())
        interpreted = sum(line.interpreted for _, line in self.lines.values())
        lines: dict[int, LineTime] = {}
        for instruction, one in self.lines.values():
            line = lines.setdefault(one.line, LineTime(one.line, one.text))
            line.interpreted += one.interpreted
            line.native += one.native
            line.checks += one.checks
            if self.code is not None and one.interpreted > one.native:
                line.why = line.why or self._why(instruction)
        why = "" if self.code is not None else "the interpreter was asked for, or the extra jit is not installed"
        rest = self.total - self.compile - native - interpreted - self.checks
        return Timing(
            self.load,
            self.bind,
            self.compile,
            native,
            interpreted,
            self.checks,
            max(rest, 0.0),
            why,
            tuple(lines[number] for number in sorted(lines)),
        )

    def _why(self, instruction: Instruction) -> str:
        form = instruction.form
        if form.scope is Scope.SYNC:
            return "a barrier: between units"
        if form.scope is Scope.WARPGROUP:
            return "of four warps: between units"
        ports = form.ports - UNITS
        if ports:
            return f"needs {', '.join(sorted(ports))}: between units"
        reason = None if self.code is None else self.code.reason(instruction)
        return reason or "before it paid to compile it"


class _Steps(Watcher):
    """Tells when steps begin and end."""

    def __init__(self, watch: StopWatch) -> None:
        self._watch = watch

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """One begins."""
        self._watch.start(instruction)

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """One ends."""
        self._watch.stop()

    def batch_ended(self, machine: Machine) -> None:
        """Likewise."""
        self._watch.stop()


class _Timed:
    """A watcher whose time is taken."""

    def __init__(self, watcher: Any, watch: StopWatch) -> None:
        self._watcher, self._watch = watcher, watch
        self.events: tuple[str, ...] = watcher.events

    def __getattr__(self, name: str) -> Callable[..., Any]:
        told, watch = getattr(self._watcher, name), self._watch
        return lambda *arguments: watch.checked(told, arguments)


class _TimedCode:
    """Machine code whose time is taken."""

    def __init__(self, code: Any, watch: StopWatch) -> None:
        self._code, self._watch = code, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._code, name)

    def advance(self, machine: Machine, group: Group, limit: Any) -> bool:
        """Run what there is, for the account of the line where it begins."""
        watch, code, instruction = self._watch, self._code, group.instruction
        watch.stop()
        compiled, checks, began = code.compiling, watch.checks, time.perf_counter()
        done: bool = code.advance(machine, group, limit)
        spent = time.perf_counter() - began - (watch.checks - checks)
        compiled = code.compiling - compiled
        watch.compile += compiled
        if done:
            watch.line(instruction).native += max(spent - compiled, 0.0)
        return done


__all__ = ["StopWatch"]
