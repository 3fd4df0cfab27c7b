"""Read-only views of the place where a launch stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpsim.debug import expressions, waiting
from warpsim.debug.errors import number, text
from warpsim.debug.evaluation import Scene
from warpsim.debug.matrices import Matrix, matrix_at, nearest_matrix
from warpsim.debug.places import Focus, Standing, activation, chosen_focus, column_of, holds, is_written
from warpsim.debug.places import standing as everyone
from warpsim.debug.records import Call, Stop, WarpState, warps_of
from warpsim.debug.timeline import Timeline
from warpsim.debug.waiting import BarrierState, InFlight, MbarrierState
from warpsim.machine.machine import Machine
from warpsim.machine.values import Array
from warpsim.program.program import Instruction


class Views:
    """Values, threads, barriers and operations in flight. Nothing here moves or changes the launch."""

    timeline: Timeline
    thread: Focus
    """The thread in focus."""
    frame: int
    """The selected frame; 0 is the innermost."""
    stop: Stop

    def standing(self, focus: Focus | None = None) -> Standing | None:
        """Where a thread stands; None if it is not running."""
        focus = self.thread if focus is None else focus
        for machine in self.timeline.machines():
            if column_of(machine, focus.cta) is not None:
                return next((at for at in everyone(machine) if holds(machine, at.group, focus)), None)
        return None

    @property
    def scene(self) -> Scene:
        """The thread in focus, for evaluating expressions."""
        at = self.standing()
        if at is None:
            return Scene(self.timeline.state, machine_of(self.timeline, self.thread), None, self.thread)
        group = activation(at.machine, at.group, self.frame)
        return Scene(self.timeline.state, at.machine, group, self.thread)

    @property
    def instruction(self) -> Instruction | None:
        """The instruction at which the thread in focus stands."""
        at = self.standing()
        return at.instruction if at is not None else None

    def scene_of(self, timeline: Timeline, focus: Focus, frame: int = 0) -> Scene:
        """The same thread and frame in a timeline that reaches the current position again."""
        machine = machine_of(timeline, focus)
        groups = (
            [at.group for at in everyone(machine) if holds(machine, at.group, focus)] if machine is not None else []
        )
        if machine is None or not groups:
            return Scene(timeline.state, machine, None, focus)
        return Scene(timeline.state, machine, activation(machine, groups[0], frame), focus)

    @property
    def _function(self) -> str | None:
        at = self.standing()
        return activation(at.machine, at.group, self.frame).plan.function.name if at is not None else None

    # ---- what --------------------------------------------------------------------------------

    @property
    def registers(self) -> Mapping[str, Array]:
        """The registers of the selected function as arrays ``[32]`` over the warp, masked for lanes that stand
        elsewhere. Registers never written are left out.
        """
        scene = self.scene
        group = scene.group
        if group is None:
            return {}
        mask = ~scene.lanes()
        return {
            register.name: np.ma.MaskedArray(scene.held(register), mask)
            for register in group.plan.function.registers
            if is_written(group, register.index) and not register.hidden
        }

    def evaluate(self, text: str) -> Any:
        """Evaluate an expression for the thread in focus; the grammar is that of `warpsim.debug.expressions`.

        A value that differs by lane is an array ``[32]``, masked for lanes that stand elsewhere.
        """
        scene = self.scene
        return scene.result(scene.evaluate(expressions.parse(text)))

    def memory(self, space: str, address: int, nbytes: int, cta: Any = None, thread: int | None = None) -> bytes:
        """Read bytes of a state space, of the CTA and thread in focus unless others are given."""
        chosen = None if thread is None else number("thread", thread)
        warp, lane = (None, None) if chosen is None else (chosen >> 5, chosen & 31)
        scene = self.scene_of(self.timeline, chosen_focus(self.timeline.state, self.thread, cta, warp, lane))
        return scene.place(text("space", space), number("address", address)).read(number("nbytes", nbytes))

    def where(self) -> tuple[Call, ...]:
        """The call stack of the thread in focus, innermost first."""
        at = self.standing()
        if at is None:
            return ()
        lines = self.timeline.state.plan.program.lines
        calls = [(at.group.plan.function.name, at.instruction)]
        for plan, block, _, _ in reversed(at.group.stack):
            calls.append((plan.function.name, plan.blocks[block].instructions[-1]))
        return tuple(Call(name, i.span.line, i.source, lines[i.span.line - 1].strip()) for name, i in calls)

    def warps(self) -> tuple[WarpState, ...]:
        """Where the warps of the running CTAs stand: one entry for lanes of a warp that stand together."""
        return warps_of(self.timeline.machines())

    def matrix(self, operand: str) -> Matrix:
        """An operand (``a``, ``b``, ``c``, ``d``, ``e``) of the current matrix instruction, or of the last one before
        it in the code.

        Gives the values and the owner of each element. A and B of wgmma are read through their descriptors.
        """
        scene = self.scene
        return matrix_at(scene, nearest_matrix(scene, self.instruction), operand)

    def barriers(self) -> tuple[BarrierState, ...]:
        """Barriers of CTAs and clusters at which threads have arrived."""
        return waiting.barriers_of(self.timeline.machines())

    def mbarriers(self) -> tuple[MbarrierState, ...]:
        """The mbarriers in use."""
        return waiting.mbarriers_of(self.timeline.machines())

    def in_flight(self) -> tuple[InFlight, ...]:
        """Copies and wgmma whose completion no thread has observed."""
        return waiting.in_flight_of(self.timeline.machines())


def machine_of(timeline: Timeline, focus: Focus) -> Machine | None:
    """The batch of a thread's CTA; None if it is not running."""
    return next((m for m in timeline.machines() if column_of(m, focus.cta) is not None), None)
