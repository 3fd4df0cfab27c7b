"""Textures and surfaces as a GPU reads them, once more: gradients and anisotropy, borders, formats, offsets, gathers, geometries that
are not the texture's, edges of cubes, bytes of surfaces.

    python tools/recordings/textures_wider.py record OUT.npz     on a machine with a GPU of sm_90 and its driver; needs NumPy and attrs
    python tools/recordings/textures_wider.py sample OUT.npz SAMPLE.npz     what tests/data keeps of it
"""

from __future__ import annotations

import itertools
import sys
import zlib
from collections.abc import Iterator

import attrs
import numpy as np

from textures import (
    ADDRESS,
    BORDER,
    FORMATS,
    GATHER,
    INTEGER,
    NORMALIZED,
    RESULTS,
    SEAMLESS,
    SHAPES,
    SRGB,
    SURFACE,
    THREADS,
    Case,
    bits,
    case,
    main,
    place,
)

SIZES = {
    "1d": (64,),
    "2d": (64, 32),
    "3d": (32, 16, 16),
    "a2d": (32, 32, 4),
    "cube": (32, 32, 6),
    "acube": (32, 32, 18),
    "a1d": (64, 0, 5),
}


def grads(name: str, geometry: str, threads: int, kind: str) -> np.ndarray:
    """The components of dx and then of dy, ``[threads, 2 * axes]``, f32."""
    rng = np.random.default_rng(zlib.crc32((name + kind).encode()))
    n = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2}.get(geometry, 3)
    g = rng.normal(size=(threads, 2 * n)) * 2.0 ** rng.uniform(-9, 1, (threads, 1))
    if kind == "sweep":  # one component
        g[:] = 0
        g[:, 0] = np.exp2(np.linspace(-8, 1, threads))
    if kind == "angle":  # |dx| fixed, direction sweeps
        a = np.linspace(0, np.pi / 2, threads)
        g[:] = 0
        g[:, 0] = 0.1 * np.cos(a)
        g[:, 1 % n] = 0.1 * np.sin(a)
    if kind == "ratio":  # dx = (a, 0), dy = (0, a r)
        r = np.exp2(np.linspace(-6, 6, threads))
        g[:] = 0
        g[:, 0] = 0.05
        g[:, n + min(1, n - 1)] = 0.05 * r
    if kind == "zeros":
        g[rng.random(g.shape) < 0.35] = 0
    return g.astype(np.float32)


def gradient_case(geometry: str, kind: str, suffix: str, threads: int = 4096, **described: object) -> Case:
    """A case of tex.grad."""
    n = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2}.get(geometry, 3)
    given: dict[str, object] = {
        "size": SIZES[geometry],
        "levels": 5,
        "linear": True,
        "mip_linear": True,
        "most": 10.0,
        "read": NORMALIZED,
        "address": ("wrap",) * 3,
        "contents": "xy",
        **described,
    }
    one = case(geometry, f"grad {kind} {suffix}", modifier="tex.grad", more="", threads=threads, **given)
    g = grads(one.name, geometry, threads, kind)
    words = one.operands.copy()
    # words 4..7 hold at most four gradients; with three axes dy is dx turned around (y, z, x)
    if n <= 2:
        words[:, 4 : 4 + 2 * n] = bits(g)
        v = {1: ", {%f4}, {%f5}", 2: ", {%f4,%f5}, {%f6,%f7}"}[n]
        words_extra = ""
    else:
        words[:, 4:8] = bits(g[:, :4])
        v = ", {%f4,%f5,%f6,%f6}, {%f7,%f4,%f5,%f5}" if kind == "normal" else ", {%f4,%f5,%f6,%f6}, {%d0,%d0,%d0,%d0}"
        words_extra = "mov.f32 %d0, 0f00000000; "
    instruction = words_extra + one.instruction.replace("];", f"]{v};")
    return attrs.evolve(one, operands=words, instruction=instruction)


