"""libcuda: initialization, devices, contexts, error names."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, context, reader
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import put32, put64, put_bytes
from warpsim.driver.results import DriverError, Result, require, text_of
from warpsim.records import frozen

LIMITS = {0: 1024, 1: 33 << 18, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0}
"""Defaults by CUlimit: stack, printf FIFO, heap, device synchronization depth, pending launches, L2 fetch, L2 persisting."""
PENDING_LAUNCHES, LEAST_PENDING = 4, 32
"""A limit below 32 counts as 32 (an H200)."""
LIMITS_END = 10
"""CU_LIMIT_MAX."""


# ---- devices -------------------------------------------------------------------------------------

call("4", "cuDriverGetVersion cudaDriverGetVersion cudaRuntimeGetVersion")(lambda: VERSION)
call("4", "cuDeviceGetCount cudaGetDeviceCount")(lambda: len(PROCESS.driver.devices))
call("4D", "cuDeviceGet")(lambda device: device)
call("8D", "cuDeviceTotalMem cuDeviceTotalMem_v2")(lambda device: properties.total_memory())
call("4DD", "cuDeviceCanAccessPeer cudaDeviceCanAccessPeer")(lambda one, other: int(one != other))


def _sm(device: int) -> int:
    return PROCESS.driver.devices[device].sm


@call("OID", "cuDeviceGetName")
def get_device_name(out: int, length: int, device: int) -> None:
    """Store as much of a device's name as fits, and a zero."""
    require(length >= 1, f"no room for a name: {length} bytes")
    put_bytes(out, properties.name(_sm(device)).encode()[: length - 1] + b"\0")


@call("OID", "cuDeviceGetPCIBusId cudaDeviceGetPCIBusId")
def get_bus_id(out: int, length: int, device: int) -> None:
    name = f"0000:{device + 1:02x}:00.0"
    require(length > len(name), f"no room for a bus id: {length} bytes")
    put_bytes(out, name.encode() + b"\0")


@call("BD", "cuDeviceGetUuid cuDeviceGetUuid_v2")
def uuid(ordinal: int) -> bytes:
    return b"warpsim" + bytes([ordinal]) + PROCESS.driver.devices[ordinal].target.encode()[:8].ljust(8, b"\0")


@call("OOD", "cuDeviceGetLuid")
def get_luid(out: int, mask: int, device: int) -> None:
    """Refuse: only Windows has these."""
    raise DriverError(Result.NOT_SUPPORTED)


@call("4ID", "cuDeviceGetAttribute cudaDeviceGetAttribute")
def device_attribute(number: int, device: int) -> int:
    """A device attribute; the runtime uses the driver's numbers."""
    require(1 <= number <= 200)
    return properties.attribute(_sm(device), number, device)


call("44D", "cuDeviceComputeCapability")(lambda device: divmod(_sm(device), 10))


@call("OD", "cuDeviceGetProperties")
def get_properties(out: int, device: int) -> None:
    for index in range(14):
        put32(out + 4 * index, properties.attribute(_sm(device), index + 1))


@call("4IDD", "cuDeviceGetP2PAttribute cudaDeviceGetP2PAttribute")
def peer_attribute(number: int, one: int, other: int) -> int:
    require(one != other, result=Result.INVALID_DEVICE)
    return 1


# ---- primary contexts ----------------------------------------------------------------------------


call("8D", "cuDevicePrimaryCtxRetain")(lambda device: PROCESS.retain(PROCESS.primary[device]))


@call("D", "cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2")
def release_primary(device: int) -> None:
    """Release a primary context. The last release ends it."""
    primary = PROCESS.primary[device]
    require(primary.active, "the primary context has not been retained", Result.INVALID_CONTEXT)
    primary.active -= 1
    if not primary.active:
        PROCESS.end(primary)


@call("D", "cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2")
def reset_primary(device: int) -> None:
    primary = PROCESS.primary[device]
    primary.active, primary.held = 0, False
    PROCESS.end(primary)


call("D44", "cuDevicePrimaryCtxGetState")(
    lambda device: (PROCESS.primary[device].flags, PROCESS.primary[device].active > 0)
)


@call("DU", "cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2")
def set_primary_flags(device: int, flags: int) -> None:
    PROCESS.primary[device].flags = flags


# ---- contexts ------------------------------------------------------------------------------------


@call("8PUD", "cuCtxCreate_v4")
@call("8PIUD", "cuCtxCreate_v3")
@call("8UD", "cuCtxCreate_v2 cuCtxCreate")
def create_context(*rest: int) -> int:
    flags, device = rest[-2:]
    made = Context(device, flags)
    made.handle = PROCESS.handles.put(made)
    PROCESS.stack.append(made)
    return made.handle


@call("P", "cuCtxDestroy_v2 cuCtxDestroy cuCtxDetach")
def destroy_context(handle: int) -> None:
    """Destroy a context; to detach does so, too, as nothing attaches. In other threads, and below the top of this one's stack, it stays
    current but cannot be used."""
    found = PROCESS.get(handle, Context, Result.INVALID_CONTEXT if handle else Result.INVALID_VALUE)
    require(not found.primary, "a primary context is released, not destroyed", Result.INVALID_CONTEXT)
    if PROCESS.stack and PROCESS.stack[-1] is found:
        PROCESS.stack.pop()
    PROCESS.end(found)


