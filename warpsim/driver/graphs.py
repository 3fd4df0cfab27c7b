"""Graphs: work that is launched repeatedly, in an order that its edges allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import attrs

from warpsim.driver.memory import Memory
from warpsim.driver.modules import DriverInterface
from warpsim.driver.results import DriverError, Result, require
from warpsim.driver.work import Allocate, Free, Work
from warpsim.records import define

KERNEL, COPY, FILL, HOST, CHILD, ALLOCATE, FREE, CONDITIONAL = 0, 1, 2, 3, 4, 10, 11, 13
"""CUgraphNodeType."""
SAME, TOPOLOGY_CHANGED, TYPE_CHANGED = 0, 2, 3
"""CUgraphExecUpdateResult."""
AUTO_FREE = 1
"""CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH."""
CHUNK = 32 << 20
"""Graph memory is reserved in multiples of this many bytes."""


class UserObject:
    """An object of the program's, destroyed when its last reference is released."""

    def __init__(self, destroy: Callable[[], object], references: int) -> None:
        self._destroy, self.references = destroy, references

    def release(self, count: int) -> None:
        """Release references."""
        self.references -= count
        if self.references == 0:
            self._destroy()


@define(eq=False)
class Node:
    """A piece of work, and the nodes that it depends on with the data of the edges (CUgraphEdgeData)."""

    graph: Graph
    work: Work
    before: dict[Node, int]
    attributes: dict[int, bytes] = attrs.field(factory=dict)
    """Launch attributes by CUlaunchAttributeID."""
    kept: Any = None
    """C memory whose address was given to the program."""


@define(eq=False)
class Condition:
    """The variable of conditional nodes: a word in memory. Each launch sets it to the default, if there is one."""

    address: int
    default: int | None


