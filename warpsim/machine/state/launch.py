"""The state of a launch: its settings, batches, whose turn it is, time, and counts."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import numpy as np

from warpsim.errors import Finding
from warpsim.machine.plan import BoundBlock, FunctionPlan, KernelPlan
from warpsim.machine.selection import Shape
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.global_memory import PARAM_ADDRESS, GlobalMemory
from warpsim.machine.state.group import Group
from warpsim.machine.state.launched import Launched
from warpsim.machine.state.notes import Notes, no_notes
from warpsim.machine.state.schedule import Schedule
from warpsim.machine.values import Array
from warpsim.program.program import Instruction
from warpsim.records import define, frozen

Named = tuple[str, str, int]
"""The kind of a part of the plan, its function's name, and its index there."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, plan: KernelPlan) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._plan = plan
        self._instructions: dict[int, tuple[str, int]] = {}

    def persistent_id(self, value: object) -> Named | None:
        """The plan's name for a part of it; None for a part of the state."""
        if isinstance(value, Instruction):
            return ("instruction", *self._place(value))
        if isinstance(value, FunctionPlan):
            return "function", value.name, 0
        if isinstance(value, BoundBlock):
            return "block", value.function, value.index
        return ("kernel", "", 0) if isinstance(value, KernelPlan) else None

    def _place(self, instruction: Instruction) -> tuple[str, int]:
        if not self._instructions:
            for plan in self._plan.functions:
                for at, other in enumerate(plan.function.code):
                    self._instructions[id(other)] = plan.name, at
        return self._instructions[id(instruction)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, plan: KernelPlan) -> None:
        super().__init__(file)
        self._plan = plan

    def persistent_load(self, pid: Named) -> KernelPlan | FunctionPlan | BoundBlock | Instruction:
        """The part of the plan with that name."""
        kind, name, index = pid
        if kind == "kernel":
            return self._plan
        function = self._plan.function(name)
        if kind == "function":
            return function
        return function.blocks[index] if kind == "block" else function.function.code[index]


def dump(state: attrs.AttrsInstance, plan: KernelPlan) -> bytes:
    """The fields of a state (an attrs class), as bytes."""
    file = io.BytesIO()
    fields = {field.name: getattr(state, field.name) for field in attrs.fields(type(state))}
    _Pickler(file, plan).dump((type(state), fields))
    return file.getvalue()


def load(plan: KernelPlan, data: bytes) -> object:
    """Read a state of a launch of this plan from bytes."""
    cls, fields = _Unpickler(io.BytesIO(data), plan).load()
    state = cls.__new__(cls)
    for name, value in fields.items():
        setattr(state, name, value)
    return state


BATCH_BYTES = 1 << 28
PENDING = 2048
AT_ONCE = 128
"""Grids that a GPU runs at the same time (an H200 hangs where 129 of them poll, each for the next)."""
Dims = tuple[int, int, int]
Rectangle = tuple[int, int, int, int]
"""CTAs of a grid: the first row (along y, and z), the first in it, how many rows, and how many in each."""


@frozen
class DeviceSpec:
    """The GPU as the machine needs it: capability times ten, how to compute matrix products, and how many grids that kernels launch
    may wait (cudaLimitDevRuntimePendingLaunchCount)."""

    sm: int = 90
    numerics: str = "exact"
    pending_launches: int = PENDING


@frozen
class Settings:
    """How a launch runs; see `warpsim.Kernel`. ``batch_threads`` and ``batch_bytes`` (of shared memory) bound what runs
    side by side; ``whole_warps``: lanes wait at an aligned barrier for the rest of their warps as long as anything can
    run."""

    dynamic_shared: int = 0
    cluster: Dims | None = None
    cooperative: bool = False
    checks: frozenset[str] = frozenset()
    on_finding: str = "raise"
    async_effects: str = "eager"
    max_instructions: float | None = 10**9
    max_seconds: float | None = None
    batch_threads: int = 1 << 17
    batch_bytes: int = BATCH_BYTES
    whole_warps: bool = True
    by_warp: bool = False
    """For debuggers: a group consists of lanes of one warp (of one warpgroup at an instruction that takes four)."""
    keeps: bool = False
    """For debuggers: keep register contents that are never read again."""


