"""The barrier of a cluster's threads: arrivals and waits in phases, for every cluster of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.specials import cta_coordinates

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

NEVER = 1 << 62
"""The phase that a thread waits for which has not arrived since it waited last."""


class ClusterBarrier:
    """The barriers of a batch: arrivals of each cluster's present phase, and the groups that wait."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        x, y, z = cta_coordinates(machine.launch, machine.batch)
        cx, cy, cz = machine.launch.cluster
        gx, gy, _ = machine.launch.grid
        number = x // cx + (gx // cx) * (y // cy + (gy // cy) * (z // cz))
        _, self.cluster = np.unique(number, return_inverse=True)
        self.n = int(self.cluster.max()) + 1
        self.arrived = np.zeros(self.n, np.int64)
        self.phase = np.zeros(self.n, np.int64)
        self.entered = np.full(machine.batch.shape.n, NEVER, np.int64)
        self.waiting: list[Group] = []

    def arrive(self, group: Group) -> None:
        """The group's threads arrive."""
        ctas = group.selection.ctas.reshape(-1)
        clusters = self.cluster[ctas]
        again = self.entered[group.selection.positions] != NEVER
        if again.any():
            self.machine.fault(
                "barrier-divergence",
                "threads arrive at the barrier of the cluster again before they have waited for their last arrival",
                group,
                again,
                advice="after each barrier.cluster.arrive comes a barrier.cluster.wait of the same thread",
            )
        self.entered[group.selection.positions.reshape(-1)] = self.phase[clusters]
        self.arrived += np.bincount(clusters, minlength=self.n)
        self.turn()

    def turn(self) -> None:
        """End the phases that all living threads have reached, and let those go on that waited."""
        alive = np.bincount(self.cluster, weights=self.machine.batch.alive, minlength=self.n).astype(np.int64)
        done = (self.arrived >= alive) & (self.arrived > 0)
        if not done.any():
            return
        self.phase[done] += 1
        self.arrived[done] = 0
        waiting, self.waiting = self.waiting, []
        for group in waiting:
            if not self.wait(group):
                group.generation = self.machine.batch.generation
                self.machine.push(group)

    def wait(self, group: Group) -> bool:
        """True where some of the group must wait; those that need not go on are made runnable apart."""
        positions = group.selection.positions
        clusters = self.cluster[group.selection.ctas]
        held = self.phase[clusters] <= self.entered[positions]
        told = self.machine.window.cluster_barrier_left
        self.entered[positions[~held]] = NEVER
        if not held.any():
            if told is not None:
                told(self.machine, group)
            return False
        if not held.all():
            stays, goes = self.machine.divide(group, held)
            goes.generation = self.machine.batch.generation
            if told is not None:
                told(self.machine, goes)
            self.machine.push(goes)
            group = stays
        self.waiting.append(group)
        return True
