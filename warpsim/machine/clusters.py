"""The cluster barrier: arrivals and waits in phases, for every cluster of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.specials import clusters_of
from warpsim.machine.state.batch import NEVER, ClusterBarrier
from warpsim.machine.state.group import Group

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def _barrier(machine: Machine) -> ClusterBarrier:
    found = machine.batch.cluster_barrier
    if found is None:
        clusters = clusters_of(machine.launch, machine.batch)
        found = machine.batch.cluster_barrier = ClusterBarrier.of(clusters, machine.batch.shape.n)
    return found


def arrive(machine: Machine, group: Group) -> None:
    """Arrive with the group's threads."""
    barrier = _barrier(machine)
    positions = group.selection.positions.reshape(-1)
    clusters = barrier.cluster[group.selection.ctas.reshape(-1)]
    if machine.hooks.cluster_barrier_arrived is not None:
        machine.hooks.cluster_barrier_arrived(machine, group)
    barrier.entered[positions] = barrier.phase[clusters]
    barrier.arrived += np.bincount(clusters, minlength=len(barrier.arrived))
    turn(machine)


def turn(machine: Machine) -> None:
    """End the phases that all live threads have reached, and release the waiting threads."""
    barrier = machine.batch.cluster_barrier
    if barrier is None:
        return
    n = len(barrier.arrived)
    alive = np.bincount(barrier.cluster, weights=machine.batch.alive, minlength=n).astype(np.int64)
    done = (barrier.arrived >= alive) & (barrier.arrived > 0)
    if not done.any():
        return
    barrier.phase[done] += 1
    barrier.arrived[done] = 0
    waiting, barrier.waiting = barrier.waiting, []
    for group in waiting:
        if not wait(machine, group):
            _go_on(machine, group)


def wait(machine: Machine, group: Group) -> bool:
    """Wait; True if some of the group must. The others continue behind the barrier separately."""
    barrier = _barrier(machine)
    positions = group.selection.positions
    held = barrier.phase[barrier.cluster[group.selection.ctas]] <= barrier.entered[positions]
    barrier.entered[positions[~held]] = NEVER
    if not held.any():
        _tell(machine, group)
        return False
    if not held.all():
        group, goes = machine.divide(group, held)
        _tell(machine, goes)
        _go_on(machine, goes)
    barrier.waiting.append(group)
    return True


def _tell(machine: Machine, group: Group) -> None:
    if machine.hooks.cluster_barrier_left is not None:
        machine.hooks.cluster_barrier_left(machine, group)


def _go_on(machine: Machine, group: Group) -> None:
    group.at += 1
    group.generation = machine.batch.generation
    machine.push(group)
