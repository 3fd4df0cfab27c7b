"""Arithmetic on integers that all threads of a group share, several instructions as one step: loop counters, addresses of stages,
descriptors, and the predicates made of them.

Loops and later launches compute these from the same numbers again, so what the steps made of them is remembered. Where a register
comes to vary among threads, the instructions that depend on it are steps of their own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import TypeAlias

from warpsim.machine.binding.wgmma_chains import is_plain
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock, FunctionPlan
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Value
from warpsim.program.program import Instruction
from warpsim.records import define

LEAST, MOST = 3, 16
"""So many instructions are one step."""
KEPT = 8192
"""For so many numbers, of all such steps together, what came of them is kept."""
MISSES = 2048
"""Instructions whose results were so much oftener new than known are steps of their own again."""

Results: TypeAlias = "dict[tuple[int, ...], tuple[tuple[int, Value], ...]]"
"""By the number of a row and what it reads: registers, and what they are then."""


@functools.lru_cache(maxsize=1)
def results() -> Results:
    """Those of this process."""
    return {}


@functools.lru_cache(maxsize=1)
def _numbers() -> Iterator[int]:
    return itertools.count()


class Remembered:
    """The arrangement of a block's steps (`BoundBlock.arranged`)."""

    def __init__(self, plan: FunctionPlan, block: BoundBlock) -> None:
        self._block, self.steps, self.results = block, block.steps, results()
        self._sources = [_sources(plan, i) for i in block.instructions[: block.n_steps]]
        self._varying = set[int]()
        self._arrange()

    def _arrange(self) -> None:
        steps, inside, varying = list(self.steps), set[int](), set(self._varying)
        row: Row | None = None
        for at, reads in enumerate(self._sources):
            writes = self._block.instructions[at].writes
            if reads is None or not varying.isdisjoint(reads):
                varying.update(writes if reads is not None else self._varying.intersection(writes))
                row = None
                continue
            varying.difference_update(writes)
            if row is None or row.end - row.at == MOST:
                row = Row(self, at)
            row.extend(reads, writes)
            if row.end - row.at >= LEAST:
                steps[row.at] = row.step
                inside.update(range(row.at + 1, row.end))
        self._block.arranged = self.arranged = steps, inside

    def leave(self, row: Row, slot: int | None = None) -> None:
        """Leave what reads a register that varies, or all of a row, to steps of their own, from the next visit on."""
        if self.arranged[0][row.at] != row.step:
            return  # arranged anew during this visit
        if slot is None or slot in self._varying:
            self._sources[row.at : row.end] = [None] * (row.end - row.at)
        else:
            self._varying.add(slot)
        self._arrange()


@define(eq=False)
class Row:
    """Instructions in a row, from the place ``at`` to before ``end``, and the slots that they read before they write them."""

    of: Remembered
    at: int
    end: int = 0
    number: int = 0
    reads: tuple[int, ...] = ()
    writes: frozenset[int] = frozenset()
    misses: int = 0

    def __attrs_post_init__(self) -> None:
        self.end, self.number = self.at, next(_numbers())

    def extend(self, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """Add the next instruction."""
        self.end += 1
        self.reads = tuple(dict.fromkeys((*self.reads, *(slot for slot in reads if slot not in self.writes))))
        self.writes |= frozenset(writes)

    def step(self, machine: Machine, group: Group) -> object:
        """Do what they do; gives the place behind them."""
        env, numbers = group.env, [self.number]
        for slot in self.reads:
            value = env[slot]
            if value is None:
                value = group.fetch(slot)
            if type(value) is Affine and value.strides == FLAT:
                numbers.append(value.base)
            elif type(value) is not Affine and value.size == 1 and value.dtype.kind in "iub":
                numbers.append(value.item())
            else:
                self.of.leave(self, slot)
                return self.of.steps[self.at](machine, group)
        key = tuple(numbers)
        found = self.of.results.get(key)
        if found is None:
            return self._computed(machine, group, key)
        if self.misses:
            self.misses -= 1
        for slot, result in found:
            env[slot] = result
        group.dirty.update(self.writes)
        return self.end

    def _computed(self, machine: Machine, group: Group, key: tuple[int, ...]) -> int:
        """Do it step by step, and remember what comes of it."""
        for at in range(self.at, self.end):
            group.at = at
            self.of.steps[at](machine, group)
        values = [(slot, group.read(slot)) for slot in self.writes]
        known = self.of.results
        if len(known) >= KEPT:
            known.clear()
        known[key] = tuple([(slot, v if type(v) is Affine else v.reshape(1)) for slot, v in values])
        self.misses += 1
        if self.misses > MISSES:
            self.of.leave(self)
        return self.end


def _sources(plan: FunctionPlan, instruction: Instruction) -> tuple[int, ...] | None:
    """The slots from which an instruction computes integers and predicates; None if it does anything else."""
    if instruction.guard is not None or not instruction.writes or not is_plain(instruction, plan, frozenset()):
        return None
    if any(plan.function.registers[index].type.dtype.kind not in "iub" for index in instruction.registers):
        return None
    slots = [plan.slot(part) for operand in instruction.inputs for part in operand.parts]
    found = tuple([slot for slot in slots if slot is not None])
    return found if len(found) == len(slots) else None
