"""The exit of a CTA in a cluster: its shared memory ends, so accesses by peers must happen before.

A peer's access is in time if it happens before the exit of some thread of the CTA, because the CTA lives until its last
thread has exited. Accesses after the exit are found like races with a write of all of its shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.checks.cells import SHIFT, THREAD
from warpsim.checks.race.reports import RULE
from warpsim.machine.reporting import finding_at, present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.checks.race.clocks import BatchClocks
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

ADVICE = (
    "all threads of the cluster must pass barrier.cluster.arrive (not .relaxed) and barrier.cluster.wait after the last access to a peer's"
    " shared memory (barrier-cluster, mapa)"
)


def check_exit(clocks: BatchClocks, machine: Machine, group: Group) -> None:
    """Check the CTAs that have no threads left after the group's threads exited."""
    cells = clocks.shared_cells
    if not clocks.clustered or clocks.order.uniform or not cells.kinds:
        return
    ended = np.flatnonzero((machine.batch.alive == 0) & (group.selection.per_cta > 0))
    clocks.launch.begin(present(group), 0)
    for column in ended.tolist():
        seen = cells.of("remote").reshape(-1, cells.width)[:, column]
        late = np.flatnonzero(seen)
        for witness in _witnesses(clocks, column).tolist():
            theirs, times = seen[late] & THREAD, seen[late] >> SHIFT
            late = late[clocks.order.unordered(theirs + clocks.base, times, np.full(len(late), witness))]
            if not len(late):
                break
        else:
            first = int(seen[late[0]])
            _report(clocks, machine, group, column, int(late[0]) * cells.granule, first & THREAD, first >> SHIFT)
        last = column + (machine.batch.shape.n_threads - 1) * machine.batch.shape.n_ctas
        cells.of("write").reshape(-1, cells.width)[:, column] = clocks.now << SHIFT | last


def _witnesses(clocks: BatchClocks, column: int) -> Array:
    """Threads of a CTA that together know what all of its threads know, those first that know most."""
    order, n_ctas = clocks.order, clocks.n_ctas
    threads = np.arange(clocks.shape.n_threads) * n_ctas + column
    known = (
        np.zeros(len(threads), np.int64) if order.acquired.known is None else order.acquired.known.reshape(-1)[threads]
    )
    phase = np.zeros(len(threads), np.int64) if order.phases is None else order.phases.waited.reshape(-1)[threads]
    _, first = np.unique(np.stack([phase, known]), axis=1, return_index=True)
    return threads[first[::-1]]


def _report(clocks: BatchClocks, machine: Machine, group: Group, column: int, at: int, thread: int, time: int) -> None:
    cta, warp, lanes = clocks.launch.place(thread + clocks.base)
    event = clocks.launch.events[time]
    other = None
    if event is not None:
        place = finding_at(machine.launch, event)
        other = attrs.evolve(place, message="used here", cta=cta, warp=warp, lanes=lanes)
    machine.fault(
        RULE,
        f"the CTA exits and its shared memory ends: CTA {cta}, warp {warp}, lane {lanes[0]} uses address 0x{at:x}"
        f" in line {event.span.line if event is not None else 0}, and nothing orders that use before the exit",
        group,
        group.selection.ctas == column,
        address=at,
        other=other,
        advice=ADVICE,
    )
