"""What tests of the libraries' functions give them: C strings, arrays, structures of cuda.h, kernels; and codes of errors."""

import ctypes
import os
import struct

from ptx_text import module_head

INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, INVALID_CONTEXT, NO_BINARY, FILE_NOT_FOUND = 1, 2, 101, 201, 209, 301
INVALID_HANDLE, ILLEGAL_STATE, NOT_FOUND, CLUSTER, NOT_SUPPORTED, UNKNOWN = 400, 401, 500, 912, 801, 999
HEAD = module_head("sm_90a")
KERNELS = (
    HEAD
    + """.visible .global .align 8 .b8 room[24];
.visible .entry put(.param .u64 out, .param .u32 v) {
    .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [out]; ld.param.b32 %r, [v]; st.global.b32 [%d], %r; ret; }
.visible .entry ranks(.param .u64 out) {
    .reg .b64 %d; .reg .b32 %r<2>; ld.param.u64 %d, [out]; mov.u32 %r0, %cluster_nctarank; mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %d, %r1, 4, %d; st.global.b32 [%d], %r0; ret; }
.visible .entry wide() .reqntid 64, 2 { ret; }
.visible .entry paired() .reqnctapercluster 2, 1, 1 { ret; }"""
)


def string(text):
    """A C string."""
    return ctypes.create_string_buffer(os.fsencode(text))


def row(*numbers):
    """An array of 64-bit words."""
    return (ctypes.c_uint64 * len(numbers))(*numbers)


def text(address):
    """A string of the library's."""
    return ctypes.string_at(address).decode()


def box(source, target, width, height=1, depth=1, pitch=8, host=1, kinds=(1, 2), array=0):
    """CUDA_MEMCPY3D: either side from its beginning."""
    sides = [
        struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, kind, where if kind == 1 else 0, where if kind != 1 else 0, array, 0, pitch, height)
        for kind, where in zip(kinds, (source, target), strict=True)
    ]  # fmt: skip
    return ctypes.create_string_buffer(b"".join(sides) + struct.pack("<QQQ", width, height, depth))


def config(grid, block, attributes=b"", count=None, shared=0, stream=0, driver=True):
    """CUlaunchConfig, or cudaLaunchConfig_t; what its attributes are in stays with it."""
    kept = ctypes.create_string_buffer(attributes, max(len(attributes), 1))
    count = len(attributes) // 72 if count is None else count
    extents = struct.pack("<6I", *grid, *block)
    size = struct.pack("<I4x", shared) if driver else struct.pack("<Q", shared)
    made = string(extents + size + struct.pack("<QQI", stream, ctypes.addressof(kept), count))
    made.kept = kept
    return made


def launch_attribute(number, *values):
    """CUlaunchAttribute: a number, and at its eighth byte a value of 64 bytes."""
    return struct.pack("<I4x", number) + struct.pack(f"<{len(values)}I", *values).ljust(64, b"\0")
