"""Texture: arrays that a kernel reads through a texture, or reads and writes through a surface."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.layout import textures as layout
from warpsim.numerics.arrays import Array

_BY_DTYPE = {f"{kind}int{bits}": f"{kind or 's'}{bits}" for kind in ("u", "") for bits in (8, 16, 32)} | {
    "float16": "f16",
    "float32": "f32",
}


_FILTERS = ("point", "linear")


class Texture:
    """A texture or surface object. Pass it for a 64-bit kernel parameter.

    ``array`` is C-contiguous, ``[x]``, ``[y, x]`` or ``[z, y, x]`` by ``dims``, before these ``[layer]`` if ``layered`` and ``[face]`` (six) if
    ``cube``, and behind them ``[channel]`` (1, 2 or 4) if ``channels`` is given; a list of arrays are the levels of a mipmap.
    Elements are u8, u16, u32, i8, i16, i32, f16 or f32. Surface stores change the array.

    Args:
        filter: ``point`` or ``linear``.
        address: ``clamp``, ``wrap``, ``mirror`` or ``border``, one for all axes or one each.
        normalized: Coordinates are from 0 to 1.
        integer: Integers are read as integers; else those of 8 and 16 bits as fractions.
        border: The colour outside.
        srgb: Bytes that are read as fractions are in sRGB, but for the last of two or four channels.
        seamless: Linear filtering of cubes goes across edges.
        anisotropy: The most samples along the longer gradient, 1 to 16.
        buffer: Linear memory of one dimension, which integer coordinates read.
        samples: Each element has so many samples, the array's axis before the channels.
        mip_filter, mip_bias, mip_levels: Of levels of detail: the filter, what is added, the least and the most.

    Raises:
        LaunchError: an array or an option that no texture has.
    """

    def __init__(
        self,
        array: Array | Sequence[Array],
        *,
        dims: int = 2,
        channels: int | None = None,
        layered: bool = False,
        cube: bool = False,
        filter: str = "point",
        address: str | Sequence[str] = "clamp",
        normalized: bool = False,
        integer: bool = False,
        border: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        srgb: bool = False,
        seamless: bool = False,
        anisotropy: int = 1,
        buffer: bool = False,
        samples: int = 0,
        mip_filter: str = "point",
        mip_bias: float = 0.0,
        mip_levels: tuple[float, float] | None = None,
    ) -> None:
        self.arrays = _checked(array)
        first, rank, outer = self.arrays[0], 2 if cube else dims, layered + cube
        axes = _axes(rank, layered, cube, samples, channels)
        if rank not in (1, 2, 3) or first.ndim != len(axes):
            raise LaunchError(f"the array has the shape {first.shape}; {', '.join(axes)} are asked for")
        if (samples and not 1 <= samples <= 16) or (samples and first.shape[outer + rank] != samples):
            raise LaunchError(f"the array has the shape {first.shape}; it has no axis of {samples} samples, of 1 to 16")
        if not 1 <= anisotropy <= 16:
            raise LaunchError(f"anisotropy is {anisotropy}, not 1 to 16")
        if channels not in (None, 1, 2, 4) or (channels is not None and first.shape[-1] != channels):
            raise LaunchError(
                f"the array has the shape {first.shape}; its last axis are 1, 2 or 4 channels, not {channels}"
            )
        if cube and first.shape[layered] != 6:
            raise LaunchError(f"a cube has six faces; the array has the shape {first.shape}")
        least, most = mip_levels or (0.0, float(len(self.arrays)))
        x, y, z, *_ = (*first.shape[outer : outer + rank][::-1], 1, 1)
        red, green, blue, alpha = (float(part) for part in (*border, 0, 0, 0, 0)[:4])
        self.fields = layout.Fields(
            rank=rank,
            size=(x, y, z),
            format=_BY_DTYPE[first.dtype.name],
            channels=channels or 1,
            layers=first.shape[0] if layered else 0,
            faces=6 if cube else 0,
            address=_modes(address),
            linear=_choice(filter, _FILTERS) == "linear",
            mip_linear=_choice(mip_filter, _FILTERS) == "linear",
            integer=integer,
            normalized=normalized,
            srgb=srgb,
            seamless=seamless,
            anisotropy=anisotropy,
            buffer=buffer,
            samples=samples,
            bias=mip_bias,
            least=least,
            most=most,
            border=(red, green, blue, alpha),
        )
        for number, one in enumerate(self.arrays):
            inner = self.fields.extents(number)[:rank][::-1]
            wanted = (*first.shape[:outer], *inner, *first.shape[outer + rank :])
            if one.shape != wanted or one.dtype != first.dtype:
                raise LaunchError(f"level {number} is {one.shape} of {one.dtype}; it must be {wanted} of {first.dtype}")
        self.block = np.zeros(layout.BLOCK.itemsize, np.uint8)
        """The object in memory; its address is the handle."""

    def encode(self, addresses: Sequence[int]) -> Array:
        """Fill the block in with the addresses of the levels."""
        self.block[:] = np.frombuffer(attrs.evolve(self.fields, levels=tuple(addresses)).encode(), np.uint8)
        return self.block

    def __repr__(self) -> str:
        fields = self.fields
        extents = "x".join(map(str, fields.size[: fields.rank]))
        return f"Texture({extents}, {fields.format}x{fields.channels}, {len(self.arrays)} level{'s' * (len(self.arrays) > 1)})"


def _checked(array: Array | Sequence[Array]) -> tuple[Array, ...]:
    """The levels' arrays."""
    arrays = tuple(array) if isinstance(array, (list, tuple)) else (array,)
    if not 1 <= len(arrays) <= layout.MOST_LEVELS:
        raise LaunchError(f"a texture has 1 to {layout.MOST_LEVELS} levels, not {len(arrays)}")
    for one in arrays:
        if not isinstance(one, np.ndarray) or not one.flags.c_contiguous or one.size == 0:
            raise LaunchError(f"a texture takes C-contiguous arrays that are not empty, not {shown(one)}")
        if one.dtype.name not in _BY_DTYPE:
            raise LaunchError(f"a texture has elements of {', '.join(_BY_DTYPE)}, not {one.dtype}")
    return arrays


def _axes(rank: int, layered: bool, cube: bool, samples: int, channels: int | None) -> list[str]:  # noqa: FBT001
    """The axes that options ask for, in words."""
    outer, inner = ["layers"] * layered + ["faces"] * cube, ["samples"] * (samples > 0)
    return [*outer, *["z", "y", "x"][-rank:], *inner, *["channels"] * (channels is not None)]


def _choice(word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise LaunchError(f"{shown(word)} is none of {', '.join(known)}")
    return word


def _modes(address: str | Sequence[str]) -> tuple[str, str, str]:
    """The address mode of each axis."""
    given = (address,) * 3 if isinstance(address, str) else (*address, *("clamp",) * 3)[:3]
    x, y, z = (_choice(mode, layout.ADDRESS_MODES) for mode in given)
    return x, y, z
