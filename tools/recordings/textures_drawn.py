"""Textures, drawn: any format, size, filter, addresses, levels, borders, and an instruction that reads them.

python tools/recordings/textures_drawn.py record OUT.npz SEED FIRST LAST     on a machine with a GPU of sm_90 and its driver
python tools/recordings/textures_drawn.py sample SAMPLE.npz OUT.npz...       what tests/data keeps of them
"""

from __future__ import annotations

import random
import sys
import zlib

import numpy as np

from textures import (
    ADDRESS,
    CUBE,
    FORMATS,
    GATHER,
    INTEGER,
    LAYERED,
    NORMALIZED,
    RESULTS,
    SEAMLESS,
    SRGB,
    Case,
    Gpu,
    Texture,
    bits,
    coordinates,
    operands,
    place,
)

THREADS, KEPT = 256, 16
BORDERS = (0.0, 1.0, -1.0, 0.5, 0.3, 255.0, -3.75, 1e-3, 1e30, 65504.0, 7.0, float("inf"))


def size_of(rng: random.Random, geometry: str) -> tuple[int, ...]:
    """Small and odd sizes as often as powers of two."""

    def n() -> int:
        return rng.choice([1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 50, 64])

    layers = rng.choice([1, 2, 3, 5])
    side = n()
    return {
        "1d": (n(),), "2d": (n(), n()), "3d": (n(), rng.randrange(1, 12), rng.randrange(1, 9)), "a1d": (n(), 0, layers), "a2d": (n(), n(), layers),
        "cube": (side, side, 6), "acube": (side, side, 6 * layers),
    }[geometry]  # fmt: skip


