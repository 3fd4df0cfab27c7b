"""libcuda: launches, streams, events."""

from __future__ import annotations

import ctypes
import struct

import attrs

from warpsim.driver.abi.calls import PROCESS, call, get32, get64, needs, put32, put64, put_float, unsupported
from warpsim.driver.modules import Function
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Event, Stream
from warpsim.driver.work import Call, Launch

ATTRIBUTE = 72
"""Bytes of a CUlaunchAttribute: its number, and 64 of its value from the eighth on."""
MOST_ATTRIBUTES = 64
"""More than there are."""
COOPERATIVE, CLUSTER = 2, 4


def packed(function: Function, params: int, extra: int) -> bytes:
    """The parameter block, from pointers to the parameters or from a buffer."""
    if params:
        block = bytearray(function.parameter_bytes)
        for index, param in enumerate(function.kernel.params):
            block[param.offset : param.offset + param.size] = bytes_at(get64(params + 8 * index), param.size)
        return bytes(block)
    buffer = size = 0
    while extra and (word := get64(extra)):
        if word == 1:
            buffer = get64(extra + 8)
        elif word == 2:
            size = get64(get64(extra + 8))
        extra += 16
    if function.parameter_bytes and not buffer:
        raise DriverError(Result.INVALID_VALUE, f"{function.name} takes {len(function.kernel.params)} parameters")
    return (bytes_at(buffer, size) if buffer else b"").ljust(function.parameter_bytes, b"\0")


def submit(work: Launch, stream: int) -> None:
    """Launch in a stream."""
    PROCESS.driver.submit(PROCESS.driver.checked(work), PROCESS.stream(stream))


@call("PUUUUUUUPPP", "cuLaunchKernel")
def launch(
    handle: int,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    shared: int,
    stream: int,
    params: int,
    extra: int,
) -> None:
    """cuLaunchKernel."""
    function = PROCESS.get(handle, Function)
    submit(Launch(function, (gx, gy, gz), (bx, by, bz), packed(function, params, extra), shared), stream)


@call("PUUUUUUUPP", "cuLaunchCooperativeKernel")
def launch_cooperative(
    handle: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, params: int
) -> None:
    """cuLaunchCooperativeKernel."""
    function = PROCESS.get(handle, Function)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), packed(function, params, 0), shared, None, cooperative=True)
    submit(work, stream)


@call("PPPP", "cuLaunchKernelEx")
def launch_ex(config: int, handle: int, params: int, extra: int) -> None:
    """cuLaunchKernelEx."""
    function = PROCESS.get(handle, Function)
    submit(configured(function, config, packed(function, params, extra)), get64(config + 32))


def configured(function: Function, config: int, params: bytes) -> Launch:
    """A launch from a CUlaunchConfig."""
    gx, gy, gz, bx, by, bz, shared = struct.unpack("<7I", bytes_at(config, 28))
    work = Launch(function, (gx, gy, gz), (bx, by, bz), params, shared)
    return with_attributes(work, get64(config + 40), get32(config + 48))


def with_attributes(work: Launch, attributes: int, count: int) -> Launch:
    """A launch with what its attributes say."""
    if count > MOST_ATTRIBUTES:
        raise DriverError(Result.INVALID_VALUE, f"{count} attributes")
    for at in range(attributes, attributes + ATTRIBUTE * count, ATTRIBUTE):
        number = get32(at)
        if number == COOPERATIVE:
            work = attrs.evolve(work, cooperative=bool(get32(at + 8)))
        elif number == CLUSTER and get32(at + 8):
            work = attrs.evolve(work, cluster=(get32(at + 8), get32(at + 12), get32(at + 16)))
        elif number in (7, 12):  # an event that the launch records
            event = PROCESS.handles.get(get64(at + 8))
            if isinstance(event, Event):
                PROCESS.driver.stream.record(event)
    return work


# ---- streams -------------------------------------------------------------------------------------


@call("PU", "cuStreamCreate", "cudaStreamCreateWithFlags")
@call("PUI", "cudaStreamCreateWithPriority")
def stream_create(out: int, flags: int, priority: int = 0) -> None:
    """A stream."""
    needs(out)
    put64(out, PROCESS.put(Stream(PROCESS.driver, flags, priority, PROCESS.context().ordinal)))


@call("PUI", "cuStreamCreateWithPriority")
def stream_create_priority(out: int, flags: int, priority: int) -> None:
    """A stream of a priority."""
    stream_create(out, flags, max(min(priority, 0), -5))


@call("P", "cuStreamDestroy_v2", "cuStreamDestroy", "cudaStreamDestroy")
def stream_destroy(handle: int) -> None:
    """The end of a stream."""
    PROCESS.drop(handle, Stream)


