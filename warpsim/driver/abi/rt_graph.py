"""libcudart: graphs' nodes of launches and copies."""

from __future__ import annotations

import struct

from warpsim.driver.abi.calls import PROCESS, call
from warpsim.driver.abi.cu_graph import add
from warpsim.driver.abi.cu_work import packed
from warpsim.driver.abi.rt_launch import function_of, symbol
from warpsim.driver.abi.rt_memory import box_work
from warpsim.driver.graphs import GraphExec, Node
from warpsim.driver.memory import Side
from warpsim.driver.raw import bytes_at
from warpsim.driver.work import Copy, Launch


def kernel_work(given: int) -> Launch:
    """cudaKernelNodeParams as work."""
    address, gx, gy, gz, bx, by, bz, shared, params, extra = struct.unpack("<Q7I4xQQ", bytes_at(given, 56))
    function = function_of(address)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), packed(function, params, extra), shared)
    return PROCESS.driver.checked(work)


@call("PPPPP", "cudaGraphAddKernelNode")
def add_kernel(out: int, graph: int, before: int, count: int, given: int) -> None:
    """A launch."""
    add(out, graph, before, count, kernel_work(given))


@call("PP", "cudaGraphKernelNodeSetParams")
def set_kernel(node: int, given: int) -> None:
    """Other arguments of a launch."""
    PROCESS.get(node, Node).work = kernel_work(given)


@call("PPP", "cudaGraphExecKernelNodeSetParams")
def exec_set_kernel(handle: int, node: int, given: int) -> None:
    """Other arguments of a launch, in a graph made ready."""
    PROCESS.get(handle, GraphExec).replace(PROCESS.get(node, Node), kernel_work(given))


@call("PPPPP", "cudaGraphAddMemcpyNode")
def add_copy(out: int, graph: int, before: int, count: int, given: int) -> None:
    """A copy of a box."""
    add(out, graph, before, count, box_work(given))


@call("PPPPPPPI", "cudaGraphAddMemcpyNode1D")
def add_copy_1d(out: int, graph: int, before: int, count: int, target: int, source: int, size: int, kind: int) -> None:
    """A copy of bytes."""
    add(out, graph, before, count, Copy(Side(target), Side(source), size))


@call("PPPPPPPPI", "cudaGraphAddMemcpyNodeToSymbol")
def add_to_symbol(
    out: int, graph: int, before: int, count: int, name: int, source: int, size: int, offset: int, kind: int
) -> None:
    """A copy to a variable."""
    add(out, graph, before, count, Copy(Side(symbol(name)[0] + offset), Side(source), size))


@call("PPPPPPPPI", "cudaGraphAddMemcpyNodeFromSymbol")
def add_from_symbol(
    out: int, graph: int, before: int, count: int, target: int, name: int, size: int, offset: int, kind: int
) -> None:
    """A copy from a variable."""
    add(out, graph, before, count, Copy(Side(target), Side(symbol(name)[0] + offset), size))
