"""libcuda: CUDA arrays, texture and surface objects, and references by name."""

from __future__ import annotations

import struct

import attrs

from warpsim.driver import arrays
from warpsim.driver.abi.calls import call, handle
from warpsim.driver.abi.cu_memory import copy_box
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.arrays import CudaArray, Descriptor, MipmappedArray, Object, Reference, Sampling
from warpsim.driver.memory import Kind, Side
from warpsim.driver.modules import DriverModule
from warpsim.driver.raw import bytes_at, put64, put_bytes
from warpsim.driver.results import Result, present, require
from warpsim.driver.streams import Stream
from warpsim.layout import textures as layout

FLAT, SOLID = struct.Struct("<QQII"), struct.Struct("<QQQIII")
"""CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR."""
RESOURCE, HOW, VIEW = 144, struct.Struct("<3iiIIi3f4f"), struct.Struct("<i4xQQQIIII")
"""Bytes of CUDA_RESOURCE_DESC; CUDA_TEXTURE_DESC without what is reserved; CUDA_RESOURCE_VIEW_DESC likewise."""
ARRAY, MIPMAP, LINEAR, PITCHED = range(4)


handle("a", CudaArray, ended=Result.CONTEXT_IS_DESTROYED)
handle("A", MipmappedArray, ended=Result.CONTEXT_IS_DESTROYED)
handle("t", Reference, ended=Result.CONTEXT_IS_DESTROYED)


# ---- arrays --------------------------------------------------------------------------------------


def make_array(descriptor: Descriptor) -> int:
    """Allocate an array; returns its handle."""
    made = CudaArray.create(PROCESS.memory, descriptor, PROCESS.context().ordinal)
    return PROCESS.handles.put(made, PROCESS.owner())


def make_mipmap(descriptor: Descriptor, count: int) -> int:
    """Allocate a mipmapped array; returns its handle."""
    made = MipmappedArray.create(PROCESS.memory, descriptor, count, PROCESS.context().ordinal)
    return PROCESS.handles.put(made, PROCESS.owner())


call("!8O", "cuArray3DCreate_v2 cuArray3DCreate")(
    lambda given: make_array(Descriptor(*SOLID.unpack(bytes_at(given, SOLID.size))))
)


@call("!8O", "cuArrayCreate_v2 cuArrayCreate")
def create_flat(given: int) -> int:
    width, height, format, channels = FLAT.unpack(bytes_at(given, FLAT.size))
    return make_array(Descriptor(width, height, 0, format, channels, 0))


@call("Oa", "cuArray3DGetDescriptor_v2 cuArray3DGetDescriptor")
def descriptor(out: int, array: CudaArray) -> None:
    d = array.descriptor
    put_bytes(out, SOLID.pack(d.width, d.height, d.depth, d.format, d.channels, d.flags))


@call("Oa", "cuArrayGetDescriptor_v2 cuArrayGetDescriptor")
def flat_descriptor(out: int, array: CudaArray) -> None:
    d = array.descriptor
    put_bytes(out, FLAT.pack(d.width, d.height, d.format, d.channels))


@call("a", "cuArrayDestroy")
def destroy_array(array: CudaArray) -> None:
    """Free an array; a level of a mipmap stays until that goes."""
    if array.whole is None:
        PROCESS.handles.end(array)
        array.free()


call("!8OU", "cuMipmappedArrayCreate")(
    lambda given, levels: make_mipmap(Descriptor(*SOLID.unpack(bytes_at(given, SOLID.size))), levels)
)


@call("A", "cuMipmappedArrayDestroy")
def destroy_mipmap(mipmap: MipmappedArray) -> None:
    PROCESS.handles.end(mipmap)
    mipmap.free()


@call("8AU", "cuMipmappedArrayGetLevel cudaGetMipmappedArrayLevel")
def level(mipmap: MipmappedArray, number: int) -> int:
    require(number < len(mipmap.levels), f"level {number} of {len(mipmap.levels)}")
    return PROCESS.handles.put(mipmap.levels[number], mipmap)


@call("PaD", "cuArrayGetMemoryRequirements")
@call("PAD", "cuMipmappedArrayGetMemoryRequirements")
@call("Pa", "cuArrayGetSparseProperties cudaArrayGetSparseProperties")
@call("PA", "cuMipmappedArrayGetSparseProperties cudaMipmappedArrayGetSparseProperties")
@call("PaU", "cuArrayGetPlane cudaArrayGetPlane")
def only_of_others(*words: object) -> None:
    """Refuse: these are for arrays that are sparse, mapped later, or of several planes."""
    require(False)  # noqa: FBT003


