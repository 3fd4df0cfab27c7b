"""Flags: strong accesses through which threads release and acquire (memory consistency model, release and acquire
patterns).

A flag used by a single thread orders nothing yet. Its cell records when that thread last released through it (its
*lead*). It becomes a sync variable when another thread uses it, with what the first one knew. Many threads that each
fence and store to their own places thus cost little.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.race.clocks import CTA, BatchClocks, objects
from warpsim.checks.race.vector_clocks import Past, by_column
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.state.group import Group

MANY, CROWD = 64, -100
"""More sync variables than this in one step count as one, at an address outside all memory."""
SHARED_BY_MANY = -1
"""The lead of a flag that is a sync variable."""


class Flags:
    """The flags of a batch's threads."""

    def __init__(self, clocks: BatchClocks) -> None:
        self.clocks = clocks
        clocks.launch.flags_of_batches.append(self)

    @property
    def has_flags(self) -> bool:
        """Whether this step's strong access can be to a flag: it or a fence before releases, or a flag exists."""
        return (
            self.clocks.note.release
            or bool(self.clocks.order.fences)
            or self.clocks.launch.led
            or bool(self.clocks.launch.flags)
        )

    def strong(
        self,
        group: Group,
        cells: Cells,
        place: Array,
        mask: Array | None,
        columns: Array | None,
        start: int = 0,
        *,
        reads: bool,
        writes: bool,
    ) -> None:
        """Treat strong accesses as flags: a read acquires (at once, or with the next fence) what an earlier write
        released.

        ``cells`` are those of the memory that begins at ``start``; ``columns`` is None for global memory.
        """
        if not self.has_flags or self._is_own(group, cells, place, mask, columns, start, writes=writes):
            return
        self.clocks.widen()
        positions = group.selection.positions
        place, positions, where, index = self._flat(cells, place, mask, positions, columns, start)
        shared, narrow = columns is not None, self.clocks.note.level == CTA
        self._share_leads(cells, place, where, index, shared=shared)
        if writes:
            if self.clocks.note.release:
                self._give(
                    np.full(len(positions), self.clocks.now + 1), place, positions, where, shared=shared, narrow=narrow
                )
                cells.of("lead")[index] = SHARED_BY_MANY
            else:
                near, far = (self.clocks.order.fenced(positions, scope) for scope in ("cta", "gpu"))
                if narrow or (shared and not self.clocks.clustered):
                    self._give(near, place, positions, where, shared=shared, narrow=True)
                else:  # a fence of CTA scope makes it a release to the CTA
                    self._give(far, place, positions, where, shared=shared, narrow=False)
                    if not shared:
                        self._give(np.where(near > far, near, 0), place, positions, where, shared=shared, narrow=True)
                cells.of("lead")[index[near > 0]] = SHARED_BY_MANY
        if reads and self.clocks.launch.flags:
            for address in self.clocks.launch.flags.intersection([*np.unique(place).tolist(), CROWD]):
                at = np.full_like(place, CROWD) if address == CROWD else place
                for scope in (True,) if narrow or shared else (False, True):
                    for mine, key in self._keys(address, at, positions, where, shared=shared, narrow=scope):
                        self._take(mine, key, narrow=narrow)

    def _flat(
        self, cells: Cells, place: Array, mask: Array | None, positions: Array, columns: Array | None, start: int
    ) -> tuple[Array, Array, Array, Array]:
        """Address, position, column and cell of each participating thread; ``positions`` may be those of one CTA."""
        shape = positions.shape
        if place.size == 1 and place.ndim != positions.ndim:
            place = place.reshape((1,) * positions.ndim)
        place = np.broadcast_to(place, shape)
        where = positions % self.clocks.n_ctas if columns is None else np.broadcast_to(columns, shape)
        chosen = slice(None) if mask is None else np.broadcast_to(mask, shape).reshape(-1)
        place, positions, where = (x.reshape(-1)[chosen] for x in (place, positions, where))
        index = (place - start) // cells.granule
        return place, positions, where, index if cells.width == 1 else index * cells.width + where

    # ---- flags of one thread -----------------------------------------------------------------

    def _is_own(
        self,
        group: Group,
        cells: Cells,
        place: Array,
        mask: Array | None,
        columns: Array | None,
        start: int,
        *,
        writes: bool,
    ) -> bool:
        """Whether each thread accesses a place that no other has used as a flag; notes releases there."""
        shared, narrow = columns is not None, self.clocks.note.level == CTA
        positions, uniform = group.selection.positions, shared and self.clocks.order.uniform
        if uniform:  # all CTAs do the same
            positions, columns = positions[:, :, :1, :1], np.zeros((1, 1, 1, 1), np.int64)
            mask = None if mask is None else mask[:, :, :1, :1]
        _, positions, _, index = self._flat(cells, place, mask, positions, columns, start)
        threads = positions // self.clocks.n_ctas if uniform else positions + (0 if shared else self.clocks.base)
        lead = cells.of("lead")
        seen = lead[index]
        if ((seen != 0) & (seen & THREAD != threads)).any():
            return False
        if not writes:
            return True
        near = self.clocks.order.fenced(positions, "cta")
        if self.clocks.note.release:
            own = np.full(len(positions), self.clocks.now + 1)
        else:
            own = (
                near if narrow or (shared and not self.clocks.clustered) else self.clocks.order.fenced(positions, "gpu")
            )
        if not near.any() and not self.clocks.note.release:
            return True
        if not shared and (narrow or (near > own).any()):
            return False
        gives = own > 0
        epoch = (own << SHIFT | threads)[gives]
        past = self.clocks.order.past_of(positions[gives], own[gives]) if gives.any() else None
        if past is None:
            return not gives.any()
        lead[index[gives]] = epoch
        if (lead[index[gives]] != epoch).any():  # several threads at one place
            lead[index] = seen
            return False
        cells.of("past")[index[gives]] = self.clocks.launch.past(past)
        return True

    def _share_leads(self, cells: Cells, place: Array, where: Array, index: Array, *, shared: bool) -> None:
        """Turn flags at these places, used by one thread so far, into sync variables."""
        lead = cells.of("lead")
        _, first = np.unique(index, return_index=True)
        first = first[lead[index[first]] > 0]
        if not len(first):
            return
        seen, pasts, place, where = lead[index[first]], cells.of("past")[index[first]], place[first], where[first]
        lead[index[first]] = SHARED_BY_MANY
        threads = seen & THREAD
        owners = self.clocks.launch.numbers.owners(threads) if not shared else 0 * threads
        for number, mine in by_column(np.arange(len(threads)), owners):
            batch = self if shared else self.clocks.launch.flags_of_batches[number]
            positions = threads[mine] - (0 if shared else batch.clocks.base)
            columns = where[mine] if shared else positions % batch.clocks.n_ctas
            for past, some in by_column(np.arange(len(mine)), pasts[mine]):
                own = seen[mine[some]] >> SHIFT
                known = self.clocks.launch.pasts[past]
                batch._give(own, place[mine[some]], positions[some], columns[some], known, shared=shared, narrow=shared)

    # ---- flags of many -----------------------------------------------------------------------

    def _give(
        self,
        own: Array,
        place: Array,
        positions: Array,
        where: Array,
        past: Past | None = None,
        *,
        shared: bool,
        narrow: bool,
    ) -> None:
        """Release the threads' accesses before ``own`` (0: none), and what they know or knew, through flags at
        ``place``.
        """
        gives = own > 0
        if not gives.any():
            return
        self.clocks.widen()
        own, place, positions, where = own[gives], place[gives], positions[gives], where[gives]
        addresses = np.unique(place).tolist()
        if len(addresses) > MANY:
            addresses, place = [CROWD], np.full_like(place, CROWD)
        self.clocks.launch.flags.update(addresses)
        if (shared or narrow) and self._give_apart(own, place, positions, where, past, shared=shared):
            return
        for address in addresses:
            for mine, key in self._keys(address, place, positions, where, shared=shared, narrow=narrow):
                times = own if len(mine) == len(positions) else own[np.isin(positions, mine)]
                self.clocks.order.publish(key, mine, times, past)

    def _give_apart(
        self, own: Array, place: Array, positions: Array, where: Array, past: Past | None, *, shared: bool
    ) -> bool:
        """Handle the flags of all CTAs at once, if every CTA has its own."""
        if (where != positions % self.clocks.n_ctas).any():
            return False
        order, found = objects(where, place)
        if len(found) < 2 or (not shared and int(place.max()) >> 32):
            return False
        starts = np.array([start for start, _ in found])
        keys: list[Hashable] = [
            (self.clocks.base + column, address) if shared else (self.clocks.base + column, "cta", address)
            for column, address in zip(where[order[starts]].tolist(), place[order[starts]].tolist(), strict=True)
        ]
        return self.clocks.order.publish_apart(keys, starts, positions[order], own[order], past)

    def _keys(
        self, address: int, place: Array, positions: Array, where: Array, *, shared: bool, narrow: bool
    ) -> Iterator[tuple[Array, Hashable]]:
        """The threads at an address, and their sync variable."""
        here = place == address
        positions, where = positions[here], where[here]
        if not shared and not narrow:
            yield positions, ("gpu", address)
            return
        for column, mine in by_column(positions, where):
            yield mine, (self.clocks.base + column, address) if shared else (self.clocks.base + column, "cta", address)

    def _take(self, positions: Array, key: Hashable, *, narrow: bool) -> None:
        rows = self.clocks.launch.variables.get(key)
        if narrow and isinstance(key, tuple) and key[1] == "cta":  # a wider release of the same CTA serves as well
            wider = self.clocks.launch.variables.get(("gpu", key[2]), {}).get(key[0])
            rows = rows if wider is None else {**(rows or {}), key[0]: wider}
        if not rows:
            return
        self.clocks.widen()
        if self.clocks.note.acquire:
            self.clocks.order.acquire(rows, positions)
        else:
            self.clocks.order.expect(rows, positions)
            self.clocks.unfenced.read(self.clocks.launch.events[-1], positions, self.clocks.now, rows)