def gradient_cases() -> Iterator[Case]:
    """Levels of detail from gradients, and anisotropic filtering."""
    for geometry in SIZES:
        for kind in ("normal", "zeros", "sweep", "angle", "ratio"):
            if geometry in ("1d", "a1d") and kind in ("angle",):
                continue
            yield gradient_case(geometry, kind, "isotropic")
        yield gradient_case(geometry, "normal", "isotropic biased", bias=0.37, least=0.3, most=3.2)
    yield gradient_case("2d", "normal", "square", size=(64, 64))
    yield gradient_case("2d", "normal", "odd", size=(60, 28))
    yield gradient_case("2d", "normal", "elements", read=0, levels=1)
    for most, kind, mip in itertools.product((2, 3, 4, 8, 16), ("normal", "zeros", "ratio", "angle"), (False, True)):
        if not mip and (kind != "normal" or most in (3, 8)):
            continue
        yield gradient_case("2d", kind, f"anisotropy {most} {mip}", anisotropy=most, mip_linear=mip, size=(64, 64))
    for most in (2, 16):
        # one level: how many samples, where and with which weights
        for kind in ("normal", "ratio", "angle"):
            yield gradient_case(
                "2d",
                kind,
                f"impulse anisotropy {most}",
                anisotropy=most,
                levels=1,
                contents="middle",
                size=(32, 32),
                channels=1,
                threads=8192,
            )
            yield gradient_case(
                "2d",
                kind,
                f"line anisotropy {most}",
                anisotropy=most,
                levels=1,
                contents="x",
                size=(256, 16),
                channels=1,
                threads=4096,
                address=("clamp",) * 3,
            )
        yield gradient_case("cube", "normal", f"anisotropy {most}", anisotropy=most)
        yield gradient_case("a2d", "normal", f"anisotropy {most}", anisotropy=most)
        yield gradient_case("3d", "normal", f"anisotropy {most}", anisotropy=most)
        yield case(
            "2d",
            f"anisotropy {most} without gradients",
            anisotropy=most,
            linear=True,
            levels=5,
            size=(64, 64),
            most=10.0,
            read=NORMALIZED,
            address=("wrap",) * 3,
        )
        lod = np.random.default_rng(11).uniform(-1, 6, THREADS).astype(np.float32)
        yield case(
            "2d",
            f"anisotropy {most} level",
            modifier="tex.level",
            more=", %f4",
            extra=[lod],
            anisotropy=most,
            linear=True,
            mip_linear=True,
            levels=5,
            size=(64, 64),
            most=10.0,
            read=NORMALIZED,
            address=("wrap",) * 3,
        )
        yield gradient_case("2d", "normal", f"anisotropy {most} point", anisotropy=most, linear=False)


def border_cases() -> Iterator[Case]:
    """Borders, address modes by axis, tiny textures."""
    for format, channels, linear, read in itertools.product(FORMATS, (1, 4), (False, True), (0, INTEGER)):
        if read and (format[0] == "f" or linear):
            continue
        dtype = "f32" if not read else ("u32" if format[0] == "u" else "s32")
        for border in (BORDER, (1.0, 0.3, -0.7, 1e30)):
            b = "" if border == BORDER else " other"
            yield case(
                "2d",
                f"border {format}x{channels} {linear} {read}{b}",
                format=format,
                channels=channels,
                linear=linear,
                read=read,
                dtype=dtype,
                address=("border",) * 3,
                threads=512,
                border=border,
            )
    for modes in itertools.product(("clamp", "border", "wrap", "mirror"), repeat=2):
        yield case("2d", f"modes {modes}", address=(*modes, "clamp"), read=NORMALIZED, linear=True, threads=512)
        yield case("2d", f"modes of elements {modes}", address=(*modes, "clamp"), linear=True, threads=512)
    for size in ((1,), (2,), (3,)):
        for address in ADDRESS:
            yield case(
                "1d",
                f"tiny {size} {address}",
                size=size,
                address=(address,) * 3,
                read=NORMALIZED,
                linear=True,
                threads=512,
            )
    for geometry in ("3d", "a1d", "a2d"):
        for linear in (False, True):
            yield case(
                geometry, f"border u8 {linear}", format="u8", linear=linear, address=("border",) * 3, threads=512
            )
    yield case("1d", "border of rows", address=("clamp", "border", "clamp"), linear=True, threads=512)


