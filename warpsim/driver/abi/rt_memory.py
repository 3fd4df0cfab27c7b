"""libcudart: memory."""

from __future__ import annotations

import struct

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_memory import PITCH, allocate, copy, fill
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.arrays import CudaArray
from warpsim.driver.memory import Kind, Side
from warpsim.driver.raw import bytes_at, put_bytes
from warpsim.driver.results import INVALID_DIRECTION, Result, RuntimeRefusal, require
from warpsim.driver.streams import Stream
from warpsim.driver.work import Copy

PARAMETERS = struct.Struct("<QQQQQQQQQQQQQQQQQQQI")
"""cudaMemcpy3DParms: array, position and pitched pointer of either side, extent, kind."""
Symbol = tuple[int, int]
"""Address and size of a variable."""


@call("!8P", "cudaMalloc")
def malloc(nbytes: int) -> int:
    """Allocate device memory; null for no bytes."""
    return allocate(nbytes) if nbytes else 0


@call("!88PP", "cudaMallocPitch")
def malloc_pitched(width: int, height: int) -> tuple[int, int]:
    """Allocate rows that begin at multiples of the pitch; returns the address and the pitch."""
    pitch = -(-width // PITCH) * PITCH
    return malloc(pitch * height), pitch


@call("!BPPP", "warpsimMalloc3D")
def malloc_3d(width: int, height: int, depth: int) -> bytes:
    """A cudaPitchedPtr, for cudaMalloc3D."""
    return struct.pack("<4Q", *malloc_pitched(width, height * depth), width, height)


@call("PPPPPPPs", "warpsimMemset3D")
def set_3d(
    address: int, pitch: int, rows: int, value: int, width: int, height: int, depth: int, stream: Stream
) -> None:
    """Fill planes of rows, for cudaMemset3D."""
    for plane in range(depth if width and height else 0):
        fill(address + plane * pitch * rows, value & 0xFF, 1, width, stream, pitch, height)


# ---- copying and filling -------------------------------------------------------------------------


@call("!PPPI", "cudaMemcpy")
@call("PPPIs", "cudaMemcpyAsync")
def memcpy(target: int, source: int, nbytes: int, kind: int, stream: Stream | None = None) -> None:
    if not 0 <= kind <= 4:
        raise RuntimeRefusal(INVALID_DIRECTION, f"copies of kind {kind}")
    copy(target, source, nbytes, stream)


@call("!PDPDP", "cudaMemcpyPeer")
@call("PDPDPs", "cudaMemcpyPeerAsync")
def memcpy_peer(target: int, _to: int, source: int, _from: int, nbytes: int, stream: Stream | None = None) -> None:
    """Copy between devices, which share one memory."""
    copy(target, source, nbytes, stream)


@call("!PPPPPPI", "cudaMemcpy2D")
@call("PPPPPPIs", "cudaMemcpy2DAsync")
def memcpy_2d(
    target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int, *stream: Stream
) -> None:
    require(
        width <= min(target_pitch, source_pitch), f"rows of {width} bytes in pitches {target_pitch}, {source_pitch}"
    )
    work = Copy(Side(target, target_pitch), Side(source, source_pitch), width, height)
    PROCESS.driver.submit(work, *stream)


@call("!O", "cudaMemcpy3D")
@call("Os", "cudaMemcpy3DAsync")
def memcpy_3d(given: int, stream: Stream | None = None) -> None:
    PROCESS.driver.submit(box_work(given), stream)


def box_work(given: int) -> Copy:
    """cudaMemcpy3DParms as work."""
    words = PARAMETERS.unpack(bytes_at(given, PARAMETERS.size))
    source, target, (width, height, depth) = words[0:8], words[8:16], words[16:19]
    taking = [PROCESS.get(side[0], CudaArray, Result.INVALID_VALUE) for side in (source, target) if side[0]]
    width *= taking[0].fields.element if taking else 1
    box = width, height, depth
    return Copy(_side(target, box), _side(source, box), *box)


def _side(words: tuple[int, ...], box: tuple[int, int, int]) -> Side:
    """One side of a box of bytes, rows and planes; an array's offset counts elements."""
    array, x, y, z, pointer, pitch, _, rows = words
    if array:
        found = PROCESS.get(array, CudaArray, Result.INVALID_VALUE)
        return found.side(x * found.fields.element, y, z, box)
    return Side(pointer + x + y * pitch + z * pitch * rows, pitch, pitch * rows)


@call("!YPPPI", "cudaMemcpyToSymbol")
@call("YPPPIs", "cudaMemcpyToSymbolAsync")
def to_symbol(name: Symbol, source: int, nbytes: int, offset: int, kind: int, stream: Stream | None = None) -> None:
    copy(part(name, offset, nbytes), source, nbytes, stream)


@call("!PYPPI", "cudaMemcpyFromSymbol")
@call("PYPPIs", "cudaMemcpyFromSymbolAsync")
def from_symbol(target: int, name: Symbol, nbytes: int, offset: int, kind: int, stream: Stream | None = None) -> None:
    copy(target, part(name, offset, nbytes), nbytes, stream)


def part(name: Symbol, offset: int, nbytes: int) -> int:
    """The address of a part of a variable."""
    address, size = name
    require(offset + nbytes <= size, f"{nbytes} bytes from {offset} on of a symbol of {size}")
    return address + offset


call("!8Y", "cudaGetSymbolAddress")(lambda name: name[0])
call("!8Y", "cudaGetSymbolSize")(lambda name: name[1])


@call("!PIP", "cudaMemset")
@call("PIPs", "cudaMemsetAsync")
def memset(address: int, value: int, nbytes: int, stream: Stream | None = None) -> None:
    fill(address, value & 0xFF, 1, nbytes, stream)


@call("!PPIPP", "cudaMemset2D")
@call("PPIPPs", "cudaMemset2DAsync")
def memset_2d(address: int, pitch: int, value: int, width: int, height: int, stream: Stream | None = None) -> None:
    fill(address, value & 0xFF, 1, width, stream, pitch, height)


_TYPES = {Kind.PINNED: 1, Kind.REGISTERED: 1, Kind.DEVICE: 2, Kind.MAPPED: 2, Kind.MANAGED: 3}


@call("OP", "cudaPointerGetAttributes")
def pointer_attributes(out: int, address: int) -> None:
    """Store cudaPointerAttributes: host memory if the address is not in the driver's."""
    memory = PROCESS.memory
    if memory.extent(address) is None:
        put_bytes(out, struct.pack("<iiQQ", 0, -2, 0, address))
        return
    block = memory.holding(address)
    kind = Kind.DEVICE if block is None else block.kind
    host = 0 if kind.on_device else address
    put_bytes(out, struct.pack("<iiQQ", _TYPES[kind], 0 if block is None else block.ordinal, address, host))
