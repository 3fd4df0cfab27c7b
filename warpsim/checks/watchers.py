"""The watchers of a launch, by the rules that it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from warpsim.analysis.wmma_fragments import RULE as FRAGMENT
from warpsim.checks import convergence, matrices
from warpsim.checks.difference import Decided
from warpsim.checks.other_variables import RULE as OTHER
from warpsim.checks.other_variables import OtherVariables
from warpsim.checks.race import RULE as RACE
from warpsim.checks.undefined_registers import RULE as UNINITIALISED
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.written import WrittenBytes
from warpsim.machine.state.launch import BATCH_BYTES, LaunchState
from warpsim.machine.state.notes import Note
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Uses


def attended(launch: LaunchState) -> tuple[list[Watcher], None]:
    """The watchers of a grid that a kernel launches, which is interpreted."""
    return watchers_of(launch), None


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
        (OTHER in checks, OtherVariables),
        (convergence.MEMBERMASK in checks, convergence.Membermasks),
        (not checks.isdisjoint(convergence.RULES), convergence.Absences),
        (not checks.isdisjoint(convergence.BARRIER_RULES), convergence.Barriers),
        (not checks.isdisjoint(matrices.RULES), matrices.MatrixRows),
        (not checks.isdisjoint(convergence.BROKEN.values()), convergence.Stalls),
        *(_asynchronous(checks, uses) if uses.asynchronous or uses.async_proxy else ()),
        *(_tensor_memory(checks) if uses.tensor_memory else ()),
        *(_cluster_launches(checks) if uses.cancels else ()),
        *_races(checks),
        (convergence.SETMAXNREG in checks and uses.register_counts, convergence.RegisterCountRules),
        (True, _uninitialised if UNINITIALISED in checks else WrittenBytes),
    )
    return [kind for needed, kind in wanted if needed]


def _uninitialised() -> Watcher:
    return Uninitialised(_again)


def _again(decided: Decided, took: int | None, *, stops: bool) -> Iterator[tuple[str, LaunchState]]:
    """Run a launch again with other values in what is undefined, under its own rules."""
    from warpsim.checks.garbage import runs

    yield from runs(watchers_of, decided, took, stops=stops)


def _asynchronous(checks: frozenset[str], uses: Uses) -> Iterator[tuple[bool, Callable[[], Watcher]]]:
    """Rules for what few kernels use: imported when one does."""
    from warpsim.checks import async_reuse, mbarriers, proxies, wgmma_registers

    early = not checks.isdisjoint(async_reuse.RULES)
    yield early and uses.asynchronous, async_reuse.AsyncReuse
    yield mbarriers.RULE in checks and uses.asynchronous, mbarriers.MbarrierRules
    yield not checks.isdisjoint(wgmma_registers.RULES) and uses.asynchronous, wgmma_registers.WgmmaRegisters
    yield proxies.RULE in checks and uses.async_proxy, proxies.ProxyFences
    yield matrices.RULE in checks and uses.asynchronous, matrices.Descriptors
    yield matrices.TENSOR_MAP in checks and uses.async_proxy, matrices.TensorMaps


def _tensor_memory(checks: frozenset[str]) -> Iterator[tuple[bool, Callable[[], Watcher]]]:
    from warpsim.checks import tensor_memory, tensor_order

    yield tensor_memory.RULE in checks, tensor_memory.TensorMemoryRules
    yield tensor_order.RULE in checks, tensor_order.TensorOrders


def _cluster_launches(checks: frozenset[str]) -> Iterator[tuple[bool, Callable[[], Watcher]]]:
    from warpsim.checks import cluster_launches
    from warpsim.isa.cluster_launch import RULE

    yield RULE in checks, cluster_launches.ClusterLaunchRules


def _races(checks: frozenset[str]) -> Iterator[tuple[bool, Callable[[], Watcher]]]:
    if RACE in checks:
        from warpsim.checks.race.detector import RaceWatcher

        yield True, partial(RaceWatcher, _run)


def _run(launch: LaunchState) -> None:
    from warpsim.machine.engine import Run

    Run(launch, watchers_of(launch), attended=attended).advance()


def bytes_at_once(checks: frozenset[str]) -> int:
    """How much shared memory may be simulated side by side, because race checks need several times as much."""
    return 1 << 25 if RACE in checks else BATCH_BYTES
