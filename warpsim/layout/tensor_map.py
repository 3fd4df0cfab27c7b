"""Tensor maps: the bits of their 128 bytes, and the elements of a box.

The bits are those of an H200: what its driver's cuTensorMapEncode functions write, and what ptxas makes of
``tensormap.replace``, which for GPUs since sm_100 has more of them. No manual has them; clients that know them write maps
themselves. All are in the first 64 bytes. An H200 ignores those without a name here, and the third of ``swizzle_atomicity`` (CuTe
DSL sets bits 65 and 85). Bit 66 says here that cuTensorMapEncodeIm2colWide made a map, which an H200's driver leaves out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import attrs

from warpsim.records import frozen


@frozen
class Place:
    """Where a field is: its ``pieces``, low to high, each as its first bit, its width, and the bits from one entry to the next."""

    pieces: tuple[tuple[int, int, int], ...]
    less: int = 0
    """What is subtracted from a value to store it,"""
    shift: int = 0
    """and how far it is then shifted."""

    def read(self, bits: int, order: int = 0) -> int:
        """The value of an entry."""
        value, low = 0, 0
        for first, width, step in self.pieces:
            value |= (bits >> first + order * step & (1 << width) - 1) << low
            low += width
        return (value << self.shift) + self.less

    def signed(self, bits: int, order: int) -> int:
        """The value of an entry of one piece in two's complement."""
        sign = 1 << self.pieces[0][1] - 1
        return (self.read(bits, order) ^ sign) - sign

    def write(self, value: int, order: int = 0) -> int:
        """The bits of an entry."""
        bits, value = 0, value - self.less >> self.shift
        for first, width, step in self.pieces:
            bits |= (value & (1 << width) - 1) << first + order * step
            value >>= width
        return bits

    def words(self, order: int) -> Iterator[tuple[int, int, int, int]]:
        """The 32-bit words that hold an entry: offset in bytes; first bit and width there; first bit in the stored value."""
        low = 0
        for first, width, step in self.pieces:
            for part in range(0, width, 32):
                word, bit = divmod(first + order * step + part, 32)
                yield 4 * word, bit, min(width, 32), low + part
            low += width


SIZE = 128
"""Bytes of a map."""
PLACES = {
    "global_address": Place(((0, 64, 0),)),
    "im2col": Place(((64, 1, 0), (66, 1, 0))),
    "rank": Place(((68, 3, 0),), less=1),
    "elemtype": Place(((71, 4, 0),)),
    "interleave_layout": Place(((75, 2, 0),)),
    "swizzle_mode": Place(((77, 2, 0), (86, 1, 0))),
    "fill_mode": Place(((79, 1, 0),)),
    "rounds": Place(((80, 1, 0),)),
    "l2_promotion": Place(((81, 2, 0),)),
    "swizzle_atomicity": Place(((83, 3, 0),)),
    "global_stride": Place(((96, 32, 32), (224, 4, 4)), shift=4),
    "global_dim": Place(((256, 32, 32),), less=1),
    "element_stride": Place(((416, 3, 3),), less=1),
    "box_dim": Place(((440, 8, 8),), less=1),
    "pixels": Place(((480, 16, 0),), less=1),
}
"""The fields, those that tensormap.replace changes by its names; ``box_dim`` of an im2col map has its channels alone."""
_LOWER, _UPPER = 448, 464
_CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""The corners of a bounding box: their first bits, and the bits of an entry by how many there are."""
DATA_TYPES = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16", "FLOAT32_FTZ",
    "TFLOAT32", "TFLOAT32_FTZ", "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B",
)  # fmt: skip
ELEMENT_TYPES = (*DATA_TYPES[:8], "FLOAT32_FTZ", "FLOAT64", "BFLOAT16", "TFLOAT32", "TFLOAT32_FTZ", *DATA_TYPES[13:])
"""Data types by the numbers of tensormap.replace (PTX ISA, tensormap.replace, new_val of .elemtype)."""
_STORED_TYPES = tuple(t for t in ELEMENT_TYPES if not t.startswith("TFLOAT32"))
"""Data types by the numbers in a map, where those that round are FLOAT32 and FLOAT32_FTZ."""
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 4, 4)
"""Bytes that a copy moves as a unit: an element, or a part of 16 packed ones."""
FIRST_PACKED = DATA_TYPES.index("16U4_ALIGN8B")
PACKED_BITS = {13: 4, 14: 4, 15: 6}
PACK, PADDED_BOX = 16, 128
"""Number of packed elements moved together; box extent of padded packed types."""
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B", "96B")
"""Swizzles by the driver's numbers; the last is one that only tensormap.replace has."""
FLIPPED, SWIZZLE_96B, UNMATCHED = 5, 7, 8
"""Some of them; `UNMATCHED` is what tensormap.replace leaves of less than 128 bytes with an atomicity of more than 16."""
IM2COL, IM2COL_W, IM2COL_W128 = 1, 2, 3
"""Kinds of im2col maps: of cuTensorMapEncodeIm2col, and of cuTensorMapEncodeIm2colWide in its two modes."""
WIDE_MODES = ("W", "W128")
GATHER4, SCATTER4 = "tile::gather4", "tile::scatter4"
WIDE = {"im2col::w": IM2COL_W, "im2col::w::128": IM2COL_W128}
"""Modes of copies that need other maps than the rest, and the map of each."""
ROWS = 4
"""Rows of a tensor that `GATHER4` and `SCATTER4` copy."""
W128_PIXELS, W128_PART = 128, 32
"""Pixels that im2col::w::128 loads, and after how many of them it loads a halo."""
PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")
_NAN = 0x7FF7_7FF7_7FF7_7FF7
"""The NaN that fills elements outside the tensor, in every width (observed on an H200)."""
_UNIT = 8
ROW_UNIT = 16
"""The innermost coordinate of a copy, in bytes, must be a multiple of this; otherwise an H200 faults."""


