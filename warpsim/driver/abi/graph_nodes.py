"""Graph nodes for libcuda and libcudart: reading their parameters, adding and changing them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from warpsim.driver.abi.calls import call, context, context_or_current, launchable
from warpsim.driver.abi.cu_memory import work_3d
from warpsim.driver.abi.cu_module import function_in
from warpsim.driver.abi.cu_work import CLUSTER, COOPERATIVE, host_call, operations_at, packed
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.graphs import Conditional, Graph, GraphExec, GraphWork, Node
from warpsim.driver.modules import Function
from warpsim.driver.raw import bytes_at, get64, put64, row_at
from warpsim.driver.results import DriverError, Result, require
from warpsim.driver.streams import Event, Record, Wait
from warpsim.driver.work import Allocate, Call, Copy, Fill, Free, Launch, Nothing, Operations, Work

KERNEL_PARAMS = struct.Struct("<Q7I4xQQ")
"""CUDA_KERNEL_NODE_PARAMS_v1: function, grid, block, shared memory, parameters, buffer; newer versions are longer."""
FILL_PARAMS = struct.Struct("<QQIIQQ")
"""CUDA_MEMSET_NODE_PARAMS."""
POOL_PROPERTIES = struct.Struct("<IIii72x")
"""The used part of CUmemPoolProps: allocation type, handle types, location type and id."""
NODE_PARAMS = struct.Struct("<IIII")
"""The head of CUgraphNodeParams: the type, and zeros."""
MOVE = 1
"""CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, CU_GRAPH_USER_OBJECT_MOVE."""
Reader = Callable[[int], Work]


# ---- handles -------------------------------------------------------------------------------------


def handle_of_graph(graph: Graph) -> int:
    """The handle of a graph. It ends with the node that the graph belongs to."""
    if graph.parent is not None:
        handle_of_node(graph.parent)
    return PROCESS.handles.put(graph, graph.parent)


def handle_of_node(node: Node) -> int:
    """The handle of a node. It ends with its graph."""
    handle_of_graph(node.graph)
    return PROCESS.handles.put(node, node.graph)


def nodes_at(address: int, count: int) -> list[Node]:
    """The nodes of an array of handles."""
    return [PROCESS.get(handle, Node, Result.INVALID_VALUE) for handle in row_at(address, count)]


# ---- reading parameters --------------------------------------------------------------------------


def kernel_work(given: int) -> Launch:
    """CUDA_KERNEL_NODE_PARAMS as work: of a function, or of a kernel in a context."""
    handle = get64(given)
    found = launchable(handle or get64(given + 56))
    where = None if handle else context_or_current(get64(given + 64))
    return launch_work(given, function_in(found, where))


def launch_work(given: int, function: Function) -> Launch:
    """A launch of a function with the rest of CUDA_KERNEL_NODE_PARAMS or cudaKernelNodeParams."""
    _, gx, gy, gz, bx, by, bz, shared, params, extra = KERNEL_PARAMS.unpack(bytes_at(given, KERNEL_PARAMS.size))
    block = packed(function, params, extra)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), block, shared, buffer=bool(extra))
    return PROCESS.driver.checked(work)


def checked_copy(work: Copy) -> Copy:
    """A copy that is valid as a node: of at least a byte, and within the pitches."""
    if 0 in (work.width, work.height, work.depth) or min(work.source.pitch, work.target.pitch) < work.width:
        raise DriverError(Result.INVALID_VALUE, "a node copies nothing, or more than a row")
    return work


def copy_work(given: int) -> Copy:
    """CUDA_MEMCPY3D as work."""
    return checked_copy(work_3d(given))


def fill_work(given: int) -> Fill:
    """CUDA_MEMSET_NODE_PARAMS as work."""
    address, pitch, value, unit, width, rows = FILL_PARAMS.unpack(bytes_at(given, FILL_PARAMS.size))
    require(unit in (1, 2, 4) and 0 not in (width, rows), f"{rows} rows of {width} elements of {unit} bytes")
    memory = PROCESS.memory
    size = (rows - 1) * pitch + memory.row(address, unit, width, pitch, rows)
    extent = memory.extent(address) or PROCESS.driver.graph_memory.extent(address)
    if extent is None or address + size > sum(extent):
        raise DriverError(Result.INVALID_VALUE, f"{size} bytes at 0x{address:x} are not in any allocation")
    return Fill(address, value, unit, width, pitch, rows)


def host_work(given: int) -> Call:
    """CUDA_HOST_NODE_PARAMS as work."""
    return host_call(get64(given), get64(given + 8))


def child_work(given: int) -> GraphWork:
    """CUDA_CHILD_GRAPH_NODE_PARAMS as work: a copy of a graph, or the graph itself."""
    graph = PROCESS.get(get64(given), Graph, Result.INVALID_VALUE)
    if get64(given + 8) & 0xFFFFFFFF != MOVE:
        return GraphWork(graph.clone())
    require(graph.parent is None and graph.instance is None, "the graph belongs to a node, or has been instantiated")
    return GraphWork(graph)


def event_at(given: int) -> Event:
    """The event of CUDA_EVENT_RECORD_NODE_PARAMS or CUDA_EVENT_WAIT_NODE_PARAMS."""
    return PROCESS.get(get64(given), Event, Result.INVALID_VALUE)


def allocate_work(given: int) -> Allocate:
    """CUDA_MEM_ALLOC_NODE_PARAMS as work. The address is stored there."""
    kind, handles, where, ordinal = POOL_PROPERTIES.unpack(bytes_at(given, POOL_PROPERTIES.size))
    if kind != 1 or where != 1 or not 0 <= ordinal < len(PROCESS.driver.devices):
        raise DriverError(Result.INVALID_VALUE, "a node allocates pinned memory on a device")
    require(not handles, "memory of a graph cannot be shared with other processes", Result.NOT_SUPPORTED)
    work = PROCESS.driver.graph_memory.allocation(PROCESS.memory, get64(given + 104), ordinal)
    put64(given + 112, work.address)
    return work


def operations_work(given: int) -> Operations:
    """CUDA_BATCH_MEM_OP_NODE_PARAMS as work."""
    where, count, operations, flags = struct.unpack("<QI4xQI", bytes_at(given, 28))
    context_or_current(where)
    require(not flags, f"operation flags {flags}")
    return operations_at(operations, count)


def conditional_work(given: int) -> Conditional:
    """CUDA_CONDITIONAL_NODE_PARAMS as work."""
    handle, kind, size = struct.unpack("<QII", bytes_at(given, 16))
    condition = PROCESS.driver.graph_memory.conditions.get(handle)
    if condition is None or kind > 2 or not 1 <= size <= (2, 1, size)[kind]:
        raise DriverError(Result.INVALID_VALUE, f"condition 0x{handle:x} of type {kind} with {size} bodies")
    return Conditional(condition, kind, [Graph() for _ in range(size)])


READERS: dict[int, Reader] = {
    0: kernel_work,
    1: lambda given: copy_work(given + 16),
    2: fill_work,
    3: host_work,
    4: child_work,
    5: lambda given: Nothing(),
    6: lambda given: Wait(event_at(given)),
    7: lambda given: Record(event_at(given)),
    10: allocate_work,
    11: lambda given: Free(get64(given)),
    12: operations_work,
    13: conditional_work,
}
"""The reader of the parameters in CUgraphNodeParams, by CUgraphNodeType."""
FIXED = (10, 11, 13)
"""Types whose parameters cannot change."""


def any_work(given: int, readers: dict[int, Reader]) -> Work:
    """CUgraphNodeParams as work."""
    kind, *rest = NODE_PARAMS.unpack(bytes_at(given, NODE_PARAMS.size))
    require(kind in readers and not any(rest), f"node type {kind}")
    return readers[kind](given + NODE_PARAMS.size)


# ---- adding and changing -------------------------------------------------------------------------


def add(out: int, graph: Graph, before: int, count: int, work: Work) -> Node:
    """Add a node, and store its handle."""
    wanted = nodes_at(before, count)
    if isinstance(work, Free):
        PROCESS.driver.graph_memory.claim(work.address, graph)
    node = graph.add(work, wanted)
    if isinstance(work, Allocate):
        work.owner = graph
    put64(out, handle_of_node(node))
    if isinstance(work, GraphWork):
        PROCESS.handles.move(work.graph, node)
    return node


def add_any(
    out: int, graph: Graph, before: int, count: int, given: int, readers: dict[int, Reader], edges: int = 0
) -> None:
    """Add the node that CUgraphNodeParams describes. The bodies of a conditional node are stored there."""
    node = add(out, graph, before, count, any_work(given, readers))
    if edges:
        connected, node.before = list(node.before), {}
        for first, data in zip(connected, row_at(edges, count), strict=True):
            graph.connect(first, node, data)
    if isinstance(node.work, Conditional):
        node.kept = (ctypes.c_uint64 * len(node.work.bodies))(*map(handle_of_graph, node.work.bodies))
        put64(given + NODE_PARAMS.size + 16, ctypes.addressof(node.kept))


def work_of(node: Node, kind: type[Any]) -> Any:
    """A node's work, which has to be of a type."""
    require(isinstance(node.work, kind), f"the node is no {kind.__name__}")
    return node.work


