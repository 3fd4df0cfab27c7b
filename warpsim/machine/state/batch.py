"""The state of a batch: CTAs that run side by side, their threads in groups, and where groups wait for each other."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.machine.selection import Selection, Shape
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array


@attrs.define(eq=False)
class Barrier:
    """One barrier of every CTA of a batch: how many threads have arrived, and the groups that wait.

    ``expected`` is 0 where all threads of the CTA that have not exited are meant; ``partial`` is True once fewer were.
    """

    number: int
    arrived: Array
    expected: Array
    partial: bool = False
    waiting: list[tuple[Group, Any]] = attrs.field(factory=list)
    votes: list[tuple[Selection, Array]] = attrs.field(factory=list)

    @classmethod
    def of(cls, number: int, n_ctas: int) -> Barrier:
        """A barrier at which nobody has arrived."""
        return cls(number, np.zeros(n_ctas, np.int64), np.zeros(n_ctas, np.int64))


@attrs.define(eq=False)
class BatchState:
    """CTAs that run side by side; ``ctas`` are their linear numbers, in batch order."""

    shape: Shape
    ctas: Array
    shared: WordSpace
    local: WordSpace
    alive: Array
    """Threads of each CTA that have not exited."""
    frames: dict[tuple[int, int], Frame] = attrs.field(factory=dict)
    runnable: list[Group] = attrs.field(factory=list)
    parked: list[Group] = attrs.field(factory=list)
    """Groups that wait for lanes of their warps."""
    sleeping: list[Group] = attrs.field(factory=list)
    """Groups that poll, until memory changes or their time comes."""
    generation: int = 0
    meetings: int = 0
    """How many times a barrier of CTAs has been passed."""
    barriers: dict[int, Barrier] = attrs.field(factory=dict)
    cluster_barrier: Any = None
    exited: Array | None = None
    warpgroups: tuple[int, Array] | None = None
    notes: dict[str, Any] = attrs.field(factory=dict)
    """What watchers know of the batch, by their names."""

    @classmethod
    def of(cls, shape: Shape, ctas: Array, shared_size: int, local_size: int) -> BatchState:
        """CTAs that have not begun."""
        return cls(
            shape,
            ctas,
            WordSpace(shared_size, shape.n_ctas),
            WordSpace(local_size, shape.n),
            np.full(shape.n_ctas, shape.n_threads, np.int64),
        )
