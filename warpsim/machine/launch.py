"""A launch: waves of batches, the scheduler, and what threads may ask of the machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from warpsim.errors import ExecutionError, Finding
from warpsim.machine import reporting, runtime, specials
from warpsim.machine.batch import Batch
from warpsim.machine.events import Observer
from warpsim.machine.group import Group
from warpsim.machine.hazards import stalls
from warpsim.machine.hazards.proxies import RULE as PROXY
from warpsim.machine.hazards.proxies import LaunchProxies
from warpsim.machine.hazards.race_events import LaunchRaces
from warpsim.machine.hazards.race_findings import RULE as RACE
from warpsim.machine.hazards.raced import steps_of
from warpsim.machine.hazards.shadows import SHADOWED, check_end
from warpsim.machine.memory.global_memory import PARAM_ADDRESS, GlobalMemory
from warpsim.machine.plan import BoundBlock, Image, KernelPlan
from warpsim.machine.selection import Shape
from warpsim.machine.values import Affine, Array
from warpsim.machine.waiting import Waiting
from warpsim.types import ScalarType

BATCH_THREADS = 1 << 17
MAX_DEPTH = 512


@attrs.frozen
class DeviceSpec:
    """The GPU as the machine needs it: capability times ten, and how matrix products are computed."""

    sm: int = 90
    numerics: str = "exact"


@attrs.define
class RunStats:
    """What a launch did."""

    instructions: int = 0
    thread_instructions: int = 0
    opcodes: dict[str, int] = attrs.field(factory=dict)
    findings: list[Finding] = attrs.field(factory=list)


@attrs.frozen
class Settings:
    """How a launch runs; see `warpsim.Kernel`. ``batch_threads`` is how many threads run side by side."""

    dynamic_shared: int = 0
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    checks: frozenset[str] = frozenset()
    on_finding: str = "raise"
    async_effects: str = "eager"
    max_instructions: float | None = 10**9
    max_seconds: float | None = None
    batch_threads: int = BATCH_THREADS
    observer: Observer | None = None
    stdout: Callable[[str], object] = lambda text: None
    progress: Callable[[int, int, int], object] | None = None


def launch(
    image: Image,
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    params: bytes,
    memory: GlobalMemory,
    device: DeviceSpec,
    settings: Settings,
) -> RunStats:
    """Run a kernel to its end; see `Launch`."""
    return Launch(image, kernel, grid, block, params, memory, device, settings).run()


class Launch:
    """One kernel launch."""

    def __init__(
        self,
        image: Image,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        memory: GlobalMemory,
        device: DeviceSpec,
        settings: Settings,
    ) -> None:
        self.image = image
        self.plan: KernelPlan = image.plan(kernel)
        self.grid, self.block = grid, block
        self.params = params
        self.memory = memory
        self.device = device
        self.settings = settings
        self.cluster = settings.cluster or (1, 1, 1)
        self.n_ctas = grid[0] * grid[1] * grid[2]
        self.shared_size = self.plan.dynamic_offset + settings.dynamic_shared
        self.local_size = self.plan.main.frame_size
        self.stats = RunStats()
        self.counts: dict[BoundBlock, int] = {}
        self.findings = reporting.Collector(self)
        self.races = LaunchRaces(self) if RACE in settings.checks else None
        self.proxies = LaunchProxies(self) if PROXY in settings.checks and self.plan.async_proxy else None
        self.waiting = Waiting(self)
        self.on_start: Callable[[Batch], object] | None = None
        self.batches: list[Batch] = []
        self.done_ctas = 0
        self.printed: list[tuple[Any, str]] = []
        self._parameters: dict[tuple[int, str], Any] = {}
        self._param_address: int | None = None
        self._workspace: int | None = None
        self._next_report = time.monotonic() + 2.0
        self._deadline = None if settings.max_seconds is None else time.monotonic() + settings.max_seconds

    # ---- waves and scheduling ----------------------------------------------------------------

    def run(self) -> RunStats:
        """Run all CTAs; gives the counts and findings. Memory holds what was written even if this raises."""
        waves = self._waves()
        try:
            with np.errstate(all="ignore"):
                self._start(waves)
                while self.batches:
                    version = self.memory.version
                    moved = False
                    for batch in list(self.batches):
                        moved |= self._drain(batch)
                        if not batch.runnable and not self._waits(batch):
                            batch.finish()
                            self.batches.remove(batch)
                            self.done_ctas += batch.shape.n_ctas
                            moved = True
                    if self._start(waves) or moved or self.memory.version != version:
                        continue
                    if self.batches:
                        if self.waiting.pass_time() or stalls.parted_warps(self):
                            continue
                        stalls.deadlock(self)
                        break
        finally:
            self.waiting.end()
            if self._param_address is not None:
                self.memory.unmap(self._param_address)
            if self._workspace is not None:
                self.memory.unmap(self._workspace)
            self.memory.settle()
            self._tally()
            runtime.flush_output(self)  # last: whoever takes the text may raise
        return self.stats

    def _waits(self, batch: Batch) -> bool:
        return (
            bool(batch.parked or batch.register_counts.waiting)
            or any(b.waiting for b in batch.barriers.values())
            or bool(batch.cluster_barrier is not None and batch.cluster_barrier.waiting)
            or any(g.batch is batch for g in self.waiting.sleeping)
        )

    def _waves(self) -> Iterator[Batch]:
        gx, rows = self.grid[0], self.grid[1] * self.grid[2]
        cx, cy, cz = self.cluster
        row_step = self.grid[1] * cz if cz > 1 else cy
        threads = self.block[0] * self.block[1] * self.block[2]
        room = max(self.settings.batch_threads // threads, 1)
        if self.shared_size:
            most = 1 << 28 if self.races is None else 1 << 25  # races keep several times as much
            room = min(room, max(most // self.shared_size, 1))
        if self.local_size:
            room = min(room, max((1 << 28) // (self.local_size * threads), 1))
        width = gx if room >= gx * row_step else max(room // row_step // cx, 1) * cx
        width = min(width, gx)
        height = min(max(room // gx // row_step, 1) * row_step, rows) if width == gx else row_step
        for row in range(0, rows, height):
            for column in range(0, gx, width):
                shape = Shape(
                    self.block[1] * self.block[2], self.block[0], min(height, rows - row), min(width, gx - column)
                )
                numbers = (
                    np.arange(row, row + shape.extents[2])[:, None] * gx + np.arange(column, column + shape.extents[3])
                ).reshape(-1)
                yield Batch(self, shape, numbers)

    def _start(self, waves: Iterator[Batch]) -> bool:
        batch = next(waves, None)
        if batch is None:
            return False
        if self.on_start is not None:
            self.on_start(batch)
        batch.start(self.plan.main)
        self.batches.append(batch)
        return True

    def _drain(self, batch: Batch) -> bool:
        """Run a batch's groups until none can go on; True where any did."""
        moved = False
        self.waiting.wake(batch)
        while batch.runnable:
            moved = True
            group = batch.take()
            batch.generation = group.generation
            try:
                self._run_group(batch, group)
            except ExecutionError:
                reporting.act_before(self)
                raise
            if not batch.runnable:
                self.waiting.wake(batch)
        return moved

    def _run_group(self, batch: Batch, group: Group) -> None:
        observer = self.settings.observer
        raced = self.races is not None
        waiting = len(batch.runnable)
        limit = min([(g.generation, g.key) for g in batch.runnable]) if waiting else None
        self.waiting.mark = self.memory.version
        while True:
            block = group.plan.blocks[group.block]
            if group.at == 0:
                self._count(block, group)
            shadowed = bool(group.shadows or group.frame.shadows)
            steps = steps_of(group.plan, block, raced, shadowed) if raced or shadowed else block.steps
            for at in range(group.at, len(steps)):
                group.at = at
                if observer is not None:
                    observer.before(block.instructions[at], group)
                gone = steps[at](group)
                if gone:
                    if gone is not SHADOWED:
                        return
                    steps = steps_of(group.plan, block, raced, True)
                if observer is not None:
                    observer.after(block.instructions[at], group)
            group.at = len(steps)
            if observer is not None and len(steps) < len(block.instructions):
                observer.before(block.instructions[-1], group)
            if group.shadows or group.frame.shadows:
                check_end(group, block)
            place = block.end(group)
            if place is None:
                return
            group.block, group.at = place, 0
            if place <= block.index:
                if self.waiting.lap(group, block):
                    return
                self.waiting.mark = self.memory.version
            if len(batch.runnable) != waiting:
                waiting = len(batch.runnable)
                limit = min([(g.generation, g.key) for g in batch.runnable]) if waiting else None
            if limit is not None and (group.generation, group.key) >= limit:
                batch.push(group)
                return

    def _count(self, block: BoundBlock, group: Group) -> None:
        n_warps = group.selection.n_warps
        self.counts[block] = self.counts.get(block, 0) + n_warps
        stats, n = self.stats, len(block.instructions)
        stats.instructions += n * n_warps
        stats.thread_instructions += n * group.selection.n
        budget = self.settings.max_instructions
        if budget is not None and stats.instructions > budget:
            reporting.limit(
                self,
                group,
                f"more than {budget} warp-instructions executed",
                "raise max_instructions, or None to lift it",
            )
        if self._deadline is not None and time.monotonic() > self._deadline:
            reporting.limit(
                self,
                group,
                f"the launch has taken more than {self.settings.max_seconds} seconds",
                "does this loop end? Raise max_seconds, or None to lift it",
            )
        if self.settings.progress is not None and time.monotonic() > self._next_report:
            self._next_report = time.monotonic() + 0.5
            self.settings.progress(stats.instructions, self.done_ctas, self.n_ctas)

    def finish(self, group: Group) -> None:
        """The group's threads exit."""
        group.batch.exit(group)

    def check_depth(self, group: Group) -> None:
        """Calls nest only so deep."""
        if len(group.stack) >= MAX_DEPTH:
            reporting.limit(self, group, f"calls nest deeper than {MAX_DEPTH}", "is the recursion bounded?")

    def _tally(self) -> None:
        opcodes: Counter[str] = Counter()
        for block, n_warps in self.counts.items():
            for name, times in block.names.items():
                opcodes[name] += times * n_warps
        self.stats.opcodes = dict(opcodes)
        self.stats.findings = self.findings.all()

    # ---- what steps ask ----------------------------------------------------------------------

    def param(self, offset: int, type: ScalarType) -> Any:
        """A kernel parameter's value."""
        key = offset, type.name
        value = self._parameters.get(key)
        if value is None:
            raw = np.frombuffer(
                self.params[offset : offset + type.dtype.itemsize].ljust(type.dtype.itemsize, b"\0"), type.dtype
            )
            value = Affine.constant(int(raw[0]), type.dtype) if type.dtype.kind in "iu" else raw.copy()
            self._parameters[key] = value
        return value

    @property
    def param_address(self) -> int:
        """Where the parameter block lies for kernels that take its address."""
        if self._param_address is None:
            data = np.frombuffer(self.params or b"\0", np.uint8).copy()
            self._param_address = self.memory.map(data, name="kernel parameters", read_only=True, address=PARAM_ADDRESS)
        return self._param_address

    @property
    def workspace(self) -> int:
        """The structure that cooperative grid barriers find through %envreg1 and %envreg2."""
        if self._workspace is None:
            self._workspace = self.memory.allocate(256, "grid workspace")[0]
        return self._workspace

    def special(self, batch: Batch, name: str) -> Any:
        """A special register for all threads of a batch."""
        return specials.special(self, batch, name)

    def make_ports(self, batch: Batch) -> dict[str, Any]:
        """The ports of a batch by name."""
        return {"memory": batch.memory, "device": self.device, **runtime.make_ports(self, batch)}

    def system_call(self, group: Group, name: str, plan: Any, arguments: Any, returns: Any) -> None:
        """A function of the CUDA run time: vprintf, malloc, free, __assertfail."""
        runtime.system_call(self, group, name, plan, arguments, returns)

    def report(
        self, batch: Batch, rule: str, message: str, group: Group, lanes: Array | None, values: dict[str, object]
    ) -> None:
        """A rule was broken at the group's present step."""
        self.findings.add(batch, rule, message, group, lanes, values)

    # ---- clusters ----------------------------------------------------------------------------

    def cluster_peer(self, batch: Batch, columns: Array, rank: Array) -> Array:
        """The batch column of a rank in each column's cluster, -1 where there is none."""
        return specials.cluster_peer(self, batch, columns, rank)

    def cluster_barrier(self, group: Group, arrives: bool, waits: bool) -> bool:
        """``barrier.cluster``: True where the group has to wait."""
        return runtime.cluster_barrier(self, group, arrives, waits)


__all__ = ["DeviceSpec", "ExecutionError", "Launch", "RunStats", "Settings", "launch"]
