"""Values: integers that are affine in the axes of a group, against plain integers modulo 2**N; bits as other types."""

import itertools
import operator
import random

import numpy as np
import pytest

from warpsim.machine.values import Affine, NotAffine, as_array, extend, may_depend_less, reduced, retype, tracked

EXTENTS = (2, 3, 1, 4)
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
PLACES = list(itertools.product(*map(range, EXTENTS)))
WIDE = np.dtype([("lo", "<u8"), ("hi", "<u8")])


def wrapped(value, dtype):
    """An integer as one of a type."""
    value &= (1 << 8 * dtype.itemsize) - 1
    return value - (1 << 8 * dtype.itemsize) if dtype.kind == "i" and value >> (8 * dtype.itemsize - 1) else value


def drawn(dtype, generator, uniform=False):
    """A base and strides, some of them near the ends of the type."""
    top = 1 << 8 * dtype.itemsize
    numbers = [generator.choice([0, 1, 3, top // 2 - 1, top // 2, top - 2, generator.randrange(top)]) for _ in range(5)]
    return numbers[0], (0, 0, 0, 0) if uniform else tuple(
        n if e > 1 else 0 for n, e in zip(numbers[1:], EXTENTS, strict=True)
    )


def affine(base, strides, dtype):
    """The value of these numbers, as the machine would hold it."""
    half = 1 << (8 * dtype.itemsize - 1)
    return Affine(wrapped(base, dtype), tuple((s + half) % (2 * half) - half for s in strides), EXTENTS, dtype)


def numbers(value):
    """The elements of a value at every place of the group."""
    return np.broadcast_to(value.array(), EXTENTS).reshape(-1).tolist()


def at(base, strides, place):
    """The value at a place, not wrapped."""
    return base + sum(s * i for s, i in zip(strides, place, strict=True))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul], ids=lambda op: op.__name__)
def test_arithmetic(op, dtype):
    """Sums, differences and products with what all threads share are those of integers, wrapped."""
    generator = random.Random(dtype.str)
    for _ in range(20):
        a, b = drawn(dtype, generator), drawn(dtype, generator, uniform=op is operator.mul)
        expected = [wrapped(op(at(*a, p), at(*b, p)), dtype) for p in PLACES]

        assert numbers(op(affine(*a, dtype), affine(*b, dtype))) == expected
        assert numbers(op(affine(*a, dtype), b[0])) == [wrapped(op(at(*a, p), b[0]), dtype) for p in PLACES]
        assert numbers(op(b[0], affine(*a, dtype))) == [wrapped(op(b[0], at(*a, p)), dtype) for p in PLACES]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_and_signs(dtype):
    """Shifts by what all threads share multiply; a negated value is that of integers."""
    generator = random.Random(dtype.str)
    for _ in range(20):
        a, by = drawn(dtype, generator), generator.randrange(8 * dtype.itemsize)

        assert numbers(affine(*a, dtype) << by) == [wrapped(at(*a, p) << by, dtype) for p in PLACES]
        assert numbers(-affine(*a, dtype)) == [wrapped(-at(*a, p), dtype) for p in PLACES]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(INTEGERS, INTEGERS)), ids=str)
def test_conversions(old, new):
    """Converted values are the same integers, wrapped; where a value wraps in its own type, a wider one is none that is affine."""
    generator = random.Random(old.str + new.str)
    for _ in range(5):
        a = drawn(old, generator)
        value = affine(*a, old)
        low, high = value.limits()
        exact = wrapped(low, old) == low and wrapped(high, old) == high
        if value.uniform or new.itemsize <= old.itemsize or exact:
            assert numbers(value.astype(new)) == [wrapped(v, new) for v in numbers(value)]
        else:
            with pytest.raises(NotAffine):
                value.astype(new)
        if new.itemsize == old.itemsize:
            assert numbers(value.view(new)) == [wrapped(v, new) for v in numbers(value)]


