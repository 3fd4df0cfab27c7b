"""The cost model of compilation, and the tiering policy."""

from __future__ import annotations

import enum
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from warpsim.cache import digest, has_note, note
from warpsim.version import VERSION

ADDITION = 37e-9
"""CPU seconds of an addition in a loop of Python where the times below were measured. All are those of that machine, and what is
measured here is compared with them as if it had been there (`spent`)."""
HOT = 0.02
"""Seconds of interpretation that make an entry point hot, and a launch worth a note."""
STEP, LANE = 8e-6, 1e-9
"""Seconds that the interpreter takes per step, and per lane of a step."""
CALL = 8e-5
"""Seconds of a call of code, about."""
LAUNCH = 2e-4
"""Seconds of a launch beside its steps, about: spared where code is all of it."""
LINES = 40
"""Lines of LLVM IR per instruction, about."""
BEGIN, WRITE = 0.05, 1e-3
"""Seconds per region beside its lines, and per instruction to emit it."""
FIRST = 0.12
"""Seconds to import LLVM."""
FIRST_SHARE, LATER_SHARE, BLOCKING_SHARE, QUEUED_SHARE = 1 / 25, 8.0, 1.0, 50.0
"""Seconds of compilation allowed per interpreted second: in a kernel's first launch; in later ones, because what was launched
twice is launched again, and what is compiled is kept for other processes; in these while they wait, without a spare core; and
queued after a launch that asked for it."""


class Policy(enum.Enum):
    """When a launch compiles."""

    AUTO = "in a share of the time that launches have taken together"
    ASKED = "the same, and behind the first launch for the next ones"
    AT_ONCE = "at once"


def policy_of(engine: str) -> Policy:
    """The policy of an engine; with ``WARPSIM_COMPILE=at-once`` launches wait for all that can be compiled."""
    if engine != "compiled":
        return Policy.AUTO
    return Policy.AT_ONCE if os.environ.get("WARPSIM_COMPILE") == "at-once" else Policy.ASKED


PRODUCT = 0.3125
"""Seconds to compile a product of matrices."""


T = TypeVar("T")


class Account:
    """Seconds that the interpreter has spent on something, about, in all launches, those that compiling it took, and how many
    launches there were; under a ``name`` those of earlier processes count as one, so that one launch a process is compiled, too."""

    def __init__(self, name: str | None = None) -> None:
        self.interpreted = self.compiled = 0.0
        self._note = None if name is None else digest(VERSION, "launched", name)
        self.noted = self._note is not None and has_note(self._note)
        """Whether an earlier process has left a note."""
        self.launches = int(self.noted)

    @property
    def saved(self) -> float:
        """Seconds that code would have spared: not those of a call in each launch."""
        return self.interpreted - self.launches * CALL

    def allows(self, seconds: float, share: float) -> bool:
        """Whether so many more seconds of compilation stay within a share of those that code would have spared."""
        return self.compiled + seconds <= self.saved * share

    def timed(self, body: Callable[..., T], *operands: object, **ports: object) -> T:
        """A body's result; its time is accounted for."""
        began = spent()
        result = body(*operands, **ports)
        self.interpreted += spent() - began
        return result

    def keep(self) -> None:
        """Leave a note for later processes, if it took a while."""
        if self._note is not None and self.interpreted > HOT:
            note(self._note)
            self._note = None


@lru_cache(maxsize=256)
def account_of(name: str) -> Account:
    """This process's account of what has a name."""
    return Account(name)


def account_of_product(text: str) -> Account:
    """The account of the products that an instruction's ``text`` names."""
    return account_of(f"product {text}")


LAUNCHES = 0.05
"""Seconds that launches take before the engine is imported."""


@lru_cache(maxsize=1)
def slowness() -> float:
    """How many times as long Python takes on this machine; 1 where its clock is too coarse to tell."""
    taken = []
    for _ in range(3):
        began, total = time.thread_time(), 0
        for number in range(2000):
            total += number
        taken.append(time.thread_time() - began)
    return min(taken) / (2000 * ADDITION) or 1.0


def spent() -> float:
    """The thread's CPU seconds, of that machine."""
    return time.thread_time() / slowness()


class Interpreted:
    """Seconds that this process has interpreted launches without an engine, infinite once one was imported."""

    launches = 0.0

    @property
    def enough(self) -> bool:
        """Whether the engine is worth its import."""
        return self.launches > LAUNCHES


@lru_cache(maxsize=1)
def interpreted() -> Interpreted:
    """The process-wide instance."""
    return Interpreted()


class Rate:
    """Seconds per line of LLVM IR: a prior, refined by what this process measures."""

    def __init__(self) -> None:
        self.lines, self.seconds = 4000, 0.6

    def record(self, lines: int, seconds: float) -> None:
        """Record a compile-time sample."""
        self.lines, self.seconds = self.lines + lines, self.seconds + seconds

    def of(self, lines: int) -> float:
        """Seconds to compile so many lines."""
        return lines * self.seconds / self.lines


@lru_cache(maxsize=1)
def has_spare_core() -> bool:
    """Whether a thread can compile while the launch goes on."""
    mine = getattr(os, "sched_getaffinity", None)
    return (len(mine(0)) if mine else os.cpu_count() or 1) > 1


def share_of(launches: int) -> float:
    """The share of a kernel's launch that is the first, second and so on."""
    if launches < 2:
        return FIRST_SHARE
    return LATER_SHARE if has_spare_core() else BLOCKING_SHARE


@lru_cache(maxsize=1)
def rate() -> Rate:
    """The process-wide instance."""
    return Rate()


def cost(size: int, *, kept: bool) -> float:
    """Seconds to compile a region of so many instructions; ``kept``: its object is on disk."""
    first = 0.0 if "llvmlite" in sys.modules else FIRST
    return first + BEGIN + size * WRITE + (0.0 if kept else rate().of(size * LINES))
