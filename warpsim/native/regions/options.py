"""What a region may contain, what its code is made for, how its runs end, and before what a launch may have to stop."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from attrs import field

from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.graph.nodes import Node
    from warpsim.native.regions.forms import Effect, Reader
    from warpsim.program.program import Instruction

Place = tuple[int, int, bool, bool, bool, bool]
"""Where a region begins: block and step, and whether a region there runs one warp alone, may hold collectives, barriers,
accesses of memory."""
MOST = 600
"""Instructions of a region."""


class Holds(NamedTuple):
    """What regions may hold, by the events that watchers take."""

    collectives: bool
    barriers: bool
    accesses: bool


class Outcome(enum.Enum):
    """How a run of a region ended."""

    DONE = "done"
    DIVERGED = "lanes of a warp were missing"
    CONFLICT = "warps may have accessed the same memory"
    REFUSED = "an access that the interpreter has to look at"
    WRAPPED = "values that wrap round within a warp"
    OUT_OF_ORDER = "warps have run past others that access memory first"
    OVER_BUDGET = "the budget ends within"
    STOPPED = "the launch may have to stop within"
    FOLLOWED = "a rule has to follow its accesses"
    MET = "threads may have accessed the same memory unordered"


class Options(NamedTuple):
    """What a region may contain. ``alone``: one warp runs, so its order is the interpreter's; it ``keeps`` registers that
    nothing reads any more; ``accesses`` of memory, which some rules follow one by one."""

    alone: bool
    stores: bool = True
    collectives: bool = True
    barriers: bool = False
    strides: bool = True
    keeps: bool = False
    accesses: bool = True


class Variant(NamedTuple):
    """What a region is compiled for: one warp ``alone``; ``row`` lanes of a warp in a row of threads (0: unknown);
    affine values have ``strides``; a ``private`` copy of shared memory per CTA; ``limited`` to blocks before some
    block; accesses of some spaces are ``observed``; it ``follows`` a lane and counts its steps; what a profile has is ``counted``; it
    shows that threads keep ``apart`` (`warpsim.native.codegen.apart`); the way of the warps shown from near is ``recorded``."""

    alone: bool
    row: int = 0
    strides: bool = True
    private: bool = False
    limited: bool = False
    observed: tuple[str, ...] = ()
    follows: bool = False
    counted: bool = False
    apart: bool = False
    recorded: bool = False


def spaces_of(space: str) -> tuple[str, ...]:
    """Where an access to a space may go."""
    return ("global", "shared") if space == "generic" else (space,)


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
