"""Argument sets of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, on both sides of every limit.

tensor_map_arguments.py OUT.json        on a machine with a GPU: asks the driver, and writes the sets with its verdicts
"""

import ctypes as C
import json
import random
import sys

TYPES = [
    "UINT8",
    "UINT16",
    "UINT32",
    "INT32",
    "UINT64",
    "INT64",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "BFLOAT16",
    "FLOAT32_FTZ",
    "TFLOAT32",
    "TFLOAT32_FTZ",
]
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
INTERLEAVES, SWIZZLES = ("none", "16B", "32B"), ("none", "32B", "64B", "128B")
FILLS = ("zero", "nan")


def base(rng, rank, im2col):
    """A set that should be good."""
    kind = rng.randrange(len(TYPES))
    size = SIZES[kind]
    dims = [16 * rng.randrange(1, 9), *(rng.randrange(1, 40) for _ in range(rank - 1))]
    strides, at = [], dims[0] * size
    for extent in dims[1:]:
        at = -(-at // 32) * 32
        strides.append(at)
        at *= extent
    found = {
        "offset": 0, "data_type": TYPES[kind], "global_dim": dims, "global_strides": strides, "element_strides": [1] * rank,
        "interleave": "none", "swizzle": "none", "l2_promotion": "none", "oob_fill": "zero",
    }  # fmt: skip
    if im2col:
        found.update(
            pixel_box_lower_corner=[-1] * (rank - 2),
            pixel_box_upper_corner=[-1] * (rank - 2),
            channels_per_pixel=16,
            pixels_per_column=32,
        )
    else:
        found["box_dim"] = [16, *(rng.randrange(1, 9) for _ in range(rank - 1))]
    return found


def variants(rng, good, im2col):
    """The set with one thing changed, or two."""
    rank, size = len(good["global_dim"]), SIZES[TYPES.index(good["data_type"])]
    axis = rng.randrange(rank)

    def entry(name, index, value):
        return {name: [value if i == index else v for i, v in enumerate(good[name])]}

    yield {}
    for offset in (8, 16, 48):
        yield {"offset": offset}
    for value in (0, 1, 1 << 32, (1 << 32) + 1):
        yield entry("global_dim", axis, value)
    for value in (0, 8, 16, 24, good["global_dim"][0] * size - 16, 1 << 39, (1 << 40) - 16, 1 << 40):
        if rank > 1:
            yield entry("global_strides", rng.randrange(rank - 1), value)
    for value in (0, 2, 8, 9):
        yield entry("element_strides", axis, value)
        yield entry("element_strides", 0, value)
    for swizzle in SWIZZLES:
        yield {"swizzle": swizzle}
    for interleave in INTERLEAVES[1:]:
        for swizzle in SWIZZLES:
            yield {"interleave": interleave, "swizzle": swizzle}
        yield {"interleave": interleave, "swizzle": "none", "offset": 16}
    yield {"oob_fill": "nan"}
    yield {"l2_promotion": "256B"}
    if im2col:
        limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}.get(rank, 8)
        for value in (-limit - 1, -limit, limit - 1, limit):
            index = rng.randrange(max(rank - 2, 1))
            yield entry("pixel_box_lower_corner", index, value)
            yield entry("pixel_box_upper_corner", index, value)
        for value in (0, 1, 8, 15, 24, 32, 64, 128, 256, 257):
            yield {"channels_per_pixel": value}
            yield {"channels_per_pixel": value, "swizzle": rng.choice(SWIZZLES[1:])}
        for value in (0, 1, 1024, 1025):
            yield {"pixels_per_column": value}
    else:
        for value in (0, 1, 255, 256, 257):
            yield entry("box_dim", axis, value)
        for value in (1, 4, 8, 15, 32, 64, 128, 256):
            yield entry("box_dim", 0, value)
            yield {**entry("box_dim", 0, value), "swizzle": rng.choice(SWIZZLES[1:])}
            yield {**entry("box_dim", 0, value), "interleave": rng.choice(INTERLEAVES[1:])}
        yield {**entry("box_dim", rank - 1, 16), **entry("element_strides", rank - 1, 8)}
        yield {"box_dim": [min(b * 16, 256) for b in good["box_dim"]]}


def sets(seed=1):
    """All argument sets: ``{"mode": "tiled" or "im2col", "arguments": ...}``."""
    rng = random.Random(seed)
    found, seen = [], set()
    for im2col, ranks in ((False, (1, 2, 3, 4, 5)), (True, (3, 4, 5))):
        for rank in ranks:
            good = base(rng, rank, im2col)
            for change in variants(rng, good, im2col):
                one = {"mode": "im2col" if im2col else "tiled", "arguments": {**good, **change}}
                if (key := json.dumps(one)) not in seen:
                    seen.add(key)
                    found.append(one)
    return found


def ask(cu, address, one):
    """The driver's status for a set."""
    a, out = one["arguments"], C.create_string_buffer(256)
    to = (C.addressof(out) + 63) & ~63
    rank = len(a["global_dim"])
    common = (
        C.c_void_p(to),
        TYPES.index(a["data_type"]),
        rank,
        C.c_void_p(address + a["offset"]),
        (C.c_uint64 * rank)(*a["global_dim"]),
        (C.c_uint64 * max(1, rank - 1))(*a["global_strides"]),
    )
    last = (
        (C.c_uint32 * rank)(*a["element_strides"]),
        INTERLEAVES.index(a["interleave"]),
        SWIZZLES.index(a["swizzle"]),
        ("none", "64B", "128B", "256B").index(a["l2_promotion"]),
        FILLS.index(a["oob_fill"]),
    )
    if one["mode"] == "tiled":
        return cu.cuTensorMapEncodeTiled(*common, (C.c_uint32 * rank)(*a["box_dim"]), *last)
    corners = [(C.c_int * max(1, rank - 2))(*a[f"pixel_box_{c}_corner"]) for c in ("lower", "upper")]
    return cu.cuTensorMapEncodeIm2col(*common, *corners, a["channels_per_pixel"], a["pixels_per_column"], *last)


if __name__ == "__main__":
    cu = C.CDLL("libcuda.so.1")
    device, context, address = C.c_int(), C.c_void_p(), C.c_uint64()
    for status in (
        cu.cuInit(0),
        cu.cuDeviceGet(C.byref(device), 0),
        cu.cuDevicePrimaryCtxRetain(C.byref(context), device),
        cu.cuCtxSetCurrent(context),
        cu.cuMemAlloc_v2(C.byref(address), 1 << 20),
    ):
        assert status == 0, status
    answers = [{**one, "accepted": ask(cu, address.value, one) == 0} for one in sets()]
    with open(sys.argv[1], "w") as file:
        json.dump(answers, file)
