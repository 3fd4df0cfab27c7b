"""Graphs: recorded work that is launched repeatedly, in an order that its edges allow."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from warpsim.driver.owner import Owner
from warpsim.driver.results import DriverError, Result
from warpsim.driver.work import Work

CHILD = 4
"""CU_GRAPH_NODE_TYPE_GRAPH."""


@attrs.define(eq=False)
class Node:
    """A piece of work, and the nodes that it depends on."""

    graph: Graph
    work: Work
    before: list[Node]


class Graph:
    """Nodes in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.clones: dict[Node, Node] = {}
        """In a clone, its nodes by those of the original."""

    def add(self, work: Work, before: Iterable[Node] = ()) -> Node:
        """Add a node that depends on others."""
        wanted = list(dict.fromkeys(before))
        if any(node.graph is not self for node in wanted):
            raise DriverError(Result.INVALID_VALUE, "a dependency belongs to another graph")
        node = Node(self, work, wanted)
        self.nodes.append(node)
        return node

    def remove(self, node: Node) -> None:
        """Remove a node and its edges."""
        self.nodes.remove(node)
        for other in self.nodes:
            other.before = [n for n in other.before if n is not node]

    def edges(self) -> list[tuple[Node, Node]]:
        """Pairs of a node and a dependent node."""
        return [(first, node) for node in self.nodes for first in node.before]

    def order(self) -> list[Node]:
        """Topological order of the nodes; ties in the order in which they were added.

        Raises:
            DriverError: the graph has a cycle.
        """
        left = {node: len(node.before) for node in self.nodes}
        after: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for first, node in self.edges():
            after[first].append(node)
        ready = [node for node in self.nodes if not left[node]]
        found: list[Node] = []
        for node in ready:  # grows while it is read
            found.append(node)
            for other in after[node]:
                left[other] -= 1
                if not left[other]:
                    ready.append(other)
        if len(found) < len(self.nodes):
            raise DriverError(Result.INVALID_VALUE, "the graph has a cycle")
        return found

    def clone(self) -> Graph:
        """Copy the graph."""
        graph = Graph()
        graph.clones = {node: graph.add(node.work) for node in self.nodes}
        for node, clone in graph.clones.items():
            clone.before = [graph.clones[first] for first in node.before]
        return graph


class GraphWork:
    """A graph as a node of another."""

    kind = CHILD

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, driver: Owner) -> None:
        """Run all of its work."""
        for node in self.graph.order():
            node.work.run(driver)


class GraphExec:
    """An instantiated graph. Later changes of the graph do not affect it, but changes of a node's work do."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._order = graph.order()
        self._works = {node: node.work for node in self._order}

    def replace(self, node: Node, work: Work) -> None:
        """Replace the arguments of one node."""
        if node not in self._works or node.work.kind != work.kind:
            raise DriverError(Result.INVALID_VALUE, "the instantiated graph has no such node")
        self._works[node] = work

    def update(self, graph: Graph) -> bool:
        """Take over the arguments of a graph of the same shape; False if the shapes differ."""
        order = graph.order()
        if [n.work.kind for n in order] != [n.work.kind for n in self._order]:
            return False
        for mine, theirs in zip(self._order, order, strict=True):
            self._works[mine] = theirs.work
        return True

    @property
    def kind(self) -> int:
        """The node type of a child graph."""
        return CHILD

    def run(self, driver: Owner) -> None:
        """Run all of its work."""
        for node in self._order:
            self._works[node].run(driver)
