"""A few lanes take other ways than many, to the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.numerics import floating
from warpsim.numerics.arrays import FEW, among, distinct

SPECIAL = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0x3F800001, 0xBF800000, 0x33800000, 0x34000000,
     0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x20000000, 0x1F800000, 0x0D000000],
    np.uint32,
).view(np.float32)  # fmt: skip


def operands(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """``[3, n]``: every combination of special values, and products near ties and near the subnormal numbers."""
    every = np.stack(np.meshgrid(SPECIAL, SPECIAL, SPECIAL)).reshape(3, -1)
    rest = rng.integers(0, 1 << 32, (3, n - every.shape[1]), dtype=np.uint64).astype(np.uint32)
    rest[:2, ::3] = rest[:2, ::3] & 0x00FFF000 | 0x3F000000  # few significant bits: ties
    rest[2, ::3] = rest[2, ::3] & 0x00FFFFFF | 0x4A000000
    rest[:2, 1::3] = rest[:2, 1::3] & 0x01FFFFFF | 0x1F000000
    rest[2, 1::3] &= 0x01FFFFFF
    return np.concatenate([every, rest.view(np.float32)], axis=1)


def test_few_lanes_get_the_bits_of_many() -> None:
    """Multiply-add, least, greatest and canonical NaN, in pieces of 32 lanes and all at once."""
    a, b, c = operands(4 * FEW, np.random.default_rng(5))
    with np.errstate(all="ignore"):
        for function in (
            floating.fma,
            lambda x, y, z: floating.extreme(x, y, is_least=True),
            lambda x, y, z: floating.extreme(y, z, is_least=False),
            lambda x, y, z: floating.canonical(x.copy()),
        ):
            whole = function(a, b, c)
            parts = [function(*(v[k : k + 32] for v in (a, b, c))) for k in range(0, len(a), 32)]
            assert np.array_equal(np.concatenate(parts).view(np.uint32), whole.view(np.uint32))


def test_uniform_addends_round_as_those_of_every_lane() -> None:
    """Sums of many lanes at ties and below the normal range, of an addend that differs by row only."""
    a, b, c = operands(4 * FEW, np.random.default_rng(7)).reshape(3, FEW // 16, 64)
    c = c[:, 1:2]
    with np.errstate(all="ignore"):
        found = floating.fma(a, b, c)
        each = [floating.fma(x, y, np.repeat(z, 64)) for x, y, z in zip(a, b, c, strict=True)]
    assert np.array_equal(found.view(np.uint32), np.stack(each).view(np.uint32))


def test_different_elements_and_membership() -> None:
    """What Python's own sets say, of no elements, one, and several axes."""
    rng, others = np.random.default_rng(7), np.arange(-12, 12).reshape(4, 6)
    for shape in ((0,), (1,), (40,), (5, 4), (3, 2, 7)):
        values = rng.integers(-9, 9, shape)
        wanted, found = set(values.reshape(-1).tolist()), distinct(values)
        assert found.tolist() == sorted(wanted)
        assert among(others, found).tolist() == [[v in wanted for v in row] for row in others.tolist()]