def format_cases() -> Iterator[Case]:
    """Formats filtered in each geometry, between levels, as halves, in sRGB."""
    for geometry, format in itertools.product(("1d", "2d", "3d"), ("u8", "s8", "u16", "s16", "f16", "u32")):
        yield case(geometry, f"linear formats {format}", format=format, linear=True, threads=2048)
        if format == "u32":
            continue
        lod = np.random.default_rng(3).uniform(-0.5, 4.5, 2048).astype(np.float32)
        size = {"1d": (64,), "2d": (64, 32), "3d": (16, 16, 8)}[geometry]
        for linear in (False, True):
            yield case(
                geometry,
                f"level formats {format} {linear}",
                modifier="tex.level",
                more=", %f4",
                extra=[lod],
                format=format,
                size=size,
                levels=4,
                linear=linear,
                mip_linear=True,
                most=10.0,
                read=NORMALIZED,
                address=("wrap",) * 3,
                threads=2048,
            )
    for geometry in ("1d", "2d", "3d"):
        size = {"1d": (64,), "2d": (64, 32), "3d": (16, 16, 8)}[geometry]
        lod = np.random.default_rng(4).uniform(-0.5, 4.5, 4096).astype(np.float32)
        yield case(
            geometry,
            "level weights",
            modifier="tex.level",
            more=", %f4",
            extra=[lod],
            size=size,
            levels=3,
            linear=True,
            mip_linear=True,
            most=10.0,
            read=NORMALIZED,
            address=("wrap",) * 3,
            threads=4096,
            channels=1,
            contents="steps",
        )
    for format, channels in itertools.product(FORMATS, (1, 2, 4)):
        if format[1:] == "32":
            continue
        one = case(
            "2d", f"pairs of halves {format}x{channels}", format=format, channels=channels, linear=True, threads=512
        )
        yield attrs.evolve(one, instruction="tex.2d.v2.f16x2.f32 {%u0,%u1}, [t, {%f0,%f1}];")
        one = case("2d", f"halves {format}x{channels}", format=format, channels=channels, linear=False, threads=512)
        yield attrs.evolve(
            one,
            instruction="tex.2d.v4.f16.f32 {%h0,%h1,%h2,%h3}, [t, {%f0,%f1}]; cvt.u32.u16 %u0,%h0; cvt.u32.u16 %u1,%h1; cvt.u32.u16 %u2,%h2; cvt.u32.u16 %u3,%h3;",
        )
    for format in ("f32", "u32", "s32"):
        one = case("2d", f"pairs of halves {format}", format=format, linear=False, threads=512)
        yield attrs.evolve(one, instruction="tex.2d.v2.f16x2.f32 {%u0,%u1}, [t, {%f0,%f1}];")
        one = case(
            "2d",
            f"pairs of halves wide {format}",
            format=format,
            linear=False,
            threads=512,
            contents="wide" if format == "f32" else "random",
        )
        yield attrs.evolve(one, instruction="tex.2d.v2.f16x2.f32 {%u0,%u1}, [t, {%f0,%f1}];")
    one = case("2d", "pairs of halves integer u8", format="u8", read=INTEGER, threads=512)
    yield attrs.evolve(one, instruction="tex.2d.v2.f16x2.f32 {%u0,%u1}, [t, {%f0,%f1}];")
    for srgb_format, channels in itertools.product(("u8", "s8", "u16", "f32"), (1, 2, 4)):
        for linear in (False, True):
            yield case(
                "2d",
                f"srgb {srgb_format}x{channels} {linear}",
                format=srgb_format,
                channels=channels,
                read=SRGB,
                linear=linear,
                threads=512,
            )
    yield case("2d", "srgb integer", format="u8", read=SRGB | INTEGER, dtype="u32", threads=512)


