"""Texture coordinates and filtering, as an H200 does them (tests/data/textures_h200.npz)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from warpsim.numerics.arrays import Array
from warpsim.records import frozen

GUARD, GROUP = 4, 4
"""Bits that are kept below the last one of a group's largest element, and how many elements a group has at most: levels, and slices
of one, are apart."""
_FAR = 1 << 40
SHORTER, SHORTEST, DIAGONAL = 11 / 32, 127 / 512, 703 / 1024
LOGARITHM = (
    "02211212112121121121121121121121112111211121112111121111211111211111211111112111111111121111111111111111111111112110111111111111"
    "11111111111110111111111110111111110111111101111111011111011111011111011110111101111011110111011110111011101110111011101110110110"
)
"""By how much an H200's logarithm grows with each of the 256 steps between powers of two, in steps of 1/256."""
LIGHT = (
    "0001a02202702a02c82f030c32033434835c37038439039c3aa3b83c63d63e63f640340c41641f42943443e44945546046c47a48348a49149849f4a64ae4b6"
    "4be4c64ce4d74e04e94f24fc50350850d51251751c52252852d53353953f54554c55255856056656c57457a58158558858c59059459859c5a05a45a95ad5b1"
    "5b65ba5bf5c35c85cd5d15d65db5e05e55ea5f05f45fa60060260560860b60e61161461761a61d62062362662962c63063363663a63d64064464764b64e652"
    "65665965d66166566866c67067467867c68068268468668868a68d68f69169369569869a69c69e6a16a36a56a86aa6ad6af6b26b46b66b96bc6be6c16c36c6"
    "6c86cb6ce6d16d36d66d96db6de6e16e46e76ea6ed6f06f26f66f86fc6fe70170270470570770970a70c70d70f71171271471671771971b71c71e720721723"
    "72572772972a72c72e73073273373573773973b73d73f74174374574774974b74d74f75175375575775975b75d75f76176376576876a76c76e770772774776"
    "77a77c77e780"
)
"""The eighths of the bits of the halves that bytes in sRGB stand for, three digits each."""


@frozen
class Footprint:
    """Where a coordinate reads along one axis: two neighbours, the weight of the second (of 256), whether each is inside."""

    first: Array
    second: Array
    weight: Array
    first_inside: Array
    second_inside: Array


def elements_of(x: Array, n: int, mode: str, *, normalized: bool) -> Array:
    """A coordinate (f32) in elements (f64). NaN is 0. A normalised one is cut to 21 bits behind the point; where it wraps, infinity
    is 0."""
    wide = x.astype(np.float64)
    if not normalized:
        return np.nan_to_num(wide, nan=0.0, posinf=_FAR, neginf=-_FAR)
    if mode in ("wrap", "mirror"):
        with np.errstate(invalid="ignore"):
            wide = np.fmod(wide, 2.0)
        return np.floor(np.nan_to_num(wide, nan=0.0) * 2.0**21) / 2.0**21 * n
    return np.floor(np.nan_to_num(wide, nan=0.0, posinf=_FAR, neginf=-_FAR) * 2.0**21) / 2.0**21 * n


def point(x: Array, n: int, mode: str, *, normalized: bool, offset: Array | int = 0) -> tuple[Array, Array]:
    """The element that a coordinate is in (int64), and whether it is inside."""
    place = np.floor(elements_of(x, n, mode, normalized=normalized)).clip(-_FAR, _FAR).astype(np.int64)
    return addressed(place + offset, n, mode if normalized or mode == "border" else "clamp")


def addressed(place: Array, n: int, mode: str) -> tuple[Array, Array]:
    """The element of a place by the mode for places outside, and whether it is inside."""
    inside = (place >= 0) & (place < n)
    if mode == "wrap":
        return place % n, np.ones_like(inside)
    if mode == "mirror":
        turn = place % (2 * n)
        return np.where(turn >= n, 2 * n - 1 - turn, turn), np.ones_like(inside)
    return place.clip(0, n - 1), inside | (mode != "border")


