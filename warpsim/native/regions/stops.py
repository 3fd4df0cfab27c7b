"""Where a launch may have to stop: before which instructions, and on what condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import field

from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.graph.nodes import Node
    from warpsim.native.regions.forms import Effect, Reader
    from warpsim.program.program import Instruction


@frozen
class Condition:
    """Holds wherever a launch has to stop, and may hold elsewhere: a region is then rolled back, and the interpreter asks.

    ``holds(reader, instruction, effects)`` gives it for the lanes that come to an instruction, as a predicate; ``effects`` are its
    accesses of memory. ``text`` says it in full: conditions with the same text have the same code.
    """

    text: str
    holds: Callable[[Reader, Instruction, tuple[Effect, ...]], Node] = field(eq=False)


Stops = Mapping[tuple[int, int], Condition | None]
"""The instructions (line, column) before which a launch may have to stop: only where a condition holds, always for None."""


def described(stops: Stops) -> list[tuple[int, int, str | None]]:
    """What distinguishes stops from others."""
    return [(*place, None if stop is None else stop.text) for place, stop in sorted(stops.items(), key=lambda s: s[0])]
