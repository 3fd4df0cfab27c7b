"""Texture and surface objects: a block in memory that says where elements lie, what they are and how they are read.

The driver's own block is opaque; this one is ours. A handle is its address. Elements lie row by row, ``[z][y][x][channel]``, a
layer or a face after the other; each level has an address of its own.
"""

from __future__ import annotations

import functools

import numpy as np

from warpsim.numerics.arrays import Array
from warpsim.records import frozen

FORMATS = ("u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32")
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
MOST_LEVELS = 16
MAGIC = 0x5445585455524531
BLOCK = np.dtype(
    [
        ("magic", "<u8"),
        ("levels", "<u8", MOST_LEVELS),
        ("size", "<u4", 3),
        ("pitch", "<u4"),
        ("layers", "<u4"),
        ("n_levels", "<u4"),
        ("format", "u1"),
        ("channels", "u1"),
        ("rank", "u1"),
        ("faces", "u1"),
        ("address", "u1", 3),
        ("linear", "u1"),
        ("mip_linear", "u1"),
        ("integer", "u1"),
        ("normalized", "u1"),
        ("bias", "<f4"),
        ("least", "<f4"),
        ("most", "<f4"),
        ("border", "<f4", 4),
    ]
)


@frozen
class Fields:
    """What a texture is and how it is read.

    ``size`` counts the elements of level 0 along x, y and z; ``rank`` is the number of these axes. ``layers`` and ``faces`` are 0 where
    there are none. ``pitch`` is the distance of rows in bytes, 0 where they follow each other.
    """

    rank: int
    size: tuple[int, int, int]
    format: str
    channels: int
    layers: int = 0
    faces: int = 0
    pitch: int = 0
    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    linear: bool = False
    mip_linear: bool = False
    integer: bool = False
    normalized: bool = False
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    levels: tuple[int, ...] = ()
    """The address of each level."""

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return int(self.format[1:]) // 8 * self.channels

    def extents(self, level: int) -> tuple[int, int, int]:
        """Elements of a level along x, y and z."""
        x, y, z = (max(n >> level, 1) for n in self.size)
        return x, y, z

    def encode(self) -> bytes:
        """The block."""
        block = np.zeros((), BLOCK)
        block["magic"], block["n_levels"] = MAGIC, len(self.levels)
        block["levels"][: len(self.levels)] = self.levels
        block["format"] = FORMATS.index(self.format)
        block["address"] = [ADDRESS_MODES.index(mode) for mode in self.address]
        for name in _PLAIN:
            block[name] = getattr(self, name)
        return block.tobytes()


_PLAIN = tuple(name for name in BLOCK.names or () if name not in ("magic", "levels", "n_levels", "format", "address"))


@functools.lru_cache(maxsize=256)
def decode(raw: bytes) -> Fields | None:
    """The fields of a block; None if it is none."""
    block: Array = np.frombuffer(raw, BLOCK)[0]
    if int(block["magic"]) != MAGIC:
        return None
    plain = {name: block[name].tolist() for name in _PLAIN}
    plain.update({name: bool(plain[name]) for name in ("linear", "mip_linear", "integer", "normalized")})
    plain.update({name: tuple(plain[name]) for name in ("size", "border")})
    return Fields(
        **plain,
        format=FORMATS[int(block["format"])],
        address=tuple(ADDRESS_MODES[k] for k in block["address"].tolist()),  # type: ignore[arg-type]
        levels=tuple(block["levels"].tolist()[: int(block["n_levels"])]),
    )
