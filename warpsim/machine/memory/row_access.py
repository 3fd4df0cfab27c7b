"""Rows of matrices (ldmatrix, stmatrix, wmma): consecutive words at addresses of single lanes, in warp view."""

from __future__ import annotations

import numpy as np

from warpsim.machine.events import READ, WRITE
from warpsim.machine.memory.addresses import misaligned, space_of
from warpsim.machine.memory.port import Port
from warpsim.machine.memory.strays import shared_advice
from warpsim.machine.selection import Rect
from warpsim.machine.state.global_memory import SHARED_WINDOW, WINDOW
from warpsim.machine.values import Array


class RowAccess(Port):
    """The part of the port that moves rows of matrices."""

    __slots__ = ()

    def access_rows(
        self, space: str, address: Array, count: int, words: tuple[Array, ...] | None, active: Array | None
    ) -> tuple[Array, ...]:
        """Word accesses in warp view: ``address`` is ``[n, k, m]``."""
        warps = self.group.warps
        kind = space_of(space)
        array = address.astype(np.int64)
        if kind == "":
            array = array - SHARED_WINDOW
        nbytes = count * 4
        shape = (warps.n, array.shape[1], warps.m)
        size = self.shared.size
        if int(array.min()) < 0 or int(array.max()) + nbytes > size or misaligned(array, 0, nbytes):
            array, active = self._row_faults(array, address, nbytes, active)
        columns = self._warp_columns(shape)
        told = self.window.rows_accessed
        if told is not None:
            access = READ if words is None else WRITE
            told(self.machine, self.group, access, array, nbytes, columns, active)
        if words is not None:
            array, columns = np.broadcast_to(array, shape), np.broadcast_to(columns, shape)
            mask = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
            for k, word in enumerate(words):
                full = np.broadcast_to(word, shape)
                self.shared.scatter(array[mask] + 4 * k, columns[mask], full[mask].view(np.uint32))
            return ()
        selection = self.group.selection
        rows = warps.dense and array.shape[2] == 1
        if rows and isinstance(selection, Rect) and selection.all_ctas:
            index = array.reshape(-1) >> 2
            out = (array.shape[0], array.shape[1], self.shared.n_columns)
            return tuple([self.shared.words.take(index + k, axis=0, mode="clip").reshape(out) for k in range(count)])
        array = np.broadcast_to(array, shape)
        return tuple([self.shared.gather(array + 4 * k, columns, np.dtype(np.uint32)) for k in range(count)])

    def _row_faults(self, array: Array, address: Array, nbytes: int, active: Array | None) -> tuple[Array, Array]:
        """Report rows that cannot be accessed; the addresses, 0 for those, and which rows can."""
        self.shared.spare()
        mask = self._check_space(array, address, active)
        array = np.broadcast_to(array, mask.shape)
        bad = mask & (array + nbytes > self.shared.size)
        odd = mask & ~bad & (array % nbytes != 0)
        for wrong, rule in ((bad, "out-of-bounds"), (odd, self._known("matrix-alignment", "misaligned"))):
            if wrong.any():
                first = int(array[wrong][0])
                what = "is not a multiple of" if wrong is odd else "of shared memory cannot be accessed with"
                self.machine.fault(
                    rule,
                    f"row address 0x{first:x} {what} {nbytes} bytes",
                    self.group,
                    self._lanes(wrong),
                    address=first,
                    **({"advice": shared_advice(self.machine.launch)} if wrong is bad else {}),
                )
                mask = mask & ~wrong
        return np.where(mask, array, 0), mask

    def _lanes(self, rows: Array) -> Array:
        """All lanes of the warps of some rows."""
        warps = self.group.warps
        return warps.collect(np.broadcast_to(rows.any(axis=1, keepdims=True), (warps.n, 32, warps.m)))

    def _check_space(self, array: Array, address: Array, active: Array | None) -> Array:
        """The rows that lie in shared memory at all; what names another space is reported."""
        warps = self.group.warps
        shape = (warps.n, array.shape[1], warps.m)
        mask = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
        wrong = mask & ((array < 0) | (array >= WINDOW))
        if not wrong.any():
            return mask
        first = int(np.broadcast_to(address, shape)[wrong][0])
        self.machine.fault(
            self._known("matrix-address-space", "out-of-bounds"),
            f"row address 0x{first:x} is not in shared memory",
            self.group,
            self._lanes(wrong),
            address=first,
            advice="ldmatrix and stmatrix move rows of shared memory only",
        )
        return mask & ~wrong

    def _known(self, rule: str, always: str) -> str:
        """A rule, or what stands for it in launches that do not check it."""
        return rule if rule in self.machine.launch.settings.checks else always

    def _warp_columns(self, shape: tuple[int, ...]) -> Array:
        warps = self.group.warps
        if warps.dense:
            return (self.group.selection.positions[0, 0].reshape(-1) % self.machine.batch.shape.n_ctas).reshape(
                1, 1, -1
            )
        return warps.warp_ctas.reshape(-1, 1, 1)
