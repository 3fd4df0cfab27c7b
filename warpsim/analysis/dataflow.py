"""Forward data-flow analysis over a graph, shared by the passes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TypeVar

from warpsim.analysis.flow import Block

State = TypeVar("State")
Join = Callable[[State, State], State]


def settle(
    blocks: list[Block], start: State, through: Callable[[int, State], State], join: Join[State]
) -> list[State | None]:
    """Compute the state before each block; None for unreachable blocks.

    ``through`` returns the state after a block without changing its argument; ``join`` merges the states of two paths.
    Both are monotone, and states compare by value.
    """
    before: list[State | None] = [None] * len(blocks)
    if not before:
        return before
    entry = next(b.index for b in blocks if b.first == 0)
    before[entry] = start
    work = [entry]
    waiting = {entry}
    while work:
        index = heapq.heappop(work)
        waiting.discard(index)
        state = before[index]
        assert state is not None
        after = through(index, state)
        for successor in blocks[index].successors:
            old = before[successor]
            new = after if old is None else join(old, after)
            if old is None or new != old:
                before[successor] = new
                if successor not in waiting:
                    waiting.add(successor)
                    heapq.heappush(work, successor)
    return before


def walk(
    blocks: list[Block], start: State, step: Callable[[int, State], State], join: Join[State]
) -> Iterator[tuple[int, State]]:
    """Yield each instruction that can be reached, by its index and in code order, with the state before it; ``step`` returns
    the state after it.
    """

    def through(index: int, state: State) -> State:
        for at in range(blocks[index].first, blocks[index].last):
            state = step(at, state)
        return state

    before = settle(blocks, start, through, join)
    for block in sorted(blocks, key=lambda b: b.first):
        state = before[block.index]
        if state is not None:
            for at in range(block.first, block.last):
                yield at, state
                state = step(at, state)
