"""Boxes of tensor copies, element by element: loops as the PTX ISA describes the modes, for maps of every kind."""

import copy
import itertools

import attrs
import numpy as np
import pytest

from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes
from warpsim.layout.tensor_map import DATA_TYPES, Fields

ADDRESS = 0x7F0000001000


def tiled(type="FLOAT16", dims=(40, 9, 5), box=(16, 4, 2), steps=None, swizzle=0, interleave=0, fill=0, pad=16):
    """A tiled map whose rows lie a little apart."""
    number = DATA_TYPES.index(type)
    unit = 16 * interleave or tensor_map.SIZES[number]
    strides, size = [], dims[0] * unit
    for extent in dims[1:]:
        size = -(-size // 32) * 32 + pad * 2
        strides.append(size)
        size *= extent
    steps = steps or (1,) * len(dims)
    return Fields(number, len(dims), interleave, swizzle, fill, ADDRESS, dims, tuple(strides), box, steps)


def expected(fields, at):
    """Of each element of a box: its offset in the tensor, and whether it is inside."""
    unit, size = 16 * fields.interleave or fields.itemsize, fields.itemsize
    extents = []
    for axis, (count, step) in enumerate(zip(fields.box, fields.element_strides, strict=True)):
        if fields.interleave and axis == fields.rank - 2:
            extents.append((1, 1))
        else:
            step = 1 if axis == 0 and not fields.interleave else step
            extents.append((-(-count // step), step))
    found = []
    for index in itertools.product(*[range(count) for count, _ in reversed(extents)]):
        places = [c + i * step for c, i, (_, step) in zip(at, index[::-1], extents, strict=True)]
        inside = all(0 <= p < n for p, n in zip(places, fields.dims, strict=True))
        offset = places[0] * unit + sum(p * s for p, s in zip(places[1:], fields.strides, strict=True))
        found += [(offset + part, inside) for part in range(0, unit, size)]
    return found


MAPS = {
    "rows": tiled(),
    "bytes": tiled("UINT8", dims=(48, 6), box=(32, 3)),
    "one dimension": tiled("FLOAT32", dims=(50,), box=(16,)),
    "every other": tiled("FLOAT32", box=(8, 7, 4), steps=(3, 2, 3)),
    "doubles, swizzled": tiled("FLOAT64", dims=(20, 9), box=(8, 8), swizzle=2),
    "four dimensions": tiled("UINT16", dims=(16, 5, 4, 3), box=(8, 2, 3, 2), swizzle=1),
    "slices of 16 bytes": tiled("FLOAT16", dims=(9, 5, 2, 3), box=(4, 3, 1, 2), interleave=1),
    "slices of 32 bytes, every other": tiled(
        "UINT8", dims=(9, 5, 2, 3), box=(4, 3, 2, 2), steps=(2, 1, 1, 1), interleave=2, swizzle=1
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_elements_of_a_tile(name):
    """Where each lies in the tensor, and which are in it, for boxes within it, at its edges and outside."""
    fields = MAPS[name]
    per = max(16 // fields.pixel, 1)
    starts = [
        [0, per, -per, fields.dims[0] // per * per],
        *[[0, 1, -1, extent - 1, extent] for extent in fields.dims[1:]],
    ]
    draw = np.random.default_rng(3)
    at = [draw.choice(s, 12) for s in starts]
    for axis in range(fields.rank):
        at[axis][0] = 0
    boxes = Boxes(fields, at, [])
    which = np.array([0, 5, 3, *range(6, 12)])
    place, inside = boxes.elements(which)
    for row, box in enumerate(which):
        wanted = expected(fields, [int(c[box]) for c in at])
        assert list(zip(place[row].tolist(), inside[row].tolist(), strict=True)) == wanted
    assert boxes.count == len(wanted)
    assert (boxes.inside(which) == inside).all()
    assert not boxes.displaced.any()
    address, box, size = boxes.spread()
    listed = [(b, ADDRESS + o) for b in range(12) for o, good in expected(fields, [int(c[b]) for c in at]) if good]
    assert sorted(zip(box.tolist(), address.tolist(), strict=True)) == sorted(listed)
    assert size == fields.itemsize
    low, high = boxes.span()
    assert low == ADDRESS
    assert high == ADDRESS + (fields.dims[0] - 1) * fields.pixel + fields.pixel + sum(
        (n - 1) * s for n, s in zip(fields.dims[1:], fields.strides, strict=True)
    )


@pytest.mark.parametrize("name", MAPS)
def test_places_of_a_tile(name):
    """Rows lie one behind the other, at least a swizzle's row apart unless slices are interleaved; bits 4 to 6 of the address are
    combined with those from 7 on."""
    fields = MAPS[name]
    boxes = Boxes(fields, [np.zeros(2, np.int64)] * fields.rank, [])
    row = (-(-fields.box[0] // fields.element_strides[0]) if fields.interleave else fields.box[0]) * fields.pixel
    span = (0, 32, 64, 128)[fields.swizzle]
    pitch = row if fields.interleave else max(row, span)
    per = row // fields.itemsize
    starts = np.array([0, 1024])
    found = np.broadcast_to(boxes.shared(starts), (2, boxes.count))
    for box, start in enumerate(starts.tolist()):
        for n in range(boxes.count):
            address = start + n // per * pitch + n % per * fields.itemsize
            mask = (0, 1, 3, 7)[fields.swizzle]
            assert found[box, n] == address ^ (address >> 7 & mask) << 4
    assert boxes.nbytes == boxes.count * fields.itemsize
    whole = boxes.nbytes // row * pitch
    assert boxes.extent == (-(-whole // span) * span if span else whole)
    same = boxes.shared(np.array([512, 512, 512]))
    assert same.shape == (1, boxes.count)
    assert copy.deepcopy(boxes) is boxes


@pytest.mark.parametrize("base", [0, 8])
@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("start", [0, 8, 4, 36])
def test_granules(base, width, start):
    """Whole ones of 16 bytes that boxes fill, if they fill no other, and none leaves the tensor."""
    strides = (96,)
    fields = Fields(DATA_TYPES.index("FLOAT16"), 2, 0, 0, 0, ADDRESS + base, (40, 9), strides, (width, 3), (1, 1))
    at = [np.array([0, start]), np.array([0, 4])]
    boxes = Boxes(fields, at, [])
    found = boxes.granules(16)
    held = [[ADDRESS + base + o for o, good in expected(fields, [int(c[b]) for c in at])] for b in (0, 1)]
    leaves = not all(good for b in (0, 1) for _, good in expected(fields, [int(c[b]) for c in at]))
    granules = [sorted({a // 16 * 16 for a in addresses}) for addresses in held]
    whole = all(8 * len(g) == len(a) for g, a in zip(granules, held, strict=True))
    if leaves or not whole:
        assert found is None
        return
    address, box = found
    assert list(zip(box.tolist(), address.tolist(), strict=True)) == [(b, g) for b in (0, 1) for g in granules[b]]


def im2col(
    type="FLOAT16",
    dims=(16, 9, 7, 5),
    lower=(-1, -2),
    upper=(-1, -1),
    steps=(1, 1, 1, 1),
    channels=8,
    pixels=20,
    interleave=0,
):
    """A map of pixels; dimensions are channels, W, H, N, or of slices W, H, channels / 16 bytes, N."""
    number = DATA_TYPES.index(type)
    unit = 16 * interleave or tensor_map.SIZES[number]
    strides, size = [], dims[0] * unit
    for extent in dims[1:]:
        size = -(-size // 32) * 32 + 32
        strides.append(size)
        size *= extent
    return Fields(
        number,
        len(dims),
        interleave,
        0,
        0,
        ADDRESS,
        dims,
        tuple(strides),
        (1,) * len(dims),
        steps,
        True,
        lower,
        upper,
        channels,
        pixels,
    )


def walked(fields, at, offsets):
    """Pixel by pixel: W first, then H and D, each from the bounding box's low end on behind the first row; then the next image."""
    spatial = fields.rank - 2
    first = 0 if fields.interleave else 1
    axes = [first + i for i in range(spatial)]
    ends = [fields.dims[a] + fields.upper[i] for i, a in enumerate(axes)]
    place, image, found = [at[a] for a in axes], at[-1], []
    for _ in range(fields.pixels):
        moved = [p + o for p, o in zip(place, offsets, strict=True)]
        inside = all(0 <= p < fields.dims[a] for p, a in zip(moved, axes, strict=True)) and 0 <= image < fields.dims[-1]
        offset = image * fields.strides[-1]
        offset += sum(p * (fields.strides[a - 1] if a else fields.pixel) for p, a in zip(moved, axes, strict=True))
        if fields.interleave:
            part = at[-2]
            good = inside and 0 <= part < fields.dims[-2]
            found += [(offset + part * fields.strides[-2] + k, good) for k in range(0, fields.pixel, fields.itemsize)]
        else:
            channels = [at[0] + k for k in range(fields.channels)]
            found += [(offset + c * fields.itemsize, inside and 0 <= c < fields.dims[0]) for c in channels]
        for i, axis in enumerate(axes):
            place[i] += fields.element_strides[axis]
            if place[i] < ends[i]:
                break
            place[i] = fields.lower[i]
        else:
            image += 1
    return found


PIXELS = {
    "two dimensions": (im2col(), [(0, -1, -2, 0), (8, 5, 3, 1), (-8, 7, 5, 4)], [(0, 0), (1, 2), (2, 1)]),
    "one dimension": (
        im2col(dims=(16, 9, 5), lower=(-1,), upper=(1,), steps=(1, 1, 1)),
        [(0, -1, 0), (8, 9, 2), (0, 3, 4)],
        [(0,), (2,), (1,)],
    ),
    "three dimensions": (
        im2col(
            "UINT8", dims=(32, 5, 4, 3, 2), lower=(-1, -1, 0), upper=(0, -1, 0), steps=(1,) * 5, channels=16, pixels=70
        ),
        [(0, -1, -1, 0, 0), (16, 4, 2, 2, 0), (0, 2, 1, 1, 1)],
        [(0, 0, 0), (1, 1, 0), (0, 1, 1)],
    ),
    "every other": (im2col(steps=(1, 2, 3, 1)), [(0, -1, -2, 0), (8, 1, 1, 1), (0, 3, 4, 4)], [(0, 0), (1, 2), (2, 1)]),
    "slices": (
        im2col("FLOAT16", dims=(9, 7, 2, 5), interleave=1, lower=(-1, -2), upper=(-1, -1)),
        [(-1, -2, 0, 0), (5, 3, 1, 1), (7, 5, 2, 4)],
        [(0, 0), (1, 2), (2, 1)],
    ),
}


@pytest.mark.parametrize("name", PIXELS)
def test_pixels(name):
    """The elements of an im2col copy: pixels of the bounding box in their order, moved by the offsets within the filter."""
    fields, at, offsets = PIXELS[name]
    boxes = Boxes(
        fields, [np.array(c) for c in zip(*at, strict=True)], [np.array(o) for o in zip(*offsets, strict=True)]
    )
    place, inside = boxes.elements(np.array([2, 0, 1]))
    for row, box in enumerate((2, 0, 1)):
        assert list(zip(place[row].tolist(), inside[row].tolist(), strict=True)) == walked(
            fields, at[box], offsets[box]
        )
    inner = fields.pixel if fields.interleave else fields.channels * fields.itemsize
    assert boxes.nbytes == fields.pixels * inner == boxes.count * fields.itemsize
    assert boxes.granules(16) is None


def test_where_pixels_begin():
    """Outside of the bounding box along W or H, by dimension; and whether that box leaves the tensor."""
    fields = im2col(lower=(0, 1), upper=(-1, 0))
    at = [np.zeros(4, np.int64), np.array([0, -1, 7, 8]), np.array([1, 1, 0, 6]), np.zeros(4, np.int64)]
    boxes = Boxes(fields, at, [np.zeros(4)] * 2)
    assert [(axis, mask.tolist()) for axis, mask in boxes.outside()] == [
        (1, [False, True, False, True]),
        (2, [False, False, True, False]),
    ]
    assert not boxes.loaded_only
    for lower, upper in (((-1, 0), (0, 0)), ((0, 0), (0, 1))):
        assert Boxes(im2col(lower=lower, upper=upper), at, [np.zeros(4)] * 2).loaded_only
    assert Boxes(tiled(), [np.zeros(1)] * 3, []).outside() == []
    assert not Boxes(tiled(), [np.zeros(1)] * 3, []).loaded_only


@pytest.mark.parametrize(
    ("type", "bits"), [("FLOAT16", 16), ("UINT8", 8), ("FLOAT32", 32), ("INT64", 64), ("16U4_ALIGN8B", 4)]
)
def test_where_boxes_may_begin(type, bits):
    """At multiples of 16 bytes of the innermost dimension."""
    fields = tiled(type, dims=(128, 4), box=(64, 2))
    starts = np.array([0, 1, 2, 4, 8, 16, 32, -16, -4, 3])
    boxes = Boxes(fields, [starts, np.zeros(10)], [])
    assert boxes.displaced.tolist() == [int(s) * bits % 128 != 0 for s in starts]


def test_padded_elements():
    """16 elements of four or six bits fill 8 or 12 bytes of the tensor, and 16 of shared memory; boxes begin at multiples of 128."""
    for type, part in (("16U4_ALIGN16B", 8), ("16U6_ALIGN16B", 12)):
        fields = tiled(type, dims=(256, 3), box=(128, 2))
        boxes = Boxes(fields, [np.array([0, 128, 64]), np.array([0, 1, 0])], [])
        assert boxes.displaced.tolist() == [False, False, True]
        place, inside = boxes.elements(np.array([0, 1]))
        size = boxes.dtype.itemsize
        per = 8 * part // size
        assert inside.all()
        assert place[0].tolist() == [r * fields.strides[0] + size * k for r in (0, 1) for k in range(per)]
        assert place[1].tolist() == [
            (1 + r) * fields.strides[0] + 8 * part + size * k for r in (0, 1) for k in range(per)
        ]
        shared = boxes.shared(np.array([0]))[0].tolist()
        assert shared == [128 * r + size * k // part * 16 + size * k % part for r in (0, 1) for k in range(per)]
        assert (boxes.nbytes, boxes.extent) == (16 * part, 256)


def test_what_is_stored_beyond_the_tensor():
    """Rows end at multiples of 16 bytes where boxes are stored (an H100), as far as memory goes."""
    fields = tiled("FLOAT16", dims=(21, 3), box=(32, 2))
    at = [np.array([0]), np.array([1])]
    end = ADDRESS + 2 * fields.strides[0] + 42
    stored = Boxes(fields, at, [], stored_below=end)
    assert stored.beyond
    moved = stored.elements(np.array([0]))[1]
    columns = np.arange(32)
    assert (stored.inside(np.array([0]))[0] == np.tile(columns < 21, 2)).all()
    assert (moved[0] == np.r_[columns < 24, columns < 21]).all()
    even = Boxes(tiled("FLOAT16", dims=(24, 3), box=(32, 2)), at, [], stored_below=end)
    assert not even.beyond
    assert not Boxes(fields, at, []).beyond


def test_rounded_elements():
    """Loads of tf32 round to nearest even, every NaN to one; of other types nothing changes."""
    bits = np.array(
        [0x3F800000, 0x3F801000, 0x3F803000, 0x3F801001, 0xBF800FFF, 0x7F7FF000, 0x7F800000, 0x7F800001, 0xFFFFFFFF],
        np.uint32,
    )
    at = [np.zeros(1)] * 3
    rounded = Boxes(tiled("TFLOAT32"), at, []).finished(bits).tolist()
    assert rounded == [
        0x3F800000,
        0x3F800000,
        0x3F804000,
        0x3F802000,
        0xBF800000,
        0x7F800000,
        0x7F800000,
        0x7FFFE000,
        0x7FFFE000,
    ]
    assert (Boxes(tiled("FLOAT32"), at, []).finished(bits) == bits).all()


@pytest.mark.parametrize("type", ["UINT8", "FLOAT16", "FLOAT32", "FLOAT64"])
def test_fill(type):
    """Zeros, or the NaN that an H200 fills with: 0x7FF7 again and again."""
    at, size = [np.zeros(1)] * 3, tensor_map.SIZES[DATA_TYPES.index(type)]
    assert Boxes(tiled(type), at, []).fill == 0
    assert Boxes(tiled(type, fill=1), at, []).fill == 0x7FF77FF77FF77FF7 & ((1 << 8 * size) - 1)


TABLES = {
    "128B": ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    "128B_ATOM_32B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_64B": ["01234567", "45670123"],
    "96B": ["01234567", "10325476"],
}
"""Which 16 bytes of a line of 128 lie where, line by line (PTX ISA, swizzling modes)."""


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_swizzles(name):
    """They repeat themselves, and hold for the lines of shared memory whatever the length of rows."""
    fields = tiled(dims=(64, 40), box=(48 if name == "96B" else 64, 32), swizzle=tensor_map.SWIZZLES.index(name))
    boxes = Boxes(fields, [np.zeros(1, np.int64)] * 2, [])
    places = boxes.shared(np.array([2048]))[0]
    table = TABLES[name]
    for number, place in enumerate(places.tolist()):
        chunk, byte = divmod(2048 + 2 * number, 16)
        line = place >> 7
        assert chunk >> 3 == line
        assert table[line % len(table)][place >> 4 & 7] == str(chunk & 7)
        assert place & 15 == byte
    assert boxes.extent == 32 * (96 if name == "96B" else 128)


def test_flipped_halves():
    """As with 32 bytes kept together; in every other line, the halves of 16 bytes change places."""
    flipped, whole = (
        Boxes(tiled(dims=(64, 40), box=(64, 32), swizzle=number), [np.zeros(1, np.int64)] * 2, []).shared(
            np.zeros(1, np.int64)
        )[0]
        for number in (tensor_map.FLIPPED, tensor_map.FLIPPED - 1)
    )

    assert (flipped == np.where(whole & 128, whole ^ 8, whole)).all()


OVERLAPPING = Fields(DATA_TYPES.index("FLOAT32"), 2, 0, 0, 0, ADDRESS, (32, 12), (64,), (8, 2), (1, 1))
"""Each row begins in the middle of the one before."""


@pytest.mark.parametrize("name", [*MAPS, "overlapping rows"])
def test_boxes_apart_share_no_bytes(name):
    """As the bytes of each element say; of boxes that lie inside a plain tensor, those that share none are known to be apart."""
    fields = MAPS.get(name, OVERLAPPING)
    random = np.random.default_rng(5)
    per = max(16 // fields.pixel, 1)

    def some():
        first = [per * random.integers(0, fields.dims[0] // per, 1)]
        return Boxes(fields, first + [random.integers(0, n, 1) for n in fields.dims[1:]], [], units=True)

    def bytes_of(boxes):
        place, moved = boxes.elements(np.arange(1))
        return set((place[moved][:, None] + np.arange(boxes.dtype.itemsize)).reshape(-1).tolist())

    outcomes = set()
    for _ in range(100):
        boxes, others = some(), [some(), some()]
        apart, shared = boxes.apart(others), bytes_of(boxes) & (bytes_of(others[0]) | bytes_of(others[1]))
        outcomes.add((apart, bool(shared)))
    assert (True, True) not in outcomes
    assert (True, False) in outcomes or name in (
        "overlapping rows",
        "slices of 16 bytes",
        "slices of 32 bytes, every other",
    )
    assert not some().apart([None])
    assert not some().apart([Boxes(tiled(pad=48), [np.zeros(1, np.int64)] * 3, [], units=True)])


def corner(*coordinates):
    """Where one box begins."""
    return [np.array([c]) for c in coordinates]


def test_boxes_of_the_same_form_elsewhere():
    """Far from each other in their tensors, which lie so that the boxes share all bytes."""
    here = tiled()
    there = attrs.evolve(here, address=ADDRESS - 8 * here.strides[0])
    boxes, others = Boxes(here, corner(0, 0, 0), [], units=True), Boxes(there, corner(0, 8, 0), [], units=True)

    assert boxes.apart([Boxes(here, corner(0, 8, 0), [], units=True)])
    assert not boxes.apart([others])


def test_boxes_and_rows():
    """A box may be one of the rows that another gathers."""
    fields = tiled(dims=(16, 9), box=(16, 1))
    box = Boxes(fields, corner(0, 8), [], units=True)
    rows = Boxes(fields, corner(0, 1, 8, 2, 3), [], units=True, mode=tensor_map.SCATTER4)

    assert not box.apart([rows])
    assert not rows.apart([box])
    assert not rows.apart([rows])
