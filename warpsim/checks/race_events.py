"""What the batches of a launch share to find races: the steps as events, and who the threads are."""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.analysis.guesses import guesses, tests
from warpsim.checks.cells import Cells
from warpsim.checks.knowledge import Past, Rows, rows_of
from warpsim.checks.order import Order
from warpsim.errors import Span
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.launch import LaunchState
    from warpsim.program.program import Instruction

CTA, CLUSTER, GPU = 1, 2, 3
"""How far a strong access reaches; 0 is a weak access."""


@attrs.frozen
class Note:
    """What an instruction is to the memory model."""

    level: int = 0
    release: bool = False
    acquire: bool = False


class LaunchRaces:
    """What the batches of a launch share."""

    def __init__(self, launch: LaunchState) -> None:
        self.launch = launch
        self.events: list[Instruction | None] = [None, None]
        self.levels = np.zeros(1 << 12, np.int8)
        self.variables: dict[Hashable, Rows] = {}
        self.flags: set[int] = set()
        self.cells: dict[int, tuple[Allocation, Cells]] = {}
        self.bases: list[int] = []
        self.batches: list[tuple[Array, int, int]] = []
        self.orders: list[Order] = []
        self.detectors: list[Any] = []
        self.pasts: list[Past] = []
        self._guesses: set[Span] | None = None
        self._tests: set[Span] | None = None

    def begin(self, instruction: Instruction | None, level: int) -> None:
        """A step begins: its number is the time from now on."""
        self.events.append(instruction)
        if len(self.events) > len(self.levels):
            self.levels = np.concatenate([self.levels, np.zeros_like(self.levels)])
        self.levels[len(self.events) - 1] = level

    @property
    def led(self) -> bool:
        """Whether any flag has been used by one thread."""
        return bool(self.pasts)

    def past(self, known: Past) -> int:
        """The number of what threads know."""
        if not self.pasts or self.pasts[-1] != known:
            self.pasts.append(known)
        return len(self.pasts) - 1

    def is_test(self, instruction: Instruction) -> bool:
        """Whether what a load reads only decides if an atomic of the same place is made."""
        if self._tests is None:
            functions = self.launch.plan.program.functions.values()
            self._tests = {span for function in functions for span in tests(function)}
        return instruction.span in self._tests

    def is_guess(self, instruction: Instruction) -> bool:
        """Whether what a load reads is checked by a compare and swap."""
        if self._guesses is None:
            functions = self.launch.plan.program.functions.values()
            self._guesses = {span for function in functions for span in guesses(function)}
        return instruction.span in self._guesses

    def enter(self, machine: Machine) -> int:
        """The number of the first thread of a new batch."""
        base = self.bases[-1] + self.batches[-1][2] if self.bases else 0
        self.bases.append(base)
        self.batches.append(
            (machine.batch.ctas, machine.batch.shape.n_ctas, rows_of(machine.batch.shape) * machine.batch.shape.n_ctas)
        )
        return base

    def owner(self, number: int) -> tuple[int, int]:
        """The width and the first thread of the batch of a thread or CTA."""
        at = bisect.bisect(self.bases, number) - 1
        return self.batches[at][1], self.bases[at]

    def fenced(self, threads: Array) -> Array:
        """The time of the last fence of gpu scope of threads of any batch."""
        out = np.zeros(len(threads), np.int64)
        owners = np.searchsorted(np.array(self.bases), threads, "right") - 1
        for number in np.unique(owners).tolist():
            mine = owners == number
            out[mine] = self.orders[number].fenced(threads[mine] - self.bases[number], "gpu")
        return out

    def place(self, thread: int) -> tuple[tuple[int, int, int], int, tuple[int, ...]]:
        """CTA, warp and lane of a thread's number."""
        at = bisect.bisect(self.bases, thread) - 1
        ctas, n_ctas, _ = self.batches[at]
        position = thread - self.bases[at]
        number, t = int(ctas[position % n_ctas]), position // n_ctas
        gx, gy, _ = self.launch.grid
        bx, by, bz = self.launch.block
        agent = t - bx * by * bz
        t = agent * 128 if agent >= 0 else t
        return (number % gx, number // gx % gy, number // (gx * gy)), t >> 5, (t & 31,)
