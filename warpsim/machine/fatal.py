"""The partial effect of an access that ends a launch: the lanes before the faulty ones still write to memory."""

from __future__ import annotations

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present

FAULTS = frozenset({"out-of-bounds", "misaligned", "read-only"})
"""Faults found by the machine itself before an instruction has any effect."""


def act_before(machine: Machine) -> None:
    """Perform the writes of the lanes before those of the fatal finding, in the order CTA, warp, lane.

    Memory contents are then the same whether few or many CTAs run side by side, except for what later CTAs have already
    done.
    """
    if machine.fatal is None:
        return
    group, lanes, rule, before = machine.fatal
    instruction = present(group)
    if (
        not (before or rule in FAULTS)
        or lanes is None
        or instruction.traits.access not in (Access.STORE, Access.ATOMIC)
    ):
        return
    positions, n_ctas = group.selection.positions, machine.batch.shape.n_ctas
    order = machine.batch.ctas[positions % n_ctas] * machine.batch.shape.n_threads + positions // n_ctas
    earlier = order < order[np.broadcast_to(lanes, order.shape)].min()
    if earlier.any():
        at = group.at
        first, _ = machine.divide(group, earlier)
        machine.muted += 1
        first.plan.blocks[first.block].steps[at](machine, first)
        machine.muted -= 1
