"""Affine values compare as the arrays that they stand for, or not at all."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from warpsim.machine.values import Affine, NotAffine

EXTENTS = (2, 3, 1, 5)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def some(rng: np.random.Generator, dtype: np.dtype[np.generic]) -> Affine:
    """An affine value, often near the edges of its type, where it wraps."""
    info = np.iinfo(dtype)  # type: ignore[type-var]
    edges = [0, 1, 7, info.max, info.max - 9, info.min, info.min + 3]
    base = edges[int(rng.integers(len(edges)))]
    strides = tuple(0 if e == 1 or rng.random() < 0.5 else int(rng.integers(-4, 5)) for e in EXTENTS)
    return Affine(base, strides, EXTENTS, dtype)


@pytest.mark.parametrize("name", ["u2", "i2", "u4", "i4", "u8", "i8"])
def test_comparisons_are_those_of_arrays(name: str) -> None:
    """Every decided comparison holds for all lanes, and enough of them are decided."""
    rng, dtype, decided = np.random.default_rng(3), np.dtype(name), 0
    for _ in range(400):
        a, b = some(rng, dtype), some(rng, dtype)
        for compare in COMPARISONS:
            try:
                outcome = compare(a, b)
            except NotAffine:
                continue
            decided += 1
            assert outcome.shape == (1,)
            assert (compare(a.array(), b.array()) == outcome).all(), (compare, a.base, a.strides, b.base, b.strides)
    assert decided > 400
