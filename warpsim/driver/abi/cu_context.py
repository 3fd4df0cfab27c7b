"""libcuda: initialisation, devices, contexts, errors' names."""

from __future__ import annotations

from warpsim.driver import properties
from warpsim.driver.abi.calls import PROCESS, Context, c_string, call, needs, put32, put64, put_bytes
from warpsim.driver.driver import VERSION
from warpsim.driver.results import DriverError, Result, text_of

LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0}
"""CUlimit: stack, printf FIFO, heap, depth of device synchronisation, pending launches, L2 fetch, L2 persisting."""


@call("U", "cuInit")
def init(flags: int) -> None:
    """cuInit."""
    if flags:
        raise DriverError(Result.INVALID_VALUE)
    _ = PROCESS.driver


@call("P", "cuDriverGetVersion", "cudaDriverGetVersion", "cudaRuntimeGetVersion")
def version(out: int) -> None:
    """The version of CUDA."""
    needs(out)
    put32(out, VERSION)


def ordinal_of(device: int) -> int:
    """A device that exists."""
    if not 0 <= device < len(PROCESS.driver.devices):
        raise DriverError(Result.INVALID_DEVICE)
    return device


@call("PI", "cuDeviceGet")
def device_get(out: int, ordinal: int) -> None:
    """cuDeviceGet."""
    needs(out)
    put32(out, ordinal_of(ordinal))


@call("P", "cuDeviceGetCount", "cudaGetDeviceCount")
def device_count(out: int) -> None:
    """How many devices there are."""
    needs(out)
    put32(out, len(PROCESS.driver.devices))


@call("PII", "cuDeviceGetName")
def device_name(out: int, length: int, device: int) -> None:
    """cuDeviceGetName."""
    put_name(out, length, properties.name(PROCESS.driver.devices[ordinal_of(device)].sm))


@call("PI", "cuDeviceGetUuid", "cuDeviceGetUuid_v2")
def device_uuid(out: int, device: int) -> None:
    """cuDeviceGetUuid."""
    put_bytes(out, uuid(ordinal_of(device)))


def uuid(ordinal: int) -> bytes:
    """The 16 bytes by which a device is known."""
    return b"warpsim" + bytes([ordinal]) + PROCESS.driver.devices[ordinal].target.encode()[:8].ljust(8, b"\0")


@call("PPI", "cuDeviceGetLuid")
def device_luid(out: int, mask: int, device: int) -> None:
    """Only Windows has them."""
    raise DriverError(Result.NOT_SUPPORTED)


@call("PI", "cuDeviceTotalMem_v2")
def device_memory(out: int, device: int) -> None:
    """cuDeviceTotalMem."""
    ordinal_of(device)
    put64(out, properties.total_memory())


@call("PII", "cuDeviceGetAttribute", "cudaDeviceGetAttribute")
def device_attribute(out: int, number: int, device: int) -> None:
    """An attribute; the numbers of the run time are the driver's."""
    needs(out)
    ordinal = ordinal_of(device)
    if not 1 <= number <= 200:
        raise DriverError(Result.INVALID_VALUE)
    put32(out, properties.attribute(PROCESS.driver.devices[ordinal].sm, number, ordinal))


@call("PPI", "cuDeviceComputeCapability")
def device_capability(major: int, minor: int, device: int) -> None:
    """cuDeviceComputeCapability."""
    sm = PROCESS.driver.devices[ordinal_of(device)].sm
    put32(major, sm // 10)
    put32(minor, sm % 10)


@call("PI", "cuDeviceGetProperties")
def device_properties(out: int, device: int) -> None:
    """The old structure of limits."""
    sm = PROCESS.driver.devices[ordinal_of(device)].sm
    for index, number in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)):
        put32(out + 4 * index, properties.attribute(sm, number))


@call("PII", "cuDeviceGetPCIBusId", "cudaDeviceGetPCIBusId")
def device_bus(out: int, length: int, device: int) -> None:
    """The place on the bus, as text."""
    put_name(out, length, f"0000:{ordinal_of(device) + 1:02x}:00.0")


