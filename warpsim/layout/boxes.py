"""The elements of boxes that tensor copies move: their places in the tensor and in shared memory, for many boxes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout import tensor_map
from warpsim.layout.tensor_map import Fields

Array = NDArray[Any]


class Boxes:
    """Boxes of one map at coordinates ``[boxes]`` for each dimension, innermost first; ``offsets`` likewise (im2col)."""

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

    def elements(self, which: Array) -> tuple[Array, Array]:
        """Byte offset in the tensor ``[boxes, count]`` (int64) of each element of some boxes, and whether it is inside."""
        coordinates = [c[which] for c in self.coordinates]
        if self.fields.im2col:
            offsets = [np.broadcast_to(o, self.coordinates[0].shape)[which] for o in self.offsets]
            return tensor_map.im2col_elements(self.fields, coordinates, offsets)
        return tensor_map.tile_elements(self.fields, coordinates)

    def shared(self, start: Array) -> Array:
        """Shared addresses ``[boxes, count]`` (bytes) of boxes that begin at ``start``, swizzled."""
        address = start[:, None] + self.fields.itemsize * np.arange(self.count, dtype=np.int64)
        mask = (0, 1, 3, 7)[self.fields.swizzle]
        return address ^ ((address >> 7 & mask) << 4) if mask else address

    def finished(self, bits: Array) -> Array:
        """Loaded elements as the data type asks: subnormals flushed, tf32 rounded."""
        name = tensor_map.DATA_TYPES[self.fields.data_type]
        if name.endswith("_FTZ"):
            tiny = bits & np.uint32(0x7F800000) == 0
            bits = np.where(tiny, bits & np.uint32(0x80000000), bits)
        if name.startswith("TFLOAT32"):
            bits = _to_tf32(bits)
        return bits


def _to_tf32(bits: Array) -> Array:
    special = bits & np.uint32(0x7F800000) == 0x7F800000
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(special, bits, rounded)


def _signed(values: Array, width: int) -> Array:
    shift = 64 - width
    return np.asarray(values).astype(np.int64) << shift >> shift
