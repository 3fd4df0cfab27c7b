"""The elements of boxes moved by tensor copies: their places in the tensor and in shared memory, for many boxes at
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout import tensor_map
from warpsim.layout.tensor_map import PACK, PADDED_BOX, Fields

Array = NDArray[Any]


class Boxes:
    """Boxes of one map, at coordinates ``[boxes]`` for each dimension, innermost first; ``offsets`` in the same form
    (im2col).

    A box has ``count`` elements of ``nbytes``. In shared memory its rows of ``inner`` bytes lie ``pitch`` bytes apart,
    at least a swizzle span unless interleaved (observed on an H200), so it occupies ``extent`` bytes there.

    With ``units``, neighbouring elements that always move together count as one; ``element`` is the type of a single
    one.
    """

    def __init__(self, fields: Fields, coordinates: list[Array], offsets: list[Array], *, units: bool = False) -> None:
        self.coordinates = [_signed(c, 32) for c in coordinates]
        self.displaced = _misplaced(fields, self.coordinates[0])
        """Mask of the boxes that begin where a copy cannot begin along the innermost dimension."""
        if fields.packed:
            self.coordinates[0] = self.coordinates[0] * fields.packed // (8 * fields.itemsize)
        self.slot = PACK * fields.packed // 8 if fields.padded else 0
        self.fields = fields = tensor_map.in_parts(fields)
        spatial = max(fields.rank - 2, 0)
        self.offsets = _offsets(offsets, fields.rank) or [np.zeros(1, np.int64)] * spatial
        self.element = np.dtype(f"u{fields.itemsize}")
        parts = tensor_map.in_units(fields) if units and not self.displaced.any() else None
        self._moved = parts or fields
        """The map by which elements, or units of them, are found."""
        self.dtype = np.dtype(f"u{self._moved.itemsize}")
        if fields.im2col:
            self.inner = fields.pixel if fields.interleave else fields.channels * fields.itemsize
            self.nbytes = fields.pixels * self.inner
        else:
            extents = [tensor_map.box_extent(fields, axis) for axis in range(fields.rank)]
            self.inner = extents[0] * fields.pixel
            self.nbytes = int(np.prod(extents)) * fields.pixel
        self.count = self.nbytes // self.dtype.itemsize
        row = self.inner // self.slot * PACK if self.slot else self.inner
        self.pitch = row if fields.interleave else max(tensor_map.SPANS[fields.swizzle], row)
        taken, span = self.nbytes // self.inner * self.pitch, max(tensor_map.SPANS[fields.swizzle], 1)
        self.extent = -(-taken // span) * span

    @property
    def fill(self) -> int:
        """The bits of an element outside the tensor."""
        return self._moved.fill

    def __deepcopy__(self, memo: object) -> Boxes:
        return self  # immutable

    def elements(self, which: Array) -> tuple[Array, Array]:
        """The byte offset in the tensor ``[boxes, count]`` (int64) of each element of some boxes, and a mask of those
        inside.
        """
        coordinates = [c[which] for c in self.coordinates]
        if self.fields.im2col:
            offsets = [np.broadcast_to(o, self.coordinates[0].shape)[which] for o in self.offsets]
            return tensor_map.im2col_elements(self.fields, coordinates, offsets)
        coordinates[0] = coordinates[0] * self.element.itemsize // self.dtype.itemsize
        return tensor_map.tile_elements(self._moved, coordinates)

    def span(self) -> tuple[int, int]:
        """The address range of the tensor."""
        fields = self.fields
        end = (fields.dims[0] - 1) * fields.pixel + fields.pixel
        end += sum((n - 1) * stride for n, stride in zip(fields.dims[1:], fields.strides, strict=True))
        return fields.address, fields.address + end

    def spread(self) -> tuple[Array, Array, int]:
        """The address of each element inside the tensor, its box, and the element size."""
        place, inside = self.elements(np.arange(len(self.coordinates[0])))
        return self.fields.address + place[inside], np.nonzero(inside)[0], self.dtype.itemsize

    def shared(self, start: Array) -> Array:
        """Shared addresses ``[boxes, count]`` in bytes of boxes that begin at ``start``, swizzled; ``[1, count]`` if
        they are the same for all of them.
        """
        if len(start) and (start == start[0]).all():
            start = start[:1]
        offset = self.dtype.itemsize * np.arange(self.count, dtype=np.int64)
        if self.pitch > self.inner:
            row, offset = offset // self.inner, offset % self.inner
            if self.slot:
                offset = offset // self.slot * PACK + offset % self.slot
            offset = row * self.pitch + offset
        address = start[:, None] + offset
        mask = (0, 1, 3, 7)[self.fields.swizzle]
        return address ^ ((address >> 7 & mask) << 4) if mask else address

    def finished(self, bits: Array) -> Array:
        """Finish loaded elements for the data type: tf32 is rounded; FTZ changes no load (as on an H200)."""
        if not tensor_map.DATA_TYPES[self.fields.data_type].startswith("TFLOAT32"):
            return bits
        return _to_tf32(bits.view(np.uint32)).view(bits.dtype)

    def outside(self) -> list[tuple[int, Array]]:
        """The im2col dimensions along which boxes begin outside the bounding box, each with a mask of those boxes."""
        if not self.fields.im2col:
            return []
        bounds = tensor_map.bounding_box(self.fields)
        found = [(axis, (self.coordinates[axis] < low) | (self.coordinates[axis] >= end)) for axis, low, end in bounds]
        return [(axis, boxes) for axis, boxes in found if boxes.any()]


def _misplaced(fields: Fields, first: Array) -> Array:
    """Mask of the boxes that do not begin at a multiple of 16 bytes of the innermost dimension, or of 128 for padded
    elements.
    """
    if fields.padded:
        return first % PADDED_BOX != 0
    bits = fields.packed or 8 * fields.pixel
    return first * bits % (8 * tensor_map.ROW_UNIT) != 0


def _offsets(values: list[Array], rank: int) -> list[Array]:
    """The im2col offsets that count: 16 bits, 8 bits each of two, or 5 bits each of three, which the assembler packs by
    addition.
    """
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