@pytest.mark.parametrize(
    "use",
    [
        lambda v: v * v,
        lambda v: v << 32,
        lambda v: v << v,
        lambda v: v + 1.5,
        lambda v: v.view(np.dtype(np.uint64)),
        lambda v: v.astype(np.float32),
        bool,
        np.asarray,
    ],
)
def test_what_is_not_affine(use):
    """Everything else is left to arrays, and says so."""
    with pytest.raises(NotAffine):
        use(affine(0, (1, 2, 0, 3), np.dtype(np.uint32)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_constants(dtype):
    """A number that all threads share is wrapped into its type."""
    for value in (0, -1, 1 << 70, (1 << 8 * dtype.itemsize) - 1, 1 << (8 * dtype.itemsize - 1)):
        assert Affine.constant(value, dtype).array().tolist() == [wrapped(value, dtype)]
        assert Affine.constant(value, dtype).point().tolist() == wrapped(value, dtype)


def test_bits_as_other_types():
    """A register read as a type of its size keeps its bits, as a smaller one the low ones; as a wider one it is extended."""
    words = np.array([0x8001_80FE, 0x7FFF_0001], np.uint32)

    assert retype(words, np.dtype(np.int32)).tolist() == [0x8001_80FE - (1 << 32), 0x7FFF_0001]
    assert retype(words, np.dtype(np.uint16)).tolist() == [0x80FE, 1]
    assert retype(words, np.dtype(np.int8)).tolist() == [-2, 1]
    assert retype(words, np.dtype(np.uint64)).tolist() == [0x8001_80FE, 0x7FFF_0001]
    assert extend(words, 8, signed=True).tolist() == [0x8001_80FE - (1 << 32), 0x7FFF_0001]
    assert extend(words, 8, signed=False).tolist() == [0x8001_80FE, 0x7FFF_0001]


def test_bits_of_128():
    """The low half is what narrower types see; what is widened has zeros, or copies of the sign, above."""
    words = np.array([0x8001_80FE, 1], np.uint32)

    assert retype(words, WIDE).tolist() == [(0x8001_80FE, 0), (1, 0)]
    assert extend(words, 16, signed=True)["lo"].tolist() == [(1 << 64) - (1 << 32) + 0x8001_80FE, 1]
    assert retype(np.array([(5, 7), (1 << 40, 0)], WIDE), np.dtype(np.uint32)).tolist() == [5, 0]


def test_axes_of_one():
    """An axis of one element changes nothing, whatever its stride."""
    value = Affine(7, (0, 5, 3, 0), (1, 1, 1, 4), np.dtype(np.uint8))

    assert value.array().tolist() == [7]
    assert value.limits() == (7, 7)
    assert Affine(250, (0, 0, 0, 9), (1, 1, 1, 4), np.dtype(np.uint8)).array().reshape(-1).tolist() == [250, 3, 12, 21]


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float32, np.bool_])
@pytest.mark.parametrize("axes", [(1, 1, 1, 1), (4, 8, 2, 3), (1, 8, 2, 3), (1, 1, 2, 3), (4, 1, 1, 3), (4, 8, 1, 1)])
@pytest.mark.parametrize("last", [False, True])
def test_reduced_values_are_the_same(dtype, axes, last):
    """What all threads of a CTA have alike loses their axes, and nothing else changes; one thread that differs is enough."""
    array = np.broadcast_to(np.arange(np.prod(axes)).reshape(axes).astype(dtype), (4, 8, 2, 3)).copy()
    if last:
        array[1, 2, 1, 0] += dtype(1)
    found = reduced(array)

    assert found.dtype == array.dtype
    assert (np.broadcast_to(as_array(found), array.shape) == array).all()
    alike = np.dtype(dtype).kind in "iu" and (array == array[:1, :1]).all()
    assert (found is array) != alike
    assert (type(found) is Affine) == (alike and (array == array[0, 0, 0, 0]).all())


SHAPE = 4, 8, 2, 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, np.float32, np.float16, np.bool_])
@pytest.mark.parametrize("axes", [(1, 1, 1, 1), (4, 8, 2, 3), (1, 8, 2, 3), (4, 1, 1, 3), (1, 8, 1, 1), (4, 8, 1, 1)])
@pytest.mark.parametrize("kind", ["straight", "wrapping", "constant", "odd", "halves", "corner"])
def test_tracked_values_are_the_same(dtype, axes, kind):
    """Lanes with a base and strides are affine, others lose the axes on which they do not depend; every bit is as before."""
    i, j, k, n = np.indices(axes)
    made = {
        "straight": 5 + 3 * i + 7 * j + 11 * k + 2 * n,
        "wrapping": 250 - 3 * i + 100 * j - 90 * k + n,
        "constant": 9 + 0 * i,
        "odd": (i * j + k) ^ n,
        "halves": (i > 1) + 2 * (j > 3) + 0 * k,
        "corner": 3 * i + j + (i * j == 3),
    }[kind]
    array = np.broadcast_to(made.astype(dtype), SHAPE).copy()
    found = tracked(array)
    whole = np.broadcast_to(as_array(found), SHAPE)

    assert found.dtype == array.dtype
    assert whole.tobytes() == array.tobytes()
    assert may_depend_less(np.stack([array[::-1], array]))[1] >= (found is not array)
    if kind in ("straight", "wrapping", "constant") and np.dtype(dtype).kind in "iu":
        assert type(found) is Affine
    if type(found) is not Affine:
        depends = [(array != array[(slice(None),) * axis + (slice(1),)]).any() for axis in range(4)]
        assert found.shape == tuple(extent if it else 1 for extent, it in zip(SHAPE, depends, strict=True))


def test_registers_without_a_pattern_are_left_as_they_are():
    """Of several registers side by side, only those whose corners allow it are looked at."""
    i, j, k, n = np.indices(SHAPE, np.uint32)
    registers = np.stack(
        [7919 * (i * j + 1) ^ 31 * k ^ n * n * 5, 3 * i + j + 0 * k + 2 * n, 7 * i * (j + 1) + n + 0 * k]
    )

    assert may_depend_less(registers) == [False, True, True]
    assert may_depend_less(registers.astype(np.float32)) == [False, True, True]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_registers_narrower_than_their_threads_are_counted(dtype):
    """A value that grows along more threads than its type has numbers wraps around."""
    threads = np.arange(1 << 17).reshape(1, 1 << 15, 2, 2)
    registers = np.stack([3 * threads, 3 * threads ^ (threads & threads >> 3)]).astype(dtype)

    assert may_depend_less(registers) == [True, False]
    assert np.array_equal(as_array(tracked(registers[0])), registers[0])


def test_tracked_values_keep_bits_that_compare_alike():
    """Zeros of both signs differ, and NaNs of the same bits are alike."""
    zeros = np.zeros(SHAPE, np.float32)
    zeros[1:-1] = -0.0
    nans = np.full(SHAPE, np.nan, np.float32)

    assert np.signbit(np.broadcast_to(as_array(tracked(zeros)), SHAPE)).sum() == zeros.size // 2
    assert as_array(tracked(nans)).size == 1
