"""The elements of boxes that tensor copies move: their places in the tensor and in shared memory, for many boxes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout import tensor_map
from warpsim.layout.tensor_map import Fields

Array = NDArray[Any]


class Boxes:
    """Boxes of one map at coordinates ``[boxes]`` for each dimension, innermost first; ``offsets`` likewise (im2col).

    A box has ``count`` elements of ``nbytes`` in all. In shared memory its rows of ``inner`` bytes lie ``pitch`` bytes apart,
    at least a swizzle span (read off an H200), and so it takes ``extent`` bytes there."""

    def __init__(self, fields: Fields, coordinates: list[Array], offsets: list[Array]) -> None:
        self.fields = fields
        self.coordinates = [_signed(c, 32) for c in coordinates]
        spatial = max(fields.rank - 2, 0)
        self.offsets = [_signed(o, 16) for o in offsets] or [np.zeros(1, np.int64)] * spatial
        self.dtype = np.dtype(f"u{fields.itemsize}")
        if fields.im2col:
            self.count = fields.pixels * fields.channels
        else:
            self.count = int(np.prod([tensor_map.box_extent(fields, axis) for axis in range(fields.rank)]))
        self.nbytes = self.count * fields.itemsize
        self.inner = (fields.channels if fields.im2col else fields.box[0]) * fields.itemsize
        self.pitch = max(tensor_map.SPANS[fields.swizzle], self.inner)
        self.extent = self.nbytes // self.inner * self.pitch

    def elements(self, which: Array) -> tuple[Array, Array]:
        """Byte offset in the tensor ``[boxes, count]`` (int64) of each element of some boxes, and whether it is inside."""
        coordinates = [c[which] for c in self.coordinates]
        if self.fields.im2col:
            offsets = [np.broadcast_to(o, self.coordinates[0].shape)[which] for o in self.offsets]
            return tensor_map.im2col_elements(self.fields, coordinates, offsets)
        return tensor_map.tile_elements(self.fields, coordinates)

    def shared(self, start: Array) -> Array:
        """Shared addresses ``[boxes, count]`` (bytes) of boxes that begin at ``start``, swizzled."""
        offset = self.fields.itemsize * np.arange(self.count, dtype=np.int64)
        if self.pitch > self.inner:
            offset = offset // self.inner * self.pitch + offset % self.inner
        address = start[:, None] + offset
        mask = (0, 1, 3, 7)[self.fields.swizzle]
        return address ^ ((address >> 7 & mask) << 4) if mask else address

    def finished(self, bits: Array) -> Array:
        """Loaded elements as the data type asks: tf32 is rounded; FTZ changes no load (as on an H200)."""
        return _to_tf32(bits) if tensor_map.DATA_TYPES[self.fields.data_type].startswith("TFLOAT32") else bits

    def misplaced(self) -> Array:
        """Which boxes begin at no multiple of 16 bytes of the innermost dimension."""
        return self.coordinates[0] * self.fields.itemsize % tensor_map.ROW_UNIT != 0


def _to_tf32(bits: Array) -> Array:
    """Rounded to nearest even; every NaN is 0x7fffe000."""
    nan = bits & np.uint32(0x7FFFFFFF) > 0x7F800000
    odd = bits >> np.uint32(13) & np.uint32(1)
    rounded = (bits + (np.uint32(0xFFF) + odd)) & np.uint32(0xFFFFE000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded)


def _signed(values: Array, width: int) -> Array:
    shift = 64 - width
    return np.asarray(values).astype(np.int64) << shift >> shift
