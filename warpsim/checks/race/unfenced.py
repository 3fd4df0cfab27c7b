"""Flags read by threads that execute no fence afterwards.

In the memory consistency model such a read acquires nothing. CUDA's own examples do it where blocks take a ticket (the
last block of a reduction takes one after a fence, and executes no fence afterwards). An access ordered only by such a
read is therefore a warning; polled flags and locks need the fence.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.race.vector_clocks import Rows
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.checks.race.order import Order
    from warpsim.program.program import Instruction

KEPT = 4096
"""Number of flag reads remembered."""
ASKED = 64
"""Number of accesses checked per step."""


class UnfencedReads:
    """Flag reads by threads of a batch: who read, when, and what had been released through the flag."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._reads: deque[tuple[Array, int, Rows]] = deque(maxlen=KEPT)

    def read(self, instruction: Instruction | None, positions: Array, now: int, rows: Rows) -> None:
        """Note that these threads have read a flag without acquiring."""
        if instruction is None or not instruction.traits.counts or _adds_nothing(instruction):
            return
        if self._reads:
            who, _, known = self._reads[-1]
            if (
                known.keys() == rows.keys()
                and all(known[c] is rows[c] for c in rows)
                and np.array_equal(who, positions)
            ):
                return
        self._reads.append((positions, now, dict(rows)))

    def say(self, threads: Array, times: Array, positions: Array) -> bool:
        """Whether a flag signals each of these accesses to the thread that follows, or to one that it has synchronised
        with since.
        """
        if not self._reads:
            return False
        asked = np.unique(np.stack([threads, times, positions]), axis=1)[:, :ASKED]
        return all(self._tells(*one) for one in asked.T.tolist())

    def _tells(self, thread: int, time: int, position: int) -> bool:
        order = self.order
        for who, when, rows in reversed(self._reads):
            for cta, row in rows.items():
                n_ctas, base = order.numbers.owner(cta)
                at = thread - base
                if 0 <= at < len(row) * n_ctas and at % n_ctas == cta - base and time < row[at // n_ctas]:
                    met = np.full(len(who), position)
                    if not order.unordered(who + order.base, np.full(len(who), when), met).all():
                        return True
        return False


def _adds_nothing(instruction: Instruction) -> bool:
    """Whether an atomic is just a way to write a load."""
    return instruction.operands[-1].constant == 0
