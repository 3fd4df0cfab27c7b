"""The places of a box's elements in the tensor."""

from __future__ import annotations

import functools

import attrs
import numpy as np

from warpsim.layout.tensor_map import Array, Fields, bounding_box, box_extent, step_of, stride_of


@attrs.frozen(eq=False)
class Tile:
    """The elements of a box of a tiled map: offsets in bytes from that of its first, which lies at ``strides`` times its
    coordinates, and how far it extends.
    """

    offsets: Array
    strides: Array
    last: Array
    """The greatest coordinates of a box that lies inside the tensor."""

    def holds(self, first: Array) -> bool:
        """Whether boxes at coordinates ``[axes, boxes]`` lie inside the tensor."""
        return bool(((first >= 0) & (first <= self.last)).all())


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
    return Tile(offsets, np.array(strides, np.int64), np.array(last, np.int64)[:, None])


def tile_elements(fields: Fields, coordinates: Array) -> tuple[Array, Array]:
    """Places of the elements of boxes at ``coordinates`` (``[axes, boxes]``, dimension 0 innermost): byte offset in the
    tensor ``[boxes, elements]`` (int64), and a mask of those inside.
    """
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
    channel = coordinates[0][:, None] + np.arange(fields.channels, dtype=np.int64)
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