def instruction_cases() -> Iterator[Case]:
    """Gathers, offsets, depths, samples, queries, integers, other geometries, memory, cubes across edges."""
    # gathers
    off = [np.random.default_rng(k).integers(-8, 8, THREADS).astype(np.int32).view(np.uint32) for k in range(4)]
    far = [np.random.default_rng(9 + k).integers(-40, 40, THREADS).astype(np.int32).view(np.uint32) for k in range(4)]
    for address in ADDRESS:
        for read in (0, NORMALIZED):
            one = case(
                "2d", f"gather offset {address} {read}", flags=GATHER, read=read, address=(address,) * 3, extra=off[:2]
            )
            yield attrs.evolve(one, instruction=f"tld4.r.2d.v4.f32.f32 {RESULTS}, [t, {{%f0,%f1}}], {{%r4,%r5}};")
    for geometry, flags in itertools.product(("2d", "a2d", "cube", "acube"), (0, GATHER)):
        for comp in "ra":
            one = case(geometry, f"gather {comp} flags {flags}", flags=flags, read=NORMALIZED, address=("clamp",) * 3)
            yield attrs.evolve(one, instruction=f"tld4.{comp}.{geometry}.v4.f32.f32 {RESULTS}, [t, {place(geometry)}];")
    for format, channels in itertools.product(FORMATS, (1, 2, 4)):
        one = case("2d", f"gather {format}x{channels}", format=format, channels=channels, flags=GATHER, threads=256)
        yield attrs.evolve(one, instruction=f"tld4.g.2d.v4.f32.f32 {RESULTS}, [t, {{%f0,%f1}}];")
    one = case("2d", "gather of levels", flags=GATHER, levels=4, size=(64, 32), read=NORMALIZED, most=10.0, least=1.0)
    yield attrs.evolve(one, instruction=f"tld4.r.2d.v4.f32.f32 {RESULTS}, [t, {{%f0,%f1}}];")
    # offsets
    for geometry, n in (("1d", 1), ("2d", 2), ("3d", 3), ("a1d", 1), ("a2d", 2)):
        v = ["{%r4}", "{%r4,%r5}", "{%r4,%r5,%r6,%r6}"][n - 1]
        for label, values in (("near", off), ("far", far)):
            for address, linear in itertools.product(ADDRESS, (False, True)):
                yield case(
                    geometry,
                    f"offset {label} {address} {linear}",
                    more=", " + v,
                    extra=values[:n],
                    read=NORMALIZED,
                    address=(address,) * 3,
                    linear=linear,
                    threads=1024,
                )
            yield case(
                geometry,
                f"offset {label} integers",
                ctype="s32",
                more=", " + v,
                extra=values[:n],
                address=("clamp",) * 3,
                threads=1024,
            )
        lod = np.random.default_rng(n).uniform(-1, 5, THREADS).astype(np.float32)
        if geometry in ("1d", "2d", "3d"):
            yield attrs.evolve(
                case(
                    geometry,
                    "offset level",
                    modifier="tex.level",
                    more=", %f7, " + v,
                    extra=[*off[:3], lod],
                    read=NORMALIZED,
                    address=("wrap",) * 3,
                    linear=True,
                    mip_linear=True,
                    levels=4,
                    most=9.0,
                    size=SIZES[geometry],
                )
            )
    # depth compare
    for geometry in ("1d", "2d", "a2d", "cube"):
        reference = np.random.default_rng(1).uniform(-1, 2, THREADS).astype(np.float32)
        for format, linear in itertools.product(("f32", "u16"), (False, True)):
            yield case(
                geometry,
                f"depth {format} {linear}",
                more=", %f4",
                extra=[reference],
                format=format,
                channels=1,
                linear=linear,
                read=NORMALIZED,
            )
    one = case(
        "2d",
        "gather depth",
        extra=[np.random.default_rng(1).uniform(-1, 2, THREADS).astype(np.float32)],
        channels=1,
        flags=GATHER,
        read=NORMALIZED,
    )
    yield attrs.evolve(one, instruction=f"tld4.r.2d.v4.f32.f32 {RESULTS}, [t, {{%f0,%f1}}], %f4;")
    # samples
    for geometry, texture in (("2dms", "2d"), ("a2dms", "a2d")):
        one = case(texture, "samples", ctype="s32", threads=512)
        one = attrs.evolve(
            one, operands=np.where(np.arange(8)[None] == 4, np.arange(512)[:, None] % 5, one.operands).astype(np.uint32)
        )
        at = "{%r4,%r0,%r1,%r1}" if texture == "2d" else "{%r3,%r4,%r0,%r1}"
        yield attrs.evolve(one, instruction=f"tex.{geometry}.v4.f32.s32 {RESULTS}, [t, {at}];")
    for geometry in SHAPES:
        for attribute in (
            "num_samples",
            "filter_mode",
            "addr_mode_0",
            "addr_mode_1",
            "addr_mode_2",
            "force_unnormalized_coords",
        ):
            one = case(
                geometry,
                f"query {attribute}",
                threads=32,
                linear=True,
                read=NORMALIZED,
                address=("mirror", "border", "wrap"),
            )
            yield attrs.evolve(one, instruction=f"txq.{attribute}.b32 %u0, [t];")
        one = case(geometry, "query levels", threads=32, size=SIZES[geometry], levels=4, most=9.0, read=NORMALIZED)
        yield attrs.evolve(
            one,
            instruction="txq.level.width.b32 %u0, [t], n; txq.level.height.b32 %u1, [t], n; txq.level.depth.b32 %u2, [t], n;",
        )
        one = case(geometry, "query of levels", threads=32, size=SIZES[geometry], levels=4, most=9.0, read=NORMALIZED)
        yield attrs.evolve(one, instruction="txq.width.b32 %u0, [t]; txq.height.b32 %u1, [t]; txq.depth.b32 %u2, [t];")
    # integer coordinates at levels
    for geometry in ("1d", "2d", "3d", "a1d", "a2d"):
        lod = np.random.default_rng(8).integers(-2, 7, THREADS).astype(np.int32).view(np.uint32)
        yield case(
            geometry,
            "integers at levels",
            ctype="s32",
            modifier="tex.level",
            more=", %r4",
            extra=[lod],
            size=SIZES[geometry],
            levels=4,
            most=9.0,
            least=0.0,
            read=NORMALIZED,
        )
        yield case(
            geometry,
            "integers at levels bounded",
            ctype="s32",
            modifier="tex.level",
            more=", %r4",
            extra=[lod],
            size=SIZES[geometry],
            levels=4,
            most=2.0,
            least=1.0,
            bias=1.0,
            read=NORMALIZED,
        )
        yield case(geometry, "integers linear wrap", ctype="s32", linear=True, read=NORMALIZED, address=("wrap",) * 3)
        yield case(geometry, "integers u8 border", ctype="s32", format="u8", address=("border",) * 3)
    # a geometry that is not the texture's
    for texture, geometry in itertools.permutations(("1d", "2d", "3d", "a1d", "a2d", "cube", "acube"), 2):
        one = case(
            texture, f"read as {geometry}", read=NORMALIZED, channels=1, contents="index", threads=256, linear=False
        )
        yield attrs.evolve(one, instruction=f"tex.{geometry}.v4.f32.f32 {RESULTS}, [t, {place(geometry)}];")
    # linear memory and pitch
    for format, channels in itertools.product(FORMATS, (1, 2, 4)):
        yield case(
            "1d",
            f"memory {format}x{channels}",
            ctype="s32",
            kind="linear",
            format=format,
            channels=channels,
            threads=256,
        )
    yield case("1d", "memory by floats", kind="linear", channels=1, threads=512)
    yield case("1d", "memory by floats linear", kind="linear", channels=1, linear=True, threads=512)
    yield case("1d", "memory by floats normalized", kind="linear", channels=1, read=NORMALIZED, threads=512)
    yield case("1d", "memory border", ctype="s32", kind="linear", channels=1, address=("border",) * 3, threads=512)
    for format, channels, linear, address, read in itertools.product(
        ("f32", "u8"), (1, 2, 4), (False, True), ADDRESS, (0, NORMALIZED)
    ):
        yield case(
            "2d",
            f"pitch {format}x{channels} {linear} {address} {read}",
            kind="pitch",
            format=format,
            channels=channels,
            linear=linear,
            address=(address,) * 3,
            read=read,
            size=(40, 13),
            threads=256,
        )
    yield case("2d", "pitch integers", kind="pitch", ctype="s32", channels=1, size=(40, 13), threads=256)
    # seamless
    for k in range(24):
        one = case(
            "cube",
            "seamless 4",
            threads=1024,
            size=(4, 4, 6),
            channels=4,
            contents=f"impulse{k}",
            linear=True,
            read=NORMALIZED | SEAMLESS,
        )
        rng = np.random.default_rng(100 + k)
        words = one.operands.copy()
        d = rng.uniform(-1, 1, (1024, 3))
        axis = rng.integers(0, 3, 1024)
        near = rng.random(1024) < 0.7
        d[np.arange(1024), axis] = rng.choice([-1, 1], 1024)
        other = (axis + rng.integers(1, 3, 1024)) % 3
        d[np.arange(1024), other] = np.where(
            near, rng.choice([-1, 1], 1024) * rng.uniform(0.7, 1, 1024), d[np.arange(1024), other]
        )
        third = 3 - axis - other
        both = rng.random(1024) < 0.4
        d[np.arange(1024), third] = np.where(
            both, rng.choice([-1, 1], 1024) * rng.uniform(0.7, 1, 1024), d[np.arange(1024), third]
        )
        for j in range(3):
            words[:, j] = bits(d[:, j].astype(np.float32))
        yield attrs.evolve(one, name=f"{one.name} {k}", operands=words)
    yield case("cube", "seamless random", linear=True, read=NORMALIZED | SEAMLESS, threads=4096)
    yield case("cube", "seamless point", linear=False, read=NORMALIZED | SEAMLESS, threads=1024)
    yield case("acube", "seamless random u8", linear=True, format="u8", read=NORMALIZED | SEAMLESS, threads=2048)
    lod = np.random.default_rng(3).uniform(-0.5, 5, 2048).astype(np.float32)
    yield case(
        "cube",
        "seamless levels",
        modifier="tex.level",
        more=", %f4",
        extra=[lod],
        size=(32, 32, 6),
        levels=5,
        linear=True,
        mip_linear=True,
        most=10.0,
        read=NORMALIZED | SEAMLESS,
        threads=2048,
    )
    one = case("cube", "seamless gather", read=NORMALIZED | SEAMLESS, linear=True)
    yield attrs.evolve(one, instruction=f"tld4.r.cube.v4.f32.f32 {RESULTS}, [t, {place('cube')}];")


