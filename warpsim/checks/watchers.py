"""The watchers of a launch, by the rules that it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.analysis.wmma_fragments import RULE as FRAGMENT
from warpsim.checks import barriers, convergence, matrix_rows
from warpsim.checks.async_reuse import AsyncReuse
from warpsim.checks.async_shared import EARLY, OVERWRITE
from warpsim.checks.descriptors import RULE as DESCRIPTOR
from warpsim.checks.descriptors import Descriptors
from warpsim.checks.fragments import Fragments
from warpsim.checks.mbarriers import RULE as MBARRIER
from warpsim.checks.mbarriers import MbarrierRules
from warpsim.checks.proxies import RULE as PROXY
from warpsim.checks.proxy_fences import ProxyFences
from warpsim.checks.race.reports import RULE as RACE
from warpsim.checks.race.watcher import RaceWatcher
from warpsim.checks.register_counts import RULE as SETMAXNREG
from warpsim.checks.register_counts import RegisterCountRules
from warpsim.checks.tensor_maps import RULE as TENSOR_MAP
from warpsim.checks.tensor_maps import TensorMaps
from warpsim.checks.undefined_registers import RULE as UNINITIALISED
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.wgmma_registers import RULES as WGMMA
from warpsim.checks.wgmma_registers import WgmmaRegisters
from warpsim.checks.written import WrittenBytes
from warpsim.machine.state.launch import BATCH_BYTES
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.plan import Uses
    from warpsim.machine.state.launch import LaunchState


def watchers_of(launch: LaunchState) -> list[Watcher]:
    """The watchers for the rules that a launch checks."""
    plan, checks = launch.plan, launch.settings.checks
    kinds = plan.main.notes.get((watchers_of, checks))
    if kinds is None:
        kinds = plan.main.notes[watchers_of, checks] = _kinds(checks, plan.uses)
    return [kind() for kind in kinds]


def _kinds(checks: frozenset[str], uses: Uses) -> list[Callable[[], Watcher]]:
    wanted: tuple[tuple[bool, Callable[[], Watcher]], ...] = (
        (FRAGMENT in checks and uses.fragments, Fragments),
        (convergence.MEMBERMASK in checks, convergence.Membermasks),
        (not checks.isdisjoint(convergence.RULES), convergence.Absences),
        (not checks.isdisjoint(barriers.RULES), barriers.Barriers),
        (not checks.isdisjoint(matrix_rows.RULES), matrix_rows.MatrixRows),
        (not checks.isdisjoint(convergence.BROKEN.values()), convergence.Stalls),
        (not checks.isdisjoint((EARLY, OVERWRITE)) and uses.asynchronous, AsyncReuse),
        (MBARRIER in checks and uses.asynchronous, MbarrierRules),
        (not checks.isdisjoint(WGMMA) and uses.asynchronous, WgmmaRegisters),
        (PROXY in checks and uses.async_proxy, ProxyFences),
        (DESCRIPTOR in checks and uses.asynchronous, Descriptors),
        (TENSOR_MAP in checks and uses.async_proxy, TensorMaps),
        (RACE in checks, RaceWatcher),
        (SETMAXNREG in checks and uses.register_counts, RegisterCountRules),
        (True, Uninitialised if UNINITIALISED in checks else WrittenBytes),
    )
    return [kind for needed, kind in wanted if needed]


def bytes_at_once(checks: frozenset[str]) -> int:
    """How much shared memory may be simulated side by side, because race checks need several times as much."""
    return 1 << 25 if RACE in checks else BATCH_BYTES
