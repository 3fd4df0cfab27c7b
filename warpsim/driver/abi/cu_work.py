"""libcuda: launches, streams, events."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import attrs

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, unsupported
from warpsim.driver.abi.cu_module import Launchable, function_in
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.modules import Function
from warpsim.driver.raw import all_bytes_at, bytes_at, get32, get64, row_at
from warpsim.driver.results import DriverError, Result, require
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
"""Size of a CUlaunchAttribute: its number, and from the eighth byte on 64 bytes of value."""
MOST_ATTRIBUTES = 64
"""More than there are."""
COOPERATIVE, CLUSTER = 2, 4
BUFFER_POINTER, BUFFER_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE."""
ATTACH_SINGLE = 4
"""CU_MEM_ATTACH_SINGLE: attach memory to one stream, which cannot be the default one."""
EXTERNAL = 1
"""CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL."""


# ---- launches ------------------------------------------------------------------------------------


def packed(function: Function, params: int, extra: int) -> bytes:
    """The parameter block, from pointers to the parameters or from a buffer."""
    require(not params or not extra, "parameters are given twice")
    if params:
        block, wanted = bytearray(function.parameter_bytes), function.kernel.params
        pieces = [(address, p.size) for address, p in zip(row_at(params, len(wanted)), wanted, strict=True)]
        for param, piece in zip(wanted, all_bytes_at(pieces), strict=True):
            block[param.offset : param.offset + param.size] = piece
        return bytes(block)
    given: dict[int, int] = {}
    while extra and (word := get64(extra)):
        require(word in (BUFFER_POINTER, BUFFER_SIZE), f"0x{word:x} is not a CU_LAUNCH_PARAM")
        given[word] = get64(extra + 8)
        extra += 16
    needed = function.parameter_bytes
    if not given and not needed:
        return b""
    require(len(given) >= 2, f"{function.name} takes {len(function.kernel.params)} parameters")
    size = get64(given[BUFFER_SIZE])
    if size != needed:
        what = f"{function.name} takes {needed} bytes of parameters, and CU_LAUNCH_PARAM_BUFFER_SIZE is {size}"
        raise DriverError(Result.LAUNCH_OUT_OF_RESOURCES if size > needed else Result.INVALID_VALUE, what)
    return bytes_at(given[BUFFER_POINTER], size) if size else b""


def function_for(found: Launchable, stream: Stream) -> Function:
    """The function to launch in a stream. It has to belong to the stream's context."""
    where = PROCESS.context_of(stream)
    function = function_in(found, where)
    if function.module.owner not in (None, where):
        raise DriverError(Result.INVALID_HANDLE, f"{function.name} belongs to another context")
    return function


def submit(work: Launch, stream: Stream) -> None:
    """Launch in a stream."""
    stream.submit(PROCESS.driver.checked(work))


@call("qUUUUUUUsPP", "cuLaunchKernel")
def launch(found: Launchable, *rest: Any, cooperative: bool = False) -> None:
    """Launch a kernel: grid, block, shared memory, stream, parameters."""
    gx, gy, gz, bx, by, bz, shared, stream, params, extra = rest
    function = function_for(found, stream)
    block = packed(function, params, extra)
    submit(Launch(function, (gx, gy, gz), (bx, by, bz), block, shared, None, cooperative), stream)


call("qUUUUUUUsP", "cuLaunchCooperativeKernel")(lambda found, *rest: launch(found, *rest, 0, cooperative=True))


@call("OqPP", "cuLaunchKernelEx")
def launch_ex(config: int, found: Launchable, params: int, extra: int) -> None:
    stream = PROCESS.stream(get64(config + 32))
    function = function_for(found, stream)
    submit(configured(function, config, packed(function, params, extra)), stream)


def configured(function: Function, config: int, params: bytes) -> Launch:
    """A launch from a CUlaunchConfig."""
    gx, gy, gz, bx, by, bz, shared = struct.unpack("<7I", bytes_at(config, 28))
    work = Launch(function, (gx, gy, gz), (bx, by, bz), params, shared)
    return with_attributes(work, get64(config + 40), get32(config + 48))


