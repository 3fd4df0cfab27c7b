"""State that the batches of a launch share to find races: steps as events, and thread identities."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.analysis.verified_loads import guesses, tests
from warpsim.checks.cells import Cells, Log
from warpsim.checks.race.order import Order
from warpsim.checks.race.vector_clocks import Numbering, Past, Rows
from warpsim.errors import Span
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.plan import KernelPlan
    from warpsim.machine.state.footprints import GlobalTarget
    from warpsim.machine.state.launch import LaunchState
    from warpsim.program.program import Function, Instruction


CTA, CLUSTER, GPU = 1, 2, 3
"""Reach of a strong access; 0 is a weak access."""


@attrs.frozen
class Note:
    """An instruction's role in the memory model."""

    level: int = 0
    release: bool = False
    acquire: bool = False
    flag: bool = False
    """Whether others may learn from the value that it stores: not from that of an mbarrier, but from its phases."""


class LaunchRaces:
    """State shared by the batches of a launch."""

    def __init__(self, launch: LaunchState) -> None:
        self.grid, self.block = launch.grid, launch.block
        self.events: Log[Instruction | None] = Log(None, None)
        self.levels = np.zeros(1 << 12, np.int8)
        self.variables: dict[Hashable, Rows] = {}
        self.flags: set[int] = set()
        self.cells: dict[int, Cells] = {}
        """Cells of global memory, by allocation number."""
        self.copied: dict[int, list[tuple[GlobalTarget, Array, int]]] = {}
        """Copies of memory that nobody has written near since, by allocation: what they read, the threads that started
        the copy of each run, and when.
        """
        self.numbers = Numbering()
        self.orders: list[Order] = []
        self.flags_of_batches: list[Any] = []
        self.pasts: list[Past] = []
        self.step: tuple[int, ...] | None = None
        """The step to which the current event belongs: the group's number, and where it stands."""

    def begin(self, instruction: Instruction | None, level: int) -> None:
        """Begin a step; its number becomes the time."""
        self.events.append(instruction)
        if self.events.n > len(self.levels):
            self.levels = np.concatenate([self.levels, np.zeros_like(self.levels)])
        self.levels[self.events.n - 1] = level

    def access(self, time: int) -> Instruction:
        """The instruction that accessed memory at a time: barriers and waits, whose events name none, access nothing."""
        found = self.events[time]
        assert found is not None
        return found

    @property
    def led(self) -> bool:
        """Whether any flag has been used by one thread."""
        return bool(self.pasts)

    def past(self, known: Past) -> int:
        """The number of what threads know of the barriers of their CTA and warp."""
        if not self.pasts or self.pasts[-1] != known:
            self.pasts.append(known)
        return len(self.pasts) - 1

    def fenced(self, threads: Array) -> Array:
        """The time of the last gpu-scope fence of threads of any batch."""
        out = np.zeros(len(threads), np.int64)
        owners = self.numbers.owners(threads)
        for number in np.unique(owners).tolist():
            mine = owners == number
            out[mine] = self.orders[number].fenced(threads[mine] - self.numbers.bases[number], "gpu")
        return out

    def place(self, thread: int) -> tuple[tuple[int, int, int], int, tuple[int, ...]]:
        """CTA, warp and lane of a thread number."""
        at = bisect.bisect(self.numbers.bases, thread) - 1
        ctas, n_ctas, _ = self.numbers.batches[at]
        position = thread - self.numbers.bases[at]
        number, t = int(ctas[position % n_ctas]), position // n_ctas
        gx, gy, _ = self.grid
        bx, by, bz = self.block
        agent = t - bx * by * bz
        t = agent * 128 if agent >= 0 else t
        return (number % gx, number // gx % gy, number // (gx * gy)), t >> 5, (t & 31,)


def is_test(plan: KernelPlan, instruction: Instruction) -> bool:
    """Whether a load's value only decides whether to execute an atomic on the same place."""
    return instruction.span in _spans(plan, "race tests", tests)


def is_guess(plan: KernelPlan, instruction: Instruction) -> bool:
    """Whether a load's value is verified by a compare-and-swap."""
    return instruction.span in _spans(plan, "race guesses", guesses)


def _spans(plan: KernelPlan, name: str, find: Callable[[Function], Iterable[Span]]) -> set[Span]:
    """The result of an analysis for a module's functions, cached."""
    found: set[Span] | None = plan.main.notes.get(name)
    if found is None:
        functions = plan.program.functions.values()
        found = plan.main.notes[name] = {span for function in functions for span in find(function)}
    return found
