"""Premature accesses to shared memory that copies and wgmma in flight still write or read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.epochs import EpochSheets, Met
from warpsim.machine.values import Array, Place

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer
    from warpsim.program.program import Instruction

EARLY, OVERWRITE = "async-read-early", "async-smem-overwrite"
_NEVER = np.iinfo(np.int32).max


class MatrixFootprint:
    """The elements that a wgmma reads: byte addresses ``[elements, columns]`` within ``limits``, ``itemsize`` bytes
    each.
    """

    def __init__(
        self,
        address: Array,
        columns: Array,
        limits: tuple[int, int],
        itemsize: int,
        open: Array,
        place: Instruction | None,
    ) -> None:
        self.address, self.columns, self.itemsize = address, columns, itemsize
        self.low, self.high = limits
        self.place = place
        self.open = open
        self._keys: Array | None = None

    def hits(self, place: Array, nbytes: int, columns: Array, active: Array | None) -> Array:
        """A mask of the accesses of ``nbytes`` at ``place`` in ``columns`` (broadcast) that touch an element still
        being read.
        """
        own = self.address.shape[-1] > 1  # otherwise all columns read the same addresses
        if self._keys is None:
            self._keys = np.sort((self.address + (self.columns << 32 if own else 0)).reshape(-1))
        low = place + (columns << 32 if own else 0)
        found = np.searchsorted(self._keys, low - self.itemsize + 1) < np.searchsorted(self._keys, low + nbytes)
        found = found & self.open[columns]
        return found if active is None else found & active


class SharedUses:
    """The operations of a batch in flight. ``matrices`` are the footprints of wgmma."""

    def __init__(self, size: int, n_ctas: int) -> None:
        self.matrices: list[MatrixFootprint] = []
        self._extent = size, n_ctas
        self._copies: dict[int, Transfer] = {}
        self._sheets: dict[str, EpochSheets] = {}
        self._oldest = {"writes": _NEVER, "reads": _NEVER}

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return bool(self._copies or self.matrices)

    def enter(self, copy: Transfer) -> None:
        """Record the bytes of a copy."""
        self._copies[copy.serial] = copy
        for kind, footprint in (("writes", copy.writes), ("reads", copy.reads)):
            if footprint is not None:
                if kind not in self._sheets:
                    self._sheets[kind] = EpochSheets(*self._extent)
                claims, oldest = self._sheets[kind], self._oldest[kind]
                claims.put(footprint, copy.serial, oldest, partial(self._holders, kind))
                self._oldest[kind] = min(oldest, copy.serial)

    def settle(self) -> None:
        """Drop the copies that have finished reading and writing here."""
        open = [t for t in self._copies.values() if not t.over and not (t.writes is None and t.released)]
        if len(open) < len(self._copies):
            self._copies = {t.serial: t for t in open}
        self._oldest["writes"] = next((t.serial for t in open if t.writes is not None), _NEVER)
        self._oldest["reads"] = next((t.serial for t in open if t.reads is not None and not t.released), _NEVER)
        for kind, claims in self._sheets.items():
            if self._oldest[kind] == _NEVER:
                claims.clear()

    def touch(
        self,
        machine: Machine,
        group: Group,
        access: str,
        place: Place,
        nbytes: int,
        columns: Array,
        active: Array | None,
        *,
        rows: bool = False,
        by: Array | None = None,
    ) -> None:
        """Check other accesses (``read``, ``write`` or ``atomic``) to shared memory, one per lane of the step.

        ``rows``: one per matrix row ``[n, k, m]`` of the warps; ``by``: one per thread at these positions (empty: by a
        warpgroup).
        """
        place = np.asarray(place, np.int64)
        self._meet(machine, group, "writes", access, place, nbytes, columns, active, by, rows=rows)
        if access == "read":
            return
        self._meet(machine, group, "reads", access, place, nbytes, columns, active, by, rows=rows)
        if self.matrices:
            low, high = int(place.min()), int(place.max()) + nbytes
            for matrix in self.matrices:
                if matrix.low < high and low < matrix.high:
                    found = matrix.hits(place, nbytes, columns, active)
                    if found.any():
                        what = "is written while a wgmma in flight reads it"
                        self._report(machine, group, OVERWRITE, what, matrix.place, place, found, by, rows=rows)

    def _meet(
        self,
        machine: Machine,
        group: Group,
        kind: str,
        access: str,
        place: Array,
        nbytes: int,
        columns: Array,
        active: Array | None,
        by: Array | None,
        *,
        rows: bool,
    ) -> None:
        """Compare accesses with what copies in flight write, or read."""
        if self._oldest[kind] == _NEVER:
            return
        for met in self._sheets[kind].met(place, nbytes, columns, active, self._oldest[kind]):
            for copy, index in self._holders(kind, met):
                if access == "atomic" and copy.reduces and kind == "writes":
                    continue  # each reduction is atomic
                shape = np.broadcast_shapes(place.shape, columns.shape, () if active is None else active.shape)
                found = np.zeros(shape, np.bool_)
                found.reshape(-1)[index] = True
                verb = "read" if access == "read" else "written"
                rule = EARLY if kind == "writes" else OVERWRITE
                what = f"is {verb} while an unfinished copy {kind} it"
                self._report(machine, group, rule, what, copy.place, place, found, by, rows=rows)

    def _holders(self, kind: str, met: Met) -> Iterator[tuple[Transfer, Array]]:
        """The copies that still write (or read) granules, and the accesses (flat indices) that touch them."""
        index, address, owners, numbers = met
        for number in np.unique(numbers).tolist():
            copy = self._copies.get(number)
            if copy is None:
                continue
            footprint = copy.writes if kind == "writes" else copy.reads
            open = copy.open if kind == "writes" else copy.open & ~copy.free
            if footprint is not None and open.any():
                which = numbers == number
                held = footprint.holders(address[which], owners[which], open)
                if held.any():
                    yield copy, index[which][held]

    def _report(
        self,
        machine: Machine,
        group: Group,
        rule: str,
        what: str,
        other: Instruction | None,
        place: Array,
        found: Array,
        by: Array | None,
        *,
        rows: bool,
    ) -> None:
        selection = group.selection
        address = int(np.broadcast_to(place, found.shape)[found][0])
        lanes: Array | None = None
        if by is not None:
            lanes = np.isin(selection.positions, by[found]) if len(by) else None
        elif rows:
            warps = group.warps
            lanes = warps.collect(found.any(axis=1, keepdims=True) & warps.active)
        elif found.ndim == len(selection.shape):
            lanes = np.broadcast_to(found, selection.shape)
        advice = (
            "wait for the copy (wait_group, or the phase of its mbarrier) before touching its destination"
            if rule == EARLY
            else "wait until the operation has read its source before writing there again"
        )
        machine.fault(
            rule, f"shared address 0x{address:x} {what}", group, lanes, address=address, advice=advice, other=other
        )