@call("P", "cuStreamSynchronize", "cudaStreamSynchronize")
def stream_synchronize(handle: int) -> None:
    """Everything has been done."""
    PROCESS.stream(handle).synchronize()


@call("P", "cuStreamQuery", "cudaStreamQuery")
def stream_query(handle: int) -> None:
    """Everything has been done."""
    stream_synchronize(handle)


@call("PP", "cuStreamGetPriority", "cudaStreamGetPriority")
def stream_priority(handle: int, out: int) -> None:
    """A stream's priority."""
    put32(out, PROCESS.stream(handle).priority)


@call("PP", "cuStreamGetFlags", "cudaStreamGetFlags")
def stream_flags(handle: int, out: int) -> None:
    """A stream's flags."""
    put32(out, PROCESS.stream(handle).flags)


@call("PP", "cuStreamGetId", "cudaStreamGetId")
def stream_id(handle: int, out: int) -> None:
    """A stream's number."""
    put64(out, PROCESS.put(PROCESS.stream(handle)) >> 8)


@call("PP", "cuStreamGetDevice", "cudaStreamGetDevice")
def stream_device(handle: int, out: int) -> None:
    """A stream's device."""
    put32(out, PROCESS.stream(handle).ordinal)


@call("PP", "cuStreamGetCtx")
def stream_context(handle: int, out: int) -> None:
    """A stream's context."""
    put64(out, PROCESS.primary[PROCESS.stream(handle).ordinal].handle)


@call("PPP", "cuStreamGetCtx_v2")
def stream_context_2(handle: int, out: int, green: int) -> None:
    """A stream's context; there are no green ones."""
    stream_context(handle, out)
    put64(green, 0)


@call("PPU", "cuStreamWaitEvent", "cudaStreamWaitEvent")
def stream_wait(handle: int, event: int, flags: int) -> None:
    """What comes is after an event."""
    PROCESS.stream(handle).wait(PROCESS.get(event, Event))


@call("PPPU", "cuStreamAttachMemAsync", "cudaStreamAttachMemAsync")
@call("PIP", "cuStreamSetAttribute", "cudaStreamSetAttribute")
@call("PP", "cuStreamCopyAttributes", "cudaStreamCopyAttributes")
def nothing(*words: int) -> None:
    """Performance only."""


_HOST = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)


def host_call(function: int, data: int) -> Call:
    """A function of the program as work."""
    needs(function)
    return Call(lambda: _HOST(function)(data), function, data)


@call("PPP", "cuLaunchHostFunc", "cudaLaunchHostFunc")
@call("PPPU", "cuLaunchHostFunc_v2")
def host_function(stream: int, function: int, data: int, mode: int = 0) -> None:
    """A function of the host."""
    PROCESS.stream(stream).submit(host_call(function, data))


@call("PPPU", "cuStreamAddCallback", "cudaStreamAddCallback")
def stream_callback(stream: int, function: int, data: int, flags: int) -> None:
    """A function of the host that gets the stream and its error."""
    needs(function)
    PROCESS.stream(stream).submit(Call(lambda: _CALLBACK(function)(stream, int(PROCESS.driver.error), data)))


def _value(stream: int, address: int, value: int, unit: int) -> None:
    from warpsim.driver.work import Fill

    PROCESS.stream(stream).submit(Fill(address, value, unit, 1))


@call("PPUU", "cuStreamWriteValue32_v2", "cuStreamWriteValue32")
def write_32(stream: int, address: int, value: int, flags: int) -> None:
    """A word is stored in a stream's order."""
    _value(stream, address, value, 4)


@call("PPPU", "cuStreamWriteValue64_v2", "cuStreamWriteValue64")
def write_64(stream: int, address: int, value: int, flags: int) -> None:
    """Eight bytes are stored in a stream's order."""
    _value(stream, address, value, 8)


@call("PPUU", "cuStreamWaitValue32_v2", "cuStreamWaitValue32")
def wait_32(stream: int, address: int, value: int, flags: int) -> None:
    """Wait for a word."""
    _wait(address, value, flags, 4)


@call("PPPU", "cuStreamWaitValue64_v2", "cuStreamWaitValue64")
def wait_64(stream: int, address: int, value: int, flags: int) -> None:
    """Wait for eight bytes."""
    _wait(address, value, flags, 8)


