"""libcuda: graphs."""

from __future__ import annotations

import struct

from warpsim.driver.abi.calls import PROCESS, call, get64, needs, put32, put64
from warpsim.driver.abi.cu_memory import work_3d
from warpsim.driver.abi.cu_work import host_call, packed
from warpsim.driver.graphs import Graph, GraphExec, GraphWork, Node
from warpsim.driver.modules import Function
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import DriverError, Result
from warpsim.driver.work import Call, Fill, Launch, Nothing, Work


def nodes_at(address: int, count: int) -> list[Node]:
    """An array of handles of nodes."""
    return [PROCESS.get(get64(address + 8 * i), Node) for i in range(count)]


def add(out: int, graph: int, before: int, count: int, work: Work) -> None:
    """A node."""
    put64(out, PROCESS.put(PROCESS.get(graph, Graph).add(work, nodes_at(before, count))))


@call("PU", "cuGraphCreate", "cudaGraphCreate")
def graph_create(out: int, flags: int) -> None:
    """An empty graph."""
    needs(out)
    put64(out, PROCESS.put(Graph()))


@call("P", "cuGraphDestroy", "cudaGraphDestroy")
def graph_destroy(handle: int) -> None:
    """The end of a graph."""
    PROCESS.drop(handle, Graph)


@call("PP", "cuGraphClone", "cudaGraphClone")
def graph_clone(out: int, handle: int) -> None:
    """A copy of a graph."""
    needs(out)
    put64(out, PROCESS.put(PROCESS.get(handle, Graph).clone()))


@call("PPP", "cuGraphNodeFindInClone", "cudaGraphNodeFindInClone")
def graph_find(out: int, original: int, clone: int) -> None:
    """The copy of a node."""
    found = PROCESS.get(clone, Graph).clones.get(PROCESS.get(original, Node))
    if found is None:
        raise DriverError(Result.INVALID_VALUE)
    put64(out, PROCESS.put(found))


def kernel_work(given: int) -> Launch:
    """CUDA_KERNEL_NODE_PARAMS as work."""
    handle, gx, gy, gz, bx, by, bz, shared, params, extra = struct.unpack("<Q7I4xQQ", bytes_at(given, 56))
    function = PROCESS.get(handle or get64(given + 56), Function)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), packed(function, params, extra), shared)
    return PROCESS.driver.checked(work)


def fill_work(given: int) -> Fill:
    """CUDA_MEMSET_NODE_PARAMS as work."""
    address, pitch, value, unit, width, rows = struct.unpack("<QQIIQQ", bytes_at(given, 40))
    return Fill(address, value, unit, width, pitch, rows)


@call("PPPPP", "cuGraphAddKernelNode", "cuGraphAddKernelNode_v2")
def add_kernel(out: int, graph: int, before: int, count: int, given: int) -> None:
    """A launch."""
    add(out, graph, before, count, kernel_work(given))


@call("PPPPPP", "cuGraphAddMemcpyNode")
def add_copy(out: int, graph: int, before: int, count: int, given: int, context: int) -> None:
    """A copy."""
    add(out, graph, before, count, work_3d(given))


@call("PPPPPP", "cuGraphAddMemsetNode")
@call("PPPPP", "cudaGraphAddMemsetNode")
def add_fill(out: int, graph: int, before: int, count: int, given: int, context: int = 0) -> None:
    """A set."""
    add(out, graph, before, count, fill_work(given))


@call("PPPPP", "cuGraphAddHostNode", "cudaGraphAddHostNode")
def add_host(out: int, graph: int, before: int, count: int, given: int) -> None:
    """A function of the host."""
    add(out, graph, before, count, host_call(get64(given), get64(given + 8)))


@call("PPPP", "cuGraphAddEmptyNode", "cudaGraphAddEmptyNode")
def add_empty(out: int, graph: int, before: int, count: int) -> None:
    """A node that only orders."""
    add(out, graph, before, count, Nothing())


@call("PPPPP", "cuGraphAddChildGraphNode", "cudaGraphAddChildGraphNode")
def add_child(out: int, graph: int, before: int, count: int, child: int) -> None:
    """A graph, as it is now."""
    add(out, graph, before, count, GraphWork(PROCESS.get(child, Graph).clone()))


