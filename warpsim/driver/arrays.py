"""CUDA arrays, the textures and surfaces that read them, and a module's references by name."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import attrs

from warpsim.driver.memory import Memory, Side
from warpsim.driver.results import DriverError, Result, require
from warpsim.layout import textures as layout
from warpsim.records import define, frozen

PLAIN = {1: "u8", 2: "u16", 3: "u32", 8: "s8", 9: "s16", 10: "s32", 16: "f16", 32: "f32"}
NORMALIZED = {
    **{0xC0 + k: (format, n) for k, (format, n) in enumerate((f, n) for f in ("u8", "u16", "s8", "s16") for n in (1, 2, 4))},
    0x50: ("a2b10g10r10", 4),
}  # fmt: skip
"""CUarray_format: of 1, 2 or 4 channels, and fractions of a fixed number of them."""
COMPRESSED = range(0x91, 0x9F)
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8
RESERVED = 0x40 | 0x80
"""Flags of arrays without memory of their own: sparse, deferred."""
INTEGER, NORMAL, SRGB, ONE_LEVEL, SEAMLESS = 1, 2, 0x10, 0x20, 0x40
"""Flags of textures."""
ALIGNMENT, PITCH_ALIGNMENT = 512, 32
ROWS = 32
"""Rows of an array begin at multiples of so many bytes."""
WIDEST, TALLEST, DEEPEST, MOST_LAYERS = 131072, 65536, 16384, 2048


def format_of(number: int, channels: int) -> tuple[str, int]:
    """An element's format and number of channels.

    Raises:
        DriverError: no array or memory has it.
    """
    if number in PLAIN:
        require(channels in (1, 2, 4), f"an element of {channels} channels")
        return PLAIN[number], channels
    if number in COMPRESSED:
        raise DriverError(Result.NOT_SUPPORTED, "the simulated driver has no block-compressed arrays")
    require(number in NORMALIZED and NORMALIZED[number][1] == channels, f"array format {number} of {channels} channels")
    return NORMALIZED[number]


@frozen
class Descriptor:
    """CUDA_ARRAY3D_DESCRIPTOR."""

    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int

    def fields(self) -> layout.Fields:
        """What its elements are and how many there are.

        Raises:
            DriverError: there is no such array.
        """
        format, channels = format_of(self.format, self.channels)
        w, h, d, flags = self.width, self.height, self.depth, self.flags
        layered, cube = bool(flags & LAYERED), bool(flags & CUBE)
        require(not flags & ~(LAYERED | SURFACE | CUBE | GATHER | RESERVED | 0x100), f"array flags {flags:#x}")
        if flags & RESERVED:
            raise DriverError(Result.NOT_SUPPORTED, "the simulated driver has no sparse and no deferred arrays")
        sizes = f"an array of {w} x {h} x {d} elements"
        require(w > 0 and (h or not d or layered), sizes)
        if cube:
            require(
                w == h and (d % 6 == 0 if layered else d == 6) and 0 < d <= 2046 and w <= 32768, f"{sizes} as cubes"
            )
        elif layered:
            require(0 < d <= MOST_LAYERS and w <= 32768 and h <= 32768, f"{sizes} in layers")
        elif d:
            require(max(w, h, d) <= DEEPEST or (max(w, h) <= 8192 and d <= 32768), sizes)
        else:
            widest = 32768 if flags & GATHER or (flags & SURFACE and not h) else WIDEST
            require(w <= widest and h <= (32768 if flags & GATHER else TALLEST), sizes)
        require(not flags & GATHER or (h and not d), f"{sizes} cannot be gathered from")
        return layout.Fields(
            rank=2 if cube or (layered and h) else 1 if layered else 3 if d else 2 if h else 1,
            size=(w, max(h, 1), 1 if layered or cube else max(d, 1)),
            format=format,
            channels=channels,
            fraction=self.format in NORMALIZED,
            layers=(d // 6 if cube else d) if layered else 0,
            faces=6 if cube else 0,
            row=ROWS,
        )

    def level(self, number: int) -> Descriptor:
        """A level of a mipmap."""
        w, h = max(self.width >> number, 1), max(self.height >> number, 1) if self.height else 0
        fixed = self.flags & (LAYERED | CUBE) or not self.depth
        return attrs.evolve(self, width=w, height=h, depth=self.depth if fixed else max(self.depth >> number, 1))


@define(eq=False)
class CudaArray:
    """A CUDA array: rows in device memory. ``whole`` is the mipmap that it is a level of."""

    descriptor: Descriptor
    fields: layout.Fields
    memory: Memory
    whole: MipmappedArray | None = None

    @classmethod
    def create(
        cls, memory: Memory, descriptor: Descriptor, ordinal: int, whole: MipmappedArray | None = None
    ) -> CudaArray:
        """Allocate an array."""
        fields = descriptor.fields()
        count = max(fields.layers, 1) * max(fields.faces, 1) * fields.size[2]
        address = memory.allocate(fields.pitch_of(0) * fields.size[1] * count, ordinal)
        return cls(descriptor, attrs.evolve(fields, levels=(address,)), memory, whole)

    def free(self) -> None:
        """Free its memory."""
        self.memory.free(self.fields.levels[0])

    def side(self, x: int, y: int, z: int, box: tuple[int, int, int]) -> Side:
        """One side of a copy of a box (bytes, rows, planes) from or to ``x`` bytes, ``y`` rows and ``z`` planes in.

        Raises:
            DriverError: the box reaches outside.
        """
        fields = self.fields
        pitch, rows = fields.pitch_of(0), fields.size[1]
        bounds = fields.size[0] * fields.element, rows, max(self.descriptor.depth, 1)
        for start, extent, most in zip((x, y, z), box, bounds, strict=True):
            require(start + extent <= most, f"{extent} from {start} on reach outside of an array's {most}")
        return Side(fields.levels[0] + x + y * pitch + z * pitch * rows, pitch, pitch * rows)


@define(eq=False)
class MipmappedArray:
    """Arrays of which each has half the extents of the one before."""

    levels: list[CudaArray]

    @classmethod
    def create(cls, memory: Memory, descriptor: Descriptor, count: int, ordinal: int) -> MipmappedArray:
        """Allocate as many levels as there can be, at most ``count``."""
        fields = descriptor.fields()
        largest = max(fields.size[: fields.rank])
        made = cls([])
        for number in range(min(max(count, 1), largest.bit_length(), layout.MOST_LEVELS)):
            made.levels.append(CudaArray.create(memory, descriptor.level(number), ordinal, made))
        return made

    def free(self) -> None:
        """Free all levels."""
        for level in self.levels:
            level.free()


@frozen
class Sampling:
    """How a texture is read: CUDA_TEXTURE_DESC."""

    address: tuple[int, ...] = (1, 1, 1)
    filter: int = 0
    flags: int = 0
    anisotropy: int = 0
    mip_filter: int = 0
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    border: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)

    def of(self, fields: layout.Fields) -> layout.Fields:
        """A texture on these elements."""
        require(all(0 <= mode < 4 for mode in self.address), f"address modes {self.address}")
        require(self.filter in (0, 1) and self.mip_filter in (0, 1), f"filter {self.filter}, {self.mip_filter}")
        flags = self.flags
        require(not flags & ~(INTEGER | NORMAL | SRGB | ONE_LEVEL | SEAMLESS), f"texture flags {flags:#x}")
        x, y, z = (layout.ADDRESS_MODES[mode] for mode in self.address[:3])
        red, green, blue, alpha = self.border[:4]
        return attrs.evolve(
            fields,
            address=(x, y, z),
            linear=bool(self.filter),
            mip_linear=bool(self.mip_filter),
            integer=bool(flags & INTEGER) and fields.format[0] != "f" and not fields.fraction,
            normalized=bool(flags & NORMAL),
            srgb=bool(flags & SRGB),
            seamless=bool(flags & SEAMLESS),
            anisotropy=min(max(self.anisotropy, 1), 16),
            bias=self.bias,
            least=self.least,
            most=self.most,
            border=(red, green, blue, alpha),
        )


def of_arrays(arrays: Sequence[CudaArray]) -> layout.Fields:
    """The elements of a mipmap's levels, or of one array."""
    return attrs.evolve(arrays[0].fields, levels=tuple(array.fields.levels[0] for array in arrays))