@call("P", "cuCtxSetCurrent")
def set_current(handle: int) -> None:
    PROCESS.stack[-1:] = [context(handle)] if handle else []


call("c", "cuCtxPushCurrent_v2 cuCtxPushCurrent")(lambda pushed: PROCESS.stack.append(pushed))


@call("P", "cuCtxPopCurrent_v2 cuCtxPopCurrent")
def pop_context(out: int) -> None:
    """Pop the current context, even one that has ended."""
    put64(out, _top().handle)
    PROCESS.stack.pop()


def _top() -> Context:
    """The current context, even one that has ended."""
    require(PROCESS.stack, result=Result.INVALID_CONTEXT)
    return PROCESS.stack[-1]


call("8", "cuCtxGetCurrent")(lambda: PROCESS.stack[-1].handle if PROCESS.stack else 0)
call("4", "cuCtxGetDevice")(lambda: _top().ordinal)
call("4", "cuCtxGetFlags")(lambda: _top().flags)
call("4C", "cuCtxGetDevice_v2")(lambda found: found.ordinal)
call("C4", "cuCtxGetApiVersion")(lambda found: VERSION)
call("C8", "cuCtxGetId")(lambda found: found.handle >> 8)
call("!4", "cuCtxGetCacheConfig cudaDeviceGetCacheConfig")(lambda: 0)
call("!4", "cuCtxGetSharedMemConfig cudaDeviceGetSharedMemConfig")(lambda: 0)


@call("!U", "cuCtxSetFlags")
def set_flags(flags: int) -> None:
    PROCESS.context().flags = flags


@call("!UP", "cuCtxSetLimit cudaDeviceSetLimit")
def set_limit(limit: int, value: int) -> None:
    _check_limit(limit)
    context = PROCESS.context()
    context.limits[limit] = value
    if limit == PENDING_LAUNCHES:
        PROCESS.driver.pending_launches[context] = max(value, LEAST_PENDING)


@call("!8U", "cuCtxGetLimit cudaDeviceGetLimit")
def get_limit(limit: int) -> int:
    """A stored limit, or its default."""
    _check_limit(limit)
    return PROCESS.context().limits.get(limit, LIMITS[limit])


def _check_limit(limit: int) -> None:
    require(limit in LIMITS, result=Result.UNSUPPORTED_LIMIT if limit < LIMITS_END else Result.INVALID_VALUE)


@call("!", "cuCtxSynchronize")
@call("C", "cuCtxSynchronize_v2")
@call("!U", "cuCtxSetCacheConfig cuCtxSetSharedMemConfig cudaDeviceSetCacheConfig cudaDeviceSetSharedMemConfig")
@call("!", "cuCtxResetPersistingL2Cache cudaCtxResetPersistingL2Cache")
@call("!", "cuProfilerStart cuProfilerStop cudaProfilerStart cudaProfilerStop")
@call("DU", "cudaDeviceEnablePeerAccess")
@call("D", "cudaDeviceDisablePeerAccess")
def nothing(*arguments: object) -> None:
    """Do nothing: all work has been done, devices share one memory, and the rest affects performance only."""


call("!ww", "cuCtxGetStreamPriorityRange cudaDeviceGetStreamPriorityRange")(lambda: (0, -5))


def _declare_peer(kinds: str, name: str, same: Result) -> None:
    @call(kinds, name)
    def peer(handle: int, flags: int = 0) -> None:
        other = PROCESS.get(handle, Context, Result.INVALID_CONTEXT, Result.CONTEXT_IS_DESTROYED)
        if other.ordinal == PROCESS.ordinal():
            raise DriverError(same)


_declare_peer("!PU", "cuCtxEnablePeerAccess", Result.PEER_ACCESS_UNSUPPORTED)
_declare_peer("!P", "cuCtxDisablePeerAccess", Result.PEER_ACCESS_NOT_ENABLED)


# ---- errors --------------------------------------------------------------------------------------


def _declare_error(name: str, text: Callable[[Result], str]) -> None:
    @call("IO", name)
    def describe(code: int, out: int) -> None:
        put64(out, 0)
        try:
            put64(out, c_string(text(Result(code))))
        except ValueError:
            raise DriverError(Result.INVALID_VALUE) from None


_declare_error("cuGetErrorName", lambda code: code.driver_name)
_declare_error("cuGetErrorString", text_of)


@frozen(eq=False)
class Listener:
    """A function that would hear of errors."""

    address: int


reader("Q")(lambda handle: PROCESS.get(handle, Listener, Result.INVALID_VALUE))


@call("OP8", "cuLogsRegisterCallback")
def add_listener(listener: int, data: int) -> int:
    """Take a listener, which is never called: errors are reported on standard error."""
    return PROCESS.handles.put(Listener(listener))


call("Q", "cuLogsUnregisterCallback")(lambda listener: PROCESS.handles.end(listener))
