"""Which threads a group holds: sets of threads cut and joined, against sets of plain integers."""

import itertools
import random

import numpy as np
import pytest

from warpsim.machine.selection import KEPT, Lanes, Rect, Shape, from_positions, split, union
from warpsim.machine.values import Affine

U32 = np.dtype(np.uint32)
SHAPES = [Shape(1, 64, 1, 1), Shape(1, 40, 1, 3), Shape(4, 16, 2, 2), Shape(3, 5, 1, 1), Shape(2, 33, 1, 2)]


def members(selection):
    """Its threads, by flat position."""
    return selection.positions.reshape(-1).tolist()


def cut(shape, generator):
    """A selection as a kernel might leave it: halves, strides and single lanes of the batch, one out of the other."""
    selection = shape.whole
    for _ in range(generator.randrange(4)):
        extents = [e if generator.random() < 0.5 else 1 for e in selection.shape]
        mask = np.array([generator.random() < 0.6 for _ in range(np.prod(extents))]).reshape(extents)
        if generator.random() < 0.5 and selection.positions.ndim == 4:
            axis = generator.choice([a for a in range(4) if selection.shape[a] > 1] or [0])
            index = np.arange(selection.shape[axis])
            line = index % generator.choice([2, 3]) == 0 if generator.random() < 0.5 else index < len(index) // 2
            mask = line.reshape([len(index) if a == axis else 1 for a in range(4)])
        if mask.any() and not mask.all():
            selection = split(selection, mask)[generator.randrange(2)]
    return selection


CUT = [(shape, cut(shape, random.Random(f"{n}/{seed}"))) for n, shape in enumerate(SHAPES) for seed in range(12)]


def test_positions():
    """Threads of a rectangle by hand: rows 1 and 3 of four of 8 threads, every third column; the second of two CTAs."""
    found = Rect(Shape(4, 8, 1, 2), ((1, 2, 2), (0, 3, 3), (0, 1, 1), (1, 1, 1)))

    assert members(found) == [2 * t + 1 for t in (8, 11, 14, 24, 27, 30)]
    assert found.threads.reshape(-1).tolist() == [8, 11, 14, 24, 27, 30]
    assert set(found.ctas.reshape(-1).tolist()) == {1}
    assert found.per_cta.tolist() == [0, 6]


def test_cuts_that_stay_rectangles():
    """Runs and strides along one axis are slices; what is none is a list of lanes."""
    whole = Shape(1, 64, 1, 2).whole
    thread = np.arange(64).reshape(1, 64, 1, 1)

    assert [type(part) for part in split(whole, thread < 10)] == [Rect, Rect]
    assert [type(part) for part in split(whole, thread % 2 == 0)] == [Rect, Rect]
    assert [type(part) for part in split(whole, thread == 7)] == [Rect, Lanes]
    assert [type(part) for part in split(whole, np.array([True, False]).reshape(1, 1, 1, 2))] == [Rect, Rect]


def test_the_same_cut_again():
    """A second split by an equal mask returns the same parts; one by another mask, or of other threads, its own. A
    batch caches a bounded number of them.
    """
    whole = Shape(1, 64, 1, 2).whole
    thread = np.arange(64).reshape(1, 64, 1, 1)
    first = split(whole, thread % 32 == 0)

    assert all(a is b for a, b in zip(split(whole, thread % 32 == 0), first, strict=True))
    assert members(split(whole, thread % 32 != 0)[0]) == members(first[1])
    assert members(split(first[1], np.array([True, False]).repeat(62))[0]) == members(first[1])[:62]
    half = split(whole, thread < 32)[0]
    assert members(split(half, thread[:, :32] % 32 == 0)[0]) == [0, 1]
    for n in range(1, 63):
        assert members(split(whole, thread < n)[0]) == list(range(2 * n))
    assert len(whole.batch_shape.splits) == KEPT


def test_the_same_parts_joined_again():
    """Rectangles that meet again are found again, in the order in which they come; a bounded number of them."""
    whole = Shape(1, 64, 1, 2).whole
    thread = np.arange(64).reshape(1, 64, 1, 1)
    low, high = split(split(whole, thread < 40)[0], thread[:, :40] < 8)
    assert members(union([low, high])) == list(range(80))
    assert union([low, high]) is union([low, high])
    for n in range(1, 40):
        assert members(union([split(whole, thread < n)[0], split(whole, thread > 40)[0]])) == [
            *range(2 * n),
            *range(82, 128),
        ]
    assert len(whole.batch_shape.joins) == KEPT


def test_one_rectangle():
    """Threads that come together in several ways are one rectangle, by which others find what they have kept."""
    whole = Shape(1, 64, 1, 2).whole
    thread = np.arange(64).reshape(1, 64, 1, 1)
    low, high = split(whole, thread < 32)
    first, rest = split(low, thread[:, :32] < 1)
    assert union([rest, first]) is union([first, rest]) is low
    assert split(split(whole, thread >= 8)[1], thread[:, :8] < 1)[0] is first
    assert union([low, high]) is whole