@define(eq=False)
class LaunchState:
    """One kernel launch at a step boundary.

    ``turns`` are the batches whose turn in this round is still to come, the first one now if ``entered``. ``running``
    is that batch's group whose steps are being executed, ``reported`` whether its next step has been reported. ``moved``: a
    group ran in this round; ``version`` is the memory version when the round began. ``preferred`` is a warp (CTA, warp
    of the CTA) that goes before all others as long as it can, if groups are warps.
    """

    plan: KernelPlan
    grid: Dims
    block: Dims
    params: bytes
    memory: GlobalMemory
    device: DeviceSpec = DeviceSpec()
    settings: Settings = Settings()
    shared_size: int = attrs.field()
    schedule: Schedule | None = None
    """A legal order other than the usual one."""
    left: int | None = None
    """In such an order, how many instructions the running group may still execute; None if it has not begun."""
    batches: list[BatchState] = attrs.field(factory=list)
    waves: int = 0
    """Number of batches begun."""
    cancelled: int = 0
    """Clusters of the next batch whose launch has been cancelled."""
    wave: tuple[int, int, int, int] | None = None
    """How many CTAs begin at a time, once found (`warpsim.machine.engine`)."""
    shape: Shape | None = None
    """The axes of the batch begun last."""
    last_wave: int | None = None
    """Where a part of a launch ends: no batch from this number on begins; None for all."""
    near: Array | None = None
    """Linear numbers of the CTAs that listeners of their own see (`warpsim.machine.engine.Run`); none of them communicates with others."""
    pieces: list[Rectangle] = attrs.field(factory=list)
    """What has not begun of the wave that began last."""
    started: bool = False
    turns: list[BatchState] = attrs.field(factory=list)
    entered: bool = False
    running: Group | None = None
    reported: bool = False
    preferred: tuple[int, int] | None = None
    moved: bool = False
    version: int = 0
    groups: int = 0
    """Number of groups made."""
    instructions: int = 0
    thread_instructions: int = 0
    counts: dict[BoundBlock, int] = attrs.field(factory=dict)
    """Warps that entered each block."""
    done_ctas: int = 0
    skipped: int = 0
    """Cycles that passed without executing anything."""
    mark: int = 0
    """The memory version when the running group reached a loop's head."""
    printed: list[tuple[int, str]] = attrs.field(factory=list)
    findings: dict[tuple[object, ...], Finding] = attrs.field(factory=dict)
    notes: Notes = attrs.field(factory=no_notes)
    """What watchers know about the launch."""
    launched: Launched | None = None
    """What its threads have asked of the device runtime."""
    by: str = ""
    """Who launched it, in words, if a kernel did."""
    pending: int = 0
    """Grids that kernels have launched and that have not ended, but for those that it launches itself."""
    inside: int = 0
    """How many grids run while this one does: each polls for the one that it has launched."""
    watched: tuple[int, ...] = ()
    """Addresses that code compares with, because the launch may have to stop there."""
    _param_address: int | None = None
    _workspace: int | None = None

    @shared_size.default
    def _shared_size(self) -> int:
        return self.plan.dynamic_offset + self.settings.dynamic_shared

    @property
    def cluster(self) -> Dims:
        """CTAs of a cluster along each axis."""
        return self.settings.cluster or (1, 1, 1)

    def number_of(self, cta: Dims) -> int:
        """The linear number of a CTA."""
        return cta[0] + self.grid[0] * (cta[1] + self.grid[1] * cta[2])

    def cta_of(self, number: int) -> Dims:
        """The CTA of a linear number."""
        gx, gy, _ = self.grid
        return number % gx, number // gx % gy, number // (gx * gy)

    @property
    def n_ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def local_size(self) -> int:
        """Initial local memory per thread in bytes."""
        return self.plan.main.frame_size

    @property
    def now(self) -> int:
        """Cycles since the launch began."""
        return self.skipped + self.instructions

    @property
    def param_address(self) -> int:
        """The parameter block's address, for kernels that take it."""
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

    @property
    def starts(self) -> bool:
        """Whether it has launched a grid that may begin before its own end."""
        return self.launched is not None and bool(self.launched.queue) and self.inside + 1 < AT_ONCE

    @property
    def placed(self) -> bool:
        """Whether it has placed anything in memory."""
        return self._param_address is not None or self._workspace is not None

    def copy(self) -> LaunchState:
        """Copy the launch; the copy continues as this one would, and does not affect it."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> LaunchState:
        """Without this, copies would be made by `__reduce__`, with all bytes of memory."""
        copied: LaunchState = LaunchState.__new__(LaunchState)
        memo[id(self)] = copied
        self._settle()
        for field in attrs.fields(LaunchState):
            setattr(copied, field.name, copy.deepcopy(getattr(self, field.name), memo))
        return copied

    def restore(self, other: LaunchState) -> None:
        """Return to where ``other``, a copy of this launch from another time, was made. Memory has its contents of
        then, in the same arrays. A new `warpsim.machine.engine.Run` must be made."""
        memory, then = self.memory, other.copy()
        memory.restore(then.memory)
        for field in attrs.fields(LaunchState):
            setattr(self, field.name, getattr(then, field.name))
        self.memory = memory

    def _settle(self) -> None:
        for batch in self.batches:
            batch.settle()

    def __reduce__(self) -> tuple[Callable[[KernelPlan, bytes], object], tuple[KernelPlan, bytes]]:
        self._settle()
        return load, (self.plan, dump(self, self.plan))

    def release(self) -> None:
        """Release what the launch placed in memory, and return all arrays to their owners."""
        self.memory.settle()
        made = [] if self.launched is None else [*self.launched.buffers, *self.launched.handles]
        for address in (self._param_address, self._workspace, *made):
            if address is not None:
                self.memory.unmap(address)
        self._param_address = self._workspace = None
        if self.launched is not None:
            self.launched.buffers, self.launched.handles = {}, {}

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the place of the parameters to other grids."""
        held, self._param_address = self._param_address, None
        if held is not None:
            self.memory.unmap(held)
        yield
        if held is not None:
            self._param_address = self.param_address
