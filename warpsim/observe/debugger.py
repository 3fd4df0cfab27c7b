"""Breakpoints, stepping and watched registers over an observed launch; no input or output here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.analysis.flow import reads_and_writes
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.window import Watcher
from warpsim.observe.focus import Focus, column, focus_of
from warpsim.program.program import Instruction, Register

Array = NDArray[Any]


class Quit(Exception):
    """The user ends the session."""


class Debugger(Watcher):
    """Stops before instructions and hands over to ``interact(debugger, instruction, group)``.

    ``breakpoints`` are lines of the PTX text, ``watches`` names of registers: a change in the warp in ``focus`` stops
    behind the instruction that made it, and ``reason`` says so. While ``stepping`` every instruction of that warp stops,
    down to ``depth`` calls.
    """

    def __init__(self, interact: Callable[[Debugger, Instruction, Machine, Group], None]) -> None:
        self.interact = interact
        self.breakpoints: set[int] = set()
        self.watches: set[str] = set()
        self.focus: Focus | None = None
        self.stepping = True
        self.depth: int | None = None
        self.reason = ""
        self._known: dict[str, Array] = {}

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Called by the machine before each step."""
        if self.focus is None:
            self.focus = focus_of(machine, group)
        stands = self.stepping or instruction.span.line in self.breakpoints or bool(self.watches)
        inside = stands and self.focus.stands_in(machine, group)
        stepped = self.stepping and inside and (self.depth is None or len(group.stack) <= self.depth)
        if stepped or instruction.span.line in self.breakpoints:
            if not inside:
                self.focus = focus_of(machine, group)
            self.stepping, self.depth = False, None
            self.interact(self, instruction, machine, group)
            self.reason = ""
        if self.watches and self.focus.stands_in(machine, group):
            self._known = self._watched(machine, group)

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Called by the machine after each step."""
        if not self.watches or self.focus is None or not self.focus.stands_in(machine, group):
            return
        for name, values in self._watched(machine, group).items():
            known = self._known.get(name)
            if known is not None and known.tobytes() != values.tobytes():
                self.reason = f"{name} changed in line {instruction.span.line}"
                self.stepping, self.depth = True, None

    def _watched(self, machine: Machine, group: Group) -> dict[str, Array]:
        assert self.focus is not None
        places = self.focus.places(machine, group)
        here = places[places >= 0]
        return {r.name: column(group, r.index, here) for r in group.plan.function.registers if r.name in self.watches}


def label_line(group: Group, name: str) -> int | None:
    """The line of the first instruction behind a label."""
    function = group.plan.function
    at = function.labels.get(name)
    return function.code[at].span.line if at is not None and at < len(function.code) else None


def register_values(machine: Machine, group: Group, focus: Focus, register: Register) -> tuple[Array, Array]:
    """A register of the warp in focus: 32 values in its declared type, and which lanes stand in the group."""
    places = focus.places(machine, group)
    values = np.ascontiguousarray(column(group, register.index, places))
    if values.dtype.itemsize == register.type.dtype.itemsize:
        values = values.view(register.type.dtype)
    return values, places >= 0


def kept_registers(group: Group) -> list[Register]:
    """The registers of the present function whose values are still known: a value that nothing reads again goes."""
    block = group.plan.blocks[group.block]
    live = {index for successor in block.successors for index in group.plan.blocks[successor].live_in}
    for instruction in reversed(block.instructions[group.at :]):
        reads, writes = reads_and_writes(instruction)
        live = (live - set(writes)) | set(reads)
    return [r for r in group.plan.function.registers if group.env[r.index] is not None or r.index in live]


def whereabouts(machine: Machine, group: Group, focus: Focus) -> str:
    """Where the group stands: the calls, the line, the lanes of the warp in focus and how many threads go together."""
    lanes = np.flatnonzero(focus.places(machine, group) >= 0)
    frames = " < ".join([group.plan.function.name, *(entry[0].function.name for entry in reversed(group.stack))])
    return f"{frames}, line {present(group).span.line}: CTA {focus.cta}, warp {focus.warp}, {_ranges(lanes)}; {group.selection.n} threads in lockstep"


def _ranges(lanes: Array) -> str:
    """Lane numbers as ranges: 0-3, 8."""
    if not len(lanes):
        return "which stands elsewhere"
    parts = np.split(lanes, np.flatnonzero(np.diff(lanes) > 1) + 1)
    return "lanes " + ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
