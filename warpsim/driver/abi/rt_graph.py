"""libcudart: graphs, where their nodes have parameters of the run time's own."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_graph import (
    READERS,
    add,
    add_any_of,
    change,
    checked_copy,
    launch_work,
    put_kernel,
    set_any_of,
    set_ready_of,
    work_of,
)
from warpsim.driver.abi.rt_launch import function_of, stub_of
from warpsim.driver.abi.rt_memory import PARAMETERS, Symbol, box_work, part
from warpsim.driver.graphs import Graph, GraphExec, Node
from warpsim.driver.memory import Side
from warpsim.driver.raw import get64, put_bytes
from warpsim.driver.work import Copy, Launch, Work


def kernel_work(given: int) -> Launch:
    """cudaKernelNodeParams as work."""
    return launch_work(given, function_of(get64(given)))


def copy_work(given: int) -> Copy:
    """cudaMemcpy3DParms as work."""
    return checked_copy(box_work(given))


OF_RUN_TIME = {**READERS, 0: kernel_work, 1: lambda given: copy_work(given + 16)}


def _declare(name: str, kinds: str, read: Callable[..., Work]) -> None:
    """Functions that add a node, and that set its parameters, also in a graph made ready."""
    adds, _, suffix = name.partition("|")

    @call(f"!OgPP{kinds}", f"cudaGraphAdd{adds}Node{suffix}")
    def add_node(out: int, graph: Graph, before: int, count: int, *given: int) -> None:
        add(out, graph, before, count, read(*given))

    @call(f"!n{kinds}", f"cudaGraph{adds}NodeSetParams{suffix}")
    def set_node(node: Node, *given: int) -> None:
        change(node, read(*given))

    @call(f"!xn{kinds}", f"cudaGraphExec{adds}NodeSetParams{suffix}")
    def set_ready(graph: GraphExec, node: Node, *given: int) -> None:
        set_ready_of(graph, node, read(*given))


def _copy(target: int, source: int, size: int) -> Copy:
    return checked_copy(Copy(Side(target, size), Side(source, size), size))


def to_symbol(name: Symbol, source: int, size: int, offset: int, kind: int) -> Copy:
    """A copy to a variable."""
    return _copy(part(name, offset, size), source, size)


def from_symbol(target: int, name: Symbol, size: int, offset: int, kind: int) -> Copy:
    """A copy from a variable."""
    return _copy(target, part(name, offset, size), size)


_declare("Kernel", "O", kernel_work)
_declare("Memcpy", "O", copy_work)
_declare("Memcpy|1D", "PPPI", lambda target, source, size, kind: _copy(target, source, size))
_declare("Memcpy|ToSymbol", "YPPPI", to_symbol)
_declare("Memcpy|FromSymbol", "PYPPI", from_symbol)


@call("nO", "cudaGraphKernelNodeGetParams")
def get_kernel(node: Node, out: int) -> None:
    """What a node launches."""
    put_kernel(node, out, stub_of(work_of(node, Launch).function))


@call("nO", "cudaGraphMemcpyNodeGetParams")
def get_copy(node: Node, out: int) -> None:
    """What a node copies."""
    work: Copy = work_of(node, Copy)
    words = [
        word
        for side in (work.source, work.target)
        for word in (0, 0, 0, 0, side.address, side.pitch, work.width, side.rows)
    ]
    put_bytes(out, PARAMETERS.pack(*words, work.width, work.height, work.depth, 4))


@call("!OgPPPO", "cudaGraphAddNode")
def add_any(out: int, graph: Graph, before: int, edges: int, count: int, given: int) -> None:
    """A node of any type."""
    add_any_of(out, graph, before, count, given, OF_RUN_TIME, edges)


@call("!nO", "cudaGraphNodeSetParams")
def set_any(node: Node, given: int) -> None:
    """Other parameters of any node."""
    set_any_of(node, given, OF_RUN_TIME)


@call("!xnO", "cudaGraphExecNodeSetParams")
def exec_set_any(graph: GraphExec, node: Node, given: int) -> None:
    """Other parameters of any node of a graph made ready."""
    set_any_of(node, given, OF_RUN_TIME, graph)
