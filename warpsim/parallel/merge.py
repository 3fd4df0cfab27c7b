"""Merges the memory of a launch's parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from warpsim.isa.atomic_updates import JOINED
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.values import Array
from warpsim.parallel.footprint import Reduction
from warpsim.parallel.part import Change, Marks, Outcome
from warpsim.types import TYPES


def independent(outcomes: Sequence[Outcome]) -> bool:
    """Whether no part accesses what another changes, except for reductions of the same kind into the same elements."""
    if not all(outcome.known for outcome in outcomes):
        return False
    changing = {at for o in outcomes for at in (*o.written, *(start for start, _ in o.reduced))}
    return all(_independent(at, outcomes) for at in changing)


def _independent(at: int, outcomes: Sequence[Outcome]) -> bool:
    read: list[Marks] = []
    written: list[Marks] = []
    reduced: list[tuple[Reduction, Marks]] = []
    for outcome in outcomes:
        reads = [outcome.read[at]] if at in outcome.read else []
        writes = [outcome.written[at].marks] if at in outcome.written else []
        reductions = [(kind, change.marks) for (start, kind), change in outcome.reduced.items() if start == at]
        reducing = [marks for _, marks in reduced]
        if _meet(reads, [*written, *reducing]) or _meet(writes, [*read, *written, *reducing]):
            return False
        for kind, marks in reductions:
            others = [m for other, m in reduced if other != kind]
            if _meet([marks], [*read, *written, *others]) or _meet([marks], writes):
                return False
        read += reads
        written += writes
        reduced += reductions
    return True


def _meet(some: Iterable[Marks], others: Sequence[Marks]) -> bool:
    return any(one.meets(other) for one in some for other in others)


def apply(memory: GlobalMemory, outcomes: Sequence[Outcome]) -> None:
    """Apply the changes of independent parts to the memory that they started with."""
    for at in {key for o in outcomes for key in (*o.written, *(start for start, _ in o.reduced))}:
        memory.own(at)
    base = {at: memory.bytes_at(at).copy() for outcome in outcomes for at, _ in outcome.reduced}
    for outcome in outcomes:
        for at, change in outcome.written.items():
            memory.bytes_at(at)[change.marks.index()] = change.values
        for (at, kind), change in outcome.reduced.items():
            _reduce(memory.bytes_at(at), base[at], change, kind)
    memory.version += 1


def _reduce(memory: Array, base: Array, change: Change, kind: Reduction) -> None:
    """Combine a part's reduction, which started from ``base``, with the current memory; nothing else accessed these
    elements.
    """
    operation, type_name = kind
    dtype = TYPES[type_name].dtype
    index = change.marks.index()
    now, old = (array[index].view(dtype) for array in (memory, base))
    memory[index] = JOINED[operation](old, now, change.values.view(dtype)).view(np.uint8)
