"""libcudart: CUDA arrays, texture and surface objects."""

from __future__ import annotations

import struct

from warpsim.driver import arrays
from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_memory import copy_box
from warpsim.driver.abi.cu_texture import (
    RESOURCE,
    declare_description,
    destroy_array,
    destroy_mipmap,
    make_array,
    make_mipmap,
    make_texture,
    resource_of,
    surface_of,
    widest_linear,
)
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.arrays import CudaArray, Descriptor, Sampling
from warpsim.driver.memory import Side
from warpsim.driver.raw import bytes_at, put32, put_bytes
from warpsim.driver.results import RuntimeRefusal, require
from warpsim.driver.streams import Stream
from warpsim.layout import textures as layout

CHANNELS = struct.Struct("<5i")
"""cudaChannelFormatDesc: bits of x, y, z, w, and their kind."""
HOW = struct.Struct("<3iiii4fiIi3fii")
"""cudaTextureDesc."""
SIGNED, UNSIGNED, FLOAT = range(3)
_KINDS = {**{5 + k: 0xC0 + k for k in range(6)}, **{11 + k: 0xC6 + k for k in range(6)}, 31: 0x50}
"""cudaChannelFormatKind of fractions -> CUarray_format."""
_COMPRESSED = range(17, 31)
INVALID_FILTER, INVALID_NORM, INVALID_CHANNELS = 26, 27, 20


def format_of(raw: bytes) -> tuple[int, int]:
    """The driver's format and number of channels of a cudaChannelFormatDesc."""
    x, y, z, w, kind = CHANNELS.unpack(raw)
    channels = 1 + sum(bits > 0 for bits in (y, z, w))
    if kind in _KINDS:
        return _KINDS[kind], channels
    if kind in _COMPRESSED:
        return 0x91 + kind - 17, channels
    if any(bits not in (0, x) for bits in (y, z, w)):
        raise RuntimeRefusal(INVALID_CHANNELS)
    known = {
        (8, UNSIGNED): 1,
        (16, UNSIGNED): 2,
        (32, UNSIGNED): 3,
        (8, SIGNED): 8,
        (16, SIGNED): 9,
        (32, SIGNED): 10,
        (16, FLOAT): 16,
        (32, FLOAT): 32,
    }
    if (x, kind) not in known or channels == 3:
        raise RuntimeRefusal(INVALID_CHANNELS)
    return known[x, kind], channels


def channels_of(format: int, channels: int) -> bytes:
    """The cudaChannelFormatDesc of a format of the driver's."""
    kinds = {number: kind for kind, number in _KINDS.items()}
    name, _ = arrays.format_of(format, channels)
    bits = 10 if format == 0x50 else int(name[1:])
    widths = [bits] * channels + [0] * (4 - channels) if format != 0x50 else [10, 10, 10, 2]
    return CHANNELS.pack(
        *widths, kinds.get(format, {"u": UNSIGNED, "s": SIGNED, "f": FLOAT}[name[0]] if name[0] in "usf" else 3)
    )


# ---- arrays --------------------------------------------------------------------------------------


def _descriptor(channels: int, width: int, height: int, depth: int, flags: int) -> Descriptor:
    return Descriptor(width, height, depth, *format_of(bytes_at(channels, CHANNELS.size)), flags)


call("!8OPPU", "cudaMallocArray")(
    lambda channels, width, height, flags: make_array(_descriptor(channels, width, height, 0, flags))
)
call("!8OPPPU", "warpsimMalloc3DArray")(
    lambda channels, width, height, depth, flags: make_array(_descriptor(channels, width, height, depth, flags))
)
call("!8OPPPUU", "warpsimMallocMipmappedArray")(
    lambda channels, width, height, depth, levels, flags: make_mipmap(
        _descriptor(channels, width, height, depth, flags), levels
    )
)


@call("P", "cudaFreeArray")
def free_array(handle: int) -> None:
    if handle:
        destroy_array(PROCESS.get(handle, CudaArray))


@call("P", "cudaFreeMipmappedArray")
def free_mipmap(handle: int) -> None:
    if handle:
        destroy_mipmap(PROCESS.get(handle, arrays.MipmappedArray))


@call("Oa", "cudaGetChannelDesc")
def get_channels(out: int, array: CudaArray) -> None:
    put_bytes(out, channels_of(array.descriptor.format, array.descriptor.channels))


@call("PPPa", "cudaArrayGetInfo")
def array_info(channels: int, extent: int, flags: int, array: CudaArray) -> None:
    d = array.descriptor
    if channels:
        put_bytes(channels, channels_of(d.format, d.channels))
    if extent:
        put_bytes(extent, struct.pack("<3Q", d.width, d.height, d.depth))
    if flags:
        put32(flags, d.flags)


@call("8OD", "cudaDeviceGetTexture1DLinearMaxWidth")
def widest(channels: int, device: int) -> int:
    return widest_linear(*format_of(bytes_at(channels, CHANNELS.size)), device)


# ---- copies --------------------------------------------------------------------------------------


@call("!aPPPPPPI", "cudaMemcpy2DToArray")
@call("aPPPPPPIs", "cudaMemcpy2DToArrayAsync")
def rows_to_array(
    array: CudaArray, x: int, y: int, source: int, pitch: int, width: int, height: int, kind: int, *stream: Stream
) -> None:
    require(height <= 1 or pitch >= width, f"the pitch {pitch} is less than the row size {width}")
    copy_box(array.side(x, y, 0, (width, height, 1)), Side(source, pitch), width, height, 1, *stream)


