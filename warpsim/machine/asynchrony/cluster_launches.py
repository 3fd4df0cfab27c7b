"""The port of ``clusterlaunchcontrol.try_cancel``."""

from __future__ import annotations

import numpy as np

from warpsim.isa.ports import TensorCoreMemory
from warpsim.machine import waves
from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.bulk_reach import BulkReach
from warpsim.machine.asynchrony.mbarrier_objects import read_by_operations
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.transfers import Receivers, Transfer, Which
from warpsim.machine.values import Array
from warpsim.records import frozen

NBYTES = 16
ANSWER = np.arange(0, NBYTES, 4)


@frozen(eq=False)
class Answers:
    """Answers ``[lanes, 4]`` to who asked, u32."""

    to: Receivers
    words: Array

    def perform(self, memory: TensorCoreMemory, which: Which) -> None:
        """Write answers."""
        to = self.to
        memory.write_shared(to.columns[which][:, None], to.start[which][:, None] + ANSWER, self.words[to.lane[which]])


class ClusterLaunches(BulkReach):
    """The port of a group."""

    def cancel(self, address: Address, bar: Address, *, everywhere: bool) -> None:
        """Cancel the launch of a cluster for each active lane, and answer."""
        lanes, launch = self.lanes(), self.machine.launch
        at = self.address(address, lanes)
        if (at % NBYTES).any():
            self.fault("misaligned", "an answer of 16 bytes; its address must be a multiple of 16")
            return
        size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        masks = np.full(len(at), (1 << size) - 1) if everywhere else None
        to = self.receivers(lanes, at, self.address(bar, lanes), masks)
        if not self.inside(to.start, NBYTES):
            return
        first = np.array([waves.cancel(launch) for _ in range(len(at))])
        x, y, _ = launch.grid
        words = np.stack([first >= 0, first % x, first // x % y, first // (x * y)], axis=1) * (first >= 0)[:, None]
        signal = to.signal(NBYTES)
        read_by_operations(self.machine, self.group, self.active, signal)
        work = Answers(to, words.astype(np.uint32))
        transfer = Transfer(self.group, lanes.positions[to.lane], work, writes=to.footprint(NBYTES), signal=signal)
        transfers.start(self.machine, self.group, self.active, transfer)
