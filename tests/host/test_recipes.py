"""Arrays of seeded generators, from NumPy's Philox words by exact arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.host.recipes import DTYPES, LOGICAL, recipe

SIXTEENTH = Fraction(1.7320508075688772 / 65536)


def words(count, seed):
    """The generator's words, as Python's integers."""
    return [int(word) for word in np.random.Philox(key=seed).random_raw(count)]


def made(generator, dtype="f64", count=2000, **more):
    """The values of a recipe."""
    return recipe(generator, (count,), dtype, **more).array()


def test_normal():
    """Sums of four uniform numbers of 16 bits, exact up to two roundings; mean and deviation are those that were asked for."""
    found = made("normal", seed=3)
    sums = [sum(word >> 16 * i & 0xFFFF for i in range(4)) - 2 * 65535 for word in words(2000, 3)]

    assert found.tolist() == [float(total * SIXTEENTH) for total in sums]
    assert abs(found.mean()) < 0.1
    assert abs(found.std() - 1) < 0.05
    assert np.array_equal(made("normal", seed=3, mean=100.0, deviation=4.0), 100.0 + 4.0 * found)


def test_uniform_and_integers():
    """Multiples of 2**-53 between the bounds; both bounds of integers are reached, and nothing beyond."""
    unit = [Fraction(word >> 11, 1 << 53) for word in words(2000, 7)]

    assert made("uniform", seed=7).tolist() == [float(u) for u in unit]
    assert made("uniform", seed=7, low=-2.0, high=6.0).tolist() == [float(8 * u - 2) for u in unit]
    assert made("integers", "s32", seed=7, low=-3, high=4).tolist() == [w % 8 - 3 for w in words(2000, 7)]
    assert made("integers", "f32", seed=7, low=-3, high=4).tolist() == [w % 8 - 3 for w in words(2000, 7)]
    assert made("integers", "u64", seed=7, low=0, high=(1 << 64) - 1).tolist() == words(2000, 7)
    with pytest.raises(warpsim.LaunchError, match="no integers from 4 to 3"):
        made("integers", low=4, high=3)


@pytest.mark.parametrize("dtype", LOGICAL)
def test_any_type(dtype):
    """The highest bits of the words; edges of the type at some places, and ordinary numbers."""
    size = DTYPES[dtype].itemsize
    raw = made("bits", dtype, 500, seed=1)
    hurtful = made("hurtful", dtype, 500, seed=1)

    assert raw.view(f"u{size}").tolist() == [w >> 64 - 8 * size for w in words(500, 1)]
    if raw.dtype.kind in "iu":
        info = np.iinfo(raw.dtype)
        assert {info.min, info.min + 1, info.max, info.max - 1, 0, 1} <= set(hurtful.tolist())
        return
    values = hurtful.astype(np.float64)
    limits = ml_dtypes.finfo(raw.dtype)
    assert np.isnan(values).any()
    for edge in (limits.max, -float(limits.max), limits.tiny, limits.smallest_subnormal, 1.0, -1.0):
        assert float(edge) in values
    assert np.signbit(values[values == 0]).any()
    assert 0.3 < np.mean(np.abs(values) < 3) < 1


def test_plain_ones():
    """Constants and counts."""
    assert made("zeros", "s8", 3).tolist() == [0, 0, 0]
    assert made("full", "f16", 3, value=2.5).tolist() == [2.5] * 3
    assert made("arange", "s32", 4, start=5, step=-2).tolist() == [5, 3, 1, -1]
    assert recipe("arange", (2, 3), "f32").array().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert recipe("uniform", (0, 4)).array().shape == (0, 4)
    for wrong, message in (({"generator": "odd"}, "is not a generator"), ({"dtype": "f9"}, "is not an element type"), ({"value": 2}, "takes mean, deviation, not value")):  # fmt: skip
        with pytest.raises(warpsim.LaunchError, match=message):
            recipe(**{"generator": "normal", "shape": 4, **wrong})
