"""libcuda: graphs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_memory import box_of
from warpsim.driver.abi.cu_module import handle_of
from warpsim.driver.abi.cu_work import CLUSTER, COOPERATIVE, host_call
from warpsim.driver.abi.graph_nodes import (
    FILL_PARAMS,
    KERNEL_PARAMS,
    MOVE,
    POOL_PROPERTIES,
    READERS,
    add_any,
    change_any,
    handle_of_graph,
    handle_of_node,
    nodes_at,
    with_attributes,
    work_of,
)
from warpsim.driver.abi.process import PROCESS, Context
from warpsim.driver.graphs import Condition, Graph, GraphExec, GraphWork, Node, UserObject, instantiate
from warpsim.driver.raw import bytes_at, get64, put32, put64, put_bytes, row_at
from warpsim.driver.results import DriverError, Result, present, require
from warpsim.driver.streams import Record, Stream, Wait
from warpsim.driver.work import BARRIER, Allocate, Call, Copy, Fill, Free, Launch, Operations

# ---- nodes ---------------------------------------------------------------------------------------


@call("OgPPPO", "cuGraphAddNode_v2")
def add_node(out: int, graph: Graph, before: int, edges: int, count: int, given: int) -> None:
    add_any(out, graph, before, count, given, READERS, edges)


call("OgPPO", "cuGraphAddNode")(
    lambda out, graph, before, count, given: add_any(out, graph, before, count, given, READERS)
)
call("nO", "cuGraphNodeSetParams")(lambda node, given: change_any(node, given, READERS))
call("xnO", "cuGraphExecNodeSetParams")(lambda graph, node, given: change_any(node, given, READERS, graph))


def _event_handle(kind: type[Any]) -> Callable[[Node], int]:
    return lambda node: PROCESS.handles.of(work_of(node, kind).event)


call("n4", "cuGraphNodeGetType cudaGraphNodeGetType")(lambda node: node.work.kind)
call("n8", "cuGraphEventRecordNodeGetEvent cudaGraphEventRecordNodeGetEvent")(_event_handle(Record))
call("n8", "cuGraphEventWaitNodeGetEvent cudaGraphEventWaitNodeGetEvent")(_event_handle(Wait))
call("n8", "cuGraphMemFreeNodeGetParams cudaGraphMemFreeNodeGetParams")(lambda node: work_of(node, Free).address)
call("n8", "cuGraphChildGraphNodeGetGraph cudaGraphChildGraphNodeGetGraph")(
    lambda node: handle_of_graph(work_of(node, GraphWork).graph)
)


def put_kernel(node: Node, out: int, function: int) -> Launch:
    """Store CUDA_KERNEL_NODE_PARAMS_v1; the node keeps the parameters' memory."""
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


call("nO", "cuGraphKernelNodeGetParams")(
    lambda node, out: put_kernel(node, out, handle_of(work_of(node, Launch).function))
)


@call("nO", "cuGraphKernelNodeGetParams_v2")
def get_kernel_2(node: Node, out: int) -> None:
    """Store CUDA_KERNEL_NODE_PARAMS, with the kernel and the context."""
    function = work_of(node, Launch).function
    put_kernel(node, out, handle_of(function))
    put64(out + 56, 0 if function.origin is None else PROCESS.handles.put(function.origin))
    put64(out + 64, function.module.owner.handle if isinstance(function.module.owner, Context) else 0)


call("nB", "cuGraphMemcpyNodeGetParams")(lambda node: box_of(work_of(node, Copy)))


@call("nB", "cuGraphMemsetNodeGetParams cudaGraphMemsetNodeGetParams")
def fill_params(node: Node) -> bytes:
    work: Fill = work_of(node, Fill)
    return FILL_PARAMS.pack(work.address, work.pitch, work.value, work.unit, work.count, work.rows)


@call("nB", "cuGraphHostNodeGetParams cudaGraphHostNodeGetParams")
def host_params(node: Node) -> bytes:
    work: Call = work_of(node, Call)
    return struct.pack("<QQ", work.address, work.data)


@call("nB", "cuGraphMemAllocNodeGetParams cudaGraphMemAllocNodeGetParams")
def allocate_params(node: Node) -> bytes:
    work: Allocate = work_of(node, Allocate)
    return POOL_PROPERTIES.pack(1, 0, 1, work.ordinal) + struct.pack("<QQQQ", 0, 0, work.nbytes, work.address)


