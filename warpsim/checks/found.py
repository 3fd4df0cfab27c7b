"""What analyses of a module's functions find, once for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from warpsim.errors import Span
from warpsim.machine.plan import KernelPlan
from warpsim.machine.state.notes import Note
from warpsim.program.program import Function, Instruction

FOUND: Note[dict[Callable[..., object], object]] = Note("found")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def is_found(plan: KernelPlan, instruction: Instruction, find: Callable[[Function], Iterable[Span]]) -> bool:
    """Whether an analysis finds an instruction."""
    return instruction.span in all_found(plan, find)


def all_found(plan: KernelPlan, find: Callable[[Function], Iterable[Span]]) -> set[Span]:
    """The instructions that an analysis finds."""
    return _found(plan, find, set)


def known_of(plan: KernelPlan, find: Callable[[Function], Iterable[tuple[K, V]]]) -> dict[K, V]:
    """What an analysis says of what it finds."""
    return _found(plan, find, dict)


def _found(plan: KernelPlan, find: Callable[[Function], Iterable[T]], made: Callable[[Iterable[T]], V]) -> V:
    known = plan.main.notes.setdefault(FOUND, {})
    if find not in known:
        known[find] = made(each for function in plan.program.functions.values() for each in find(function))
    return cast("V", known[find])
