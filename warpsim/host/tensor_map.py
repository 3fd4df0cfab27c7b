"""TensorMap: the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, validated as the driver does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.host.arrays import DeviceArray, readable
from warpsim.host.options import elements, integer
from warpsim.layout import tensor_map as layout
from warpsim.numerics.arrays import Array

_BY_DTYPE = {
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "int32": "INT32",
    "uint64": "UINT64",
    "int64": "INT64",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bfloat16": "BFLOAT16",
}
_FILL_NAMES = {"none": "zero", "nan_request_zero_fma": "nan"}
"""Short names for fill modes, and the ends of the driver's names."""


class TensorMap:
    """A description of a tensor in global memory for bulk tensor copies (TMA). Pass it for a 128-byte kernel parameter.

    ``array`` is whatever a launch takes as an array, or an address. Dimension 0 is the innermost; strides are in bytes,
    for dimensions 1 and up. Raises `LaunchError` for arguments that the driver rejects.
    """

    def __init__(
        self,
        array: Array | DeviceArray | int | None,
        *,
        data_type: str | None = None,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        box_dim: Sequence[int],
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        swizzle: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zero",
    ) -> None:
        rank = _rank(global_dim)
        self.array = readable(array)
        self.fields = layout.Fields(
            data_type=_data_type(self.array, array, data_type),
            rank=rank,
            interleave=_choice("interleave", interleave, layout.INTERLEAVES),
            swizzle=_choice("swizzle", swizzle, layout.SWIZZLES),
            l2_promotion=_choice("l2_promotion", l2_promotion, layout.PROMOTIONS),
            oob_fill=_fill(oob_fill),
            address=0,
            dims=_integers("global_dim", global_dim, rank),
            strides=_integers("global_strides", global_strides, rank - 1),
            box=_integers("box_dim", box_dim, rank),
            element_strides=_integers(
                "element_strides", [1] * rank if element_strides is None else element_strides, rank
            ),
        )
        _check(self.fields)

    @classmethod
    def im2col(
        cls,
        array: Array | DeviceArray | int | None,
        *,
        data_type: str | None = None,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        pixel_box_lower_corner: Sequence[int],
        pixel_box_upper_corner: Sequence[int],
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        swizzle: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zero",
    ) -> TensorMap:
        """Describe an im2col view of a tensor with 3 to 5 dimensions (cuTensorMapEncodeIm2col)."""
        rank = _rank(global_dim)
        if not 3 <= rank <= 5:
            raise LaunchError(f"an im2col tensor map has 3 to 5 dimensions, not {rank}")
        new = cls.__new__(cls)
        new.array = readable(array)
        new.fields = layout.Fields(
            data_type=_data_type(new.array, array, data_type),
            rank=rank,
            interleave=_choice("interleave", interleave, layout.INTERLEAVES),
            swizzle=_choice("swizzle", swizzle, layout.SWIZZLES),
            l2_promotion=_choice("l2_promotion", l2_promotion, layout.PROMOTIONS),
            oob_fill=_fill(oob_fill),
            address=0,
            dims=_integers("global_dim", global_dim, rank),
            strides=_integers("global_strides", global_strides, rank - 1),
            box=(),
            element_strides=_integers(
                "element_strides", [1] * rank if element_strides is None else element_strides, rank
            ),
            im2col=True,
            lower=_integers("pixel_box_lower_corner", pixel_box_lower_corner, rank - 2),
            upper=_integers("pixel_box_upper_corner", pixel_box_upper_corner, rank - 2),
            channels=integer("channels_per_pixel", channels_per_pixel),
            pixels=integer("pixels_per_column", pixels_per_column),
        )
        _check(new.fields)
        return new

    def encode(self, address: int) -> bytes:
        """Encode the map as 128 bytes, for a tensor at a global address."""
        return encoded(self.fields, address)

    def __bytes__(self) -> bytes:
        """The 128 bytes, for device memory. The tensor must be an address or live on a device."""
        address = getattr(self.array, "ptr", self.array)
        if isinstance(address, np.ndarray):
            raise LaunchError("a host array has no device address outside a launch; map it or copy it to the device")
        return self.encode(address)


def encoded(fields: layout.Fields, address: int) -> bytes:
    """The 128 bytes of a map for a tensor at a global address."""
    import attrs

    address = integer("the tensor's address", address, 0, 2**64 - 1)
    if address % (32 if fields.interleave == 2 or fields.padded else 16):
        raise LaunchError(
            f"the tensor's address 0x{address:x} is not a multiple of 16 (32 with interleave 32B, 16U4_ALIGN16B,"
            " 16U6_ALIGN16B)"
        )
    return layout.encode(attrs.evolve(fields, address=address))


def _data_type(array: Array | DeviceArray | int | None, given: object, name: str | None) -> int:
    if name is None:
        dtype = getattr(array, "dtype", getattr(given, "dtype", None))
        name = _BY_DTYPE.get(str(dtype), "")
        if not name:
            raise LaunchError(f"give data_type: {shown(dtype)} has no corresponding tensor map data type")
    return _choice("data_type", name, layout.DATA_TYPES)


def _choice(what: str, word: Any, words: tuple[str, ...]) -> int:
    for index, known in enumerate(words if isinstance(word, str) else ()):
        if word.upper() == known.upper() or word.upper().endswith("_" + known.upper()):
            return index
    raise LaunchError(f"{what} must be one of {', '.join(words)}, not {shown(word)}")


def _fill(word: object) -> int:
    return _choice("oob_fill", _FILL_NAMES.get(word, word) if isinstance(word, str) else word, layout.FILLS)


def _rank(values: Sequence[int]) -> int:
    try:
        rank = len(values)
    except Exception:  # whatever an object of the caller's raises
        raise LaunchError(f"global_dim must be a sequence of integers, not {shown(values)}") from None
    if not 1 <= rank <= 5:
        raise LaunchError(f"a tensor map has 1 to 5 dimensions, not {rank}")
    return rank


def _integers(what: str, values: Sequence[int], count: int) -> tuple[int, ...]:
    found = tuple(integer(f"{what}[{i}]", v, -(2**31)) for i, v in enumerate(elements(values, count + 1)))
    if len(found) != count:
        raise LaunchError(f"{what} needs {count} integers here, not {shown(values)}")
    return found


def _check(fields: layout.Fields) -> None:
    found = layout.problem(fields)
    if found:
        raise LaunchError(found)
