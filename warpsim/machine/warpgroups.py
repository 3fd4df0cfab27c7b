"""Warpgroups: the shared memory that wgmma reads, element by element, in the CTA of each warpgroup."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.layout import descriptors
from warpsim.machine.group import Group
from warpsim.machine.values import Array

RULE = "descriptor"
_ADVICE = "see the matrix descriptor format and the table of canonical layouts"


class SharedMatrix:
    """The port of one step. ``extent`` is ``(n, m)``: warpgroups, and CTAs side by side."""

    def __init__(self, group: Group) -> None:
        self.group = group
        warps = group.warps
        self.extent = warps.n // 4, warps.m
        if warps.dense:
            self.columns = (group.selection.positions[0, 0].reshape(1, -1) % group.batch.shape.n_ctas).astype(np.int64)
        else:
            self.columns = warps.warp_ctas[::4].reshape(-1, 1)

    def check(self, bits: Array, k: int, extent: int, itemsize: int, transposed: bool) -> None:
        """Report descriptors that the text leaves undefined."""
        batch = self.group.batch
        if RULE not in batch.launch.settings.checks:
            return
        for number in {int(b) for b in bits.reshape(-1)}:
            found = descriptors.problem(number, k, extent, itemsize, transposed=transposed)
            if found:
                batch.fault(RULE, found, self.group, descriptor=f"0x{number:016x}", advice=_ADVICE)

    def read(self, address: Array, dtype: np.dtype[Any]) -> Array:
        """Elements at shared addresses ``[..., n, m]`` (both may be 1), as ``[..., n, m]``."""
        space = self.group.batch.shared
        if self.group.batch.wgmma is not None and self.group.batch.transfers.watched:
            self.group.batch.wgmma.reads(address, self.columns, dtype.itemsize, self.extent[0])
        flight = self.group.batch.memory.flight
        if flight is not None:
            flight.touch("read", address, dtype.itemsize, self.columns, None)
        low, high = int(address.min()), int(address.max()) + dtype.itemsize
        if low < 0 or high > space.size:
            self.group.batch.fault(
                RULE if RULE in self.group.batch.launch.settings.checks else "out-of-bounds",
                f"wgmma reads shared memory up to 0x{high:x}; the CTA has {space.size} bytes",
                self.group,
                address=high,
            )
            address = np.minimum(address, max(space.size - 16, 0)) & -16
        if self.group.batch.memory.proxies is not None:
            self.group.batch.memory.proxies.matrix(address, self.columns)
        if self.group.batch.memory.races is not None:
            self.group.batch.memory.races.matrix(address, self.columns)
        if space.defined is not None and space.defined.lacks(address, self.columns, False, dtype.itemsize, None):
            self.group.batch.fault(
                "uninitialised",
                "wgmma reads shared memory that nothing has written",
                self.group,
                advice="write the whole tile before it is multiplied",
            )
        if address.shape[-2:] == (1, 1) and not space.size % 4:
            rows = space.words.take(address.reshape(-1) >> 2, axis=0)
            shift = ((address.reshape(-1) & 3) << 3).astype(np.uint32)[:, None]
            values = (rows >> shift).astype(dtype) if dtype.itemsize < 4 else rows
            values = (
                values[:, self.columns] if self.extent[1] != space.n_columns or self.columns.shape[0] > 1 else values
            )
            if values.ndim == 2:
                values = values[:, None, :]
            shape = (*address.shape[:-2], *self.extent)
            return np.broadcast_to(values, (values.shape[0], *self.extent)).reshape(shape)
        values = space.gather(address, np.broadcast_to(self.columns, (*address.shape[:-2], *self.columns.shape)), dtype)
        return np.broadcast_to(values, (*address.shape[:-2], *self.extent))
