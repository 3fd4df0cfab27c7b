"""libcuda: initialisation, devices, contexts, the names of errors."""

from __future__ import annotations

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, context
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import put32, put64, put_bytes
from warpsim.driver.results import DriverError, Result, text_of

LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0}
"""CUlimit: stack, printf FIFO, heap, depth of device synchronisation, pending launches, L2 fetch, L2 persisting."""


@call("U", "cuInit")
def init(flags: int) -> None:
    """cuInit."""
    if flags:
        raise DriverError(Result.INVALID_VALUE)
    _ = PROCESS.driver


@call("O", "cuDriverGetVersion", "cudaDriverGetVersion", "cudaRuntimeGetVersion")
def version(out: int) -> None:
    """The version of CUDA."""
    put32(out, VERSION)


@call("OD", "cuDeviceGet")
def device_get(out: int, ordinal: int) -> None:
    """The handle of a device is its number."""
    put32(out, ordinal)


@call("O", "cuDeviceGetCount", "cudaGetDeviceCount")
def device_count(out: int) -> None:
    """How many devices there are."""
    put32(out, len(PROCESS.driver.devices))


@call("OID", "cuDeviceGetName")
def device_name(out: int, length: int, device: int) -> None:
    """cuDeviceGetName."""
    put_name(out, length, properties.name(PROCESS.driver.devices[device].sm))


@call("OD", "cuDeviceGetUuid", "cuDeviceGetUuid_v2")
def device_uuid(out: int, device: int) -> None:
    """cuDeviceGetUuid."""
    put_bytes(out, uuid(device))


def uuid(ordinal: int) -> bytes:
    """The 16 bytes by which a device is known."""
    return b"warpsim" + bytes([ordinal]) + PROCESS.driver.devices[ordinal].target.encode()[:8].ljust(8, b"\0")


@call("OOD", "cuDeviceGetLuid")
def device_luid(out: int, mask: int, device: int) -> None:
    """Only Windows has them."""
    raise DriverError(Result.NOT_SUPPORTED)


@call("OD", "cuDeviceTotalMem", "cuDeviceTotalMem_v2")
def device_memory(out: int, device: int) -> None:
    """cuDeviceTotalMem."""
    put64(out, properties.total_memory())


@call("OID", "cuDeviceGetAttribute", "cudaDeviceGetAttribute")
def device_attribute(out: int, number: int, device: int) -> None:
    """An attribute; the numbers of the run time are the driver's."""
    if not 1 <= number <= 200:
        raise DriverError(Result.INVALID_VALUE)
    put32(out, properties.attribute(PROCESS.driver.devices[device].sm, number, device))