def misplaced(memory: Memory, address: int) -> int:
    """How far an address is behind a place where textures begin: allocations do, and what is so many times `ALIGNMENT` behind."""
    extent = memory.extent(address)
    return address % ALIGNMENT if extent is None else (address - extent[0]) % ALIGNMENT


def linear(address: int, format: int, channels: int, nbytes: int) -> layout.Fields:
    """Elements in linear memory."""
    require(address, "a required pointer is null")
    name, channels = format_of(format, channels)
    fraction = format in NORMALIZED
    made = layout.Fields(
        rank=1, size=(1, 1, 1), format=name, channels=channels, fraction=fraction, buffer=True, levels=(address,)
    )
    return attrs.evolve(made, size=(nbytes // made.element, 1, 1))


def pitched(address: int, format: int, channels: int, width: int, height: int, pitch: int) -> layout.Fields:
    """Elements in rows of memory."""
    require(address, "a required pointer is null")
    require(pitch % PITCH_ALIGNMENT == 0, f"a pitch of {pitch} bytes, which is no multiple of {PITCH_ALIGNMENT}")
    require(0 < width <= WIDEST and height <= 65000, f"a texture of {width} x {height} elements")
    name, channels = format_of(format, channels)
    size = (width, max(height, 1), 1)
    fraction = format in NORMALIZED
    return layout.Fields(
        rank=2, size=size, format=name, channels=channels, fraction=fraction, pitch=pitch, levels=(address,)
    )


@define(eq=False)
class Object:
    """A texture or surface object; its handle is the address of its block. ``made_from`` are the structures given for it."""

    address: int
    kind: str
    made_from: tuple[bytes, ...]


def write(memory: Memory, address: int, fields: layout.Fields) -> None:
    """Write a block."""
    raw = ctypes.create_string_buffer(fields.encode(), layout.BLOCK.itemsize)
    memory.copy(address, ctypes.addressof(raw), layout.BLOCK.itemsize)


@define(eq=False)
class Reference:
    """A ``.texref`` or ``.surfref`` of a module by name, at ``address``; 0 if it is of no module."""

    memory: Memory
    address: int = 0
    kind: str = "texref"
    format: tuple[int, int] = (32, 1)
    how: Sampling = Sampling()
    bound: layout.Fields | None = None
    array: CudaArray | MipmappedArray | None = None
    pointer: int | None = None

    def bind(
        self, bound: layout.Fields, array: CudaArray | MipmappedArray | None = None, pointer: int | None = None
    ) -> None:
        """Read from these elements from now on."""
        self.bound, self.array, self.pointer = bound, array, pointer
        self.update()

    def change(self, **how: Any) -> None:
        """Read differently from now on."""
        self.how = attrs.evolve(self.how, **how)
        self.update()

    def update(self) -> None:
        """Write the variable."""
        if self.bound is not None and self.address:
            fields = self.how.of(self.bound) if self.kind == "texref" else self.bound
            write(self.memory, self.address, attrs.evolve(fields, kind=self.kind, named=True))
