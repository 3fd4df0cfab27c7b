"""Whether compiled code serves a launch, and how much of it: what is listened to decides."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsim.machine.state.launch import LaunchState
from warpsim.machine.window import Watcher
from warpsim.native.later import Later

if TYPE_CHECKING:
    from warpsim.native.engine import Compiled
    from warpsim.native.extents import Noted

ACCESSES = frozenset({"memory_accessed", "memory_written", "companion_accessed"})
COLLECTIVES = frozenset(
    {"collective_reached", "collective_waits", "collective_passed", "collective_incomplete", "warp_synchronised"}
)
BARRIERS = frozenset({"barrier_reached", "barrier_arrived", "barrier_left", "barrier_completed"})
STEPS = frozenset(
    {
        "step_before",
        "step_after",
        "carried_before",
        "carried_after",
        "group_split",
        "groups_met",
        "register_needed",
        "registers_read",
        "registers_written",
    }
)


def compiled_for(
    engine: str, watchers: Sequence[Watcher], state: LaunchState, noted: Noted | None = None, *, joins: bool = True
) -> Compiled | Later | None:
    """Compiled code for a launch, None where the interpreter runs it alone. ``noted`` is told what units access of global
    memory. ``joins``: several waves may be one batch, and begin anew as several: rules keep what they know with a batch."""
    if engine == "interpreter":
        return None
    from warpsim.native.cache import available

    if not available():
        return None
    heard = _heard(tuple([(w.events, w.compiled) for w in watchers]))
    usual = not state.settings.by_warp and state.schedule is None
    units = usual and not heard & (STEPS | ACCESSES)  # rules that follow accesses follow their order, too

    def make() -> Compiled:
        from warpsim.native.engine import Compiled
        from warpsim.native.pace import pace_of

        return Compiled(
            state.device,
            noted,
            pace=pace_of(engine),
            collectives=not heard & COLLECTIVES,
            units=units,
            barriers=not heard & BARRIERS,
            joins=joins,
        )

    return make() if engine == "compiled" else Later(make, units=units)


@functools.lru_cache(maxsize=256)
def _heard(watchers: tuple[tuple[tuple[str, ...], frozenset[str]], ...]) -> frozenset[str]:
    """The events that somebody wants to be told of by compiled code, too."""
    return frozenset(e for events, compiled in watchers for e in events if e not in compiled)
