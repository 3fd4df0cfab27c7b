"""Measures where a launch's host time goes: each step, machine code, and the checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from warpsim.isa.spec import Scope
from warpsim.machine import engine
from warpsim.machine.hooks import Listener
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction, Program
from warpsim.report.profile import LineTime, Timing

PROVIDED = frozenset({"memory", "active", "report"})
"""Ports that machine code provides to instructions."""


class Code(engine.Compiled, Protocol):
    """Machine code of a launch (`warpsim.native.tiering.engine.CompiledEngine`), and why it does not cover more."""

    compiling: float

    def reason(self, instruction: Instruction) -> str | None:
        """Why compiling an instruction failed, if it was tried."""


class StopWatch:
    """Attributes every moment of a launch to one account: a check, machine code, compilation, or a step."""

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

    def run(
        self,
        state: LaunchState,
        watchers: Sequence[Listener],
        stdout: Callable[[str], object],
        progress: engine.Progress | None,
        code: Code | None,
        attended: engine.Attended,
    ) -> None:
        """Run a launch and measure it; the grids that it launches count as a whole."""
        self.code, self.program, began = code, state.plan.program, time.perf_counter()
        seeing: list[Listener] = [*(_Timed(watcher, self) for watcher in watchers), _Steps(self)]
        try:
            engine.run(
                state, seeing, stdout, progress, None if code is None else _TimedCode(code, self), attended=attended
            )
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
        """Start a step."""
        self.stop()
        self._present, self._apart = self.line(instruction), 0.0
        self._since = time.perf_counter()

    def stop(self) -> None:
        """End the step."""
        if self._since is not None and self._present is not None:
            self._present.interpreted += time.perf_counter() - self._since - self._apart
        self._since = None

    def checked(self, notify: Callable[..., object], arguments: tuple[object, ...]) -> object:
        """Measure a watcher's event handler, including events that it causes."""
        if self._inside:
            return notify(*arguments)
        self._inside, began = True, time.perf_counter()
        try:
            return notify(*arguments)
        finally:
            spent, self._inside = time.perf_counter() - began, False
            self.checks += spent
            self._apart += spent
            if self._since is not None and self._present is not None:
                self._present.checks += spent

    def timing(self) -> Timing:
        """The measurements, once the launch is over."""
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
        why = "" if self.code is not None else "the interpreter was selected, or the extra jit is not installed"
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
        if self.code is not None and not self.code.runs_steps:
            return "a watcher follows single steps, or they are in a random order"
        if form.scope is Scope.SYNC:
            return "barrier: interpreted between compiled regions"
        if form.scope is Scope.WARPGROUP:
            return "warpgroup instruction: interpreted between compiled regions"
        ports = form.ports - PROVIDED
        if ports:
            return f"needs {', '.join(sorted(ports))}: interpreted between compiled regions"
        reason = None if self.code is None else self.code.reason(instruction)
        return reason or "interpreted before compiling it paid off"


class _Steps(Watcher):
    """Marks the starts and ends of steps."""

    def __init__(self, watch: StopWatch) -> None:
        self._watch = watch

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Start a step."""
        self._watch.start(instruction)

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """End a step."""
        self._watch.stop()

    def batch_ended(self, machine: Machine) -> None:
        """End a step."""
        self._watch.stop()


class _Timed:
    """A watcher whose time is measured."""

    def __init__(self, watcher: Listener, watch: StopWatch) -> None:
        self._watcher, self._watch = watcher, watch
        self.events, self.shadows = watcher.events, watcher.shadows
        self.compiled, self.apart = watcher.compiled, watcher.apart

    def __getattr__(self, name: str) -> Callable[..., object]:
        notify, watch = getattr(self._watcher, name), self._watch
        return lambda *arguments: watch.checked(notify, arguments)


class _TimedCode:
    """Machine code whose time is measured."""

    def __init__(self, code: Code, watch: StopWatch) -> None:
        self._code, self._watch = code, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._code, name)

    def advance(
        self, machine: Machine, group: Group, limit: tuple[int, tuple[int, ...]] | None, room: int | None = None
    ) -> bool:
        """Run the machine code for a place, on the account of the line where it starts."""
        return self._timed(group, lambda: self._code.advance(machine, group, limit, room))

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run a whole batch, on the same account."""
        return self._timed(group, lambda: self._code.run_through(machine, group))

    def _timed(self, group: Group, do: Callable[[], bool]) -> bool:
        watch, code, instruction = self._watch, self._code, group.instruction
        watch.stop()
        compiled, checks, began = code.compiling, watch.checks, time.perf_counter()
        done = do()
        spent = time.perf_counter() - began - (watch.checks - checks)
        compiled = code.compiling - compiled
        watch.compile += compiled
        if done:
            watch.line(instruction).native += max(spent - compiled, 0.0)
        return done
