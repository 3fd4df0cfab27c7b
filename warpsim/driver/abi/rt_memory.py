"""libcudart: memory."""

from __future__ import annotations

import struct

from warpsim.driver.abi.calls import PROCESS, call, needs, put64, put_bytes, unsupported
from warpsim.driver.abi.cu_memory import PITCH, allocate, copy, fill
from warpsim.driver.abi.rt_launch import symbol
from warpsim.driver.memory import Kind, Side
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import DriverError, Result
from warpsim.driver.work import Copy

PARAMETERS = struct.Struct("<QQQQQQQQQQQQQQQQQQQI")
"""cudaMemcpy3DParms: array, position and pitched pointer of either side, extent, kind."""


@call("PP", "cudaMalloc")
def malloc(out: int, nbytes: int) -> None:
    """Device memory; none gives null."""
    needs(out)
    if nbytes:
        allocate(out, nbytes)
    else:
        put64(out, 0)


@call("P", "cudaFree")
def free(address: int) -> None:
    """Give memory back."""
    PROCESS.driver.memory.free(address, Kind.DEVICE, Kind.MANAGED)


@call("PPPP", "cudaMallocPitch")
def malloc_pitch(out: int, pitch: int, width: int, height: int) -> None:
    """Rows that begin at multiples of 512 bytes."""
    needs(out, pitch)
    step = -(-width // PITCH) * PITCH
    malloc(out, step * height)
    put64(pitch, step)


@call("PPPP", "warpsimMalloc3D")
def malloc_3d(out: int, width: int, height: int, depth: int) -> None:
    """cudaMalloc3D: a pitched pointer."""
    step = -(-width // PITCH) * PITCH
    malloc(out, step * height * depth)
    put64(out + 8, step)
    put64(out + 16, width)
    put64(out + 24, height)


@call("PPPPPPPP", "warpsimMemset3D")
def set_3d(address: int, pitch: int, rows: int, value: int, width: int, height: int, depth: int, stream: int) -> None:
    """cudaMemset3D."""
    for plane in range(depth if width and height else 0):
        fill(address + plane * pitch * rows, value & 0xFF, 1, width, stream, pitch, height)


# ---- copies --------------------------------------------------------------------------------------


@call("PPPI", "cudaMemcpy")
@call("PPPIP", "cudaMemcpyAsync")
def memcpy(target: int, source: int, nbytes: int, kind: int, stream: int = 0) -> None:
    """Bytes from anywhere to anywhere: the addresses say which sides they are of."""
    copy(target, source, nbytes, stream)


@call("PIPIP", "cudaMemcpyPeer")
@call("PIPIPP", "cudaMemcpyPeerAsync")
def memcpy_peer(target: int, _to: int, source: int, _from: int, nbytes: int, stream: int = 0) -> None:
    """Devices share one memory."""
    copy(target, source, nbytes, stream)


@call("PPPPPPI", "cudaMemcpy2D")
@call("PPPPPPIP", "cudaMemcpy2DAsync")
def memcpy_2d(
    target: int,
    target_pitch: int,
    source: int,
    source_pitch: int,
    width: int,
    height: int,
    kind: int,
    stream: int = 0,
) -> None:
    """Rows."""
    work = Copy(Side(target, target_pitch), Side(source, source_pitch), width, height)
    PROCESS.driver.submit(work, PROCESS.stream(stream))


@call("P", "cudaMemcpy3D")
@call("PP", "cudaMemcpy3DAsync")
def memcpy_3d(given: int, stream: int = 0) -> None:
    """Planes of rows."""
    PROCESS.driver.submit(box_work(given), PROCESS.stream(stream))


def box_work(given: int) -> Copy:
    """cudaMemcpy3DParms as work."""
    words = PARAMETERS.unpack(bytes_at(given, PARAMETERS.size))
    source, target, (width, height, depth) = words[0:8], words[8:16], words[16:19]
    if source[0] or target[0]:
        raise unsupported("CUDA arrays")
    return Copy(_side(target), _side(source), width, height, depth)


def _side(words: tuple[int, ...]) -> Side:
    _, x, y, z, pointer, pitch, _, rows = words
    return Side(pointer + x + y * pitch + z * pitch * rows, pitch, pitch * rows)


@call("PPPPI", "cudaMemcpyToSymbol")
@call("PPPPIP", "cudaMemcpyToSymbolAsync")
def to_symbol(name: int, source: int, nbytes: int, offset: int, kind: int, stream: int = 0) -> None:
    """To a variable of the program."""
    address, size = symbol(name)
    if offset + nbytes > size:
        raise DriverError(Result.INVALID_VALUE, f"{nbytes} bytes from {offset} on of a symbol of {size}")
    copy(address + offset, source, nbytes, stream)


@call("PPPPI", "cudaMemcpyFromSymbol")
@call("PPPPIP", "cudaMemcpyFromSymbolAsync")
def from_symbol(target: int, name: int, nbytes: int, offset: int, kind: int, stream: int = 0) -> None:
    """From a variable of the program."""
    address, size = symbol(name)
    if offset + nbytes > size:
        raise DriverError(Result.INVALID_VALUE, f"{nbytes} bytes from {offset} on of a symbol of {size}")
    copy(target, address + offset, nbytes, stream)


@call("PP", "cudaGetSymbolAddress")
def symbol_address(out: int, name: int) -> None:
    """Where a variable is."""
    put64(out, symbol(name)[0])


@call("PP", "cudaGetSymbolSize")
def symbol_size(out: int, name: int) -> None:
    """How large a variable is."""
    put64(out, symbol(name)[1])


@call("PIP", "cudaMemset")
@call("PIPP", "cudaMemsetAsync")
def memset(address: int, value: int, nbytes: int, stream: int = 0) -> None:
    """Bytes of one value."""
    fill(address, value & 0xFF, 1, nbytes, stream)


@call("PPIPP", "cudaMemset2D")
@call("PPIPPP", "cudaMemset2DAsync")
def memset_2d(address: int, pitch: int, value: int, width: int, height: int, stream: int = 0) -> None:
    """Rows of one value."""
    fill(address, value & 0xFF, 1, width, stream, pitch, height)


_TYPES = {Kind.PINNED: 1, Kind.REGISTERED: 1, Kind.DEVICE: 2, Kind.MANAGED: 3}


@call("PP", "cudaPointerGetAttributes")
def pointer_attributes(out: int, address: int) -> None:
    """What an address is: memory of the host where nothing of the driver holds it."""
    memory = PROCESS.driver.memory
    if memory.extent(address) is None:
        put_bytes(out, struct.pack("<iiQQ", 0, -2, 0, address))
        return
    block = memory.holding(address)
    kind = Kind.DEVICE if block is None else block.kind
    host = 0 if kind is Kind.DEVICE else address
    put_bytes(out, struct.pack("<iiQQ", _TYPES[kind], 0 if block is None else block.ordinal, address, host))


@call("PPPPI", "cudaMallocArray")
@call("PPPPPU", "cudaMalloc3DArray")
@call("P", "cudaFreeArray", "cudaDestroyTextureObject", "cudaDestroySurfaceObject", "cudaFreeMipmappedArray")
@call("PPPP", "cudaCreateTextureObject")
@call("PP", "cudaCreateSurfaceObject", "cudaGetChannelDesc")
@call("PPPPPPI", "cudaMemcpy2DToArray")
@call("PPPPPI", "cudaMemcpyToArray")
@call("PPPPPI", "cudaMemcpyFromArray")
@call("PPPPPPI", "cudaMemcpy2DFromArray")
@call("PPPU", "cudaMallocMipmappedArray")
def texture(*words: int) -> None:
    """Not simulated."""
    raise unsupported("CUDA arrays and textures")


@call("PP", "cudaIpcGetMemHandle", "cudaIpcGetEventHandle")
@call("P", "cudaIpcCloseMemHandle")
def other_process(*words: int) -> None:
    """One process has one simulator."""
    raise unsupported("memory of other processes")