def drawn(seed: str, number: int) -> Case:
    """One case."""
    rng = random.Random(f"{seed} {number}")
    name = f"{seed} {number}"
    geometry = rng.choice(["1d", "2d", "2d", "3d", "a1d", "a2d", "cube", "acube"])
    size = size_of(rng, geometry)
    format, channels = rng.choice(list(FORMATS)), rng.choice([1, 2, 4])
    flags = {"a1d": LAYERED, "a2d": LAYERED, "cube": CUBE, "acube": CUBE | LAYERED}.get(geometry, 0)
    normal = NORMALIZED if "cube" in geometry or rng.random() < 0.6 else 0
    whole = format[0] != "f"
    integer = INTEGER if whole and (format.endswith("32") or rng.random() < 0.4) else 0
    linear = not integer and rng.random() < 0.6
    srgb = SRGB if format == "u8" and channels == 4 and not integer and rng.random() < 0.5 else 0
    seamless = SEAMLESS if "cube" in geometry and rng.random() < 0.5 else 0
    kind = rng.choice(["tex", "tex", "level", "gather", "offset", "integers", "halves"])
    if kind == "gather" and geometry not in ("2d", "a2d", "cube"):
        kind = "tex"
    if kind == "offset" and "cube" in geometry:
        kind = "tex"
    if kind == "integers" and "cube" in geometry:
        kind = "level"
    levels = 1
    if kind in ("level", "tex", "offset") and normal and rng.random() < (0.9 if kind == "level" else 0.3):
        levels = rng.randrange(1, max(size[:2]).bit_length() + 1)
    if kind == "gather":
        flags |= GATHER
    if kind == "integers":
        normal, linear = 0, linear and rng.random() < 0.3
    texture = Texture(
        size=size, format=format, channels=channels, flags=flags, levels=levels, linear=linear,
        address=tuple(rng.choice(list(ADDRESS)) for _ in range(3)), read=normal | integer | srgb | seamless,
        mip_linear=rng.random() < 0.5, bias=rng.choice([0.0, 0.0, 0.3, -0.7, 1.5]), least=rng.choice([0.0, 0.0, 0.5, 1.3]), most=rng.choice([10.0, 2.5, 1.0, 0.0]),
        contents="wide" if not whole and rng.random() < 0.2 else "random", border=tuple(rng.choice(BORDERS) for _ in range(4)),
    )  # fmt: skip
    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    layers = {"a1d": size[-1], "a2d": size[-1], "acube": size[-1] // 6}.get(geometry, 1)
    layer = numbers.integers(0, 2 * layers + 1, THREADS).astype(np.uint32)
    axes = {"1d": size[:1], "a1d": size[:1], "3d": size}.get(geometry, size[:2])
    if kind == "integers":
        columns = [numbers.integers(-4, n + 5, THREADS).astype(np.int32).view(np.uint32) for n in axes]
    elif "cube" in geometry:
        direction = numbers.normal(size=(THREADS, 3)).astype(np.float32)
        direction = np.where((numbers.random(THREADS) < 0.3)[:, None], np.round(direction), direction)
        columns = [np.ascontiguousarray(c, np.float32) for c in direction.T]
    else:
        columns = list(coordinates(name, axes, bool(normal), THREADS).T)
    while len(columns) < 3:
        columns.append(np.zeros(THREADS, np.float32))
    lod = numbers.uniform(-1.5, 7, THREADS)
    lod = np.where(numbers.random(THREADS) < 0.3, np.round(lod * 2) / 2, lod).astype(np.float32)
    words = operands(name, [*columns[:3], layer], THREADS)
    words[:, 4:7] = numbers.integers(-8, 8, (THREADS, 3)).astype(np.int32).view(np.uint32)
    words[:, 7] = bits(lod)
    ctype = "s32" if kind == "integers" else "f32"
    dtype = ("u32" if format[0] == "u" else "s32") if integer else "f32"
    if rng.random() < 0.05:
        dtype = rng.choice(["u32", "s32", "f32"])
    where, result, more, opcode = place(geometry, ctype), RESULTS, "", "tex"
    if kind == "level" or (kind == "offset" and rng.random() < 0.4):
        opcode, more = "tex.level", ", %f7"
    if kind == "offset":
        more += {"1": ", {%r4}", "2": ", {%r4,%r5}", "3": ", {%r4,%r5,%r6,%r6}"}[geometry.strip("a")[0]]
    if kind == "gather":
        opcode = f"tld4.{rng.choice('rgba'[:channels] if rng.random() < 0.7 else 'rgba')}"
        more = ", {%r4,%r5}" if "cube" not in geometry and rng.random() < 0.3 else ""
    vector, behind = "v4", ""
    if kind == "halves" and dtype == "f32":
        vector, dtype, result = rng.choice([("v4", "f16", "{%h0,%h1,%h2,%h3}"), ("v2", "f16x2", "{%u0,%u1}")])
        if dtype == "f16":
            behind = "".join(f" cvt.u32.u16 %u{k}, %h{k};" for k in range(4))
    if rng.random() < 0.1:
        result += "|%p"
        behind += " selp.b32 %u3, %u3, 0, %p;"
    text = f"{opcode}.{geometry}.{vector}.{dtype}.{ctype} {result}, [t, {where}]{more};{behind}"
    return Case(f"{name} {text}", texture, text, words, THREADS)


def telling(case: Case) -> bool:
    """Whether a case is kept: levels, slices, light, edges of cubes, borders of fractions. Where an infinity's weight is rounded to
    nothing an H200 counts it at times."""
    texture = case.texture
    fractions = texture.format[1:] in ("8", "16") and "border" in texture.address and not texture.read & INTEGER
    light, edges = texture.read & SRGB, texture.read & SEAMLESS and not texture.linear
    slices = texture.linear and ".3d." in case.instruction
    return texture.contents != "wide" and bool(texture.levels > 1 or slices or light or edges or fractions)


def record(path: str, seed: str, first: int, last: int) -> None:
    """Ask a GPU for some cases; it refuses a few arrays."""
    gpu, answers = Gpu(), {}
    for number in range(first, last):
        try:
            answers[str(number)], _ = gpu.run(drawn(seed, number))
        except OSError as error:
            print(number, error)
    np.savez_compressed(path, seed=seed, **answers)


def sample(path: str, paths: list[str]) -> None:
    """Keep some threads of every fourth telling case of recordings of one seed."""
    numbers, kept = [], []
    for name in paths:
        with np.load(name) as stored:
            seed = str(stored["seed"])
            for number in [n for n in stored.files if n != "seed"]:
                if telling(drawn(seed, int(number))):
                    numbers.append(int(number))
                    kept.append(stored[number][:KEPT])
    order = np.argsort(numbers)[::4]
    np.savez_compressed(path, seed=seed, numbers=np.array(numbers, np.uint16)[order], answers=np.stack(kept)[order])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", path, seed, first, last]:
            record(path, seed, int(first), int(last))
        case ["sample", path, *paths]:
            sample(path, paths)
        case _:
            sys.exit(__doc__)
