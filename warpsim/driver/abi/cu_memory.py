"""libcuda: memory."""

from __future__ import annotations

import struct

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, context_or_current
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.arrays import CudaArray
from warpsim.driver.memory import SIMULATED, Kind, Pool, Side
from warpsim.driver.raw import bytes_at, get32, get64, mapped, put32, put64, put_bytes, row_at
from warpsim.driver.results import DriverError, Result, present, require
from warpsim.driver.streams import Stream
from warpsim.driver.work import Copy, Fill, Free
from warpsim.host.launch_options import Keywords
from warpsim.host.tensor_map import TensorMap, encoded
from warpsim.layout import tensor_map as layout

BOX = struct.Struct("<QQIxxxxQQQQ")
"""One side of CUDA_MEMCPY2D: x in bytes, y, type, host, device, array, pitch."""
BOX3 = struct.Struct("<QQQQIxxxxQQQQQQ")
"""One side of CUDA_MEMCPY3D: x in bytes, y, z, level, type, host, device, array, reserved, pitch, height."""
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
ACCESSED_BY, NOWHERE = 3, -2
"""CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, CU_DEVICE_INVALID."""
PITCH = 512


# ---- allocating ----------------------------------------------------------------------------------


@call("!8P", "cuMemAlloc_v2 cuMemAlloc")
def allocate(nbytes: int) -> int:
    return PROCESS.memory.allocate(nbytes, PROCESS.context().ordinal)


call("P", "cuMemFree_v2 cuMemFree cudaFree")(lambda address: PROCESS.memory.free(address, Kind.DEVICE, Kind.MANAGED))