@call("nB", "cuGraphBatchMemOpNodeGetParams")
def operations_params(node: Node) -> bytes:
    """CUDA_BATCH_MEM_OP_NODE_PARAMS; the node keeps the array's memory."""
    work: Operations = work_of(node, Operations)
    words = (
        struct.pack("<II40x", o.kind, o.flags)
        if o.kind == BARRIER
        else struct.pack("<I4xQQI4xQQ", o.kind, o.address, o.value, o.flags, 0, 0)
        for o in work.operations
    )
    node.kept = array = ctypes.create_string_buffer(b"".join(words))
    return struct.pack("<QI4xQI", PROCESS.owner().handle, len(work.operations), ctypes.addressof(array), 0)


PRIORITY = 8
SIZES = {1: 32, COOPERATIVE: 4, CLUSTER: 12, 5: 4, PRIORITY: 4, 9: 8, 10: 4, 14: 4}
"""Sizes of launch attributes, by CUlaunchAttributeID."""


def _check_attribute(node: Node, number: int) -> Launch:
    work: Launch = work_of(node, Launch)
    require(number in SIZES, f"attribute {number}")
    return work


@call("nIB", "cuGraphKernelNodeGetAttribute cudaGraphKernelNodeGetAttribute")
def get_attribute(node: Node, number: int) -> bytes:
    _check_attribute(node, number)
    return node.attributes.get(number, bytes(SIZES[number]))


@call("nIO", "cuGraphKernelNodeSetAttribute cudaGraphKernelNodeSetAttribute")
def set_attribute(node: Node, number: int, given: int) -> None:
    """Set a launch attribute of a node. Priorities have the range of streams."""
    work = _check_attribute(node, number)
    value = bytes_at(given, SIZES[number])
    if number == PRIORITY:
        value = struct.pack("<i", max(min(struct.unpack("<i", value)[0], 0), -5))
    changed = {**node.attributes, number: value}
    node.work, node.attributes = with_attributes(work, changed), changed


@call("nn", "cuGraphKernelNodeCopyAttributes cudaGraphKernelNodeCopyAttributes")
def copy_attributes(target: Node, source: Node) -> None:
    work_of(source, Launch)
    target.work = with_attributes(work_of(target, Launch), source.attributes)
    target.attributes = dict(source.attributes)


# ---- graphs --------------------------------------------------------------------------------------


@call("8U", "cuGraphCreate cudaGraphCreate")
def create_graph(flags: int) -> int:
    require(not flags, f"graph flags {flags}")
    return handle_of_graph(Graph())


@call("g", "cuGraphDestroy cudaGraphDestroy")
def destroy_graph(graph: Graph) -> None:
    require(graph.parent is None, "the graph belongs to a node")
    PROCESS.handles.end(graph)
    graph.close()


call("8g", "cuGraphClone cudaGraphClone")(lambda graph: handle_of_graph(graph.clone()))
call("8ng", "cuGraphNodeFindInClone cudaGraphNodeFindInClone")(
    lambda original, clone: handle_of_node(present(clone.clones.get(original)))
)


@call("gPPP", "cuGraphAddDependencies")
@call("gPPPP", "cuGraphAddDependencies_v2 cudaGraphAddDependencies")
def add_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    *edges, count = rest
    data = row_at(edges[0], count) if edges and edges[0] else [0] * count
    for one, other, word in zip(nodes_at(first, count), nodes_at(last, count), data, strict=True):
        graph.connect(one, other, word)


@call("gPPP", "cuGraphRemoveDependencies")
@call("gPPPP", "cuGraphRemoveDependencies_v2 cudaGraphRemoveDependencies")
def remove_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    for one, other in zip(nodes_at(first, rest[-1]), nodes_at(last, rest[-1]), strict=True):
        graph.disconnect(one, other)


@call("n", "cuGraphDestroyNode cudaGraphDestroyNode")
def destroy_node(node: Node) -> None:
    node.graph.remove(node)
    PROCESS.handles.end(node)