def with_attributes(work: Launch, attributes: int, count: int) -> Launch:
    """A launch with an array of CUlaunchAttribute applied."""
    require(count <= MOST_ATTRIBUTES, f"{count} attributes")
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


@call("4qO", "cuOccupancyMaxActiveClusters")
def active_clusters(found: Launchable, config: int) -> int:
    return resident_clusters(configured(function_in(found), config, b""))


def resident_clusters(work: Launch) -> int:
    """How many clusters of a launch are resident."""
    x, y, z = work.cluster or (1, 1, 1)
    threads = work.block[0] * work.block[1] * work.block[2]
    return properties.resident_blocks(work.function, threads, work.shared) // (x * y * z)


# ---- streams -------------------------------------------------------------------------------------


@call("!8U", "cuStreamCreate cudaStreamCreateWithFlags")
@call("!8UI", "cuStreamCreateWithPriority cudaStreamCreateWithPriority")
@call("!8", "cudaStreamCreate")
def create_stream(flags: int = 0, priority: int = 0) -> int:
    require(flags <= 1, f"stream flags {flags}")
    owner = PROCESS.context()
    return PROCESS.handles.put(Stream(PROCESS.driver, flags, max(min(priority, 0), -5), owner), owner)


call("P", "cuStreamDestroy_v2 cuStreamDestroy cudaStreamDestroy")(
    lambda handle: PROCESS.handles.end(PROCESS.get(handle, Stream))
)
call("s", "cuStreamSynchronize cudaStreamSynchronize cuStreamQuery cudaStreamQuery")(
    lambda stream: stream.synchronize()
)


call("s4", "cuStreamGetPriority cudaStreamGetPriority")(lambda stream: stream.priority)
call("s4", "cuStreamGetFlags cudaStreamGetFlags")(lambda stream: stream.flags)
call("s8", "cuStreamGetId cudaStreamGetId")(lambda stream: PROCESS.handles.put(stream) >> 8)
call("s4", "cuStreamGetDevice cudaStreamGetDevice")(lambda stream: PROCESS.context_of(stream).ordinal)
call("s8", "cuStreamGetCtx")(lambda stream: PROCESS.context_of(stream).handle)
call("sIB", "cuStreamGetAttribute cudaStreamGetAttribute")(lambda stream, number: bytes(32))
call("syy", "cuStreamGetCtx_v2")(lambda stream: (PROCESS.context_of(stream).handle, 0))


@call("seU", "cuStreamWaitEvent cudaStreamWaitEvent")
def wait_event(stream: Stream, event: Event, flags: int) -> None:
    if _is_external(stream, flags):
        stream.submit(Wait(event))
    else:
        stream.wait(event)


def _is_external(stream: Stream, flags: int) -> bool:
    """Whether flags ask for a graph node in place of a dependency of the capture."""
    require(flags <= EXTERNAL, f"event flags {flags}")
    require(not flags or stream.capture is not None, "the stream is not captured", Result.ILLEGAL_STATE)
    return bool(flags)


@call("sPPU", "cuStreamAttachMemAsync cudaStreamAttachMemAsync")
def attach_memory(stream: Stream, address: int, nbytes: int, flags: int) -> None:
    """Check the arguments: attaching affects performance only."""
    if PROCESS.memory.extent(address) is None or (flags == ATTACH_SINGLE and stream.context is None):
        raise DriverError(Result.INVALID_VALUE, f"0x{address:x} cannot be attached")


@call("sIO", "cuStreamSetAttribute cudaStreamSetAttribute")
@call("ss", "cuStreamCopyAttributes cudaStreamCopyAttributes")
def nothing(*arguments: object) -> None:
    """Do nothing: these affect performance only."""


_HOST = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)


def host_call(function: int, data: int) -> Call:
    """A host function as work."""
    require(function, "the function is null")
    return Call(lambda: _HOST(function)(data), function, data)


