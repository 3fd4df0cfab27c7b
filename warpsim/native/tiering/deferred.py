"""Stands for the engine of a launch that did not ask for one: what it needs is imported once launches have taken a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.isa.traits import Matrix
from warpsim.native.tiering.cost import LAUNCHES, interpreted

if TYPE_CHECKING:
    from warpsim.isa.spec import Body
    from warpsim.machine.engine import Limit
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import LaunchState
    from warpsim.native.tiering.engine import CompiledEngine
    from warpsim.program.program import Instruction


class DeferredEngine:
    """Stands for the engine that ``make`` returns (None: there is none) until it is worth its import."""

    def __init__(self, make: Callable[[], CompiledEngine | None], *, runs_steps: bool) -> None:
        self.runs_steps = runs_steps
        self._make = make
        self._interpreted = interpreted()
        self._engine: CompiledEngine | None = None
        self._began = time.thread_time()
        self._look = time.perf_counter() + LAUNCHES - self._interpreted.launches
        """When to read the thread's CPU time next: it is dearer to read than the clock, and never ahead of it."""

    def _wanted(self) -> CompiledEngine | None:
        if self._engine is None and time.perf_counter() > self._look:
            left = LAUNCHES - self._interpreted.launches - (time.thread_time() - self._began)
            self._look += max(left, 0.0)
            if left < 0.0:
                self._import()
        return self._engine

    def _import(self) -> CompiledEngine | None:
        self._engine = self._make()
        if self._engine is None:
            self._look = math.inf
        else:  # asked at every block: without a call between
            self.advance, self.until = self._engine.advance, self._engine.until  # type: ignore[method-assign]
        return self._engine

    def advance(self, machine: Machine, group: Group, limit: Limit, room: int | None = None) -> bool:
        """Run the region that begins where a group stands; False if it did not run."""
        engine = self._wanted()
        return engine is not None and engine.advance(machine, group, limit, room)

    @property
    def followed(self) -> int:
        """How many steps of the lane that it follows the last region has executed."""
        return 0 if self._engine is None else self._engine.followed

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which code may begin, else ``last``."""
        return last

    def joined(self, state: LaunchState) -> int:
        """How many waves may begin as one batch."""
        engine = self._wanted()
        return 1 if engine is None else engine.joined(state)

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run a batch to its end."""
        assert self._engine is not None
        return self._engine.run_through(machine, group)

    @property
    def bodies(self) -> DeferredEngine:
        """The semantics to use in place of the forms' own."""
        return self

    def of(self, instruction: Instruction) -> Body:
        """The function that executes an instruction. It is bound for the whole launch, so a product imports the engine
        at once."""
        engine = None
        if instruction.traits.matrix is Matrix.MULTIPLY:
            engine = self._engine or self._import()
        return instruction.form.function if engine is None else engine.bodies.of(instruction)

    @property
    def compiling(self) -> float:
        """Seconds that compiling has taken in this launch."""
        return 0.0 if self._engine is None else self._engine.compiling

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction has no machine code, where compiling it was tried."""
        return None if self._engine is None else self._engine.reason(instruction)

    def over(self) -> None:
        """The launch is over."""
        if self._engine is None:
            self._interpreted.launches += time.thread_time() - self._began
        else:
            self._engine.over()
