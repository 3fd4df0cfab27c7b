"""What a region may contain, what its code is made for, and how its runs end."""

from __future__ import annotations

import enum
from typing import NamedTuple

Place = tuple[int, int, bool, bool, bool, bool]
"""Where a region begins: block and step, and whether a region there runs one warp alone, may hold collectives, barriers,
accesses of memory."""
MOST = 600
"""Instructions of a region."""


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
    block; accesses of some spaces are ``observed``; it ``follows`` a lane and counts its steps; what a profile has is ``counted``."""

    alone: bool
    row: int = 0
    strides: bool = True
    private: bool = False
    limited: bool = False
    observed: tuple[str, ...] = ()
    follows: bool = False
    counted: bool = False


def spaces_of(space: str) -> tuple[str, ...]:
    """Where an access to a space may go."""
    return ("global", "shared") if space == "generic" else (space,)