# ---- copies of a row -----------------------------------------------------------------------------


def copy_row(target: Side, source: Side, nbytes: int, stream: Stream | None = None) -> None:
    """Copy a part of a row."""
    copy_box(target, source, nbytes, 1, 1, stream)


def _row(array: CudaArray, offset: int, nbytes: int) -> Side:
    return array.side(offset, 0, 0, (nbytes, 1, 1))


@call("!aPOP", "cuMemcpyHtoA_v2 cuMemcpyHtoA")
@call("aPOPs", "cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync")
@call("!aPPP", "cuMemcpyDtoA_v2 cuMemcpyDtoA")
def to_array(array: CudaArray, offset: int, source: int, nbytes: int, stream: Stream | None = None) -> None:
    copy_row(_row(array, offset, nbytes), Side(source), nbytes, stream)


@call("!OaPP", "cuMemcpyAtoH_v2 cuMemcpyAtoH")
@call("OaPPs", "cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync")
@call("!PaPP", "cuMemcpyAtoD_v2 cuMemcpyAtoD")
def from_array(target: int, array: CudaArray, offset: int, nbytes: int, stream: Stream | None = None) -> None:
    copy_row(Side(target), _row(array, offset, nbytes), nbytes, stream)


@call("!aPaPP", "cuMemcpyAtoA_v2 cuMemcpyAtoA")
def between_arrays(target: CudaArray, at: int, source: CudaArray, start: int, nbytes: int) -> None:
    copy_row(_row(target, at, nbytes), _row(source, start, nbytes), nbytes)


# ---- objects -------------------------------------------------------------------------------------


def resource_of(raw: bytes) -> layout.Fields:
    """The elements that a CUDA_RESOURCE_DESC names."""
    kind = int.from_bytes(raw[:4], "little")
    if kind == ARRAY:
        return arrays.of_arrays([PROCESS.get(_first(raw), CudaArray, Result.INVALID_VALUE)])
    if kind == MIPMAP:
        return arrays.of_arrays(PROCESS.get(_first(raw), MipmappedArray, Result.INVALID_VALUE).levels)
    address = _first(raw)
    offset = arrays.misplaced(PROCESS.memory, address)
    require(not offset, f"a texture at 0x{address:x}, {offset} bytes behind a multiple of {arrays.ALIGNMENT}")
    if kind == LINEAR:
        return arrays.linear(*struct.unpack_from("<QIIQ", raw, 8))
    require(kind == PITCHED, f"a resource of type {kind}")
    address, format, channels, width, height, pitch = struct.unpack_from("<QIIQQQ", raw, 8)
    return arrays.pitched(address, format, channels, width, height, pitch)


def _first(raw: bytes) -> int:
    return int(struct.unpack_from("<Q", raw, 8)[0])


def sampling_of(raw: bytes) -> Sampling:
    """CUDA_TEXTURE_DESC."""
    x, y, z, filter, flags, anisotropy, mip_filter, bias, least, most, *border = HOW.unpack_from(raw)
    return Sampling((x, y, z), filter, flags, anisotropy, mip_filter, bias, least, most, tuple(border))


def viewed(fields: layout.Fields, raw: bytes) -> layout.Fields:
    """The levels and layers that a CUDA_RESOURCE_VIEW_DESC leaves of a resource's."""
    _, width, height, _, first, last, first_layer, last_layer = VIEW.unpack_from(raw)
    require(first <= last < len(fields.levels), f"levels {first} to {last} of {len(fields.levels)}")
    require(first_layer <= last_layer < max(fields.layers, 1), f"layers {first_layer} to {last_layer}")
    extents = fields.extents(first)
    require(width == extents[0] and height in (0, extents[1]), f"a view of {width} x {height} elements")
    levels = fields.levels[first : last + 1]
    step = max(fields.faces, 1) * first_layer
    moved = tuple(at + step * fields.extents(first + k)[1] * fields.pitch_of(first + k) for k, at in enumerate(levels))
    layers = last_layer - first_layer + 1 if fields.layers else 0
    return attrs.evolve(fields, size=extents, levels=moved, layers=layers)


def make_object(fields: layout.Fields, kind: str, *made_from: bytes) -> int:
    """Put an object into memory; its address is its handle."""
    address = PROCESS.memory.allocate(layout.BLOCK.itemsize, PROCESS.context().ordinal)
    arrays.write(PROCESS.memory, address, attrs.evolve(fields, kind=kind))
    PROCESS.objects[address] = Object(address, kind, made_from)
    return address


