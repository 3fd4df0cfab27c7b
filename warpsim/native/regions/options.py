"""What a region may contain, and how its runs end."""

from __future__ import annotations

import enum
from typing import NamedTuple

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


class Options(NamedTuple):
    """What a region may contain. ``alone``: one warp runs, so its order is the interpreter's."""

    alone: bool
    stores: bool = True
    collectives: bool = True
    barriers: bool = False
    strides: bool = True
