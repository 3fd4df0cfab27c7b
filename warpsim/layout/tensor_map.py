"""Tensor maps: the 128 bytes of this simulator's own encoding, and the elements of a box.

The bytes are opaque, as on a GPU; `tensormap.replace` edits them through the offsets below.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MAGIC = 0x5754_4D31
LAYOUT = np.dtype(
    {
        "names": [
            "magic",
            "data_type",
            "rank",
            "interleave",
            "swizzle",
            "l2_promotion",
            "oob_fill",
            "im2col",
            "address",
            "dims",
            "element_strides",
            "box",
            "strides",
            "lower",
            "upper",
            "channels",
            "pixels",
        ],
        "formats": [
            "u4",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "u8",
            "5u4",
            "5u4",
            "5u2",
            "4u8",
            "3i2",
            "3i2",
            "u2",
            "u2",
        ],
        "offsets": [0, 4, 5, 6, 7, 8, 9, 10, 16, 24, 44, 64, 74 + 6, 112, 118, 124, 126],
        "itemsize": 128,
    }
)
DATA_TYPES = (
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
)
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B")
PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")
_NAN = {6: 0x7FFF, 7: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF, 9: 0x7FFF, 10: 0x7FFFFFFF, 11: 0x7FFFFFFF, 12: 0x7FFFFFFF}


@attrs.frozen
class Fields:
    """A decoded map; strides in bytes for dimensions 1 and up."""

    data_type: int
    rank: int
    interleave: int
    swizzle: int
    oob_fill: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    im2col: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    l2_promotion: int = 0

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return SIZES[self.data_type]

    @property
    def fill(self) -> int:
        """The bits of an element outside the tensor."""
        return _NAN.get(self.data_type, 0) if self.oob_fill else 0


def encode(fields: Fields) -> bytes:
    """The 128 bytes of a map."""
    out = np.zeros(1, LAYOUT)
    row = out[0]
    row["magic"] = MAGIC
    for name in ("data_type", "rank", "interleave", "swizzle", "l2_promotion", "oob_fill", "im2col", "address"):
        row[name] = getattr(fields, name)
    row["channels"], row["pixels"] = fields.channels, fields.pixels
    for name in ("dims", "element_strides", "box", "strides", "lower", "upper"):
        values = getattr(fields, name)
        row[name][: len(values)] = values
    return out.tobytes()


def decode(raw: bytes) -> Fields | None:
    """A map from its bytes; None where they are none."""
    row = np.frombuffer(raw, LAYOUT)[0]
    rank = int(row["rank"])
    if row["magic"] != MAGIC or not 1 <= rank <= 5 or row["data_type"] >= len(SIZES):
        return None
    spatial = max(rank - 2, 0)
    return Fields(
        data_type=int(row["data_type"]),
        rank=rank,
        interleave=int(row["interleave"]),
        swizzle=int(row["swizzle"]),
        oob_fill=int(row["oob_fill"]),
        address=int(row["address"]),
        dims=tuple(int(v) for v in row["dims"][:rank]),
        strides=tuple(int(v) for v in row["strides"][: rank - 1]),
        box=tuple(int(v) for v in row["box"][:rank]),
        element_strides=tuple(int(v) for v in row["element_strides"][:rank]),
        im2col=bool(row["im2col"]),
        lower=tuple(int(v) for v in row["lower"][:spatial]),
        upper=tuple(int(v) for v in row["upper"][:spatial]),
        channels=int(row["channels"]),
        pixels=int(row["pixels"]),
        l2_promotion=int(row["l2_promotion"]),
    )


def tile_elements(fields: Fields, coordinates: tuple[int, ...]) -> tuple[Array, Array]:
    """Of every element of a box, dimension 0 innermost: its byte offset in the tensor (int64), and whether it is inside."""
    offset: Array = np.zeros((1,) * fields.rank, np.int64)
    inside: Array = np.ones((1,) * fields.rank, np.bool_)
    for axis in range(fields.rank):
        step = fields.element_strides[axis]
        count = -(-fields.box[axis] // step)
        place = coordinates[axis] + step * np.arange(count, dtype=np.int64)
        shape = [1] * fields.rank
        shape[fields.rank - 1 - axis] = count
        stride = fields.strides[axis - 1] if axis else fields.itemsize
        offset = offset + (place * stride).reshape(shape)
        inside = inside & ((place >= 0) & (place < fields.dims[axis])).reshape(shape)
    return offset.reshape(-1), np.broadcast_to(inside, offset.shape).reshape(-1)


def im2col_elements(fields: Fields, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> tuple[Array, Array]:
    """The same for im2col: ``pixels`` positions of the bounding box, ``channels`` elements each.

    ``coordinates`` are (c, w, [h, [d,]] n); ``offsets`` move the pixels inside the filter.
    """
    spatial = fields.rank - 2
    lows = [fields.lower[i] for i in range(spatial)]
    counts = []
    for i in range(spatial):
        step = fields.element_strides[i + 1]
        extent = fields.dims[i + 1] + fields.upper[i] - fields.lower[i]
        counts.append(max(-(-extent // step), 1))
    index = np.arange(fields.pixels, dtype=np.int64)
    places: list[Array] = []
    carry = index
    for i in range(spatial):
        step = fields.element_strides[i + 1]
        start = (coordinates[i + 1] - lows[i]) // step
        total = start + carry
        places.append(lows[i] + (coordinates[i + 1] - lows[i]) % step + (total % counts[i]) * step + offsets[i])
        carry = total // counts[i]
    batch = coordinates[-1] + carry
    channel = coordinates[0] + np.arange(fields.channels, dtype=np.int64)
    inside = (channel >= 0) & (channel < fields.dims[0])
    offset = channel * fields.itemsize
    row = batch * fields.strides[-1]
    good = (batch >= 0) & (batch < fields.dims[-1])
    for i, place in enumerate(places):
        row = row + place * fields.strides[i]
        good = good & (place >= 0) & (place < fields.dims[i + 1])
    return (row[:, None] + offset).reshape(-1), (good[:, None] & inside).reshape(-1)


def shared_offsets(fields: Fields, start: int, count: int) -> Array:
    """Shared addresses (bytes) of the ``count`` elements of a box that begins at ``start``, swizzled."""
    address = start + fields.itemsize * np.arange(count, dtype=np.int64)
    mask = (0, 1, 3, 7)[fields.swizzle]
    return address ^ ((address >> 7 & mask) << 4)