class Graph:
    """Nodes in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.clones: dict[Node, Node] = {}
        """In a clone, its nodes by those of the original."""
        self.objects: Counter[UserObject] = Counter()
        self.conditions: list[Condition] = []
        self.instance: GraphExec | None = None
        """The instantiated graph, if there can be only one."""
        self.parent: Node | None = None
        """The node that it belongs to."""

    def add(self, work: Work, before: Iterable[Node] = ()) -> Node:
        """Add a node that depends on others."""
        wanted = list(before)
        node = Node(self, work, dict.fromkeys(wanted, 0))
        if len(node.before) < len(wanted) or any(other.graph is not self for other in wanted):
            raise DriverError(Result.INVALID_VALUE, "a dependency is repeated, or belongs to another graph")
        for graph in inner(work):
            graph.parent = node
        self.nodes.append(node)
        return node

    def connect(self, first: Node, node: Node, data: int = 0) -> None:
        """Add an edge. Only edges between kernels have data: ports up to 2 and types up to 1."""
        if first is node or first in node.before or not first.graph is node.graph is self:
            raise DriverError(Result.INVALID_VALUE, "no such edge can be added")
        if data and not (first.work.kind == node.work.kind == KERNEL and data & ~0x10003 == 0 and data & 3 < 3):
            raise DriverError(Result.INVALID_VALUE, f"no edge between such nodes has the data 0x{data:x}")
        node.before[first] = data

    def disconnect(self, first: Node, node: Node) -> None:
        """Remove an edge."""
        self._keep_nodes()
        require(node.graph is self and node.before.pop(first, None) is not None, "the graph has no such edge")

    def remove(self, node: Node) -> None:
        """Remove a node and its edges."""
        self._keep_nodes()
        self.nodes.remove(node)
        for other in self.nodes:
            other.before.pop(node, None)

    def _keep_nodes(self) -> None:
        if self.holds(ALLOCATE, FREE):
            raise DriverError(
                Result.NOT_SUPPORTED, "nodes and edges of a graph that allocates memory cannot be removed"
            )

    def edges(self) -> list[tuple[Node, Node]]:
        """Pairs of a node and a dependent node."""
        return [(first, node) for node in self.nodes for first in node.before]

    def order(self) -> list[Node]:
        """The nodes in topological order, otherwise in the order in which they were added.

        Raises:
            DriverError: the graph has a cycle.
        """
        found = self._reached()
        require(len(found) >= len(self.nodes), "the graph has a cycle")
        return found

    def in_cycle(self) -> Node | None:
        """A node that cannot be reached because of a cycle."""
        found = set(self._reached())
        return next((node for node in self.nodes if node not in found), None)

    def _reached(self) -> list[Node]:
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
        return found

    def holds(self, *kinds: int) -> bool:
        """Whether the graph, or a graph inside it, has nodes of these kinds."""
        return any(
            node.work.kind in kinds or any(graph.holds(*kinds) for graph in inner(node.work)) for node in self.nodes
        )

    def clone(self) -> Graph:
        """Copy the graph.

        Raises:
            DriverError: it allocates memory, or has conditional nodes.
        """
        if self.holds(ALLOCATE, FREE, CONDITIONAL):
            raise DriverError(Result.NOT_SUPPORTED, "a graph with memory or conditional nodes cannot be copied")
        graph = Graph()
        graph.clones = {node: graph.add(_cloned(node.work)) for node in self.nodes}
        for node, clone in graph.clones.items():
            clone.before = {graph.clones[first]: data for first, data in node.before.items()}
            clone.attributes = dict(node.attributes)
        graph.keep(self.objects)
        return graph

    def keep(self, objects: Counter[UserObject]) -> None:
        """Add references to user objects."""
        for thing, count in objects.items():
            thing.references += count
            self.objects[thing] += count

    def close(self) -> None:
        """Release the user objects of a destroyed graph."""
        _release(self.objects)


def _release(objects: Counter[UserObject]) -> None:
    for thing, count in objects.items():
        thing.release(count)
    objects.clear()


@define(eq=False)
class GraphWork:
    """A graph as a node of another."""

    graph: Graph
    kind: int = CHILD

    def run(self, driver: DriverInterface) -> None:
        """Run all of its work."""
        GraphExec(self.graph).run(driver)


@define(eq=False)
class Conditional:
    """Graphs that run depending on a condition; ``type`` is the CUgraphConditionalNodeType."""

    condition: Condition
    type: int
    bodies: list[Graph]
    ready: list[GraphExec] = attrs.field(factory=list)
    kind: int = CONDITIONAL

    def run(self, driver: DriverInterface) -> None:
        """Run the body that the condition selects; that of a loop while the condition holds."""

        def value() -> int:
            return int.from_bytes(driver.memory.bytes_at(self.condition.address, 4).tobytes(), "little")

        if self.type == 1:
            while value() and not driver.error:
                self.ready[0].run(driver)
            return
        chosen = value() if self.type == 2 else int(not value())
        if chosen < len(self.ready):
            self.ready[chosen].run(driver)


def inner(work: Work) -> list[Graph]:
    """The graphs of a node."""
    if isinstance(work, GraphWork):
        return [work.graph]
    return work.bodies if isinstance(work, Conditional) else []


def _cloned(work: Work) -> Work:
    return GraphWork(work.graph.clone()) if isinstance(work, GraphWork) else work


def _instantiated(work: Work) -> Work:
    if isinstance(work, GraphWork):
        return GraphExec(work.graph, nested=True)
    if isinstance(work, Conditional):
        return attrs.evolve(work, ready=[GraphExec(body, nested=True) for body in work.bodies])
    return work


class GraphExec:
    """An instantiated graph. Later changes of the graph do not affect it."""

    kind = CHILD

    def __init__(self, graph: Graph, flags: int = 0, *, nested: bool = False) -> None:
        self.graph, self.flags, self._nested = graph, flags, nested
        self._nodes, self._shape, self._order = list(graph.nodes), _shape(graph), graph.order()
        self._works = {node: _instantiated(node.work) for node in self._order}
        self._conditions = list(graph.conditions)
        self.disabled: set[Node] = set()
        self.objects: Counter[UserObject] = Counter()
        self._claimed = 0

    def work(self, node: Node) -> Work:
        """The work of a node of the graph."""
        require(node in self._works, "the instantiated graph has no such node")
        return self._works[node]

    def replace(self, node: Node, work: Work) -> None:
        """Replace the arguments of one node."""
        old = self.work(node)
        require(old.kind == work.kind, "the node is of another type")
        if getattr(old, "fixed", None) != getattr(work, "fixed", None):
            raise DriverError(Result.INVALID_VALUE, "the number of rows, or of operations, cannot change")
        if isinstance(old, GraphExec) and isinstance(work, GraphWork):
            require(not old.update(work.graph)[0], result=Result.GRAPH_EXEC_UPDATE_FAILURE)
        else:
            self._works[node] = work

    def update(self, graph: Graph) -> tuple[int, Node | None]:
        """Take the arguments of a graph of the same shape; returns a CUgraphExecUpdateResult and the offending node."""
        if _shape(graph) != self._shape:
            return TOPOLOGY_CHANGED, None
        pairs = list(zip(self._nodes, graph.nodes, strict=True))
        for mine, other in reversed(pairs):
            if self._works[mine].kind != other.work.kind:
                return TYPE_CHANGED, other
        for mine, other in pairs:
            self._works[mine] = _instantiated(other.work)
        return SAME, None

    def works(self) -> Iterator[Work]:
        """All work, including that of inner graphs."""
        for work in self._works.values():
            yield work
            for graph in [work] if isinstance(work, GraphExec) else getattr(work, "ready", ()):
                yield from graph.works()

    def run(self, driver: DriverInterface) -> None:
        """Run all of its work."""
        if not self._nested:
            self._claim(driver)
        for condition in self._conditions:
            if condition.default is not None:
                driver.memory.fill(condition.address, condition.default, 4, 1)
        for node in self._order:
            if node not in self.disabled:
                self._works[node].run(driver)

    def _claim(self, driver: DriverInterface) -> None:
        """Check and reserve the memory that a launch needs.

        Raises:
            DriverError: memory that it allocates has not been freed since, or memory that it frees is not there.
        """
        allocations = {work.address: work for work in self.works() if isinstance(work, Allocate)}
        for address in allocations:
            if address in driver.memory.blocks:
                require(self.flags & AUTO_FREE, f"the graph's memory at 0x{address:x} has not been freed")
                driver.memory.free(address)
        for work in self.works():
            if isinstance(work, Free) and not {work.address} & {*allocations, *driver.memory.blocks}:
                raise DriverError(Result.INVALID_VALUE, f"the memory at 0x{work.address:x} is not allocated")
        if allocations and not self._claimed:
            self._claimed = -(-sum(work.nbytes for work in allocations.values()) // CHUNK) * CHUNK
            driver.graph_memory.use(self._claimed)

    def close(self, driver: DriverInterface) -> None:
        """Release user objects and memory."""
        _release(self.objects)
        driver.graph_memory.use(-self._claimed)
        if self.graph.instance is self:
            self.graph.instance = None


def instantiate(graph: Graph, flags: int = 0) -> GraphExec:
    """Instantiate a graph.

    Raises:
        DriverError: it has a cycle, or it can be instantiated only once and has been.
    """
    alone = graph.holds(ALLOCATE, FREE, CONDITIONAL)
    if alone and graph.instance is not None:
        raise DriverError(Result.NOT_SUPPORTED, "a graph with memory or conditional nodes can have only one instance")
    made = GraphExec(graph, flags)
    for thing, count in graph.objects.items():
        thing.references += count
        made.objects[thing] = count
    if alone:
        graph.instance = made
    return made


def _shape(graph: Graph) -> tuple[int, frozenset[tuple[int, int]]]:
    """The number of nodes, and the edges by node numbers."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    return len(numbers), frozenset((numbers[first], numbers[node]) for first, node in graph.edges())


