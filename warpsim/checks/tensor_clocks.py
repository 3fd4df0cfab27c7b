"""What each warp knows of tcgen05 operations of the warps of its cluster: vector clocks for fences and completion.

A clock of a warp has an entry for each warp of the cluster, in several rows. An entry is the time before which
something holds for that warp's operations, as far as the knowing warp can tell:

- ``FENCED``: mma, cp and shift are ordered by ``tcgen05.fence::before_thread_sync`` (or a commit);
- ``COMMITTED``: mma, cp and shift whose commit came before are complete, as an mbarrier told;
- ``LOADED``, ``STORED``: ld and st have been waited for, and a ``before_thread_sync`` followed; ``LOADED_BARE`` and ``STORED_BARE``
  do without the fence;
- ``MET``: the warps have synchronised.

Synchronisation passes clocks on. What a warp's own asynchronous operations are ordered after is what it knew at its last
``tcgen05.fence::after_thread_sync``, its ``seen`` clock.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from warpsim.machine.machine import Machine
from warpsim.machine.specials import clusters_of, ranks_of
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct

FENCED, COMMITTED, LOADED, STORED, LOADED_BARE, STORED_BARE, MET = range(7)
ROWS = 7


class Clocks:
    """The clocks of a batch's warps. A warp is ``warp * n_ctas + cta``; its entry in a clock is ``rank * n_warps + warp``."""

    def __init__(self, machine: Machine) -> None:
        batch, launch = machine.batch, machine.launch
        self.n_ctas = n_ctas = batch.shape.n_ctas
        self.n_warps = n_warps = -(-batch.shape.n_threads // 32)
        x, y, z = launch.cluster
        self.cluster = clusters_of(launch, batch) if x * y * z > 1 else np.arange(n_ctas)
        rank = ranks_of(launch, batch)
        self.entry = (rank + np.arange(n_warps)[:, None] * 0) * n_warps + np.arange(n_warps)[:, None]
        self.entry = self.entry.reshape(-1)
        self.width = x * y * z * n_warps
        self.known = np.zeros((n_warps * n_ctas, ROWS, self.width), np.int64)
        self.seen = np.zeros_like(self.known)
        self.waited = np.zeros((2, n_warps * n_ctas), np.int64)
        """The time of each warp's last ``wait::ld`` and ``wait::st``."""
        self.now = 1
        self.variables: dict[Hashable, Array] = {}
        """What has been released through each sync variable, in each CTA."""

    def warps_of(self, positions: Array) -> Array:
        """The warps of threads."""
        return (positions // self.n_ctas >> 5) * self.n_ctas + positions % self.n_ctas

    def tick(self) -> int:
        """The time of a new event."""
        self.now += 1
        return self.now

    def own(self, warps: Array, row: int, time: int | Array) -> None:
        """Set warps' own entries in a row."""
        self.known[warps, row, self.entry[warps]] = time

    def knows(self, warps: Array, row: int, others: Array, *, seen: bool) -> Array:
        """The entries of ``others`` in the clocks (or the ``seen`` clocks) of warps; 0 for those of other clusters."""
        clock = self.seen if seen else self.known
        near = self.cluster[warps % self.n_ctas] == self.cluster[others % self.n_ctas]
        return np.where(near, clock[warps, row, self.entry[others]], 0)

    # ---- tcgen05 -----------------------------------------------------------------------------

    def before_sync(self, warps: Array) -> None:
        """Note ``tcgen05.fence::before_thread_sync``."""
        self.own(warps, FENCED, self.tick())
        for row, waited in zip((LOADED, STORED), self.waited, strict=True):
            self.own(warps, row, waited[warps])

    def after_sync(self, warps: Array) -> None:
        """Note ``tcgen05.fence::after_thread_sync``."""
        self.tick()
        self.seen[warps] = self.known[warps]

    def assume_fences(self, warps: Array, others: Array) -> None:
        """Let warps know, of what ``others`` did, what they would know if fences were where they are missing."""
        for fenced, bare in ((FENCED, MET), (LOADED, LOADED_BARE), (STORED, STORED_BARE)):
            self.known[warps, fenced, self.entry[others]] = self.known[warps, bare, self.entry[others]]
        self.after_sync(warps)

    def wait(self, warps: Array, *, stores: bool) -> None:
        """Note ``tcgen05.wait::ld`` or ``::st``."""
        time = self.tick()
        self.waited[int(stores), warps] = time
        self.own(warps, STORED_BARE if stores else LOADED_BARE, time)

    # ---- synchronisation ---------------------------------------------------------------------

    def released(self, warps: Array, *, commit: bool = False) -> Array:
        """What warps pass on now; with ``commit``, also that their operations are complete."""
        time = self.tick()
        self.own(warps, MET, time)
        clocks: Array = self.known[warps]
        if commit:
            for row in (FENCED, COMMITTED):
                clocks[np.arange(len(warps)), row, self.entry[warps]] = time
        return clocks

    def release(self, key: Hashable, columns: Array, clocks: Array) -> None:
        """Pass on ``clocks`` through a variable in the CTAs of ``columns``."""
        variable = self.variables.get(key)
        if variable is None:
            variable = self.variables[key] = np.zeros((self.n_ctas, ROWS, self.width), np.int64)
        if len(columns) == len(distinct(columns)):
            variable[columns] = np.maximum(variable[columns], clocks)
        else:
            np.maximum.at(variable, columns, clocks)

    def acquire(self, key: Hashable, columns: Array, warps: Array) -> None:
        """Learn what has been passed on through a variable."""
        variable = self.variables.get(key)
        if variable is not None:
            self.tick()
            for column, warp in zip(columns.tolist(), warps.tolist(), strict=True) if _twice(warps) else ():
                np.maximum(self.known[warp], variable[column], out=self.known[warp])
            if not _twice(warps):
                self.known[warps] = np.maximum(self.known[warps], variable[columns])

    def release_phase(self, key: Hashable, columns: Array, phases: Array, clocks: Array) -> None:
        """The same through phases of an object, each of which also passes on what the one before did."""
        for phase in distinct(phases).tolist():
            mine = phases == phase
            before = self.variables.get((key, 1 - phase))
            self.release((key, phase), columns[mine], clocks[mine])
            if before is not None:
                variable = self.variables[key, phase]
                some = distinct(columns[mine])
                variable[some] = np.maximum(variable[some], before[some])

    def acquire_phase(self, key: Hashable, columns: Array, phases: Array, warps: Array) -> None:
        """The same through phases of an object."""
        for phase in distinct(phases).tolist():
            mine = phases == phase
            self.acquire((key, phase), columns[mine], warps[mine])

    def meet(self) -> None:
        """Let all warps of each CTA learn what the others know."""
        self.own(np.arange(len(self.known)), MET, self.tick())
        clocks = self.known.reshape(self.n_warps, self.n_ctas, ROWS, self.width)
        clocks[...] = clocks.max(axis=0)


def _twice(warps: Array) -> bool:
    return len(warps) > 1 and len(distinct(warps)) < len(warps)
