"""libcuda: launches, streams, events."""

from __future__ import annotations

import ctypes
import struct

import attrs

from warpsim.driver import occupancy
from warpsim.driver.abi.calls import call, unsupported
from warpsim.driver.abi.cu_module import function_in
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.modules import Function, LibraryKernel
from warpsim.driver.raw import bytes_at, get32, get64, put32, put64, put_bytes, put_float
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Event, Record, Stream, Wait
from warpsim.driver.work import (
    BARRIER,
    FLUSH,
    WAIT_32,
    WAIT_64,
    WRITE_32,
    WRITE_64,
    Call,
    Launch,
    Operation,
    Operations,
)

ATTRIBUTE = 72
"""Bytes of a CUlaunchAttribute: its number, and 64 of its value from the eighth on."""
MOST_ATTRIBUTES = 64
"""More than there are."""
COOPERATIVE, CLUSTER = 2, 4
BUFFER_POINTER, BUFFER_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE."""
ATTACH_SINGLE = 4
"""CU_MEM_ATTACH_SINGLE: to a stream, which is not the default one."""
EXTERNAL = 1
"""CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL."""
Launchable = Function | LibraryKernel


def packed(function: Function, params: int, extra: int) -> bytes:
    """The parameter block, from pointers to the parameters or from a buffer."""
    if params and extra:
        raise DriverError(Result.INVALID_VALUE, "parameters are given twice")
    if params:
        block = bytearray(function.parameter_bytes)
        for index, param in enumerate(function.kernel.params):
            block[param.offset : param.offset + param.size] = bytes_at(get64(params + 8 * index), param.size)
        return bytes(block)
    given: dict[int, int] = {}
    while extra and (word := get64(extra)):
        if word not in (BUFFER_POINTER, BUFFER_SIZE):
            raise DriverError(Result.INVALID_VALUE, f"0x{word:x} is none of CU_LAUNCH_PARAM")
        given[word] = get64(extra + 8)
        extra += 16
    if not given and not function.parameter_bytes:
        return b""
    if len(given) < 2:
        raise DriverError(Result.INVALID_VALUE, f"{function.name} takes {len(function.kernel.params)} parameters")
    return _of_buffer(function, given[BUFFER_POINTER], get64(given[BUFFER_SIZE]))


def _of_buffer(function: Function, buffer: int, size: int) -> bytes:
    needed = function.parameter_bytes
    if size == needed:
        return bytes_at(buffer, size) if size else b""
    what = f"{function.name} takes {needed} bytes of parameters, and CU_LAUNCH_PARAM_BUFFER_SIZE is {size}"
    raise DriverError(Result.LAUNCH_OUT_OF_RESOURCES if size > needed else Result.INVALID_VALUE, what)


def place(found: Launchable, stream: Stream) -> Function:
    """The function that is launched in a stream, whose context has to be the function's."""
    where = PROCESS.context_of(stream)
    function = function_in(found, where)
    if function.module.owner not in (None, where):
        raise DriverError(Result.INVALID_HANDLE, f"{function.name} belongs to another context")
    return function


def submit(work: Launch, stream: Stream) -> None:
    """Launch in a stream."""
    PROCESS.driver.submit(PROCESS.driver.checked(work), stream)


@call("qUUUUUUUsPP", "cuLaunchKernel")
def launch(
    found: Launchable,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    shared: int,
    stream: Stream,
    params: int,
    extra: int,
    *,
    cooperative: bool = False,
) -> None:
    """cuLaunchKernel."""
    function = place(found, stream)
    block = packed(function, params, extra)
    submit(Launch(function, (gx, gy, gz), (bx, by, bz), block, shared, None, cooperative), stream)


@call("qUUUUUUUsP", "cuLaunchCooperativeKernel")
def launch_cooperative(
    found: Launchable, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: Stream, params: int
) -> None:
    """cuLaunchCooperativeKernel."""
    launch(found, gx, gy, gz, bx, by, bz, shared, stream, params, 0, cooperative=True)


@call("OqPP", "cuLaunchKernelEx")
def launch_ex(config: int, found: Launchable, params: int, extra: int) -> None:
    """cuLaunchKernelEx."""
    stream = PROCESS.stream(get64(config + 32))
    function = place(found, stream)
    submit(configured(function, config, packed(function, params, extra)), stream)


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
            event = PROCESS.handles.find(get64(at + 8))
            if isinstance(event, Event):
                PROCESS.driver.stream.record(event)
    return work


@call("OqO", "cuOccupancyMaxActiveClusters")
def active_clusters(out: int, found: Launchable, config: int) -> None:
    """Clusters on the whole GPU."""
    put_clusters(out, configured(function_in(found), config, b""))


