"""Forward data-flow analysis, shared by the passes; and the states of asynchronous operations that it follows."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import attrs

from warpsim.analysis.flow import Block
from warpsim.records import frozen

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
    the state after it."""

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


GROUPS = 8
"""wait_group takes 0 to 7, so older groups cannot be distinguished."""


@frozen
class GroupStates:
    """Sets of operations: ``done``: waited for or fenced; ``open``: not committed; ``lost``: not committed when a wait
    passed; ``passed``: in flight when a wait passed; ``ages[k]``: committed, with ``k`` groups committed since (the
    last entry: or more)."""

    done: int = 0
    open: int = 0
    lost: int = 0
    passed: int = 0
    ages: tuple[int, ...] = (0,) * GROUPS

    @property
    def uncommitted(self) -> int:
        """Operations not followed by a commit."""
        return self.open | self.lost

    @property
    def pending(self) -> int:
        """Operations that may be in flight."""
        return functools.reduce(int.__or__, self.ages, self.uncommitted)

    @property
    def only_lost(self) -> int:
        """Operations that, on every path, were waited for without being committed."""
        found = self.lost & ~self.open
        for age in self.ages:
            found &= ~age
        return found

    def issued(self, who: int) -> GroupStates:
        """Issue operations again; earlier waits for them no longer matter."""
        return attrs.evolve(self, done=self.done & ~who, passed=self.passed & ~who, open=self.open | who)

    def committed(self, who: int) -> GroupStates:
        """Commit a group of these: open operations join it, and committed ones become one group older."""
        closed = self.uncommitted & who
        *older, last, oldest = self.ages
        ages = (closed, *(a & who for a in older), (last | oldest) & who)
        kept = tuple(a & ~who for a in self.ages)
        return attrs.evolve(
            self, open=self.open & ~who, lost=self.lost & ~who, ages=tuple(a | b for a, b in zip(ages, kept, strict=True))
        )  # fmt: skip

    def waited(self, who: int, n: int) -> GroupStates:
        """Complete all but the ``n`` newest groups of these."""
        over = 0
        for age in self.ages[n:]:
            over |= age & who
        left = self.uncommitted & who
        ages = tuple(a if k < n else a & ~who for k, a in enumerate(self.ages))
        for age in ages[:n]:
            left |= age & who
        return GroupStates(self.done | over, self.open & ~who, self.lost | self.open & who, self.passed | left, ages)

    def ended(self, who: int) -> GroupStates:
        """Complete or fence these."""
        kept, ages = ~who, tuple(a & ~who for a in self.ages)
        done = self.done | self.pending & who
        return GroupStates(done, self.open & kept, self.lost & kept, self.passed & kept, ages)

    def __or__(self, other: GroupStates) -> GroupStates:
        """What may have happened on either path."""
        if self == other:
            return self
        ages = tuple(a | b for a, b in zip(self.ages, other.ages, strict=True))
        return GroupStates(
            self.done | other.done, self.open | other.open, self.lost | other.lost, self.passed | other.passed, ages
        )


NOTHING = GroupStates()


def needed(asked: Iterable[int], sources: dict[int, list[tuple[int, ...]]]) -> set[int]:
    """The registers on which some depend, and those; ``sources`` are those that each writer of a register reads. It is used up."""
    work = list(asked)
    found = set(work)
    while work:
        for reads in sources.pop(work.pop(), ()):
            new = set(reads) - found
            found |= new
            work += new
    return found
