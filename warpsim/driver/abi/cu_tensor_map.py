"""libcuda: tensor maps."""

from __future__ import annotations

import struct
from typing import Any

from warpsim.driver.abi.calls import call
from warpsim.driver.raw import bytes_at, put_bytes, row_at
from warpsim.driver.results import DriverError, Result
from warpsim.host.tensor_map import TensorMap, encoded
from warpsim.layout import tensor_map as layout

MODES = (
    ("interleave", layout.INTERLEAVES),
    ("swizzle", layout.SWIZZLES),
    ("l2_promotion", layout.PROMOTIONS),
    ("oob_fill", layout.FILLS),
)


def _word(words: tuple[str, ...], index: int, what: str) -> str:
    if index >= len(words):
        raise DriverError(Result.INVALID_VALUE, f"{what} {index}")
    return words[index]


def _ints(address: int, count: int, kind: str = "I") -> list[int]:
    return list(struct.unpack(f"<{count}{kind}", bytes_at(address, 4 * count))) if count else []


def _fields(
    data_type: int, rank: int, dims: int, strides: int, elements: int, modes: tuple[int, ...]
) -> dict[str, Any]:
    """The common part of both kinds of maps."""
    if not 1 <= rank <= 5:
        raise DriverError(Result.INVALID_VALUE, f"a tensor of {rank} dimensions")
    return {
        "data_type": _word(layout.DATA_TYPES, data_type, "data type"),
        "global_dim": row_at(dims, rank),
        "global_strides": row_at(strides, rank - 1),
        "element_strides": _ints(elements, rank),
        **{name: _word(words, mode, name) for (name, words), mode in zip(MODES, modes, strict=True)},
    }


@call("!OUUPOOOOUUUU", "cuTensorMapEncodeTiled")
def encode_tiled(
    out: int, data_type: int, rank: int, address: int, dims: int, strides: int, box: int, elements: int, *modes: int
) -> None:
    """Store a map of tiles."""
    fields = _fields(data_type, rank, dims, strides, elements, modes)
    put_bytes(out, TensorMap(address, box_dim=_ints(box, rank), **fields).encode(address))


@call("!OUUPOOOOUUOUUUU", "cuTensorMapEncodeIm2col")
def encode_im2col(
    out: int, data_type: int, rank: int, address: int, dims: int, strides: int, lower: int, upper: int, *rest: int
) -> None:
    """Store a map of image columns."""
    channels, pixels, elements, *modes = rest
    made = TensorMap.im2col(
        address,
        pixel_box_lower_corner=_ints(lower, max(rank - 2, 0), "i"),
        pixel_box_upper_corner=_ints(upper, max(rank - 2, 0), "i"),
        channels_per_pixel=channels,
        pixels_per_column=pixels,
        **_fields(data_type, rank, dims, strides, elements, tuple(modes)),
    )
    put_bytes(out, made.encode(address))


@call("!OO", "cuTensorMapReplaceAddress")
def replace_address(where: int, address: int) -> None:
    """Change the address in a map."""
    fields = layout.decode(bytes_at(where, layout.LAYOUT.itemsize))
    if fields is None:
        raise DriverError(Result.INVALID_VALUE, "the 128 bytes are not a tensor map")
    put_bytes(where, encoded(fields, address))