def is_tf32(data_type: int) -> bool:
    """Whether loads of a data type round."""
    return DATA_TYPES[data_type].startswith("TFLOAT32")


@frozen
class Fields:
    """A decoded map. Strides are in bytes, for dimensions 1 and up."""

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
    im2col: int = 0
    """0 for a tiled map, or a kind of im2col map."""
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    l2_promotion: int = 0
    rounds: bool = attrs.field(
        default=attrs.Factory(lambda self: is_tf32(self.data_type), takes_self=True), converter=bool, kw_only=True
    )
    """Whether loads round to tf32. On an H100 a map that did so once does so ever after: tensormap.replace does not
    take it back, and loads of other elements than 32-bit floats fault."""

    @property
    def itemsize(self) -> int:
        """Element size in bytes."""
        return SIZES[self.data_type]

    @property
    def packed(self) -> int:
        """Element size in bits for packed types, which move 16 elements together; else 0."""
        return PACKED_BITS.get(self.data_type, 0)

    @property
    def padded(self) -> bool:
        """Whether 16 packed elements occupy 16 bytes of shared memory."""
        return self.data_type > FIRST_PACKED

    @property
    def wide(self) -> bool:
        """Whether this is an im2col map whose boxes extend along W alone."""
        return self.im2col > IM2COL

    @property
    def pixel(self) -> int:
        """Bytes per unit of dimension 0: an element, or a slice of a pixel's channels in interleaved maps."""
        return 16 * self.interleave or self.itemsize

    @property
    def fill(self) -> int:
        """The bits of an element outside the tensor."""
        return _NAN & ((1 << 8 * self.itemsize) - 1) if self.oob_fill else 0


def stored_type(data_type: int) -> int:
    """The number of a data type in a map."""
    return _STORED_TYPES.index(DATA_TYPES[data_type].removeprefix("T"))


def encode(fields: Fields) -> bytes:
    """Encode a map as 128 bytes."""
    mode = 4 if fields.swizzle == SWIZZLE_96B else min(fields.swizzle, 3)
    values = {
        "global_address": (fields.address,),
        "im2col": (fields.im2col,),
        "rank": (fields.rank,),
        "elemtype": (stored_type(fields.data_type),),
        "interleave_layout": (fields.interleave,),
        "swizzle_mode": (mode,),
        "swizzle_atomicity": (fields.swizzle - mode if mode == 3 else 0,),
        "fill_mode": (fields.oob_fill,),
        "rounds": (fields.rounds,),
        "l2_promotion": (fields.l2_promotion,),
        "global_stride": fields.strides,
        "global_dim": fields.dims,
        "element_stride": fields.element_strides,
        "box_dim": (fields.channels,) if fields.im2col else fields.box,
        "pixels": (fields.pixels,) if fields.im2col else (),
    }
    bits = 0
    for name, entries in values.items():
        for order, value in enumerate(entries):
            bits |= PLACES[name].write(value, order)
    for corner, first in ((fields.lower, _LOWER), (fields.upper, _UPPER)):
        place, count = _corners(fields.rank, fields.im2col, first)
        for order, value in enumerate(corner[:count]):
            bits |= place.write(value, order)
    return bits.to_bytes(SIZE, "little")