@call("sOP", "cuLaunchHostFunc cudaLaunchHostFunc")
@call("sOPU", "cuLaunchHostFunc_v2")
def launch_host_function(stream: Stream, function: int, data: int, mode: int = 0) -> None:
    stream.submit(host_call(function, data))


@call("POPU", "cuStreamAddCallback cudaStreamAddCallback")
def add_callback(handle: int, function: int, data: int, flags: int) -> None:
    """Call a host function with the stream and its error, in stream order."""
    stream = PROCESS.stream(handle)
    stream.submit(Call(lambda: _CALLBACK(function)(handle, int(PROCESS.driver.error), data)))


# ---- memory operations of streams ----------------------------------------------------------------

_OPERATION = struct.Struct("<I4xQQI20x")
"""CUstreamBatchMemOpParams: type, address, value, flags."""


def operation(kind: int, address: int = 0, value: int = 0, flags: int = 0) -> Operation:
    """A valid operation."""
    made = Operation(kind, address, value, flags)
    if kind == FLUSH:
        raise unsupported("flushing of remote writes")
    if kind not in (WAIT_32, WRITE_32, WAIT_64, WRITE_64, BARRIER) or (kind != BARRIER and address % made.unit):
        raise DriverError(Result.INVALID_VALUE, f"operation {kind} at 0x{address:x}")
    if kind != BARRIER:
        PROCESS.memory.bytes_at(address, made.unit)
    return made


def operations_at(address: int, count: int) -> Operations:
    """Read an array of operations."""
    require(count <= 256, f"{count} operations")
    words = _OPERATION.iter_unpack(bytes_at(address, _OPERATION.size * count) if count else b"")
    return Operations(tuple(operation(*each) for each in words))


@call("sUOU", "cuStreamBatchMemOp cuStreamBatchMemOp_v2")
def submit_operations(stream: Stream, count: int, given: int, flags: int) -> None:
    require(not flags, f"operation flags {flags}")
    stream.submit(operations_at(given, count))


def _declare_operation(kind: int, bits: int, name: str) -> None:
    @call(f"sO{'U' if bits == 32 else 'P'}U", f"cuStream{name}Value{bits}_v2 cuStream{name}Value{bits}")
    def submit_operation(stream: Stream, address: int, value: int, flags: int) -> None:
        stream.submit(Operations((operation(kind, address, value, flags),)))


for _kind, _bits, _name in (
    (WRITE_32, 32, "Write"),
    (WRITE_64, 64, "Write"),
    (WAIT_32, 32, "Wait"),
    (WAIT_64, 64, "Wait"),
):
    _declare_operation(_kind, _bits, _name)


# ---- events --------------------------------------------------------------------------------------


@call("!8U", "cuEventCreate cudaEventCreateWithFlags")
@call("!8", "cudaEventCreate")
def create_event(flags: int = 0) -> int:
    require(flags <= 7, f"event flags {flags}")
    owner = PROCESS.context()
    return PROCESS.handles.put(Event(flags, owner), owner)


call("e", "cuEventDestroy_v2 cuEventDestroy cudaEventDestroy")(lambda event: PROCESS.handles.end(event))


@call("es", "cuEventRecord cudaEventRecord")
@call("esU", "cuEventRecordWithFlags cudaEventRecordWithFlags")
def record_event(event: Event, stream: Stream, flags: int = 0) -> None:
    if event.context is not PROCESS.context_of(stream):
        raise DriverError(Result.INVALID_HANDLE, "the event belongs to another context than the stream")
    if _is_external(stream, flags):
        stream.submit(Record(event))
    else:
        stream.record(event)


call("e", "cuEventSynchronize cudaEventSynchronize cuEventQuery cudaEventQuery")(lambda event: event.synchronize())
call("Vee", "cuEventElapsedTime cuEventElapsedTime_v2 cudaEventElapsedTime")(lambda first, last: last.since(first))