def change(node: Node, work: Work) -> None:
    """Change a node's parameters."""
    require(node.work.kind == work.kind, "the node is of another type")
    node.work = with_attributes(work, node.attributes)


def change_ready(graph: GraphExec, node: Node, work: Work) -> None:
    """Change the parameters of a node in an instantiated graph."""
    graph.replace(node, with_attributes(work, node.attributes))


def change_any(node: Node, given: int, readers: dict[int, Reader], graph: GraphExec | None = None) -> None:
    """Change a node's parameters to CUgraphNodeParams, in an instantiated graph if one is given."""
    if node.work.kind in FIXED or (graph is None and isinstance(node.work, GraphWork)):
        raise DriverError(Result.NOT_SUPPORTED, "the parameters of such a node cannot change")
    work = any_work(given, readers)
    if graph is None:
        change(node, work)
    else:
        change_ready(graph, node, work)


def with_attributes(work: Work, attributes: dict[int, bytes]) -> Work:
    """A node's work with its launch attributes."""
    if not isinstance(work, Launch) or not attributes:
        return work
    x, y, z = struct.unpack("<3I", attributes.get(CLUSTER, bytes(12)))
    cooperative = any(attributes.get(COOPERATIVE, b""))
    return PROCESS.driver.checked(attrs.evolve(work, cluster=(x, y, z) if x else None, cooperative=cooperative))