def object_of(handle: int, kind: str) -> Object:
    """A texture or surface object."""
    found = PROCESS.objects.get(handle)
    require(found is not None and found.kind == kind and PROCESS.memory.holding(handle) is not None)
    assert found is not None
    return found


@call("!8OOP", "cuTexObjectCreate")
def create_texture(resource: int, how: int, view: int) -> int:
    raw, wanted = bytes_at(resource, RESOURCE), bytes_at(how, HOW.size)
    return make_texture(resource_of(raw), sampling_of(wanted), view, raw, wanted)


def make_texture(fields: layout.Fields, sampling: Sampling, view: int, *made_from: bytes) -> int:
    """Make a texture object of elements, or of those that a CUDA_RESOURCE_VIEW_DESC leaves of them."""
    seen = bytes_at(view, VIEW.size) if view else bytes(VIEW.size)
    return make_object(sampling.of(viewed(fields, seen) if view else fields), "texref", *made_from, seen)


call("!8O", "cuSurfObjectCreate")(lambda resource: surface_of(bytes_at(resource, RESOURCE)))


def surface_of(raw: bytes) -> int:
    """Make a surface object of an array."""
    require(int.from_bytes(raw[:4], "little") == ARRAY, "a surface is made of an array")
    return make_object(resource_of(raw), "surfref", raw)


call("P", "cuTexObjectDestroy cudaDestroyTextureObject")(lambda handle: _destroy(handle, "texref"))
call("P", "cuSurfObjectDestroy cudaDestroySurfaceObject")(lambda handle: _destroy(handle, "surfref"))


def _destroy(handle: int, kind: str) -> None:
    """Free an object; others are passed over, as by a driver."""
    found = PROCESS.objects.get(handle)
    if found is not None and found.kind == kind:
        del PROCESS.objects[handle]
        if PROCESS.memory.holding(handle) is not None:
            PROCESS.memory.free(handle, Kind.DEVICE)


def declare_description(name: str, kind: str, place: int) -> None:
    """Declare a function that gives what an object was made from."""

    @call("OP", name)
    def describe(out: int, handle: int) -> None:
        put_bytes(out, object_of(handle, kind).made_from[place])


declare_description("cuTexObjectGetResourceDesc", "texref", 0)
declare_description("cuTexObjectGetTextureDesc", "texref", 1)
declare_description("cuTexObjectGetResourceViewDesc", "texref", 2)
declare_description("cuSurfObjectGetResourceDesc", "surfref", 0)


# ---- references by name --------------------------------------------------------------------------


def _reference(module: DriverModule, name: str, kind: str) -> int:
    variables = module.module.program.variables
    present(next((v for v in variables if v.name == name and v.type.name == kind), None), name, Result.NOT_FOUND)
    known = module.references.get(name)
    if known is None:
        known = module.references[name] = Reference(PROCESS.memory, module.variable(name)[0], kind)
    return PROCESS.handles.put(known, module)


call("8mT", "cuModuleGetTexRef")(lambda module, name: _reference(module, name, "texref"))
call("8mT", "cuModuleGetSurfRef")(lambda module, name: _reference(module, name, "surfref"))
call("8", "cuTexRefCreate")(lambda: PROCESS.handles.put(Reference(PROCESS.memory)))
call("t", "cuTexRefDestroy")(lambda reference: PROCESS.handles.end(reference))


@call("taU", "cuTexRefSetArray")
def set_array(reference: Reference, array: CudaArray, flags: int) -> None:
    reference.format = array.descriptor.format, array.descriptor.channels
    reference.bind(arrays.of_arrays([array]), array)


@call("tAU", "cuTexRefSetMipmappedArray")
def set_mipmap(reference: Reference, mipmap: MipmappedArray, flags: int) -> None:
    d = mipmap.levels[0].descriptor
    reference.format = d.format, d.channels
    reference.bind(arrays.of_arrays(mipmap.levels), mipmap)


@call("taU", "cuSurfRefSetArray")
def set_surface(reference: Reference, array: CudaArray, flags: int) -> None:
    require(not flags, f"flags {flags}")
    reference.bind(arrays.of_arrays([array]), array)


