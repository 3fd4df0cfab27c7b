"""The elements of boxes moved by tensor copies: their places in the tensor and in shared memory, for many boxes at
once."""

from __future__ import annotations

import functools
import math

import attrs
import numpy as np

from warpsim.layout import tensor_map
from warpsim.layout.tensor_map import PACK, PADDED_BOX, Fields, bounding_box, box_extent, step_of, stride_of
from warpsim.numerics.arrays import Array, DType, distinct
from warpsim.records import SharedByCopies, changed, frozen


@frozen(eq=False)
class Form:
    """What all boxes of a map have in common.

    A box has ``count`` elements of ``dtype``. In shared memory its rows of ``inner`` bytes lie ``pitch`` bytes apart,
    at least a swizzle span unless interleaved (observed on an H200), so it occupies ``extent`` bytes there.
    """

    fields: Fields
    moved: Fields
    """The map by which elements, or units of them, are found."""
    beyond: bool
    """Whether it has elements beyond the tensor."""
    element: DType
    """The type of a single element."""
    dtype: DType
    nbytes: int
    inner: int
    slot: int
    pitch: int
    extent: int
    count: int
    offsets: Array
    """The offset of each element in shared memory, before it is swizzled."""
    tile: Tile | None
    """Where elements of a tiled map are found."""
    rows: int
    """How many rows of the tensor a box consists of, 0 if it is one box of the tensor."""
    mode: str
    halo: int
    unit: int
    """What divides the first coordinate of boxes along the innermost dimension."""
    words: dict[int, TileWords | None] = attrs.field(factory=dict)
    """Those of `_words_of`."""


@functools.lru_cache(maxsize=32)
def form_of(given: Fields, *, units: bool, stored: bool, mode: str = "", halo: int = 0) -> Form:
    """The form of a map's boxes. With ``units``, neighbouring elements that always move together count as one. Boxes
    that are ``stored`` have elements beyond the tensor (`tensor_map.as_stored`)."""
    form = _form_anywhere(changed(given, address=0), units=units, stored=stored, mode=mode, halo=halo)
    fields, moved = (changed(each, address=given.address) for each in (form.fields, form.moved))
    return changed(form, fields=fields, moved=moved)


