"""libcuda: cuTensorMapEncode."""

from __future__ import annotations

import struct

from warpsim.driver.abi.calls import call
from warpsim.driver.raw import bytes_at, get32, get64, put_bytes
from warpsim.driver.results import DriverError, Result
from warpsim.host.tensor_map import TensorMap, encoded
from warpsim.layout import tensor_map as layout


def _word(words: tuple[str, ...], index: int, what: str) -> str:
    if index >= len(words):
        raise DriverError(Result.INVALID_VALUE, f"{what} {index}")
    return words[index]


def _common(
    data_type: int,
    rank: int,
    dims: int,
    strides: int,
    elements: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> dict[str, object]:
    if not 1 <= rank <= 5:
        raise DriverError(Result.INVALID_VALUE, f"a tensor of {rank} dimensions")
    return {
        "data_type": _word(layout.DATA_TYPES, data_type, "data type"),
        "global_dim": [get64(dims + 8 * i) for i in range(rank)],
        "global_strides": [get64(strides + 8 * i) for i in range(rank - 1)],
        "element_strides": [get32(elements + 4 * i) for i in range(rank)],
        "interleave": _word(layout.INTERLEAVES, interleave, "interleave"),
        "swizzle": _word(layout.SWIZZLES, swizzle, "swizzle"),
        "l2_promotion": _word(layout.PROMOTIONS, promotion, "L2 promotion"),
        "oob_fill": _word(layout.FILLS, fill, "fill"),
    }


@call("!OUUPOOOOUUUU", "cuTensorMapEncodeTiled")
def encode_tiled(
    out: int,
    data_type: int,
    rank: int,
    address: int,
    dims: int,
    strides: int,
    box: int,
    elements: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> None:
    """cuTensorMapEncodeTiled."""
    common = _common(data_type, rank, dims, strides, elements, interleave, swizzle, promotion, fill)
    boxes = [get32(box + 4 * i) for i in range(rank)]
    put_bytes(out, TensorMap(address, box_dim=boxes, **common).encode(address))  # type: ignore[arg-type]


@call("!OUUPOOOOUUOUUUU", "cuTensorMapEncodeIm2col")
def encode_im2col(
    out: int,
    data_type: int,
    rank: int,
    address: int,
    dims: int,
    strides: int,
    lower: int,
    upper: int,
    channels: int,
    pixels: int,
    elements: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> None:
    """cuTensorMapEncodeIm2col."""
    common = _common(data_type, rank, dims, strides, elements, interleave, swizzle, promotion, fill)
    made = TensorMap.im2col(
        address,
        pixel_box_lower_corner=[_signed(lower + 4 * i) for i in range(rank - 2)],
        pixel_box_upper_corner=[_signed(upper + 4 * i) for i in range(rank - 2)],
        channels_per_pixel=channels,
        pixels_per_column=pixels,
        **common,  # type: ignore[arg-type]
    )
    put_bytes(out, made.encode(address))


def _signed(address: int) -> int:
    return int(struct.unpack("<i", struct.pack("<I", get32(address)))[0])


@call("!OO", "cuTensorMapReplaceAddress")
def replace_address(where: int, address: int) -> None:
    """cuTensorMapReplaceAddress: the same map for a tensor elsewhere."""
    fields = layout.decode(bytes_at(where, layout.LAYOUT.itemsize))
    if fields is None:
        raise DriverError(Result.INVALID_VALUE, "the 128 bytes are no tensor map")
    put_bytes(where, encoded(fields, address))
