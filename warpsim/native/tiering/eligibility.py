"""Which parts of a launch may run compiled: it depends on the events that its watchers take. The compiled engine itself is imported
only when launches have taken a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from warpsim.machine.hooks import Hooks, Listener
from warpsim.machine.state.launch import LaunchState, Settings
from warpsim.machine.state.notes import Note
from warpsim.native.regions.options import Holds, Stops
from warpsim.native.tiering.cost import LAUNCHES, interpreted, policy_of, slowness, spent
from warpsim.native.tiering.notes import on_disk
from warpsim.native.tiering.products import Bodies

if TYPE_CHECKING:
    from warpsim.machine.engine import Limit
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import KernelPlan
    from warpsim.machine.state.group import Group
    from warpsim.native.runtime.extents import FootprintObserver
    from warpsim.native.runtime.straight import StraightLaunch
    from warpsim.native.tiering.engine import CompiledEngine
    from warpsim.program.program import Instruction

ACCESSES = frozenset({"memory_accessed", "memory_written", "shadow_accessed", "rows_accessed", "fence"})
COLLECTIVES = frozenset(
    {"collective_reached", "collective_waits", "collective_passed", "collective_incomplete", "warp_synchronised"}
)
BARRIERS = frozenset({"barrier_reached", "barrier_arrived", "barrier_left", "barrier_completed"})
STEPS = frozenset(
    {
        "step_before",
        "step_after",
        "run_before",
        "run_after",
        "shadowed_before",
        "shadowed_after",
        "group_split",
        "uniform_split",
        "groups_met",
        "registers_read",
        "registers_written",
        "step_wrapped",
        "wgmma_registers_accessed",
    }
)


STRAIGHT: Note[dict[tuple[int, Kinds], StraightLaunch]] = Note("straight launches")
KEPT = 16
"""Such launches of a kernel, each with other options or watchers, that are kept."""
TOLD = frozenset({"region_counted", "region_recorded"})
"""Events of a launch of which one call of code is all."""
NEVER = frozenset({"async_issued", "entry_counted", "finding", "group_parked", "tile_read"})
"""Events that come in no such launch."""


def compiled_for(
    engine: str,
    watchers: Sequence[Listener],
    state: LaunchState,
    observer: FootprintObserver | None = None,
    *,
    joins: bool = True,
    keeps: bool | None = None,
    stops: Stops | None = None,
    lane: int | None = None,
) -> CompiledEngine | DeferredEngine | None:
    """The compiled engine of a launch, None where the interpreter runs it alone. ``observer`` is notified of the
    regions' accesses of global memory; ``joins`` allows several waves as one batch (rules keep their state with a
    batch). Code leaves off at ``stops``, where the launch may have to stop. ``lane``: the steps of this lane are counted, in warps
    that run alone. It ``keeps`` registers that nothing reads any more: None for what the settings say."""
    if engine == "interpreter":
        return None
    policy, watched = policy_of(engine), tuple([(w.events, w.compiled) for w in watchers])
    runs_steps, holds = _serves(watched)
    runs_steps = runs_steps and state.schedule is None
    apart = None
    if not holds.accesses and joins and not stops:
        apart = _serves(tuple([(w.events, w.compiled | w.apart) for w in watchers]))[1]

    def make() -> CompiledEngine | None:
        interpreted().launches = math.inf  # later launches have nothing to import
        if not _compiles(kept=kept):
            return None
        from warpsim.native.tiering.engine import CompiledEngine

        return CompiledEngine(
            state.device,
            observer,
            policy=policy,
            bodies=bodies,
            holds=holds,
            apart=apart if apart is not None and apart.accesses else None,
            runs_steps=runs_steps,
            joins=joins,
            keeps=state.settings.keeps if keeps is None else keeps,
            stops=stops,
            lane=lane,
        )

    kept = runs_steps and on_disk(state.plan)
    bodies = Bodies(policy, partial(_compiles, kept=kept))
    if engine == "compiled" or interpreted().enough or kept:
        return make()
    return DeferredEngine(make, bodies, runs_steps=runs_steps)


def _compiles(*, kept: bool) -> bool:
    """Whether there is a compiler, or (``kept``: there is code on disk) code can be used without one."""
    if kept:
        from warpsim.native.compiling.images import made_by

        if made_by() is not None:
            return True
    from warpsim.native.compiling import available

    return available()


@lru_cache(maxsize=256)
def _serves(watched: tuple[tuple[tuple[str, ...], frozenset[str]], ...]) -> tuple[bool, Holds]:
    """Whether steps may run compiled without losing events, and what else may. Takes each watcher's events, and those of them that
    compiled code handles itself."""
    events = {e for taken, compiled in watched for e in taken if e not in compiled}
    return not events & STEPS, Holds(not events & COLLECTIVES, not events & BARRIERS, not events & ACCESSES)


def hears_all(listeners: Iterable[Listener]) -> bool:
    """Whether listeners hear all that they would of a launch from the one call of code that it is."""
    return all((TOLD | NEVER | w.compiled).issuperset(w.events) for w in listeners)


def keep_straight(state: LaunchState, code: CompiledEngine | DeferredEngine | None, kinds: Kinds) -> None:
    """Keep a launch that has ended, if a call of code was all of it, for those with the same settings and watchers of the same
    ``kinds``."""
    straight = None if code is None else code.straight
    if straight is not None:
        kept = state.plan.main.notes.setdefault(STRAIGHT, {})
        if len(kept) >= KEPT:
            kept.clear()
        straight.machine.hooks = Hooks()
        kept[id(state.settings), kinds] = straight


def straight_for(plan: KernelPlan, settings: Settings, kinds: Kinds) -> StraightLaunch | None:
    """A launch with these settings, which are those of a grid and a block, and with such watchers, that was kept."""
    kept = plan.main.notes.get(STRAIGHT)
    found = None if kept is None else kept.get((id(settings), kinds))
    return found if found is not None and found.machine.launch.settings is settings and not found.failed else None


class DeferredEngine:
    """Stands for the engine that ``make`` returns (None: there is none) until launches have taken so long that it is worth its
    import."""

    def __init__(self, make: Callable[[], CompiledEngine | None], bodies: Bodies, *, runs_steps: bool) -> None:
        self.bodies, self.runs_steps = bodies, runs_steps
        self._make = make
        self._interpreted = interpreted()
        self._engine: CompiledEngine | None = None
        self._began = spent()
        self._look = time.perf_counter() + (LAUNCHES - self._interpreted.launches) * slowness()
        """When to read the thread's CPU time next: it is dearer to read than the clock, and never ahead of it."""

    def _wanted(self) -> CompiledEngine | None:
        if self._engine is None and time.perf_counter() > self._look:
            left = LAUNCHES - self._interpreted.launches - (spent() - self._began)
            self._look += max(left, 0.0) * slowness()
            if left < 0.0:
                self._import()
        return self._engine

    def _import(self) -> CompiledEngine | None:
        self._engine = self._make()
        if self._engine is None:
            self._look = math.inf
        else:  # asked at every block: without a call between
            self.advance, self.until = self._engine.advance, self._engine.until  # type: ignore[method-assign]
        return self._engine

    def advance(self, machine: Machine, group: Group, limit: Limit, room: int | None = None) -> bool:
        """Run the region that begins where a group stands; False if it did not run."""
        engine = self._wanted()
        return engine is not None and engine.advance(machine, group, limit, room)

    @property
    def followed(self) -> int:
        """How many steps of the lane that it follows the last region has executed."""
        return 0 if self._engine is None else self._engine.followed

    @property
    def straight(self) -> StraightLaunch | None:
        """The launch, if a call of code was all of it."""
        return None if self._engine is None else self._engine.straight

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which code may begin, else ``last``."""
        return last

    def joined(self, state: LaunchState) -> int:
        """How many waves may begin as one batch."""
        engine = self._wanted()
        return 1 if engine is None else engine.joined(state)

    def serves(self, state: LaunchState, seconds: float) -> bool:
        """Whether there is code to run CTAs from start to end, or compiling it pays."""
        engine = self._wanted()
        return engine is not None and engine.serves(state, seconds)

    def ready(self, state: LaunchState) -> bool:
        """Whether there is code to run CTAs from start to end."""
        return self._engine is not None and self._engine.ready(state)

    def records(self, state: LaunchState) -> bool:
        """Whether code may run CTAs from start to end that are to be seen from near."""
        engine = self._wanted()
        return engine is not None and engine.records(state)

    def run_through(self, machine: Machine, group: Group, room: int | None = None) -> bool:
        """Run a batch to its end."""
        assert self._engine is not None
        return self._engine.run_through(machine, group, room)

    @property
    def compiling(self) -> float:
        """Seconds that compiling has taken in this launch."""
        return 0.0 if self._engine is None else self._engine.compiling

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction has no machine code, where compiling it was tried."""
        return None if self._engine is None else self._engine.reason(instruction)

    def over(self) -> None:
        """The launch is over."""
        if self._engine is None:
            self._interpreted.launches += spent() - self._began
            self.bodies.over()
        else:
            self._engine.over()


Kinds: TypeAlias = tuple[type[Listener], ...]
"""The classes of a launch's watchers."""
Engine: TypeAlias = "CompiledEngine | DeferredEngine"
"""What runs compiled parts of a launch."""
