"""Graphs: work that is launched repeatedly, in an order that its edges allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import attrs

from warpsim.driver.memory import Memory
from warpsim.driver.owner import Owner
from warpsim.driver.results import DriverError, Result
from warpsim.driver.work import Allocate, Free, Work

KERNEL, COPY, FILL, HOST, CHILD, ALLOCATE, FREE, CONDITIONAL = 0, 1, 2, 3, 4, 10, 11, 13
"""CUgraphNodeType."""
SAME, TOPOLOGY_CHANGED, TYPE_CHANGED = 0, 2, 3
"""CUgraphExecUpdateResult."""
AUTO_FREE = 1
"""CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH."""
CHUNK = 32 << 20
"""A GPU keeps memory for graphs in pieces of so many bytes."""


class UserObject:
    """What a program wants destroyed when the last reference to it goes."""

    def __init__(self, destroy: Callable[[], object], references: int) -> None:
        self._destroy, self.references = destroy, references

    def release(self, count: int) -> None:
        """Give references back."""
        self.references -= count
        if self.references == 0:
            self._destroy()


@attrs.define(eq=False)
class Node:
    """A piece of work, and the nodes that it depends on, with the data of the edges from them (CUgraphEdgeData)."""

    graph: Graph
    work: Work
    before: dict[Node, int]
    attributes: dict[int, bytes] = attrs.field(factory=dict)
    """Values of attributes of launches."""
    kept: Any = None
    """Memory of C that was told of."""


@attrs.define(eq=False)
class Condition:
    """The variable of conditional nodes: a word in memory, which each launch sets if there is a default."""

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
        """The graph made ready, if there can be but one."""
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
        """Add an edge. Only those between kernels have data: CUgraphEdgeData, of ports up to 2 and types up to 1."""
        if first is node or first in node.before or not first.graph is node.graph is self:
            raise DriverError(Result.INVALID_VALUE, "no such edge can be added")
        if data and not (first.work.kind == node.work.kind == KERNEL and data & ~0x10003 == 0 and data & 3 < 3):
            raise DriverError(Result.INVALID_VALUE, f"no edge between such nodes has the data 0x{data:x}")
        node.before[first] = data

    def disconnect(self, first: Node, node: Node) -> None:
        """Remove an edge."""
        self._keep_nodes()
        if node.graph is not self or node.before.pop(first, None) is None:
            raise DriverError(Result.INVALID_VALUE, "the graph has no such edge")

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
        """Topological order of the nodes; ties in the order in which they were added.

        Raises:
            DriverError: the graph has a cycle.
        """
        found = self._reached()
        if len(found) < len(self.nodes):
            raise DriverError(Result.INVALID_VALUE, "the graph has a cycle")
        return found

    def in_cycle(self) -> Node | None:
        """A node that a cycle keeps from being reached."""
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
        """Whether nodes of some kinds are in it, or in graphs of its nodes."""
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
        """Hold references of one's own to objects."""
        for thing, count in objects.items():
            thing.references += count
            self.objects[thing] += count

    def close(self) -> None:
        """Give back the objects, once the graph is destroyed."""
        _release(self.objects)


def _release(objects: Counter[UserObject]) -> None:
    for thing, count in objects.items():
        thing.release(count)
    objects.clear()


@attrs.define(eq=False)
class GraphWork:
    """A graph as a node of another."""

    graph: Graph
    kind: int = CHILD

    def run(self, driver: Owner) -> None:
        """Run all of its work."""
        GraphExec(self.graph).run(driver)


