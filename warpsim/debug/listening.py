"""What a session hears of a launch besides its steps, for whoever has asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.debug import waiting
from warpsim.debug.places import DebugError, cta_at
from warpsim.errors import Finding
from warpsim.host.checks import EVERY
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import ALWAYS
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.window import MemoryAccess, Watcher

EVENTS = {
    "arrival": "threads arrive at a barrier of a CTA",
    "barrier": "a barrier of a CTA or a cluster is complete: threads pass it",
    "phase": "threads find the phase of an mbarrier over",
    "async": "asynchronous copies or wgmma are complete: threads have waited for them, or an mbarrier has counted them",
    "visible": "what asynchronous copies wrote becomes visible to those who observed their completion",
}
"""What a session can stop for, besides rules, by name."""
Occurred = Callable[[str, Machine, Group | None, "str | Finding"], None]
"""Told the name of an event, who takes part, and a text; of a broken rule ``"finding"``, and that."""


def check_event(name: str, checks: frozenset[str], others: bool) -> None:
    """Complain where nothing of that name can happen in a launch with these checks; ``others``: watchers of the user may
    have rules of their own.

    Raises:
        DebugError: says what there is."""
    if name in EVENTS or name in checks or name in ALWAYS:
        return
    if name in EVERY:
        raise DebugError(f"{name} is not looked for in this launch: start it with checks='default+{name}'")
    if not others:
        rules = ", ".join(sorted((checks & EVERY) | ALWAYS))
        raise DebugError(f"no event or rule {name!r}; events are {', '.join(EVENTS)}; rules are {rules}")


class Listener(Watcher):
    """Passes on what happens: accesses to ``accessed``, threads that exit to ``leaving``, `EVENTS` to ``occurred``."""

    leaving: Callable[[Machine, Group], None] | None = None
    accessed: Callable[[Machine, Group, MemoryAccess], None] | None = None
    occurred: Occurred | None = None

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Threads leave: whoever follows them wants to know."""
        if self.leaving is not None:
            self.leaving(machine, group)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Lanes access memory: whoever watches for reads wants to know."""
        if self.accessed is not None:
            self.accessed(machine, group, access)

    # ---- barriers ----------------------------------------------------------------------------

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:
        """An arrival."""
        if self.occurred is not None:
            self.occurred("arrival", machine, group, f"arrives at barrier {number}")

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:
        """A barrier is passed."""
        if self.occurred is not None:
            self.occurred("barrier", machine, group, f"barrier {number} is complete")

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """A barrier is complete at which some only arrive."""
        if self.occurred is not None:
            self.occurred("barrier", machine, None, f"barrier {number} is complete")

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """The barrier of a cluster is passed."""
        if self.occurred is not None:
            self.occurred("barrier", machine, group, "the barrier of the cluster is complete")

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Any
    ) -> None:
        """Where mbarriers are is noted."""
        waiting.note_initialised(machine, group, columns, place, active)

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Any
    ) -> None:
        """Where none are any more, too."""
        waiting.note_invalidated(machine, group, columns, place, active)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """A phase is over, and somebody has seen it."""
        if self.occurred is not None:
            name = waiting.shared_name(machine, int(np.asarray(place).flat[0]))
            self.occurred("phase", machine, group, f"the phase of the mbarrier {name} is over")

    # ---- asynchronous operations -------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Copies begin: as somebody listens, the machine keeps track of them."""

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Threads have waited for their copies."""
        if self.occurred is not None:
            self.occurred(
                "async", machine, None, f"{_copies(machine, transfer)} been completed: they have been waited for"
            )

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Copies have counted at their mbarriers."""
        if self.occurred is not None:
            self.occurred(
                "async", machine, None, f"{_copies(machine, transfer)} been completed: their mbarrier has counted them"
            )

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """What copies wrote can be read."""
        if self.occurred is not None:
            self.occurred("visible", machine, None, f"what {_copies(machine, transfer)} written is visible")

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """A warpgroup has waited for its wgmma."""
        if self.occurred is not None:
            self.occurred("async", machine, group, "wgmma are complete: they have been waited for")


def _copies(machine: Machine, transfer: Transfer) -> str:
    """Who the copies are, up to the verb."""
    place = transfer.place or transfer.group.instruction
    position, n_ctas = int(transfer.positions[0]), machine.batch.shape.n_ctas
    x, y, z = cta_at(machine, position % n_ctas)
    return f"the copies of line {place.span.line} (CTA ({x},{y},{z}), warp {position // n_ctas >> 5}) have"
