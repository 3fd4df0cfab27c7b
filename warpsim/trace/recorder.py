"""The watcher that records a trace."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from operator import index

import numpy as np

from warpsim.errors import Finding, LaunchError, shown
from warpsim.isa.traits import Mbarrier
from warpsim.machine.hooks import Listener, RegionSteps
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock, Issue
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Affine, Array, Place
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.observe.profiler import Entry, Profiler
from warpsim.program.program import Instruction
from warpsim.report.profile import Profile
from warpsim.trace.document import Trace
from warpsim.trace.rows import Flights, Rows, Waits
from warpsim.trace.touches import Touches


class _Elsewhere(Profiler):
    """Counts what CTAs do that a tracer does not show, and tells it of their findings."""

    def __init__(
        self,
        tracer: Tracer,
        entries: dict[int, Entry],
        blocks: dict[BoundBlock, list[int]],
        seconds: dict[BoundBlock, float],
    ) -> None:
        super().__init__()
        self._tracer, self._entries, self._blocks, self._compiled = tracer, entries, blocks, seconds

    def region_recorded(self, machine: Machine, group: Group, steps: list[RegionSteps]) -> None:
        """Let the tracer record what the CTAs that it shows have done among the others."""
        self._tracer.record(machine, group, steps)

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Report a finding to the tracer."""
        self._tracer.finding(machine, group, finding)


CTAS = 4
STEPS = 1_000_000