@call("PP", "cuGraphChildGraphNodeGetGraph", "cudaGraphChildGraphNodeGetGraph")
def child_graph(node: int, out: int) -> None:
    """The graph of a node."""
    work = PROCESS.get(node, Node).work
    if not isinstance(work, GraphWork):
        raise DriverError(Result.INVALID_VALUE)
    put64(out, PROCESS.put(work.graph))


@call("PPPP", "cuGraphAddDependencies")
@call("PPPPP", "cuGraphAddDependencies_v2", "cudaGraphAddDependencies")
def add_edges(graph: int, first: int, last: int, *rest: int) -> None:
    """More edges."""
    count = rest[-1]
    for one, other in zip(nodes_at(first, count), nodes_at(last, count), strict=True):
        if one not in other.before:
            other.before.append(one)


@call("P", "cuGraphDestroyNode", "cudaGraphDestroyNode")
def destroy_node(handle: int) -> None:
    """Take a node out."""
    node = PROCESS.drop(handle, Node)
    node.graph.remove(node)


def listing(found: list[Node], out: int, count: int) -> None:
    """As many handles as there is room for; how many there are, where nobody asked for handles."""
    if out:
        room = get64(count)
        for index in range(room):
            put64(out + 8 * index, PROCESS.put(found[index]) if index < len(found) else 0)
        put64(count, min(room, len(found)))
    else:
        put64(count, len(found))


@call("PPP", "cuGraphGetNodes", "cudaGraphGetNodes")
def graph_nodes(graph: int, out: int, count: int) -> None:
    """All nodes."""
    listing(PROCESS.get(graph, Graph).nodes, out, count)


@call("PPP", "cuGraphGetRootNodes", "cudaGraphGetRootNodes")
def graph_roots(graph: int, out: int, count: int) -> None:
    """Nodes with nothing before them."""
    listing([n for n in PROCESS.get(graph, Graph).nodes if not n.before], out, count)


@call("PPPP", "cuGraphGetEdges")
@call("PPPPP", "cuGraphGetEdges_v2", "cudaGraphGetEdges")
def graph_edges(graph: int, first: int, last: int, *rest: int) -> None:
    """All edges."""
    edges, count = PROCESS.get(graph, Graph).edges(), rest[-1]
    if first:
        room = get64(count)
        for out, ends in zip((first, last), zip(*edges, strict=True) if edges else ((), ()), strict=True):
            put64(count, room)
            listing(list(ends), out, count)
    else:
        put64(count, len(edges))


@call("PP", "cuGraphNodeGetType", "cudaGraphNodeGetType")
def node_type(node: int, out: int) -> None:
    """What a node does."""
    put32(out, PROCESS.get(node, Node).work.kind)


@call("PPP", "cuGraphNodeGetDependencies")
@call("PPPP", "cuGraphNodeGetDependencies_v2", "cudaGraphNodeGetDependencies")
def node_before(node: int, out: int, *rest: int) -> None:
    """The nodes before one."""
    listing(PROCESS.get(node, Node).before, out, rest[-1])


@call("PPP", "cuGraphNodeGetDependentNodes")
@call("PPPP", "cuGraphNodeGetDependentNodes_v2", "cudaGraphNodeGetDependentNodes")
def node_after(node: int, out: int, *rest: int) -> None:
    """The nodes after one."""
    found = PROCESS.get(node, Node)
    listing([n for n in found.graph.nodes if found in n.before], out, rest[-1])


@call("PP", "cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2")
def set_kernel(node: int, given: int) -> None:
    """Other arguments of a launch."""
    PROCESS.get(node, Node).work = kernel_work(given)


@call("PP", "cuGraphMemsetNodeSetParams", "cudaGraphMemsetNodeSetParams")
def set_fill(node: int, given: int) -> None:
    """Other arguments of a set."""
    PROCESS.get(node, Node).work = fill_work(given)


@call("PP", "cuGraphHostNodeSetParams", "cudaGraphHostNodeSetParams")
def set_host(node: int, given: int) -> None:
    """Another function of the host."""
    PROCESS.get(node, Node).work = host_call(get64(given), get64(given + 8))