class GraphMemory:
    """Allocations and conditions of graphs, and the sizes that CUgraphMem_attribute reports."""

    def __init__(self) -> None:
        self.allocations: WeakValueDictionary[int, Allocate] = WeakValueDictionary()
        self.conditions: WeakValueDictionary[int, Condition] = WeakValueDictionary()
        self.numbers = [0, 0, 0, 0]
        """Bytes used, their maximum, bytes reserved, their maximum."""

    def allocation(self, memory: Memory, nbytes: int, ordinal: int, owner: Graph | None = None) -> Allocate:
        """An allocation node, at an address of its own."""
        work = Allocate(memory.reserve(nbytes), nbytes, ordinal, owner)
        self.allocations[work.address] = work
        return work

    def extent(self, address: int) -> tuple[int, int] | None:
        """The first byte and the size of the allocation that contains an address."""
        found = (work for work in self.allocations.values() if work.address <= address < work.address + work.nbytes)
        return next(((work.address, work.nbytes) for work in found), None)

    def claim(self, address: int, graph: Graph) -> None:
        """Note that a graph frees an allocation. Each graph can once; either the one that allocates, or others."""
        found = self.allocations.get(address)
        if found is not None and found.owner is graph:
            allowed = not found.freed_by and graph.instance is None
        else:
            allowed = found is not None and graph not in found.freed_by and found.owner not in found.freed_by
        if found is None or not allowed:
            raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is freed already, or no graph allocates it")
        found.freed_by.append(graph)

    def use(self, nbytes: int) -> None:
        """Change the number of bytes used."""
        now, most, kept, most_kept = self.numbers
        now += nbytes
        kept = max(kept, now)
        self.numbers = [now, max(most, now), kept, max(most_kept, kept)]

    def trim(self) -> None:
        """Release reserved memory that is not used."""
        self.numbers[2] = self.numbers[0]
