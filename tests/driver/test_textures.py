"""CUDA arrays, texture and surface objects, references by name: codes as an H200 answers them, elements as they were copied."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import attrs
import numpy as np
import pytest

import warpsim
from driver_calls import INVALID_VALUE, string
from warpsim.driver import arrays

GONE, INVALID_HANDLE, NOT_FOUND = 709, 400, 500
SOLID, HOW = struct.Struct("<QQQIII"), struct.Struct("<3iiIIi3f4f")
ARRAYS = (Path(__file__).with_name("arrays_h200.txt")).read_text(encoding="utf-8").splitlines()
TEXT = b""".version 8.6
.target sm_90
.address_size 64
.global .texref tx; .global .surfref sx;
.visible .entry k(.param .u64 out, .param .u64 t) {
.reg .b64 %o, %t; .reg .b32 %r<4>, %i; .reg .f32 %f<4>, %x; .reg .pred %p;
ld.param.u64 %o, [out]; ld.param.u64 %t, [t]; mov.u32 %i, %tid.x; cvt.rn.f32.u32 %x, %i; mad.wide.u32 %o, %i, 4, %o;
setp.eq.u64 %p, %t, 0; @%p bra named;
tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x, %x}]; st.global.f32 [%o], %f0; ret;
named: tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [tx, {%x, %x}]; st.global.f32 [%o], %f0;
shl.b32 %r0, %i, 2; suld.b.2d.b32.zero %r1, [sx, {%r0, 1}]; st.global.b32 [%o+32], %r1; ret; }
\0"""


def described(*words: int) -> ctypes.Array:
    """A CUDA_ARRAY3D_DESCRIPTOR."""
    return ctypes.create_string_buffer(SOLID.pack(*words))


def resource(kind: int, *words: int) -> ctypes.Array:
    """A CUDA_RESOURCE_DESC."""
    return ctypes.create_string_buffer(struct.pack(f"<Q{len(words)}Q", kind, *words).ljust(144, b"\0"))


def sampling(*, filter: int = 0, flags: int = 0) -> ctypes.Array:
    """A CUDA_TEXTURE_DESC that clamps."""
    return ctypes.create_string_buffer(HOW.pack(1, 1, 1, filter, flags, 0, 0, *[0.0] * 7).ljust(104, b"\0"))


@pytest.fixture
def array(ask):
    """An array of 8 x 4 f32, which are 0, 1, 2 ..."""
    made = ask("cuArray3DCreate_v2", ..., described(8, 4, 0, 32, 1, 2))
    host = np.arange(32, dtype=np.float32)
    box = struct.pack("<QQIxxxxQQQQ", 0, 0, 1, host.ctypes.data, 0, 0, 32) + struct.pack(
        "<QQIxxxxQQQQ", 0, 0, 3, 0, 0, made, 0
    )
    ask("cuMemcpy2D_v2", ctypes.create_string_buffer(box + struct.pack("<QQ", 32, 4)))
    return made


def read(ask, function: int, *words: int) -> np.ndarray:
    """What eight threads store."""
    out = ask("cuMemAlloc_v2", ..., 64)
    given = [ctypes.c_uint64(word) for word in (out, *words)]
    pointers = (ctypes.c_void_p * len(given))(*[ctypes.addressof(g) for g in given])
    ask("cuLaunchKernel", function, 1, 1, 1, 8, 1, 1, 0, 0, pointers, 0)
    host = np.zeros(16, np.float32)
    ask("cuMemcpyDtoH_v2", host.ctypes.data, out, 64)
    return host


@pytest.mark.parametrize("row", ARRAYS)
def test_arrays(ask, row):
    """Which arrays can be made; their descriptor is given back."""
    *words, code = map(int, row.split())
    made = ask("cuArray3DCreate_v2", ..., described(*words), status=code)
    if not code:
        out = ctypes.create_string_buffer(SOLID.size)
        ask("cuArray3DGetDescriptor_v2", out, made)
        assert SOLID.unpack(out.raw[: SOLID.size]) == tuple(words)
        ask("cuArrayDestroy", made)
        ask("cuArrayDestroy", made, status=GONE)


def test_handles(ask, array):
    """Null is no handle; of an array that is gone, the context is called destroyed."""
    ask("cuArrayDestroy", 0, status=INVALID_HANDLE)
    ask("cuMipmappedArrayDestroy", 0, status=INVALID_HANDLE)
    ask("cuArrayDestroy", array)
    ask("cuArray3DGetDescriptor_v2", ctypes.create_string_buffer(64), array, status=GONE)


def test_rows(ask, array):
    """A copy to or from an array by bytes stays in its first row."""
    host = np.zeros(16, np.float32)
    ask("cuMemcpyAtoH_v2", host.ctypes.data, array, 4, 28)
    assert host[:7].tolist() == [1, 2, 3, 4, 5, 6, 7]
    ask("cuMemcpyAtoH_v2", host.ctypes.data, array, 0, 36, status=INVALID_VALUE)
    ask("cuMemcpyHtoA_v2", array, 16, host.ctypes.data, 20, status=INVALID_VALUE)


def test_objects(ask, array):
    """A texture reads an array; its descriptors come back, and what is none is refused."""
    module = ask("cuModuleLoadData", ..., string(TEXT))
    function = ask("cuModuleGetFunction", ..., module, string(b"k\0"))
    made = ask("cuTexObjectCreate", ..., resource(0, array), sampling(filter=1), 0)
    assert read(ask, function, made)[:8].tolist() == [0.0, 4.5, 13.5, 22.5, 27.5, 28.5, 29.5, 30.5]
    out = ctypes.create_string_buffer(104)
    ask("cuTexObjectGetTextureDesc", out, made)
    assert out.raw[: HOW.size] == sampling(filter=1).raw[: HOW.size]
    ask("cuTexObjectDestroy", made)
    ask("cuTexObjectDestroy", made)
    ask("cuTexObjectGetTextureDesc", out, made, status=INVALID_VALUE)


@pytest.mark.parametrize(("size", "code"), [((8, 4), 0), ((8, 0), 0), ((4, 4), INVALID_VALUE), ((8, 3), INVALID_VALUE)])
def test_views(ask, array, size, code):
    """A CUDA_RESOURCE_VIEW_DESC has the size of what it is of, and is given back."""
    given = ctypes.create_string_buffer(struct.pack("<IxxxxQQQIIII", 22, *size, 0, 0, 0, 0, 0), 112)
    made = ask("cuTexObjectCreate", ..., resource(0, array), sampling(), given, status=code)
    if not code:
        back = ctypes.create_string_buffer(112)
        ask("cuTexObjectGetResourceViewDesc", back, made)
        assert back.raw == given.raw


@pytest.mark.parametrize(
    ("kind", "words", "code"),
    [
        (0, (0,), INVALID_VALUE), (1, (0,), INVALID_VALUE), (4, (0,), INVALID_VALUE), (2, (0, 32 | 1 << 32, 256), 0), (2, (4, 32 | 1 << 32, 256), INVALID_VALUE),
        (2, (16, 32 | 1 << 32, 256), INVALID_VALUE), (2, (512, 32 | 1 << 32, 256), 0), (2, (0, 32 | 3 << 32, 256), INVALID_VALUE), (2, (0, 77 | 1 << 32, 256), INVALID_VALUE),
        (3, (0, 32 | 1 << 32, 16, 16, 96), 0), (3, (0, 32 | 1 << 32, 16, 16, 100), INVALID_VALUE), (3, (32, 32 | 1 << 32, 16, 16, 512), INVALID_VALUE),
        (3, (0, 32 | 3 << 32, 16, 16, 512), INVALID_VALUE),
    ],
)  # fmt: skip
def test_resources(ask, kind, words, code):
    """What a texture can be made of; memory is given by how far it is behind an allocation."""
    base = ask("cuMemAlloc_v2", ..., 1 << 14)
    given = resource(kind, base + words[0], *words[1:]) if kind in (2, 3) else resource(kind, *words)
    ask("cuTexObjectCreate", ..., given, sampling(), 0, status=code)


@pytest.mark.parametrize("copied", [True, False])
def test_arrays_of_unwritten_bytes(ask, copied):
    """An array is as undefined as the memory that is copied to it, or as what it is made of; a copy of what comes of it fails."""
    function = ask("cuModuleGetFunction", ..., ask("cuModuleLoadData", ..., string(TEXT)), string(b"k\0"))
    made = ask("cuArray3DCreate_v2", ..., described(8, 4, 0, 32, 1, 2))
    texture = ask("cuTexObjectCreate", ..., resource(0, made), sampling(), 0)
    if copied:
        host = np.zeros(32, np.float32)
        box = struct.pack("<QQIxxxxQQQQ", 0, 0, 1, host.ctypes.data, 0, 0, 32)
        box += struct.pack("<QQIxxxxQQQQQQ", 0, 0, 3, 0, 0, made, 0, 32, 4)
        ask("cuMemcpy2D_v2", ctypes.create_string_buffer(box))
        ask("cuMemcpyDtoA_v2", made, 0, ask("cuMemAlloc_v2", ..., 64), 32)
    with pytest.raises(AssertionError, match="719 == 0"):
        read(ask, function, texture)


def test_references(ask, array):
    """Textures and surfaces of a module by name."""
    module = ask("cuModuleLoadData", ..., string(TEXT))
    function = ask("cuModuleGetFunction", ..., module, string(b"k\0"))
    texture, surface = (
        ask("cuModuleGetTexRef", ..., module, string(b"tx\0")),
        ask("cuModuleGetSurfRef", ..., module, string(b"sx\0")),
    )
    ask("cuModuleGetTexRef", ..., module, string(b"sx\0"), status=NOT_FOUND)
    ask("cuTexRefGetArray", ..., texture, status=INVALID_VALUE)
    assert ask("cuTexRefGetAddressMode", ..., texture, 0) == 1
    ask("cuTexRefSetAddressMode", texture, 3, 1, status=INVALID_VALUE)
    ask("cuTexRefSetFlags", texture, 0x80, status=INVALID_VALUE)
    ask("cuSurfRefSetArray", surface, array, 1, status=INVALID_VALUE)
    ask("cuTexRefSetArray", texture, array, 1)
    ask("cuTexRefSetFilterMode", texture, 1)
    ask("cuTexRefSetMipmapLevelBias", texture, -0.5)
    ask("cuTexRefSetMipmapLevelClamp", texture, 0.25, 7.5)
    words = [*ask("cuTexRefGetMipmapLevelClamp", ..., ..., texture), ask("cuTexRefGetMipmapLevelBias", ..., texture)]
    assert np.array(words, np.uint32).view(np.float32).tolist() == [0.25, 7.5, -0.5]
    ask("cuSurfRefSetArray", surface, array, 0)
    assert ask("cuTexRefGetArray", ..., texture) == array
    found = read(ask, function, 0)
    assert found[:8].tolist() == [0.0, 4.5, 13.5, 22.5, 27.5, 28.5, 29.5, 30.5]
    assert found[8:].tolist() == [8, 9, 10, 11, 12, 13, 14, 15]


FORMATS = np.load(Path(__file__).parents[1] / "data" / "texture_formats_h200.npz")
NUMBERS = {"u8": 1, "u16": 2, "u32": 3, "s8": 8, "s16": 9, "s32": 10, "f16": 16, "f32": 32, "r10g10b10a2": 0x50} | {
    f"{kind}{bits}x{n}": 0xC0 + k
    for k, (kind, bits, n) in enumerate(
        (kind, bits, n) for kind in ("unorm", "snorm") for bits in (8, 16) for n in (1, 2, 4)
    )
}


def read_elements(key: str) -> np.ndarray:
    """What threads read of a recorded texture, at places that the recording chose."""
    name, channels, filter, flags = key.split()
    data = FORMATS[f"{name} {channels} data"]
    module = warpsim.load(READING)
    held = module.device.array(data)
    made = arrays.Descriptor(32, 16, 0, NUMBERS[name], int(channels[1:]), 0).fields()
    sampling = arrays.Sampling(filter=int(filter), flags=int(flags))
    block = sampling.of(attrs.evolve(made, levels=(held.ptr,), pitch=data.shape[1])).encode()
    y, x = np.divmod(np.arange(512, dtype=np.float32)[::16], 32)
    places = np.stack([x, y], 1) + np.float32(0.37 if filter == "1" else 0.5)
    out = np.zeros((32, 4), np.uint32)
    module["k"](1, 32, (places.astype(np.float32), out, module.device.array(np.frombuffer(block, np.uint8))))
    return out


READING = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 places, .param .u64 out, .param .u64 t) {
.reg .b64 %p, %o, %t; .reg .b32 %i, %r<4>; .reg .f32 %x, %y;
ld.param.u64 %p, [places]; ld.param.u64 %o, [out]; ld.param.u64 %t, [t]; mov.u32 %i, %tid.x;
mad.wide.u32 %p, %i, 8, %p; mad.wide.u32 %o, %i, 16, %o; ld.global.v2.f32 {%x, %y}, [%p];
tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}]; st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3}; ret; }
"""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n not in ("r10g10b10a2", "unorm8x4"))) for n in NUMBERS]
)
def test_formats(name: str) -> None:
    """Elements of a format, as numbers or fractions, alone or filtered (an H200; tools/recordings/textures_wider.py)."""
    keys = [key for key in FORMATS if key.split()[0] == name and not key.endswith("data")]
    wrong = []
    for key in keys:
        got, expected = read_elements(key), FORMATS[key]
        if key.endswith("1 16") and "8" in name:  # filtered light
            near = np.isclose(got.view(np.float32), expected.view(np.float32), rtol=0, atol=0.006)
        else:
            near = (got == expected) | ((got & 0x7FFFFFFF > 0x7F800000) & (expected & 0x7FFFFFFF > 0x7F800000))
        wrong += [key] * (not near.all())

    assert keys
    assert wrong == []
