"""async-read-early, async-smem-overwrite: accesses to memory that copies and wgmma in flight still write or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.async_global import GlobalStores
from warpsim.checks.async_shared import MatrixFootprint, SharedUses
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.reporting import present
from warpsim.machine.watcher import ATOMIC, READ, WRITE, MemoryAccess, Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array

NAME = "async"
VERBS = {READ: "read", WRITE: "write", ATOMIC: "atomic"}


class InFlight:
    """A batch's operations in flight: copies and wgmma in shared memory, stores to global memory. Those of batches that
    have ended are the launch's.
    """

    def __init__(self, machine: Machine) -> None:
        n_ctas = machine.batch.shape.n_ctas
        self.shared = SharedUses(machine.batch.shared.size, n_ctas)
        self.stores = GlobalStores()
        self.matrices: list[tuple[MatrixFootprint, int, Array]] = []
        """Matrices read by wgmma, their warpgroups, and the tickets of their CTAs."""
        self.released = self.completed = False
        """Whether copies may have released their sources, and completed."""

    def settle(self) -> None:
        """Drop completed operations."""
        if self.released or self.completed:
            self.shared.settle()
            if self.completed:
                self.stores.settle()
            self.released = self.completed = False


class AsyncReuse(Watcher):
    """Compares accesses with the copies and wgmma in flight."""

    def batch_began(self, machine: Machine) -> None:
        """Start with nothing in flight."""
        machine.launch.notes.setdefault(NAME, GlobalStores())
        machine.batch.notes[NAME] = InFlight(machine)

    def batch_ended(self, machine: Machine) -> None:
        """Keep the stores that nobody has waited for: only the end of the kernel completes them for other CTAs."""
        machine.launch.notes[NAME].inherit(machine, machine.batch.notes[NAME].stores)

    def _in_flight(self, machine: Machine) -> InFlight:
        found: InFlight = machine.batch.notes[NAME]
        found.settle()
        return found

    def _stores(self, machine: Machine) -> list[GlobalStores]:
        """The stores in flight: those of batches that have ended, and of others."""
        launch = machine.launch
        running = [batch.notes[NAME].stores for batch in launch.batches]
        return [stores for stores in (launch.notes[NAME], *running) if stores.busy]

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check accesses of threads."""
        found = self._in_flight(machine)
        if access.space == "global":
            for stores in self._stores(machine):
                stores.touch(machine, group, VERBS[access.kind], access.places, access.nbytes, access.active)
        elif found.shared.busy and access.space != "local" and not (machine.delivering and late(machine)):
            found.shared.touch(
                machine, group, VERBS[access.kind], access.place, access.nbytes, access.columns, access.active
            )

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows."""
        shared = self._in_flight(machine).shared
        if shared.busy:
            shared.touch(
                machine,
                group,
                VERBS[access.kind],
                access.place,
                access.nbytes,
                access.columns,
                access.active,
                rows=True,
            )

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Note matrices read by wgmma; one being started keeps reading until it completes."""
        found = self._in_flight(machine)
        wgmma = machine.batch.wgmma
        if wgmma is not None and wgmma.starting is not None:
            n_ctas, place = machine.batch.shape.n_ctas, present(group)
            for i, number in enumerate(group.warps.warpgroups):
                owners = columns[min(i, len(columns) - 1)]
                part = address[..., min(i, address.shape[-2] - 1), :].reshape(-1, address.shape[-1])
                mine = wgmma.starting[number * n_ctas : (number + 1) * n_ctas]
                if len(columns) > 1:  # these CTAs only: others may be here in another iteration
                    mine, every = np.zeros(n_ctas, np.int64), mine
                    mine[owners] = every[owners]
                footprint = MatrixFootprint(part, owners, limits, nbytes, mine > 0, place)
                found.matrices.append((footprint, number, mine))
                found.shared.matrices.append(footprint)
        if found.shared.busy:
            found.shared.touch(machine, group, "read", address, nbytes, columns, None, by=np.zeros(0, np.int64))

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Drop completed wgmma."""
        found: InFlight = machine.batch.notes[NAME]
        if not found.matrices or machine.batch.wgmma is None:
            return
        n_ctas, kept = machine.batch.shape.n_ctas, []
        for footprint, number, tickets in found.matrices:
            footprint.open &= tickets > machine.batch.wgmma.done[number * n_ctas : (number + 1) * n_ctas]
            if footprint.open.any():
                kept.append((footprint, number, tickets))
        found.matrices = kept
        found.shared.matrices = [footprint for footprint, _, _ in kept]

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check new copies against those in flight."""
        found, writes = self._in_flight(machine), "atomic" if transfer.reduces else "write"
        shared = found.shared
        if shared.busy:
            for footprint, access in ((transfer.writes, writes), (transfer.reads, "read")):
                if footprint is not None:
                    start, columns, nbytes = footprint.start, footprint.columns, footprint.nbytes
                    shared.touch(machine, transfer.group, access, start, nbytes, columns, None, by=transfer.positions)
        for stores in self._stores(machine) if transfer.asynchronous else ():
            stores.read_by_copies(machine, transfer)
            stores.written_by_copies(machine, transfer)

    def async_started(self, machine: Machine, transfer: Transfer) -> None:
        """Record the bytes of copies."""
        found = self._in_flight(machine)
        found.shared.enter(transfer)
        found.stores.enter(transfer)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that sources may be free."""
        if len(which):
            machine.batch.notes[NAME].released = True

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that copies may be complete."""
        machine.batch.notes[NAME].completed = True