def surface_cases() -> Iterator[Case]:
    """Bytes over the edge, formatted stores, reductions, cubes."""
    places = {
        "1d": "{%r4}",
        "2d": "{%r4,%r1}",
        "3d": "{%r4,%r1,%r2,%r2}",
        "a1d": "{%r3,%r4}",
        "a2d": "{%r3,%r4,%r1,%r1}",
    }
    # bytes that are no multiple of the element, at and over the edge
    for geometry, (type, format, channels, count, register) in itertools.product(
        ("1d", "2d", "a2d"),
        (
            ("b8", "u32", 1, 1, "%h"),
            ("b16", "u8", 1, 1, "%h"),
            ("b32", "u8", 4, 1, "%u"),
            ("v2.b32", "u32", 4, 2, "%u"),
            ("b64", "f32", 2, 1, "%q"),
            ("v2.b64", "f32", 4, 2, "%q"),
            ("v4.b8", "u16", 2, 4, "%h"),
            ("v2.b8", "u8", 2, 2, "%h"),
        ),
    ):
        for clamp in ("clamp", "zero"):
            one = case(
                geometry,
                f"load {type} of {format}x{channels} {clamp}",
                ctype="s32",
                surface=True,
                flags=SURFACE,
                format=format,
                channels=channels,
                threads=512,
            )
            unit = {"b8": 1, "16": 2, "32": 4, "64": 8}[type[-2:]] * count
            d = "{" + ",".join(f"{register}{k}" for k in range(count)) + "}" if count > 1 else f"{register}0"
            take = (
                "".join(f"cvt.u32.u16 %u{k}, %h{k};" for k in range(count))
                if register == "%h"
                else "".join(f"mov.b64 {{%u{2 * k},%u{2 * k + 1}}}, %q{k};" for k in range(count))
                if register == "%q"
                else ""
            )
            yield attrs.evolve(
                one,
                name=one.name.replace("tex", "suld"),
                instruction=f"mul.lo.s32 %r4, %r0, {unit}; suld.b.{geometry}.{type}.{clamp} {d}, [t, {places[geometry]}]; {take}",
            )
    # cubes and layers through a2d, a level of a mipmap is in `codes`
    for texture in ("cube", "acube"):
        one = case(
            texture,
            "surface load a2d",
            surface=True,
            flags=SURFACE,
            format="u32",
            channels=1,
            contents="index",
            threads=512,
        )
        words = one.operands.copy()
        rng = np.random.default_rng(5)
        words[:, 0] = rng.integers(-2, 18, 512).astype(np.int32).view(np.uint32)
        words[:, 1] = rng.integers(-2, 18, 512).astype(np.int32).view(np.uint32)
        words[:, 3] = rng.integers(0, 20, 512)
        yield attrs.evolve(
            one, operands=words, instruction="shl.b32 %r4, %r0, 2; suld.b.a2d.b32.zero %u0, [t, {%r3,%r4,%r1,%r1}];"
        )
    for geometry in places:
        for format, channels, vec in itertools.product(("u8", "f16", "s16", "f32"), (2, 4), ("", ".v2", ".v4")):
            if geometry != "2d" and (format, vec) != ("u8", ".v4"):
                continue
            at = {
                "1d": "{%r0}",
                "2d": "{%r0,%r1}",
                "3d": "{%r0,%r1,%r2,%r2}",
                "a1d": "{%r3,%r0}",
                "a2d": "{%r3,%r0,%r1,%r1}",
            }[geometry]
            one = case(
                geometry,
                f"formatted {format}x{channels} {vec}",
                ctype="s32",
                surface=True,
                flags=SURFACE,
                format=format,
                channels=channels,
                threads=64,
            )
            value = {"": "%r4", ".v2": "{%r4,%r5}", ".v4": "{%r4,%r5,%r6,%r7}"}[vec]
            yield attrs.evolve(
                one,
                name=one.name.replace("tex", "sust.p"),
                instruction=f"sust.p.{geometry}{vec}.b32.zero [t, {at}], {value};",
            )
        for clamp in ("clamp", "zero"):
            at = {
                "1d": "{%r0}",
                "2d": "{%r0,%r1}",
                "3d": "{%r0,%r1,%r2,%r2}",
                "a1d": "{%r3,%r0}",
                "a2d": "{%r3,%r0,%r1,%r1}",
            }[geometry]
            one = case(
                geometry,
                f"formatted place {clamp}",
                ctype="s32",
                surface=True,
                flags=SURFACE,
                format="u32",
                channels=1,
                threads=64,
            )
            yield attrs.evolve(
                one,
                name=one.name.replace("tex", "sust.p"),
                instruction=f"sust.p.{geometry}.b32.{clamp} [t, {at}], %r4;",
            )
    for geometry, (op, type) in itertools.product(
        ("1d", "2d", "3d"),
        (
            ("add", "u32"),
            ("add", "s32"),
            ("add", "u64"),
            ("min", "u32"),
            ("max", "s32"),
            ("min", "u64"),
            ("max", "s64"),
            ("and", "b32"),
            ("or", "b32"),
        ),
    ):
        for clamp in ("clamp", "zero"):
            wide = type[-2:] == "64"
            one = case(
                geometry,
                f"reduce {op} {type} {clamp}",
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
                instruction=f"{b} mul.lo.s32 %r4, %r0, {8 if wide else 4}; sured.b.{op}.{geometry}.{type}.{clamp} [t, {places[geometry]}], {'%q0' if wide else '%r5'};",
            )
            one = attrs.evolve(
                one,
                name=one.name.replace("tex", "sured.p"),
                instruction=f"{b} sured.p.{op}.{geometry}.{'b64' if wide else 'b32'}.{clamp} [t, {places[geometry].replace('%r4', '%r0')}], {'%q0' if wide else '%r5'};",
            )


