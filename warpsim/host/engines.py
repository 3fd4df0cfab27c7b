"""Chooses the engine of a launch: the interpreter, or compiled code beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsim.errors import LaunchError
from warpsim.host.options import choice
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.window import Watcher

if TYPE_CHECKING:
    from warpsim.native.engine import Compiled

ENGINES = ("auto", "interpreter", "compiled")
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


def chosen_engine(given: str | None) -> str:
    """The engine named by the launch or the environment."""
    word = os.environ.get("WARPSIM_ENGINE", "auto") if given is None else given
    return choice("engine", word, ENGINES)


def compiled_for(engine: str, watchers: Sequence[Watcher], state: LaunchState) -> Compiled | None:
    """Compiled code for a launch; None if the interpreter runs it alone.

    Raises:
        LaunchError: compiled code was requested and llvmlite is not installed.
    """
    if engine == "interpreter":
        return None
    from warpsim.native.compiler import available

    if not available():
        if engine == "compiled":
            raise LaunchError('engine="compiled" needs llvmlite: pip install warpsim[jit]')
        return None
    heard = frozenset(e for w in watchers for e in w.events if e not in w.compiled)
    usual = not state.settings.by_warp and state.schedule is None
    units = usual and not heard & (STEPS | ACCESSES)  # rules that follow accesses also depend on their order
    from warpsim.native.engine import Compiled

    return Compiled(engine == "compiled", not heard & COLLECTIVES, units, not heard & BARRIERS)
