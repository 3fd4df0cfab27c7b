"""Forward data-flow analysis over a graph, shared by the passes."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeVar

from warpsim.analysis.graph import Graph

State = TypeVar("State")


def settle(
    graph: Graph, start: State, through: Callable[[int, State], State], join: Callable[[State, State], State]
) -> list[State | None]:
    """Compute the state before each block; None for unreachable blocks.

    ``through`` returns the state after a block without changing its argument; ``join`` merges the states of two paths.
    Both are monotone, and states compare by value.
    """
    before: list[State | None] = [None] * len(graph.blocks)
    if not before:
        return before
    entry = next(b.index for b in graph.blocks if b.first == 0)
    before[entry] = start
    work = [entry]
    waiting = {entry}
    while work:
        index = heapq.heappop(work)
        waiting.discard(index)
        state = before[index]
        assert state is not None
        after = through(index, state)
        for successor in graph.blocks[index].successors:
            old = before[successor]
            new = after if old is None else join(old, after)
            if old is None or new != old:
                before[successor] = new
                if successor not in waiting:
                    waiting.add(successor)
                    heapq.heappush(work, successor)
    return before