def put_nodes(found: Sequence[Node], out: int, count: int) -> None:
    """Store as many handles as fit, followed by zeros; or, if nobody asked for handles, how many there are."""
    if not out:
        put64(count, len(found))
        return
    room = get64(count)
    require(room, "no room for handles")
    for index in range(room):
        put64(out + 8 * index, handle_of_node(found[index]) if index < len(found) else 0)
    put64(count, min(room, len(found)))


call("gPO", "cuGraphGetNodes cudaGraphGetNodes")(lambda graph, out, count: put_nodes(graph.nodes, out, count))
call("gPO", "cuGraphGetRootNodes cudaGraphGetRootNodes")(
    lambda graph, out, count: put_nodes([node for node in graph.nodes if not node.before], out, count)
)


def put_edges(data: list[int], edges: list[int], out: int, count: int) -> None:
    """Store the data of edges. It cannot be left out if there is any."""
    if edges and edges[0]:
        for index, word in enumerate(data[: get64(count)]):
            put64(edges[0] + 8 * index, word)
    elif out and any(data):
        raise DriverError(Result.LOSSY_QUERY)


@call("gPPO", "cuGraphGetEdges")
@call("gPPPO", "cuGraphGetEdges_v2 cudaGraphGetEdges")
def get_edges(graph: Graph, first: int, last: int, *rest: int) -> None:
    *edges, count = rest
    require(bool(first) == bool(last), "room for one end of edges")
    pairs, room = graph.edges(), get64(count)
    put_edges([node.before[one] for one, node in pairs], edges, first, count)
    for index, out in enumerate((first, last)):
        put64(count, room)
        put_nodes([pair[index] for pair in pairs], out, count)


@call("nPO", "cuGraphNodeGetDependencies")
@call("nPPO", "cuGraphNodeGetDependencies_v2 cudaGraphNodeGetDependencies")
def get_dependencies(node: Node, out: int, *rest: int) -> None:
    *edges, count = rest
    put_edges(list(node.before.values()), edges, out, count)
    put_nodes(list(node.before), out, count)


@call("nPO", "cuGraphNodeGetDependentNodes")
@call("nPPO", "cuGraphNodeGetDependentNodes_v2 cudaGraphNodeGetDependentNodes")
def get_dependents(node: Node, out: int, *rest: int) -> None:
    *edges, count = rest
    found = [other for other in node.graph.nodes if node in other.before]
    put_edges([other.before[node] for other in found], edges, out, count)
    put_nodes(found, out, count)


NAMES = {0: "KERNEL", 1: "MEMCPY", 2: "MEMSET", 3: "HOST", 4: "GRAPH", 5: "EMPTY", 6: "EVENT_WAIT", 7: "EVENT_RECORD",
         10: "MEM_ALLOC", 11: "MEM_FREE", 12: "BATCH_MEM_OP", 13: "CONDITIONAL"}  # fmt: skip


@call("gTU", "cuGraphDebugDotPrint cudaGraphDebugDotPrint")
def print_dot(graph: Graph, path: str, flags: int) -> None:
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


# ---- instantiated graphs -------------------------------------------------------------------------

AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8
"""CUgraphInstantiate_flags."""


@call("!8gP", "cuGraphInstantiateWithFlags cudaGraphInstantiate cudaGraphInstantiateWithFlags")
def instantiate_with_flags(graph: Graph, flags: int, allowed: int = AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY) -> int:
    """Instantiate a graph. One that the device can launch cannot free its memory."""
    if flags & ~allowed or (flags & AUTO_FREE and flags & DEVICE_LAUNCH):
        raise DriverError(Result.INVALID_VALUE, f"instantiation flags {flags}")
    return PROCESS.handles.put(instantiate(graph, flags))


call("!8gPPP", "cuGraphInstantiate_v2 cuGraphInstantiate")(lambda graph, *log: instantiate_with_flags(graph, 0))


@call("!8gO", "cuGraphInstantiateWithParams cudaGraphInstantiateWithParams")
def instantiate_with_params(graph: Graph, given: int) -> int:
    """Instantiate a graph. CUDA_GRAPH_INSTANTIATE_PARAMS receives the error, and the node that caused it."""
    put64(given + 16, 0)
    put32(given + 24, 0)
    try:
        return instantiate_with_flags(graph, get64(given), AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY)
    except DriverError:
        cause = graph.in_cycle()
        put64(given + 16, handle_of_node(cause) if cause else 0)
        put32(given + 24, 2 if cause else 1)
        raise


