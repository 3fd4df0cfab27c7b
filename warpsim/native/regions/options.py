"""What a unit may do, and how it ends."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Outcome(enum.Enum):
    """How a unit ended."""

    DONE = "done"
    PARTED = "lanes of a warp were missing"
    CONFLICT = "warps may have met in memory"
    REFUSED = "an access that the interpreter has to look at"
    DOUBT = "values that wrap round within a warp"
    AHEAD = "some have gone further than they may"
    OVER = "the budget ends within"


class Options(NamedTuple):
    """What a unit may do: ``alone``, one warp runs and any order is that of the interpreter."""

    alone: bool
    stores: bool = True
    collectives: bool = True
    barriers: bool = False
    strides: bool = True
