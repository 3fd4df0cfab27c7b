"""Shared memory as wgmma reads it, element by element, in the CTA of each warpgroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.layout import descriptors
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, DType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

ADVICE = "see the matrix descriptor format and its table of canonical layouts"


class SharedMatrix:
    """The port of one step. ``extent`` is ``(n, m)``: warpgroups, and CTAs side by side."""

    def __init__(self, machine: Machine, group: Group) -> None:
        self.machine = machine
        self.group = group
        warps = group.warps
        self.extent = warps.n // 4, warps.m
        if warps.dense:
            self.columns = (group.selection.positions[0, 0].reshape(1, -1) % self.machine.batch.shape.n_ctas).astype(
                np.int64
            )
        else:
            self.columns = warps.warp_ctas[::4].reshape(-1, 1)

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool) -> Array:
        """Read the matrix ``[W, k, extent]`` of descriptors ``[n, m]`` (both may be 1); ``W`` is ``n * m``."""
        size, n_columns = dtype.itemsize, self.machine.batch.shape.n_ctas
        one: descriptors.Elements | None = None
        if bits.size == 1 or (bits == bits.reshape(-1)[0]).all():
            one = descriptors.elements(int(bits.reshape(-1)[0]), k, extent, size, transposed=transposed)
            address, low, high = one.address, one.low, one.high
        else:
            address = descriptors.byte_addresses(descriptors.decode(bits), k, extent, size, transposed=transposed)
            low, high = int(address.min()), int(address.max()) + size
        self._check(bits, (k, extent, size, transposed), low, high)
        space = self.machine.batch.shared
        if low < 0 or high > space.size:
            space.spare()
            address, one = np.minimum(address, max(space.size - 16, 0)) & -16, None
        if one is not None:
            self._watch(one.chunks, low, high, descriptors.CHUNK)
        else:
            self._watch(address, low, high, size)
        if one is not None and not space.size % 4:
            per = 4 // size
            flat = space.flat.view(f"u{size}")
            if n_columns == 1 and self.extent == (1, 1):
                return flat.take(one.places(1), mode="clip").view(dtype).reshape(1, k, extent)
            columns = np.broadcast_to(self.columns, self.extent).reshape(-1, 1)
            index = one.places(n_columns) if n_columns == 1 else one.places(n_columns) + columns * per
            found = flat.take(index, mode="clip").view(dtype)
            return np.broadcast_to(found, (len(columns), k * extent)).reshape(len(columns), k, extent)
        values = space.gather(address, np.broadcast_to(self.columns, (*address.shape[:-2], *self.columns.shape)), dtype)
        full = np.broadcast_to(values, (k, extent, *self.extent)).reshape(k, extent, -1)
        return np.ascontiguousarray(full.transpose(2, 0, 1))

    def _check(self, bits: Array, matrix: tuple[int, int, int, bool], low: int, high: int) -> None:
        """Report descriptors to the window; report those that leave shared memory as faults if no watcher does."""
        machine = self.machine
        size, before = machine.batch.shared.size, machine.errors
        told = machine.window.descriptor_read
        if told is not None:
            told(machine, self.group, bits, np.broadcast_to(self.columns, self.extent), matrix, (low, high))
        if (low < 0 or high > size) and machine.errors == before:
            message = descriptors.beyond(int(bits.reshape(-1)[0]), high, size)
            machine.fault("out-of-bounds", message, self.group, address=high, advice=ADVICE)

    def _watch(self, address: Array, low: int, high: int, size: int) -> None:
        """Report the accesses to the window."""
        machine = self.machine
        if machine.window.tile_read is not None:
            machine.window.tile_read(machine, self.group, address, self.columns, (low, high), size)
