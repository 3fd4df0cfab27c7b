"""libcudart: graph nodes whose parameters differ from the driver's."""

from __future__ import annotations

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_graph import put_kernel
from warpsim.driver.abi.graph_nodes import READERS, add_any, change_any, checked_copy, declare, launch_work, work_of
from warpsim.driver.abi.rt_launch import function_of, stub_of
from warpsim.driver.abi.rt_memory import PARAMETERS, Symbol, box_work, part
from warpsim.driver.graphs import Graph, GraphExec, Node
from warpsim.driver.memory import Side
from warpsim.driver.raw import get64, put_bytes
from warpsim.driver.work import Copy, Launch


def kernel_work(given: int) -> Launch:
    """cudaKernelNodeParams as work."""
    return launch_work(given, function_of(get64(given)))


def copy_work(given: int) -> Copy:
    """cudaMemcpy3DParms as work."""
    return checked_copy(box_work(given))


def linear_copy(target: int, source: int, size: int, kind: int = 0) -> Copy:
    """A copy of bytes."""
    return checked_copy(Copy(Side(target, size), Side(source, size), size))


def copy_to_symbol(name: Symbol, source: int, size: int, offset: int, kind: int) -> Copy:
    """A copy to a variable."""
    return linear_copy(part(name, offset, size), source, size)


def copy_from_symbol(target: int, name: Symbol, size: int, offset: int, kind: int) -> Copy:
    """A copy from a variable."""
    return linear_copy(target, part(name, offset, size), size)


declare("Kernel", "O", kernel_work, "cuda")
declare("Memcpy", "O", copy_work, "cuda")
declare("Memcpy|1D", "PPPI", linear_copy, "cuda")
declare("Memcpy|ToSymbol", "YPPPI", copy_to_symbol, "cuda")
declare("Memcpy|FromSymbol", "PYPPI", copy_from_symbol, "cuda")
ANY = {**READERS, 0: kernel_work, 1: lambda given: copy_work(given + 16)}
"""The reader of the parameters in cudaGraphNodeParams, by type."""


@call("nO", "cudaGraphKernelNodeGetParams")
def get_kernel(node: Node, out: int) -> None:
    """Store cudaKernelNodeParams."""
    put_kernel(node, out, stub_of(work_of(node, Launch).function))


@call("nO", "cudaGraphMemcpyNodeGetParams")
def get_copy(node: Node, out: int) -> None:
    """Store cudaMemcpy3DParms."""
    work: Copy = work_of(node, Copy)
    sides = ((0, 0, 0, 0, side.address, side.pitch, work.width, side.rows) for side in (work.source, work.target))
    put_bytes(out, PARAMETERS.pack(*next(sides), *next(sides), work.width, work.height, work.depth, 4))


@call("!OgPPPO", "cudaGraphAddNode")
def add_node(out: int, graph: Graph, before: int, edges: int, count: int, given: int) -> None:
    """Add a node of any type."""
    add_any(out, graph, before, count, given, ANY, edges)


@call("!nO", "cudaGraphNodeSetParams")
def set_node(node: Node, given: int) -> None:
    """Change a node's parameters."""
    change_any(node, given, ANY)


@call("!xnO", "cudaGraphExecNodeSetParams")
def set_ready_node(graph: GraphExec, node: Node, given: int) -> None:
    """Change the parameters of a node in an instantiated graph."""
    change_any(node, given, ANY, graph)