@call("PP", "cuGraphHostNodeGetParams", "cudaGraphHostNodeGetParams")
def get_host(node: int, out: int) -> None:
    """The function of the host."""
    work = PROCESS.get(node, Node).work
    if not isinstance(work, Call):
        raise DriverError(Result.INVALID_VALUE)
    put64(out, work.address)
    put64(out + 8, work.data)


@call("PPP", "cuGraphInstantiateWithFlags", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags")
@call("PPPPP", "cuGraphInstantiate_v2", "cuGraphInstantiate")
def instantiate(out: int, graph: int, *rest: int) -> None:
    """Make a graph ready."""
    needs(out)
    put64(out, PROCESS.put(GraphExec(PROCESS.get(graph, Graph))))


@call("PPP", "cuGraphInstantiateWithParams", "cudaGraphInstantiateWithParams")
def instantiate_with(out: int, graph: int, given: int) -> None:
    """Make a graph ready."""
    instantiate(out, graph)
    put32(given + 24, 0)


@call("PP", "cuGraphLaunch", "cudaGraphLaunch")
def graph_launch(handle: int, stream: int) -> None:
    """Do what a graph keeps."""
    PROCESS.driver.replay(PROCESS.get(handle, GraphExec), PROCESS.stream(stream))


@call("P", "cuGraphExecDestroy", "cudaGraphExecDestroy")
def exec_destroy(handle: int) -> None:
    """The end of a graph that was made ready."""
    PROCESS.drop(handle, GraphExec)


@call("PP", "cuGraphUpload", "cudaGraphUpload")
@call("PU", "cuGraphDebugDotPrint")
@call("PPU", "cudaGraphDebugDotPrint")
@call("PU", "cuDeviceGraphMemTrim", "cudaDeviceGraphMemTrim")
def nothing(*words: int) -> None:
    """Nothing to do."""


@call("PPP", "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2")
def exec_set_kernel(handle: int, node: int, given: int) -> None:
    """Other arguments of a launch, in a graph made ready."""
    PROCESS.get(handle, GraphExec).replace(PROCESS.get(node, Node), kernel_work(given))


@call("PPPP", "cuGraphExecMemsetNodeSetParams")
@call("PPP", "cudaGraphExecMemsetNodeSetParams")
def exec_set_fill(handle: int, node: int, given: int, context: int = 0) -> None:
    """Other arguments of a set."""
    PROCESS.get(handle, GraphExec).replace(PROCESS.get(node, Node), fill_work(given))


@call("PPPP", "cuGraphExecMemcpyNodeSetParams")
def exec_set_copy(handle: int, node: int, given: int, context: int) -> None:
    """Other arguments of a copy."""
    PROCESS.get(handle, GraphExec).replace(PROCESS.get(node, Node), work_3d(given))


@call("PPP", "cuGraphExecHostNodeSetParams", "cudaGraphExecHostNodeSetParams")
def exec_set_host(handle: int, node: int, given: int) -> None:
    """Another function of the host."""
    work = host_call(get64(given), get64(given + 8))
    PROCESS.get(handle, GraphExec).replace(PROCESS.get(node, Node), work)


@call("PPP", "cuGraphExecUpdate_v2", "cudaGraphExecUpdate")
def exec_update(handle: int, graph: int, out: int) -> None:
    """Take another graph's arguments."""
    same = PROCESS.get(handle, GraphExec).update(PROCESS.get(graph, Graph))
    put32(out, 0 if same else 1)
    if not same:
        raise DriverError(Result.GRAPH_EXEC_UPDATE_FAILURE)


@call("PPP", "cuGraphExecGetFlags", "cudaGraphExecGetFlags")
def exec_flags(handle: int, out: int, *rest: int) -> None:
    """No flags."""
    put64(out, 0)


@call("PPPU", "cuUserObjectCreate", "cudaUserObjectCreate")
@call("PU", "cuUserObjectRetain", "cudaUserObjectRetain", "cuUserObjectRelease", "cudaUserObjectRelease")
def user_object(*words: int) -> None:
    """What a graph would keep alive stays alive."""
    if len(words) > 2:
        put64(words[0], 0x5150)


@call("PPUU", "cuGraphRetainUserObject", "cudaGraphRetainUserObject")
@call("PPU", "cuGraphReleaseUserObject", "cudaGraphReleaseUserObject")
def graph_object(*words: int) -> None:
    """What a graph would keep alive stays alive."""
