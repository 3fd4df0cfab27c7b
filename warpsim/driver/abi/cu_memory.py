"""libcuda: memory."""

from __future__ import annotations

import struct

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, context_or_current, unsupported
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.memory import SIMULATED, Kind, Pool, Side
from warpsim.driver.raw import get32, get64, mapped, put32, put64, put_bytes
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Stream
from warpsim.driver.work import Copy, Fill, Free

BOX = struct.Struct("<QQIxxxxQQQQ")
"""One side of CUDA_MEMCPY2D: x in bytes, y, type, host, device, array, pitch."""
BOX3 = struct.Struct("<QQQQIxxxxQQQQQQ")
"""One side of CUDA_MEMCPY3D: x in bytes, y, z, level, type, host, device, array, reserved, pitch, height."""
HOST, ARRAY = 1, 3
ACCESSED_BY, NOWHERE = 3, -2
"""CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, CU_DEVICE_INVALID."""
PITCH = 512


@call("!OP", "cuMemAlloc_v2", "cuMemAlloc")
def allocate(out: int, nbytes: int) -> None:
    """Device memory."""
    put64(out, PROCESS.driver.memory.allocate(nbytes, PROCESS.context().ordinal))


@call("P", "cuMemFree_v2", "cuMemFree", "cudaFree")
def free(address: int) -> None:
    """Give memory back."""
    PROCESS.driver.memory.free(address, Kind.DEVICE, Kind.MANAGED)