def cases() -> list[Case]:
    """All, each name once."""
    every = [*gradient_cases(), *border_cases(), *format_cases(), *instruction_cases(), *surface_cases()]
    assert len({c.name for c in every}) == len(every)
    return every


SAMPLED = 16
"""Threads of a case that tests run, where they do not store to a surface."""
NOT_MODELLED = ("read as", "samples", "load b16 of u8x1")
"""Textures read as of another geometry or multisampled; loads wider than an element."""


def sampled(one: Case, *, changed: bool) -> Case:
    """The threads of a case that tests run: all, or some from everywhere."""
    if changed:
        return one
    operands = one.operands[:: one.threads // SAMPLED][:SAMPLED]
    return attrs.evolve(one, operands=np.ascontiguousarray(operands), threads=SAMPLED)


def sample(recorded: str, out: str) -> int:
    """Keep what tests compare."""
    answers, kept = np.load(recorded), {}
    for one in cases():
        after = one.name + " after"
        if one.name not in answers or any(word in one.name for word in NOT_MODELLED):
            continue
        step = 1 if after in answers else one.threads // SAMPLED
        kept[one.name] = answers[one.name][::step][: one.threads if step == 1 else SAMPLED]
        if after in answers:
            kept[after] = answers[after]
    np.savez_compressed(out, **kept)
    return 0


if __name__ == "__main__":
    sys.exit(sample(*sys.argv[2:]) if sys.argv[1] == "sample" else main(cases()))