@pytest.mark.parametrize(("shape", "selection"), CUT)
def test_split_and_union(shape, selection):
    """The two parts are the threads where a mask holds and the others, and together the threads that were cut."""
    flags = np.array([hash((7, p)) % 3 == 0 for p in members(selection)]).reshape(selection.shape)
    if not flags.any() or flags.all():
        return
    yes, no = split(selection, flags)

    assert members(yes) == [p for p, f in zip(members(selection), flags.reshape(-1), strict=True) if f]
    assert members(no) == [p for p, f in zip(members(selection), flags.reshape(-1), strict=True) if not f]
    assert members(union([no, yes])) == sorted(members(selection))
    assert members(from_positions(shape, np.array(sorted(members(selection))))) == sorted(members(selection))


def test_every_cut_of_eight_threads():
    """Each of the 254 ways to cut them in two, in two CTAs side by side."""
    whole = Shape(1, 8, 1, 2).whole
    for bits in range(1, 255):
        flags = np.array([bits >> t & 1 for t in range(8)], np.bool_)
        for part, wanted in zip(split(whole, flags.reshape(1, 8, 1, 1)), (flags, ~flags), strict=True):
            assert members(part) == [2 * t + c for t in range(8) for c in (0, 1) if wanted[t]]


@pytest.mark.parametrize(
    "shape", [Shape(1, 9, 1, 2), Shape(3, 4, 1, 1), Shape(2, 3, 1, 3)], ids=lambda s: str(s.extents)
)
def test_runs_of_positions(shape):
    """Neighbours in the batch, from any of them to any other: those and no others, wherever CTAs begin."""
    for first in range(shape.n):
        for last in range(first, shape.n):
            run = np.arange(first, last + 1)
            assert members(from_positions(shape, run)) == run.tolist()