def declare(
    name: str,
    kinds: str,
    read: Callable[..., Work],
    *libraries: str,
    changed: Sequence[str] = ("", "Exec"),
    what: str = "SetParams",
) -> None:
    """Declare the functions that add a node, and that change its parameters.

    Args:
        name: the type of the node; what follows a vertical bar ends the functions' names.
        kinds: the kinds of arguments that describe the node; those in parentheses are missing when a graph's node is changed.
        read: makes work of these arguments.
        libraries: the prefixes of names, ``cu`` and ``cuda``.
        changed: where the parameters can change: in a graph, and in an instantiated one.
        what: the functions' word for changing parameters.
    """
    name, _, suffix = name.partition("|")
    all_kinds, set_kinds = kinds.replace("(", "").replace(")", ""), kinds.partition("(")[0]

    def names(form: str) -> str:
        return " ".join(prefix + form + version for prefix in libraries for version in suffix.split(","))

    @call(f"OgPP{all_kinds}", names(f"GraphAdd{name}Node"))
    def add_node(out: int, graph: Graph, before: int, count: int, *given: object) -> None:
        add(out, graph, before, count, read(*given))

    if "" in changed:

        @call(f"n{set_kinds}", names(f"Graph{name}Node{what}"))
        def set_node(node: Node, *given: object) -> None:
            change(node, read(*given))

    if "Exec" in changed:

        @call(f"xn{all_kinds}", names(f"GraphExec{name}Node{what}"))
        def set_ready(graph: GraphExec, node: Node, *given: object) -> None:
            change_ready(graph, node, read(*given))


def in_context(read: Reader) -> Callable[..., Work]:
    """A reader that is also given a context: it makes no difference, but has to be there."""

    def check(given: int, where: int = 0) -> Work:
        if where:
            context(where)
        return read(given)

    return check


declare("Kernel|,_v2", "O", kernel_work, "cu")
declare("Memcpy", "O(P)", in_context(copy_work), "cu")
declare("Memset", "O(P)", in_context(fill_work), "cu")
declare("Memset", "O", fill_work, "cuda")
declare("Host", "O", host_work, "cu", "cuda")
declare("BatchMemOp", "O", operations_work, "cu")
declare("EventRecord", "E", Record, "cu", "cuda", what="SetEvent")
declare("EventWait", "E", Wait, "cu", "cuda", what="SetEvent")
declare("ChildGraph", "g", lambda graph: GraphWork(graph.clone()), "cu", "cuda", changed=("Exec",))
declare("Empty", "", Nothing, "cu", "cuda", changed=())
declare("MemAlloc", "O", allocate_work, "cu", "cuda", changed=())
declare("MemFree", "P", Free, "cu", "cuda", changed=())
