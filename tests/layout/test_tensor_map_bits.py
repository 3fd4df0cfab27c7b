"""The bits of tensor maps, as an H200's driver writes them and tensormap.replace changes them
(tools/recordings/tensor_map_bits.py)."""

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.layout.tensor_map import DATA_TYPES, SWIZZLES, Fields, decode, encode, first_gpu, in_parts, problem

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "tensor_map_bits_h200.json.gz").read_bytes())
)
STARTS = {"ones": "ff" * 64, "map": RECORDED["map"]}


def fields_of(kind, arguments):
    """The fields that the driver was given."""
    data_type, address, dims, strides, *shape, steps, interleave, swizzle, promotion, fill = arguments
    box, pixels = (tuple(shape[0]), {}) if kind == "tiled" else ((), {"im2col": 1})
    if pixels:
        lower, upper, channels, count = shape
        pixels |= {"lower": tuple(lower), "upper": tuple(upper), "channels": channels, "pixels": count}
    return Fields(
        data_type, len(dims), interleave, swizzle, fill, address, tuple(dims), tuple(strides), box, tuple(steps),
        l2_promotion=promotion, **pixels,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["tiled", "im2col"])
def test_maps_of_the_driver(kind):
    """They are read, and written, bit for bit."""
    wrong = []
    for arguments, bits in RECORDED[kind]:
        fields = fields_of(kind, arguments)
        if decode(bytes.fromhex(bits) + bytes(64)) != fields or encode(fields)[:64].hex() != bits:
            wrong.append(arguments)

    assert len(RECORDED[kind]) >= 200
    assert wrong == []


KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 value)
{
.reg .b64 %m, %v; .reg .b32 %w;
ld.param.u64 %m, [map]; ld.param.u64 %v, [value]; cvt.u32.u64 %w, %v;
REPLACE
ret;
}
"""
WIDE = ("global_address", "global_stride")


def test_fields_that_a_kernel_replaces():
    """tensormap.replace changes the bits that it does on a GPU, of a map and of ones; ``order`` is that of the dimension."""
    wrong = []
    for field, value, order, start, bits in RECORDED["replace"]:
        number = "" if order is None else f"{order}, "
        given = "%v" if field in WIDE else "%w" if order is not None or field == "rank" else str(value)
        kind = "b64" if field in WIDE else "b32"
        line = f"tensormap.replace.tile.{field}.global.b1024.{kind} [%m], {number}{given};"
        raw = np.frombuffer(bytearray.fromhex(STARTS[start] + "00" * 64), np.uint8)
        warpsim.load(KERNEL.replace("REPLACE", line))["k"](1, 1, (raw, value))
        found = raw[:64].tobytes().hex()
        if found != bits:
            wrong.append((line, value, start, found, bits))

    assert len(RECORDED["replace"]) >= 100
    assert wrong == []


@pytest.mark.parametrize(
    ("target", "given", "mask", "bits"),
    [
        ("sm_100a", ".swizzle_atomicity 2", 0x380000, 0x100000),
        ("sm_103a", ".swizzle_mode 4", 0x406000, 0x400000),
        ("sm_100a", ".elemtype 15", 0x780, 0x680),
    ],
)
def test_fields_of_later_gpus(target, given, mask, bits):
    """In the word at byte 8, ``mask`` is cleared and ``bits`` are set, as by the machine code that ptxas 13.0 makes."""
    field, value = given.split()
    text = KERNEL.replace("8.3", "9.0").replace("sm_90a", target)
    raw = np.full(128, 0xFF, np.uint8)
    line = f"tensormap.replace.tile{field}.global.b1024.b32 [%m], {value};"
    warpsim.load(text.replace("REPLACE", line))["k"](1, 1, (raw, 0))

    changed = np.full(32, 0xFFFFFFFF, np.uint32)
    changed[2] ^= mask ^ bits
    assert raw.view(np.uint32).tolist() == changed.tolist()


LOAD = """000000007f000000 2263040010000000 0010000000000000 0000000000000000
7f000000ff000000 0000000000000000 000000000000003f 7f00000000000000"""
STORE = """000002007f000000 2243240020000000 0020000000000000 0000000000000000
ff000000ff000000 0000000000000000 000000000000001f 3f00000000000000"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (LOAD, (0x7F00000000, (128, 256, 1), (256, 65536), (64, 128, 1), "128B")),
        (STORE, (0x7F00020000, (256, 256, 1), (512, 131072), (32, 64, 1), "64B")),
    ],
)
def test_maps_of_a_client(words, expected):
    """CuTe DSL 4.8 writes maps itself, here of its Hopper product of 256 x 256 x 128 in f16; what lay in the last 64 bytes
    stays there."""
    found = decode(bytes.fromhex(words) + bytes(range(64)))

    assert (found.address, found.dims, found.strides, found.box, SWIZZLES[found.swizzle]) == expected
    assert (DATA_TYPES[found.data_type], found.element_strides) == ("FLOAT16", (1, 1, 1))


@pytest.mark.parametrize(("name", "parts"), [("16U4_ALIGN8B", 64), ("16U6_ALIGN16B", 24)])
def test_packed_elements_of_pixels(name, parts):
    """A map of pixels of 128 packed elements comes back from its bits as one of the bytes or words that these fill."""
    wide = {"global_dim": [128, 8, 8], "global_strides": [96, 768]}
    corners = {"pixel_box_lower_corner": [0], "pixel_box_upper_corner": [0]}
    made = warpsim.TensorMap.im2col(
        0x7F00000000, data_type=name, **wide, **corners, channels_per_pixel=128, pixels_per_column=4
    )
    found = decode(bytes(made))

    assert (found.channels, found.pixels, DATA_TYPES[found.data_type]) == (128, 4, name)
    assert in_parts(found).channels == parts


def test_any_bytes():
    """Whatever lies where a map should be, it is no map, or one that is judged."""
    rng = random.Random(5)
    verdicts = set()
    for _ in range(2000):
        raw = bytearray(rng.randbytes(128) if rng.random() < 0.2 else 128)
        for _ in range(rng.randrange(8)):
            raw[rng.randrange(64)] = rng.randrange(256)
        fields = decode(bytes(raw))
        verdicts.add(fields and (problem(fields) or first_gpu(fields)))

    assert None in verdicts
    assert len(verdicts) > 10
