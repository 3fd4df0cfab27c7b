"""Order between the blocks of a function: who reaches whom, where ways meet again, and what a branch decides."""

from __future__ import annotations

import functools

from warpsim.analysis.flow import Block


class Graph:
    """The flow graph. Sets of blocks are integers with one bit for each; the bit above the last block is the exit."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.exit = len(blocks)
        self.predecessors: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            for successor in block.successors:
                self.predecessors[successor].append(block.index)
        self.meets = self._meets()

    def _meets(self) -> list[int]:
        """The block at which all ways from a block meet first (its immediate post-dominator), or the exit."""
        every = (1 << (self.exit + 1)) - 1
        leaves = 1 << self.exit
        after = [every] * self.exit
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                common = every if block.successors else leaves
                for successor in block.successors:
                    common &= after[successor]
                common |= 1 << block.index
                if common != after[block.index]:
                    after[block.index] = common
                    changed = True
        meets = []
        for block in self.blocks:
            strict = after[block.index] & ~(1 << block.index)
            # Of the blocks that all ways pass, the first has all the others behind it.
            found = [m for m in members(strict) if m < self.exit and after[m] == strict]
            meets.append(found[0] if found else self.exit)
        return meets

    @functools.cache  # noqa: B019 - lives as long as the function is analysed
    def within(self, start: int, end: int) -> int:
        """The blocks on ways from ``start`` that do not pass ``end``."""
        found = 0
        work = [start] if start != end else []
        while work:
            at = work.pop()
            if found >> at & 1:
                continue
            found |= 1 << at
            work += [s for s in self.blocks[at].successors if s != end and not found >> s & 1]
        return found

    @functools.cache  # noqa: B019 - likewise
    def region(self, branch: int) -> int:
        """The blocks whose execution a branch may decide: those between it and the place where its ways meet."""
        return functools.reduce(
            int.__or__, (self.within(s, self.meets[branch]) for s in self.blocks[branch].successors), 0
        )

    def reachable(self, start: int) -> int:
        """The blocks on all ways from ``start``, itself included."""
        return self.within(start, self.exit)


def members(bits: int) -> list[int]:
    """The numbers of the bits that are set."""
    text = bin(bits)[:1:-1]
    return [i for i, digit in enumerate(text) if digit == "1"]
