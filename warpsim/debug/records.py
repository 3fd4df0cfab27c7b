"""Plain records that a session returns: stops, calls, warps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from warpsim.debug.places import Focus, places, ranges, standing, warps_in
from warpsim.errors import Finding
from warpsim.machine.machine import Machine


@attrs.frozen
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
    old: Any = attrs.field(default=None, eq=False)
    new: Any = attrs.field(default=None, eq=False)
    event: str = ""


@attrs.frozen
class Call:
    """A frame of the call stack."""

    function: str
    line: int
    source: tuple[str, int] | None
    text: str


@attrs.frozen
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
        for at in standing(machine):
            name, instruction = at.group.plan.function.name, at.instruction
            for focus in warps_in(at.machine, at.group):
                lanes = ranges(np.flatnonzero(places(machine, at.group, focus) >= 0))
                line, text = instruction.span.line, instruction.text
                found.append(WarpState(focus.cta, focus.warp, lanes, line, text, name, at.state))
    return tuple(sorted(found, key=lambda w: (w.cta[::-1], w.warp, int(w.lanes.split("-")[0].split(",")[0]))))
