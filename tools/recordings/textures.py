"""Textures and surfaces as a GPU reads them: record once, compare whenever wanted.

    python tools/recordings/textures.py record OUT.npz     on a machine with a GPU of sm_90 and its driver; needs NumPy and attrs

A case is a texture (what it holds, how it is read) and one instruction; each thread of the kernel has eight words of operands
and stores four words. Contents and operands are random and adversarial, made from the case's name, the same ones wherever
they are made.
"""

from __future__ import annotations

import ctypes as C
import itertools
import sys
import zlib
from collections.abc import Iterator

import attrs
import numpy as np

THREADS = 1024
FORMATS = {
    "u8": (1, np.uint8), "u16": (2, np.uint16), "u32": (3, np.uint32),
    "s8": (8, np.int8), "s16": (9, np.int16), "s32": (10, np.int32),
    "f16": (16, np.float16), "f32": (32, np.float32),
}  # fmt: skip
"""Name -> CUarray_format and the type of an element."""
ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
INTEGER, NORMALIZED, SRGB, NO_TRILINEAR_OPTIMIZATION, SEAMLESS = 1, 2, 0x10, 0x20, 0x40
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8
BORDER = (0.25, -3.0, 7.0, 0.5)
HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {
.reg .b64 pi, po, t; .reg .b32 n; .reg .f32 %f<8>; .reg .b32 %r<8>; .reg .f32 %d<4>; .reg .b32 %u<4>; .reg .b16 %h<4>; .reg .b64 %q<2>; .reg .pred %p;
ld.param.u64 pi, [p0]; ld.param.u64 po, [p1]; ld.param.u64 t, [p2];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 n, %r1, 256, %r0;
mad.wide.u32 pi, n, 32, pi; mad.wide.u32 po, n, 16, po;
ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [pi]; ld.global.v4.f32 {%f4,%f5,%f6,%f7}, [pi+16];
ld.global.v4.b32 {%r0,%r1,%r2,%r3}, [pi]; ld.global.v4.b32 {%r4,%r5,%r6,%r7}, [pi+16];
mov.b32 %u0, 0xCDCDCDCD; mov.b32 %u1, %u0; mov.b32 %u2, %u0; mov.b32 %u3, %u0;
"""
STORE_U = "\nst.global.v4.b32 [po], {%u0,%u1,%u2,%u3}; ret; }\n"


@attrs.frozen
class Texture:
    """What a texture holds and how it is read; ``size`` has width, height, depth (layers; six faces of each cube)."""

    size: tuple[int, ...]
    format: str = "f32"
    channels: int = 4
    flags: int = 0
    levels: int = 1
    kind: str = "array"  # array, linear, pitch
    linear: bool = False
    address: tuple[str, ...] = ("clamp",) * 3
    read: int = 0
    mip_linear: bool = False
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    contents: str = "random"  # random, or steps: 0 and 1 in turn
    surface: bool = False
    anisotropy: int = 0
    border: tuple[float, ...] = BORDER

    def level(self, k: int) -> tuple[int, int, int]:
        """Elements along x, y and z of a level; 1 where there is no such axis."""
        w, h, d = (*self.size, 1, 1)[:3]
        if self.flags & LAYERED or self.flags & CUBE:
            return max(w >> k, 1), max(h >> k, 1), d
        return max(w >> k, 1), max(h >> k, 1), max(d >> k, 1)

    def data(self, k: int) -> np.ndarray:
        """The elements of a level, ``[depth, height, width, channels]``."""
        w, h, d = self.level(k)
        shape, dtype = (d, h, w, self.channels), np.dtype(FORMATS[self.format][1])
        z, y, x, c = np.indices(shape)
        if self.contents.startswith("corner"):
            return ((x + 2 * y + 4 * z) == int(self.contents[6:])).astype(dtype)
        if self.contents.startswith("impulse"):
            return ((x + w * (y + h * z)) == int(self.contents[7:]) * self.channels + c).astype(dtype)
        if self.contents == "middle":
            return ((x == w // 2) & (y == h // 2) & (z == d // 2)).astype(dtype)
        if self.contents == "xy":
            return np.choose(c, [x, y, z, np.full(shape, k)]).astype(dtype)
        made = {"index": x + w * (y + h * z), "x": x, "y": y, "z": z, "level": np.full(shape, k), "ramp": x}.get(
            self.contents
        )
        if made is not None:
            return made.astype(dtype)
        rng = np.random.default_rng(zlib.crc32(f"{self.size} {self.format} {self.channels} {k}".encode()))
        if self.contents == "steps":
            return ((x + y + z + c) % 2).astype(dtype)
        if self.contents == "wide":
            spread = 2.0 ** rng.uniform(-24 if dtype.itemsize == 2 else -40, 12, shape) * rng.choice([-1, 1], shape)
            special = rng.random(shape) < 0.1
            return np.where(
                special, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 65504.0], shape), spread
            ).astype(dtype)
        if dtype.kind == "f":
            return rng.uniform(-2, 2, shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@attrs.frozen
class Case:
    """A texture, an instruction that reads it into %u0 to %u3, and its operands, ``[threads, 8]`` u32."""

    name: str
    texture: Texture
    instruction: str
    operands: np.ndarray
    threads: int = THREADS

    @property
    def text(self) -> str:
        """The kernel."""
        return HEAD + self.instruction + STORE_U


def bits(values: np.ndarray) -> np.ndarray:
    """The bits of f32 values."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


SPECIAL = np.array(
    [
        0.0,
        -0.0,
        0.5,
        1.0,
        -1.0,
        1.5,
        2.0,
        1e-6,
        -1e-6,
        1e9,
        -1e9,
        1e38,
        -1e38,
        np.inf,
        -np.inf,
        np.nan,
        0.99999994,
        0.25,
        0.75,
        1e-40,
    ],
    np.float32,
)


def coordinates(name: str, sizes: tuple[int, ...], normalized: bool, threads: int) -> np.ndarray:
    """f32 coordinates ``[threads, axes]``: anywhere, at steps of 1/512 of an element, at its edges, special."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    columns = []
    for size in sizes:
        x = rng.uniform(-1.2, 2.2, threads) * size
        part = rng.integers(0, 8, threads)
        x = np.where(part == 0, np.round(x * 512) / 512, x)
        x = np.where(part == 1, np.round(x * 2) / 2, x)
        x = np.where(part >= 5, rng.uniform(0, size, threads), x)
        x = (x / size if normalized else x).astype(np.float32)
        x = np.where(part == 2, np.nextafter(x, np.float32(np.inf)), x).astype(np.float32)
        special = rng.random(threads) < 0.03
        columns.append(np.where(special, rng.choice(SPECIAL, threads), x).astype(np.float32))
    return np.stack(columns, 1)


def operands(name: str, columns: list[np.ndarray], threads: int) -> np.ndarray:
    """Words of the operands, and random ones behind them."""
    rng = np.random.default_rng(zlib.crc32((name + " rest").encode()))
    words = rng.integers(0, 1 << 32, (threads, 8), dtype=np.uint64).astype(np.uint32)
    for k, column in enumerate(columns):
        words[:, k] = column if column.dtype == np.uint32 else bits(column)
    return words


SHAPES = {
    "1d": ((37,), 0), "2d": ((21, 13), 0), "3d": ((11, 7, 5), 0),
    "a1d": ((37, 0, 5), LAYERED), "a2d": ((21, 13, 4), LAYERED),
    "cube": ((16, 16, 6), CUBE), "acube": ((16, 16, 18), CUBE | LAYERED),
}  # fmt: skip
RESULTS = "{%u0,%u1,%u2,%u3}"


def place(geometry: str, ctype: str = "f32") -> str:
    """The coordinates of an instruction: words 0 to 2, behind the layer in word 3."""
    r = "%f" if ctype == "f32" else "%r"
    return {
        "1d": f"{{{r}0}}", "2d": f"{{{r}0,{r}1}}", "3d": f"{{{r}0,{r}1,{r}2,{r}2}}",
        "a1d": f"{{%r3,{r}0}}", "a2d": f"{{%r3,{r}0,{r}1,{r}1}}",
        "cube": f"{{{r}0,{r}1,{r}2,{r}2}}", "acube": f"{{%r3,{r}0,{r}1,{r}2}}",
    }[geometry]  # fmt: skip


def case(geometry: str, suffix: str, *, dtype: str = "f32", ctype: str = "f32", threads: int = THREADS, modifier: str = "tex", more: str = "",
         extra: list[np.ndarray] | None = None, **described: object) -> Case:  # fmt: skip
    """A case of a geometry; ``more`` follows the coordinates, and ``extra`` are words 4 and on."""
    size, flags = SHAPES[geometry]
    size = described.pop("size", size)  # type: ignore[assignment]
    texture = Texture(size=size, flags=flags | int(described.pop("flags", 0)), **described)  # type: ignore[arg-type, call-overload]
    name = f"{modifier} {geometry} {dtype} {ctype} {suffix}"
    rng = np.random.default_rng(zlib.crc32((name + " layer").encode()))
    layers = {"a1d": 5, "a2d": 4, "acube": 3}.get(geometry, 1)
    layer = rng.integers(0, 2 * layers + 1, threads).astype(np.uint32)
    axes = {"1d": size[:1], "a1d": size[:1], "3d": size, "cube": (1, 1, 1), "acube": (1, 1, 1)}.get(geometry, size[:2])
    if ctype == "s32":
        columns = [rng.integers(-4, n + 5, threads).astype(np.int32).view(np.uint32) for n in axes]
    elif "cube" in geometry:
        direction = rng.normal(size=(threads, 3)).astype(np.float32)
        rounded = rng.random(threads) < 0.3
        direction = np.where(rounded[:, None], np.round(direction), direction).astype(np.float32)
        columns = list(direction.T)
    else:
        columns = list(coordinates(name, axes, bool(texture.read & NORMALIZED), threads).T)
    while len(columns) < 3:
        columns.append(np.zeros(threads, np.float32))
    words = operands(name, [*columns[:3], layer, *(extra or [])], threads)
    at = place(geometry, ctype)
    return Case(name, texture, f"{modifier}.{geometry}.v4.{dtype}.{ctype} {RESULTS}, [t, {at}]{more};", words, threads)


def point_cases() -> Iterator[Case]:
    """Elements as they are: every format, geometry, mode of addresses."""
    for geometry, address, normal in itertools.product(SHAPES, ADDRESS, (0, NORMALIZED)):
        if "cube" in geometry and (address != "wrap" or not normal):
            continue
        yield case(geometry, f"point {address} {normal}", address=(address,) * 3, read=normal)
    for format, channels in itertools.product(FORMATS, (1, 2, 4)):
        yield case("2d", f"point {format}x{channels} as float", format=format, channels=channels)
        if format[0] != "f":
            yield case(
                "2d",
                f"point {format}x{channels} as integer",
                dtype="u32" if format[0] == "u" else "s32",
                format=format,
                channels=channels,
                read=INTEGER,
            )
    for geometry in ("1d", "2d", "3d", "a1d", "a2d"):
        for address in ("clamp", "border"):
            yield case(geometry, f"integers {address}", ctype="s32", address=(address,) * 3)
    yield case("2d", "point srgb", format="u8", read=SRGB)
    yield case("2d", "point dtype u32 of f32", dtype="u32")
    yield case("2d", "point dtype f32 of u32", format="u32", read=INTEGER)
    yield case("2d", "point dtype s32 of u8", dtype="s32", format="u8", read=INTEGER)


def linear_cases() -> Iterator[Case]:
    """Weighted elements."""
    for geometry, address, normal in itertools.product(SHAPES, ADDRESS, (0, NORMALIZED)):
        if "cube" in geometry and (address != "wrap" or not normal):
            continue
        yield case(geometry, f"linear {address} {normal}", address=(address,) * 3, read=normal, linear=True)
    yield case("cube", "linear seamless", read=NORMALIZED | SEAMLESS, linear=True)
    for geometry in ("1d", "2d", "3d"):
        for normal in (0, NORMALIZED):
            yield case(geometry, f"linear steps {normal}", threads=8192, read=normal, linear=True, contents="steps")
        yield case(geometry, "linear many", threads=8192, linear=True, channels=1)
        yield case(
            geometry,
            "linear many of a power of two",
            threads=4096,
            linear=True,
            channels=1,
            size=(32, 16, 8)[: int(geometry[0])],
            read=NORMALIZED,
        )
    for format, channels in itertools.product(("u8", "s8", "u16", "s16", "f16"), (1, 4)):
        yield case("2d", f"linear {format}x{channels}", format=format, channels=channels, linear=True)
        yield case("1d", f"linear {format}x{channels}", format=format, channels=channels, linear=True, threads=4096)
    yield case("2d", "linear srgb", format="u8", read=SRGB, linear=True)


def level_cases() -> Iterator[Case]:
    """Levels of detail."""
    shapes = {
        "1d": (64,),
        "2d": (64, 32),
        "3d": (32, 16, 16),
        "a2d": (32, 32, 4),
        "cube": (32, 32, 6),
        "acube": (32, 32, 18),
        "a1d": (64, 0, 5),
    }
    rng = np.random.default_rng(5)
    lod = rng.uniform(-1, 7, THREADS).astype(np.float32)
    lod = np.where(rng.random(THREADS) < 0.3, np.round(lod * 2) / 2, lod).astype(np.float32)
    lod[:8] = [np.nan, np.inf, -np.inf, 0, -0.0, 1e9, 0.5, 1.5]
    for geometry, linear, mip in itertools.product(shapes, (False, True), (False, True)):
        yield case(geometry, f"level {linear} {mip}", modifier="tex.level", more=", %f4", extra=[lod], size=shapes[geometry], levels=5, linear=linear,
                   mip_linear=mip, most=10.0, read=NORMALIZED, address=("wrap",) * 3)  # fmt: skip
    for what in ({"bias": 0.7}, {"least": 1.3, "most": 2.6}, {"read": NORMALIZED | NO_TRILINEAR_OPTIMIZATION}):
        given = {"most": 10.0, "read": NORMALIZED, **what}
        yield case(
            "2d",
            f"level {what}",
            modifier="tex.level",
            more=", %f4",
            extra=[lod],
            size=(64, 32),
            levels=5,
            linear=True,
            mip_linear=True,
            address=("wrap",) * 3,
            **given,
        )
        yield case(
            "2d",
            f"no level {what}",
            size=(64, 32),
            levels=5,
            linear=True,
            mip_linear=True,
            address=("wrap",) * 3,
            **given,
        )
    for geometry in ("1d", "2d"):
        grads = [(rng.normal(size=THREADS) * 0.05).astype(np.float32) for _ in range(4)]
        more = ", {%f4}, {%f5}" if geometry == "1d" else ", {%f4,%f5}, {%f6,%f7}"
        for mip in (False, True):
            yield case(geometry, f"grad {mip}", modifier="tex.grad", more=more, extra=grads, size=shapes[geometry], levels=5, linear=True, mip_linear=mip,
                       most=10.0, read=NORMALIZED, address=("wrap",) * 3)  # fmt: skip


def other_cases() -> Iterator[Case]:
    """Gathers, offsets, attributes, other resources."""
    for component, (geometry, flags) in itertools.product("rgba", (("2d", GATHER), ("a2d", GATHER), ("cube", GATHER))):
        for address in ("clamp", "wrap", "border", "mirror"):
            if (geometry != "2d" or component != "r") and address != "wrap":
                continue
            one = case(geometry, f"gather {component} {address}", flags=flags, read=NORMALIZED, address=(address,) * 3)
            at = place(geometry)
            yield attrs.evolve(one, instruction=f"tld4.{component}.{geometry}.v4.f32.f32 {RESULTS}, [t, {at}];")
    one = case("2d", "gather u32", flags=GATHER, format="u32", read=INTEGER, dtype="u32")
    yield attrs.evolve(one, instruction=f"tld4.g.2d.v4.u32.f32 {RESULTS}, [t, {{%f0,%f1}}];")
    offset = [np.random.default_rng(k).integers(-8, 8, THREADS).astype(np.int32).view(np.uint32) for k in range(3)]
    yield case("1d", "offset", more=", {%r4}", extra=offset, read=NORMALIZED, address=("wrap",) * 3)
    yield case("2d", "offset", more=", {%r4,%r5}", extra=offset, read=NORMALIZED, address=("wrap",) * 3, linear=True)
    yield case("3d", "offset", more=", {%r4,%r5,%r6,%r6}", extra=offset, read=NORMALIZED, address=("clamp",) * 3)
    yield case("a2d", "offset", more=", {%r4,%r5}", extra=offset, read=NORMALIZED, address=("clamp",) * 3)
    one = case("2d", "halves", format="f16", linear=True)
    yield attrs.evolve(one, instruction="tex.2d.v2.f16x2.f32 {%u0,%u1}, [t, {%f0,%f1}];")
    one = case("2d", "resident")
    yield attrs.evolve(one, instruction=f"tex.2d.v4.f32.f32 {RESULTS}|%p, [t, {{%f0,%f1}}]; selp.b32 %u3, 1, 0, %p;")
    yield case("1d", "linear memory", ctype="s32", kind="linear", channels=1)
    yield case("1d", "linear memory u8x4", ctype="s32", kind="linear", format="u8")
    yield case(
        "1d",
        "linear memory s16 integer",
        ctype="s32",
        kind="linear",
        format="s16",
        channels=2,
        read=INTEGER,
        dtype="s32",
    )
    for linear in (False, True):
        yield case("2d", f"pitch {linear}", kind="pitch", channels=1, linear=linear, size=(40, 13))
    for geometry in SHAPES:
        for attribute in (
            "width",
            "height",
            "depth",
            "channel_data_type",
            "channel_order",
            "normalized_coords",
            "array_size",
            "num_mipmap_levels",
        ):
            for format in ("f32", "u8"):
                one = case(geometry, f"query {attribute} {format}", format=format, channels=2)
                yield attrs.evolve(
                    one, instruction=f"txq.{attribute}.b32 %u0, [t];", threads=32, operands=one.operands[:32]
                )
    yield attrs.evolve(case("2d", "query level", size=(64, 32), levels=5, most=10.0, read=NORMALIZED), threads=32,
                       instruction="and.b32 %r4, n, 7; txq.level.width.b32 %u0, [t], %r4; txq.level.height.b32 %u1, [t], %r4;")  # fmt: skip


def probing_cases() -> Iterator[Case]:
    """Textures that tell which elements are read, with which weights."""
    for corner, normal in itertools.product(range(8), (0, NORMALIZED)):
        one = case(
            "3d",
            f"weights {normal}",
            threads=4096,
            size=(2, 2, 2),
            linear=True,
            channels=1,
            contents=f"corner{corner}",
            read=normal,
        )
        yield attrs.evolve(one, name=f"{one.name} {corner}")
    for geometry in ("cube", "acube"):
        size = (64, 64, 6 if geometry == "cube" else 18)
        for contents in ("index", "x", "y"):
            for linear, read in ((False, NORMALIZED), (True, NORMALIZED), (True, NORMALIZED | SEAMLESS)):
                if linear == (contents == "index"):
                    continue
                one = case(
                    geometry,
                    f"probe {linear} {read}",
                    threads=8192,
                    size=size,
                    channels=1,
                    contents=contents,
                    linear=linear,
                    read=read,
                )
                yield attrs.evolve(one, name=f"{one.name} {contents}")
    for k in range(24):
        one = case(
            "cube",
            "seamless",
            threads=1024,
            size=(2, 2, 6),
            channels=1,
            contents=f"corner{k}",
            linear=True,
            read=NORMALIZED | SEAMLESS,
        )
        yield attrs.evolve(one, name=f"{one.name} {k}")
    rng = np.random.default_rng(7)
    for size in ((64,), (60, 28), (16, 16, 16)):
        geometry = f"{len(size)}d"
        for mip in (False, True):
            lod = rng.uniform(-1.5, 6, 8192).astype(np.float32)
            lod[:512] = np.arange(512) / 128
            lod[512:1024] = np.nextafter(lod[:512], np.float32(9))
            lod[1024:1536] = np.nextafter(lod[:512], np.float32(-9))
            for what in ({}, {"bias": 0.37}, {"least": 1.3, "most": 2.71}, {"bias": -0.5, "least": 0.2, "most": 3.0}):
                given = {"most": 10.0, **what}
                yield case(geometry, f"levels {mip} {what}", modifier="tex.level", more=", %f4", extra=[lod], size=size, levels=5, linear=True, mip_linear=mip, channels=1,
                           read=NORMALIZED, contents="level", threads=8192, **given)  # fmt: skip
            scale = 2.0 ** rng.uniform(-9, 1, (8192, 1))
            grads = (rng.normal(size=(8192, 4)) * scale).astype(np.float32)
            if geometry == "1d":
                grads[:, 1] = np.where(rng.random(8192) < 0.5, 0, grads[:, 1])
            else:
                grads[rng.random((8192, 4)) < 0.3] = 0
            more = {"1d": ", {%f4}, {%f5}", "2d": ", {%f4,%f5}, {%f6,%f7}"}.get(geometry)
            if more:
                yield case(geometry, f"gradients {mip}", modifier="tex.grad", more=more, extra=list(grads.T), size=size, levels=5, linear=True, mip_linear=mip, channels=1,
                           read=NORMALIZED, contents="level", threads=8192, most=10.0)  # fmt: skip
    for linear in (False, True):
        one = case(
            "1d",
            f"srgb {linear}",
            format="u8",
            channels=4,
            size=(256,),
            read=SRGB,
            linear=linear,
            contents="ramp",
            threads=8192,
        )
        x = np.arange(8192, dtype=np.float32) / 32 + (0.5 if linear else 0)
        words = one.operands.copy()
        words[:, 0] = bits(x)
        yield attrs.evolve(one, operands=words)
    for address in ADDRESS:
        yield case("2d", f"gather index {address}", modifier="tld4.r", flags=GATHER, format="u32", channels=1, read=INTEGER | NORMALIZED, dtype="u32", contents="index",
                   address=(address,) * 3, threads=4096)  # fmt: skip
    yield case(
        "2d",
        "gather index of elements",
        modifier="tld4.r",
        flags=GATHER,
        format="u32",
        channels=1,
        read=INTEGER,
        dtype="u32",
        contents="index",
        threads=4096,
    )
    for format in ("f16", "f32"):
        one = case(
            "1d",
            f"wide exponents {format}",
            format=format,
            channels=4,
            size=(64,),
            linear=True,
            threads=8192,
            contents="wide",
        )
        yield one


def surface_cases() -> Iterator[Case]:
    """Loads, stores and reductions; the surface's bytes come back, too."""
    types = {
        "b8": ("u8", 1),
        "b16": ("u16", 1),
        "b32": ("u32", 1),
        "v2.b16": ("u16", 2),
        "v4.b8": ("u8", 4),
        "v2.b32": ("u32", 2),
        "v4.b16": ("u16", 4),
        "v4.b32": ("u32", 4),
    }
    places = {
        "1d": "{%r4}",
        "2d": "{%r4,%r1}",
        "3d": "{%r4,%r1,%r2,%r2}",
        "a1d": "{%r3,%r4}",
        "a2d": "{%r3,%r4,%r1,%r1}",
    }
    for geometry, (type, (format, channels)), clamp in itertools.product(places, types.items(), ("clamp", "zero")):
        if geometry != "2d" and type not in ("b32", "v4.b32"):
            continue
        size = np.dtype(FORMATS[format][1]).itemsize * channels
        one = case(
            geometry, f"load {type} {clamp}", ctype="s32", surface=True, flags=SURFACE, format=format, channels=channels
        )
        count, width = (type.count("v") and int(type[1])) or 1, type.split(".")[-1]
        register = "%h" if width in ("b8", "b16") else "%u"
        d = "{" + ",".join(f"{register}{k}" for k in range(count)) + "}" if count > 1 else f"{register}0"
        take = "".join(f"cvt.u32.u16 %u{k}, %h{k};" for k in range(count)) if register == "%h" else ""
        yield attrs.evolve(
            one,
            name=one.name.replace("tex", "suld"),
            instruction=f"mul.lo.s32 %r4, %r0, {size}; suld.b.{geometry}.{type}.{clamp} {d}, [t, {places[geometry]}]; {take}",
        )
    for geometry, clamp in itertools.product(places, ("clamp", "zero")):
        one = case(
            geometry, f"store {clamp}", ctype="s32", surface=True, flags=SURFACE, format="u32", channels=1, threads=32
        )
        yield attrs.evolve(
            one,
            name=one.name.replace("tex", "sust"),
            instruction=f"shl.b32 %r4, %r0, 2; add.u32 %r5, n, 1; sust.b.{geometry}.b32.{clamp} [t, {places[geometry]}], %r5;",
        )
    for format, channels in itertools.product(FORMATS, (1, 4)):
        one = case(
            "2d",
            f"formatted store {format}x{channels}",
            ctype="s32",
            surface=True,
            flags=SURFACE,
            format=format,
            channels=channels,
            threads=64,
        )
        yield attrs.evolve(
            one,
            name=one.name.replace("tex", "sust.p"),
            instruction="sust.p.2d.v4.b32.zero [t, {%r0,%r1}], {%r4,%r5,%r6,%r7};",
        )
    for op, type in (("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("add", "u64")):
        wide = type == "u64"
        one = case(
            "2d",
            f"reduce {op} {type}",
            ctype="s32",
            surface=True,
            flags=SURFACE,
            format="u32",
            channels=2 if wide else 1,
            threads=256,
        )
        b = "mov.b64 %q0, {%r5,%r6};" if wide else ""
        yield attrs.evolve(
            one,
            name=one.name.replace("tex", "sured"),
            instruction=f"{b} mul.lo.s32 %r4, %r0, {8 if wide else 4}; sured.b.{op}.2d.{type}.zero [t, {{%r4,%r1}}], {'%q0' if wide else '%r5'};",
        )
    for geometry in places:
        for attribute in (
            "width",
            "height",
            "depth",
            "channel_data_type",
            "channel_order",
            "array_size",
            "memory_layout",
        ):
            one = case(geometry, f"query {attribute}", ctype="s32", surface=True, flags=SURFACE, channels=2, threads=32)
            yield attrs.evolve(one, name=one.name.replace("tex", "suq"), instruction=f"suq.{attribute}.b32 %u0, [t];")


def cases() -> list[Case]:
    """All, each name once."""
    every = [*point_cases(), *linear_cases(), *level_cases(), *other_cases(), *probing_cases(), *surface_cases()]
    assert len({c.name for c in every}) == len(every), [
        n for n in {c.name for c in every} if sum(c.name == n for c in every) > 1
    ]
    return every


# ---- the driver --------------------------------------------------------------------------------------


class ArrayDescriptor(C.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("width", C.c_size_t),
        ("height", C.c_size_t),
        ("depth", C.c_size_t),
        ("format", C.c_int),
        ("channels", C.c_uint),
        ("flags", C.c_uint),
    ]


class Copy(C.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [
        (f"{side}{name}", type)
        for side in ("src", "dst")
        for name, type in (("x", C.c_size_t), ("y", C.c_size_t), ("z", C.c_size_t), ("lod", C.c_size_t), ("type", C.c_int), ("host", C.c_void_p), ("device", C.c_uint64),
                           ("array", C.c_void_p), ("reserved", C.c_void_p), ("pitch", C.c_size_t), ("height", C.c_size_t))
    ] + [("width", C.c_size_t), ("height", C.c_size_t), ("depth", C.c_size_t)]  # fmt: skip


class Resource(C.Structure):
    """CUDA_RESOURCE_DESC: a type and 128 bytes that depend on it."""

    _fields_ = [("type", C.c_int), ("words", C.c_uint64 * 16), ("flags", C.c_uint)]


class TextureDescriptor(C.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = [("address", C.c_int * 3), ("filter", C.c_int), ("flags", C.c_uint), ("anisotropy", C.c_uint), ("mip_filter", C.c_int), ("bias", C.c_float),
                ("least", C.c_float), ("most", C.c_float), ("border", C.c_float * 4), ("reserved", C.c_int * 12)]  # fmt: skip


class Gpu:
    """The driver."""

    def __init__(self) -> None:
        self.cuda = C.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = C.c_int(), C.c_void_p()
        self.call("cuDeviceGet", C.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        """Call, or say what it answered."""
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise OSError(f"{name}: {code}")

    def copy(self, array: C.c_void_p, host: np.ndarray, shape: tuple[int, int, int], *, back: bool = False) -> None:
        """Copy a whole level between the host and an array."""
        w, h, d = shape
        ours, theirs = ("dst", "src") if back else ("src", "dst")
        what = Copy(width=w * host.itemsize * host.shape[3], height=max(h, 1), depth=max(d, 1))
        for name, value in ((f"{ours}type", 1), (f"{ours}host", host.ctypes.data), (f"{ours}pitch", w * host.itemsize * host.shape[3]), (f"{ours}height", max(h, 1)),
                            (f"{theirs}type", 3), (f"{theirs}array", array)):  # fmt: skip
            setattr(what, name, value)
        self.call("cuMemcpy3D_v2", C.byref(what))

    def run(self, one: Case) -> tuple[np.ndarray, np.ndarray | None]:
        """What the threads store, and what a surface then holds."""
        texture, resource = one.texture, Resource()
        w, h, d = (*texture.size, 0, 0)[:3]
        format = FORMATS[texture.format][0]
        descriptor = ArrayDescriptor(w, h, d, format, texture.channels, texture.flags)
        array, device = C.c_void_p(), C.c_uint64()
        data = [texture.data(k) for k in range(texture.levels)]
        free = []
        if texture.kind == "array" and texture.levels > 1:
            self.call("cuMipmappedArrayCreate", C.byref(array), C.byref(descriptor), texture.levels)
            free.append(("cuMipmappedArrayDestroy", C.c_void_p(array.value)))
            for k, host in enumerate(data):
                level = C.c_void_p()
                self.call("cuMipmappedArrayGetLevel", C.byref(level), array, k)
                self.copy(level, host, texture.level(k))
            resource.type, resource.words[0] = 1, array.value
        elif texture.kind == "array":
            self.call("cuArray3DCreate_v2", C.byref(array), C.byref(descriptor))
            free.append(("cuArrayDestroy", C.c_void_p(array.value)))
            self.copy(array, data[0], texture.level(0))
            resource.type, resource.words[0] = 0, array.value
        else:
            element = data[0].itemsize * texture.channels
            pitch = -(-w * element // 512) * 512
            host = np.zeros((max(h, 1), pitch), np.uint8)
            host[:, : w * element] = data[0].reshape(max(h, 1), -1).view(np.uint8).reshape(max(h, 1), -1)
            self.call("cuMemAlloc_v2", C.byref(device), C.c_size_t(host.nbytes))
            self.call("cuMemcpyHtoD_v2", device, C.c_void_p(host.ctypes.data), C.c_size_t(host.nbytes))
            free.append(("cuMemFree_v2", C.c_uint64(device.value)))
            resource.words[0], resource.words[1] = device.value, format | texture.channels << 32
            if texture.kind == "linear":
                resource.type, resource.words[2] = 2, w * element
            else:
                resource.type = 3
                resource.words[2], resource.words[3], resource.words[4] = w, h, pitch
        handle = C.c_uint64()
        if texture.surface:
            self.call("cuSurfObjectCreate", C.byref(handle), C.byref(resource))
            free.append(("cuSurfObjectDestroy", C.c_uint64(handle.value)))
        else:
            how = TextureDescriptor(
                filter=int(texture.linear),
                flags=texture.read,
                mip_filter=int(texture.mip_linear),
                bias=texture.bias,
                least=texture.least,
                most=texture.most,
            )
            how.address[:], how.border[:] = [ADDRESS[a] for a in texture.address], texture.border
            how.anisotropy = texture.anisotropy
            self.call("cuTexObjectCreate", C.byref(handle), C.byref(resource), C.byref(how), None)
            free.append(("cuTexObjectDestroy", C.c_uint64(handle.value)))
        source, out = np.ascontiguousarray(one.operands), np.zeros((one.threads, 4), np.uint32)
        places = [C.c_uint64(), C.c_uint64()]
        for place, host in zip(places, (source, out), strict=True):
            self.call("cuMemAlloc_v2", C.byref(place), C.c_size_t(host.nbytes))
            free.append(("cuMemFree_v2", C.c_uint64(place.value)))
            self.call("cuMemcpyHtoD_v2", place, C.c_void_p(host.ctypes.data), C.c_size_t(host.nbytes))
        module, function = C.c_void_p(), C.c_void_p()
        self.call("cuModuleLoadData", C.byref(module), one.text.encode() + b"\0")
        self.call("cuModuleGetFunction", C.byref(function), module, b"k")
        values = (*places, handle)
        given = (C.c_void_p * 3)(*[C.addressof(v) for v in values])
        block = min(one.threads, 256)
        self.call("cuLaunchKernel", function, one.threads // block, 1, 1, block, 1, 1, 0, None, given, None)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", C.c_void_p(out.ctypes.data), places[1], C.c_size_t(out.nbytes))
        after = None
        if texture.surface:
            after = np.zeros_like(data[0])
            self.copy(array, after, texture.level(0), back=True)
        self.call("cuModuleUnload", module)
        for name, what in reversed(free):
            self.call(name, what)
        return out, after


def main(cases: list[Case]) -> int:
    """Record cases."""
    gpu, answers, refused = Gpu(), {}, []
    wanted = sys.argv[3:]
    for one in cases:
        if wanted and not any(word in one.name for word in wanted):
            continue
        try:
            answers[one.name], after = gpu.run(one)
        except OSError as error:
            refused.append(f"{one.name}: {error}")
            if "cuCtxSynchronize" in str(error):
                break
            continue
        if after is not None and not np.array_equal(after, one.texture.data(0)):
            answers[one.name + " after"] = after
    print(len(answers), "recorded; refused:", *refused, sep="\n")
    np.savez_compressed(sys.argv[2], refused=np.array(refused), **answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(cases()))
