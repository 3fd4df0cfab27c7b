# ruff: noqa: D103 (the name of a case says what it is)
"""Makes the case directories of the Hopper kernels beside this file, ready to be recorded on a GPU.

hopper_cases.py FOLDER [NAME...]        needs nvcc, NumPy and ml_dtypes; record.py then fills in what the GPU leaves
"""

import sys
from pathlib import Path

import async_ptx
import boxes_ptx
import numpy as np
from case_files import (
    SIZES,
    changed,
    f32,
    i32,
    nvcc,
    one_kernel,
    ptr,
    random,
    result,
    small,
    source,
    write_case,
)

HERE = Path(__file__).parent
MAP_TYPES = {"UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64", "INT64": "s64", "FLOAT16": "f16",
             "FLOAT32": "f32", "FLOAT64": "f64", "BFLOAT16": "bf16", "FLOAT32_FTZ": "f32", "TFLOAT32": "f32", "TFLOAT32_FTZ": "f32"}  # fmt: skip
CASES = {}


def case(function):
    """Register a function that gives the parts of a case under its name."""
    CASES[function.__name__] = function
    return function


UNITS = {"none": 0, "16B": 16, "32B": 32}
"""Bytes of a pixel's slice of channels in interleaved maps."""


def tensor_map(
    buffer, data_type, dims, box, *, strides=None, swizzle="none", element_strides=None, fill="zero", im2col=None, interleave="none",
):  # fmt: skip
    """A tensor map argument over a dense tensor (``strides`` in bytes otherwise); ``im2col`` is (lower, upper, channels, pixels)."""
    size = UNITS[interleave] or SIZES[MAP_TYPES[data_type]]
    if strides is None:
        strides = [int(np.prod(dims[: i + 1])) * size for i in range(len(dims) - 1)]
    found = {
        "kind": "tensormap", "buffer": buffer, "data_type": data_type, "rank": len(dims), "global_dim": list(dims),
        "global_strides_bytes": list(strides), "box_dim": list(box or []), "element_strides": list(element_strides or [1] * len(dims)),
        "interleave": interleave, "swizzle": swizzle, "l2_promotion": "none", "oob_fill": fill,
    }  # fmt: skip
    if im2col:
        keys = ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column")
        found["im2col"] = dict(zip(keys, im2col, strict=True))
    return found


# ---- matrix products ------------------------------------------------------------------------------


def gemm(entry, dtype, data_type, m, n, k, *, per_slice, a=None, b=None, b_type=None, extra=(), grid=None, **more):
    """The parts that most products share: A [m, k] and B [n, k] with maps of 128-byte slices, C [m, n]."""
    name, b_data = b_type or (dtype, data_type)
    return {
        "source": "gemms", "entry": entry, "grid": grid or (n // 64, m // 64, 1), "block": (128, 1, 1),
        "buffers": {"A": source(dtype, random(m, k, seed=1) if a is None else a), "B": source(name, random(n, k, seed=2) if b is None else b),
                    "C": result("f32", m, n), **{key: value for key, value, _ in extra}},
        "params": [tensor_map("A", data_type, (k, m), (per_slice, 64), swizzle="128B"), tensor_map("B", b_data, (k, n), (per_slice, 64), swizzle="128B"),
                   *(p for *_, p in extra), ptr("C"), i32(n), i32(k)],
        **more,
    }  # fmt: skip


@case
def gemm_ss_f16():
    return gemm("gemm_ss_f16", "f16", "FLOAT16", 128, 128, 192, per_slice=64)


@case
def gemm_ss_tf32():
    return gemm("gemm_ss_tf32", "f32", "FLOAT32", 64, 64, 96, per_slice=32)


@case
def gemm_fp8_scaled():
    scales = [
        ("sa", source("f32", np.exp2(random(3, 64, seed=3))), ptr("sa")),
        ("sb", source("f32", np.exp2(random(3, seed=4))), ptr("sb")),
    ]
    return gemm("gemm_fp8_scaled", "e4m3", "UINT8", 64, 64, 384, per_slice=128, extra=scales)


@case
def gemm_fp8_mixed():
    return gemm(
        "gemm_fp8_mixed",
        "e5m2",
        "UINT8",
        64,
        64,
        256,
        per_slice=128,
        b_type=("e4m3", "UINT8"),
        a=random(64, 256, seed=1, scale=20),
    )


@case
def gemm_rs_bf16():
    parts = gemm("gemm_rs_bf16", "bf16", "BFLOAT16", 64, 64, 192, per_slice=64)
    return {**parts, "params": [ptr("A"), *parts["params"]]}


@case
def gemm_rs_fp8():
    parts = gemm("gemm_rs_fp8", "e4m3", "UINT8", 64, 64, 256, per_slice=128, b_type=("e5m2", "UINT8"))
    return {**parts, "params": [ptr("A"), *parts["params"]]}


@case
def gemm_sparse_f16():
    rng = np.random.default_rng(5)
    pairs = np.array([p | q << 2 for p in range(4) for q in range(p + 1, 4)])
    nibbles = pairs[rng.integers(0, len(pairs), (2, 128, 8))]
    meta = (nibbles << 4 * np.arange(8)).sum(-1)
    return {
        "source": "gemms", "entry": "gemm_sparse_f16", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(2048, seed=1)), "B": source("f16", random(4096, seed=2)), "E": source("u32", meta), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("E"), ptr("C")],
    }  # fmt: skip