@functools.lru_cache(maxsize=256)
def decode(raw: bytes) -> Fields | None:
    """Decode a map; None if the bytes are not a map."""
    bits = int.from_bytes(raw[: SIZE // 2], "little")

    def read(name: str, order: int = 0) -> int:
        return PLACES[name].read(bits, order)

    rank, number, im2col = read("rank"), read("elemtype"), read("im2col")
    mode, interleave = read("swizzle_mode"), read("interleave_layout")
    if not bits or rank > 5 or number >= len(_STORED_TYPES) or mode > 4 or interleave >= len(INTERLEAVES):
        return None
    name, rounds = _STORED_TYPES[number], read("rounds")

    def corner(first: int) -> tuple[int, ...]:
        place, count = _corners(rank, im2col, first)
        return tuple(place.signed(bits, order) if order < count else 0 for order in range(rank - 2) if im2col)

    return Fields(
        data_type=DATA_TYPES.index("T" + name if rounds and name in ("FLOAT32", "FLOAT32_FTZ") else name),
        rank=rank,
        interleave=interleave,
        swizzle=_swizzle(mode, read("swizzle_atomicity") & 3),
        oob_fill=read("fill_mode"),
        address=read("global_address"),
        dims=tuple(read("global_dim", order) for order in range(rank)),
        strides=tuple(read("global_stride", order) for order in range(rank - 1)),
        box=() if im2col else tuple(read("box_dim", order) for order in range(rank)),
        element_strides=tuple(read("element_stride", order) for order in range(rank)),
        im2col=im2col,
        lower=corner(_LOWER),
        upper=corner(_UPPER),
        channels=read("box_dim") if im2col else 0,
        pixels=read("pixels") if im2col else 0,
        l2_promotion=read("l2_promotion"),
        rounds=bool(rounds),
    )


def _corners(rank: int, im2col: int, first: int) -> tuple[Place, int]:
    """Where a corner of a bounding box is, from a bit on, and how many entries it has there."""
    count = 1 if im2col > IM2COL else rank - 2
    width = _CORNER_BITS.get(count, 0)
    return Place(((first, width, width),)), count


def _swizzle(mode: int, atomicity: int) -> int:
    """The number of a swizzle from what tensormap.replace calls its mode and its atomicity."""
    if mode == 3:
        return mode + atomicity
    if mode and atomicity:
        return UNMATCHED
    return SWIZZLE_96B if mode == 4 else mode


def in_parts(fields: Fields) -> Fields:
    """A map of packed elements as a map of the bytes or words that they fill in global memory."""
    if not fields.packed:
        return fields

    def parts(count: int) -> int:
        return count * fields.packed // (8 * fields.itemsize)

    return attrs.evolve(
        fields,
        dims=(parts(fields.dims[0]), *fields.dims[1:]),
        box=(*map(parts, fields.box[:1]), *fields.box[1:]),
        channels=parts(fields.channels),
    )


def in_units(fields: Fields) -> Fields | None:
    """A tiled map as a map of units of 8 bytes that boxes move whole, wherever they begin; None if they may not."""
    parts = _UNIT // fields.itemsize
    if fields.im2col or fields.interleave or fields.packed or fields.dims[0] % parts or fields.box[0] % parts:
        return None
    return attrs.evolve(
        fields,
        data_type=DATA_TYPES.index("UINT64"),
        dims=(fields.dims[0] // parts, *fields.dims[1:]),
        box=(fields.box[0] // parts, *fields.box[1:]),
    )


def as_stored(fields: Fields) -> Fields:
    """The map by which boxes are stored: rows end at multiples of 16 bytes, because an H100 stores and combines whole
    units of 16 bytes along dimension 0, what is beyond the tensor included."""
    per = ROW_UNIT // fields.itemsize
    if fields.interleave or fields.packed or fields.dims[0] % per == 0:
        return fields
    return attrs.evolve(fields, dims=(-(-fields.dims[0] // per) * per, *fields.dims[1:]))


def box_extent(fields: Fields, axis: int) -> int:
    """Elements (pixels of a slice in interleaved maps) of a box along an axis: every ``element_strides``-th. Dimension
    0 has no stride unless it counts pixels. The last but one dimension of an interleaved map counts slices of channels; a box has
    one of them, whatever ``box`` says (observed on an H200, like everything about interleaved maps here)."""
    if fields.interleave and axis == fields.rank - 2:
        return 1
    return -(-fields.box[axis] // step_of(fields, axis))


def step_of(fields: Fields, axis: int) -> int:
    """Elements from one of a box to the next along an axis."""
    return 1 if axis == 0 and not fields.interleave else fields.element_strides[axis]


def stride_of(fields: Fields, axis: int) -> int:
    """Bytes from an element of the tensor to the next along an axis."""
    return fields.strides[axis - 1] if axis else fields.pixel


def bounding_box(fields: Fields) -> list[tuple[int, int, int]]:
    """The bounding box of an im2col map: axis, begin and end, for each dimension with pixels."""
    first, extends = 0 if fields.interleave else 1, 1 if fields.wide else max(fields.rank - 2, 0)
    return [(first + i, fields.lower[i], fields.dims[first + i] + fields.upper[i]) for i in range(extends)]


SPANS = (0, 32, 64, 128, 128, 128, 128, 96, 0)
MAX_BOX = 227 * 1024
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


@functools.lru_cache(maxsize=256)
def problem(fields: Fields, rank: int | None = None) -> str | None:
    """Why the driver rejects a map, or a copy of ``rank`` dimensions cannot use it; None if it is valid."""
    unit = 32 if fields.interleave == 2 or fields.padded else 16
    if rank is not None and rank != fields.rank:
        return f"a map of {fields.rank} dimensions, used by a copy of {rank},"
    if fields.address % unit:
        return f"the tensor's address 0x{fields.address:x} is not a multiple of {unit}"
    if fields.interleave and fields.rank < 3:
        return "an interleaved tensor map has at least 3 dimensions"
    found = _axis_problem(fields, unit)
    if found is None and fields.oob_fill and (fields.data_type < 6 or fields.packed):
        return "oob_fill nan needs a floating-point data type"
    found = found or _swizzle_problem(fields) or (_packed_problem(fields) if fields.packed else None)
    return found or (_im2col_problem(fields) if fields.im2col else _box_problem(fields))


def _axis_problem(fields: Fields, unit: int) -> str | None:
    """Check sizes and strides of each dimension."""
    for axis, size in enumerate(fields.dims):
        if not 0 < size <= 1 << 32:
            return f"global_dim[{axis}] is {size}; it must be 1 to 2**32"
    for axis, stride in enumerate(fields.strides):
        if stride % unit or not 0 <= stride < 1 << 40:
            return f"global_strides[{axis}] is {stride}; it must be a multiple of {unit} below 2**40"
    for axis, step in enumerate(fields.element_strides):
        if not 0 < step <= 8:
            return f"element_strides[{axis}] is {step}; it must be 1 to 8"
    return None


def _swizzle_problem(fields: Fields) -> str | None:
    """Check the rules of swizzles that came with sm_100 (PTX ISA, tensor copy: restrictions)."""
    if fields.swizzle == UNMATCHED:
        return "a swizzle of less than 128 bytes has an atomicity of 16 bytes"
    if fields.swizzle > 3 and fields.interleave:
        return f"an interleaved layout has no swizzle of {SWIZZLES[fields.swizzle]}"
    if fields.wide and fields.swizzle not in (2, 3, 4):
        return f"a map of cuTensorMapEncodeIm2colWide has no swizzle of {SWIZZLES[fields.swizzle]}"
    return None


def mode_problem(fields: Fields, mode: str) -> str | None:
    """Why a copy in a mode (``tile::gather4``, ``im2col::w``) cannot use a valid map; None if it can."""
    wanted = WIDE.get(mode, 0)
    if wanted and not fields.wide:
        return f"a map that cuTensorMapEncodeIm2colWide did not make, used in mode .{mode},"
    if fields.wide and (not wanted or wanted < fields.im2col):
        return f"a map for mode .im2col::w{'::128' * (fields.im2col == IM2COL_W128)}, used in mode .{mode},"
    if mode in (GATHER4, SCATTER4):
        if fields.interleave:
            return f"an interleaved map, used in mode .{mode},"
        if fields.im2col or fields.box[1] != 1:
            return f"a map whose boxes have more than one row, used in mode .{mode},"
    return None


def first_gpu(fields: Fields) -> tuple[int, str]:
    """The first GPU whose copies can use a map, as ``sm``, and what needs it."""
    if fields.swizzle == SWIZZLE_96B:
        return 103, "a swizzle of 96B"
    if fields.packed:
        return 100, DATA_TYPES[fields.data_type]
    if fields.swizzle > 3:
        return 100, f"a swizzle of {SWIZZLES[fields.swizzle]}"
    return (100, "mode .im2col::w") if fields.wide else (90, "")


def _packed_problem(fields: Fields) -> str | None:
    """Check the driver's rules for packed elements."""
    name = DATA_TYPES[fields.data_type]
    unit = PADDED_BOX if fields.padded else 2
    if fields.dims[0] % unit:
        return f"global_dim[0] is {fields.dims[0]}; it must be a multiple of {unit} for {name}"
    what, inner = ("channels_per_pixel", fields.channels) if fields.im2col else ("box_dim[0]", fields.box[0])
    if fields.padded and inner != PADDED_BOX:
        return f"{what} is {inner}; it must be {PADDED_BOX} for {name}"
    if fields.padded and fields.swizzle not in (0, 3, 4, 6):
        return f"{name} has no swizzle of {SWIZZLES[fields.swizzle]}"
    return f"{name} has no interleaved layout" if fields.interleave else None


def _box_problem(fields: Fields) -> str | None:
    for axis, size in enumerate(fields.box):
        if not 0 < size <= 256:
            return f"box_dim[{axis}] is {size}; it must be 1 to 256"
    total = math.prod(box_extent(fields, axis) for axis in range(1, fields.rank)) * row_bytes(fields, fields.box[0])
    if total > MAX_BOX:
        return f"the box has {total} bytes; shared memory holds {MAX_BOX}"
    return _inner_problem(fields, row_bytes(fields, fields.box[0]))


def _im2col_problem(fields: Fields) -> str | None:
    if not 3 <= fields.rank <= 5:
        return f"an im2col tensor map has 3 to 5 dimensions, not {fields.rank}"
    if fields.wide and fields.interleave:
        return "a map of cuTensorMapEncodeIm2colWide has no interleaved layout"
    limit = _CORNERS[3 if fields.wide else fields.rank]
    for name, corner in (("lower", fields.lower), ("upper", fields.upper)):
        if any(not -limit <= v < limit for v in corner):
            return f"pixel_box_{name}_corner {corner} is not within [{-limit}, {limit - 1}]"
    for axis, low, end in bounding_box(fields):
        if not 0 < end - low < 1 << 32:
            return f"the bounding box has an extent of {end - low} along dimension {axis}"
    if not 0 < fields.channels <= 256:
        return f"channels_per_pixel is {fields.channels}; it must be 1 to 256"
    if fields.im2col != IM2COL_W128 and not 0 < fields.pixels <= 1024:
        return f"pixels_per_column is {fields.pixels}; it must be 1 to 1024"
    return _inner_problem(fields, row_bytes(fields, fields.channels))


def row_bytes(fields: Fields, count: int) -> int:
    """Bytes of consecutive elements in shared memory, rounded up."""
    if fields.padded:
        return count
    return -(-count * fields.packed // 8) if fields.packed else count * fields.itemsize


def _inner_problem(fields: Fields, inner: int) -> str | None:
    if inner % 16:
        return f"a row of the box has {inner} bytes; it must be a multiple of 16"
    span = 0 if fields.interleave else SPANS[fields.swizzle]
    if span and inner > span:
        return f"a row of the box has {inner} bytes, more than the swizzle span of {span}"
    return None
