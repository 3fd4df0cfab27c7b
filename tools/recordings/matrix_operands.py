"""Operands for matrix instructions, ordinary and adversarial, the same ones wherever they are made.

They come by category, ``EACH`` cases of each: see `triple`. Streams of NumPy's bit generators do not change between versions,
which its distributions may; only the former are used.
"""

from __future__ import annotations

import zlib

import numpy as np

EACH = 16
CATEGORIES = (
    *("any", "near", "wide", "spread", "cancel", "ladder"),
    *("subnormal", "floor", "brink", "overflow", "special", "zeros", "integers"),
)
CASES = EACH * len(CATEGORIES)
FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "f32": (8, 23),
    "f64": (11, 52),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
"""Bits of the exponent and of the fraction; tf32 as the 32 bits of its register."""
BITS = {kind: 1 + sum(parts) for kind, parts in FORMATS.items()} | {
    **{"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32},
}
Shape = tuple[int, ...]
U = np.uint64


class Draw:
    """Random numbers from a name."""

    def __init__(self, name: str) -> None:
        self.source = np.random.PCG64(zlib.crc32(name.encode()))

    def words(self, *shape: int) -> np.ndarray:
        """64-bit words."""
        return self.source.random_raw(int(np.prod(shape))).reshape(shape)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Integers from 0."""
        return (self.words(*shape) % U(limit)).astype(np.int64)

    def chance(self, probability: float, *shape: int) -> np.ndarray:
        """Which of them happen."""
        return (self.words(*shape) >> U(11)).astype(np.float64) < probability * 2.0**53

    def pick(self, values: object, *shape: int) -> np.ndarray:
        """Some of the values."""
        array = np.asarray(values)
        return array[self.below(len(array), *shape)]


def encode(draw: Draw, kind: str, exponent: np.ndarray, fraction: np.ndarray | None = None) -> np.ndarray:
    """Bits of numbers of these exponents (below the least: subnormal), any signs, any fractions."""
    eb, fb = FORMATS[kind]
    bias = (1 << (eb - 1)) - 1
    shape = exponent.shape
    if fraction is None:
        fraction = draw.words(*shape) >> U(64 - fb)
    most = (1 << eb) - (1 if kind == "e4m3" else 2) - bias
    exponent = np.minimum(exponent, most)
    lowered = np.clip(1 - bias - exponent, 0, fb + 1).astype(U)
    field = np.where(lowered > 0, 0, exponent + bias).astype(U)
    rest = np.where(lowered > 0, (fraction | U(1 << fb)) >> lowered, fraction)
    return (draw.words(*shape) & U(1)) << U(eb + fb) | field << U(fb) | rest


def names_of(kind: str) -> np.ndarray:
    """Infinities, NaNs with and without payload in either half of the fraction."""
    eb, fb = FORMATS[kind]
    top, sign = ((1 << eb) - 1) << fb, 1 << (eb + fb)
    quiet = (1 << fb) - 1
    if kind == "e4m3":
        return np.array([top | quiet, sign | top | quiet], U)
    return np.array([top, sign | top, top, sign | top, top | 1, sign | top | quiet, top | 1 << (fb - 1)], U)


def chances(draw: Draw, probability: float | np.ndarray, shape: Shape) -> np.ndarray:
    """Which of them happen, with a probability of each case's own."""
    return (draw.words(*shape) >> U(11)).astype(np.float64) < np.asarray(probability) * 2.0**53


def mixed(draw: Draw, bits: np.ndarray, probability: float | np.ndarray, others: np.ndarray | U) -> np.ndarray:
    """Some elements replaced by others."""
    return np.where(chances(draw, probability, bits.shape), others, bits)


def by_case(values: np.ndarray, shape: Shape) -> np.ndarray:
    """A number of each case along the axes of its elements."""
    return values.reshape(EACH, *([1] * (len(shape) - 1)))


def triple(
    name: str, category: str, kinds: tuple[str, str, str], shapes: tuple[Shape, Shape, Shape]
) -> list[np.ndarray]:
    """Bits (uint64) of A, B and C, ``[EACH, ...]`` each.

    any: all bits; near, wide, spread: exponents around 1, within 2**12 of it, over the whole range; cancel: few magnitudes
    of both signs; ladder: some large terms and others at a distance of 0 to 40 bits; subnormal; floor: products far below the
    least number of the result; brink: a sum at the point where it rounds to nothing or to that number, and others that
    decide; overflow: sums at its largest; special: infinities and NaNs among numbers; zeros of both
    signs with few numbers; integers: from -4 to 4.
    """
    draw = Draw(f"{name} {category}")
    full = [(EACH, *shape) for shape in shapes]
    if kinds[0] not in FORMATS:
        return [integers(draw, category, kind, shape) for kind, shape in zip(kinds, full, strict=True)]
    if category in ("floor", "overflow"):
        return targeted(draw, category, kinds, full)
    if category == "brink":
        return on_the_brink(draw, kinds, full)
    distance = draw.below(41, EACH)
    return [floats(draw, category, k, s, letter, distance) for letter, k, s in zip("abc", kinds, full, strict=True)]


def floats(draw: Draw, category: str, kind: str, shape: Shape, letter: str, distance: np.ndarray) -> np.ndarray:
    """One operand of the categories that need not know of the others."""
    eb, fb = FORMATS[kind]
    bias = (1 << (eb - 1)) - 1
    near = draw.below(3, *shape) - 1
    if category == "any":
        return draw.words(*shape) >> U(63 - eb - fb)
    if category == "near":
        return encode(draw, kind, near)
    if category == "wide":
        return encode(draw, kind, draw.below(2 * min(12, bias - 1) + 1, *shape) - min(12, bias - 1))
    if category == "spread":
        return encode(draw, kind, draw.below(2 * bias + fb, *shape) - bias - fb)
    if category == "cancel":
        fraction = by_case(draw.words(EACH) >> U(64 - fb), shape)
        chosen = np.where(draw.chance(0.5, *shape), fraction, fraction ^ U(1))
        return mixed(draw, encode(draw, kind, by_case(draw.below(3, EACH), shape) + 0 * near, chosen), 0.1, U(0))
    if category == "ladder":
        low = near - by_case(distance, shape)
        rare = by_case(draw.pick([0.0, 0.05, 0.3], EACH), shape)
        ones = np.where(by_case(draw.chance(0.5, EACH), shape), U((1 << fb) - 1), draw.words(*shape) >> U(64 - fb))
        if letter == "b":
            return encode(draw, kind, near, ones)
        return encode(draw, kind, np.where(chances(draw, rare, shape), near, low), ones)
    if category == "subnormal":
        small = encode(draw, kind, 1 - bias - draw.below(fb + 2, *shape))
        often = by_case(draw.pick([0.1, 0.6, 1.0], EACH), shape)
        other = encode(draw, kind, np.where(by_case(draw.chance(0.5, EACH), shape), near, near - (bias >> 1)))
        return np.where(chances(draw, often, shape), small, other)
    if category == "special":
        rare = by_case(draw.pick([0.0, 0.004, 0.04, 0.2], EACH), shape)
        zero = mixed(draw, encode(draw, kind, near), 0.05, U(0))
        return mixed(draw, zero, rare, draw.pick(names_of(kind), *shape))
    if category == "zeros":
        often = by_case(draw.pick([0.5, 0.9, 0.99, 1.0], EACH), shape)
        zero = (draw.words(*shape) & U(1)) << U(eb + fb)
        return np.where(chances(draw, often, shape), zero, encode(draw, kind, near))
    assert category == "integers"
    value = draw.below(5, *shape)
    half = np.where(value == 3, U(1 << (fb - 1)), U(0))
    return np.where(value == 0, U(0), encode(draw, kind, np.array([0, 0, 1, 1, 2])[value], half))


def targeted(draw: Draw, category: str, kinds: tuple[str, str, str], shapes: list[Shape]) -> list[np.ndarray]:
    """Products of an exponent given: around the least or the largest of the result."""
    eb, fb = FORMATS[kinds[2]]
    bias = (1 << (eb - 1)) - 1
    least, spread = (1 - bias - fb - 14, fb + 16) if category == "floor" else (bias - 4, 6)
    target = least + draw.below(spread, EACH)
    found = []
    half = [(1 << (FORMATS[kind][0] - 1)) - 1 for kind in kinds[:2]]
    room = min(half) - 2
    a = np.clip(target // 2 + draw.below(2 * room // 3 + 1, EACH) - room // 3, -half[0] - FORMATS[kinds[0]][1], half[0])
    for kind, shape, exponent in zip(kinds, shapes, (a, target - a, target + draw.below(5, EACH) - 2), strict=True):
        jitter = draw.below(3, *shape) - 1
        ones = np.where(
            by_case(draw.chance(0.4, EACH), shape),
            U((1 << FORMATS[kind][1]) - 1),
            draw.words(*shape) >> U(64 - FORMATS[kind][1]),
        )
        bits = encode(draw, kind, by_case(exponent, shape) + jitter, ones)
        often = by_case(draw.pick([0.0, 0.5, 0.95], EACH), shape)
        found.append(np.where(chances(draw, often, shape), U(0), bits))
    return found


def on_the_brink(draw: Draw, kinds: tuple[str, str, str], shapes: list[Shape]) -> list[np.ndarray]:
    """Powers of two, large, small or zero, so that the product of two large ones is half of the least number of an f16 result,
    or the least of another: what is added far below decides."""
    eb, fb = FORMATS[kinds[2]]
    target = 1 - ((1 << (eb - 1)) - 1) - fb - (1 if kinds[2] == "f16" else 0)
    jitter = draw.pick([0, 0, 0, 1, -1], EACH)
    found = []
    for kind, shape, exponent in zip(
        kinds[:2], shapes, (target // 2 + jitter, target - target // 2 - jitter), strict=False
    ):
        lower = by_case(exponent - draw.below(13, EACH) - 1, shape) - draw.below(2, *shape)
        large, zero = draw.chance(0.2, *shape), draw.chance(0.5, *shape)
        few = draw.words(*shape) >> U(64 - FORMATS[kind][1]) & by_case(
            draw.pick([0, 0, (1 << FORMATS[kind][1]) - 1], EACH), shape
        ).astype(U)
        bits = encode(draw, kind, np.where(large, by_case(exponent, shape), lower), np.where(large, U(0), few))
        found.append(np.where(zero, U(0), bits))
    c = encode(draw, kinds[2], draw.below(4, *shapes[2]) + target, U(0) * draw.words(*shapes[2]))
    return [*found, np.where(draw.chance(0.7, *shapes[2]), U(0), c)]


def integers(draw: Draw, category: str, kind: str, shape: Shape) -> np.ndarray:
    """Integers of any, small, extreme and zero values; an s32 C also close to its ends."""
    bits = BITS[kind]
    plain = draw.words(*shape) >> U(64 - bits)
    top = 1 << (bits - 1)
    if category in ("any", "near", "wide", "spread"):
        return plain
    if category in ("cancel", "ladder", "subnormal", "brink", "integers"):
        return (draw.below(3, *shape) - 1).astype(U) & U(2 * top - 1)
    if category == "zeros":
        return np.where(draw.chance(0.9, *shape), U(0), plain)
    if kind == "s32":
        edges = np.array([top - 1, top, top - 300, top + 300, top - 70000, top + 70000], U)
        return np.where(draw.chance(0.7, *shape), draw.pick(edges, *shape), plain)
    return draw.pick(np.array([top, top - 1, 2 * top - 1, 0, 1 & (2 * top - 1)], U), *shape)


def packed(bits: np.ndarray, width: int) -> np.ndarray:
    """Elements ``[..., n]`` as the 32-bit words of registers (64-bit ones as they are)."""
    if width >= 32:
        return bits.astype(f"u{width // 8}")
    per = 32 // width
    parts = bits.reshape(*bits.shape[:-1], -1, per)
    words = np.zeros(parts.shape[:-1], U)
    for place in range(per):
        words |= parts[..., place] << U(place * width)
    return words.astype(np.uint32)