def linear(x: Array, n: int, mode: str, *, normalized: bool, offset: Array | int = 0) -> Footprint:
    """The neighbours of a coordinate and their weights, in steps of 1/256, halves up. Where it is clamped, one has all the weight."""
    place = elements_of(x, n, mode, normalized=normalized).clip(-_FAR, _FAR)
    steps = np.floor((place - 0.5) * 256 + 0.5).astype(np.int64)
    first, weight = (steps >> 8) + offset, steps & 255
    mode = mode if normalized or mode == "border" else "clamp"
    (one, one_in), (two, two_in) = addressed(first, n, mode), addressed(first + 1, n, mode)
    if mode == "clamp":
        weight = np.where((first < 0) | (first >= n - 1), 0, weight)
    return Footprint(one, two, weight, one_in, two_in)


def _rounded(product: Array) -> Array:
    return product + 128 >> 8


def corner_weights(weights: Sequence[Array], share: Array | int = 256) -> list[tuple[tuple[int, ...], Array]]:
    """The weight of each corner of a footprint of one to three axes, ``share`` in all, from the weights of its second neighbours."""
    if len(weights) == 3:
        first = _rounded((256 - weights[2]) * share)
        parts = ((first, (0,)), (share - first, (1,)))
        return [((*corner, *z), w) for part, z in parts for corner, w in corner_weights(weights[:2], part)]
    right = _rounded(weights[0] * share)
    left = share - right
    if len(weights) == 1:
        return [((0,), left), ((1,), right)]
    lower_right, upper_left = _rounded(right * weights[1]), _rounded(left * (256 - weights[1]))
    return [
        ((0, 0), upper_left),
        ((1, 0), right - lower_right),
        ((0, 1), left - upper_left),
        ((1, 1), lower_right),
    ]


def weighted(elements: Sequence[Array], format: str, weights: Sequence[Array], of_level: int = 1) -> Array:
    """The weighted sum of raw elements of a format that are read as floats, f32. ``of_level`` of them are of the first level, as many of
    the next, if any. Weights are integers, 256 together.

    Light (``srgb``) has eight bits; an H200 takes its exponent from the upper five bits of the byte: that of the most light they begin.
    """
    values, shares = np.stack(np.broadcast_arrays(*elements)), np.stack(np.broadcast_arrays(*weights))
    group = min(of_level, GROUP)
    if format == "srgb":
        light = linear_light(values).astype(np.float64)
        return _floating(light, shares, 11, 8, linear_light(values | 7).astype(np.float64), group)
    if format[0] == "f":
        values, precision = values.astype(np.float64), 24 if format == "f32" else 11
        return _floating(values, shares, precision, precision + GUARD, values, group)
    total = (values.astype(np.int64) * shares).sum(0)
    if format in ("u8", "u16"):
        total = total * 257 if format == "u8" else total
        return ((total + 128 >> 8) / 65535).astype(np.float32)
    whole = total + 128 >> 8 if format == "s16" else total + ((total >> 4) + (total >> 12) + 4 >> 3)
    return (whole.clip(-32767, 32767) / 32767).astype(np.float32)


def weighted_whole(elements: Sequence[Array], weights: Sequence[Array]) -> Array:
    """The weighted sum of integers that are read as integers, u32: rounded half up, of 32 bits down."""
    values, shares = np.stack(np.broadcast_arrays(*elements)), np.stack(np.broadcast_arrays(*weights))
    total = (values.astype(np.int64) * shares).sum(0) + (0 if values.dtype.itemsize == 4 else 128)
    return (total >> 8).astype(np.uint32)