@call("!88PPU", "cuMemAllocPitch cuMemAllocPitch_v2")
def allocate_pitched(width: int, height: int, element: int) -> tuple[int, int]:
    """Allocate rows that begin at multiples of the pitch; returns the address and the pitch."""
    pitch = -(-width // PITCH) * PITCH
    return allocate(pitch * height), pitch


@call("!8P", "cuMemAllocHost_v2 cuMemAllocHost cudaMallocHost")
@call("!8PU", "cuMemHostAlloc cudaHostAlloc")
def allocate_pinned(nbytes: int, flags: int = 0) -> int:
    """Allocate pinned memory; null for no bytes."""
    require(flags < 8, f"flags {flags}")
    return PROCESS.memory.allocate_host(nbytes, Kind.PINNED, PROCESS.context().ordinal) if nbytes else 0


call("P", "cuMemFreeHost cudaFreeHost")(lambda address: PROCESS.memory.free(address, Kind.PINNED))


@call("!8PU", "cuMemAllocManaged")
def allocate_managed(nbytes: int, flags: int) -> int:
    require(flags in {1, 2}, f"flags {flags}")
    return PROCESS.memory.allocate_host(nbytes, Kind.MANAGED, PROCESS.context().ordinal)


call("!8PU", "cudaMallocManaged")(lambda nbytes, flags: allocate_managed(nbytes, flags) if nbytes else 0)


@call("!OPU", "cuMemHostRegister_v2 cuMemHostRegister cudaHostRegister")
def register(address: int, nbytes: int, flags: int) -> None:
    require(flags < 16, f"flags {flags}")
    PROCESS.memory.register(address, nbytes, read_only=bool(flags & 8))


call("O", "cuMemHostUnregister cudaHostUnregister")(lambda address: PROCESS.memory.unregister(address))


@call("!8PU", "cuMemHostGetDevicePointer_v2 cuMemHostGetDevicePointer cudaHostGetDevicePointer")
def device_pointer(address: int, flags: int) -> int:
    """The device address of host memory, which is the same."""
    block = PROCESS.memory.holding(address)
    if block is None or block.kind.on_device:
        raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is not in pinned, managed or registered memory")
    return address


@call("!4P", "cuMemHostGetFlags cudaHostGetFlags")
def host_flags(address: int) -> int:
    device_pointer(address, 0)
    return 3


call("!yy", "cuMemGetInfo_v2 cuMemGetInfo cudaMemGetInfo")(
    lambda: (properties.total_memory() - PROCESS.memory.used, properties.total_memory())
)


call("!yyP", "cuMemGetAddressRange_v2 cuMemGetAddressRange")(
    lambda address: present(PROCESS.memory.extent(address), result=Result.NOT_FOUND)
)


# ---- copying -------------------------------------------------------------------------------------


def copy(target: int, source: int, nbytes: int, stream: Stream | None = None) -> None:
    """Copy bytes between any two addresses."""
    PROCESS.driver.copy(target, source, nbytes, stream)


for _way in ("HtoD", "DtoH", "DtoD"):
    call("!PPP", f"cuMemcpy{_way}_v2 cuMemcpy{_way}")(copy)
    call("PPPs", f"cuMemcpy{_way}Async_v2 cuMemcpy{_way}Async")(copy)
call("!PPP", "cuMemcpy")(copy)
call("PPPs", "cuMemcpyAsync")(copy)


@call("!PPPPP", "cuMemcpyPeer")
@call("PPPPPs", "cuMemcpyPeerAsync")
def copy_peer(target: int, to: int, source: int, of: int, nbytes: int, stream: Stream | None = None) -> None:
    """Copy between contexts, which share one memory."""
    for handle in filter(None, (to, of)):
        context_or_current(handle)
    copy(target, source, nbytes, stream)


@call("!O", "cuMemcpy2D_v2 cuMemcpy2D cuMemcpy2DUnaligned_v2 cuMemcpy2DUnaligned")
@call("Os", "cuMemcpy2DAsync_v2 cuMemcpy2DAsync")
def copy_2d(given: int, stream: Stream | None = None) -> None:
    """Copy rows, as CUDA_MEMCPY2D describes."""
    box = get64(given + 2 * BOX.size), get64(given + 2 * BOX.size + 8), 1
    source, target = (side(BOX.unpack(_structure(at, BOX.size)), box) for at in (given, given + BOX.size))
    copy_box(target, source, *box, stream)


def copy_box(target: Side, source: Side, width: int, height: int, depth: int, stream: Stream | None = None) -> None:
    """Copy planes of rows."""
    PROCESS.driver.submit(Copy(target, source, width, height, depth), stream)


def side(given: tuple[int, ...], box: tuple[int, int, int], z: int = 0) -> Side:
    """One side of a copy of a box; rows are contiguous if no pitch is given."""
    x, y, kind, host, device, array, pitch = given
    if kind == ARRAY:
        return PROCESS.get(array, CudaArray, Result.INVALID_VALUE).side(x, y, z, box)
    require(kind in (HOST, DEVICE, UNIFIED), f"memory of type {kind}")
    require(0 in box or kind != HOST or host, "a required pointer is null")
    return Side((host if kind == HOST else device) + y * pitch + x, pitch or box[0], 0)


@call("!O", "cuMemcpy3D_v2 cuMemcpy3D")
@call("Os", "cuMemcpy3DAsync_v2 cuMemcpy3DAsync")
def copy_3d(given: int, stream: Stream | None = None) -> None:
    """Copy planes of rows, as CUDA_MEMCPY3D describes."""
    PROCESS.driver.submit(work_3d(given), stream)


def work_3d(given: int) -> Copy:
    """CUDA_MEMCPY3D as work."""
    width, height, depth = box = struct.unpack("<3Q", _structure(given + 2 * BOX3.size, 24))
    source, target = (_side_3d(BOX3.unpack(_structure(at, BOX3.size)), box) for at in (given, given + BOX3.size))
    return Copy(target, source, width, height, depth)


def _side_3d(given: tuple[int, ...], box: tuple[int, int, int]) -> Side:
    x, y, z, level, kind, host, device, array, _, pitch, height = given
    require(not level, f"level {level} of an array")
    found = side((x, y, kind, host, device, array, pitch), box, z)
    if kind == ARRAY:
        return found
    pitch, height = pitch or box[0], height or box[1]
    return Side(found.address + z * pitch * height, found.pitch, pitch * height)


def box_of(work: Copy) -> bytes:
    """A copy as CUDA_MEMCPY3D, whose sides begin at their addresses."""
    extents = struct.pack("<QQQ", work.width, work.height, work.depth)
    return _side_of(work.source) + _side_of(work.target) + extents


def _side_of(given: Side) -> bytes:
    on_device = any(low <= given.address < high for low, high in SIMULATED)
    host, device = (0, given.address) if on_device else (given.address, 0)
    return BOX3.pack(0, 0, 0, 0, 2 if on_device else HOST, host, device, 0, 0, given.pitch, given.rows)


def _structure(address: int, nbytes: int) -> bytes:
    return PROCESS.memory.bytes_at(address, nbytes).tobytes()


# ---- filling -------------------------------------------------------------------------------------


def fill(
    address: int, value: int, unit: int, count: int, stream: Stream | None = None, pitch: int = 0, rows: int = 1
) -> None:
    """Fill rows of elements with a value."""
    PROCESS.driver.submit(Fill(address, value, unit, count, pitch, rows), stream)


def _declare_fills(unit: int) -> None:
    bits = 8 * unit

    @call("!PUP", f"cuMemsetD{bits}_v2 cuMemsetD{bits}")
    @call("PUPs", f"cuMemsetD{bits}Async")
    def fill_row(address: int, value: int, count: int, stream: Stream | None = None) -> None:
        fill(address, value, unit, count, stream)

    @call("!PPUPP", f"cuMemsetD2D{bits}_v2 cuMemsetD2D{bits}")
    @call("PPUPPs", f"cuMemsetD2D{bits}Async")
    def fill_rows(address: int, pitch: int, value: int, width: int, height: int, stream: Stream | None = None) -> None:
        fill(address, value, unit, width, stream, pitch, height)


for _unit in (1, 2, 4):
    _declare_fills(_unit)


# ---- pointer attributes --------------------------------------------------------------------------

_MEMORY_TYPES = {Kind.DEVICE: 2, Kind.MAPPED: 2, Kind.MANAGED: 2, Kind.PINNED: 1, Kind.REGISTERED: 1}
_WIDE = (1, 3, 4, 7, 11, 12, 16)
"""Attributes of 64 bits; the others have 32."""


def pointer_attribute(number: int, address: int) -> int | None:
    """A CUpointer_attribute, or None if the address is not in the driver's memory."""
    memory = PROCESS.memory
    block, extent = memory.holding(address), memory.extent(address)
    if extent is None:
        return None
    kind = Kind.DEVICE if block is None else block.kind
    ordinal = 0 if block is None else block.ordinal
    known = {
        1: PROCESS.primary[ordinal].handle,  # CONTEXT
        2: _MEMORY_TYPES[kind],
        3: address,  # DEVICE_POINTER
        4: 0 if kind.on_device else address,  # HOST_POINTER
        6: 1,  # SYNC_MEMOPS
        7: 0 if block is None else block.number,  # BUFFER_ID
        8: int(kind is Kind.MANAGED),
        9: ordinal,
        11: extent[0],  # RANGE_START_ADDR
        12: extent[1],  # RANGE_SIZE
        13: 1,  # MAPPED
        **dict.fromkeys((10, 14, 15, 16, 17, 18, 19, 20), 0),
    }
    require(number in known, f"pointer attribute {number}")
    return known[number]


@call("OIP", "cuPointerGetAttribute")
def get_pointer_attribute(out: int, number: int, address: int) -> None:
    found = present(pointer_attribute(number, address))
    (put64 if number in _WIDE else put32)(out, found)


@call("UOOP", "cuPointerGetAttributes")
def get_pointer_attributes(count: int, numbers: int, outs: int, address: int) -> None:
    """Store several attributes: 0, and no device, for an address that is not in the driver's memory."""
    for index in range(count):
        number, out = get32(numbers + 4 * index), get64(outs + 8 * index)
        found = pointer_attribute(number, address)
        if found is None:
            found = NOWHERE if number == 9 else 0
        (put64 if number in _WIDE else put32)(out, found)


call("OIP", "cuPointerSetAttribute")(lambda value, number, address: _check(address))  # it affects performance only


def _check(address: int) -> None:
    require(PROCESS.memory.extent(address) is not None, f"0x{address:x} is not in the driver's memory")


@call("PPUI", "cuMemAdvise")
@call("PPUP", "cuMemAdvise_v2 cudaMemAdvise")
@call("PPIs", "cuMemPrefetchAsync")
@call("PPPUs", "cuMemPrefetchAsync_v2 cudaMemPrefetchAsync")
def advise(*arguments: object) -> None:
    """Do nothing: these affect performance only."""


@call("!OPIPP", "cuMemRangeGetAttribute cudaMemRangeGetAttribute")
def get_range_attribute(out: int, nbytes: int, number: int, address: int, count: int) -> None:
    """Store an attribute of advice: no advice is kept, and there are no locations."""
    if not 1 <= number <= 8 or not nbytes or nbytes % 4 or (nbytes > 4 and number != ACCESSED_BY):
        raise DriverError(Result.INVALID_VALUE, f"no attribute {number} of {nbytes} bytes")
    _check(address)
    mapped(out, nbytes)
    put_bytes(out, struct.pack("<i", NOWHERE if number in (2, ACCESSED_BY, 4) else 0) * (nbytes // 4))


# ---- pools ---------------------------------------------------------------------------------------

_POOLS: dict[int, Pool] = {}


call("8D", "cuDeviceGetDefaultMemPool cuDeviceGetMemPool cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool")(
    lambda device: PROCESS.handles.put(_POOLS.setdefault(device, Pool()))
)


call("8O", "cuMemPoolCreate cudaMemPoolCreate")(lambda given: PROCESS.handles.put(Pool()))
call("p", "cuMemPoolDestroy cudaMemPoolDestroy")(lambda pool: PROCESS.handles.end(pool))


@call("pIO", "cuMemPoolSetAttribute cudaMemPoolSetAttribute")
def set_pool_attribute(pool: Pool, number: int, value: int) -> None:
    pool.attributes[number] = get64(value)


@call("pIO", "cuMemPoolGetAttribute cudaMemPoolGetAttribute")
def get_pool_attribute(pool: Pool, number: int, out: int) -> None:
    """Give a stored attribute: the first three are ints, the others have 64 bits."""
    if number <= 3:
        put32(out, pool.attributes.get(number, 1))
    else:
        put64(out, PROCESS.memory.used if number == 7 else pool.attributes.get(number, 0))


@call("pP", "cuMemPoolTrimTo cudaMemPoolTrimTo")
@call("Dp", "cuDeviceSetMemPool cudaDeviceSetMemPool")
@call("pOP", "cuMemPoolSetAccess cudaMemPoolSetAccess")
def nothing(*arguments: object) -> None:
    """Do nothing: all devices can access all pools, and pools keep no memory."""


@call("8Ps", "cuMemAllocAsync cudaMallocAsync")
def allocate_async(nbytes: int, stream: Stream) -> int:
    """Allocate memory in stream order. It belongs to the device, not to a context; a captured stream gets a node."""
    ordinal, memory = PROCESS.context_of(stream).ordinal, PROCESS.memory
    if stream.capture is not None:
        work = PROCESS.driver.graph_memory.allocation(memory, nbytes, ordinal, stream.capture.graph)
        stream.submit(work)
        return work.address
    if not nbytes:
        return 0
    address = memory.allocate(nbytes, ordinal)
    memory.blocks[address].owner = PROCESS.primary[ordinal]
    return address


call("8Pps", "cuMemAllocFromPoolAsync cudaMallocFromPoolAsync")(
    lambda nbytes, pool, stream: allocate_async(nbytes, stream)
)


@call("Ps", "cuMemFreeAsync cudaFreeAsync")
def free_async(address: int, stream: Stream) -> None:
    """Free memory in stream order; a captured stream gets a node."""
    if stream.capture is None:
        PROCESS.memory.free(address, Kind.DEVICE)
    elif address:
        PROCESS.driver.graph_memory.claim(address, stream.capture.graph)
        stream.submit(Free(address))


MODES = (
    ("interleave", layout.INTERLEAVES),
    ("swizzle", layout.SWIZZLES[: layout.SWIZZLE_96B]),
    ("l2_promotion", layout.PROMOTIONS),
    ("oob_fill", layout.FILLS),
)


def _word(words: tuple[str, ...], index: int, what: str) -> str:
    require(index < len(words), f"{what} {index}")
    return words[index]


def _ints(address: int, count: int, kind: str = "I") -> list[int]:
    return list(struct.unpack(f"<{count}{kind}", bytes_at(address, 4 * count))) if count else []


def _fields(data_type: int, rank: int, dims: int, strides: int, elements: int, modes: tuple[int, ...]) -> Keywords:
    require(1 <= rank <= 5, f"a tensor of {rank} dimensions")
    return {
        "data_type": _word(layout.DATA_TYPES, data_type, "data type"),
        "global_dim": row_at(dims, rank),
        "global_strides": row_at(strides, rank - 1),
        "element_strides": _ints(elements, rank),
        **{name: _word(words, mode, name) for (name, words), mode in zip(MODES, modes, strict=True)},
    }


@call("!OUUPOOOOUUUU", "cuTensorMapEncodeTiled")
def encode_tiled(
    out: int, data_type: int, rank: int, address: int, dims: int, strides: int, box: int, elements: int, *modes: int
) -> None:
    fields = _fields(data_type, rank, dims, strides, elements, modes)
    put_bytes(out, TensorMap(address, box_dim=_ints(box, rank), **fields).encode(address))


@call("!OUUPOOOOUUOUUUU", "cuTensorMapEncodeIm2col")
def encode_im2col(
    out: int, data_type: int, rank: int, address: int, dims: int, strides: int, lower: int, upper: int, *rest: int
) -> None:
    channels, pixels, elements, *modes = rest
    made = TensorMap.im2col(
        address,
        pixel_box_lower_corner=_ints(lower, max(rank - 2, 0), "i"),
        pixel_box_upper_corner=_ints(upper, max(rank - 2, 0), "i"),
        channels_per_pixel=channels,
        pixels_per_column=pixels,
        **_fields(data_type, rank, dims, strides, elements, tuple(modes)),
    )
    put_bytes(out, made.encode(address))


@call("!OUUPOOIIUUOUUUUU", "cuTensorMapEncodeIm2colWide")
def encode_im2col_wide(
    out: int, data_type: int, rank: int, address: int, dims: int, strides: int, lower: int, upper: int, *rest: int
) -> None:
    channels, pixels, elements, interleave, mode, *modes = rest
    made = TensorMap.im2col_wide(
        address,
        pixel_box_lower_corner_width=lower,
        pixel_box_upper_corner_width=upper,
        channels_per_pixel=channels,
        pixels_per_column=pixels,
        mode=_word(layout.WIDE_MODES, mode, "mode"),
        **_fields(data_type, rank, dims, strides, elements, (interleave, *modes)),
    )
    put_bytes(out, made.encode(address))


@call("!OO", "cuTensorMapReplaceAddress")
def replace_address(where: int, address: int) -> None:
    fields = present(layout.decode(bytes_at(where, layout.SIZE)), "the 128 bytes are not a tensor map")
    put_bytes(where, encoded(fields, address))
