"""libcuda: capture of streams into graphs."""

from __future__ import annotations

import ctypes

from warpsim.driver.abi.calls import call, result
from warpsim.driver.abi.graph_nodes import handle_of_graph, handle_of_node, nodes_at
from warpsim.driver.graphs import Graph
from warpsim.driver.raw import put32, put64
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Stream


@call("sU", "cuStreamBeginCapture_v2", "cudaStreamBeginCapture")
@call("s", "cuStreamBeginCapture")
def begin(stream: Stream, mode: int = 0) -> None:
    """Begin to capture a stream into a new graph."""
    _begin(stream, mode, None, 0, 0)


@call("sgPPPU", "cuStreamBeginCaptureToGraph", "cudaStreamBeginCaptureToGraph")
def begin_into(stream: Stream, graph: Graph, before: int, edges: int, count: int, mode: int) -> None:
    """Begin to capture a stream into a graph, after some of its nodes."""
    _begin(stream, mode, graph, before, count)


def _begin(stream: Stream, mode: int, graph: Graph | None, before: int, count: int) -> None:
    if stream.context is None:
        raise DriverError(Result.STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot be captured")
    if mode > 2:
        raise DriverError(Result.INVALID_VALUE, f"capture mode {mode}")
    stream.begin(mode, graph, nodes_at(before, count))


def _captured(stream: Stream) -> Stream:
    if stream.context is None:
        raise DriverError(Result.STREAM_CAPTURE_IMPLICIT)
    if stream.capture is None:
        raise DriverError(Result.ILLEGAL_STATE, "the stream is not captured")
    return stream


@call("sP", "cuStreamEndCapture", "cudaStreamEndCapture")
def end(stream: Stream, out: int) -> None:
    """End a capture, and store the handle of its graph."""
    put64(out, 0)
    put64(out, handle_of_graph(_captured(stream).end()))


@result(put32, "sO", "cuStreamIsCapturing", "cudaStreamIsCapturing")
def status(stream: Stream) -> int:
    """The CUstreamCaptureStatus: none, active, invalidated."""
    return 0 if stream.capture is None else 2 if stream.capture.invalid else 1


@call("sOP", "cuStreamGetCaptureInfo")
@call("sOPPPP", "cuStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v2")
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


@call("sOPPPPP", "cuStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v3")
def get_information_3(stream: Stream, where: int, number: int, graph: int, nodes: int, edges: int, count: int) -> None:
    """Store the same, and that no edge has data."""
    put64(edges, 0)
    get_information(stream, where, number, graph, nodes, count)


@call("sPPU", "cuStreamUpdateCaptureDependencies")
@call("sPPPU", "cuStreamUpdateCaptureDependencies_v2", "cudaStreamUpdateCaptureDependencies")
def update_dependencies(stream: Stream, nodes: int, *rest: int) -> None:
    """Add to the nodes that the next one will depend on, or replace them."""
    count, replace = rest[-2:]
    given = nodes_at(nodes, count)
    before = _captured(stream).tail
    stream.tail = given if replace else list(dict.fromkeys([*before, *given]))


@call("O", "cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode")
def exchange_mode(mode: int) -> None:
    """Store the mode, which makes no difference here."""
    put32(mode, 0)
