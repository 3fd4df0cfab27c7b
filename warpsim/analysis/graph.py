"""Relations between the blocks of a function: reachability, post-dominance, and control dependence."""

from __future__ import annotations

import functools

from warpsim.analysis.flow import Block


class Graph:
    """The flow graph. Sets of blocks are integers with one bit per block; the bit above the last block is the exit."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.exit = len(blocks)
        self.predecessors: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            for successor in block.successors:
                self.predecessors[successor].append(block.index)
        self.post_dominators = self._post_dominators()

    def _post_dominators(self) -> list[int]:
        """The immediate post-dominator of each block: the first block where all paths from it join, or the exit."""
        backward = [*self.predecessors, [b.index for b in self.blocks if not b.successors]]
        forward = [[*b.successors] or [self.exit] for b in self.blocks] + [[]]
        return [self.exit if m < 0 else m for m in immediate_dominators(backward, forward, self.exit)[: self.exit]]

    @functools.cache  # noqa: B019 - lives as long as the function is analysed
    def within(self, start: int, end: int) -> int:
        """The blocks on paths from ``start`` that do not pass ``end``."""
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
        """The blocks whose execution a branch may decide: those between it and the point where its paths join."""
        return functools.reduce(
            int.__or__, (self.within(s, self.post_dominators[branch]) for s in self.blocks[branch].successors), 0
        )

    @functools.cache  # noqa: B019 - likewise
    def shared(self, branch: int) -> int:
        """The blocks of its region that are reached on more than one side of a branch."""
        once = twice = 0
        for successor in dict.fromkeys(self.blocks[branch].successors):
            way = self.within(successor, self.post_dominators[branch])
            once, twice = once | way, twice | (once & way)
        return twice

    def reachable(self, start: int) -> int:
        """The blocks reachable from ``start``, including itself."""
        return self.within(start, self.exit)


def immediate_dominators(successors: list[list[int]], predecessors: list[list[int]], root: int) -> list[int]:
    """The immediate dominator of each node reachable from ``root``, else -1 (Lengauer and Tarjan, 1979)."""
    order, number, parent = _depth_first(successors, root)
    forest = _Forest(list(number))
    semi = forest.semi
    waiting: list[list[int]] = [[] for _ in successors]
    found = [-1] * len(successors)
    for node in reversed(order[1:]):
        reached = [semi[forest.least(source)] for source in predecessors[node] if number[source] >= 0]
        semi[node] = min([semi[node], *reached])
        waiting[order[semi[node]]].append(node)
        above = parent[node]
        forest.ancestor[node] = above
        for other in waiting[above]:
            lowest = forest.least(other)
            found[other] = lowest if semi[lowest] < semi[other] else above
        waiting[above].clear()
    for node in order[1:]:
        if found[node] != order[semi[node]]:
            found[node] = found[found[node]]
    return found


def _depth_first(successors: list[list[int]], root: int) -> tuple[list[int], list[int], list[int]]:
    """The nodes reachable from ``root`` in the order of a depth-first search; the place of each there (else -1); and
    its parent in the tree.
    """
    number, parent = [-1] * len(successors), [-1] * len(successors)
    order: list[int] = []
    work = [(root, -1)]
    while work:
        node, above = work.pop()
        if number[node] < 0:
            number[node], parent[node] = len(order), above
            order.append(node)
            work += [(target, node) for target in reversed(successors[node]) if number[target] < 0]
    return order, number, parent


class _Forest:
    """The nodes handled so far, each below its ``ancestor``; ``semi`` are the places of their semidominators."""

    def __init__(self, semi: list[int]) -> None:
        self.semi = semi
        self.ancestor = [-1] * len(semi)
        self._label = list(range(len(semi)))

    def least(self, node: int) -> int:
        """The node with the least semidominator on the path to the root of the forest; compresses the path."""
        ancestor, label, semi = self.ancestor, self._label, self.semi
        way = []
        while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
            way.append(node)
            node = ancestor[node]
        for below in reversed(way):
            above = ancestor[below]
            if semi[label[above]] < semi[label[below]]:
                label[below] = label[above]
            ancestor[below] = ancestor[above]
            node = below
        return label[node]
