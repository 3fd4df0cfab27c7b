"""Texture, surface and sampler objects: a block in memory that says where elements lie, what they are and how they are read.

The driver's own block is opaque; this one is ours. A handle is its address; a variable of a module holds the block itself, and a
kernel's parameter of an opaque type its address. Elements lie row by row, ``[z][y][x][sample][channel]``, a layer or a face after the
other; each level has an address of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from warpsim.numerics.arrays import Array
from warpsim.records import frozen

KINDS = ("texref", "samplerref", "surfref")
"""What a block is, in PTX's words."""
FORMATS = ("u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32", "a2b10g10r10")
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
MOST_LEVELS = 16
MAGIC = 0x5445585455524531
HANDLE_STEP = 512
"""Bytes from one handle to the next; a block is smaller."""


@frozen
class Fields:
    """What a texture is and how it is read.

    ``size`` counts the elements of level 0 along x, y and z; ``rank`` is the number of these axes. ``layers`` and ``faces`` are 0 where
    there are none. ``pitch`` is the distance of rows in bytes, 0 where they follow each other, at multiples of ``row`` bytes.
    ``samples`` are those of an element (0: not multisampled), ``buffer`` is linear memory of one dimension, ``forced`` a sampler's
    force_unnormalized_coords, ``named`` a module's variable. ``fraction``: integers are fractions, whatever a reader asks for.
    ``data_type`` and ``order`` are what a module says of its channels.
    """

    rank: int
    size: tuple[int, int, int]
    format: str
    channels: int
    kind: str = "texref"
    layers: int = 0
    faces: int = 0
    pitch: int = 0
    row: int = 1
    samples: int = 0
    buffer: bool = False
    named: bool = False
    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    linear: bool = False
    mip_linear: bool = False
    integer: bool = False
    fraction: bool = False
    normalized: bool = False
    forced: bool = False
    srgb: bool = False
    seamless: bool = False
    anisotropy: int = 1
    data_type: int = 0
    order: int = 0
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    object: int = 0
    """The handle that is bound to a module's variable."""
    levels: tuple[int, ...] = ()
    """The address of each level."""

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return (4 if self.format == "a2b10g10r10" else int(self.format[1:]) // 8 * self.channels) * max(self.samples, 1)

    def extents(self, level: int) -> tuple[int, int, int]:
        """Elements of a level along x, y and z."""
        x, y, z = (max(n >> level, 1) for n in self.size)
        return x, y, z

    def pitch_of(self, level: int) -> int:
        """The distance of a level's rows in bytes."""
        return self.pitch or -(-self.extents(level)[0] * self.element // self.row) * self.row

    def encode(self) -> bytes:
        """The block."""
        block = np.zeros((), BLOCK)
        block["magic"], block["n_levels"] = MAGIC, len(self.levels)
        block["levels"][: len(self.levels)] = self.levels
        block["kind"], block["format"] = KINDS.index(self.kind), FORMATS.index(self.format)
        block["address"] = [ADDRESS_MODES.index(mode) for mode in self.address]
        for name in _PLAIN:
            block[name] = getattr(self, name)
        return block.tobytes()


def described(fields: Fields) -> dict[str, object]:
    """The fields that differ from their defaults, without addresses, as JSON has them."""
    given = {f.name: (getattr(fields, f.name), f.default) for f in attrs.fields(Fields)}
    kept = {name: value for name, (value, default) in given.items() if value != default and name not in _OF_A_LAUNCH}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def fields_of(given: Mapping[str, object], levels: Sequence[int]) -> Fields:
    """Fields from such a description, and the addresses of the levels."""
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Fields(**plain, levels=tuple(levels))  # type: ignore[arg-type]


_OF_A_LAUNCH = ("levels", "object", "named")
_NUMBERS = {"int": "<u4", "bool": "u1", "float": "<f4"}
_OTHERS: dict[str, tuple[str, tuple[int, ...]]] = {
    **{"kind": ("u1", ()), "format": ("u1", ()), "address": ("u1", (3,)), "size": ("<u4", (3,))},
    **{"border": ("<f4", (4,)), "object": ("<u8", ()), "levels": ("<u8", (MOST_LEVELS,))},
}
"""What a block holds of a field: numbers by their types, others by their names."""
_KINDS = Fields.__annotations__
_HELD = {name: _OTHERS.get(name) or (_NUMBERS[kind], ()) for name, kind in _KINDS.items()}
BLOCK = np.dtype([("magic", "<u8"), ("n_levels", "<u4"), *((name, *held) for name, held in _HELD.items())], align=True)
_PLAIN = tuple(name for name in _KINDS if name not in ("levels", "kind", "format", "address"))
_FLAGS = tuple(name for name, kind in _KINDS.items() if kind == "bool")


@functools.lru_cache(maxsize=256)
def decode(raw: bytes) -> Fields | None:
    """The fields of a block; None if it is none."""
    block: Array = np.frombuffer(raw, BLOCK)[0]
    if int(block["magic"]) != MAGIC:
        return None
    plain = {name: block[name].tolist() for name in _PLAIN}
    plain.update({name: bool(plain[name]) for name in _FLAGS})
    plain.update({name: tuple(plain[name]) for name in ("size", "border")})
    return Fields(
        **plain,
        kind=KINDS[int(block["kind"])],
        format=FORMATS[int(block["format"])],
        address=tuple(ADDRESS_MODES[k] for k in block["address"].tolist()),  # type: ignore[arg-type]
        levels=tuple(block["levels"].tolist()[: int(block["n_levels"])]),
    )


_MODES_OF_PTX = {
    "wrap": "wrap",
    "mirror": "mirror",
    "clamp_ogl": "clamp",
    "clamp_to_edge": "clamp",
    "clamp_to_border": "border",
}


def variable(kind: str, given: Mapping[str, int | str]) -> Fields:
    """A module's variable of an opaque type with its initial values, before anything is bound to it."""

    def number(name: str) -> int:
        value = given.get(name, 0)
        return value if isinstance(value, int) else 0

    def mode(name: str) -> str:
        value = given.get(name, "clamp_to_edge")
        words = list(_MODES_OF_PTX)
        return _MODES_OF_PTX.get(words[value % 5] if isinstance(value, int) else value, "clamp")

    sizes = tuple(number(name) for name in ("width", "height", "depth"))
    modes = tuple(mode(f"addr_mode_{axis}") for axis in range(3))
    return Fields(
        rank=3,
        size=sizes,  # type: ignore[arg-type]
        format="f32",
        channels=0,
        kind=kind,
        named=True,
        layers=number("array_size"),
        samples=number("num_samples") & 0xFF,
        address=modes,  # type: ignore[arg-type]
        linear=given.get("filter_mode") in ("linear", 1),
        normalized=bool(number("normalized_coords")),
        forced=bool(number("force_unnormalized_coords")),
        data_type=number("channel_data_type"),
        order=number("channel_order"),
    )
