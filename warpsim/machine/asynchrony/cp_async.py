"""The port of ``cp.async``: copies of single threads, in groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.asynchrony.footprints import Footprint
from warpsim.machine.asynchrony.transfers import Signal, Transfer

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.transfers import Which
    from warpsim.machine.machine import Machine
    from warpsim.machine.memory.addresses import Address

KIND = "cp.async"


class AsyncGroups:
    """The groups of ``cp.async`` copies of each thread of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def copy(self, dst: Address, nbytes: int, act: Callable[[], None]) -> None:
        """A copy of each active lane to ``nbytes`` of shared memory at ``dst``; ``act`` makes it, through the memory port."""
        transfers, memory = self.machine.transfers, self.machine.memory
        if not (transfers.late or transfers.watched):
            act()
            return
        place, _, columns, _, active = memory.word_port.address("shared", dst, nbytes)
        group = memory.group
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
        transfers.start(
            Transfer(
                group,
                group.selection.positions.reshape(-1)[lanes],
                self.replay(lanes, act),
                writes=Footprint(owners, starts, nbytes),
                kind=KIND,
                asynchronous=False,
            )
        )

    def replay(self, lanes: Any, act: Callable[[], None]) -> Callable[[Which], None]:
        """``act`` for some of the ``lanes`` (places in the group) of the present step, now or later."""
        memory = self.machine.memory
        if not self.machine.transfers.late:
            return lambda which: act()
        group = memory.group
        then = self.machine.group(group.selection, group.plan, group.stack, group.block, group.at, group.local_base)

        def deliver(which: Which) -> None:
            outer = memory.group, memory.active
            chosen = np.zeros(then.selection.n, np.bool_)
            chosen[lanes[which]] = True
            memory.group, memory.active = then, chosen.reshape(then.selection.shape)
            act()
            memory.group, memory.active = outer

        return deliver

    def commit(self) -> None:
        """Close the present group."""
        self.machine.transfers.commit(KIND)

    def wait(self, n: int, *, everything: bool = False) -> None:
        """Wait until at most ``n`` groups are unfinished; with ``everything`` for copies outside of groups too."""
        self.machine.transfers.wait(KIND, n, everything=everything)

    def arrive(self, columns: Any, address: Any) -> None:
        """Arrive at the mbarriers of the active lanes when all earlier copies of the thread are complete."""
        machine = self.machine
        machine.transfers.start(
            Transfer(
                machine.memory.group,
                machine.transfers.lanes(),
                lambda which: None,
                signal=Signal(columns, address, np.zeros(1, np.int64), arrivals=1),
            )
        )