@functools.lru_cache(maxsize=32)
def _form_anywhere(given: Fields, *, units: bool, stored: bool, mode: str, halo: int) -> Form:
    """The same at address 0: launches have their tensors elsewhere each time."""
    rows = tensor_map.ROWS if mode in (tensor_map.GATHER4, tensor_map.SCATTER4) else 0
    slot = PACK * given.packed // 8 if given.padded else 0
    fields = tensor_map.in_parts(given)
    single = tensor_map.as_stored(fields) if stored else fields
    beyond = single != fields
    moved = (tensor_map.in_units(fields) if units and not beyond else None) or single
    dtype = np.dtype(f"u{moved.itemsize}")
    if fields.im2col:
        inner = fields.pixel if fields.interleave else fields.channels * fields.itemsize
        nbytes = (_wide_count(fields, mode, halo) if fields.wide else fields.pixels) * inner
    else:
        extents = [tensor_map.box_extent(fields, axis) for axis in range(fields.rank)]
        inner = extents[0] * fields.pixel
        nbytes = int(np.prod(extents)) * fields.pixel * max(rows, 1)
    row = inner // slot * PACK if slot else inner
    dense = fields.interleave or fields.swizzle == tensor_map.SWIZZLE_96B
    pitch = row if dense else max(tensor_map.SPANS[fields.swizzle], row)
    taken, span = nbytes // inner * pitch, max(tensor_map.SPANS[fields.swizzle], 1)
    count = nbytes // dtype.itemsize
    offsets = dtype.itemsize * np.arange(count, dtype=np.int64)
    if pitch > inner:
        line, offsets = offsets // inner, offsets % inner
        if slot:
            offsets = offsets // slot * PACK + offsets % slot
        offsets = line * pitch + offsets
    element = np.dtype(f"u{fields.itemsize}")
    extent = -(-taken // span) * span
    return Form(
        fields, moved, beyond, element, dtype, nbytes, inner, slot, pitch, extent, count, offsets,
        None if moved.im2col else tile_of(moved), rows, mode, halo, _unit(fields),
    )  # fmt: skip


class Boxes(SharedByCopies):
    """Boxes of one map, at coordinates ``[boxes]`` for each dimension, innermost first; ``offsets`` in the same form
    (im2col).

    With ``units``, neighbouring elements that always move together count as one; ``element`` is the type of a single
    one. ``stored_below``: what a store writes, in memory that ends there. In the modes that gather or scatter rows, the
    coordinates are that of dimension 0 and those of the rows; in those of `tensor_map.WIDE`, ``offsets`` is one along W,
    and ``halo`` pixels follow each part of a box.
    """

    CACHES = frozenset({"_known"})

    def __init__(
        self,
        fields: Fields,
        coordinates: list[Array],
        offsets: list[Array],
        *,
        units: bool = False,
        stored_below: int | None = None,
        mode: str = "",
        halo: int = 0,
    ) -> None:
        self.coordinates = _signed(np.array(coordinates), 32)
        self.displaced = self.coordinates[0] % _unit(fields) != 0
        """Mask of the boxes that begin where a copy cannot begin along the innermost dimension."""
        self.misplaced = bool(np.logical_or.reduce(self.displaced))
        """Whether there are any."""
        if fields.packed:
            self.coordinates[0] = self.coordinates[0] * fields.packed // (8 * fields.itemsize)
        self._end = stored_below
        self._known: tuple[Array, int, int] | None = None
        whole = units and not self.misplaced
        self._form = form = form_of(fields, units=whole, stored=stored_below is not None, mode=mode, halo=halo)
        self.fields, self.element, self.dtype = form.fields, form.element, form.dtype
        self.nbytes, self.extent, self.count = form.nbytes, form.extent, form.count
        self._first = self.coordinates
        """The coordinates, in units of what is moved."""
        if self.element != self.dtype:
            self._first = self.coordinates.copy()
            self._first[0] = self._first[0] * self.element.itemsize // self.dtype.itemsize
        spatial = max(fields.rank - 2, 0)
        given = offsets if fields.wide else _offsets(offsets, fields.rank)
        self.offsets = given or [np.zeros(1, np.int64)] * spatial

    @classmethod
    def inside_tensor(cls, form: Form, coordinates: Array) -> Boxes | None:
        """Boxes of a plain tiled map at ``coordinates`` ``[axes, boxes]`` (int64); None unless they lie inside the tensor, where
        boxes may begin."""
        tile, fields = form.tile, form.fields
        assert tile is not None
        first = coordinates
        if form.element is not form.dtype:
            first = coordinates.copy()
            first[0] = first[0] * form.element.itemsize // form.dtype.itemsize
        wrong = (first < 0) | (first > tile.last)
        wrong[0] |= coordinates[0] % form.unit != 0
        if np.logical_or.reduce(wrong, axis=None):
            return None
        made: Boxes = object.__new__(cls)
        made.coordinates, made.displaced, made.misplaced = coordinates, wrong[0], False
        made._end, made._form, made._first, made.offsets = None, form, first, _NO_OFFSETS[2 : fields.rank]
        made.fields, made.element, made.dtype = fields, form.element, form.dtype
        made.nbytes, made.extent, made.count = form.nbytes, form.extent, form.count
        made._known = _with_ends(tile.strides @ first)
        return made

    @property
    def beyond(self) -> bool:
        """Whether elements beyond the tensor may be moved, too."""
        return self._form.beyond

    @property
    def rows(self) -> int:
        """How many rows of the tensor a box consists of, 0 if it is one box of the tensor."""
        return self._form.rows

    @property
    def fill(self) -> int:
        """The bits of an element outside the tensor."""
        return self._form.moved.fill

    def elements(self, which: Array) -> tuple[Array, Array]:
        """The byte offset in the tensor ``[boxes, count]`` (int64) of each element of some boxes, and a mask of those
        that are moved."""
        place, moved = self._elements(self._form.moved, which)
        if self._form.beyond and self._end is not None:
            moved = moved & (self.inside(which) | (self.fields.address + place < self._end))
        return place, moved

    def inside(self, which: Array) -> Array:
        """A mask ``[boxes, count]`` of the elements of some boxes that are in the tensor."""
        return self._elements(self.fields if self._form.beyond else self._form.moved, which)[1]

    def _elements(self, fields: Fields, which: Array) -> tuple[Array, Array]:
        if fields.im2col:
            offsets = [np.broadcast_to(o, self.coordinates[0].shape)[which] for o in self.offsets]
            if fields.wide:
                return wide_elements(fields, self.coordinates[:, which], offsets[0], self._form.mode, self._form.halo)
            return im2col_elements(fields, self.coordinates[:, which], offsets)
        first = self._first[:, which]
        if not self._form.rows:
            return tile_elements(fields, first)
        rows = [tile_elements(fields, first[[0, 1 + row]]) for row in range(self._form.rows)]
        places, inside = zip(*rows, strict=True)
        return np.concatenate(places, axis=1), np.concatenate(inside, axis=1)

    def granules(self, size: int) -> tuple[Array, Array] | None:
        """The addresses of whole granules of ``size`` bytes (ascending) that boxes fill, and their boxes; None where
        boxes leave the tensor, or fill some partly."""
        if self.fields.im2col or self.fields.interleave or self._form.beyond or self._form.rows:
            return None
        moved = self._form.moved
        parts, tile, first = _granules(moved, size), tile_of(moved), self._first
        if parts is None or not tile.holds(first):
            return None
        base = self.fields.address + tile.strides @ first
        if np.logical_or.reduce(base % size):
            return None
        return (base[:, None] + parts).reshape(-1), np.repeat(np.arange(len(base)), len(parts))

    def apart(self, others: list[Boxes | None]) -> bool:
        """Whether none of these boxes shares an element with others of the same map; False may mean that it takes long to say."""
        tile = self._form.tile
        if tile is None or self._form.rows or not tile.injective:
            return False
        at, there = self.fields.address, list[Array]()
        for o in others:
            if o is None or o._form.tile is not tile or o.fields.address != at or o._form.rows:
                return False
            there.append(o._first)
        corners = np.concatenate(there, axis=1)
        if self._first.shape[1] * corners.shape[1] > FEW:
            return False
        distance = self._first[:, :, None] - corners[:, None]
        far = np.logical_or.reduce(np.abs(distance) >= tile.reach[:, :, None])
        return bool(np.logical_and.reduce(far, axis=None))

    def span(self) -> tuple[int, int]:
        """The address range of what is moved."""
        return _span(self._form)

    def spread(self) -> tuple[Array, Array, int]:
        """The address of each element that is moved, its box, and the element size."""
        place, moved = self.elements(np.arange(len(self.coordinates[0])))
        return self.fields.address + place[moved], np.nonzero(moved)[0], self.dtype.itemsize

    def shared(self, start: Array) -> Array:
        """Shared addresses ``[boxes, count]`` in bytes of boxes that begin at ``start``, swizzled; ``[1, count]`` if
        they are the same for all of them."""
        if len(start) and np.logical_and.reduce(start == start[0]):
            start = start[:1]
        return _swizzled(self.fields, start[:, None] + self._form.offsets)

    def words(self, which: Array, start: int) -> tuple[tuple[Array, int, int], TileWords] | None:
        """Of boxes inside the tensor that fill whole words from ``start`` on in shared memory: the byte offset in the tensor of
        each ``[boxes]``, the first and the last of these, and the words from there. Else None."""
        form, phase = self._form, start & (SWIZZLED - 1)
        known = self._known
        if known is not None and which.size == known[0].size and (words := form.words.get(phase)) is not None:
            return known, words
        tile = form.tile
        if form.beyond or form.fields.interleave or form.rows or tile is None:
            return None
        first, words = self._first[:, which], _words_of(form, phase)
        if words is None or not tile.holds(first):
            return None
        base = tile.strides @ first
        return None if (base & words.size - 1).any() else (_with_ends(base), words)

    def finished(self, bits: Array) -> Array:
        """Finish loaded elements for the data type: tf32 is rounded; FTZ changes no load (as on an H200)."""
        if not self.fields.rounds:
            return bits
        return _to_tf32(bits.view(np.uint32)).view(bits.dtype)

    @property
    def loaded_only(self) -> bool:
        """Whether the map's bounding box leaves the tensor: an H100 faults where such boxes are stored."""
        return any(low < 0 or end > self.fields.dims[axis] for axis, low, end in self._bounds())

    def outside(self) -> list[tuple[int, Array]]:
        """The im2col dimensions along which boxes begin outside the bounding box, each with a mask of those boxes. Along W alone,
        they may begin before it (PTX ISA, im2col::w: bounding box)."""
        found = [
            (axis, (self.coordinates[axis] < low) & (not self.fields.wide) | (self.coordinates[axis] >= end))
            for axis, low, end in self._bounds()
        ]
        return [(axis, boxes) for axis, boxes in found if boxes.any()]

    def _bounds(self) -> list[tuple[int, int, int]]:
        return tensor_map.bounding_box(self.fields) if self.fields.im2col else []


def _with_ends(values: Array) -> tuple[Array, int, int]:
    return values, int(np.minimum.reduce(values)), int(np.maximum.reduce(values))


@functools.lru_cache(maxsize=32)
def _span(form: Form) -> tuple[int, int]:
    fields = form.moved
    end = (fields.dims[0] - 1) * fields.pixel + fields.pixel
    end += sum((n - 1) * stride for n, stride in zip(fields.dims[1:], fields.strides, strict=True))
    return fields.address, fields.address + end


FEW = 1 << 15
"""So many pairs of boxes are compared at once."""
_NO_OFFSETS = [np.zeros(1, np.int64)] * 5
SWIZZLED = 1024
"""Bytes of shared memory after which swizzles repeat themselves."""


_SWIZZLES = ((0, 4), (1, 4), (3, 4), (7, 4), (3, 5), (3, 5), (1, 6), (1, 4))
"""For each swizzle, the bits of the line's number that change those of an address, and from which bit on."""
_LINE_BITS = 7


def _swizzled(fields: Fields, address: Array) -> Array:
    mask, bit = _SWIZZLES[fields.swizzle]
    if not mask:
        return address
    line = address >> _LINE_BITS
    swizzled: Array = address ^ ((line & mask) << bit)
    return swizzled ^ ((line & 1) << 3) if fields.swizzle == tensor_map.FLIPPED else swizzled


@frozen(eq=False)
class TileWords:
    """The words of a box in the order of shared memory: ``places`` ``[runs, 1]`` of runs of ``size`` bytes in the tensor, as
    numbers of such runs, and ``rows`` ``[words]`` there in bytes, both from the first; ``reach`` is the number of bytes of the
    tensor from the first to the last. ``parts`` are the offsets of the elements that are moved, of ``part`` bytes each."""

    places: Array
    size: int
    rows: Array
    reach: int
    parts: Array
    part: int


def _words_of(form: Form, phase: int) -> TileWords | None:
    """The words of a box ``phase`` bytes behind a multiple of `SWIZZLED`; None if it has parts of words, or gaps."""
    if phase not in form.words:
        form.words[phase] = _new_words(form, phase)
    return form.words[phase]


def _new_words(form: Form, phase: int) -> TileWords | None:
    assert form.tile is not None
    size, offsets = form.dtype.itemsize, form.tile.offsets
    if size % 4 or (offsets & 3).any():
        return None
    parts = np.arange(0, size, 4)
    places = ((_swizzled(form.fields, phase + form.offsets) - phase)[:, None] + parts).reshape(-1) >> 2
    order = np.argsort(places)
    if len(places) * 4 != form.extent or (places[order] != np.arange(len(places))).any():
        return None
    found = (offsets[:, None] + parts).reshape(-1)[order]
    rows, reach, run = 4 * np.arange(len(found)), int(found.max()) + 4, 16
    runs = found[: len(found) & -4].reshape(-1, 4)
    if len(found) & 3 or (runs[:, 0] & 15).any() or (runs != runs[:, :1] + rows[:4]).any():
        runs, run = found[:, None], 4
    return TileWords(runs[:, :1] // run, run, rows, reach, offsets, size)


def straight(fields: Fields, start: int) -> Form | None:
    """The form of loads of a plain tiled map to ``start`` in shared memory; None of other maps, or where their elements are no
    whole words."""
    if fields.im2col or fields.packed or fields.interleave:
        return None
    if fields.rounds and "FLOAT32" not in tensor_map.DATA_TYPES[fields.data_type]:
        return None
    form = form_of(fields, units=True, stored=False, mode="tile")
    words = None if form.tile is None else _words_of(form, start & (SWIZZLED - 1))
    return None if words is None else form  # strides are multiples of 16 bytes, and so of these words


@functools.lru_cache(maxsize=32)
def _granules(fields: Fields, size: int) -> Array | None:
    """The offsets of whole granules in a box (ascending), None if it fills some partly."""
    offsets = tile_of(fields).offsets
    parts = distinct(offsets // size) * size
    return parts if len(parts) * size == len(offsets) * fields.itemsize else None


@functools.lru_cache(maxsize=32)
def _unit(fields: Fields) -> int:
    """What divides a box's first coordinate along the innermost dimension: the elements of 16 bytes, or 128 of padded ones."""
    if fields.padded:
        return PADDED_BOX
    row = 8 * tensor_map.ROW_UNIT
    return row // math.gcd(row, fields.packed or 8 * fields.pixel)


def _offsets(values: list[Array], rank: int) -> list[Array]:
    """The im2col offsets that count: 16 bits, 8 bits each of two, or 5 bits each of three, which the assembler packs by
    addition."""
    wide = [np.asarray(v).astype(np.int64) & 0xFFFF for v in values]
    if rank == 5:
        packed = sum(v << 5 * i for i, v in enumerate(wide))
        return [np.asarray(packed) >> 5 * i & 0x1F for i in range(len(wide))]
    return [v & 0xFF for v in wide] if rank == 4 else wide


def _to_tf32(bits: Array) -> Array:
    """Round to nearest even; every NaN becomes 0x7fffe000."""
    nan = bits & np.uint32(0x7FFFFFFF) > 0x7F800000
    odd = bits >> np.uint32(13) & np.uint32(1)
    rounded = (bits + (np.uint32(0xFFF) + odd)) & np.uint32(0xFFFFE000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded)


def _signed(values: Array, width: int) -> Array:
    shift = 64 - width
    return np.asarray(values).astype(np.int64) << shift >> shift


@frozen(eq=False)
class Tile:
    """The elements of a box of a tiled map: offsets in bytes from that of its first, which lies at ``strides`` times
    its coordinates, and how far it extends."""

    offsets: Array
    strides: Array
    last: Array
    """The greatest coordinates of a box that lies inside the tensor."""
    reach: Array
    """Coordinates from the first element to behind the last."""
    injective: bool
    """Whether no two elements of the tensor have the same address."""

    def holds(self, first: Array) -> bool:
        """Whether boxes at coordinates ``[axes, boxes]`` lie inside the tensor."""
        return bool(np.logical_and.reduce((first >= 0) & (first <= self.last), axis=None))


@functools.lru_cache(maxsize=32)
def tile_of(fields: Fields) -> Tile:
    """The elements of a map's boxes."""
    axes = range(fields.rank)
    counts = [box_extent(fields, axis) for axis in axes]
    offsets: Array = np.zeros(1, np.int64)
    for axis in reversed(axes):  # the innermost axis varies fastest
        steps = step_of(fields, axis) * stride_of(fields, axis) * np.arange(counts[axis], dtype=np.int64)
        offsets = (offsets[:, None] + steps).reshape(-1)
    last = [fields.dims[axis] - 1 - step_of(fields, axis) * (counts[axis] - 1) for axis in axes]
    strides = [stride_of(fields, axis) for axis in axes]
    reach = [step_of(fields, axis) * (counts[axis] - 1) + 1 for axis in axes]
    injective = all(strides[axis] >= strides[axis - 1] * fields.dims[axis - 1] for axis in axes[1:])
    return Tile(
        offsets, np.array(strides, np.int64), np.array(last, np.int64)[:, None], np.array(reach)[:, None], injective
    )


def tile_elements(fields: Fields, coordinates: Array) -> tuple[Array, Array]:
    """Places of the elements of boxes at ``coordinates`` (``[axes, boxes]``, dimension 0 innermost): byte offset in the
    tensor ``[boxes, elements]`` (int64), and a mask of those inside."""
    tile = tile_of(fields)
    offset: Array = (tile.strides @ coordinates)[:, None] + tile.offsets
    inside: Array = np.ones(offset.shape, np.bool_)
    if not tile.holds(coordinates):
        n, shape = len(offset), [box_extent(fields, axis) for axis in range(fields.rank)]
        grid = inside.reshape(n, *shape[::-1])
        for axis, count in enumerate(shape):
            place = coordinates[axis][:, None] + step_of(fields, axis) * np.arange(count, dtype=np.int64)
            good = (place >= 0) & (place < fields.dims[axis])
            grid &= good.reshape([n, *[1] * (fields.rank - 1 - axis), count, *[1] * axis])
    return _spread(fields, offset, inside) if fields.interleave else (offset, inside)


def im2col_elements(fields: Fields, coordinates: Array, offsets: list[Array]) -> tuple[Array, Array]:
    """Places of the elements of im2col boxes: ``pixels`` positions of the bounding box, ``channels`` elements each.

    ``coordinates`` are (c, w, [h, [d,]] n), or (w, [h, [d,]] slice, n) if interleaved; ``offsets`` move the pixels
    within the filter.
    """
    carry: Array = np.arange(fields.pixels, dtype=np.int64)[None]
    row: Array = np.zeros(1, np.int64)
    good: Array = np.ones(1, np.bool_)
    for i, (axis, low, end) in enumerate(bounding_box(fields)):
        step, first = fields.element_strides[axis], coordinates[axis][:, None]
        left, count = -(-(end - first) // step), max(-(-(end - low) // step), 1)
        later = carry - left  # rows after the first begin at the edge of the bounding box
        place = np.where(later < 0, first + carry * step, low + later % count * step) + offsets[i][:, None]
        carry = np.where(later < 0, 0, later // count + 1)
        row = row + place * stride_of(fields, axis)
        good = good & (place >= 0) & (place < fields.dims[axis])
    batch = coordinates[-1][:, None] + carry
    row = row + batch * fields.strides[-1]
    good = good & (batch >= 0) & (batch < fields.dims[-1])
    if fields.interleave:
        part = coordinates[-2][:, None]
        row, good = row + part * fields.strides[-2], good & (part >= 0) & (part < fields.dims[-2])
        return _spread(fields, *np.broadcast_arrays(row, good))
    return _channels(fields, row, good, coordinates[0])


def _wide_parts(fields: Fields, mode: str) -> tuple[int, int]:
    """Pixels of a box without its halos, and how many of them follow each other."""
    if mode == "im2col::w::128":
        return tensor_map.W128_PIXELS, tensor_map.W128_PART
    return fields.pixels, fields.pixels


def _wide_count(fields: Fields, mode: str, halo: int) -> int:
    pixels, part = _wide_parts(fields, mode)
    return pixels + pixels // part * halo


def wide_elements(fields: Fields, coordinates: Array, offset: Array, mode: str, halo: int) -> tuple[Array, Array]:
    """Places of the elements of boxes that extend along W alone, and from its end to the next image; ``offset`` moves the pixels
    and the bounding box. Behind each part of a box follow ``halo`` more pixels of the row where it ends."""
    pixels, part = _wide_parts(fields, mode)
    ((axis, low, end),) = bounding_box(fields)
    step, first = fields.element_strides[axis], coordinates[axis][:, None]
    number = np.arange(pixels, dtype=np.int64)[None]
    left, count = -(-(end - first) // step), max(-(-(end - low) // step), 1)
    later = number - left
    w = np.where(later < 0, first + number * step, low + later % count * step) + offset[:, None]
    image = np.where(later < 0, 0, later // count + 1) + coordinates[-1][:, None]
    n = len(w)

    def with_halos(each: Array, step: int) -> Array:
        parts = each.reshape(n, -1, part)
        beyond = parts[:, :, -1:] + step * np.arange(1, halo + 1)
        return np.concatenate([parts, beyond], axis=2).reshape(n, -1)

    w, image = with_halos(w, step), with_halos(image, 0)
    row = w * stride_of(fields, axis) + image * fields.strides[-1]
    good = (w >= 0) & (w < fields.dims[axis]) & (image >= 0) & (image < fields.dims[-1])
    for other in range(axis + 1, fields.rank - 1):
        place = coordinates[other][:, None]
        row, good = row + place * stride_of(fields, other), good & (place >= 0) & (place < fields.dims[other])
    return _channels(fields, row, good, coordinates[0])


def _channels(fields: Fields, row: Array, good: Array, first: Array) -> tuple[Array, Array]:
    """Expand pixels ``[boxes, n]`` to their channels, from the ``first`` of each box on."""
    channel = first[:, None] + np.arange(fields.channels, dtype=np.int64)
    inside = (channel >= 0) & (channel < fields.dims[0])
    n = len(channel)
    return (
        (row[:, :, None] + (channel * fields.itemsize)[:, None]).reshape(n, -1),
        (good[:, :, None] & inside[:, None]).reshape(n, -1),
    )


def _spread(fields: Fields, offset: Array, inside: Array) -> tuple[Array, Array]:
    """Expand pixels ``[boxes, n]`` to elements."""
    n = len(offset)
    parts = np.arange(0, fields.pixel, fields.itemsize, dtype=np.int64)
    return (offset[:, :, None] + parts).reshape(n, -1), np.repeat(inside, len(parts), axis=1)
