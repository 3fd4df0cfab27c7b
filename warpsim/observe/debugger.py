"""Breakpoints and stepping over an observed launch; no input or output here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.machine.group import Group
from warpsim.machine.reporting import locate, present
from warpsim.machine.values import as_array
from warpsim.program.program import Instruction


class Quit(Exception):
    """The user ends the session."""


class Debugger:
    """Stops before instructions and hands over to ``interact(debugger, instruction, group)``.

    ``breakpoints`` are lines of the PTX text. While ``stepping`` every instruction stops.
    """

    def __init__(self, interact: Callable[[Debugger, Instruction, Group], None]) -> None:
        self.interact = interact
        self.breakpoints: set[int] = set()
        self.stepping = True

    def before(self, instruction: Instruction, group: Group) -> None:
        """Called by the machine before each step."""
        if self.stepping or instruction.span.line in self.breakpoints:
            self.stepping = False
            self.interact(self, instruction, group)

    def after(self, instruction: Instruction, group: Group) -> None:
        """Called by the machine after each step."""


def label_line(group: Group, name: str) -> int | None:
    """The line of the first instruction behind a label."""
    function = group.plan.function
    at = function.labels.get(name)
    return function.code[at].span.line if at is not None and at < len(function.code) else None


def register_values(group: Group, name: str) -> tuple[str, Any] | None:
    """PTX type and per-lane values of a register of the first warp of a group; None where there is no such register."""
    for register in group.plan.function.registers:
        if register.name == name:
            value = as_array(group.read(register.index))
            if value.dtype.itemsize == register.type.dtype.itemsize:
                value = value.view(register.type.dtype)
            full = np.broadcast_to(value, group.selection.shape).reshape(-1)
            order = np.argsort(group.selection.positions.reshape(-1) % group.batch.shape.n_ctas, kind="stable")
            return register.type.name, full[order][:32]
    return None


def whereabouts(group: Group) -> str:
    """Where the group stands: CTA, warp and how many threads go together."""
    cta, warp, lanes = locate(group.batch.launch, group.batch, group, None)
    frames = " < ".join([group.plan.function.name, *(entry[0].function.name for entry in reversed(group.stack))])
    return f"{frames}, line {present(group).span.line}: CTA {cta}, warp {warp}, lanes {lanes[0]}-{lanes[-1]}; {group.selection.n} threads in lockstep"
