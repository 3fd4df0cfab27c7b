"""Instructions that an analysis of a module's functions finds, once for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warpsim.errors import Span
from warpsim.machine.plan import KernelPlan
from warpsim.machine.state.notes import Note
from warpsim.program.program import Function, Instruction

FOUND: Note[dict[Callable[[Function], Iterable[Span]], set[Span]]] = Note("found")


def is_found(plan: KernelPlan, instruction: Instruction, find: Callable[[Function], Iterable[Span]]) -> bool:
    """Whether an analysis of a module's functions finds an instruction."""
    return instruction.span in all_found(plan, find)


def all_found(plan: KernelPlan, find: Callable[[Function], Iterable[Span]]) -> set[Span]:
    """What an analysis of a module's functions finds."""
    known = plan.main.notes.setdefault(FOUND, {})
    found = known.get(find)
    if found is None:
        functions = plan.program.functions.values()
        found = known[find] = {span for function in functions for span in find(function)}
    return found