@call("!PPaPPPPI", "cudaMemcpy2DFromArray")
@call("PPaPPPPIs", "cudaMemcpy2DFromArrayAsync")
def rows_from_array(
    target: int, pitch: int, array: CudaArray, x: int, y: int, width: int, height: int, kind: int, *stream: Stream
) -> None:
    require(height <= 1 or pitch >= width, f"the pitch {pitch} is less than the row size {width}")
    copy_box(Side(target, pitch), array.side(x, y, 0, (width, height, 1)), width, height, 1, *stream)


@call("!aPPaPPPPI", "cudaMemcpy2DArrayToArray")
def rows_between(
    target: CudaArray, x: int, y: int, source: CudaArray, left: int, top: int, width: int, height: int, kind: int
) -> None:
    box = (width, height, 1)
    copy_box(target.side(x, y, 0, box), source.side(left, top, 0, box), width, height, 1)


def _runs(array: CudaArray, x: int, y: int, nbytes: int) -> list[tuple[Side, int]]:
    """The parts of rows that bytes fill, one after the other."""
    row, found = array.fields.size[0] * array.fields.element, []
    while nbytes > 0:
        part = min(row - x, nbytes)
        require(part > 0, f"{x} bytes in a row of {row}")
        found.append((array.side(x, y, 0, (part, 1, 1)), part))
        nbytes, x, y = nbytes - part, 0, y + 1
    return found


@call("!aPPPPI", "cudaMemcpyToArray")
@call("aPPPPIs", "cudaMemcpyToArrayAsync")
def to_array(array: CudaArray, x: int, y: int, source: int, nbytes: int, kind: int, *stream: Stream) -> None:
    for side, part in _runs(array, x, y, nbytes):
        copy_box(side, Side(source), part, 1, 1, *stream)
        source += part


@call("!PaPPPI", "cudaMemcpyFromArray")
@call("PaPPPIs", "cudaMemcpyFromArrayAsync")
def from_array(target: int, array: CudaArray, x: int, y: int, nbytes: int, kind: int, *stream: Stream) -> None:
    for side, part in _runs(array, x, y, nbytes):
        copy_box(Side(target), side, part, 1, 1, *stream)
        target += part


@call("!aPPaPPPI", "cudaMemcpyArrayToArray")
def between(target: CudaArray, x: int, y: int, source: CudaArray, left: int, top: int, nbytes: int, kind: int) -> None:
    ours, theirs = _runs(target, x, y, nbytes), _runs(source, left, top, nbytes)
    require([n for _, n in ours] == [n for _, n in theirs], "the arrays' rows differ")
    for (to, part), (start, _) in zip(ours, theirs, strict=True):
        copy_box(to, start, part, 1, 1)


# ---- objects -------------------------------------------------------------------------------------


def _resource(raw: bytes) -> tuple[layout.Fields, bytes]:
    """The elements that a cudaResourceDesc names, and the driver's CUDA_RESOURCE_DESC."""
    kind = int.from_bytes(raw[:4], "little")
    if kind == 2:
        (address,), (nbytes,) = struct.unpack_from("<Q", raw, 8), struct.unpack_from("<Q", raw, 40)
        raw = struct.pack("<QQIIQ", kind, address, *format_of(raw[16:36]), nbytes).ljust(RESOURCE, b"\0")
    elif kind == 3:
        (address,), sizes = struct.unpack_from("<Q", raw, 8), struct.unpack_from("<QQQ", raw, 40)
        raw = struct.pack("<QQIIQQQ", kind, address, *format_of(raw[16:36]), *sizes).ljust(RESOURCE, b"\0")
    return resource_of(raw), raw


def _sampling(fields: layout.Fields, raw: bytes) -> Sampling:
    """cudaTextureDesc on elements.

    Raises:
        RuntimeRefusal: a filter or a read mode that these have not.
    """
    x, y, z, filter, read, srgb, *rest = HOW.unpack(raw)
    border, (normal, anisotropy, mip_filter, bias, least, most, one_level, seamless) = rest[:4], rest[4:]
    wide = fields.format[0] != "a" and fields.format[1:] == "32"
    if read and wide:
        raise RuntimeRefusal(INVALID_NORM)
    if filter and not read and fields.format[0] in "us" and not fields.format.startswith("a"):
        raise RuntimeRefusal(INVALID_FILTER)
    flags = (0 if read else arrays.INTEGER) | (arrays.NORMAL if normal else 0) | (arrays.SRGB if srgb else 0)
    flags |= (arrays.ONE_LEVEL if one_level else 0) | (arrays.SEAMLESS if seamless else 0)
    return Sampling((x, y, z), filter, flags, anisotropy, mip_filter, bias, least, most, tuple(border))


@call("!8OOP", "cudaCreateTextureObject")
def create_texture(resource: int, how: int, view: int) -> int:
    raw, wanted = bytes_at(resource, RESOURCE), bytes_at(how, HOW.size)
    fields, _ = _resource(raw)
    return make_texture(fields, _sampling(fields, wanted), view, raw, wanted)


call("!8O", "cudaCreateSurfaceObject")(lambda resource: surface_of(bytes_at(resource, RESOURCE)))


declare_description("cudaGetTextureObjectResourceDesc", "texref", 0)
declare_description("cudaGetTextureObjectTextureDesc", "texref", 1)
declare_description("cudaGetTextureObjectResourceViewDesc", "texref", 2)
declare_description("cudaGetSurfaceObjectResourceDesc", "surfref", 0)