@case
def gemm_s8():
    k = 192
    return {
        "source": "gemms", "entry": "gemm_s8", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("u8", small(64, k, seed=1, top=127).astype(np.int8).view(np.uint8)), "B": source("u8", small(32, k, seed=2, top=127).astype(np.uint8)), "C": result("s32", 64, 32)},
        "params": [tensor_map("A", "UINT8", (k, 64), (64, 64), swizzle="64B"), tensor_map("B", "UINT8", (k, 32), (64, 32), swizzle="64B"), ptr("C"), i32(k)],
    }  # fmt: skip


@case
def gemm_cp_async():
    k = 160
    return {
        "source": "gemms", "entry": "gemm_cp_async", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(64, k, seed=1)), "B": source("f16", random(64, k, seed=2)), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("C"), i32(k)],
    }  # fmt: skip


# ---- pipelines ------------------------------------------------------------------------------------


@case
def gemm_pingpong():
    m, n, k = 192, 128, 128
    return {
        "source": "pipelines", "entry": "gemm_pingpong", "grid": (2, 1, 1), "block": (384, 1, 1), "dynamic_smem": 3 * 16384 + 2 * 16384 + 1024,
        "buffers": {"A": source("f16", random(m, k, seed=1)), "B": source("f16", random(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 64), swizzle="128B"),
                   tensor_map("C", "FLOAT32", (n, m), (64, 64)), i32(m), i32(n), i32(k)],
    }  # fmt: skip


@case
def gemm_multicast():
    m, n, k = 128, 128, 256
    return {
        "source": "pipelines", "entry": "gemm_multicast", "grid": (2, 2, 1), "block": (128, 1, 1), "cluster": (2, 1, 1),
        "buffers": {"A": source("f16", random(m, k, seed=1)), "B": source("f16", random(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 32), swizzle="128B"), ptr("C"), i32(n), i32(k)],
    }  # fmt: skip