def _floating(values: Array, shares: Array, precision: int, kept: int, bounds: Array, group: int) -> Array:
    """In each ``group`` elements are cut to ``kept`` bits below the exponent of the largest of ``bounds``, subnormal f32 to 0; the sum
    of all is rounded, halves away from zero."""
    finite = np.where(np.isfinite(values) & (np.abs(values) >= 2.0**-126), values, np.copysign(0.0, values))
    exponents = np.where((shares > 0) & (finite != 0), np.frexp(bounds)[1], -200)
    apart = (len(values) // group, group, *values.shape[1:])
    grid = np.ldexp(1.0, exponents.reshape(apart).max(1, keepdims=True) - kept)
    cut = (np.trunc(finite.reshape(apart) / grid) * grid).reshape(values.shape)
    total = np.where(shares > 0, cut * shares, -0.0).sum(0, initial=-0.0) / 256
    unit = np.maximum(np.ldexp(1.0, np.frexp(total)[1] - precision), 2.0**-24 if precision == 11 else 0.0)
    result = np.copysign(np.floor(np.abs(total) / unit + 0.5) * unit, total)
    if not np.isfinite(values).all():
        with np.errstate(invalid="ignore"):
            special = np.where(shares > 0, values, 0.0).sum(0)
        result = np.where(np.isfinite(special), result, special)
    return result.astype(np.float32)


def as_float(raw: Array, format: str, channel: int = 0) -> Array:
    """Single elements as floats, f32: integers of 8 and 16 bits are fractions; those of 32 bits keep their bits."""
    if format == "a2b10g10r10":
        return (raw / np.float64(3 if channel == 3 else 1023)).astype(np.float32)
    if format[1:] == "32":
        return raw.view(np.float32)
    if format == "f16":
        return raw.astype(np.float32)
    scale = {"u8": 255, "u16": 65535, "s8": 127, "s16": 32767}[format]
    return np.maximum(raw.astype(np.float64) / scale, -1.0).astype(np.float32)


def as_integer(raw: Array) -> Array:
    """Single elements as integers of 32 bits, sign-extended."""
    if raw.dtype.kind == "f":
        return raw.astype(np.float32).view(np.uint32)
    return raw.astype(np.int32).view(np.uint32) if raw.dtype.kind == "i" else raw.astype(np.uint32)


def levels(lod: Array | float, bias: float, least: float, most: float, n: int) -> Array:
    """The level of detail in steps of 1/256 (int64), biased and bounded: by ``least`` where that is above ``most``. Any NaN is 0."""
    wanted, more, low, high = (
        np.nan_to_num(np.asarray(level, np.float64), nan=0.0).clip(-1e6, 1e6) * 256
        for level in (lod, bias, least, most)
    )
    steps = np.trunc(wanted) + np.trunc(more)
    return np.maximum(np.minimum(steps, np.floor(high)), np.floor(low)).clip(0, 256 * (n - 1)).astype(np.int64)


def face(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
    """The face of a cube that a direction meets, and where (normalised coordinates, f64)."""
    a, b, c = np.abs(x), np.abs(y), np.abs(z)
    along_z = (c >= a) & (c >= b)
    along_y = ~along_z & (b >= a)
    number = np.where(along_z, np.where(z < 0, 5, 4), np.where(along_y, np.where(y < 0, 3, 2), np.where(x < 0, 1, 0)))
    across, down, major = _on_face(number, x, y, z)
    with np.errstate(invalid="ignore", divide="ignore"):
        places = [np.nan_to_num((part / major + 1) / 2, nan=0.5) for part in (across, down)]
    return number, places[0], places[1]


def _on_face(number: Array, x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
    """A vector along a face's two axes and towards it, f64."""
    across = np.choose(number, [-z, z, x, x, x, -x]).astype(np.float64)
    down = np.choose(number, [-y, -y, z, -z, -y, -y]).astype(np.float64)
    return across, down, np.choose(number, [x, -x, y, -y, z, -z]).astype(np.float64)


def step_on_cube(number: Array, at: tuple[Array, ...], gradient: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
    """How far a step from a direction goes along the axes of its face ``number``, on the cube unfolded around that, and whether to
    another face. ptxas makes tex.grad of cubes a call that takes such steps."""
    there = [(x + np.broadcast_to(as_f32(d), x.shape)).astype(np.float32) for x, d in zip(at, gradient, strict=False)]
    other = face(*there)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        across, down, height = (part / np.abs(there).max(0) for part in _on_face(number, *there))
        beside = other // 2 == np.choose(number // 2, [2, 0, 0])
        beyond = other // 2 == np.choose(number // 2, [1, 2, 1])
        across = np.where(beside, np.sign(across) * (2 - height), across)
        down = np.where(beyond, np.sign(down) * (2 - height), down)
        x, y, major = _on_face(number, *at)
        return ((across - x / major) / 2, (down - y / major) / 2), other != number


def step(at: Sequence[Array], gradient: tuple[Array, ...]) -> tuple[Array, ...]:
    """How far a step goes in f32. ptxas makes tex.grad of three dimensions a call that takes such steps."""
    with np.errstate(invalid="ignore"):
        return tuple([np.nan_to_num((x + as_f32(d)) - x, nan=0.0) for x, d in zip(at, gradient, strict=False)])


def as_f32(values: Array) -> Array:
    """Values as f32."""
    return np.asarray(values).astype(np.float32)


def linear_light(raw: Array) -> Array:
    """Bytes in sRGB as light, f16."""
    return _light()[raw]


def in_srgb(light: float) -> Array:
    """The byte in sRGB that is nearest to light, from 0 to 1."""
    light = min(max(light, 0.0), 1.0)
    return np.array(
        round(255 * (12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055)), np.uint8
    )


@functools.cache
def _light() -> Array:
    """The 256 values, as an H200 has them."""
    return np.array([int(LIGHT[k : k + 3], 16) << 3 for k in range(0, 768, 3)], np.uint16).view(np.float16)


def level_of(
    dx: tuple[Array, ...], dy: tuple[Array, ...], sizes: tuple[int, ...], *, apart: Array | bool = False
) -> Array:
    """The level of detail that gradients ask for, in whole steps of 1/256 (f64): that of the longest of both and of `DIAGONAL` of
    their sum and difference, which do not count where steps lead to faces ``apart``. A length, in elements, is the greatest
    component, `SHORTER` of the next and `SHORTEST` of the last. An H200's level is at most 2 steps from it.
    """
    parts = [np.asarray(g).astype(np.float64) * n for d in (dx, dy) for g, n in zip(d, sizes, strict=False)]
    x, y = np.split(np.stack(np.broadcast_arrays(*parts)), 2)
    lengths = [_length(vector) for vector in (x, y)]
    lengths += [np.where(apart, 0.0, DIAGONAL * _length(vector)) for vector in (x + y, x - y)]
    length = np.nan_to_num(np.maximum.reduce(lengths), nan=0.0, posinf=2.0**100)
    fraction, exponent = np.frexp(length)
    steps = _logarithms()[((fraction * 2 - 1) * 256).astype(np.int64).clip(0, 255)]
    return np.where(length > 0, (exponent - 1) + steps / 256, -1e6)


def _length(vector: Array) -> Array:
    """About how long vectors ``[axes, ...]`` are."""
    greatest_first = np.sort(np.abs(vector), 0)[::-1]
    weights = np.array([1.0, SHORTER, SHORTEST][: len(vector)])
    return np.tensordot(weights, greatest_first, 1)


@functools.cache
def _logarithms() -> Array:
    """256 times the logarithm of 1 + k/256 to the base 2, for k from 0 to 255, as an H200 has it."""
    return np.cumsum(np.array([int(step) for step in LOGARITHM]))


def across_edges(
    number: Array, places: Sequence[Array], n: int, share: Array | int
) -> list[tuple[Array, Array, Array, Array]]:
    """The four elements around a place on a cube's face of ``n`` x ``n``, those beyond an edge on the next face: face, x, y, and weight
    (``share`` in all). What lies beyond a corner is no element: a third of its weight each, rounded, goes to the two beside it, the
    rest to the one inside.
    """
    steps = [np.floor((elements_of(p, n, "clamp", normalized=True) - 0.5) * 256 + 0.5).astype(np.int64) for p in places]
    weighed = corner_weights([s & 255 for s in steps], share)
    found, gone = [], []
    for (right, lower), weight in weighed:
        x, y = (steps[0] >> 8) + right, (steps[1] >> 8) + lower
        beside, below = (x < 0) | (x >= n), (y < 0) | (y >= n)
        gone.append(np.where(beside & below, weight, 0))
        s, t = (2 * x + 1) / n - 1, (2 * y + 1) / n - 1
        s, t = np.where(beside, np.sign(s), s), np.where(below, np.sign(t), t)
        m = np.where(beside | below, 1 - 1 / n, 1.0)
        direction = (
            np.choose(number, [m, -m, s, s, s, -s]),
            np.choose(number, [-t, -t, m, -m, -t, -t]),
            np.choose(number, [-s, s, t, -t, m, -m]),
        )
        on, u, v = face(*direction)
        u, v = (np.floor(place * n).astype(np.int64).clip(0, n - 1) for place in (u, v))
        found.append((on, u, v, np.where(beside & below, 0, weight)))
    thirds = [(2 * w + 3) // 6 for w in gone]
    order = [corner for corner, _ in weighed]
    given = []
    for (right, lower), (on, u, v, weight) in zip(order, found, strict=True):
        inside, side, end = (order.index(c) for c in ((1 - right, 1 - lower), (1 - right, lower), (right, 1 - lower)))
        more = gone[inside] - 2 * thirds[inside] + thirds[side] + thirds[end]
        given.append((on, u, v, weight + more))
    return given
