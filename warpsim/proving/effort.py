"""How much an answer may cost. Work is counted, so that answers do not depend on how fast or busy a machine is; time is a backstop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from warpsim.records import define

if TYPE_CHECKING:
    import z3

STEPS, THREADS = 150_000, 8192
"""Steps of launches of which nobody knows the contents; one of more threads counts as several."""
FOLLOWED = 100_000
"""Instructions of the paths of a thread."""
ASKED, EACH, LEAST = 100_000_000, 25_000_000, 20_000
"""What a solver may spend on all questions, and on one, in units of its own: some 4 million are a second. Asking costs at least the last."""
COUNTED = 1 << 32
"""z3 counts the units of a process modulo this."""
SECONDS = 300.0


class Spent(Exception):
    """No more may be done for an answer."""


@define(eq=False)
class Effort:
    """What is left of it. ``until`` is a time of `time.monotonic`."""

    until: float
    steps: int = STEPS
    followed: int = FOLLOWED
    asked: int = ASKED

    @classmethod
    def within(cls, seconds: float) -> Effort:
        """All of it, and so many seconds."""
        return cls(time.monotonic() + seconds)

    @property
    def seconds(self) -> float:
        """Those that are left."""
        return max(self.until - time.monotonic(), 0.0)

    def step(self, threads: int) -> bool:
        """Count a step of so many threads; whether it was the last."""
        self.steps -= 1 + threads // THREADS
        return self.steps <= 0

    def follow(self) -> None:
        """Count an instruction.

        Raises:
            Spent: there was none left.
        """
        self.followed -= 1
        if self.followed < 0 or self.late:
            raise Spent

    @property
    def late(self) -> bool:
        """Whether the solver may do nothing more."""
        return self.asked <= 0 or not self.seconds

    def ask(self, solver: z3.Solver) -> z3.CheckSatResult:
        """What a solver says, for as much as one question may cost."""
        solver.set("rlimit", max(min(EACH, self.asked), 1))
        began = _units(solver)
        try:
            return solver.check()
        finally:
            self.asked -= max((_units(solver) - began) % COUNTED, LEAST)


def _units(solver: z3.Solver) -> int:
    return int(solver.statistics().get_key_value("rlimit count"))
