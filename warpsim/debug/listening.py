"""Events of a launch that a session listens to, besides steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.debug import waiting
from warpsim.debug.errors import DebugError
from warpsim.debug.threads import cta_at
from warpsim.errors import Finding
from warpsim.host.checks import EVERY
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.report.rules import ALWAYS

EVENTS = {
    "arrival": "a warp arrives at a barrier of its CTA",
    "barrier": "a barrier of a CTA or a cluster completes, and threads pass it",
    "phase": "a thread observes that an mbarrier's phase has completed",
    "async": "asynchronous copies or wgmma complete: threads waited for them, or an mbarrier counted them",
    "visible": "data written by asynchronous copies becomes visible to the threads that observed their completion",
}
"""Events that a catchpoint can name, besides rules."""
Occurred = Callable[[str, Machine, Group | None, "str | Finding"], None]
"""Called with an event's name, the group that takes part, and a description; for a broken rule, with ``"finding"`` and
the finding.
"""


def check_event(name: str, checks: frozenset[str], *, others: bool) -> None:
    """Check that an event or rule of this name can occur in a launch with these checks. ``others``: user-defined
    watchers, which may have rules of their own, are present.

    Raises:
        DebugError: it cannot; the message lists the valid names.
    """
    if name in EVENTS or name in checks or name in ALWAYS:
        return
    if name in EVERY:
        raise DebugError(f"this launch does not check {name}: start it with checks='default+{name}'")
    if not others:
        rules = ", ".join(sorted((checks & EVERY) | ALWAYS))
        raise DebugError(f"no event or rule {name!r}; events: {', '.join(EVENTS)}; rules: {rules}")


class Listener(Watcher):
    """Forwards memory accesses to ``accessed``, exiting threads to ``leaving``, and `EVENTS` to ``occurred``."""

    leaving: Callable[[Machine, Group], None] | None = None
    accessed: Callable[[Machine, Group, MemoryAccess], None] | None = None
    occurred: Occurred | None = None

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Report threads that exit."""
        if self.leaving is not None:
            self.leaving(machine, group)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Report memory accesses."""
        if self.accessed is not None:
            self.accessed(machine, group, access)

    # ---- barriers ----------------------------------------------------------------------------

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Report an arrival."""
        if self.occurred is not None:
            self.occurred("arrival", machine, group, f"arrives at barrier {number}")

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Report that a barrier was passed."""
        if self.occurred is not None:
            self.occurred("barrier", machine, group, f"barrier {number} is complete")

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Report the completion of a barrier at which some threads only arrive."""
        if self.occurred is not None:
            self.occurred("barrier", machine, None, f"barrier {number} is complete")

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Report that the cluster barrier was passed."""
        if self.occurred is not None:
            self.occurred("barrier", machine, group, "the cluster barrier is complete")

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Any
    ) -> None:
        """Note where mbarriers are."""
        waiting.note_initialised(machine, group, columns, place, active)

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Any
    ) -> None:
        """Note where mbarriers no longer are."""
        waiting.note_invalidated(machine, group, columns, place, active)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Report that a thread observed the end of a phase."""
        if self.occurred is not None:
            name = waiting.shared_name(machine, int(np.asarray(place).flat[0]))
            self.occurred("phase", machine, group, f"the phase of the mbarrier {name} is over")

    # ---- asynchronous operations -------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Defined so that the machine tracks copies."""

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report copies that threads have waited for."""
        if self.occurred is not None:
            self.occurred(
                "async", machine, None, f"{_copies(machine, transfer)} completed: threads have waited for them"
            )

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report copies that have signalled their mbarriers."""
        if self.occurred is not None:
            self.occurred(
                "async", machine, None, f"{_copies(machine, transfer)} completed: their mbarrier has counted them"
            )

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Report that data written by copies became readable."""
        if self.occurred is not None:
            self.occurred("visible", machine, None, f"the data that {_copies(machine, transfer)} written is visible")

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Report wgmma that a warpgroup has waited for."""
        if self.occurred is not None:
            self.occurred("async", machine, group, "wgmma have completed: the warpgroup has waited for them")


def _copies(machine: Machine, transfer: Transfer) -> str:
    """Describe copies, ending in "have"."""
    place = transfer.place or transfer.group.instruction
    position, n_ctas = int(transfer.positions[0]), machine.batch.shape.n_ctas
    x, y, z = cta_at(machine, position % n_ctas)
    return f"the copies of line {place.span.line} (CTA ({x},{y},{z}), warp {position // n_ctas >> 5}) have"