class Tracer(Profiler):
    """Records what some CTAs do (the first 4, or those given by (x, y, z)), and counts what all CTAs do.

        tracer = warpsim.trace.Tracer()
        kernel(grid, block, args, watchers=[tracer])
        tracer.trace().save("trace.html")

    After ``max_steps`` steps of these CTAs the recording ends, and the launch continues. Grids that its kernel launches are not
    recorded.
    """

    compiled, follows = frozenset(), False

    def __init__(self, ctas: int | Sequence[tuple[int, int, int]] = CTAS, max_steps: int = STEPS) -> None:
        super().__init__()
        self._chosen = ctas
        self._max_steps = max_steps
        self._rows: Rows | None = None
        self._instructions: list[Instruction] = []
        self._numbers: dict[int, int] = {}
        self._steps = array("I")
        self._known: dict[tuple[BoundBlock | None, int, int], array[int]] = {}
        """The numbers of instructions of blocks, from one up to another."""
        self._group: Group | None = None
        """Executes steps ``first`` to ``last`` of a block, of which those before ``done`` are recorded."""
        self._block: BoundBlock | None = None
        self._first = self._last = self._done = 0
        self._spent: dict[tuple[BoundBlock, int, int], int] = {}
        """Nanoseconds that runs of steps took."""
        self._runs: list[list[int]] = []
        self._findings: list[tuple[int, Finding]] = []
        self._crew = -1
        self._full = False

    # ---- the launch --------------------------------------------------------------------------

    def from_near(self, launch: LaunchState) -> tuple[Array, Listener] | None:
        """The CTAs shown, and what counts the others."""
        if type(self) is not Tracer:
            return None  # it may hear more of all CTAs
        return self._choose(launch).ctas, _Elsewhere(self, self._entries, self._blocks, self._compiled)

    def batch_began(self, machine: Machine) -> None:
        """Choose the CTAs when the first batch begins."""
        super().batch_began(machine)
        self._choose(machine.launch)

    def _choose(self, launch: LaunchState) -> Rows:
        self._launch = launch
        if self._rows is None:
            gx, gy, gz = launch.grid
            if isinstance(self._chosen, int):
                ctas: Sequence[int] = range(max(min(self._chosen, launch.n_ctas), 1))
            else:
                try:
                    chosen = [(index(x), index(y), index(z)) for x, y, z in self._chosen]
                except (TypeError, ValueError):
                    raise LaunchError(
                        f"a trace is of a number of CTAs or of a list of (x, y, z), not of {shown(self._chosen)}"
                    ) from None
                if not chosen or any(not (0 <= x < gx and 0 <= y < gy and 0 <= z < gz) for x, y, z in chosen):
                    raise LaunchError(f"a trace of the CTAs {shown(self._chosen)}: the grid is {launch.grid}")
                ctas = [launch.number_of(cta) for cta in chosen]
            self._rows = Rows(launch, ctas)
            self._waits = Waits(len(self._rows.ctas) * self._rows.per_cta)
            self._touches = Touches(launch.shared_size, self._rows)
            self._flights = Flights(self._rows)
        return self._rows

    @property
    def began(self) -> bool:
        """Whether a launch has begun."""
        return self._rows is not None

    @property
    def _now(self) -> int:
        """The number of the last step of the CTAs shown; -1 before the first."""
        if self._group is not None:
            self._extend(min(self._group.at + 1, self._last))
        return len(self._steps) - 1

    @property
    def _shown(self) -> int:
        """The number of the step that CTAs shown execute; -1 if others do, or the recording has ended."""
        group = self._group
        if self._crew < 0:
            return -1
        if group is None:
            return len(self._steps) - 1
        now = len(self._steps) + min(group.at, self._last - 1) - self._done
        return now if now < self._max_steps else -1

    def _number(self, instruction: Instruction) -> int:
        found = self._numbers.get(id(instruction))
        if found is None:
            found = self._numbers[id(instruction)] = len(self._instructions)
            self._instructions.append(instruction)
        return found

    def _members(self, machine: Machine, group: Group) -> tuple[int, ...]:
        """The rows of the warps that a group has threads of."""
        assert self._rows is not None
        crew = self._rows.crew(machine, group.selection)
        return self._rows.crews[crew].rows if crew >= 0 else ()

    # ---- steps -------------------------------------------------------------------------------

    step_before, step_after = Watcher.step_before, Watcher.step_after

    def run_before(self, machine: Machine, group: Group, last: int) -> None:
        """Record steps of the CTAs shown: as many as `run_after` or another event says."""
        assert self._rows is not None
        block, at, before = group.plan.blocks[group.block], group.at, self._now
        instruction = block.instructions[at]
        self._enter(machine, group, instruction)
        self._crew = crew = self._rows.crew(machine, group.selection)
        if before + 1 >= self._max_steps:
            self._full, self._crew = True, -1
        self._group, self._block, self._last, self._first, self._done = group, block, last, at, at
        traits = instruction.traits
        if last == at + 1:
            self._extend(last)
            self._group = None
        if self._crew < 0 or (traits.mbarrier is None and traits.barrier is None):
            pass
        elif traits.does(Mbarrier.WAIT):
            self._waits.open("mbarrier", self._rows.crews[crew].rows, before + 1)
        elif traits.barrier is not None and traits.barrier.among == "cluster" and traits.barrier.waits:
            self._waits.open("cluster barrier", self._rows.crews[crew].rows, before + 1)
        self._since = time.perf_counter_ns()

    def run_after(self, machine: Machine, group: Group, last: int) -> None:
        """Record those that were executed, and share out their time."""
        assert self._block is not None
        key = self._block, self._first, last
        self._spent[key] = self._spent.get(key, 0) + time.perf_counter_ns() - self._since
        self._extend(last)
        self._group = None

    def _extend(self, last: int) -> None:
        """Record the steps of a run up to one of its block."""
        if self._crew < 0 or last <= self._done:
            return
        crew, begin = self._crew, len(self._steps)
        if begin + last - self._done > self._max_steps:
            last = self._done + self._max_steps - begin
            self._full, self._crew = True, -1
        key = self._block, self._done, last
        numbers = self._known.get(key)
        if numbers is None:
            assert self._block is not None
            instructions = self._block.instructions[self._done : last]
            numbers = self._known[key] = array("I", map(self._number, instructions))
        self._done, end = last, begin + len(numbers)
        self._steps.extend(numbers)
        if self._runs and self._runs[-1][2] == crew and self._runs[-1][1] == begin:
            self._runs[-1][1] = end
        elif end > begin:
            self._runs.append([begin, end, crew])

    def record(self, machine: Machine, group: Group, steps: list[RegionSteps]) -> None:
        """Record steps of all CTAs shown, which ran together."""
        rows, near = self._rows, machine.launch.near
        assert rows is not None
        assert near is not None
        mine = np.repeat(np.isin(near, rows.ctas), rows.per_cta)
        index = np.repeat(np.arange(len(rows.ctas)), rows.per_cta)
        touched: dict[int, list[tuple[int, Array]]] = {}
        self._crew = rows.everyone()
        for part in steps:
            begin, self._block, self._done = len(self._steps) - part.first, group.plan.blocks[part.block], part.first
            self._extend(part.last)
            found = touched.get(id(part.accesses))
            if found is None:
                each = [(one.at, self._touches.lanes(one, mine, index)) for one in part.accesses]
                found = touched[id(part.accesses)] = each
            for at, runs in found:
                if begin + at < len(self._steps):
                    self._touches.add(runs, begin + at)

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Record a finding and its step."""
        self._findings.append((max(self._now, 0), finding))

    # ---- waits -------------------------------------------------------------------------------

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note warps that may wait from here on."""
        barrier = group.instruction.traits.barrier
        if barrier is not None and barrier.waits and self._crew >= 0:
            self._waits.open(f"barrier {number}", self._members(machine, group), self._now)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note warps that continue."""
        if group is not None and not self._full:
            self._waits.close(f"barrier {number}", self._members(machine, group), self._now)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note warps that pass the barrier of their cluster."""
        if not self._full:
            self._waits.close("cluster barrier", self._members(machine, group), self._now)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Note threads that observed the end of a phase they waited for."""
        assert self._rows is not None
        if len(positions) and self._crew >= 0:
            crew = self._rows.number(machine, positions)
            if crew >= 0:
                name = self._variable(machine, int(place[0]))
                self._waits.close("mbarrier", self._rows.crews[crew].rows, self._now, f"mbarrier {name}")

    def _variable(self, machine: Machine, address: int) -> str:
        return machine.launch.plan.shared.name(address, machine.launch.shared_size) or f"0x{address:x}"

    # ---- shared memory -----------------------------------------------------------------------

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark reads and writes of lanes."""
        super().memory_accessed(machine, group, access)
        if access.space.startswith("shared"):
            self._touch(machine, access.writes, access.at, access.columns, access.active, group.selection.shape)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark reads and writes of matrix rows."""
        super().rows_accessed(machine, group, access)
        shape = np.broadcast_shapes(access.places.shape, access.columns.shape)
        self._touch(machine, access.writes, access.at, access.columns, access.active, shape)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Mark reads of tiles by wgmma."""
        super().tile_read(machine, group, address, columns, limits, nbytes)
        self._touch(machine, 2, address, columns, None, np.broadcast_shapes(address.shape, columns.shape))

    def _touch(
        self,
        machine: Machine,
        kind: int,
        at: Place | Affine,
        columns: Array,
        active: Array | None,
        shape: tuple[int, ...],
    ) -> None:
        """Mark an access; data delivered by copies is part of their flight."""
        if not machine.delivering and (now := self._shown) >= 0:
            self._touches.touch(machine, kind, at, columns, active, shape, now)

    # ---- asynchronous operations -------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Record the start of copies."""
        super().async_issued(machine, transfer)
        now = self._now
        if transfer.place is not None and not self._full:
            self._flights.start(machine, transfer, self._number(transfer.place), now)

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Record that copies signalled their mbarriers."""
        self._flights.signalled(transfer, which, self._now)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Record that the sources of copies are free."""
        self._flights.waited(transfer, which, self._now)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Record that data written by copies is visible."""
        self._flights.visible(transfer, which, self._now)

    def wgmma_issued(self, machine: Machine, group: Group, issue: Issue) -> None:
        """Record the start of a wgmma."""
        now = self._now
        if self._crew >= 0 and machine.batch.wgmma is not None:
            number = self._number(group.instruction)
            self._flights.issue(machine, group, machine.batch.wgmma.issued, number, now)

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Record that a wgmma was waited for."""
        if machine.batch.wgmma is not None:
            self._flights.done(machine, group, machine.batch.wgmma.done, self._now)

    # ---- the end -----------------------------------------------------------------------------

    def profile(self) -> Profile:
        """The counts by PTX line."""
        for (block, first, last), spent in self._spent.items():
            for instruction in block.instructions[first:last]:
                self._entry(instruction).counts.seconds += 1e-9 * spent / (last - first)
        self._spent.clear()
        return super().profile()

    def trace(self) -> Trace:
        """The recording so far; the launch need not have ended."""
        if self._rows is None:
            raise ValueError("nothing was launched with this tracer")
        self._waits.end(self._now)
        launch = self._launch
        assert launch is not None, "a launch has begun"
        return Trace(
            self.profile(),
            self._rows.names(),
            tuple(self._instructions),
            self._steps,
            tuple((first, last, crew) for first, last, crew in self._runs),
            tuple((crew.rows, _lanes(self._rows, crew.rows, crew.lanes)) for crew in self._rows.crews),
            tuple(self._waits.spans),
            tuple(self._flights.all),
            launch.shared_size,
            launch.plan.shared.variables,
            self._touches.block,
            tuple(self._touches.marks),
            tuple(self._findings),
            self._full,
        )


def _lanes(rows: Rows, members: tuple[int, ...], lanes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The lanes of a crew's warps; None if these are all lanes of the warps."""
    return None if all(bits == rows.whole(row) for row, bits in zip(members, lanes, strict=True)) else lanes