def put_name(out: int, length: int, name: str) -> None:
    """As much of a name as there is room for, and a zero."""
    if length < 1:
        raise DriverError(Result.INVALID_VALUE, f"no room for a name: {length} bytes")
    put_bytes(out, name.encode()[: length - 1] + b"\0")


@call("PPII", "cuDeviceGetP2PAttribute", "cudaDeviceGetP2PAttribute")
@call("PII", "cuDeviceCanAccessPeer", "cudaDeviceCanAccessPeer")
def can_access_peer(out: int, *devices: int) -> None:
    """Devices share one memory."""
    one, other = map(ordinal_of, devices[-2:])
    put32(out, int(one != other))


# ---- contexts ------------------------------------------------------------------------------------


@call("PI", "cuDevicePrimaryCtxRetain")
def primary_retain(out: int, device: int) -> None:
    """cuDevicePrimaryCtxRetain."""
    needs(out)
    context = PROCESS.primary[ordinal_of(device)]
    context.active += 1
    put64(out, context.handle)


@call("I", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2")
def primary_release(device: int) -> None:
    """cuDevicePrimaryCtxRelease."""
    context = PROCESS.primary[ordinal_of(device)]
    if context.active == 1:
        PROCESS.end(context)
    context.active = max(context.active - 1, 0)


@call("I", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2")
def primary_reset(device: int) -> None:
    """cuDevicePrimaryCtxReset."""
    context = PROCESS.primary[ordinal_of(device)]
    context.active, context.held = 0, False
    PROCESS.end(context)


@call("IPP", "cuDevicePrimaryCtxGetState")
def primary_state(device: int, flags: int, active: int) -> None:
    """cuDevicePrimaryCtxGetState."""
    context = PROCESS.primary[ordinal_of(device)]
    put32(flags, context.flags)
    put32(active, int(context.active > 0))


@call("IU", "cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2")
def primary_flags(device: int, flags: int) -> None:
    """cuDevicePrimaryCtxSetFlags."""
    PROCESS.primary[ordinal_of(device)].flags = flags


@call("PPUI", "cuCtxCreate_v4")
@call("PPIUI", "cuCtxCreate_v3")
@call("PUI", "cuCtxCreate_v2", "cuCtxCreate")
def context_create(out: int, *rest: int) -> None:
    """A context, which becomes current."""
    needs(out)
    flags, device = rest[-2:]
    context = Context(ordinal_of(device), flags)
    context.handle = PROCESS.put(context)
    PROCESS.stack.append(context)
    put64(out, context.handle)


@call("P", "cuCtxDestroy_v2", "cuCtxDestroy")
def context_destroy(handle: int) -> None:
    """cuCtxDestroy."""
    context = PROCESS.get(handle, Context)
    if context.primary:
        raise DriverError(Result.INVALID_CONTEXT, "a primary context is released, not destroyed")
    PROCESS.drop(handle, Context)
    if PROCESS.stack and PROCESS.stack[-1] is context:
        PROCESS.stack.pop()
    PROCESS.end(context)


@call("P", "cuCtxSetCurrent")
def context_set(handle: int) -> None:
    """cuCtxSetCurrent: what is on top of the stack."""
    if PROCESS.stack:
        PROCESS.stack.pop()
    if handle:
        PROCESS.stack.append(PROCESS.get(handle, Context))


@call("P", "cuCtxGetCurrent")
def context_current(out: int) -> None:
    """cuCtxGetCurrent."""
    put64(out, PROCESS.stack[-1].handle if PROCESS.stack else 0)


@call("P", "cuCtxPushCurrent_v2", "cuCtxPushCurrent")
def context_push(handle: int) -> None:
    """cuCtxPushCurrent."""
    PROCESS.stack.append(PROCESS.get(handle, Context))


@call("P", "cuCtxPopCurrent_v2", "cuCtxPopCurrent")
def context_pop(out: int) -> None:
    """cuCtxPopCurrent."""
    context = PROCESS.context()
    PROCESS.stack.pop()
    put64(out, context.handle)


@call("P", "cuCtxGetDevice")
def context_device(out: int) -> None:
    """cuCtxGetDevice."""
    put32(out, PROCESS.context().ordinal)


@call("PP", "cuCtxGetDevice_v2")
def context_device_of(out: int, handle: int) -> None:
    """cuCtxGetDevice of any context."""
    put32(out, (PROCESS.get(handle, Context) if handle else PROCESS.context()).ordinal)


@call("PP", "cuCtxGetApiVersion")
def context_version(handle: int, out: int) -> None:
    """cuCtxGetApiVersion."""
    put32(out, VERSION)


@call("PP", "cuCtxGetId")
def context_id(handle: int, out: int) -> None:
    """cuCtxGetId."""
    context = PROCESS.get(handle, Context) if handle else PROCESS.context()
    put64(out, context.handle >> 8)


@call("P", "cuCtxGetFlags")
def context_flags(out: int) -> None:
    """cuCtxGetFlags."""
    put32(out, PROCESS.context().flags)


@call("U", "cuCtxSetFlags")
def context_set_flags(flags: int) -> None:
    """cuCtxSetFlags."""
    PROCESS.context().flags = flags


@call("", "cuCtxSynchronize")
@call("P", "cuCtxSynchronize_v2")
def context_synchronize(*handle: int) -> None:
    """Wait for everything: it has been done."""


@call("UP", "cuCtxSetLimit", "cudaDeviceSetLimit")
def context_set_limit(limit: int, value: int) -> None:
    """A limit, which is kept and given back; the simulator's own stay."""
    if limit not in LIMITS:
        raise DriverError(Result.UNSUPPORTED_LIMIT)
    PROCESS.primary[PROCESS.ordinal()].limits[limit] = value


@call("PU", "cuCtxGetLimit", "cudaDeviceGetLimit")
def context_limit(out: int, limit: int) -> None:
    """A limit."""
    if limit not in LIMITS:
        raise DriverError(Result.UNSUPPORTED_LIMIT)
    put64(out, PROCESS.primary[PROCESS.ordinal()].limits.get(limit, LIMITS[limit]))


@call("P", "cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig", "cudaDeviceGetCacheConfig", "cudaDeviceGetSharedMemConfig")
def context_preference(out: int) -> None:
    """No preference."""
    put32(out, 0)


@call("U", "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cudaDeviceSetCacheConfig", "cudaDeviceSetSharedMemConfig")
@call("", "cuCtxResetPersistingL2Cache", "cudaCtxResetPersistingL2Cache")
@call("", "cuProfilerStart", "cuProfilerStop", "cudaProfilerStart", "cudaProfilerStop")
def nothing(*words: int) -> None:
    """Performance only."""


@call("PP", "cuCtxGetStreamPriorityRange", "cudaDeviceGetStreamPriorityRange")
def priorities(least: int, greatest: int) -> None:
    """Priorities of streams."""
    put32(least, 0)
    put32(greatest, -5)


@call("PU", "cuCtxEnablePeerAccess")
@call("P", "cuCtxDisablePeerAccess")
@call("IU", "cudaDeviceEnablePeerAccess")
@call("I", "cudaDeviceDisablePeerAccess")
def peer_access(*words: int) -> None:
    """Devices share one memory."""


# ---- errors --------------------------------------------------------------------------------------


@call("IP", "cuGetErrorName")
def error_name(code: int, out: int) -> None:
    """cuGetErrorName."""
    try:
        put64(out, c_string(Result(code).driver_name))
    except ValueError:
        put64(out, 0)
        raise DriverError(Result.INVALID_VALUE) from None


@call("IP", "cuGetErrorString")
def error_string(code: int, out: int) -> None:
    """cuGetErrorString."""
    try:
        put64(out, c_string(text_of(Result(code))))
    except ValueError:
        put64(out, 0)
        raise DriverError(Result.INVALID_VALUE) from None