call("xs", "cuGraphLaunch cudaGraphLaunch")(lambda graph, stream: PROCESS.driver.replay(graph, stream))
call("xs", "cuGraphUpload cudaGraphUpload")(lambda graph, stream: None)  # it affects performance only


@call("x", "cuGraphExecDestroy cudaGraphExecDestroy")
def destroy_ready(graph: GraphExec) -> None:
    PROCESS.handles.end(graph)
    graph.close(PROCESS.driver)


call("x8", "cuGraphExecGetFlags cudaGraphExecGetFlags")(lambda graph: graph.flags)


@call("xgPP", "cuGraphExecUpdate")
def update(graph: GraphExec, other: Graph, node: int, where: int) -> None:
    """Give an instantiated graph the parameters of another; store the result, and the node that caused an error."""
    code, cause = graph.update(other)
    put64(node, handle_of_node(cause) if cause else 0)
    put32(where, code)
    require(not code, result=Result.GRAPH_EXEC_UPDATE_FAILURE)


@call("xgP", "cuGraphExecUpdate_v2 cudaGraphExecUpdate")
def update_2(graph: GraphExec, other: Graph, out: int) -> None:
    """Do the same, and store both in CUgraphExecUpdateResultInfo."""
    put64(out and out + 16, 0)
    update(graph, other, out and out + 8, out)


def _check_switch(graph: GraphExec, node: Node) -> None:
    require(graph.work(node).kind in (0, 1, 2), "only launches, copies and fills can be disabled")


@call("xn4", "cuGraphNodeGetEnabled cudaGraphNodeGetEnabled")
def is_enabled(graph: GraphExec, node: Node) -> int:
    _check_switch(graph, node)
    return int(node not in graph.disabled)


@call("xnU", "cuGraphNodeSetEnabled cudaGraphNodeSetEnabled")
def set_enabled(graph: GraphExec, node: Node, enabled: int) -> None:
    _check_switch(graph, node)
    (graph.disabled.discard if enabled else graph.disabled.add)(node)


# ---- memory, conditions, user objects ------------------------------------------------------------


@call("DI8", "cuDeviceGetGraphMemAttribute cudaDeviceGetGraphMemAttribute")
def memory_attribute(device: int, number: int) -> int:
    require(0 <= number <= 3, f"graph memory attribute {number}")
    return PROCESS.driver.graph_memory.numbers[number]


@call("DIO", "cuDeviceSetGraphMemAttribute cudaDeviceSetGraphMemAttribute")
def reset_memory_attribute(device: int, number: int, given: int) -> None:
    require(number in (1, 3) and not get64(given), "only high-water marks can be set, and only to 0")
    numbers = PROCESS.driver.graph_memory.numbers
    numbers[number] = numbers[number - 1]


call("D", "cuDeviceGraphMemTrim cudaDeviceGraphMemTrim")(lambda device: PROCESS.driver.graph_memory.trim())


@call("8gPUU", "cuGraphConditionalHandleCreate")
def create_condition(graph: Graph, where: int, default: int, flags: int) -> int:
    """Create a condition. Its handle is its address."""
    owner = PROCESS.get(where, Context, Result.INVALID_CONTEXT, Result.CONTEXT_IS_DESTROYED)
    require(flags <= 1, f"condition flags {flags}")
    address = PROCESS.memory.allocate(4, owner.ordinal)
    PROCESS.memory.fill(address, 0, 4, 1)
    condition = Condition(address, default if flags else None)
    PROCESS.driver.graph_memory.conditions[address] = condition
    graph.conditions.append(condition)
    return address


call("!8gUU", "cudaGraphConditionalHandleCreate")(
    lambda graph, default, flags: create_condition(graph, PROCESS.context().handle, default, flags)
)


def _checked(count: int) -> int:
    require(0 < count < 1 << 31, f"{count} references")
    return count


@call("8POUU", "cuUserObjectCreate cudaUserObjectCreate")
def create_object(data: int, destroy: int, count: int, flags: int) -> int:
    """Create a user object, which is destroyed with its last reference."""
    require(flags == 1, f"user object flags {flags}")
    return PROCESS.handles.put(UserObject(host_call(destroy, data).function, _checked(count)))


