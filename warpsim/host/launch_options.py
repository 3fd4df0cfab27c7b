"""The options of a launch, checked against the kernel and the device, once for each combination; the engine, and who runs its
parts."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from warpsim.checks.convergence import DIVERGENCE
from warpsim.checks.watchers import bytes_at_once
from warpsim.errors import LaunchError, shown
from warpsim.host.command_options import EFFECTS, ENGINES, ON_FINDING, Options
from warpsim.host.device import Device
from warpsim.host.options import Dim, budget, choice, dims, integer, resolve_checks
from warpsim.machine.memory.stack import LIMIT as MAX_LOCAL
from warpsim.machine.plan import KernelPlan
from warpsim.machine.state.launch import Settings
from warpsim.machine.state.schedule import Schedule
from warpsim.program.program import Function

if TYPE_CHECKING:
    from concurrent.futures import Executor

MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
Dims = tuple[int, int, int]
Keywords: TypeAlias = dict[str, Any]
"""Keyword arguments of a launch, as `Kernel.__call__` takes them."""
VARIABLE = "WARPSIM_WORKERS"
KNOWN = 64
"""Combinations of options of which a kernel remembers that they are good."""
MAX_CLUSTER = 16
"""Largest cluster, in CTAs. Every GPU has room for 8; a kernel may opt in to more."""


class LaunchOptions:
    """Of one kernel of a module for ``target``."""

    def __init__(self, target: str, function: Function) -> None:
        self.target, self.function, self.name = target, function, function.name
        self._known: dict[tuple[object, ...], tuple[KernelPlan, Settings]] = {}

    def settings(
        self, plan: KernelPlan, device: Device, shape: tuple[Dims, Dims], options: Options, order: Schedule | None
    ) -> Settings:
        """Check the options of a launch in some ``order``, and whether its ``shape`` (grid and block) fits the device."""
        grid, block = shape
        plain = options.cluster is None and order is None
        given = tuple(vars(options).values())
        key = (device.target, grid, block, *given, *map(type, given))  # 1.0 equals 1, and is refused
        try:
            known = self._known.get(key) if plain else None
        except Exception:  # a set of rules, or an object of the caller's
            known, plain = None, False
        if known is not None and known[0] is plan:
            return known[1]
        shared_mem = integer("shared_mem", options.shared_mem)
        chosen = resolve_checks(options.checks)
        batch_threads = integer("batch_threads", options.batch_threads, 1)
        if order is not None and order.ctas:
            batch_threads = min(batch_threads, order.ctas * math.prod(block))
        late = "at_wait" if order is not None and order.late else "eager"
        effects = late if options.async_effects is None else options.async_effects
        settings = Settings(
            dynamic_shared=shared_mem,
            cluster=self._cluster(options.cluster, grid, device),
            cooperative=bool(integer("cooperative", options.cooperative, 0, 1)),
            checks=chosen,
            on_finding=choice("on_finding", options.on_finding, ON_FINDING),
            async_effects=choice("async_effects", effects, EFFECTS),
            max_instructions=budget("max_instructions", options.max_instructions),
            max_seconds=budget("max_seconds", options.max_seconds),
            batch_threads=batch_threads,
            batch_bytes=bytes_at_once(chosen),
            whole_warps=DIVERGENCE in chosen,
            by_warp=options.by_warp,
            keeps=options.keeps,
        )
        self._check(plan, device, grid, block, shared_mem)
        if order is not None:
            return settings
        if not plain:  # found by what it means: the settings of the same launch are the same object
            key = device.target, grid, block, settings
            known = self._known.get(key)
            if known is not None and known[0] is plan:
                return known[1]
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[key] = plan, settings
        return settings

    # ---- limits ------------------------------------------------------------------------------

    def _cluster(self, cluster: Dim | None, grid: Dims, device: Device) -> Dims | None:
        declared = self.function.directives.get("reqnctapercluster")
        fixed = dims(".reqnctapercluster", [int(v) for v in declared]) if declared else None
        chosen = fixed if cluster is None else dims("cluster", cluster)
        if chosen is None:
            return None
        if fixed is not None and chosen != fixed:
            raise LaunchError(
                f"{self.name} requires clusters of {fixed} CTAs (.reqnctapercluster), not {shown(chosen)}"
            )
        size = math.prod(chosen)
        if size > MAX_CLUSTER:
            raise LaunchError(f"a cluster of {shown(chosen)} has {shown(size)} CTAs; the limit is {MAX_CLUSTER}")
        if size > 1 and device.sm < 90:
            raise LaunchError(f"{device.target} has no clusters; they need sm_90 or newer")
        if any(g % c for g, c in zip(grid, chosen, strict=True)):
            raise LaunchError(f"a grid of {shown(grid)} CTAs cannot be divided into clusters of {chosen}")
        return chosen

    def _check_target(self, device: Device) -> None:
        needed = self.target
        number = int(needed[3:].rstrip("af"))
        alone = needed.endswith("a") and number != device.sm  # an arch-specific target runs on that GPU only
        if number > device.sm or alone or (needed.endswith("f") and number // 10 != device.sm // 10):
            raise LaunchError(f"the module is for {needed}; {device.target} cannot run it")

    def _check(self, plan: KernelPlan, device: Device, grid: Dims, block: Dims, shared_mem: int) -> None:
        self._check_target(device)
        for given, limit, what in ((grid, MAX_GRID, "grid"), (block, MAX_BLOCK, "block")):
            if any(g > m for g, m in zip(given, limit, strict=True)):
                raise LaunchError(f"a {what} of {shown(given)} exceeds the limit {limit}")
        threads = block[0] * block[1] * block[2]
        if threads > 1024:
            raise LaunchError(f"a block of {block} has {threads} threads; the limit is 1024")
        directives = self.function.directives
        if "reqntid" in directives:
            required = tuple([*(int(v) for v in directives["reqntid"]), 1, 1][:3])
            if block != required:
                raise LaunchError(f"{self.name} requires blocks of {required} threads (.reqntid), not {block}")
        if "maxntid" in directives:
            most = math.prod(int(v) for v in directives["maxntid"])
            if threads > most:
                raise LaunchError(f"{self.name} allows at most {most} threads per block (.maxntid), not {threads}")
        if plan.main.frame_size > MAX_LOCAL:
            raise LaunchError(
                f"{self.name} needs {plan.main.frame_size} bytes of local memory per thread; the limit is {MAX_LOCAL}"
            )
        total = plan.shared.static + shared_mem
        if total > device.max_shared:
            raise LaunchError(
                f"{self.name} needs {total} bytes of shared memory per CTA; {device.target} has {device.max_shared}"
            )


# ---- who runs it ----------------------------------------------------------------------------------


def chosen_engine(given: str | None) -> str:
    """The engine named by the launch or the environment.

    Raises:
        LaunchError: compiled code was requested and llvmlite is not installed.
    """
    word = os.environ.get("WARPSIM_ENGINE", "auto") if given is None else given
    chosen = choice("engine", word, ENGINES)
    if chosen == "compiled":
        from warpsim.native.compiling import available

        if not available():
            raise LaunchError('engine="compiled" needs llvmlite: pip install warpsim[jit]')
    return chosen


def workers_of(device: Device, workers: int | None, executor: Any, engine: str) -> tuple[Executor | None, int]:
    """The executor of a launch (None: run it in one piece), and the number of workers to divide it among.

    Args:
        workers: number of local processes, or of threads for a compiled launch; None for the environment variable
            ``WARPSIM_WORKERS``, or 1.
        executor: a `concurrent.futures.Executor`, or an object with ``get_executor()``, such as a Dask client.

    Raises:
        LaunchError: ``workers`` or ``executor`` is neither.
    """
    if workers is None and os.environ.get(VARIABLE):
        try:
            workers = int(os.environ[VARIABLE])
        except ValueError:
            raise LaunchError(f"{VARIABLE} must be a number of processes, not {shown(os.environ[VARIABLE])}") from None
    count = None if workers is None else integer("workers", workers, 1, 1024)
    if executor is not None:
        get = getattr(executor, "get_executor", None)
        executor = get() if callable(get) else executor
        if not callable(getattr(executor, "submit", None)):
            raise LaunchError(f"executor must be a concurrent.futures.Executor, not {shown(executor)}")
        return executor, count or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    if count is None or count == 1:
        return None, 1
    return device.workers(count, threads=engine == "compiled"), count
