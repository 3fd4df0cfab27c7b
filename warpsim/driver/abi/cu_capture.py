"""libcuda: capture of streams into graphs."""

from __future__ import annotations

import ctypes

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_graph import handle_of_graph, handle_of_node, nodes_at
from warpsim.driver.graphs import Graph, Node
from warpsim.driver.raw import put32, put64
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Stream


@call("sU", "cuStreamBeginCapture_v2", "cudaStreamBeginCapture")
@call("s", "cuStreamBeginCapture")
def capture_begin(stream: Stream, mode: int = 0) -> None:
    """What comes goes into a graph."""
    _begin(stream, mode)


@call("sgPPPU", "cuStreamBeginCaptureToGraph", "cudaStreamBeginCaptureToGraph")
def capture_into(stream: Stream, graph: Graph, before: int, edges: int, count: int, mode: int) -> None:
    """What comes goes into a graph that exists, behind some of its nodes."""
    _begin(stream, mode, graph, nodes_at(before, count))


def _begin(stream: Stream, mode: int, graph: Graph | None = None, before: list[Node] | None = None) -> None:
    if stream.context is None:
        raise DriverError(Result.STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot be captured")
    if mode > 2:
        raise DriverError(Result.INVALID_VALUE, f"mode {mode} of a capture")
    stream.begin(mode, graph, before)


@call("sP", "cuStreamEndCapture", "cudaStreamEndCapture")
def capture_end(stream: Stream, out: int) -> None:
    """The graph."""
    put64(out, 0)
    if stream.context is None:
        raise DriverError(Result.STREAM_CAPTURE_IMPLICIT)
    put64(out, handle_of_graph(stream.end()))


@call("sO", "cuStreamIsCapturing", "cudaStreamIsCapturing")
def capture_status(stream: Stream, out: int) -> None:
    """Whether a stream is captured, and the capture is valid."""
    put32(out, _status(stream))


def _status(stream: Stream) -> int:
    return 0 if stream.capture is None else 2 if stream.capture.invalid else 1


@call("sOP", "cuStreamGetCaptureInfo")
@call("sOPPPP", "cuStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v2")
def capture_info(stream: Stream, status: int, number: int, graph: int = 0, nodes: int = 0, count: int = 0) -> None:
    """What a stream's capture is."""
    put32(status, _status(stream))
    capture = stream.capture
    if capture is None:
        return
    put64(number, capture.number)
    put64(graph, handle_of_graph(capture.graph))
    array = (ctypes.c_uint64 * max(len(stream.tail), 1))(*map(handle_of_node, stream.tail))
    _TAILS[id(stream)] = array
    put64(nodes, ctypes.addressof(array))
    put64(count, len(stream.tail))


@call("sOPPPPP", "cuStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v3")
def capture_info_3(stream: Stream, status: int, number: int, graph: int, nodes: int, edges: int, count: int) -> None:
    """What a stream's capture is; all data of edges is 0."""
    put64(edges, 0)
    capture_info(stream, status, number, graph, nodes, count)


_TAILS: dict[int, object] = {}


@call("sPPU", "cuStreamUpdateCaptureDependencies")
@call("sPPPU", "cuStreamUpdateCaptureDependencies_v2", "cudaStreamUpdateCaptureDependencies")
def capture_update(stream: Stream, nodes: int, *rest: int) -> None:
    """Other nodes come before what comes next."""
    count, flags = rest[-2:]
    if stream.capture is None:
        raise DriverError(Result.STREAM_CAPTURE_IMPLICIT if stream.context is None else Result.ILLEGAL_STATE)
    given = nodes_at(nodes, count)
    stream.tail = given if flags else list(dict.fromkeys([*stream.tail, *given]))


@call("O", "cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode")
def capture_mode(mode: int) -> None:
    """Nothing that a capture forbids is told apart by its mode."""
    put32(mode, 0)
