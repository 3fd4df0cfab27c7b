"""The state of a batch: CTAs that run side by side, their threads in groups, and where groups wait for each other."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from warpsim.machine.plan import FunctionPlan, Issue
from warpsim.machine.selection import Selection, Shape
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.state.notes import Notes, no_notes
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.state.transfers import Transfers
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, Value
from warpsim.records import define, frozen

GROUPS = 8
"""wait_group takes 0 to 7, so older groups cannot be distinguished."""


@define(eq=False)
class RegisterUse:
    """Rows of the registers of one function in which a wgmma accumulates or from which it reads A: the last tickets as
    accumulator and as A, and by slot the values that have not appeared."""

    accumulator: Array
    operand: Array
    held: dict[int, Array] = attrs.field(factory=dict)


@define(eq=False)
class Pending:
    """A wgmma without effect so far: the group at it, its operands by slot, the ``columns`` that remain, and those in
    which it has ``landed``, still unhandled."""

    group: Group
    columns: Array
    tickets: Array
    operands: dict[int, Value]
    remaining: Array
    landed: Array


@frozen(eq=False)
class Starting:
    """A wgmma that is being started, and the tickets that it takes: 0 in columns that do not take part."""

    issue: Issue
    tickets: Array


@define(eq=False)
class Wgmma:
    """The wgmma of one batch in flight: accumulators in use, committed groups, and late results.

    State is kept per warpgroup of each CTA (a *column*: warpgroup times CTAs plus CTA) as tickets, the running numbers of
    its ``wgmma.mma_async``. A register is in flight while the ticket of its last use is above ``done``. ``starting``
    is the one being started.
    """

    n_columns: int
    issued: Array
    done: Array
    ends: Array
    uses: dict[str, RegisterUse] = attrs.field(factory=dict)
    starting: Starting | None = None
    readers: Array | None = None
    """Which warp of its warpgroup reads each address of the matrix that is being reported: of A, each reads its own 16 rows
    (CUTLASS relies on it: one warp's P of FlashAttention-3 needs no barrier). None: all four."""
    pending: list[Pending] = attrs.field(factory=list)
    """Late ones, in issue order."""

    @classmethod
    def of(cls, shape: Shape) -> Wgmma:
        """The initial state."""
        n = -(-shape.n_threads // 128) * shape.n_ctas
        return cls(n, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((GROUPS, n), np.int64))

    def use(self, plan: FunctionPlan) -> RegisterUse:
        """The register rows of a function."""
        found = self.uses.get(plan.name)
        if found is None:
            n_rows = len(plan.wgmma_rows)
            found = self.uses[plan.name] = RegisterUse(*np.zeros((2, n_rows, self.n_columns), np.int64))
        return found


@define(eq=False)
class Barrier:
    """One barrier of every CTA of a batch: threads that have arrived, and groups that wait.

    ``expected`` is 0 for all threads of the CTA that have not exited. ``partial`` is True once fewer were expected, or
    some continued without waiting.
    """

    number: int
    arrived: Array
    expected: Array
    partial: bool = False
    waiting: list[Group] = attrs.field(factory=list)
    """Groups that stand at the instruction where they arrived."""
    votes: list[tuple[Selection, Array]] = attrs.field(factory=list)

    @classmethod
    def of(cls, number: int, n_ctas: int) -> Barrier:
        """A barrier without arrivals."""
        return cls(number, np.zeros(n_ctas, np.int64), np.zeros(n_ctas, np.int64))


NEVER = 1 << 62
"""The cluster barrier phase awaited by a thread that has not arrived since its last wait."""


@define(eq=False)
class ClusterBarrier:
    """The barriers of a batch's clusters: the ``cluster`` of each CTA, arrivals in each cluster's current ``phase``,
    the phase in which each thread ``entered``, and waiting groups, as for `Barrier`."""

    cluster: Array
    arrived: Array
    phase: Array
    entered: Array
    waiting: list[Group] = attrs.field(factory=list)

    @classmethod
    def of(cls, cluster: Array, n_threads: int) -> ClusterBarrier:
        """Barriers without arrivals."""
        n = int(cluster.max()) + 1
        return cls(cluster, np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n_threads, NEVER, np.int64))


@define(eq=False)
class RegisterCounts:
    """The registers per thread of each warp ``[W, n_ctas]`` (W: whole warpgroups), the CTA's free registers, and the
    groups that wait for some. Groups wait only if ``bounded``."""

    held: Array
    free: Array
    bounded: bool
    waiting: list[Group] = attrs.field(factory=list)


@define(eq=False)
class BatchState:
    """CTAs that run side by side; ``ctas`` are their linear numbers, in batch order."""

    shape: Shape
    ctas: Array
    shared: WordSpace
    local: WordSpace
    alive: Array
    """Number of threads per CTA that have not exited."""
    barriers_passed: Array
    """How often each CTA has passed a barrier."""
    frames: dict[tuple[int, str], Frame] = attrs.field(factory=dict)
    """By activation depth and function."""
    runnable: list[Group] = attrs.field(factory=list)
    parked: list[Group] = attrs.field(factory=list)
    """Groups that wait for lanes of their warps."""
    sleeping: list[Group] = attrs.field(factory=list)
    """Groups that poll, asleep until memory changes or their time comes."""
    generation: int = 0
    barriers: dict[int, Barrier] = attrs.field(factory=dict)
    cluster_barrier: ClusterBarrier | None = None
    register_counts: RegisterCounts | None = None
    """None until the first setmaxnreg."""
    transfers: Transfers = attrs.field(factory=Transfers)
    wgmma: Wgmma | None = None
    """None until the first wgmma."""
    tensor: TensorMemory | None = None
    """None until the first tcgen05."""
    exited: Array | None = None
    warpgroups: tuple[int, Array] | None = None
    """Number of threads that have not exited, and per warpgroup."""
    notes: Notes = attrs.field(factory=no_notes)
    """What watchers know about the batch."""
    near: bool = False
    """Whether it has the CTAs that listeners of their own see."""
    divide: Callable[[], None] | None = None
    """Splits the group that some threads have left for a short branch (`warpsim.machine.aside`)."""

    def settle(self) -> None:
        """Let each thread be in a group that stands where the thread does."""
        divide, self.divide = self.divide, None
        if divide is not None:
            divide()

    def groups(self) -> list[Group]:
        """All groups except the running one."""
        self.settle()
        found = [*self.runnable, *self.parked, *self.sleeping]
        for place in (*self.barriers.values(), self.cluster_barrier, self.register_counts, self.tensor):
            found += place.waiting if place is not None else []
        return found

    def barrier(self, number: int) -> Barrier:
        """A named barrier of the CTAs."""
        found = self.barriers.get(number)
        if found is None:
            found = self.barriers[number] = Barrier.of(number, self.shape.n_ctas)
        return found

    def tensor_memory(self) -> TensorMemory:
        """The CTAs' tensor memories."""
        if self.tensor is None:
            self.tensor = TensorMemory.of(self.shape.n_ctas)
        return self.tensor

    @classmethod
    def of(cls, shape: Shape, ctas: Array, shared_size: int, local_size: int) -> BatchState:
        """CTAs that have not begun."""
        alive = np.empty(shape.n_ctas, np.int64)
        alive.fill(shape.n_threads)
        shared, local = WordSpace(shared_size, shape.n_ctas), WordSpace(local_size, shape.n)
        return cls(shape, ctas, shared, local, alive, np.zeros(shape.n_ctas, np.int64))