@case
def gemm_stream_k():
    m, n, k = 128, 128, 320
    slices = k // 64
    total = m // 64 * n // 64 * slices
    return {
        "source": "pipelines", "entry": "gemm_stream_k", "grid": (3, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", small(m, k, seed=1)), "B": source("f16", small(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 64), swizzle="128B"),
                   tensor_map("C", "FLOAT32", (n, m), (64, 64)), i32(n // 64), i32(slices), i32(-(-total // 3)), i32(total)],
    }  # fmt: skip


@case
def attention():
    queries, keys = 128, 192
    maps = [
        tensor_map(b, "FLOAT16", (64, n), (64, 64), swizzle="128B")
        for b, n in (("Q", queries), ("K", keys), ("V", keys))
    ]
    return {
        "source": "pipelines", "entry": "attention", "grid": (2, 1, 1), "block": (128, 1, 1),
        "buffers": {"Q": source("f16", random(queries, 64, seed=1)), "K": source("f16", random(keys, 64, seed=2)), "V": source("f16", random(keys, 64, seed=3)), "O": result("f16", queries, 64)},
        "params": [*maps, ptr("O"), i32(keys), f32(0.18033688)],
    }  # fmt: skip


@case
def attention_overlapped():
    parts = attention()
    return {**parts, "source": "overlap", "entry": "attention_overlapped", "dynamic_smem": 5 * 8192 + 1024}


def plain_tiles(entry, *more):
    """A kernel of overlap.cu on 64x16 tiles that threads store."""
    count = 4096 if entry == "two_sets" else 1024
    return {
        "source": "overlap", "entry": entry, "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(count, seed=1)), "B": source("f16", random(count, seed=2)), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("C"), *more],
    }  # fmt: skip


@case
def two_sets():
    return plain_tiles("two_sets")


@case
def swapped():
    return plain_tiles("swapped", i32(3))


@case
def cluster_ring():
    return {
        "source": "pipelines", "entry": "cluster_ring", "grid": (4, 1, 1), "block": (256, 1, 1), "cluster": (4, 1, 1),
        "buffers": {"x": source("u32", np.random.default_rng(1).integers(0, 1 << 31, 1024)), "y": result("u32", 4096)},
        "params": [ptr("x"), ptr("y")],
    }  # fmt: skip


@case
def bulk_stream():
    return {
        "source": "pipelines", "entry": "bulk_stream", "grid": (2, 1, 1), "block": (256, 1, 1), "cluster": (2, 1, 1),
        "buffers": {"x": source("f32", random(14 * 256, seed=1)), "y": result("f32", 14 * 256)},
        "params": [ptr("x"), ptr("y"), i32(7)],
    }  # fmt: skip


# ---- tensor maps made on the device ---------------------------------------------------------------


@case
def map_replace():
    rows, stride = 20, 72
    return {
        "source": "maps", "entry": "map_replace", "grid": (3, 1, 1), "block": (64, 1, 1),
        "buffers": {"x": source("f16", random(3 * rows, stride, seed=1)), "maps": result("u8", 3, 128), "y": result("f16", 3, 1024)},
        "params": [tensor_map("x", "FLOAT16", (70, 8), (64, 16), strides=[256], swizzle="128B"), ptr("x"), ptr("maps"), ptr("y"), i32(rows), i32(stride)],
        "unchecked": ("maps",),
    }  # fmt: skip


@case
def map_build():
    return {
        "source": "maps", "entry": "map_build", "grid": (1, 1, 1), "block": (64, 1, 1),
        "buffers": {"x": source("f32", random(24, 40, seed=1)), "maps": result("u8", 128), "y": result("f32", 256)},
        "params": [ptr("x"), ptr("maps"), ptr("y"), i32(40), i32(24)], "unchecked": ("maps",),
    }  # fmt: skip


# ---- boxes ----------------------------------------------------------------------------------------


def numbered(data_type, *dims):
    """A tensor whose elements tell their places apart (dimension 0 last in ``dims``)."""
    count, name = int(np.prod(dims)), MAP_TYPES[data_type]
    values = np.arange(count).reshape(dims)
    return values / 8 - 100 if name[0] in "fb" else values


def places(*rows, offsets=()):
    """The table of coordinates, with im2col offsets."""
    table = np.zeros((len(rows), 8), np.int32)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
        for k, offset in enumerate(offsets[i] if offsets else ()):
            table[i].view(np.uint16)[10 + k] = offset
    return source("s32", table)


def box(data_type, dims, extent, at, *, op=None, store=False, values=None, offsets=(), im2col=None, **options):
    """A case of one tensor copy at several coordinates."""
    name, steps = MAP_TYPES[data_type], options.get("element_strides") or [1] * len(dims)
    unit = UNITS[options.get("interleave", "none")]
    per = unit // SIZES[name] or 1
    if im2col:
        count = (per if unit else im2col[2]) * im2col[3]
    else:
        sides = [e if i == 0 and not unit else -(-e // s) for i, (e, s) in enumerate(zip(extent, steps, strict=True))]
        if unit:
            sides[-2] = 1
        count = int(np.prod(sides)) * per
    size = room = count * SIZES[name]
    if not unit:
        span = {"none": 0, "32B": 32, "64B": 64, "128B": 128}[options.get("swizzle", "none")]
        room *= max(1, span // ((im2col[2] if im2col else extent[0]) * SIZES[name]))
    tensor = numbered(data_type, *dims[::-1], *([per] if unit else [])) if values is None else values
    writes = store or op
    data = np.random.default_rng(9).integers(0, 50, (len(at), count)) - (25 if name[0] in "fbs" else 0)
    if op and name == "f32":
        data = np.random.default_rng(9).permutation(np.resize(SPECIAL, len(at) * count)).reshape(len(at), count)
    return {
        "ptx": boxes_ptx.kernel(len(dims), size, room=room, op=op, im2col=bool(im2col), store=store), "entry": "box", "grid": (len(at), 1, 1), "block": (128, 1, 1),
        "buffers": {"tensor": (changed if writes else source)(name, tensor), "places": places(*at, offsets=offsets),
                    "data": source(name, data) if writes else result(name, len(at), room // SIZES[name])},
        "params": [tensor_map("tensor", data_type, dims, extent, im2col=im2col, **options), ptr("places"), ptr("data")],
    }  # fmt: skip


@case
def box_1d():
    return box("UINT16", (200,), (128,), [(0,), (-8,), (152,), (304,)])


@case
def box_2d_128b():
    return box("FLOAT16", (80, 30), (64, 12), [(0, 0), (-8, 5), (40, 25), (72, -4)], swizzle="128B")


@case
def box_2d_64b():
    return box("FLOAT32", (40, 30), (16, 20), [(0, 0), (-4, 5), (32, 25)], swizzle="64B")


@case
def box_2d_32b():
    return box("UINT8", (64, 40), (32, 24), [(0, 0), (-16, 5), (48, 25)], swizzle="32B")


@case
def box_2d_narrow():
    """Rows shorter than the swizzle span lie a span apart."""
    return box("UINT8", (64, 40), (32, 12), [(0, 0), (-16, 5)], swizzle="128B")


@case
def box_3d():
    return box("INT32", (24, 7, 5), (8, 4, 3), [(0, 0, 0), (20, 5, 3), (-4, -1, -1)])


@case
def box_4d():
    return box("FLOAT64", (6, 5, 4, 3), (4, 3, 2, 2), [(0, 0, 0, 0), (4, 3, 3, 2), (-2, -1, -1, -1)])


@case
def box_5d():
    return box(
        "BFLOAT16",
        (16, 4, 3, 3, 2),
        (8, 3, 2, 2, 2),
        [(0, 0, 0, 0, 0), (8, 2, 2, 2, 1), (-8, -1, -1, -1, -1)],
        swizzle="32B",
    )


@case
def box_steps():
    return box(
        "UINT16", (64, 20, 10), (16, 9, 8), [(0, 0, 0), (8, 1, 2), (56, 15, 5), (-8, -3, -1)], element_strides=[2, 2, 3]
    )


SPECIAL = np.array([0, 1, 0x00400000, 0x007FFFFF, 0x00800000, 0x3F800000, 0x3F801000, 0x3F801001, 0x3F800FFF, 0x3F803000, 0x7F7FFFFF, 0x7F800000,
                    0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7FFFF000], np.uint32)  # fmt: skip
SPECIAL = np.r_[SPECIAL, SPECIAL | np.uint32(1 << 31)].view(np.float32)


def converted(data_type):
    """Special values loaded through a data type, over the edge with NaN."""
    values = np.r_[
        SPECIAL, np.random.default_rng(3).integers(0, 1 << 32, 160, np.uint64).astype(np.uint32).view(np.float32)
    ]
    return box(data_type, (32, 6), (32, 8), [(0, 0), (4, 1)], values=values.reshape(6, 32), fill="nan_request_zero_fma")


@case
def box_f32_nan():
    return converted("FLOAT32")


@case
def box_f32_ftz():
    return converted("FLOAT32_FTZ")


@case
def box_tf32():
    return converted("TFLOAT32")


@case
def box_tf32_ftz():
    return converted("TFLOAT32_FTZ")


@case
def box_f16_nan():
    return box("FLOAT16", (32, 4), (16, 4), [(24, 2)], fill="nan_request_zero_fma")


@case
def box_bf16_nan():
    return box("BFLOAT16", (32, 4), (16, 4), [(24, 2)], fill="nan_request_zero_fma")


@case
def box_f64_nan():
    return box("FLOAT64", (32, 4), (16, 4), [(24, 2)], fill="nan_request_zero_fma")


@case
def store_1d():
    return box("UINT32", (100,), (32,), [(0,), (88,), (40,)], store=True)


@case
def store_2d_128b():
    return box("FLOAT16", (80, 30), (64, 8), [(0, 0), (56, 10), (8, 25)], store=True, swizzle="128B")


@case
def store_3d_steps():
    return box("UINT16", (64, 20, 10), (16, 8, 6), [(0, 0, 0), (24, 13, 5)], store=True, element_strides=[1, 2, 3])


@case
def store_5d():
    return box("UINT8", (32, 4, 3, 3, 2), (16, 3, 2, 2, 2), [(0, 0, 0, 0, 0), (16, 2, 2, 2, 1)], store=True)


REDUCED = [
    ("add", "FLOAT16"), ("add", "BFLOAT16"), ("add", "FLOAT32"), ("add", "FLOAT64"), ("add", "UINT32"), ("add", "INT32"), ("add", "UINT64"),
    ("min", "FLOAT16"), ("max", "BFLOAT16"), ("min", "INT32"), ("max", "UINT32"), ("min", "INT64"), ("max", "UINT64"),
    ("min", "BFLOAT16"), ("max", "FLOAT16"), ("max", "INT32"), ("min", "UINT32"), ("max", "INT64"), ("min", "UINT64"), ("add", "TFLOAT32_FTZ"),
    ("and", "INT32"), ("and", "UINT64"), ("or", "UINT32"), ("or", "INT32"), ("xor", "UINT32"), ("xor", "UINT64"),
    ("add", "FLOAT32_FTZ"), ("add", "TFLOAT32"), ("inc", "UINT32"), ("dec", "UINT32"), ("and", "UINT32"), ("or", "UINT64"), ("xor", "INT32"),
]  # fmt: skip


def reduced(op, data_type):
    """A reduction into a tensor of small numbers, over the edge."""
    values = np.random.default_rng(8).integers(0, 60, (16, 16)) - (30 if MAP_TYPES[data_type][0] in "fbs" else 0)
    if data_type in ("FLOAT32", "FLOAT32_FTZ", "TFLOAT32"):
        values = np.random.default_rng(8).permutation(np.tile(SPECIAL, 8)).reshape(16, 16)
    return lambda: box(data_type, (16, 16), (16, 4), [(0, 0), (8, 6), (0, 14)], op=op, values=values)


for _op, _type in REDUCED:
    CASES[f"reduce_{_op}_{_type.lower()}"] = reduced(_op, _type)


@case
def reduce_add_f64_nan():
    bits = [0, 1 << 63, 1, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0x7FF << 52) + 1, (0xFFF << 52) + 0x123]
    pairs = np.array([(a, b) for a in bits for b in bits], np.uint64).view(np.float64).reshape(8, 8, 2)
    parts = box("FLOAT64", (8, 8), (8, 8), [(0, 0)], op="add", values=pairs[..., 0])
    parts["buffers"]["data"]["in"] = np.ascontiguousarray(pairs[..., 1]).reshape(1, 64)
    return parts


@case
def interleaved_16b():
    at = [(0, 0, 0), (3, 2, 1), (-2, 1, 3), (8, 0, -1), (0, -1, 0), (1, 3, 0)]
    return box("UINT16", (12, 3, 4), (8, 2, 2), at, interleave="16B")


@case
def interleaved_16b_128b():
    at = [(0, 0, 0, 0), (-1, 3, 2, 1), (5, -1, 1, 3)]
    return box(
        "INT32", (13, 5, 3, 4), (16, 3, 1, 2), at, interleave="16B", swizzle="128B", element_strides=[2, 1, 3, 1]
    )


@case
def interleaved_16b_32b():
    return box("UINT8", (20, 4, 3), (16, 1, 3), [(0, 1, 0), (7, 3, -1)], interleave="16B", swizzle="32B")


@case
def interleaved_32b():
    at = [(0, 1, 1, 1, 0), (1, -1, 2, 0, 1), (2, 2, 0, 2, 0)]
    return box(
        "FLOAT16", (7, 4, 3, 3, 2), (8, 2, 2, 1, 2), at, interleave="32B", swizzle="32B", fill="nan_request_zero_fma"
    )


@case
def interleaved_32b_plain():
    return box("UINT64", (6, 2, 3), (4, 1, 2), [(0, 1, 0), (4, 0, 2)], interleave="32B", element_strides=[1, 1, 2])


@case
def interleaved_im2col_3d():
    at = [(-1, 1, 0), (0, 2, 1), (4, 0, 2), (0, 3, 0)]
    return box(
        "UINT16", (6, 3, 4), None, at, offsets=[(0,), (2,), (1,), (0,)], im2col=((-1,), (-1,), 16, 12), interleave="16B"
    )


@case
def interleaved_im2col_4d():
    at = [(-1, -1, 1, 0), (1, 2, 0, 1), (0, 0, 2, 2)]
    offsets = [(1, 2), (0, 0), (2, 1)]
    return box(
        "FLOAT32", (7, 6, 3, 3), None, at, offsets=offsets, im2col=((-1, -1), (-1, -1), 8, 18), interleave="32B", swizzle="64B",
        element_strides=[2, 1, 1, 1],
    )  # fmt: skip


@case
def interleaved_store():
    at = [(4, 3, 1, 1), (0, 0, 2, 2)]
    return box(
        "UINT16",
        (8, 5, 3, 4),
        (8, 3, 1, 2),
        at,
        store=True,
        interleave="32B",
        swizzle="32B",
        element_strides=[2, 1, 1, 1],
    )


@case
def interleaved_reduce():
    return box("UINT32", (8, 3, 4), (8, 1, 2), [(2, 1, 1), (2, 1, 2)], op="add", interleave="16B", swizzle="64B")


@case
def bulk_reduce():
    size, rng = 128, np.random.default_rng(6)
    kinds = list(boxes_ptx.bulk_reductions())
    parts = [[], []]
    half = np.array(
        [
            0,
            0x8000,
            1,
            0x8001,
            0x3FF,
            0x400,
            0x7BFF,
            0xFBFF,
            0x7C00,
            0xFC00,
            0x7E00,
            0x7C01,
            0x3C00,
            0x1400,
            0x0200,
            0x83FF,
        ],
        np.uint16,
    )
    for _, name in kinds:
        for part in parts:
            raw = rng.integers(0, 256, size, np.uint16).astype(np.uint8)
            if name in ("f16", "bf16"):
                raw[:64] = rng.permutation(np.r_[half, half]).view(np.uint8)
            elif name == "f32":
                raw = rng.permutation(SPECIAL).view(np.uint8)
            elif name == "f64":
                raw = rng.permutation(SPECIAL)[:16].astype(np.float64).view(np.uint8)
            part.append(raw)
    return {
        "ptx": boxes_ptx.bulk_reduce_kernel(size), "entry": "reduce", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"source": source("u8", np.concatenate(parts[0])), "target": changed("u8", np.concatenate(parts[1]))},
        "params": [ptr("source"), ptr("target")],
    }  # fmt: skip


@case
def im2col_3d():
    return box(
        "FLOAT16",
        (24, 10, 4),
        None,
        [(0, -1, 0), (8, 3, 1), (16, 7, 2)],
        offsets=[(0,), (2,), (1,)],
        im2col=((-1,), (-1,), 16, 12),
    )


@case
def im2col_4d():
    at = [(0, -1, -1, 0), (8, 2, 3, 1), (0, 5, 4, 2), (16, 0, 0, 3)]
    return box(
        "FLOAT16",
        (24, 8, 7, 4),
        None,
        at,
        offsets=[(0, 0), (2, 1), (1, 2), (2, 2)],
        im2col=((-1, -1), (-1, -1), 16, 20),
    )


@case
def im2col_4d_steps():
    at = [(0, -1, -1, 0), (16, 1, 3, 1)]
    return box(
        "UINT8",
        (32, 9, 9, 3),
        None,
        at,
        offsets=[(0, 0), (2, 1)],
        im2col=((-1, -1), (-1, -1), 16, 18),
        element_strides=[1, 2, 2, 1],
    )


@case
def im2col_5d():
    at = [(0, -1, -1, -1, 0), (16, 2, 1, 0, 1)]
    return box(
        "FLOAT32",
        (20, 5, 4, 4, 2),
        None,
        at,
        offsets=[(0, 0, 0), (2, 1, 2)],
        im2col=((-1, -1, -1), (-1, -1, -1), 8, 30),
        swizzle="32B",
    )


@case
def im2col_within_steps():
    at = [(0, 4, 0, 0), (16, 0, 5, 1), (0, 5, 6, 0)]
    offsets = [(0, 0), (1, 2), (0, 1)]
    return box(
        "UINT8",
        (32, 9, 9, 3),
        None,
        at,
        offsets=offsets,
        im2col=((-1, -1), (-1, -1), 16, 20),
        element_strides=[1, 2, 3, 1],
    )


@case
def im2col_offsets():
    at, offsets = [(0, 0, 0, 0, 0)] * 4, [(0, 1, 31), (33, 0, 2), (2, 64, 1), (1, 2, 0xFFE0)]
    return box("UINT16", (8, 5, 4, 3, 2), None, at, offsets=offsets, im2col=((-1, -1, -1), (-1, -1, -1), 8, 24))


@case
def im2col_nan():
    at = [(0, -1, 0), (8, 3, 2)]
    return box(
        "FLOAT16",
        (16, 6, 3),
        None,
        at,
        offsets=[(0,), (300,)],
        im2col=((-1,), (-1,), 8, 14),
        fill="nan_request_zero_fma",
    )


@case
def im2col_inner():
    at = [(0, -2, 1, 0), (-8, 0, 1, 1)]
    return box(
        "UINT16", (16, 5, 4, 3), None, at, offsets=[(1, 0), (0, 255)], im2col=((-2, 1), (1, -2), 16, 20), swizzle="64B"
    )


@case
def im2col_store():
    return box("UINT32", (8, 8, 7, 4), None, [(0, 0, 0, 0), (4, 2, 3, 2)], store=True, im2col=((0, 0), (0, 0), 4, 20))


# ---- CUDA's own library ---------------------------------------------------------------------------


def by_library(entry, grid, block, buffers, params, **more):
    """The parts of a case of library.cu."""
    return {
        "source": "library",
        "entry": entry,
        "grid": grid,
        "block": block,
        "buffers": buffers,
        "params": params,
        **more,
    }


@case
def library_bulk():
    data = np.random.default_rng(1).integers(-1000, 1000, 4 * 1024)
    offset = {"kind": "scalar", "dtype": "u64", "value": 1024}
    return by_library("bulk_add_one", (3, 1, 1), (128, 1, 1), {"data": changed("s32", data)}, [ptr("data"), offset])


@case
def library_tensors():
    values = np.random.default_rng(2).integers(-1000, 1000, (40, 72))
    buffers = {"in": source("s32", values), "out": result("s32", 40, 72)}
    maps = [tensor_map(name, "INT32", (72, 40), (32, 16)) for name in buffers]
    return by_library("tensor_negate", (3, 3, 1), (96, 1, 1), buffers, maps)


@case
def library_roles():
    buffers = {"in": source("f32", random(2, 7, 128)), "out": result("f32", 2, 128)}
    return by_library("pipeline_roles", (2, 1, 1), (160, 1, 1), buffers, [ptr("in"), ptr("out"), i32(7)])


@case
def library_groups():
    values = np.random.default_rng(3).integers(-1000, 1000, (2, 5, 128))
    buffers = {"in": source("s32", values), "out": result("s32", 2, 128, 2)}
    return by_library("group_copies", (2, 1, 1), (128, 1, 1), buffers, [ptr("in"), ptr("out"), i32(5)])


@case
def library_histogram():
    values = np.random.default_rng(4).normal(50, 30, 3000).astype(int)
    buffers = {"bins": changed("s32", np.zeros(100)), "in": source("s32", values)}
    params = [ptr("bins"), i32(100), i32(25), ptr("in"), i32(3000)]
    return by_library("cluster_histogram", (8, 1, 1), (128, 1, 1), buffers, params, cluster=(4, 1, 1), dynamic_smem=100)


@case
def library_cluster():
    buffers = {"out": result("u32", 8, 40)}
    return by_library("cluster_exchange", (4, 2, 1), (32, 1, 1), buffers, [ptr("out")], cluster=(2, 2, 1))


@case
def library_edited_map():
    rows = 9
    values = np.random.default_rng(5).integers(-1000, 1000, (3, rows, 16))
    buffers = {"maps": result("u8", 3, 128), "data": source("s32", values), "out": result("s32", 3, 8, 16)}
    params = [tensor_map("data", "INT32", (16, rows), (16, 4)), ptr("maps"), ptr("data"), ptr("out"), i32(rows)]
    return by_library("edited_map", (3, 1, 1), (64, 1, 1), buffers, params, unchecked=("maps",))


# ---- forms one after the other --------------------------------------------------------------------


def forms(text, words, *, inputs=None, **more):
    """A case of a kernel of `async_ptx`: ``words`` of output in each row."""
    buffers = {"out": result("u32", *words)} | ({"in": source("u32", inputs)} if inputs is not None else {})
    return {
        "ptx": text,
        "by": "async_ptx.py",
        "entry": "forms",
        "buffers": buffers,
        "params": [ptr(b) for b in buffers],
        **more,
    }


@case
def mbarrier_forms():
    text, n = async_ptx.mbarrier_forms()
    return forms(text, (n,), grid=(1, 1, 1), block=(32, 1, 1))


@case
def elected():
    text, n = async_ptx.elected()
    return forms(text, (64, n), grid=(1, 1, 1), block=(64, 1, 1))


@case
def cluster_forms():
    text, n = async_ptx.cluster_forms()
    inputs = np.random.default_rng(2).integers(0, 1 << 32, (8, 512), np.uint32)
    return forms(text, (8, n), inputs=inputs, grid=(4, 2, 1), block=(32, 1, 1), cluster=(2, 2, 1))


@case
def cluster_multicast():
    text, n = async_ptx.multicast()
    inputs = np.random.default_rng(3).integers(0, 1 << 32, (8, 64), np.uint32)
    return forms(text, (8, n), inputs=inputs, grid=(8, 1, 1), block=(32, 1, 1), cluster=(4, 1, 1))


INCREASE = "setmaxnreg.inc.sync.aligned.u32 96;"


@case
def register_counts():
    text = async_ptx.register_counts(".maxnreg 64", INCREASE)
    return forms(text, (128,), grid=(3, 1, 1), block=(256, 1, 1))


@case
def register_counts_twice():
    down, up = "setmaxnreg.dec.sync.aligned.u32 32;", "setmaxnreg.inc.sync.aligned.u32 64;"
    first = f"{down} bar.sync 1, 128; {up} bar.sync 1, 128; {INCREASE}"
    text = async_ptx.register_counts(".maxntid 256 .minnctapersm 4", first)
    return forms(text, (128,), grid=(3, 1, 1), block=(256, 1, 1))


# ---- files ----------------------------------------------------------------------------------------


def write(folder, name):
    """One case directory."""
    parts = CASES[name]()
    if "ptx" in parts:
        text, about = parts["ptx"], {"origin": "written by hand", "source": parts.get("by", "boxes_ptx.py")}
    else:
        source_file = f"hopper/{parts['source']}.cu"
        text = one_kernel(nvcc(HERE / source_file, "-arch=sm_90a"), parts["entry"])
        about = {"origin": "nvcc 13.0", "source": source_file}
    write_case(Path(folder) / name, text, parts, {**about, "target": "sm_90a"})


if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        write(sys.argv[1], wanted)
