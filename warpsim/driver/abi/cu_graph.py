"""libcuda: graphs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from warpsim.driver.abi.calls import call, context, context_or_current, launchable
from warpsim.driver.abi.cu_memory import box_of, work_3d
from warpsim.driver.abi.cu_module import function_in, handle_of
from warpsim.driver.abi.cu_work import CLUSTER, COOPERATIVE, host_call, operations_at, packed
from warpsim.driver.abi.process import PROCESS, Context
from warpsim.driver.graphs import (
    Condition,
    Conditional,
    Graph,
    GraphExec,
    GraphWork,
    Node,
    UserObject,
    instantiate,
)
from warpsim.driver.modules import Function
from warpsim.driver.raw import bytes_at, get64, put32, put64, put_bytes, row_at
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Event, Record, Stream, Wait
from warpsim.driver.work import BARRIER, Allocate, Call, Copy, Fill, Free, Launch, Nothing, Operations, Work

KERNEL_PARAMS = struct.Struct("<Q7I4xQQ")
"""CUDA_KERNEL_NODE_PARAMS_v1: function, grid, block, shared memory, parameters, buffer; newer ones have more behind it."""
FILL_PARAMS = struct.Struct("<QQIIQQ")
"""CUDA_MEMSET_NODE_PARAMS."""
POOL_PROPERTIES = struct.Struct("<IIii72x")
"""CUmemPoolProps, as far as it matters: type of allocation, types of handles, type and number of the location."""
NODE_PARAMS = struct.Struct("<IIII")
"""What CUgraphNodeParams begins with: the type, and zeros."""
MOVE = 1
"""CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, CU_GRAPH_USER_OBJECT_MOVE."""


# ---- handles -------------------------------------------------------------------------------------


def handle_of_graph(graph: Graph) -> int:
    """The handle of a graph, which ends with the node that it belongs to."""
    if graph.parent is not None:
        handle_of_node(graph.parent)
    return PROCESS.handles.put(graph, graph.parent)


def handle_of_node(node: Node) -> int:
    """The handle of a node, which ends with its graph."""
    handle_of_graph(node.graph)
    return PROCESS.handles.put(node, node.graph)


def nodes_at(address: int, count: int) -> list[Node]:
    """An array of handles of nodes."""
    return [PROCESS.get(handle, Node, Result.INVALID_VALUE) for handle in row_at(address, count)]


def listing(found: Sequence[Node], out: int, count: int) -> None:
    """As many handles as there is room for, and zeros behind; how many there are, where nobody asked for handles."""
    if out:
        room = get64(count)
        if not room:
            raise DriverError(Result.INVALID_VALUE, "room for no handle")
        for index in range(room):
            put64(out + 8 * index, handle_of_node(found[index]) if index < len(found) else 0)
        put64(count, min(room, len(found)))
    else:
        put64(count, len(found))


# ---- parameters of nodes -------------------------------------------------------------------------


def kernel_work(given: int) -> Launch:
    """CUDA_KERNEL_NODE_PARAMS as work: a function, or a kernel and a context."""
    handle = get64(given)
    found = launchable(handle or get64(given + 56))
    where = None if handle else context_or_current(get64(given + 64))
    return launch_work(given, function_in(found, where))


def launch_work(given: int, function: Function) -> Launch:
    """A launch of a function with the rest of CUDA_KERNEL_NODE_PARAMS, or of cudaKernelNodeParams."""
    _, gx, gy, gz, bx, by, bz, shared, params, extra = KERNEL_PARAMS.unpack(bytes_at(given, KERNEL_PARAMS.size))
    block = packed(function, params, extra)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), block, shared, buffer=bool(extra))
    return PROCESS.driver.checked(work)


def copy_work(given: int) -> Copy:
    """CUDA_MEMCPY3D as work of a node."""
    return checked_copy(work_3d(given))


def checked_copy(work: Copy) -> Copy:
    """A copy that a node may do."""
    if 0 in (work.width, work.height, work.depth) or min(work.source.pitch, work.target.pitch) < work.width:
        raise DriverError(Result.INVALID_VALUE, "a node copies nothing, or more than a row")
    return work


def fill_work(given: int) -> Fill:
    """CUDA_MEMSET_NODE_PARAMS as work."""
    address, pitch, value, unit, width, rows = FILL_PARAMS.unpack(bytes_at(given, FILL_PARAMS.size))
    if unit not in (1, 2, 4) or 0 in (width, rows):
        raise DriverError(Result.INVALID_VALUE, f"{rows} rows of {width} elements of {unit} bytes")
    memory = PROCESS.driver.memory
    size = (rows - 1) * pitch + memory.row(address, unit, width, pitch, rows)
    held = memory.extent(address) or next(
        ((a, w.nbytes) for a, w in PROCESS.driver.graph_memory.allocations.items() if a <= address < a + w.nbytes), None
    )
    if held is None or address + size > sum(held):
        raise DriverError(Result.INVALID_VALUE, f"{size} bytes at 0x{address:x} are in no allocation")
    return Fill(address, value, unit, width, pitch, rows)


def host_work(given: int) -> Call:
    """CUDA_HOST_NODE_PARAMS as work."""
    return host_call(get64(given), get64(given + 8))


def child_work(given: int) -> GraphWork:
    """CUDA_CHILD_GRAPH_NODE_PARAMS as work: a copy of a graph, or the graph itself."""
    graph = PROCESS.get(get64(given), Graph, Result.INVALID_VALUE)
    if get64(given + 8) & 0xFFFFFFFF != MOVE:
        return GraphWork(graph.clone())
    if graph.parent is not None or graph.instance is not None:
        raise DriverError(Result.INVALID_VALUE, "the graph belongs to a node, or has been instantiated")
    return GraphWork(graph)


def event_at(given: int) -> Event:
    """The event of a node."""
    return PROCESS.get(get64(given), Event, Result.INVALID_VALUE)


def allocate_work(given: int) -> Allocate:
    """CUDA_MEM_ALLOC_NODE_PARAMS as work; the address is stored there."""
    kind, handles, where, ordinal = POOL_PROPERTIES.unpack(bytes_at(given, POOL_PROPERTIES.size))
    if kind != 1 or where != 1 or not 0 <= ordinal < len(PROCESS.driver.devices):
        raise DriverError(Result.INVALID_VALUE, "a node allocates pinned memory of a device")
    if handles:
        raise DriverError(Result.NOT_SUPPORTED, "memory of a graph cannot be shared with other processes")
    work = PROCESS.driver.graph_memory.allocation(PROCESS.driver.memory, get64(given + 104), ordinal)
    put64(given + 112, work.address)
    return work


def free_work(given: int) -> Free:
    """CUDA_MEM_FREE_NODE_PARAMS as work."""
    return Free(get64(given))


def operations_work(given: int) -> Operations:
    """CUDA_BATCH_MEM_OP_NODE_PARAMS as work."""
    _context, count, operations, flags = struct.unpack("<QI4xQI", bytes_at(given, 28))
    context_or_current(_context)
    if flags:
        raise DriverError(Result.INVALID_VALUE, f"flags of operations: {flags}")
    return operations_at(operations, count)


def conditional_work(given: int) -> Conditional:
    """CUDA_CONDITIONAL_NODE_PARAMS as work; the graphs of its bodies are stored there."""
    handle, kind, size = struct.unpack("<QII", bytes_at(given, 16))
    condition = PROCESS.driver.graph_memory.conditions.get(handle)
    if condition is None or kind > 2 or not 1 <= size <= (2, 1, size)[kind]:
        raise DriverError(Result.INVALID_VALUE, f"condition 0x{handle:x} of type {kind} with {size} bodies")
    return Conditional(condition, kind, [Graph() for _ in range(size)])


Reader = Callable[[int], Work]
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
    11: free_work,
    12: operations_work,
    13: conditional_work,
}
"""How the parameters of each CUgraphNodeType are read."""
FIXED = (10, 11, 13)
"""Types whose parameters cannot change."""


def any_work(given: int, readers: dict[int, Reader] = READERS) -> Work:
    """CUgraphNodeParams as work."""
    kind, *rest = NODE_PARAMS.unpack(bytes_at(given, NODE_PARAMS.size))
    if kind not in readers or any(rest):
        raise DriverError(Result.INVALID_VALUE, f"no node is of type {kind}")
    return readers[kind](given + NODE_PARAMS.size)


# ---- adding nodes --------------------------------------------------------------------------------


def add(out: int, graph: Graph, before: int, count: int, work: Work) -> Node:
    """Add a node."""
    wanted = nodes_at(before, count)
    if isinstance(work, Free):
        PROCESS.driver.graph_memory.claim(work.address, graph)
    node = graph.add(work, wanted)
    if isinstance(work, Allocate):
        work.owner = graph
    if isinstance(work, GraphWork):
        handle_of_node(node)
        PROCESS.handles.move(work.graph, node)
    put64(out, handle_of_node(node))
    return node


@call("OgPPO", "cuGraphAddKernelNode", "cuGraphAddKernelNode_v2")
def add_kernel(out: int, graph: Graph, before: int, count: int, given: int) -> None:
    """A launch."""
    add(out, graph, before, count, kernel_work(given))


@call("OgPPOP", "cuGraphAddMemcpyNode")
def add_copy(out: int, graph: Graph, before: int, count: int, given: int, where: int) -> None:
    """A copy."""
    _usable(where)
    add(out, graph, before, count, copy_work(given))


def _usable(handle: int) -> None:
    """A context may be given, which is not needed; it must not have ended."""
    if handle:
        context(handle)


@call("OgPPOP", "cuGraphAddMemsetNode")
@call("OgPPO", "cudaGraphAddMemsetNode")
def add_fill(out: int, graph: Graph, before: int, count: int, given: int, where: int = 0) -> None:
    """A set."""
    _usable(where)
    add(out, graph, before, count, fill_work(given))


def _declare_add(name: str, read: Reader) -> None:
    @call("OgPPO", f"cuGraphAdd{name}Node", f"cudaGraphAdd{name}Node")
    def add_node(out: int, graph: Graph, before: int, count: int, given: int) -> None:
        add(out, graph, before, count, read(given))


for _name, _read in (("Host", host_work), ("MemAlloc", allocate_work), ("BatchMemOp", operations_work)):
    _declare_add(_name, _read)


@call("OgPP", "cuGraphAddEmptyNode", "cudaGraphAddEmptyNode")
def add_empty(out: int, graph: Graph, before: int, count: int) -> None:
    """A node that only orders."""
    add(out, graph, before, count, Nothing())


@call("OgPPg", "cuGraphAddChildGraphNode", "cudaGraphAddChildGraphNode")
def add_child(out: int, graph: Graph, before: int, count: int, child: Graph) -> None:
    """A graph, as it is now."""
    add(out, graph, before, count, GraphWork(child.clone()))


@call("OgPPE", "cuGraphAddEventRecordNode", "cudaGraphAddEventRecordNode")
def add_record(out: int, graph: Graph, before: int, count: int, event: Event) -> None:
    """A record of an event."""
    add(out, graph, before, count, Record(event))


@call("OgPPE", "cuGraphAddEventWaitNode", "cudaGraphAddEventWaitNode")
def add_wait(out: int, graph: Graph, before: int, count: int, event: Event) -> None:
    """A wait for an event."""
    add(out, graph, before, count, Wait(event))


@call("OgPPP", "cuGraphAddMemFreeNode", "cudaGraphAddMemFreeNode")
def add_free(out: int, graph: Graph, before: int, count: int, address: int) -> None:
    """The end of an allocation."""
    add(out, graph, before, count, Free(address))


@call("OgPPPO", "cuGraphAddNode_v2")
def add_any(out: int, graph: Graph, before: int, edges: int, count: int, given: int) -> None:
    """A node of any type."""
    add_any_of(out, graph, before, count, given, READERS, edges)


@call("OgPPO", "cuGraphAddNode")
def add_any_1(out: int, graph: Graph, before: int, count: int, given: int) -> None:
    """A node of any type."""
    add_any_of(out, graph, before, count, given, READERS)


def add_any_of(
    out: int, graph: Graph, before: int, count: int, given: int, readers: dict[int, Reader], edges: int = 0
) -> None:
    """Add a node that CUgraphNodeParams describes; the bodies of a conditional node are told there."""
    node = add(out, graph, before, count, any_work(given, readers))
    if edges:
        connected, node.before = list(node.before), {}
        for first, data in zip(connected, row_at(edges, count), strict=True):
            graph.connect(first, node, data)
    if isinstance(node.work, Conditional):
        node.kept = (ctypes.c_uint64 * len(node.work.bodies))(*map(handle_of_graph, node.work.bodies))
        put64(given + NODE_PARAMS.size + 16, ctypes.addressof(node.kept))


# ---- what nodes do -------------------------------------------------------------------------------


def work_of(node: Node, kind: type[Any]) -> Any:
    """The work of a node, which has to be of a type."""
    if not isinstance(node.work, kind):
        raise DriverError(Result.INVALID_VALUE, f"the node is no {kind.__name__}")
    return node.work


def change(node: Node, work: Work) -> None:
    """Give a node other parameters."""
    if node.work.kind != work.kind:
        raise DriverError(Result.INVALID_VALUE, "the node is of another type")
    node.work = _with_attributes(work, node.attributes)


def _with_attributes(work: Work, attributes: dict[int, bytes]) -> Work:
    """A launch keeps the attributes of its node."""
    if not isinstance(work, Launch) or not attributes:
        return work
    x, y, z = struct.unpack("<3I", attributes.get(CLUSTER, bytes(12)))
    cooperative = any(attributes.get(COOPERATIVE, b""))
    return PROCESS.driver.checked(attrs.evolve(work, cluster=(x, y, z) if x else None, cooperative=cooperative))


def set_ready_of(graph: GraphExec, node: Node, work: Work) -> None:
    """Give a node of a graph made ready other parameters."""
    graph.replace(node, _with_attributes(work, node.attributes))


def _declare_set(kinds: str, read: Reader, sets: Sequence[str], ready: Sequence[str]) -> None:
    """Functions that set the parameters of a node, and of one of a graph made ready."""

    @call("nO", *sets)
    def set_node(node: Node, given: int) -> None:
        change(node, read(given))

    @call(kinds, *ready)
    def set_ready(graph: GraphExec, node: Node, given: int, where: int = 0) -> None:
        _usable(where)
        set_ready_of(graph, node, read(given))


_KERNEL, _READY = "cuGraphKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"
_declare_set("xnO", kernel_work, (_KERNEL, f"{_KERNEL}_v2"), (_READY, f"{_READY}_v2"))
_declare_set("xnOP", copy_work, ("cuGraphMemcpyNodeSetParams",), ("cuGraphExecMemcpyNodeSetParams",))
_declare_set("xnOP", fill_work, ("cuGraphMemsetNodeSetParams",), ("cuGraphExecMemsetNodeSetParams",))
_declare_set("xnO", fill_work, ("cudaGraphMemsetNodeSetParams",), ("cudaGraphExecMemsetNodeSetParams",))
for _name, _read in (("Host", host_work), ("BatchMemOp", operations_work)):
    _sets, _ready = f"Graph{_name}NodeSetParams", f"GraphExec{_name}NodeSetParams"
    _declare_set("xnO", _read, (f"cu{_sets}", f"cuda{_sets}"), (f"cu{_ready}", f"cuda{_ready}"))


def set_any_of(node: Node, given: int, readers: dict[int, Reader], graph: GraphExec | None = None) -> None:
    """Give any node the parameters of CUgraphNodeParams, or one of a graph made ready."""
    if node.work.kind in FIXED or (graph is None and isinstance(node.work, GraphWork)):
        raise DriverError(Result.NOT_SUPPORTED, "the parameters of such a node cannot change")
    work = any_work(given, readers)
    if graph is None:
        change(node, work)
    else:
        set_ready_of(graph, node, work)


@call("nO", "cuGraphNodeSetParams")
def set_any(node: Node, given: int) -> None:
    """Other parameters of any node."""
    set_any_of(node, given, READERS)


@call("xnO", "cuGraphExecNodeSetParams")
def exec_set_any(graph: GraphExec, node: Node, given: int) -> None:
    """Other parameters of any node of a graph made ready."""
    set_any_of(node, given, READERS, graph)


@call("xng", "cuGraphExecChildGraphNodeSetParams", "cudaGraphExecChildGraphNodeSetParams")
def exec_set_child(graph: GraphExec, node: Node, child: Graph) -> None:
    """The parameters of another graph of the same shape."""
    graph.replace(node, GraphWork(child))


def _declare_event(name: str, kind: type[Any]) -> None:
    @call("nO", f"cuGraph{name}NodeGetEvent", f"cudaGraph{name}NodeGetEvent")
    def get_event(node: Node, out: int) -> None:
        put64(out, PROCESS.handles.of(work_of(node, kind).event))

    @call("nE", f"cuGraph{name}NodeSetEvent", f"cudaGraph{name}NodeSetEvent")
    def set_event(node: Node, event: Event) -> None:
        change(node, kind(event))

    @call("xnE", f"cuGraphExec{name}NodeSetEvent", f"cudaGraphExec{name}NodeSetEvent")
    def exec_set_event(graph: GraphExec, node: Node, event: Event) -> None:
        graph.replace(node, kind(event))


_declare_event("EventRecord", Record)
_declare_event("EventWait", Wait)


def put_kernel(node: Node, out: int, function: int) -> Launch:
    """Store CUDA_KERNEL_NODE_PARAMS_v1: the parameters lie in memory that the node keeps."""
    work: Launch = work_of(node, Launch)
    block = ctypes.create_string_buffer(work.params, max(len(work.params), 1))
    size = ctypes.c_uint64(len(work.params))
    start = ctypes.addressof(block)
    if work.buffer:
        words = [1, start, 2, ctypes.addressof(size), 0]
    else:
        words = [start + param.offset for param in work.function.kernel.params]
    row = (ctypes.c_uint64 * max(len(words), 1))(*words)
    node.kept = block, size, row
    params, extra = (0, ctypes.addressof(row)) if work.buffer else (ctypes.addressof(row), 0)
    put_bytes(out, KERNEL_PARAMS.pack(function, *work.grid, *work.block, work.shared, params, extra))
    return work


@call("nO", "cuGraphKernelNodeGetParams")
def get_kernel(node: Node, out: int) -> None:
    """What a node launches."""
    put_kernel(node, out, handle_of(work_of(node, Launch).function))


@call("nO", "cuGraphKernelNodeGetParams_v2")
def get_kernel_2(node: Node, out: int) -> None:
    """What a node launches, with its kernel and context."""
    function = work_of(node, Launch).function
    put_kernel(node, out, handle_of(function))
    put64(out + 56, 0 if function.origin is None else PROCESS.handles.put(function.origin))
    put64(out + 64, function.module.owner.handle if isinstance(function.module.owner, Context) else 0)


@call("nO", "cuGraphMemcpyNodeGetParams")
def get_copy(node: Node, out: int) -> None:
    """What a node copies."""
    put_bytes(out, box_of(work_of(node, Copy)))


@call("nO", "cuGraphMemsetNodeGetParams", "cudaGraphMemsetNodeGetParams")
def get_fill(node: Node, out: int) -> None:
    """What a node sets."""
    work: Fill = work_of(node, Fill)
    put_bytes(out, FILL_PARAMS.pack(work.address, work.pitch, work.value, work.unit, work.count, work.rows))


@call("nO", "cuGraphHostNodeGetParams", "cudaGraphHostNodeGetParams")
def get_host(node: Node, out: int) -> None:
    """The function of the host."""
    work: Call = work_of(node, Call)
    put_bytes(out, struct.pack("<QQ", work.address, work.data))


@call("nO", "cuGraphChildGraphNodeGetGraph", "cudaGraphChildGraphNodeGetGraph")
def child_graph(node: Node, out: int) -> None:
    """The graph of a node."""
    put64(out, handle_of_graph(work_of(node, GraphWork).graph))


@call("nO", "cuGraphMemAllocNodeGetParams", "cudaGraphMemAllocNodeGetParams")
def get_allocation(node: Node, out: int) -> None:
    """What a node allocates."""
    work: Allocate = work_of(node, Allocate)
    put_bytes(out, POOL_PROPERTIES.pack(1, 0, 1, work.ordinal) + struct.pack("<QQQQ", 0, 0, work.nbytes, work.address))


@call("nO", "cuGraphMemFreeNodeGetParams", "cudaGraphMemFreeNodeGetParams")
def get_free(node: Node, out: int) -> None:
    """What a node frees."""
    put64(out, work_of(node, Free).address)


@call("nO", "cuGraphBatchMemOpNodeGetParams")
def get_operations(node: Node, out: int) -> None:
    """The operations of a node, in memory that it keeps."""
    work: Operations = work_of(node, Operations)
    words = (
        struct.pack("<II40x", o.kind, o.flags)
        if o.kind == BARRIER
        else struct.pack("<I4xQQI4xQQ", o.kind, o.address, o.value, o.flags, 0, 0)
        for o in work.operations
    )
    node.kept = array = ctypes.create_string_buffer(b"".join(words))
    put_bytes(out, struct.pack("<QI4xQI", PROCESS.owner().handle, len(work.operations), ctypes.addressof(array), 0))


PRIORITY = 8
SIZES = {1: 32, COOPERATIVE: 4, CLUSTER: 12, 5: 4, PRIORITY: 4, 9: 8, 10: 4, 14: 4}
"""Bytes of the attributes of launches that a node has, by CUlaunchAttributeID."""


@call("nIO", "cuGraphKernelNodeGetAttribute", "cudaGraphKernelNodeGetAttribute")
def get_attribute(node: Node, number: int, out: int) -> None:
    """An attribute of a launch."""
    work_of(node, Launch)
    if number not in SIZES:
        raise DriverError(Result.INVALID_VALUE, f"attribute {number}")
    put_bytes(out, node.attributes.get(number, bytes(SIZES[number])))


@call("nIO", "cuGraphKernelNodeSetAttribute", "cudaGraphKernelNodeSetAttribute")
def set_attribute(node: Node, number: int, given: int) -> None:
    """Give a launch an attribute. Priorities are those of streams."""
    work = work_of(node, Launch)
    if number not in SIZES:
        raise DriverError(Result.INVALID_VALUE, f"attribute {number}")
    value = bytes_at(given, SIZES[number])
    if number == PRIORITY:
        value = struct.pack("<i", max(min(struct.unpack("<i", value)[0], 0), -5))
    changed = {**node.attributes, number: value}
    node.work, node.attributes = _with_attributes(work, changed), changed


@call("nn", "cuGraphKernelNodeCopyAttributes", "cudaGraphKernelNodeCopyAttributes")
def copy_attributes(target: Node, source: Node) -> None:
    """Give a launch the attributes of another."""
    work_of(source, Launch)
    target.work = _with_attributes(work_of(target, Launch), source.attributes)
    target.attributes = dict(source.attributes)


# ---- graphs --------------------------------------------------------------------------------------


@call("OU", "cuGraphCreate", "cudaGraphCreate")
def graph_create(out: int, flags: int) -> None:
    """An empty graph."""
    if flags:
        raise DriverError(Result.INVALID_VALUE, f"flags of a graph: {flags}")
    put64(out, handle_of_graph(Graph()))


@call("g", "cuGraphDestroy", "cudaGraphDestroy")
def graph_destroy(graph: Graph) -> None:
    """The end of a graph that belongs to no node."""
    if graph.parent is not None:
        raise DriverError(Result.INVALID_VALUE, "the graph belongs to a node")
    PROCESS.handles.end(graph)
    graph.close()


@call("Og", "cuGraphClone", "cudaGraphClone")
def graph_clone(out: int, graph: Graph) -> None:
    """A copy of a graph."""
    put64(out, handle_of_graph(graph.clone()))


@call("Ong", "cuGraphNodeFindInClone", "cudaGraphNodeFindInClone")
def graph_find(out: int, original: Node, clone: Graph) -> None:
    """The copy of a node."""
    found = clone.clones.get(original)
    if found is None:
        raise DriverError(Result.INVALID_VALUE)
    put64(out, handle_of_node(found))


@call("gPPP", "cuGraphAddDependencies")
@call("gPPPP", "cuGraphAddDependencies_v2", "cudaGraphAddDependencies")
def add_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    """More edges."""
    *edges, count = rest
    data = row_at(edges[0], count) if edges and edges[0] else [0] * count
    for one, other, word in zip(nodes_at(first, count), nodes_at(last, count), data, strict=True):
        graph.connect(one, other, word)


@call("gPPP", "cuGraphRemoveDependencies")
@call("gPPPP", "cuGraphRemoveDependencies_v2", "cudaGraphRemoveDependencies")
def remove_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    """Fewer edges."""
    for one, other in zip(nodes_at(first, rest[-1]), nodes_at(last, rest[-1]), strict=True):
        graph.disconnect(one, other)


@call("n", "cuGraphDestroyNode", "cudaGraphDestroyNode")
def destroy_node(node: Node) -> None:
    """Take a node out."""
    node.graph.remove(node)
    PROCESS.handles.end(node)


@call("gPO", "cuGraphGetNodes", "cudaGraphGetNodes")
def graph_nodes(graph: Graph, out: int, count: int) -> None:
    """All nodes."""
    listing(graph.nodes, out, count)


@call("gPO", "cuGraphGetRootNodes", "cudaGraphGetRootNodes")
def graph_roots(graph: Graph, out: int, count: int) -> None:
    """Nodes with nothing before them."""
    listing([node for node in graph.nodes if not node.before], out, count)


def put_edges(data: list[int], edges: list[int], out: int, count: int) -> None:
    """Store the data of edges; it may not be lost where there is any."""
    if edges and edges[0]:
        for index, word in enumerate(data[: get64(count)]):
            put64(edges[0] + 8 * index, word)
    elif out and any(data):
        raise DriverError(Result.LOSSY_QUERY)


@call("gPPO", "cuGraphGetEdges")
@call("gPPPO", "cuGraphGetEdges_v2", "cudaGraphGetEdges")
def graph_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    """All edges."""
    *edges, count = rest
    if bool(first) != bool(last):
        raise DriverError(Result.INVALID_VALUE, "room for one end of edges")
    pairs, room = graph.edges(), get64(count)
    put_edges([node.before[one] for one, node in pairs], edges, first, count)
    for index, out in enumerate((first, last)):
        put64(count, room)
        listing([pair[index] for pair in pairs], out, count)


@call("nPO", "cuGraphNodeGetDependencies")
@call("nPPO", "cuGraphNodeGetDependencies_v2", "cudaGraphNodeGetDependencies")
def node_before(node: Node, out: int, *rest: int) -> None:
    """The nodes before one."""
    *edges, count = rest
    put_edges(list(node.before.values()), edges, out, count)
    listing(list(node.before), out, count)


@call("nPO", "cuGraphNodeGetDependentNodes")
@call("nPPO", "cuGraphNodeGetDependentNodes_v2", "cudaGraphNodeGetDependentNodes")
def node_after(node: Node, out: int, *rest: int) -> None:
    """The nodes after one."""
    *edges, count = rest
    found = [other for other in node.graph.nodes if node in other.before]
    put_edges([other.before[node] for other in found], edges, out, count)
    listing(found, out, count)


@call("nO", "cuGraphNodeGetType", "cudaGraphNodeGetType")
def node_type(node: Node, out: int) -> None:
    """What a node does."""
    put32(out, node.work.kind)


NAMES = {0: "KERNEL", 1: "MEMCPY", 2: "MEMSET", 3: "HOST", 4: "GRAPH", 5: "EMPTY", 6: "EVENT_WAIT", 7: "EVENT_RECORD",
         10: "MEM_ALLOC", 11: "MEM_FREE", 12: "BATCH_MEM_OP", 13: "CONDITIONAL"}  # fmt: skip


@call("gTU", "cuGraphDebugDotPrint", "cudaGraphDebugDotPrint")
def debug_dot(graph: Graph, path: str, flags: int) -> None:
    """Write a graph in the language of Graphviz."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    lines = ["digraph dot {"]
    for node, number in numbers.items():
        name = f"\\n{node.work.function.name}" if isinstance(node.work, Launch) else ""
        lines.append(f'  node_{number} [label="{number}: {NAMES[node.work.kind]}{name}", shape=record];')
    lines += [f"  node_{numbers[first]} -> node_{numbers[node]};" for first, node in graph.edges()]
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("\n".join([*lines, "}\n"]))
    except OSError as problem:
        raise DriverError(Result.OPERATING_SYSTEM, f"{path}: {problem.strerror}") from None


# ---- graphs made ready ---------------------------------------------------------------------------


AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8
"""CUgraphInstantiate_flags."""


@call("!OgP", "cuGraphInstantiateWithFlags", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags")
def instantiate_flags(
    out: int, graph: Graph, flags: int, allowed: int = AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY
) -> None:
    """Make a graph ready. One that the device launches cannot free its memory."""
    if flags & ~allowed or (flags & AUTO_FREE and flags & DEVICE_LAUNCH):
        raise DriverError(Result.INVALID_VALUE, f"flags of an instantiation: {flags}")
    put64(out, PROCESS.handles.put(instantiate(graph, flags)))


@call("!OgPPP", "cuGraphInstantiate_v2", "cuGraphInstantiate")
def instantiate_2(out: int, graph: Graph, *log: int) -> None:
    """Make a graph ready."""
    instantiate_flags(out, graph, 0)


@call("!OgO", "cuGraphInstantiateWithParams", "cudaGraphInstantiateWithParams")
def instantiate_with(out: int, graph: Graph, given: int) -> None:
    """Make a graph ready; its parameters tell why it cannot be, and which node is to blame."""
    try:
        instantiate_flags(out, graph, get64(given), AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY)
    except DriverError:
        blamed = graph.in_cycle()
        put64(given + 16, handle_of_node(blamed) if blamed else 0)
        put32(given + 24, 2 if blamed else 1)
        raise
    put64(given + 16, 0)
    put32(given + 24, 0)


@call("xs", "cuGraphLaunch", "cudaGraphLaunch")
def graph_launch(graph: GraphExec, stream: Stream) -> None:
    """Do what a graph keeps."""
    PROCESS.driver.replay(graph, stream)


@call("xs", "cuGraphUpload", "cudaGraphUpload")
def graph_upload(graph: GraphExec, stream: Stream) -> None:
    """Performance only."""


@call("x", "cuGraphExecDestroy", "cudaGraphExecDestroy")
def exec_destroy(graph: GraphExec) -> None:
    """The end of a graph that was made ready."""
    PROCESS.handles.end(graph)
    graph.close(PROCESS.driver)


@call("xO", "cuGraphExecGetFlags", "cudaGraphExecGetFlags")
def exec_flags(graph: GraphExec, out: int) -> None:
    """The flags that a graph was made ready with."""
    put64(out, graph.flags)


@call("xgPP", "cuGraphExecUpdate")
def exec_update(graph: GraphExec, other: Graph, node: int, result: int) -> None:
    """Take another graph's arguments."""
    code, blamed = graph.update(other)
    put64(node, handle_of_node(blamed) if blamed else 0)
    put32(result, code)
    if code:
        raise DriverError(Result.GRAPH_EXEC_UPDATE_FAILURE)


@call("xgP", "cuGraphExecUpdate_v2", "cudaGraphExecUpdate")
def exec_update_2(graph: GraphExec, other: Graph, out: int) -> None:
    """Take another graph's arguments: result, node, and the other end of an edge."""
    put64(out and out + 16, 0)
    exec_update(graph, other, out and out + 8, out)


def _switchable(graph: GraphExec, node: Node) -> None:
    if graph.work(node).kind not in (0, 1, 2):
        raise DriverError(Result.INVALID_VALUE, "only launches, copies and sets can be disabled")


@call("xnO", "cuGraphNodeGetEnabled", "cudaGraphNodeGetEnabled")
def get_enabled(graph: GraphExec, node: Node, out: int) -> None:
    """Whether a node does its work."""
    _switchable(graph, node)
    put32(out, int(node not in graph.disabled))


@call("xnU", "cuGraphNodeSetEnabled", "cudaGraphNodeSetEnabled")
def set_enabled(graph: GraphExec, node: Node, enabled: int) -> None:
    """Have a node do its work, or nothing."""
    _switchable(graph, node)
    (graph.disabled.discard if enabled else graph.disabled.add)(node)


# ---- memory, conditions, objects -----------------------------------------------------------------


@call("DIO", "cuDeviceGetGraphMemAttribute", "cudaDeviceGetGraphMemAttribute")
def memory_attribute(device: int, number: int, out: int) -> None:
    """How much memory graphs use, or is kept for them."""
    if not 0 <= number <= 3:
        raise DriverError(Result.INVALID_VALUE, f"attribute {number} of graphs' memory")
    put64(out, PROCESS.driver.graph_memory.numbers[number])


@call("DIO", "cuDeviceSetGraphMemAttribute", "cudaDeviceSetGraphMemAttribute")
def set_memory_attribute(device: int, number: int, given: int) -> None:
    """Begin anew to note how much memory it was at most."""
    if number not in (1, 3) or get64(given):
        raise DriverError(Result.INVALID_VALUE, "only what was used at most is set, and to 0")
    numbers = PROCESS.driver.graph_memory.numbers
    numbers[number] = numbers[number - 1]


@call("D", "cuDeviceGraphMemTrim", "cudaDeviceGraphMemTrim")
def trim(device: int) -> None:
    """Give back what is only kept."""
    PROCESS.driver.graph_memory.trim()


@call("OgPUU", "cuGraphConditionalHandleCreate")
def condition_create(out: int, graph: Graph, where: int, default: int, flags: int) -> None:
    """A condition, which is a word in memory: its handle is the address."""
    owner = PROCESS.get(where, Context, Result.INVALID_CONTEXT, Result.CONTEXT_IS_DESTROYED)
    if flags > 1:
        raise DriverError(Result.INVALID_VALUE, f"flags of a condition: {flags}")
    address = PROCESS.driver.memory.allocate(4, owner.ordinal)
    PROCESS.driver.memory.fill(address, 0, 4, 1)
    condition = Condition(address, default if flags else None)
    PROCESS.driver.graph_memory.conditions[address] = condition
    graph.conditions.append(condition)
    put64(out, address)


@call("OgUU", "cudaGraphConditionalHandleCreate")
def condition_of_run_time(out: int, graph: Graph, default: int, flags: int) -> None:
    """A condition in the current context."""
    condition_create(out, graph, PROCESS.context().handle, default, flags)


def _counted(count: int) -> int:
    if not 0 < count < 1 << 31:
        raise DriverError(Result.INVALID_VALUE, f"{count} references")
    return count


@call("OPOUU", "cuUserObjectCreate", "cudaUserObjectCreate")
def object_create(out: int, data: int, destroy: int, count: int, flags: int) -> None:
    """What is destroyed when the last reference to it goes."""
    if flags != 1:
        raise DriverError(Result.INVALID_VALUE, f"flags of a user object: {flags}")
    made = UserObject(host_call(destroy, data).function, _counted(count))
    put64(out, PROCESS.handles.put(made))


@call("uU", "cuUserObjectRetain", "cudaUserObjectRetain")
def object_retain(thing: UserObject, count: int) -> None:
    """More references."""
    thing.references += _counted(count)


@call("uU", "cuUserObjectRelease", "cudaUserObjectRelease")
def object_release(thing: UserObject, count: int) -> None:
    """Fewer references."""
    thing.release(_counted(count))
    if thing.references <= 0:
        PROCESS.handles.end(thing)


@call("guUU", "cuGraphRetainUserObject", "cudaGraphRetainUserObject")
def graph_retain(graph: Graph, thing: UserObject, count: int, flags: int) -> None:
    """A graph has references, new ones or those of the caller."""
    if flags > MOVE:
        raise DriverError(Result.INVALID_VALUE, f"flags of references: {flags}")
    thing.references += 0 if flags == MOVE else _counted(count)
    graph.objects[thing] += _counted(count)


@call("guU", "cuGraphReleaseUserObject", "cudaGraphReleaseUserObject")
def graph_release(graph: Graph, thing: UserObject, count: int) -> None:
    """A graph gives references back."""
    if graph.objects[thing] < _counted(count):
        raise DriverError(Result.INVALID_VALUE, "the graph has fewer references")
    graph.objects[thing] -= count
    object_release(thing, count)
