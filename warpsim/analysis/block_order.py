"""Orders the nodes of a flow graph so that every loop is contiguous, visiting inner loops only once.

If every loop has a single entry (reducible graphs, which compilers make), one depth-first search finds the loop of each
node (Havlak, Nesting of Reducible and Irreducible Loops, 1997). Each loop is then ordered by itself, with inner loops
as single nodes. Other graphs are decomposed component by component, to a depth that no program needs: what is nested
deeper keeps the order of the code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Edges = list[list[int]]
DEPTH = 32
"""Components in components that are decomposed: each takes a search of its own."""


def loop_order(edges: Edges) -> list[int]:
    """A topological order of the graph that keeps strongly connected components together, each ordered in the same way."""
    found = _headers(edges)
    return _by_components(edges) if found is None else _by_headers(edges, *found)


def _sources(edges: Edges) -> Edges:
    sources: Edges = [[] for _ in edges]
    for node, targets in enumerate(edges):
        for target in targets:
            sources[target].append(node)
    return sources


# ---- reducible graphs ----------------------------------------------------------------------------


def _headers(edges: Edges) -> tuple[list[int], list[int]] | None:
    """The header of the innermost loop around each node (-1: none; for a header, the loop around its own), and an order
    of the nodes in which headers come before their loops. None if a loop has several entries.
    """
    tree, sources = Tree(edges, range(len(edges))), _sources(edges)
    header, loops = [-1] * len(edges), _Loops(len(edges))
    for at in reversed(tree.order):
        body = loops.body(at, sources, tree)
        if body is None:
            return None
        for node in body:
            header[node] = at
            loops.into[node] = at
    return header, tree.order


class Tree:
    """A depth-first search: nodes in the ``order`` in which it reaches them, the ``number`` of each (else -1), its ``parent``,
    and the ``last`` below it.
    """

    def __init__(self, edges: Edges, roots: Iterable[int]) -> None:
        self.order: list[int] = []
        self.number, self.parent, self.last = [-1] * len(edges), [-1] * len(edges), [0] * len(edges)
        for root in roots:
            if self.number[root] < 0:
                self._walk(root, edges)

    def _walk(self, root: int, edges: Edges) -> None:
        self._enter(root, -1)
        work = [(root, iter(edges[root]))]
        while work:
            node, targets = work[-1]
            following = next((t for t in targets if self.number[t] < 0), None)
            if following is None:
                self.last[node] = len(self.order) - 1
                work.pop()
            else:
                self._enter(following, node)
                work.append((following, iter(edges[following])))

    def _enter(self, node: int, parent: int) -> None:
        self.number[node], self.parent[node] = len(self.order), parent
        self.order.append(node)

    def below(self, node: int, top: int) -> bool:
        """Whether a node is ``top`` or below it."""
        return self.number[top] <= self.number[node] <= self.last[top]


class _Loops:
    """Loops found so far: each node leads ``into`` the header of one around it, or to itself."""

    def __init__(self, count: int) -> None:
        self.into = list(range(count))

    def outermost(self, node: int) -> int:
        """The header of the largest loop found so far around a node."""
        top = node
        while self.into[top] != top:
            top = self.into[top]
        while self.into[node] != top:
            self.into[node], node = top, self.into[node]
        return top

    def body(self, at: int, sources: Edges, tree: Tree) -> set[int] | None:
        """The nodes and inner loops of the loop whose header is a node; None if it can be entered elsewhere."""
        body = {self.outermost(s) for s in sources[at] if tree.below(s, at)} - {at}
        work = list(body)
        while work:
            node = work.pop()
            for source in sources[node]:
                if tree.below(source, node):
                    continue  # an edge to the header of an inner loop
                found = self.outermost(source)
                if not tree.below(found, at):
                    return None
                if found != at and found not in body:
                    body.add(found)
                    work.append(found)
        return body


def _by_headers(edges: Edges, header: list[int], outer_first: list[int]) -> list[int]:
    count = len(edges)
    inside: list[list[int]] = [
        [] for _ in range(count + 1)
    ]  # the nodes directly in each loop; the last entry: in no loop
    for node in range(count):
        inside[header[node]].append(node)
    greatest = list(range(count))  # the last node of each loop, by which loops are ordered
    for node in reversed(outer_first):
        if header[node] >= 0:
            greatest[header[node]] = max(greatest[header[node]], greatest[node])
    following = _between_loops(edges, header, inside)
    order: list[int] = []
    work = [-1]
    started = [False] * count
    while work:
        node = work.pop()
        if node >= 0:
            order.append(node)
            if started[node]:
                continue
            started[node] = True
        work += reversed(_topological(inside[node], following, greatest))
    return order


def _between_loops(edges: Edges, header: list[int], inside: list[list[int]]) -> Edges:
    """Edges between nodes and loops that lie directly in one loop, without those back to its header."""
    following: Edges = [[] for _ in edges]
    number, last = _nesting(inside)
    starts = [[number[n] for n in nodes] for nodes in inside]
    for node, targets in enumerate(edges):
        for target in targets:
            outer = header[target]
            child = bisect_right(starts[outer], number[node]) - 1
            at = inside[outer][child]
            if child >= 0 and number[node] <= last[at] and at != target:
                following[at].append(target)
    return following


def _nesting(inside: list[list[int]]) -> tuple[list[int], list[int]]:
    """The number of each node in a walk through the loops from the outermost, and the last number in it."""
    number, last = [0] * len(inside), [0] * len(inside)
    work, count = [(node, False) for node in reversed(inside[-1])], 0
    while work:
        node, left = work.pop()
        if left:
            last[node] = count - 1
            continue
        number[node] = count
        count += 1
        work.append((node, True))
        work += [(inner, False) for inner in reversed(inside[node])]
    return number, last


def _topological(nodes: list[int], following: Edges, greatest: list[int]) -> list[int]:
    """Order nodes before their successors; ties as in the code."""
    found: list[int] = []
    seen: set[int] = set()
    for root in sorted(nodes, key=lambda n: greatest[n], reverse=True):
        if root in seen:
            continue
        seen.add(root)
        work = [(root, sorted(following[root]))]
        while work:
            node, pending = work[-1]
            if not pending:
                found.append(node)
                work.pop()
                continue
            target = pending.pop()
            if target not in seen:
                seen.add(target)
                work.append((target, sorted(following[target])))
    found.reverse()
    return found


# ---- any graph -----------------------------------------------------------------------------------


def _by_components(edges: Edges) -> list[int]:
    """Order strongly connected components, each from its first entry on, and the rest of each in the same way."""
    order: list[int] = []
    sources = _sources(edges)
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