@call("OOD", "cuDeviceComputeCapability")
def device_capability(major: int, minor: int, device: int) -> None:
    """cuDeviceComputeCapability."""
    sm = PROCESS.driver.devices[device].sm
    put32(major, sm // 10)
    put32(minor, sm % 10)


@call("OD", "cuDeviceGetProperties")
def device_properties(out: int, device: int) -> None:
    """The old structure of limits."""
    sm = PROCESS.driver.devices[device].sm
    for index in range(14):
        put32(out + 4 * index, properties.attribute(sm, index + 1))


@call("OID", "cuDeviceGetPCIBusId", "cudaDeviceGetPCIBusId")
def device_bus(out: int, length: int, device: int) -> None:
    """The place on the bus, as text."""
    name = f"0000:{device + 1:02x}:00.0"
    put_name(out, length if length > len(name) else 0, name)


def put_name(out: int, length: int, name: str) -> None:
    """As much of a name as there is room for, and a zero."""
    if length < 1:
        raise DriverError(Result.INVALID_VALUE, f"no room for a name: {length} bytes")
    put_bytes(out, name.encode()[: length - 1] + b"\0")


@call("OIDD", "cuDeviceGetP2PAttribute", "cudaDeviceGetP2PAttribute")
def peer_attribute(out: int, number: int, one: int, other: int) -> None:
    """Devices share one memory."""
    if one == other:
        raise DriverError(Result.INVALID_DEVICE)
    put32(out, 1)


@call("ODD", "cuDeviceCanAccessPeer", "cudaDeviceCanAccessPeer")
def can_access_peer(out: int, one: int, other: int) -> None:
    """Devices share one memory."""
    put32(out, int(one != other))


# ---- contexts ------------------------------------------------------------------------------------


@call("OD", "cuDevicePrimaryCtxRetain")
def primary_retain(out: int, device: int) -> None:
    """cuDevicePrimaryCtxRetain."""
    context = PROCESS.primary[device]
    PROCESS.retain(context)
    put64(out, context.handle)


@call("D", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2")
def primary_release(device: int) -> None:
    """cuDevicePrimaryCtxRelease: the last release ends the context."""
    context = PROCESS.primary[device]
    if not context.active:
        raise DriverError(Result.INVALID_CONTEXT, "the primary context has not been retained")
    context.active -= 1
    if not context.active:
        PROCESS.end(context)


@call("D", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2")
def primary_reset(device: int) -> None:
    """cuDevicePrimaryCtxReset."""
    context = PROCESS.primary[device]
    context.active, context.held = 0, False
    PROCESS.end(context)


@call("DOO", "cuDevicePrimaryCtxGetState")
def primary_state(device: int, flags: int, active: int) -> None:
    """cuDevicePrimaryCtxGetState."""
    context = PROCESS.primary[device]
    put32(flags, context.flags)
    put32(active, int(context.active > 0))


@call("DU", "cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2")
def primary_flags(device: int, flags: int) -> None:
    """cuDevicePrimaryCtxSetFlags."""
    PROCESS.primary[device].flags = flags


@call("OPUD", "cuCtxCreate_v4")
@call("OPIUD", "cuCtxCreate_v3")
@call("OUD", "cuCtxCreate_v2", "cuCtxCreate")
def context_create(out: int, *rest: int) -> None:
    """A context, which becomes current."""
    flags, device = rest[-2:]
    context = Context(device, flags)
    context.handle = PROCESS.handles.put(context)
    PROCESS.stack.append(context)
    put64(out, context.handle)


@call("P", "cuCtxDestroy_v2", "cuCtxDestroy")
def context_destroy(handle: int) -> None:
    """cuCtxDestroy: in other threads, and below in this one's stack, it stays current and useless."""
    context = PROCESS.get(handle, Context, Result.INVALID_CONTEXT if handle else Result.INVALID_VALUE)
    if context.primary:
        raise DriverError(Result.INVALID_CONTEXT, "a primary context is released, not destroyed")
    if PROCESS.stack and PROCESS.stack[-1] is context:
        PROCESS.stack.pop()
    PROCESS.end(context)


@call("P", "cuCtxSetCurrent")
def context_set(handle: int) -> None:
    """cuCtxSetCurrent: what is on top of the stack."""
    PROCESS.stack[-1:] = [context(handle)] if handle else []


@call("c", "cuCtxPushCurrent_v2", "cuCtxPushCurrent")
def context_push(pushed: Context) -> None:
    """cuCtxPushCurrent."""
    PROCESS.stack.append(pushed)


@call("O", "cuCtxGetCurrent")
def context_current(out: int) -> None:
    """cuCtxGetCurrent."""
    put64(out, PROCESS.stack[-1].handle if PROCESS.stack else 0)


@call("P", "cuCtxPopCurrent_v2", "cuCtxPopCurrent")
def context_pop(out: int) -> None:
    """cuCtxPopCurrent, also of a context that has ended."""
    put64(out, _top().handle)
    PROCESS.stack.pop()


def _top() -> Context:
    if not PROCESS.stack:
        raise DriverError(Result.INVALID_CONTEXT)
    return PROCESS.stack[-1]


@call("O", "cuCtxGetDevice")
def context_device(out: int) -> None:
    """The device of the current context, also where that has ended."""
    put32(out, _top().ordinal)


@call("OC", "cuCtxGetDevice_v2")
def context_device_of(out: int, context: Context) -> None:
    """cuCtxGetDevice of any context."""
    put32(out, context.ordinal)


@call("CO", "cuCtxGetApiVersion")
def context_version(context: Context, out: int) -> None:
    """cuCtxGetApiVersion."""
    put32(out, VERSION)


@call("CO", "cuCtxGetId")
def context_id(context: Context, out: int) -> None:
    """cuCtxGetId."""
    put64(out, context.handle >> 8)


@call("O", "cuCtxGetFlags")
def context_flags(out: int) -> None:
    """The flags of the current context, also where that has ended."""
    put32(out, _top().flags)


@call("!U", "cuCtxSetFlags")
def context_set_flags(flags: int) -> None:
    """cuCtxSetFlags."""
    PROCESS.context().flags = flags


@call("!UP", "cuCtxSetLimit", "cudaDeviceSetLimit")
def context_set_limit(limit: int, value: int) -> None:
    """A limit, which is kept and given back; the simulator's own stay."""
    _known_limit(limit)
    PROCESS.context().limits[limit] = value


def _known_limit(limit: int) -> None:
    if limit not in LIMITS:
        raise DriverError(Result.UNSUPPORTED_LIMIT if limit < 10 else Result.INVALID_VALUE)


@call("!OU", "cuCtxGetLimit", "cudaDeviceGetLimit")
def context_limit(out: int, limit: int) -> None:
    """A limit."""
    _known_limit(limit)
    put64(out, PROCESS.context().limits.get(limit, LIMITS[limit]))


@call(
    "!O", "cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig", "cudaDeviceGetCacheConfig", "cudaDeviceGetSharedMemConfig"
)
def context_preference(out: int) -> None:
    """No preference."""
    put32(out, 0)


@call("!", "cuCtxSynchronize")
@call("C", "cuCtxSynchronize_v2")
@call(
    "!U", "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cudaDeviceSetCacheConfig", "cudaDeviceSetSharedMemConfig"
)
@call("!", "cuCtxResetPersistingL2Cache", "cudaCtxResetPersistingL2Cache")
@call("!", "cuProfilerStart", "cuProfilerStop", "cudaProfilerStart", "cudaProfilerStop")
def nothing(*arguments: object) -> None:
    """Work has been done at once; the rest is performance only."""


@call("!PP", "cuCtxGetStreamPriorityRange", "cudaDeviceGetStreamPriorityRange")
def priorities(least: int, greatest: int) -> None:
    """Priorities of streams."""
    put32(least, 0)
    put32(greatest, -5)


@call("!PU", "cuCtxEnablePeerAccess")
def enable_peer(handle: int, flags: int) -> None:
    """Devices share one memory."""
    _peer(handle, Result.PEER_ACCESS_UNSUPPORTED)


@call("!P", "cuCtxDisablePeerAccess")
def disable_peer(handle: int) -> None:
    """Devices share one memory."""
    _peer(handle, Result.PEER_ACCESS_NOT_ENABLED)


def _peer(handle: int, same: Result) -> None:
    other = PROCESS.get(handle, Context, Result.INVALID_CONTEXT, Result.CONTEXT_IS_DESTROYED)
    if other.ordinal == PROCESS.ordinal():
        raise DriverError(same)


@call("DU", "cudaDeviceEnablePeerAccess")
@call("D", "cudaDeviceDisablePeerAccess")
def device_peer_access(device: int, flags: int = 0) -> None:
    """Devices share one memory."""


# ---- errors --------------------------------------------------------------------------------------


@call("IO", "cuGetErrorName")
def error_name(code: int, out: int) -> None:
    """cuGetErrorName."""
    put64(out, c_string(_known(code, out).driver_name))


@call("IO", "cuGetErrorString")
def error_string(code: int, out: int) -> None:
    """cuGetErrorString."""
    put64(out, c_string(text_of(_known(code, out))))


def _known(code: int, out: int) -> Result:
    try:
        return Result(code)
    except ValueError:
        put64(out, 0)
        raise DriverError(Result.INVALID_VALUE) from None