@call("uU", "cuUserObjectRetain cudaUserObjectRetain")
def retain_object(thing: UserObject, count: int) -> None:
    thing.references += _checked(count)


@call("uU", "cuUserObjectRelease cudaUserObjectRelease")
def release_object(thing: UserObject, count: int) -> None:
    thing.release(_checked(count))
    if thing.references <= 0:
        PROCESS.handles.end(thing)


@call("guUU", "cuGraphRetainUserObject cudaGraphRetainUserObject")
def retain_for_graph(graph: Graph, thing: UserObject, count: int, flags: int) -> None:
    """Give a graph references: new ones, or the caller's."""
    require(flags <= MOVE, f"reference flags {flags}")
    graph.objects[thing] += _checked(count)
    thing.references += 0 if flags == MOVE else count


@call("guU", "cuGraphReleaseUserObject cudaGraphReleaseUserObject")
def release_from_graph(graph: Graph, thing: UserObject, count: int) -> None:
    require(graph.objects[thing] >= _checked(count), "the graph has fewer references")
    graph.objects[thing] -= count
    release_object(thing, count)


@call("sU", "cuStreamBeginCapture_v2 cudaStreamBeginCapture")
@call("s", "cuStreamBeginCapture")
def begin(
    stream: Stream, mode: int = 0, graph: Graph | None = None, before: int = 0, edges: int = 0, count: int = 0
) -> None:
    """Begin to capture a stream, into a new graph or after some nodes of a graph."""
    require(stream.context is not None, "the default stream cannot be captured", Result.STREAM_CAPTURE_UNSUPPORTED)
    require(mode <= 2, f"capture mode {mode}")
    stream.begin(mode, graph, nodes_at(before, count))


call("sgPPPU", "cuStreamBeginCaptureToGraph cudaStreamBeginCaptureToGraph")(
    lambda stream, graph, before, edges, count, mode: begin(stream, mode, graph, before, edges, count)
)


def _captured(stream: Stream) -> Stream:
    require(stream.context is not None, result=Result.STREAM_CAPTURE_IMPLICIT)
    require(stream.capture is not None, "the stream is not captured", Result.ILLEGAL_STATE)
    return stream


@call("sP", "cuStreamEndCapture cudaStreamEndCapture")
def end(stream: Stream, out: int) -> None:
    """End a capture, and store the handle of its graph."""
    put64(out, 0)
    put64(out, handle_of_graph(_captured(stream).end()))


@call("s4", "cuStreamIsCapturing cudaStreamIsCapturing")
def status(stream: Stream) -> int:
    """The CUstreamCaptureStatus: none, active, invalidated."""
    return 0 if stream.capture is None else 2 if stream.capture.invalid else 1


@call("sOP", "cuStreamGetCaptureInfo")
@call("sOPPPP", "cuStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo_v2")
def get_information(stream: Stream, where: int, number: int, graph: int = 0, nodes: int = 0, count: int = 0) -> None:
    """Store the status of a stream's capture, its number and graph, and the nodes that the next one will depend on."""
    put32(where, status(stream))
    capture = stream.capture
    if capture is None:
        return
    put64(number, capture.number)
    put64(graph, handle_of_graph(capture.graph))
    stream.kept = (ctypes.c_uint64 * max(len(stream.tail), 1))(*map(handle_of_node, stream.tail))
    put64(nodes, ctypes.addressof(stream.kept))
    put64(count, len(stream.tail))


@call("sOPPPPP", "cuStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3")
def get_information_3(stream: Stream, where: int, number: int, graph: int, nodes: int, edges: int, count: int) -> None:
    """Store the same, and that no edge has data."""
    put64(edges, 0)
    get_information(stream, where, number, graph, nodes, count)


@call("sPPU", "cuStreamUpdateCaptureDependencies")
@call("sPPPU", "cuStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies")
def update_dependencies(stream: Stream, nodes: int, *rest: int) -> None:
    """Add to the nodes that the next one will depend on, or replace them."""
    count, replace = rest[-2:]
    given = nodes_at(nodes, count)
    before = _captured(stream).tail
    stream.tail = given if replace else list(dict.fromkeys([*before, *given]))


call("O", "cuThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode")(lambda mode: put32(mode, 0))
