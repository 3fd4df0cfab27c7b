"""The cluster-launch rule: a CTA that has seen an attempt to cancel a launch fail tries again."""

from __future__ import annotations

import numpy as np

from warpsim.isa.cluster_launch import RULE
from warpsim.isa.traits import Family
from warpsim.machine.machine import Machine
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher

FAILED: Note[Array] = Note(RULE)
"""The CTAs that have observed a failure."""


class ClusterLaunchRules(Watcher):
    """Follows the answers."""

    def batch_began(self, machine: Machine) -> None:
        """Start without answers."""
        machine.batch.notes[FAILED] = np.zeros(machine.batch.shape.n_ctas, np.bool_)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Report attempts after a failure."""
        group, failed = transfer.group, machine.batch.notes[FAILED]
        if group.instruction.traits.is_async(Family.CANCEL):
            again = failed[transfer.positions % machine.batch.shape.n_ctas]
            if again.any():
                machine.fault(
                    RULE,
                    "the CTA tries to cancel a launch after it has seen an attempt fail",
                    group,
                    np.isin(group.selection.positions, transfer.positions[again]),
                    advice="leave the loop when is_canceled is false",
                )

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note failures that a CTA has observed."""
        place, written = transfer.place, transfer.writes
        if place is not None and written is not None and place.traits.is_async(Family.CANCEL):
            columns = written.columns[which]
            words = machine.batch.shared.gather(written.start[which], columns, np.dtype(np.uint32))
            machine.batch.notes[FAILED][columns[words == 0]] = True
