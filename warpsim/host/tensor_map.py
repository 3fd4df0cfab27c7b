"""TensorMap: the arguments of cuTensorMapEncodeTiled, Im2col and Im2colWide, validated as the driver does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.host.arrays import DeviceArray, readable
from warpsim.host.options import elements, integer
from warpsim.layout import tensor_map as layout
from warpsim.numerics.arrays import Array

_BY_DTYPE = {name.lower(): name for name in layout.DATA_TYPES[: layout.DATA_TYPES.index("FLOAT32_FTZ")]}
"""The data types that arrays have, whose names are NumPy's in capitals."""
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
        self.array = readable(array)
        modes = (interleave, swizzle, l2_promotion, oob_fill)
        fields = _fields(self.array, array, data_type, global_dim, global_strides, element_strides, modes)
        self.fields = attrs.evolve(fields, box=_integers("box_dim", box_dim, fields.rank))
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
        modes = (interleave, swizzle, l2_promotion, oob_fill)
        lower, upper = pixel_box_lower_corner, pixel_box_upper_corner
        given = (data_type, global_dim, global_strides, element_strides, modes)
        return cls._of_pixels(array, given, layout.IM2COL, lower, upper, channels_per_pixel, pixels_per_column)

    @classmethod
    def im2col_wide(
        cls,
        array: Array | DeviceArray | int | None,
        *,
        data_type: str | None = None,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        pixel_box_lower_corner_width: int,
        pixel_box_upper_corner_width: int,
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        mode: str = "W",
        swizzle: str = "128B",
        l2_promotion: str = "none",
        oob_fill: str = "zero",
    ) -> TensorMap:
        """Describe an im2col view whose boxes extend along W alone (cuTensorMapEncodeIm2colWide), for copies of mode ``im2col::w``
        or, with mode ``W128``, ``im2col::w::128``."""
        modes = (interleave, swizzle, l2_promotion, oob_fill)
        others = [0] * (max(_rank(global_dim), 3) - 3)
        lower, upper = [pixel_box_lower_corner_width, *others], [pixel_box_upper_corner_width, *others]
        given = (data_type, global_dim, global_strides, element_strides, modes)
        kind = layout.IM2COL_W + _choice("mode", mode, layout.WIDE_MODES)
        return cls._of_pixels(array, given, kind, lower, upper, channels_per_pixel, pixels_per_column)

    @classmethod
    def _of_pixels(
        cls,
        array: Array | DeviceArray | int | None,
        given: tuple[Any, ...],
        kind: int,
        lower: Sequence[int],
        upper: Sequence[int],
        channels: int,
        pixels: int,
    ) -> TensorMap:
        if not 3 <= _rank(given[1]) <= 5:
            raise LaunchError(f"an im2col tensor map has 3 to 5 dimensions, not {len(given[1])}")
        new = cls.__new__(cls)
        new.array = readable(array)
        fields = _fields(new.array, array, *given)
        new.fields = attrs.evolve(
            fields,
            im2col=kind,
            lower=_integers("pixel_box_lower_corner", lower, fields.rank - 2),
            upper=_integers("pixel_box_upper_corner", upper, fields.rank - 2),
            channels=integer("channels_per_pixel", channels),
            pixels=integer("pixels_per_column", pixels),
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
    address = integer("the tensor's address", address, 0, 2**64 - 1)
    if address % (32 if fields.interleave == 2 or fields.padded else 16):
        raise LaunchError(
            f"the tensor's address 0x{address:x} is not a multiple of 16 (32 with interleave 32B, 16U4_ALIGN16B,"
            " 16U6_ALIGN16B)"
        )
    return layout.encode(attrs.evolve(fields, address=address))


def _fields(
    array: Array | DeviceArray | int | None,
    given: object,
    data_type: str | None,
    dims: Sequence[int],
    strides: Sequence[int],
    steps: Sequence[int] | None,
    modes: tuple[str, str, str, str],
) -> layout.Fields:
    """What all kinds of maps have, without a box."""
    rank = _rank(dims)
    interleave, swizzle, l2_promotion, oob_fill = modes
    return layout.Fields(
        data_type=_data_type(array, given, data_type),
        rank=rank,
        interleave=_choice("interleave", interleave, layout.INTERLEAVES),
        swizzle=_choice("swizzle", swizzle, layout.SWIZZLES[: layout.SWIZZLE_96B]),
        l2_promotion=_choice("l2_promotion", l2_promotion, layout.PROMOTIONS),
        oob_fill=_fill(oob_fill),
        address=0,
        dims=_integers("global_dim", dims, rank),
        strides=_integers("global_strides", strides, rank - 1),
        box=(),
        element_strides=_integers("element_strides", [1] * rank if steps is None else steps, rank),
    )


def _data_type(array: Array | DeviceArray | int | None, given: object, name: str | None) -> int:
    if name is None:
        dtype = getattr(array, "dtype", getattr(given, "dtype", None))
        name = _BY_DTYPE.get(str(dtype), "")
        if not name:
            raise LaunchError(f"give data_type: {shown(dtype)} has no corresponding tensor map data type")
    return _choice("data_type", name, layout.DATA_TYPES)


def _choice(what: str, word: object, words: tuple[str, ...]) -> int:
    given = word.upper() if isinstance(word, str) else ""
    for known in sorted(words, key=len, reverse=True):  # _128B_ATOM_32B ends in _32B, too
        if given == known.upper() or given.endswith("_" + known.upper()):
            return words.index(known)
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
