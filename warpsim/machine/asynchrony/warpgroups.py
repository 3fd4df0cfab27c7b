"""Shared memory as wgmma reads it, element by element, in the CTA of each warpgroup."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.layout import descriptors
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, DType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

ADVICE = "see the matrix descriptor format and its table of canonical layouts"
FEW = 16
"""Different descriptors that are looked up one by one."""
_FIRST = np.zeros((1, 1), np.int64)


@attrs.frozen(eq=False)
class Words:
    """Where matrices stand: the words of all CTAs, the CTA of each warpgroup ``[W]``, and the address in memory of the
    table of each ``[n, m]`` (both may be 1), which holds places in bytes, of column 0. ``held`` keeps the tables."""

    flat: Array
    columns: Array
    tables: Array
    held: object


class _Matrix:
    """What descriptors ``[n, m]`` name: the ``elements`` of a few different ones and ``which`` is whose, or every address."""

    def __init__(self, bits: Array, k: int, extent: int, itemsize: int, *, transposed: bool) -> None:
        first = bits.item(0)
        self.elements: list[descriptors.Elements] = []
        self.which: Array = _FIRST
        if bits.size == 1 or (bits == first).all():
            numbers, bits = [first], bits[:1, :1]
        else:
            some = bits[:, :1] if (bits == bits[:, :1]).all() else bits
            found, inverse = np.unique(some, return_inverse=True)
            numbers, self.which = found.tolist(), inverse.reshape(some.shape)
        self.bits, self.k, self.extent, self.itemsize, self.transposed = bits, k, extent, itemsize, transposed
        if len(numbers) <= FEW:
            self.elements = [descriptors.elements(b, k, extent, itemsize, transposed=transposed) for b in numbers]
            self.low, self.high = min([e.low for e in self.elements]), max([e.high for e in self.elements])
        else:
            address = self.addresses()
            self.low, self.high = int(address.min()), int(address.max()) + itemsize

    def addresses(self) -> Array:
        """The byte address of each element, ``[k, extent, n, m]`` (n and m may be 1)."""
        return descriptors.byte_addresses(
            descriptors.decode(self.bits), self.k, self.extent, self.itemsize, transposed=self.transposed
        )

    def read(self) -> tuple[Array, int]:
        """The addresses ``[..., n, m]`` of all bytes that are read, and how many lie at each."""
        if not self.elements or len({len(e.chunks) for e in self.elements}) > 1:
            return self.addresses(), self.itemsize
        if len(self.elements) == 1:
            return self.elements[0].chunks, descriptors.CHUNK
        return np.stack([e.chunks[:, 0, 0] for e in self.elements], axis=1)[:, self.which], descriptors.CHUNK


class SharedMatrix:
    """The port of one step. ``extent`` is ``(n, m)``: warpgroups, and CTAs side by side."""

    def __init__(self, machine: Machine, group: Group) -> None:
        self.machine = machine
        self.group = group
        warps = group.warps
        self.extent = warps.n // 4, warps.m
        self.columns = warps.columns
        self.told = False
        """Whether watchers know already what is read."""

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool) -> Array:
        """Read the matrix ``[W, k, extent]`` of descriptors ``[n, m]`` (both may be 1); ``W`` is ``n * m``."""
        size, n_columns, space = dtype.itemsize, self.machine.batch.shape.n_ctas, self.machine.batch.shared
        matrix = _Matrix(bits, k, extent, size, transposed=transposed)
        inside = matrix.high <= space.size
        address: Array | None = None
        if not inside:
            space.spare()
            address = np.minimum(matrix.addresses(), max(space.size - 16, 0)) & -16
        self._tell(matrix, address)
        if inside and matrix.elements:
            per = 4 // size
            flat = space.flat.view(f"u{size}")
            if n_columns == 1 and self.extent == (1, 1):
                return flat.take(matrix.elements[0].places(1), mode="clip").view(dtype).reshape(1, k, extent)
            index = matrix.elements[0].places(n_columns)
            if len(matrix.elements) > 1:
                which = np.broadcast_to(matrix.which, self.extent).reshape(-1)
                index = np.stack([e.places(n_columns) for e in matrix.elements])[which]
            if n_columns > 1:
                index = index + self._columns()[:, None] * per
            found = flat.take(index, mode="clip").view(dtype)
            count = math.prod(self.extent)
            return np.broadcast_to(found, (count, k * extent)).reshape(count, k, extent)
        if address is None:
            address = matrix.addresses()
        values = space.gather(address, np.broadcast_to(self.columns, (*address.shape[:-2], *self.columns.shape)), dtype)
        full = np.broadcast_to(values, (k, extent, *self.extent)).reshape(k, extent, -1)
        return np.ascontiguousarray(full.transpose(2, 0, 1))

    def words(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool) -> Words | None:
        """Tell that the matrix is read, and where it stands; None, and nothing is told, where it leaves shared memory."""
        space = self.machine.batch.shared
        matrix = _Matrix(bits, k, extent, dtype.itemsize, transposed=transposed)
        if matrix.high > space.size:
            return None
        self._tell(matrix, None)
        n_columns = self.machine.batch.shape.n_ctas
        held: object
        if matrix.elements:
            held = found = [e.words(n_columns) for e in matrix.elements]
            tables = np.array([at for _, at in found], np.int64)[matrix.which]
        else:
            held = places = descriptors.word_places(
                matrix.addresses(), dtype.itemsize, n_columns, transposed=transposed
            )
            n, m, *_ = places.shape
            tables = places.ctypes.data + places[0, 0].nbytes * np.arange(n * m).reshape(n, m)
        return Words(space.flat, self._columns(), tables, held)

    def _columns(self) -> Array:
        """The CTA of each warpgroup, ``[W]``, side by side in memory."""
        columns = self.columns
        if columns.shape != self.extent:
            columns = np.ascontiguousarray(np.broadcast_to(columns, self.extent))
        return columns.reshape(-1)

    def _tell(self, matrix: _Matrix, address: Array | None) -> None:
        """Report descriptors and accesses to the hooks (``address``: those that are made instead); report descriptors
        that leave shared memory as faults if no watcher does.
        """
        if self.told:
            return
        machine, low, high = self.machine, matrix.low, matrix.high
        size, before = machine.batch.shared.size, machine.errors
        told = machine.hooks.descriptor_read
        if told is not None:
            columns = self.columns
            if columns.shape != self.extent:
                columns = np.broadcast_to(columns, self.extent)
            shape = matrix.k, matrix.extent, matrix.itemsize, matrix.transposed
            told(machine, self.group, matrix.bits, columns, shape, (low, high))
        if high > size and machine.errors == before:
            message = descriptors.beyond(int(matrix.bits.flat[0]), high, size)
            machine.fault("out-of-bounds", message, self.group, address=high, advice=ADVICE)
        if machine.hooks.tile_read is not None:
            where, nbytes = matrix.read() if address is None else (address, matrix.itemsize)
            machine.hooks.tile_read(machine, self.group, where, self.columns, (low, high), nbytes)