@call("PtPP", "cuTexRefSetAddress_v2 cuTexRefSetAddress")
def set_address(out: int, reference: Reference, address: int, nbytes: int) -> None:
    """Bind linear memory; the texture begins at the alignment before, so many bytes as are stored."""
    offset = arrays.misplaced(PROCESS.memory, address) if address else 0
    require(out or not offset, f"0x{address:x} is no multiple of {arrays.ALIGNMENT}")
    if out:
        put64(out, offset)
    start = address - offset
    if address:
        reference.bind(arrays.linear(start, *reference.format, nbytes + offset), pointer=start)


@call("tOPP", "cuTexRefSetAddress2D_v3 cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D")
def set_rows(reference: Reference, given: int, address: int, pitch: int) -> None:
    width, height, format, channels = FLAT.unpack(bytes_at(given, FLAT.size))
    name, _ = arrays.format_of(format, channels)
    require(pitch >= width * channels * (int(name[1:3]) // 8 or 1), f"a pitch of {pitch} bytes")
    reference.format = format, channels
    reference.bind(arrays.pitched(address, format, channels, width, height, pitch), pointer=address)


@call("tUI", "cuTexRefSetFormat")
def set_format(reference: Reference, format: int, channels: int) -> None:
    require(channels in (1, 2, 4), f"an element of {channels} channels")
    reference.format = format, channels


@call("tIU", "cuTexRefSetAddressMode")
def set_mode(reference: Reference, axis: int, mode: int) -> None:
    require(0 <= axis < 3, f"axis {axis}")
    modes = list(reference.how.address)
    modes[axis] = mode if 0 <= mode < 4 else 1
    reference.change(address=tuple(modes))


call("tU", "cuTexRefSetFilterMode")(lambda reference, mode: reference.change(filter=int(mode == 1)))
call("tU", "cuTexRefSetMipmapFilterMode")(lambda reference, mode: reference.change(mip_filter=int(mode == 1)))


call("tr", "cuTexRefSetMipmapLevelBias")(lambda reference, bias: reference.change(bias=bias))
call("trr", "cuTexRefSetMipmapLevelClamp")(lambda reference, least, most: reference.change(least=least, most=most))
call("tU", "cuTexRefSetMaxAnisotropy")(lambda reference, most: reference.change(anisotropy=min(most, 16)))


@call("tO", "cuTexRefSetBorderColor")
def set_border(reference: Reference, color: int) -> None:
    reference.change(border=struct.unpack("<4f", bytes_at(color, 16)))


@call("tU", "cuTexRefSetFlags")
def set_flags(reference: Reference, flags: int) -> None:
    require(flags < 0x80, f"texture flags {flags:#x}")
    reference.change(flags=flags & (arrays.INTEGER | arrays.NORMAL | arrays.SRGB | arrays.ONE_LEVEL | arrays.SEAMLESS))


def _bound(reference: Reference, kind: type) -> int:
    require(isinstance(reference.array, kind), "nothing is bound")
    return PROCESS.handles.of(reference.array)


call("8t", "cuTexRefGetArray cuSurfRefGetArray")(lambda reference: _bound(reference, CudaArray))
call("8t", "cuTexRefGetMipmappedArray")(lambda reference: _bound(reference, MipmappedArray))
call("8t", "cuTexRefGetAddress_v2 cuTexRefGetAddress")(lambda reference: present(reference.pointer))
call("4t", "cuTexRefGetFilterMode")(lambda reference: reference.how.filter)
call("4t", "cuTexRefGetMipmapFilterMode")(lambda reference: reference.how.mip_filter)
call("4t", "cuTexRefGetFlags")(lambda reference: reference.how.flags)
call("4t", "cuTexRefGetMaxAnisotropy")(lambda reference: reference.how.anisotropy)
call("44t", "cuTexRefGetFormat")(lambda reference: reference.format)
call("Vt", "cuTexRefGetMipmapLevelBias")(lambda reference: reference.how.bias)
call("VVt", "cuTexRefGetMipmapLevelClamp")(lambda reference: (reference.how.least, reference.how.most))


@call("4tI", "cuTexRefGetAddressMode")
def get_mode(reference: Reference, axis: int) -> int:
    require(0 <= axis < 3, f"axis {axis}")
    return reference.how.address[axis]


call("Ot", "cuTexRefGetBorderColor")(lambda out, reference: put_bytes(out, struct.pack("<4f", *reference.how.border)))


# ---- devices -------------------------------------------------------------------------------------


@call("8IUD", "cuDeviceGetTexture1DLinearMaxWidth")
def widest_linear(format: int, channels: int, device: int) -> int:
    made = layout.Fields(rank=1, size=(1, 1, 1), format=arrays.format_of(format, channels)[0], channels=channels)
    return int((1 << 30) // made.element)