@attrs.define(eq=False)
class Conditional:
    """Graphs that run according to a condition: CUgraphConditionalNodeType says how."""

    condition: Condition
    type: int
    bodies: list[Graph]
    ready: list[GraphExec] = attrs.field(factory=list)
    kind: int = CONDITIONAL

    def run(self, driver: Owner) -> None:
        """Run the body that the condition chooses, or one while the condition holds."""

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
    """A graph made ready. Later changes of the graph do not affect it."""

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
        if node not in self._works:
            raise DriverError(Result.INVALID_VALUE, "the instantiated graph has no such node")
        return self._works[node]

    def replace(self, node: Node, work: Work) -> None:
        """Replace the arguments of one node."""
        old = self.work(node)
        if old.kind != work.kind:
            raise DriverError(Result.INVALID_VALUE, "the node is of another type")
        if getattr(old, "fixed", None) != getattr(work, "fixed", None):
            raise DriverError(Result.INVALID_VALUE, "the number of rows, or of operations, cannot change")
        if isinstance(old, GraphExec) and isinstance(work, GraphWork):
            if old.update(work.graph)[0]:
                raise DriverError(Result.GRAPH_EXEC_UPDATE_FAILURE)
        else:
            self._works[node] = work

    def update(self, graph: Graph) -> tuple[int, Node | None]:
        """Take over the arguments of a graph of the same shape: a CUgraphExecUpdateResult, and the node that is to blame."""
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
        """All work, that of inner graphs included."""
        for work in self._works.values():
            yield work
            for graph in [work] if isinstance(work, GraphExec) else getattr(work, "ready", ()):
                yield from graph.works()

    def run(self, driver: Owner) -> None:
        """Run all of its work."""
        if not self._nested:
            self._claim(driver)
        for condition in self._conditions:
            if condition.default is not None:
                driver.memory.fill(condition.address, condition.default, 4, 1)
        for node in self._order:
            if node not in self.disabled:
                self._works[node].run(driver)

    def _claim(self, driver: Owner) -> None:
        """Account for the memory that a launch needs.

        Raises:
            DriverError: memory that it allocates has not been freed since, or memory that it frees is not there.
        """
        allocations = {work.address: work for work in self.works() if isinstance(work, Allocate)}
        for address in allocations:
            if address in driver.memory.blocks:
                if not self.flags & AUTO_FREE:
                    raise DriverError(Result.INVALID_VALUE, f"the graph's memory at 0x{address:x} has not been freed")
                driver.memory.free(address)
        for work in self.works():
            if isinstance(work, Free) and not {work.address} & {*allocations, *driver.memory.blocks}:
                raise DriverError(Result.INVALID_VALUE, f"the memory at 0x{work.address:x} is not allocated")
        if allocations and not self._claimed:
            self._claimed = -(-sum(work.nbytes for work in allocations.values()) // CHUNK) * CHUNK
            driver.graph_memory.use(self._claimed)

    def close(self, driver: Owner) -> None:
        """Give back objects and memory, once it is destroyed."""
        _release(self.objects)
        driver.graph_memory.use(-self._claimed)
        if self.graph.instance is self:
            self.graph.instance = None


def instantiate(graph: Graph, flags: int = 0) -> GraphExec:
    """Make a graph ready.

    Raises:
        DriverError: it has a cycle, or there is one already and can be but one.
    """
    alone = graph.holds(ALLOCATE, FREE, CONDITIONAL)
    if alone and graph.instance is not None:
        raise DriverError(Result.NOT_SUPPORTED, "a graph with memory or conditional nodes is made ready but once")
    made = GraphExec(graph, flags)
    for thing, count in graph.objects.items():
        thing.references += count
        made.objects[thing] = count
    if alone:
        graph.instance = made
    return made


def _shape(graph: Graph) -> tuple[int, frozenset[tuple[int, int]]]:
    """Its nodes and edges, without what they do."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    return len(numbers), frozenset((numbers[first], numbers[node]) for first, node in graph.edges())


class GraphMemory:
    """The memory of graphs: what is allocated in them, their conditions, and the sizes of CUgraphMem_attribute."""

    def __init__(self) -> None:
        self.allocations: WeakValueDictionary[int, Allocate] = WeakValueDictionary()
        self.conditions: WeakValueDictionary[int, Condition] = WeakValueDictionary()
        self.numbers = [0, 0, 0, 0]
        """What is used, now and at most; what is kept, now and at most."""

    def allocation(self, memory: Memory, nbytes: int, ordinal: int, owner: Graph | None = None) -> Allocate:
        """An allocation of a graph, at an address of its own."""
        work = Allocate(memory.reserve(nbytes), nbytes, ordinal, owner)
        self.allocations[work.address] = work
        return work

    def extent(self, address: int) -> tuple[int, int] | None:
        """The first byte and the size of the allocation that contains an address."""
        found = (work for work in self.allocations.values() if work.address <= address < work.address + work.nbytes)
        return next(((work.address, work.nbytes) for work in found), None)

    def claim(self, address: int, graph: Graph) -> None:
        """Note that a graph frees an allocation: each does once, and either its own graph does or others."""
        found = self.allocations.get(address)
        if found is not None and found.owner is graph:
            allowed = not found.freed_by and graph.instance is None
        else:
            allowed = found is not None and graph not in found.freed_by and found.owner not in found.freed_by
        if found is None or not allowed:
            raise DriverError(Result.INVALID_VALUE, f"a graph frees 0x{address:x}, or no graph allocates it")
        found.freed_by.append(graph)

    def use(self, nbytes: int) -> None:
        """Use more memory, or less."""
        now, most, kept, most_kept = self.numbers
        now += nbytes
        kept = max(kept, now)
        self.numbers = [now, max(most, now), kept, max(most_kept, kept)]

    def trim(self) -> None:
        """Keep no more than what is used."""
        self.numbers[2] = self.numbers[0]
