"""Which parts of a launch may run compiled: it depends on the events that its watchers take."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from warpsim.machine.hooks import Listener
from warpsim.machine.state.launch import LaunchState
from warpsim.native.regions.stops import Stops
from warpsim.native.tiering.cost import interpreted, policy_of
from warpsim.native.tiering.deferred import DeferredEngine
from warpsim.native.tiering.notes import on_disk

if TYPE_CHECKING:
    from warpsim.native.runtime.extents import FootprintObserver
    from warpsim.native.tiering.engine import CompiledEngine

ACCESSES = frozenset({"memory_accessed", "memory_written", "shadow_accessed", "rows_accessed", "fence"})
COLLECTIVES = frozenset(
    {"collective_reached", "collective_waits", "collective_passed", "collective_incomplete", "warp_synchronised"}
)
BARRIERS = frozenset({"barrier_reached", "barrier_arrived", "barrier_left", "barrier_completed"})
STEPS = frozenset(
    {
        "step_before",
        "step_after",
        "shadowed_before",
        "shadowed_after",
        "group_split",
        "groups_met",
        "registers_read",
        "registers_written",
        "wgmma_registers_accessed",
    }
)


class _Serves(NamedTuple):
    runs_steps: bool
    collectives: bool
    barriers: bool
    accesses: bool


def compiled_for(
    engine: str,
    watchers: Sequence[Listener],
    state: LaunchState,
    observer: FootprintObserver | None = None,
    *,
    joins: bool = True,
    stops: Stops | None = None,
    lane: int | None = None,
) -> CompiledEngine | DeferredEngine | None:
    """The compiled engine of a launch, None where the interpreter runs it alone. ``observer`` is notified of the
    regions' accesses of global memory; ``joins`` allows several waves as one batch (rules keep their state with a
    batch). It gives way where the launch may have to stop (``stops``); of warps that run alone,
    it counts the steps of a ``lane``."""
    if engine == "interpreter":
        return None
    policy, serves = policy_of(engine), _serves(frozenset(e for w in watchers for e in w.events if e not in w.compiled))
    runs_steps = serves.runs_steps and state.schedule is None

    def make() -> CompiledEngine | None:
        interpreted().launches = math.inf  # later launches have nothing to import
        if not _compiles(kept=kept):
            return None
        from warpsim.native.tiering.engine import CompiledEngine

        return CompiledEngine(
            state.device,
            observer,
            policy=policy,
            collectives=serves.collectives,
            runs_steps=runs_steps,
            barriers=serves.barriers,
            accesses=serves.accesses,
            joins=joins,
            keeps=state.settings.keeps,
            stops=stops,
            lane=lane,
        )

    kept = runs_steps and on_disk(state.plan)
    if engine == "compiled" or interpreted().enough or kept:
        return make()
    return DeferredEngine(make, runs_steps=runs_steps)


def _compiles(*, kept: bool) -> bool:
    """Whether there is a compiler; ``kept``: there is code on disk, and whoever can use it need not look for one."""
    if kept:
        from warpsim.native.compiling.images import made_by

        if made_by() is not None:
            return True
    from warpsim.native.compiling.cache import available

    return available()


@functools.lru_cache(maxsize=256)
def _serves(events: frozenset[str]) -> _Serves:
    """What may run compiled without losing these events."""
    return _Serves(
        runs_steps=not events & STEPS,
        collectives=not events & COLLECTIVES,
        barriers=not events & BARRIERS,
        accesses=not events & ACCESSES,
    )
