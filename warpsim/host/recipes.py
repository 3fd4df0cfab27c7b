"""Recipes: arrays made by a seeded generator, with the same bits on every machine and NumPy version.

The bits are raw 64-bit words of NumPy's Philox, whose stream is fixed; everything else follows from them by exact steps
and single roundings.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from warpsim.errors import LaunchError, shown
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen
from warpsim.types import JsonObject

_INTEGER = {f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}") for k in "su" for n in (8, 16, 32, 64)}
DTYPES: dict[str, DType] = {
    **_INTEGER,
    **{f"b{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
}
"""The element types of a case, as stored in data.npz."""
LOGICAL: dict[str, DType] = {
    **DTYPES,
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""The same element types, as numbers."""


def name_of(dtype: DType) -> str | None:
    """A case's name for a NumPy type; None for a type that it stores as bytes."""
    return next((name for name, known in LOGICAL.items() if known == dtype), None)


def element_type(dtype: DTypeLike) -> str:
    """A case's name for a type that a caller gives, by that name or as NumPy's.

    Raises:
        LaunchError: a case has no such type.
    """
    try:
        name = dtype if isinstance(dtype, str) and dtype in LOGICAL else name_of(np.dtype(dtype))
    except Exception:  # whatever an object of the caller's raises
        name = None
    if name is None:
        raise LaunchError(f"{shown(dtype)} is not an element type; element types: {', '.join(LOGICAL)}")
    return name


@frozen
class Recipe:
    """How to make an array: generator, seed, parameters, element type and shape."""

    generator: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    seed: int = 0
    numbers: dict[str, float] = attrs.field(factory=dict)

    def array(self) -> Array:
        """Make the array, in its own element type.

        Raises:
            LaunchError: the generator or the type is unknown, or the parameters do not fit.
        """
        make, takes = GENERATORS.get(self.generator, (None, {}))
        if make is None:
            raise LaunchError(f"{shown(self.generator)} is not a generator; generators: {', '.join(GENERATORS)}")
        if self.dtype not in LOGICAL:
            raise LaunchError(f"{shown(self.dtype)} is not an element type; element types: {', '.join(LOGICAL)}")
        unknown = set(self.numbers) - set(takes)
        if unknown:
            raise LaunchError(
                f"{self.generator} takes {', '.join(takes) or 'no numbers'}, not {', '.join(sorted(unknown))}"
            )
        count = int(np.prod(self.shape, dtype=np.int64))
        words = np.random.Philox(key=self.seed).random_raw(count) if count else np.zeros(0, np.uint64)
        with np.errstate(all="ignore"):
            values = make(np.asarray(words, np.uint64), LOGICAL[self.dtype], **{**takes, **self.numbers})
        return np.ascontiguousarray(values).reshape(self.shape)

    @property
    def seeded(self) -> bool:
        """Whether another seed makes another array."""
        return self.generator not in ("zeros", "full", "arange")

    def described(self) -> JsonObject:
        """The recipe as stored in case.json."""
        return {"generator": self.generator, "seed": self.seed, **self.numbers}


def recipe(
    generator: str, shape: int | tuple[int, ...], dtype: DTypeLike = "f32", *, seed: int = 0, **numbers: float
) -> Recipe:
    """Make an argument that a case stores as a recipe instead of bytes: ``recipe("normal", (64, 64), "f16", seed=3)``.

    Args:
        generator: zeros, full(value), arange(start, step), uniform(low, high), normal(mean, deviation), integers(low,
            high: inclusive), bits (any), hurtful (NaN, infinities, subnormals, the largest and smallest, near-equal
            ones).
        shape: extents.
        dtype: a type of the case format (``f16``, ``e4m3``, ``s32`` ...) or of NumPy.
        seed: the seed of the generator.
        numbers: the generator's own arguments.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    made = Recipe(generator, extents, element_type(dtype), seed, dict(numbers))
    made.array()
    return made


def _normal(words: Array, dtype: DType, mean: float, deviation: float) -> Array:
    """The sum of four uniform 16-bit numbers, with variance 1: exact, where a logarithm would differ between machines."""
    parts = [(words >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4)]
    total = (parts[0] + parts[1] + parts[2] + parts[3]).astype(np.float64) - 2 * 65535.0
    return (mean + deviation * (total * (1.7320508075688772 / 65536))).astype(dtype)


def _integers(words: Array, dtype: DType, low: float, high: float) -> Array:
    span = int(high) - int(low) + 1
    if not 0 < span <= 1 << 64:
        raise LaunchError(f"there are no integers from {low} to {high}")
    chosen = words if span == 1 << 64 else words % np.uint64(span)
    values = chosen + np.uint64(int(low) & (2**64 - 1))
    return values.astype(dtype) if dtype.kind in "iu" else values.view(np.int64).astype(np.float64).astype(dtype)


def _bits(words: Array, dtype: DType) -> Array:
    return (words >> np.uint64(64 - 8 * dtype.itemsize)).astype(f"u{dtype.itemsize}").view(dtype)


def _hurtful(words: Array, dtype: DType) -> Array:
    """Ordinary numbers at every other place, and values at which kernels often fail at the others."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1], dtype)
        return np.where(
            words & np.uint64(1), _bits(words, dtype), edges[(words >> np.uint64(1)) % np.uint64(len(edges))]
        )
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    largest, tiny, least = (float(x) for x in (limits.max, limits.tiny, limits.smallest_subnormal))
    edges = np.array([np.nan, np.inf, -np.inf, largest, -largest, tiny, -tiny, least, -least, 0.0, -0.0, 1.0, -1.0])
    kind = words % np.uint64(32)
    plain = _normal(words, np.dtype(np.float64), 0.0, 1.0)
    close = 1.0 + np.sign(plain) * float(limits.eps)
    values = np.where(kind < 13, edges[np.minimum(kind, 12).astype(np.int64)], np.where(kind < 16, close, plain))
    return values.astype(dtype)


GENERATORS: dict[str, tuple[Callable[..., Array], dict[str, float]]] = {
    "zeros": (lambda words, dtype: np.zeros(words.shape, dtype), {}),
    "full": (lambda words, dtype, value: np.full(words.shape, value).astype(dtype), {"value": 0.0}),
    "arange": (
        lambda words, dtype, start, step: (start + step * np.arange(len(words), dtype=np.float64)).astype(dtype),
        {"start": 0.0, "step": 1.0},
    ),
    "uniform": (
        # multiples of 2**-53 in [0, 1)
        lambda words, dtype, low, high: (low + (high - low) * ((words >> np.uint64(11)) * 2.0**-53)).astype(dtype),
        {"low": 0.0, "high": 1.0},
    ),
    "normal": (_normal, {"mean": 0.0, "deviation": 1.0}),
    "integers": (_integers, {"low": 0.0, "high": 15.0}),
    "bits": (_bits, {}),
    "hurtful": (_hurtful, {}),
}
"""The generators, and their parameters with defaults."""
