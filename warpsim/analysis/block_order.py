"""Orders the nodes of a flow graph so that every loop is contiguous.

The graph is taken apart into strongly connected components, and each loop, from its first entry on, again, to a depth that
few programs need: what is nested deeper keeps the order of the code.
"""

from __future__ import annotations

Edges = list[list[int]]
DEPTH = 32
"""Components in components that are taken apart: each takes a search of its own."""


def loop_order(edges: Edges) -> list[int]:
    """A topological order of the graph that keeps strongly connected components together, each ordered in the same way."""
    order: list[int] = []
    sources: Edges = [[] for _ in edges]
    for node, targets in enumerate(edges):
        for target in targets:
            sources[target].append(node)
    work: list[tuple[int | list[int], int]] = [(list(range(len(edges))), 0)]
    while work:
        item, depth = work.pop()
        if isinstance(item, int):
            order.append(item)
            continue
        if depth > DEPTH:
            order += item
            continue
        parts: list[int | list[int]] = []
        for component in _components(item, edges):
            if len(component) == 1:
                parts.append(component[0])
                continue
            inside = set(component)
            entered = [n for n in component if any(m not in inside for m in sources[n])]
            header = min(entered or component)
            parts += [header, [n for n in sorted(component) if n != header]]
        work += [(part, depth + 1) for part in reversed(parts)]
    return order


class _Components:
    """Tarjan's search for strongly connected components of the subgraph of some nodes."""

    def __init__(self, nodes: set[int], edges: Edges) -> None:
        self.nodes, self.edges = nodes, edges
        self.index: dict[int, int] = {}
        self.low: dict[int, int] = {}
        self.stack: list[int] = []
        self.on_stack: set[int] = set()
        self.work: list[tuple[int, list[int]]] = []
        self.found: list[list[int]] = []

    def enter(self, node: int) -> None:
        """Number a node, and put the nodes behind it aside."""
        self.index[node] = self.low[node] = len(self.index)
        self.stack.append(node)
        self.on_stack.add(node)
        self.work.append((node, sorted(e for e in self.edges[node] if e in self.nodes)))

    def walk(self, root: int) -> None:
        """Visit all nodes behind one; components are found in reverse topological order."""
        self.enter(root)
        while self.work:
            node, pending = self.work[-1]
            if not pending:
                self._leave(node)
                continue
            following = pending.pop()
            if following not in self.index:
                self.enter(following)
            elif following in self.on_stack:
                self.low[node] = min(self.low[node], self.index[following])

    def _leave(self, node: int) -> None:
        self.work.pop()
        if self.work:
            above = self.work[-1][0]
            self.low[above] = min(self.low[above], self.low[node])
        if self.low[node] == self.index[node]:
            component = [self.stack.pop()]
            while component[-1] != node:
                component.append(self.stack.pop())
            self.on_stack.difference_update(component)
            self.found.append(component)


def _components(nodes: list[int], edges: Edges) -> list[list[int]]:
    """Strongly connected components of a subgraph, in topological order; ties as in the code."""
    search = _Components(set(nodes), edges)
    for root in sorted(search.nodes, reverse=True):
        if root not in search.index:
            search.walk(root)
    return search.found[::-1]
