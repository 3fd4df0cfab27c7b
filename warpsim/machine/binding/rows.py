"""Rows of instructions on integers that all threads of a group share, as one step: loop counters, addresses of stages, descriptors.

Loops compute these from the same numbers again, so a row looks up what an instruction has made of them. What it does not find, the
instruction's own step computes. Where threads come to differ, or numbers seldom come again, it is left to that for good.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TypeAlias

from warpsim.machine.binding.thread_steps import MOST_KNOWN, known_results
from warpsim.machine.binding.wgmma_chains import is_plain
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan, Rows, Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Value
from warpsim.program.program import Instruction

Entry: TypeAlias = "tuple[dict[tuple[int, ...], Value] | None, int, int, int, Step]"
"""An instruction's results by its numbers (None where it gives them up), the slot that it writes, those that it reads, and its own step."""


def in_rows(plan: FunctionPlan, body: tuple[Instruction, ...], steps: list[Step]) -> Rows:
    """The rows among the steps of a block."""
    quick, others, at = list(steps), set[int](), 0
    for _, found in itertools.groupby(map(partial(_entry, plan), body, steps), lambda entry: entry is None):
        row = list(found)
        if row[0] is not None:
            quick[at] = _step([entry for entry in row if entry is not None])
            others.update(range(at + 1, at + len(row)))
        at += len(row)
    return quick, others


def _entry(plan: FunctionPlan, instruction: Instruction, step: Step) -> Entry | None:
    """The instruction in a row; None if it is no plain one on one or two integers."""
    form, sources = instruction.form, instruction.inputs
    if form.n_dest != 1 or not 1 <= len(sources) <= 2 or instruction.guard is not None:
        return None
    result, types = instruction.operands[0], tuple([s.type.dtype for s in sources])
    slots, register = [plan.slot(s) for s in sources], result.register
    one, other, integers = slots[0], slots[-1], all(t.kind in "iu" for t in types)
    if one is None or other is None or register is None or not integers or not is_plain(instruction, plan, set()):
        return None
    width, signed = register.type.dtype.itemsize, result.type.signed
    known = known_results(instruction.op, form.function, types, width, signed=signed)
    return known, register.index, one, other, step


def _step(entries: list[Entry]) -> Step:
    """The step of a row; it moves ``group.at`` to the last of them."""
    row = [(number, *entry) for number, entry in enumerate(entries)]
    written, more = frozenset([slot for _, slot, *_ in entries]), len(row) - 1

    def step(machine: Machine, group: Group) -> None:
        env = group.env
        for number, known, d, i, j, own in row:
            if known is None:
                own(machine, group)
                continue
            a, b = env[i], env[j]
            if type(a) is Affine and type(b) is Affine and a.strides == FLAT == b.strides:
                numbers = a.base, b.base
                found = known.get(numbers)
                if found is None:
                    own(machine, group)
                    found = known[numbers] = group.read(d)
                    if len(known) > MOST_KNOWN:
                        known.clear()
                        row[number] = number, None, d, i, j, own
                env[d] = found
            else:
                own(machine, group)
                if a is not None and b is not None:
                    row[number] = number, None, d, i, j, own
        group.dirty.update(written)
        group.at += more

    return step
