"""What compiling costs, and when it pays: within a launch, behind it, or at once whatever it costs."""

from __future__ import annotations

import enum
import os
import sys
from functools import lru_cache

STEP, LANE = 8e-6, 1e-9
"""Seconds that the interpreter takes for a step, and for each lane of it."""
LINES = 40
"""Lines of LLVM's text that an instruction takes, about."""
BEGIN, WRITE = 0.05, 1e-3
"""Seconds that a region takes beside its lines, and for each instruction until they are written."""
FIRST = 0.12
"""Seconds until LLVM is there."""
BLOCKING_SHARE, CONCURRENT_SHARE, QUEUED_SHARE = 1 / 8, 1 / 4, 50.0
"""Seconds of compiling for each second that was interpreted: within a launch, in a thread beside it, and behind one that asked
for it."""


class Policy(enum.Enum):
    """When a launch compiles."""

    AUTO = "in a share of its time"
    ASKED = "in a share of its time, behind the launch for the next ones, and at once what lies on disk"
    AT_ONCE = "at once"


def policy_of(engine: str) -> Policy:
    """That of an engine; ``WARPSIM_COMPILE=at-once`` makes launches wait for whatever can be compiled."""
    if engine != "compiled":
        return Policy.AUTO
    return Policy.AT_ONCE if os.environ.get("WARPSIM_COMPILE") == "at-once" else Policy.ASKED


PRODUCT, PRODUCT_LOAD = 0.3125, 0.0125
"""Seconds to compile a product of matrices, and to load its object."""


class Account:
    """Seconds that the interpreter has spent on something, about, in all launches, and those that compiling it took."""

    def __init__(self) -> None:
        self.interpreted = self.compiled = 0.0

    def allows(self, seconds: float, share: float) -> bool:
        """Whether so many more seconds of compiling take such a share of the interpreted time at most."""
        return self.compiled + seconds <= self.interpreted * share


LAUNCHES = 0.05
"""Seconds that launches take before the engine is imported."""
PRODUCTS = {Policy.AUTO: 0.1, Policy.ASKED: 0.02, Policy.AT_ONCE: -1.0}
"""Seconds that products of matrices take before their machine code is imported."""


class Interpreted:
    """Seconds that this process has interpreted: launches without an engine (infinite once one was imported), and products of
    matrices."""

    launches = products = 0.0

    @property
    def enough(self) -> bool:
        """Whether the engine is worth its import."""
        return self.launches > LAUNCHES


@lru_cache(maxsize=1)
def interpreted() -> Interpreted:
    """The process-wide instance."""
    return Interpreted()


class Rate:
    """What a line takes to be compiled, by what was measured in this process and what is usual."""

    def __init__(self) -> None:
        self.lines, self.seconds = 4000, 0.6

    def record(self, lines: int, seconds: float) -> None:
        """So many were compiled."""
        self.lines, self.seconds = self.lines + lines, self.seconds + seconds

    def of(self, lines: int) -> float:
        """Seconds that so many take."""
        return lines * self.seconds / self.lines


@lru_cache(maxsize=1)
def has_spare_core() -> bool:
    """Whether a thread can compile while the launch goes on: there is a second processor."""
    mine = getattr(os, "sched_getaffinity", None)
    return (len(mine(0)) if mine else os.cpu_count() or 1) > 1


@lru_cache(maxsize=1)
def rate() -> Rate:
    """That of this process."""
    return Rate()


def cost(size: int, *, kept: bool) -> float:
    """Seconds that a region of so many instructions takes; ``kept``: its object lies on disk."""
    first = 0.0 if "llvmlite" in sys.modules else FIRST
    return first + BEGIN + size * WRITE + (0.0 if kept else rate().of(size * LINES))
