"""What still happens when an access of some lanes ends a launch: the lanes before them write to memory."""

from __future__ import annotations

import numpy as np

from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present

FAULTS = frozenset({"out-of-bounds", "misaligned", "read-only"})
"""What the machine itself finds before an instruction does anything."""


def act_before(machine: Machine) -> None:
    """Let the lanes before those of the fatal finding write to memory, in the order CTA, warp, lane.

    So what stands in memory then is the same whether few or many CTAs run side by side, but for what later CTAs have
    done already."""
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