@call("!OOPPU", "cuMemAllocPitch", "cuMemAllocPitch_v2")
def allocate_pitch(out: int, pitch: int, width: int, height: int, element: int) -> None:
    """Rows that begin at multiples of 512 bytes."""
    step = -(-width // PITCH) * PITCH
    put64(out, PROCESS.driver.memory.allocate(step * height, PROCESS.context().ordinal))
    put64(pitch, step)


@call("!OP", "cuMemAllocHost_v2", "cuMemAllocHost", "cudaMallocHost")
@call("!OPU", "cuMemHostAlloc", "cudaHostAlloc")
def allocate_host(out: int, nbytes: int, flags: int = 0) -> None:
    """Pinned memory."""
    put64(out, PROCESS.driver.memory.allocate_host(nbytes, Kind.PINNED, PROCESS.context().ordinal) if nbytes else 0)


@call("P", "cuMemFreeHost", "cudaFreeHost")
def free_host(address: int) -> None:
    """Give pinned memory back."""
    PROCESS.driver.memory.free(address, Kind.PINNED)


@call("!OPU", "cuMemAllocManaged", "cudaMallocManaged")
def allocate_managed(out: int, nbytes: int, flags: int) -> None:
    """Managed memory."""
    put64(out, PROCESS.driver.memory.allocate_host(nbytes, Kind.MANAGED, PROCESS.context().ordinal))


@call("!OPU", "cuMemHostRegister_v2", "cuMemHostRegister", "cudaHostRegister")
def register(address: int, nbytes: int, flags: int) -> None:
    """Let the device see memory of the host."""
    PROCESS.driver.memory.register(address, nbytes, read_only=bool(flags & 8))


@call("O", "cuMemHostUnregister", "cudaHostUnregister")
def unregister(address: int) -> None:
    """Take it from the device."""
    PROCESS.driver.memory.unregister(address)


@call("!OPU", "cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer", "cudaHostGetDevicePointer")
def host_pointer(out: int, address: int, flags: int) -> None:
    """The device sees the host's memory at the host's addresses."""
    _of_host(address)
    put64(out, address)


def _of_host(address: int) -> None:
    block = PROCESS.driver.memory.holding(address)
    if block is None or block.kind is Kind.DEVICE:
        raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is no pinned, managed or registered memory")


@call("!OP", "cuMemHostGetFlags", "cudaHostGetFlags")
def host_flags(out: int, address: int) -> None:
    """Mapped and portable."""
    _of_host(address)
    put32(out, 3)


@call("!PP", "cuMemGetInfo_v2", "cuMemGetInfo", "cudaMemGetInfo")
def information(free_bytes: int, total: int) -> None:
    """What is left."""
    put64(free_bytes, properties.total_memory() - PROCESS.driver.memory.used)
    put64(total, properties.total_memory())


@call("!PPP", "cuMemGetAddressRange_v2", "cuMemGetAddressRange")
def address_range(base: int, size: int, address: int) -> None:
    """The allocation of an address."""
    found = PROCESS.driver.memory.extent(address)
    if found is None:
        raise DriverError(Result.NOT_FOUND)
    put64(base, found[0])
    put64(size, found[1])


# ---- copies --------------------------------------------------------------------------------------


def copy(target: int, source: int, nbytes: int, stream: Stream | None = None) -> None:
    """Bytes from anywhere to anywhere."""
    PROCESS.driver.copy(target, source, nbytes, stream)


for _way in ("HtoD", "DtoH", "DtoD"):
    call("!PPP", f"cuMemcpy{_way}_v2", f"cuMemcpy{_way}")(copy)
    call("PPPs", f"cuMemcpy{_way}Async_v2", f"cuMemcpy{_way}Async")(copy)
call("!PPP", "cuMemcpy")(copy)
call("PPPs", "cuMemcpyAsync")(copy)


@call("!PPPPP", "cuMemcpyPeer")
@call("PPPPPs", "cuMemcpyPeerAsync")
def copy_peer(target: int, to: int, source: int, of: int, nbytes: int, stream: Stream | None = None) -> None:
    """Contexts share one memory, but both have to be there."""
    for handle in filter(None, (to, of)):
        context_or_current(handle)
    copy(target, source, nbytes, stream)


def side(given: tuple[int, ...]) -> Side:
    """One side of a 2D copy."""
    x, y, kind, host, device, array, pitch = given
    if kind == ARRAY or array:
        raise unsupported("CUDA arrays")
    return Side((host if kind == HOST else device) + y * pitch + x, pitch, 0)


@call("!O", "cuMemcpy2D_v2", "cuMemcpy2D", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned")
@call("Os", "cuMemcpy2DAsync_v2", "cuMemcpy2DAsync")
def copy_2d(given: int, stream: Stream | None = None) -> None:
    """A copy of rows."""
    source = side(BOX.unpack(_structure(given, BOX.size)))
    target = side(BOX.unpack(_structure(given + BOX.size, BOX.size)))
    width, height = get64(given + 2 * BOX.size), get64(given + 2 * BOX.size + 8)
    PROCESS.driver.submit(Copy(_pitched(target, width), _pitched(source, width), width, height), stream)


def _pitched(given: Side, width: int) -> Side:
    return given if given.pitch else Side(given.address, width, 0)


def side_3d(given: tuple[int, ...]) -> Side:
    """One side of a 3D copy."""
    x, y, z, _, kind, host, device, array, _, pitch, height = given
    if kind == ARRAY or array:
        raise unsupported("CUDA arrays")
    return Side((host if kind == HOST else device) + z * pitch * height + y * pitch + x, pitch, pitch * height)


@call("!O", "cuMemcpy3D_v2", "cuMemcpy3D")
@call("Os", "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync")
def copy_3d(given: int, stream: Stream | None = None) -> None:
    """A copy of planes of rows."""
    PROCESS.driver.submit(work_3d(given), stream)


def work_3d(given: int) -> Copy:
    """CUDA_MEMCPY3D as work."""
    source = side_3d(BOX3.unpack(_structure(given, BOX3.size)))
    target = side_3d(BOX3.unpack(_structure(given + BOX3.size, BOX3.size)))
    width, height, depth = (get64(given + 2 * BOX3.size + 8 * i) for i in range(3))
    return Copy(_pitched(target, width), _pitched(source, width), width, height, depth)


def box_of(work: Copy) -> bytes:
    """A copy as CUDA_MEMCPY3D, whose sides begin at their addresses."""
    return b"".join(_side_of(side) for side in (work.source, work.target)) + struct.pack(
        "<QQQ", work.width, work.height, work.depth
    )


def _side_of(side: Side) -> bytes:
    on_device = any(low <= side.address < high for low, high in SIMULATED)
    host, device = (0, side.address) if on_device else (side.address, 0)
    return BOX3.pack(0, 0, 0, 0, 2 if on_device else HOST, host, device, 0, 0, side.pitch, side.rows)


def _structure(address: int, nbytes: int) -> bytes:
    return PROCESS.driver.memory.bytes_at(address, nbytes).tobytes()


# ---- sets ----------------------------------------------------------------------------------------


def fill(
    address: int, value: int, unit: int, count: int, stream: Stream | None = None, pitch: int = 0, rows: int = 1
) -> None:
    """Elements of one value."""
    PROCESS.driver.submit(Fill(address, value, unit, count, pitch, rows), stream)


def _declare_fills(unit: int) -> None:
    bits = 8 * unit

    @call("!PUP", f"cuMemsetD{bits}_v2", f"cuMemsetD{bits}")
    @call("PUPs", f"cuMemsetD{bits}Async")
    def row(address: int, value: int, count: int, stream: Stream | None = None) -> None:
        fill(address, value, unit, count, stream)

    @call("!PPUPP", f"cuMemsetD2D{bits}_v2", f"cuMemsetD2D{bits}")
    @call("PPUPPs", f"cuMemsetD2D{bits}Async")
    def rows(address: int, pitch: int, value: int, width: int, height: int, stream: Stream | None = None) -> None:
        fill(address, value, unit, width, stream, pitch, height)


for _unit in (1, 2, 4):
    _declare_fills(_unit)


# ---- pointers ------------------------------------------------------------------------------------

_MEMORY_TYPES = {Kind.DEVICE: 2, Kind.MANAGED: 2, Kind.PINNED: 1, Kind.REGISTERED: 1}


def pointer_attribute(out: int, number: int, address: int) -> bool:
    """Store a CUpointer_attribute; False where the address is not the driver's."""
    memory = PROCESS.driver.memory
    block, extent = memory.holding(address), memory.extent(address)
    if extent is None:
        return False
    kind = Kind.DEVICE if block is None else block.kind
    ordinal = 0 if block is None else block.ordinal
    if number in (1, 16):  # CONTEXT, MEMPOOL_HANDLE
        put64(out, PROCESS.primary[ordinal].handle if number == 1 else 0)
    elif number == 2:  # MEMORY_TYPE
        put32(out, _MEMORY_TYPES[kind])
    elif number in (3, 4):  # DEVICE_POINTER, HOST_POINTER
        put64(out, 0 if number == 4 and kind is Kind.DEVICE else address)
    elif number == 6:
        put32(out, 1)  # SYNC_MEMOPS
    elif number == 7:  # BUFFER_ID
        put64(out, 0 if block is None else block.number)
    elif number == 8:  # IS_MANAGED
        put32(out, int(kind is Kind.MANAGED))
    elif number == 9:  # DEVICE_ORDINAL
        put32(out, ordinal)
    elif number in (11, 12):  # RANGE_START_ADDR, RANGE_SIZE
        put64(out, extent[number - 11])
    elif number == 13:  # MAPPED
        put32(out, 1)
    elif number in (10, 14, 15, 17, 18, 19, 20):
        put32(out, 0)
    else:
        raise DriverError(Result.INVALID_VALUE, f"pointer attribute {number}")
    return True


@call("OIP", "cuPointerGetAttribute")
def pointer_get(out: int, number: int, address: int) -> None:
    """cuPointerGetAttribute."""
    if not pointer_attribute(out, number, address):
        raise DriverError(Result.INVALID_VALUE)


@call("UOOP", "cuPointerGetAttributes")
def pointer_get_all(count: int, numbers: int, outs: int, address: int) -> None:
    """cuPointerGetAttributes: 0 for memory that is not the driver's."""
    for index in range(count):
        number, out = get32(numbers + 4 * index), get64(outs + 8 * index)
        if not pointer_attribute(out, number, address):
            put_bytes(out, bytes(8 if number in (1, 3, 4, 7, 11, 12, 16) else 4))
            if number == 9:
                put32(out, -2)


@call("OIP", "cuPointerSetAttribute")
def pointer_set(value: int, number: int, address: int) -> None:
    """Performance only."""
    _held(address)


def _held(address: int) -> None:
    if PROCESS.driver.memory.extent(address) is None:
        raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is no memory of the driver's")


@call("PPUI", "cuMemAdvise")
@call("PPUP", "cuMemAdvise_v2", "cudaMemAdvise")
@call("PPIs", "cuMemPrefetchAsync")
@call("PPPUs", "cuMemPrefetchAsync_v2", "cudaMemPrefetchAsync")
def advice(*words: object) -> None:
    """Performance only."""


@call("!OPIPP", "cuMemRangeGetAttribute", "cudaMemRangeGetAttribute")
def range_attribute(out: int, nbytes: int, number: int, address: int, count: int) -> None:
    """No advice is kept: there are no locations."""
    if not 1 <= number <= 8 or not nbytes or nbytes % 4 or (nbytes > 4 and number != ACCESSED_BY):
        raise DriverError(Result.INVALID_VALUE, f"no attribute {number} of {nbytes} bytes")
    _held(address)
    mapped(out, nbytes)
    put_bytes(out, struct.pack("<i", NOWHERE if number in (2, ACCESSED_BY, 4) else 0) * (nbytes // 4))


# ---- pools: memory is given at once and taken back at once ---------------------------------------

_POOLS: dict[int, Pool] = {}


@call("OD", "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cudaDeviceGetDefaultMemPool", "cudaDeviceGetMemPool")
def default_pool(out: int, device: int) -> None:
    """The pool of a device."""
    put64(out, PROCESS.handles.put(_POOLS.setdefault(device, Pool())))


@call("OO", "cuMemPoolCreate", "cudaMemPoolCreate")
def pool_create(out: int, given: int) -> None:
    """A pool."""
    put64(out, PROCESS.handles.put(Pool()))


@call("p", "cuMemPoolDestroy", "cudaMemPoolDestroy")
def pool_destroy(pool: Pool) -> None:
    """The end of a pool."""
    PROCESS.handles.end(pool)


@call("pIO", "cuMemPoolSetAttribute", "cudaMemPoolSetAttribute")
def pool_set(pool: Pool, number: int, value: int) -> None:
    """An attribute that is kept."""
    pool.attributes[number] = get64(value)


@call("pIO", "cuMemPoolGetAttribute", "cudaMemPoolGetAttribute")
def pool_get(pool: Pool, number: int, out: int) -> None:
    """An attribute: the three switches are ints, the rest 64 bits."""
    if number <= 3:
        put32(out, pool.attributes.get(number, 1))
    elif number == 7:
        put64(out, PROCESS.driver.memory.used)
    else:
        put64(out, pool.attributes.get(number, 0))


@call("pP", "cuMemPoolTrimTo", "cudaMemPoolTrimTo")
@call("Dp", "cuDeviceSetMemPool", "cudaDeviceSetMemPool")
@call("pOP", "cuMemPoolSetAccess", "cudaMemPoolSetAccess")
def pool_nothing(*arguments: object) -> None:
    """All devices reach all pools, and nothing is kept back."""


@call("OPps", "cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync")
def pool_allocate(out: int, nbytes: int, pool: Pool, stream: Stream) -> None:
    """Memory of a pool."""
    allocate_async(out, nbytes, stream)


@call("OPs", "cuMemAllocAsync", "cudaMallocAsync")
def allocate_async(out: int, nbytes: int, stream: Stream) -> None:
    """Memory in a stream's order; it belongs to the device, not to a context. A captured stream gets a node."""
    ordinal, memory = PROCESS.context_of(stream).ordinal, PROCESS.driver.memory
    if stream.capture is not None:
        work = PROCESS.driver.graph_memory.allocation(memory, nbytes, ordinal, stream.capture.graph)
        stream.submit(work)
        put64(out, work.address)
        return
    put64(out, memory.allocate(nbytes, ordinal) if nbytes else 0)
    if nbytes:
        memory.blocks[get64(out)].owner = PROCESS.primary[ordinal]


@call("Ps", "cuMemFreeAsync", "cudaFreeAsync")
def free_async(address: int, stream: Stream) -> None:
    """Give memory back in a stream's order. A captured stream gets a node."""
    if stream.capture is None:
        PROCESS.driver.memory.free(address, Kind.DEVICE)
    elif address:
        PROCESS.driver.graph_memory.claim(address, stream.capture.graph)
        stream.submit(Free(address))