def put_clusters(out: int, work: Launch) -> None:
    """How many clusters of a launch are resident."""
    x, y, z = work.cluster or (1, 1, 1)
    threads = work.block[0] * work.block[1] * work.block[2]
    put32(out, occupancy.resident_blocks(work.function, threads, work.shared) // (x * y * z))


# ---- streams -------------------------------------------------------------------------------------


@call("!OU", "cuStreamCreate", "cudaStreamCreateWithFlags")
@call("!OUI", "cudaStreamCreateWithPriority")
@call("!O", "cudaStreamCreate")
def stream_create(out: int, flags: int = 0, priority: int = 0) -> None:
    """A stream."""
    if flags > 1:
        raise DriverError(Result.INVALID_VALUE, f"flags of a stream: {flags}")
    owner = PROCESS.context()
    put64(out, PROCESS.handles.put(Stream(PROCESS.driver, flags, priority, owner), owner))


@call("!OUI", "cuStreamCreateWithPriority")
def stream_create_priority(out: int, flags: int, priority: int) -> None:
    """A stream of a priority."""
    stream_create(out, flags, max(min(priority, 0), -5))


@call("P", "cuStreamDestroy_v2", "cuStreamDestroy", "cudaStreamDestroy")
def stream_destroy(handle: int) -> None:
    """The end of a stream."""
    PROCESS.handles.end(PROCESS.get(handle, Stream))


@call("s", "cuStreamSynchronize", "cudaStreamSynchronize", "cuStreamQuery", "cudaStreamQuery")
def stream_synchronize(stream: Stream) -> None:
    """Everything has been done."""
    stream.synchronize()


@call("sO", "cuStreamGetPriority", "cudaStreamGetPriority")
def stream_priority(stream: Stream, out: int) -> None:
    """A stream's priority."""
    put32(out, stream.priority)


@call("sO", "cuStreamGetFlags", "cudaStreamGetFlags")
def stream_flags(stream: Stream, out: int) -> None:
    """A stream's flags."""
    put32(out, stream.flags)


@call("sO", "cuStreamGetId", "cudaStreamGetId")
def stream_id(stream: Stream, out: int) -> None:
    """A stream's number."""
    put64(out, PROCESS.handles.put(stream) >> 8)


@call("sO", "cuStreamGetDevice", "cudaStreamGetDevice")
def stream_device(stream: Stream, out: int) -> None:
    """A stream's device."""
    put32(out, PROCESS.context_of(stream).ordinal)


@call("sO", "cuStreamGetCtx")
@call("sPP", "cuStreamGetCtx_v2")
def stream_context(stream: Stream, out: int, green: int = 0) -> None:
    """A stream's context; there are no green ones."""
    put64(out, PROCESS.context_of(stream).handle)
    put64(green, 0)


@call("seU", "cuStreamWaitEvent", "cudaStreamWaitEvent")
def stream_wait(stream: Stream, event: Event, flags: int) -> None:
    """What comes is after an event."""
    if _external(stream, flags):
        stream.submit(Wait(event))
    else:
        stream.wait(event)


def _external(stream: Stream, flags: int) -> bool:
    """Whether a captured stream has a node for an event, by the flags of a call."""
    if flags > EXTERNAL:
        raise DriverError(Result.INVALID_VALUE, f"flags of an event: {flags}")
    if flags and stream.capture is None:
        raise DriverError(Result.ILLEGAL_STATE, "the stream is not captured")
    return bool(flags)


@call("sPPU", "cuStreamAttachMemAsync", "cudaStreamAttachMemAsync")
def attach(stream: Stream, address: int, nbytes: int, flags: int) -> None:
    """Performance only."""
    if PROCESS.driver.memory.extent(address) is None or (flags == ATTACH_SINGLE and stream.context is None):
        raise DriverError(Result.INVALID_VALUE, f"0x{address:x} cannot be attached")


@call("sIO", "cuStreamSetAttribute", "cudaStreamSetAttribute")
@call("ss", "cuStreamCopyAttributes", "cudaStreamCopyAttributes")
def nothing(*arguments: object) -> None:
    """Performance only."""


@call("sIO", "cuStreamGetAttribute", "cudaStreamGetAttribute")
def stream_attribute(stream: Stream, number: int, out: int) -> None:
    """No attribute has been set."""
    put_bytes(out, bytes(32))


_HOST = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)


def host_call(function: int, data: int) -> Call:
    """A function of the program as work."""
    if not function:
        raise DriverError(Result.INVALID_VALUE, "the function is null")
    return Call(lambda: _HOST(function)(data), function, data)