def _wait(address: int, value: int, flags: int, unit: int) -> None:
    """Streams do their work at once: what they would wait for has to be there.

    GEQ is cyclic, as cuda.h has it: ``(int32_t)(*addr - value) >= 0``."""
    found, most = int.from_bytes(PROCESS.driver.memory.bytes_at(address, unit).tobytes(), "little"), 1 << 8 * unit
    ahead, nor = (found - value) % most < most // 2, ~(found | value) & (most - 1)
    if not (ahead, found == value, found & value, nor)[flags & 3]:
        raise unsupported("waiting of a stream for a value that nothing has stored yet")


# ---- capture -------------------------------------------------------------------------------------


@call("PU", "cuStreamBeginCapture_v2", "cudaStreamBeginCapture")
@call("P", "cuStreamBeginCapture")
def capture_begin(stream: int, mode: int = 0) -> None:
    """What comes goes into a graph."""
    if stream <= 2:
        raise DriverError(Result.STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot be captured")
    PROCESS.stream(stream).begin(mode)


@call("PP", "cuStreamEndCapture", "cudaStreamEndCapture")
def capture_end(stream: int, out: int) -> None:
    """The graph."""
    put64(out, 0)
    put64(out, PROCESS.put(PROCESS.stream(stream).end()))


@call("PP", "cuStreamIsCapturing", "cudaStreamIsCapturing")
def capture_status(stream: int, out: int) -> None:
    """Whether a stream is captured."""
    put32(out, int(PROCESS.stream(stream).capture is not None))


@call("PPPPPP", "cuStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v2")
def capture_info(stream: int, status: int, number: int, graph: int, nodes: int, count: int) -> None:
    """What a stream's capture is."""
    _capture_info(stream, status, number, graph, nodes, count)


@call("PPPPPPP", "cuStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v3")
def capture_info_3(stream: int, status: int, number: int, graph: int, nodes: int, edges: int, count: int) -> None:
    """What a stream's capture is."""
    put64(edges, 0)
    _capture_info(stream, status, number, graph, nodes, count)


_TAILS: dict[int, object] = {}


def _capture_info(stream: int, status: int, number: int, graph: int, nodes: int, count: int) -> None:
    queue = PROCESS.stream(stream)
    capture = queue.capture
    put32(status, int(capture is not None))
    if capture is None:
        return
    put64(number, capture.number)
    put64(graph, PROCESS.put(capture.graph))
    array = (ctypes.c_uint64 * max(len(queue.tail), 1))(*map(PROCESS.put, queue.tail))
    _TAILS[id(queue)] = array
    put64(nodes, ctypes.addressof(array))
    put64(count, len(queue.tail))


@call("PPPU", "cuStreamUpdateCaptureDependencies")
@call("PPPPU", "cuStreamUpdateCaptureDependencies_v2", "cudaStreamUpdateCaptureDependencies")
def capture_update(stream: int, nodes: int, *rest: int) -> None:
    """Other nodes come before what comes next."""
    from warpsim.driver.graphs import Node

    count, flags = rest[-2:]
    queue = PROCESS.stream(stream)
    given = [PROCESS.get(get64(nodes + 8 * i), Node) for i in range(count)]
    queue.tail = given if flags else list(dict.fromkeys([*queue.tail, *given]))


@call("P", "cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode")
def capture_mode(mode: int) -> None:
    """Nothing that a capture forbids is told apart by its mode."""
    put32(mode, 0)


# ---- events --------------------------------------------------------------------------------------


@call("PU", "cuEventCreate", "cudaEventCreateWithFlags")
@call("P", "cudaEventCreate")
def event_create(out: int, flags: int = 0) -> None:
    """An event."""
    needs(out)
    put64(out, PROCESS.put(Event(flags)))


@call("P", "cuEventDestroy_v2", "cuEventDestroy", "cudaEventDestroy")
def event_destroy(handle: int) -> None:
    """The end of an event."""
    PROCESS.drop(handle, Event)


@call("PP", "cuEventRecord", "cudaEventRecord")
@call("PPU", "cuEventRecordWithFlags", "cudaEventRecordWithFlags")
def event_record(handle: int, stream: int, flags: int = 0) -> None:
    """An event stands for what a stream has been given."""
    PROCESS.stream(stream).record(PROCESS.get(handle, Event))


@call("P", "cuEventSynchronize", "cudaEventSynchronize")
@call("P", "cuEventQuery", "cudaEventQuery")
def event_synchronize(handle: int) -> None:
    """It has been passed."""
    PROCESS.get(handle, Event).synchronize()


@call("PPP", "cuEventElapsedTime", "cuEventElapsedTime_v2", "cudaEventElapsedTime")
def event_elapsed(out: int, first: int, last: int) -> None:
    """Milliseconds of this machine between two events."""
    put_float(out, PROCESS.get(last, Event).since(PROCESS.get(first, Event)))