@pytest.mark.parametrize(("shape", "selection"), CUT)
def test_counts(shape, selection):
    """Warps, CTAs and warpgroups of the threads."""
    places = [divmod(p, shape.n_ctas) for p in members(selection)]

    assert selection.n == len(places)
    assert selection.n_warps == len({(t // 32, c) for t, c in places})
    assert selection.per_cta.tolist() == [sum(c == k for _, c in places) for k in range(shape.n_ctas)]
    assert selection.first_warp == (places[0][1], places[0][0] // 32)
    assert selection.warpgroups.tolist() == sorted({t // 128 * shape.n_ctas + c for t, c in places})


@pytest.mark.parametrize(("shape", "selection"), CUT)
def test_fetch_and_write(shape, selection):
    """A batch-wide value is read and written at the threads' own places, whatever axes it has."""
    flat = np.arange(shape.n, dtype=U32) * 7 + 1
    full = flat.reshape(shape.extents)
    steps = Affine(5, tuple(k + 1 if e > 1 else 0 for k, e in enumerate(shape.extents)), shape.extents, U32)
    affine = selection.fetch(steps)
    affine = affine.array() if isinstance(affine, Affine) else affine
    row = full[:1, :, :1, :]
    expected = np.broadcast_to(row, shape.extents).reshape(-1)[members(selection)]

    assert np.broadcast_to(selection.fetch(full), selection.shape).reshape(-1).tolist() == flat[members(selection)].tolist()  # fmt: skip
    assert np.broadcast_to(selection.fetch(row), selection.shape).reshape(-1).tolist() == expected.tolist()
    indices = np.indices(shape.extents).reshape(4, -1)[:, members(selection)]
    assert np.broadcast_to(affine, selection.shape).reshape(-1).tolist() == [
        5 + sum((k + 1) * int(i) for k, i in enumerate(place) if shape.extents[k] > 1) for place in indices.T
    ]
    selection.write(full, np.zeros(selection.shape, U32))
    assert np.flatnonzero(flat == 0).tolist() == sorted(members(selection))


@pytest.mark.parametrize(("shape", "selection"), CUT)
def test_warps(shape, selection):
    """Values lie at their lanes in whole warps, and come back; lanes that are not here are not active."""
    value = np.array(members(selection), U32).reshape(selection.shape) + 1
    warps = selection.warps
    spread = np.broadcast_to(warps.spread(value), warps.active.shape)
    here = sorted(zip(*(a.tolist() for a in np.nonzero(warps.active)), strict=True))

    assert int(warps.active.sum()) == selection.n
    assert np.unique(warps.first_thread).tolist() == sorted({p // shape.n_ctas // 32 * 32 for p in members(selection)})
    assert sorted(spread[warps.active].tolist()) == sorted(value.reshape(-1).tolist())
    assert all((int(spread[at]) - 1) // shape.n_ctas % 32 == at[1] for at in here)
    assert np.broadcast_to(warps.collect(spread), selection.shape).tolist() == value.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_from_positions(shape):
    """Ascending positions are the batch, a rectangle where they are whole threads in a row, or lanes."""
    m, width = shape.n_ctas, shape.extents[1]
    for first in range(0, shape.n // m, 5):
        for count in (1, 3, width, 2 * width):
            positions = np.arange(first * m, min((first + count) * m, shape.n))
            found = from_positions(shape, positions)
            rows = (len(positions) // m) % width == 0 and first % width == 0
            one = first // width == (first + len(positions) // m - 1) // width
            assert members(found) == positions.tolist()
            assert isinstance(found, Rect) == (rows or one)
    assert from_positions(shape, np.arange(shape.n)) is shape.whole


@pytest.mark.parametrize("shape", [Shape(1, 4, 1, 2), Shape(2, 2, 1, 2), Shape(2, 2, 2, 1), Shape(1, 3, 1, 3)], ids=lambda s: str(s.extents))  # fmt: skip
def test_rectangles(shape):
    """Each set of threads: a rectangle exactly where runs along the four axes have those threads and no others."""
    runs = [
        [r for a in range(e) for s in range(1, e + 1) for n in range(1, e + 1) if (r := range(a, a + s * n, s))[-1] < e]
        for e in shape.extents
    ]
    n0, m1, m0 = shape.extents[1:]
    rectangles = {
        frozenset(((a * n0 + b) * m1 + c) * m0 + d for a, b, c, d in itertools.product(*axes))
        for axes in itertools.product(*runs)
    }
    for bits in range(1, 1 << shape.n):
        some = [p for p in range(shape.n) if bits >> p & 1]
        found = from_positions(shape, np.array(some))

        assert members(found) == some
        assert isinstance(found, Rect) == (frozenset(some) in rectangles)


WIDE = [*CUT, *((shape, cut(shape, random.Random(seed))) for shape in (Shape(8, 8, 1, 2), Shape(6, 6, 2, 1), Shape(2, 2, 2, 2), Shape(4, 32, 3, 1)) for seed in range(6))]  # fmt: skip


@pytest.mark.parametrize(("shape", "selection"), WIDE)
def test_warps_of_values_that_lack_axes(shape, selection):
    """A value that is the same along some axes lies in whole warps as it would with all of them, and comes back."""
    warps, generator = selection.warps, random.Random(3)
    for _ in range(16):
        lacking = [e if generator.random() < 0.5 else 1 for e in selection.shape]
        value = np.arange(1, np.prod(lacking) + 1, dtype=U32).reshape(lacking)
        full = np.broadcast_to(value, selection.shape).copy()
        spread = np.broadcast_to(warps.spread(value), warps.active.shape)
        assert np.array_equal(
            spread[warps.active], np.broadcast_to(warps.spread(full), warps.active.shape)[warps.active]
        )
        assert np.array_equal(np.broadcast_to(warps.collect(warps.spread(value)), selection.shape), full)
        assert np.array_equal(np.broadcast_to(warps.collect(spread), selection.shape), full)
        assert np.array_equal(np.broadcast_to(warps.collect(spread.copy()), selection.shape), full)
    place = np.where(warps.active, np.arange(1, warps.active.size + 1).reshape(warps.active.shape), 0)
    for row in (place[:1], place[:, :1], place[:, :, :1], place[:1, :1], place[:1, :, :1], place[:, :1, :1]):
        got = np.broadcast_to(warps.collect(np.ascontiguousarray(row)), selection.shape)
        wanted = warps.collect(np.broadcast_to(row, warps.active.shape).copy())
        assert np.array_equal(got, np.broadcast_to(wanted, selection.shape))


@pytest.mark.parametrize("ctas", [1, 2, 3])
@pytest.mark.parametrize("chosen", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_warpgroups(ctas, chosen):
    """Their numbers, sizes and places, of whole ones and of one that lacks threads."""
    shape = Shape(1, 328, 1, ctas)
    positions = np.array([t * ctas + c for t in range(328) for c in range(ctas) if t // 128 in chosen])
    found = from_positions(shape, positions)
    numbers = sorted(g * ctas + c for g in chosen for c in range(ctas))
    every = np.arange(9 * ctas)

    assert found.warpgroups.tolist() == numbers
    assert every[found.warpgroup_places].tolist() == numbers
    assert isinstance(found.warpgroup_places, slice) == (numbers[-1] - numbers[0] + 1 == len(numbers))
    assert found.warpgroup_of.reshape(-1).tolist() == [int(p) // ctas // 128 * ctas + int(p) % ctas for p in positions]
    assert found.warpgroup_sizes.tolist() == [(128, 128, 72)[g] * (g in chosen) for g in range(3) for _ in range(ctas)]
