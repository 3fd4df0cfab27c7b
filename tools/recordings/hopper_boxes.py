# ruff: noqa: D103 (the name of a case says what it is)
"""Cases of one tensor copy each: boxes of every rank, direction, type and mode."""

import numpy as np

import boxes_ptx
from case_files import SIZES, changed, ptr, result, source
from hopper_parts import CASES, MAP_TYPES, UNITS, case, tensor_map

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
