"""The bits of tensor maps: what the driver writes for 700 argument sets, and what tensormap.replace makes of them.

tensor_map_bits.py OUT.json.gz        on a machine with a GPU of sm_90
"""

import ctypes as C
import gzip
import json
import random
import sys

ADDRESS = 0x7F00_0000_0000
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
CORNERS = {3: 15, 4: 7, 5: 4}
BASE = [7, ADDRESS, [64, 64, 64], [256, 16384], [8, 4, 4], [1, 1, 1], 0, 1, 0, 0]
SOURCE = (
    "H200, driver 13.0: the first 64 bytes of what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col write, with their"
    " arguments but for the map and its rank, and what tensormap.replace makes of 64 bytes of ones and of a map: the field, the"
    " value, the dimension, what of, the bytes"
)
cuda = C.CDLL("libcuda.so.1")


def checked(code):
    """Stop where the driver refuses a call."""
    assert code == 0, code


def array(kind, values):
    """An array of C."""
    return (kind * max(len(values), 1))(*values)


def encoded(arguments):
    """The map, None if the driver refuses it."""
    kind, address, dims, strides, *shape, steps, interleave, swizzle, promotion, fill = arguments
    room = (C.c_ubyte * 256)()
    at = (C.addressof(room) + 127) & ~127
    given = [C.c_void_p(at), kind, len(dims), C.c_void_p(address), array(C.c_uint64, dims), array(C.c_uint64, strides)]
    rest = [array(C.c_uint32, steps), interleave, swizzle, promotion, fill]
    if len(shape) == 1:
        code = cuda.cuTensorMapEncodeTiled(*given, array(C.c_uint32, shape[0]), *rest)
    else:
        lower, upper, channels, pixels = shape
        corners = array(C.c_int, lower), array(C.c_int, upper)
        code = cuda.cuTensorMapEncodeIm2col(*given, *corners, channels, pixels, *rest)
    return None if code else C.string_at(at, 64)


def drawn(rng, im2col):
    """An argument set."""
    rank, kind = rng.randint(3 if im2col else 1, 5), rng.randrange(len(SIZES))
    dims = [rng.choice([rng.randint(1, 300), rng.randint(1, 1 << 32)]) for _ in range(rank)]
    strides = [rng.randrange(1, 1 << rng.randint(2, 35)) * 32 for _ in range(rank - 1)]
    inner = max(1, 16 * rng.choice([1, 2, 4, 8]) // SIZES[kind])
    if im2col:
        limit = 1 << CORNERS[rank]
        corners = [[rng.randrange(-limit, limit) // rng.choice([1, 8]) for _ in range(rank - 2)] for _ in range(2)]
        shape = [*corners, inner, rng.randint(1, 1024)]
    else:
        shape = [[inner, *(rng.randint(1, 8) for _ in range(rank - 1))]]
    steps = [rng.choice([1, rng.randint(1, 8)]) for _ in range(rank)]
    interleave = rng.choice([0, 0, 1, 2]) if rank > 2 else 0
    modes = [interleave, rng.randrange(4), rng.randrange(4), rng.randrange(2) if kind >= 6 else 0]
    return [kind, rng.randrange(1 << 52) * 32, dims, strides, *shape, steps, *modes]


def changes():
    """Fields of tensormap.replace with a value, the dimension (None: none) and the operands that PTX is given."""
    for value in (1, 0x7F00_1234_5670, (1 << 64) - 1):
        yield "global_address", value, None, "b64", "%v"
    for value in (0, 4, 7):
        yield "rank", value, None, "b32", "%w"
    for order in range(5):
        for field, values in (
            ("box_dim", (0, 0x55, 0x1FF)),
            ("global_dim", (0, 0x1234_5678, 0xFFFF_FFFF)),
            ("element_stride", (0, 5, 8)),
        ):
            for value in values:
                yield field, value, order, "b32", f"{order}, %w"
        for value in (16, 0x123_4567_89A0, (1 << 64) - 1):
            yield "global_stride", value, order, "b64", f"{order}, %v"
    for field, count in (("elemtype", 13), ("interleave_layout", 3), ("swizzle_mode", 4), ("fill_mode", 2)):
        for value in range(count):
            yield field, value, None, "b32", str(value)


def replaced(field, value, kind, operands, start):
    """64 bytes that a kernel has changed."""
    code = f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 value) {{
.reg .b64 %m, %v; .reg .b32 %w; ld.param.u64 %m, [map]; ld.param.u64 %v, [value]; cvt.u32.u64 %w, %v;
tensormap.replace.tile.{field}.global.b1024.{kind} [%m], {operands}; ret; }}"""
    module, function, there, out = C.c_void_p(), C.c_void_p(), C.c_uint64(), C.create_string_buffer(128)
    checked(cuda.cuModuleLoadData(C.byref(module), code.encode()))
    checked(cuda.cuModuleGetFunction(C.byref(function), module, b"k"))
    checked(cuda.cuMemAlloc_v2(C.byref(there), 128))
    checked(cuda.cuMemcpyHtoD_v2(there, start + bytes(64), 128))
    given = C.c_uint64(value)
    pointers = (C.c_void_p * 2)(C.addressof(there), C.addressof(given))
    checked(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None))
    checked(cuda.cuMemcpyDtoH_v2(out, there, 128))
    checked(cuda.cuModuleUnload(module))
    return out.raw[:64].hex()


def main():
    """Ask, and write the answers."""
    device, context = C.c_int(), C.c_void_p()
    checked(cuda.cuInit(0))
    checked(cuda.cuDeviceGet(C.byref(device), 0))
    checked(cuda.cuDevicePrimaryCtxRetain(C.byref(context), device))
    checked(cuda.cuCtxSetCurrent(context))
    rng, found = random.Random(33), {"source": SOURCE}
    for name, count in (("tiled", 500), ("im2col", 200)):
        rows = found[name] = []
        while len(rows) < count:
            arguments = drawn(rng, name == "im2col")
            if (raw := encoded(arguments)) is not None:
                rows.append([arguments, raw.hex()])
    base = encoded(BASE)
    found["map"] = base.hex()
    found["replace"] = [
        [field, value, order, start, replaced(field, value, kind, operands, raw)]
        for field, value, order, kind, operands in changes()
        for start, raw in (("ones", b"\xff" * 64), ("map", base))
    ]
    with gzip.open(sys.argv[1], "wt") as file:
        json.dump(found, file)


main()
