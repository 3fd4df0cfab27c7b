"""The port of ``cp.async``: per-thread copies, in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.moves import copy_threads
from warpsim.machine.asynchrony.transfers import CP_ASYNC as KIND
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.word_access import locate
from warpsim.machine.state.footprints import Footprint
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Signal, ThreadCopy, Transfer
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


class AsyncGroups:
    """The groups of ``cp.async`` copies of each thread of a group."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group, self.active = machine, group, active

    def copy(self, dst: Address, src: Address, nbytes: int, take: Array | None) -> None:
        """Copy ``nbytes`` per active lane to shared memory, of which ``take`` are read."""
        machine, group = self.machine, self.group
        take = None if take is None else self._within(take, nbytes)
        memory = Memory(machine, group, self.active)
        if not transfers.kept(machine):
            copy_threads(memory, dst, src, nbytes, take)
            return
        place, _, columns, _, active = locate(memory, "shared", dst, nbytes)
        shape = group.selection.shape
        lanes = (
            np.arange(group.selection.n)
            if active is None
            else np.flatnonzero(np.broadcast_to(active, shape).reshape(-1))
        )
        if not len(lanes):
            return
        starts = np.broadcast_to(np.asarray(place, np.int64), shape).reshape(-1)[lanes]
        owners = np.broadcast_to(columns, shape).reshape(-1)[lanes]
        transfer = Transfer(
            group,
            group.selection.positions.reshape(-1)[lanes],
            ThreadCopy(lanes, dst, src, nbytes, take),
            writes=Footprint(owners, starts, nbytes),
            kind=KIND,
            asynchronous=False,
        )
        transfers.start(machine, group, self.active, transfer)

    def _within(self, take: Array, nbytes: int) -> Array:
        """At most ``nbytes`` to read; more are reported."""
        above = np.broadcast_to(take > nbytes, self.group.selection.shape)
        if self.active is not None:
            above = above & self.active
        if above.any():
            self.machine.fault(
                "out-of-bounds",
                f"src-size is {int(np.broadcast_to(take, above.shape)[above][0])} in a copy of {nbytes} bytes",
                self.group,
                above,
                advice="src-size is at most cp-size, the number of bytes that are written",
            )
        return np.minimum(take, np.uint32(nbytes))

    def commit(self) -> None:
        """Commit the current group."""
        transfers.commit(self.machine, self.group, self.active, KIND)

    def wait(self, n: int, *, everything: bool = False) -> None:
        """Wait until at most ``n`` groups are pending; with ``everything``, also for copies outside groups."""
        transfers.wait(self.machine, self.group, self.active, KIND, n, everything=everything)

    def arrive(self, columns: Array, address: Array) -> None:
        """Arrive at the active lanes' mbarriers when all earlier copies of the thread are complete."""
        signal = Signal(columns, address, np.zeros(1, np.int64), arrivals=1)
        lanes = self.group.lanes(self.active)
        transfers.start(self.machine, self.group, self.active, Transfer(self.group, lanes, None, signal=signal))
