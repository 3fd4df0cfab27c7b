"""The watchers of a launch, by the rules that it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.analysis.wmma_fragments import RULE as FRAGMENT
from warpsim.checks import convergence, matrices
from warpsim.checks.async_reuse import EARLY, OVERWRITE, AsyncReuse
from warpsim.checks.mbarriers import RULE as MBARRIER
from warpsim.checks.mbarriers import MbarrierRules
from warpsim.checks.proxies import RULE as PROXY
from warpsim.checks.proxies import ProxyFences
from warpsim.checks.race.detector import RaceWatcher
from warpsim.checks.race.reports import RULE as RACE
from warpsim.checks.undefined_registers import RULE as UNINITIALISED
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.wgmma_registers import RULES as WGMMA
from warpsim.checks.wgmma_registers import WgmmaRegisters
from warpsim.checks.written import WrittenBytes
from warpsim.machine.state.launch import BATCH_BYTES
from warpsim.machine.state.notes import Note
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.plan import Uses
    from warpsim.machine.state.launch import LaunchState

KINDS: Note[dict[frozenset[str], list[Callable[[], Watcher]]]] = Note("watchers")


def watchers_of(launch: LaunchState) -> list[Watcher]:
    """The watchers for the rules that a launch checks."""
    plan, checks = launch.plan, launch.settings.checks
    known = plan.main.notes.setdefault(KINDS, {})
    kinds = known.get(checks)
    if kinds is None:
        kinds = known[checks] = _kinds(checks, plan.uses)
    return [kind() for kind in kinds]


def _kinds(checks: frozenset[str], uses: Uses) -> list[Callable[[], Watcher]]:
    wanted: tuple[tuple[bool, Callable[[], Watcher]], ...] = (
        (FRAGMENT in checks and uses.fragments, matrices.Fragments),
        (convergence.MEMBERMASK in checks, convergence.Membermasks),
        (not checks.isdisjoint(convergence.RULES), convergence.Absences),
        (not checks.isdisjoint(convergence.BARRIER_RULES), convergence.Barriers),
        (not checks.isdisjoint(matrices.RULES), matrices.MatrixRows),
        (not checks.isdisjoint(convergence.BROKEN.values()), convergence.Stalls),
        (not checks.isdisjoint((EARLY, OVERWRITE)) and uses.asynchronous, AsyncReuse),
        (MBARRIER in checks and uses.asynchronous, MbarrierRules),
        (not checks.isdisjoint(WGMMA) and uses.asynchronous, WgmmaRegisters),
        (PROXY in checks and uses.async_proxy, ProxyFences),
        (matrices.RULE in checks and uses.asynchronous, matrices.Descriptors),
        (matrices.TENSOR_MAP in checks and uses.async_proxy, matrices.TensorMaps),
        (RACE in checks, RaceWatcher),
        (convergence.SETMAXNREG in checks and uses.register_counts, convergence.RegisterCountRules),
        (True, Uninitialised if UNINITIALISED in checks else WrittenBytes),
    )
    return [kind for needed, kind in wanted if needed]


def bytes_at_once(checks: frozenset[str]) -> int:
    """How much shared memory may be simulated side by side, because race checks need several times as much."""
    return 1 << 25 if RACE in checks else BATCH_BYTES