@call("sOP", "cuLaunchHostFunc", "cudaLaunchHostFunc")
@call("sOPU", "cuLaunchHostFunc_v2")
def host_function(stream: Stream, function: int, data: int, mode: int = 0) -> None:
    """A function of the host."""
    stream.submit(host_call(function, data))


@call("POPU", "cuStreamAddCallback", "cudaStreamAddCallback")
def stream_callback(handle: int, function: int, data: int, flags: int) -> None:
    """A function of the host that gets the stream and its error."""
    stream = PROCESS.stream(handle)
    stream.submit(Call(lambda: _CALLBACK(function)(handle, int(PROCESS.driver.error), data)))


# ---- operations on memory ------------------------------------------------------------------------

_OPERATION = struct.Struct("<I4xQQI20x")
"""CUstreamBatchMemOpParams: type, address, value, flags."""


def operation(kind: int, address: int = 0, value: int = 0, flags: int = 0) -> Operation:
    """An operation that can be done.

    Raises:
        DriverError: it cannot.
    """
    made = Operation(kind, address, value, flags)
    if kind == FLUSH:
        raise unsupported("flushing of remote writes")
    if kind not in (WAIT_32, WRITE_32, WAIT_64, WRITE_64, BARRIER) or (kind != BARRIER and address % made.unit):
        raise DriverError(Result.INVALID_VALUE, f"operation {kind} at 0x{address:x}")
    if kind != BARRIER:
        PROCESS.driver.memory.bytes_at(address, made.unit)
    return made


def operations_at(address: int, count: int) -> Operations:
    """An array of operations."""
    if count > 256:
        raise DriverError(Result.INVALID_VALUE, f"{count} operations")
    words = _OPERATION.iter_unpack(bytes_at(address, _OPERATION.size * count) if count else b"")
    return Operations(tuple(operation(*each) for each in words))


@call("sUOU", "cuStreamBatchMemOp", "cuStreamBatchMemOp_v2")
def batch(stream: Stream, count: int, given: int, flags: int) -> None:
    """Operations in a stream's order."""
    if flags:
        raise DriverError(Result.INVALID_VALUE, f"flags of operations: {flags}")
    stream.submit(operations_at(given, count))


def _declare_operation(kind: int, bits: int, name: str) -> None:
    value = "U" if bits == 32 else "P"

    @call(f"sO{value}U", f"cuStream{name}Value{bits}_v2", f"cuStream{name}Value{bits}")
    def submit_one(stream: Stream, address: int, value: int, flags: int) -> None:
        stream.submit(Operations((operation(kind, address, value, flags),)))


for _kind, _bits, _name in (
    (WRITE_32, 32, "Write"),
    (WRITE_64, 64, "Write"),
    (WAIT_32, 32, "Wait"),
    (WAIT_64, 64, "Wait"),
):
    _declare_operation(_kind, _bits, _name)


# ---- events --------------------------------------------------------------------------------------


@call("!OU", "cuEventCreate", "cudaEventCreateWithFlags")
@call("!O", "cudaEventCreate")
def event_create(out: int, flags: int = 0) -> None:
    """An event."""
    if flags > 7:
        raise DriverError(Result.INVALID_VALUE, f"flags of an event: {flags}")
    owner = PROCESS.context()
    put64(out, PROCESS.handles.put(Event(flags, owner), owner))


@call("e", "cuEventDestroy_v2", "cuEventDestroy", "cudaEventDestroy")
def event_destroy(event: Event) -> None:
    """The end of an event."""
    PROCESS.handles.end(event)


@call("es", "cuEventRecord", "cudaEventRecord")
@call("esU", "cuEventRecordWithFlags", "cudaEventRecordWithFlags")
def event_record(event: Event, stream: Stream, flags: int = 0) -> None:
    """An event stands for what a stream has been given."""
    if event.context is not PROCESS.context_of(stream):
        raise DriverError(Result.INVALID_HANDLE, "the event belongs to another context than the stream")
    if _external(stream, flags):
        stream.submit(Record(event))
    else:
        stream.record(event)


@call("e", "cuEventSynchronize", "cudaEventSynchronize", "cuEventQuery", "cudaEventQuery")
def event_synchronize(event: Event) -> None:
    """It has been passed."""
    event.synchronize()


@call("Oee", "cuEventElapsedTime", "cuEventElapsedTime_v2", "cudaEventElapsedTime")
def event_elapsed(out: int, first: Event, last: Event) -> None:
    """Milliseconds of this machine between two events."""
    put_float(out, last.since(first))
