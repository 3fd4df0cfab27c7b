"""Rows of instructions on integers that all threads of a group share, as one step: loop counters, addresses of stages, descriptors.

Loops compute these from the same numbers again, so a row looks up what it has made of those that it reads. What it does not find, the
instructions' own steps compute. Where threads come to differ, or numbers seldom come again, it is left to them for good.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple, TypeAlias

from warpsim.machine.binding.wgmma_chains import is_plain
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan, Rows, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Value
from warpsim.program.program import Instruction

Entry: TypeAlias = "tuple[int, tuple[int, ...], Step]"
"""The slot that an instruction writes, those of what it reads that may change, and its own step."""
MOST_KNOWN = 2048
"""For how many numbers a part of a row keeps what it makes of them."""


class Part(NamedTuple):
    """Entries in a row, from the ``first`` on: what they have made (in ``writes``) of the numbers in ``reads``."""

    first: int
    known: dict[tuple[int, ...], list[Value | None]] | None
    reads: list[int]
    writes: list[int]
    steps: list[Step]


def in_rows(plan: FunctionPlan, body: tuple[Instruction, ...], steps: list[Step]) -> Rows:
    """The rows among the steps of a block."""
    quick, others, at = list(steps), set[int](), 0
    for _, found in itertools.groupby(map(partial(_entry, plan), body, steps), lambda entry: entry is None):
        row = list(found)
        if row[0] is not None:
            quick[at] = Row([entry for entry in row if entry is not None]).step
            others.update(range(at + 1, at + len(row)))
        at += len(row)
    return quick, others


def _entry(plan: FunctionPlan, instruction: Instruction, step: Step) -> Entry | None:
    """The instruction in a row; None if it is no plain one on integers."""
    sources, slots = instruction.inputs, [plan.slot(s) for s in instruction.inputs]
    if instruction.form.n_dest != 1 or not slots or None in slots or instruction.guard is not None:
        return None
    register, integers = instruction.operands[0].register, all(s.type.dtype.kind in "iu" for s in sources)
    if register is None or not integers or not is_plain(instruction, plan, set()):
        return None
    return register.index, tuple([s for s in slots if s is not None and plan.varies(s)]), step


class Row:
    """A row: its entries, those ``apart``, which run by themselves, and places where it is cut."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.written = frozenset([d for d, _, _ in entries])
        self.apart, self.cuts = set[int](), {0, len(entries)}
        self.parts = self._divided()

    def _divided(self) -> list[Part]:
        parts = list[Part]()
        for first, end in itertools.pairwise(sorted(self.cuts.union(*[(k, k + 1) for k in self.apart]))):
            reads, writes = dict[int, None](), dict[int, None]()
            for d, slots, _ in self.entries[first:end]:
                reads.update(dict.fromkeys([s for s in slots if s not in writes]))
                writes[d] = None
            steps = [step for _, _, step in self.entries[first:end]]
            parts.append(Part(first, None if first in self.apart else {}, list(reads), list(writes), steps))
        return parts

    def step(self, machine: Machine, group: Group) -> None:
        """Execute it; moves ``group.at`` to the last of its instructions."""
        env = group.env
        for part in self.parts:
            _, known, reads, writes, steps = part
            numbers = list[int]()
            for slot in reads if known is not None else ():
                value = env[slot]
                if type(value) is not Affine or value.strides != FLAT:
                    self._part(machine, group, part)
                    break
                numbers.append(value.base)
            else:
                key = tuple(numbers)
                found = None if known is None else known.get(key)
                if found is not None:
                    for slot, value in zip(writes, found, strict=True):
                        env[slot] = value
                    continue
                for own in steps:
                    own(machine, group)
                if known is not None:
                    self._keep(group, part, key)
        group.dirty |= self.written
        group.at += len(self.entries) - 1

    def _keep(self, group: Group, part: Part, key: tuple[int, ...]) -> None:
        """Keep what a part has made; one of too many numbers is cut in two."""
        first, known, _, writes, steps = part
        assert known is not None
        known[key] = [group.env[slot] for slot in writes]
        if len(known) > MOST_KNOWN:
            if len(steps) == 1:
                self.apart.add(first)
            self.cuts.add(first + len(steps) // 2)
            self.parts = self._divided()

    def _part(self, machine: Machine, group: Group, part: Part) -> None:
        """Execute a part of which something is not known or differs between threads; what reads that is set apart."""
        n_apart = len(self.apart)
        for number, (_, slots, own) in enumerate(self.entries[part.first :][: len(part.steps)], part.first):
            values = [group.env[slot] for slot in slots]
            if not all(value is None or (type(value) is Affine and value.strides == FLAT) for value in values):
                self.apart.add(number)
            own(machine, group)
        if len(self.apart) > n_apart:
            self.parts = self._divided()
