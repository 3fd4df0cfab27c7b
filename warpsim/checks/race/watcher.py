"""`RaceWatcher`: passes events to the race detector of each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.race.detector import Races
from warpsim.checks.race.exits import check_exit
from warpsim.checks.race.launch import CLUSTER, CTA, GPU, LaunchRaces, Note
from warpsim.checks.race.reports import RULE as RACE
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.reporting import present
from warpsim.machine.watcher import MemoryAccess, Watcher

if TYPE_CHECKING:
    from warpsim.machine.collectives import Members
    from warpsim.machine.machine import Machine
    from warpsim.machine.selection import Selection
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array
    from warpsim.program.program import Instruction

_SCOPES = {None: GPU, "cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


def note_of(instruction: Instruction) -> Note:
    """How strong an instruction's accesses are, and what they release and acquire."""
    order, flag = instruction.traits.order, instruction.traits.mbarrier is None
    return Note(_SCOPES[order.scope], order.release, order.acquire, flag) if order.strong else Note()


def fence_scope(instruction: Instruction) -> str | None:
    """The scope of a fence: "cta" or "gpu"; "inits" if it is for initialised mbarriers only; None if it is for proxies."""
    fence = instruction.traits.fence
    if fence is None or fence.proxy is not None:
        return None
    if fence.mbarrier_init:
        return "inits"
    return "cta" if instruction.traits.scope == "cta" else "gpu"


def phases_of(machine: Machine, columns: Array, place: Array) -> Array:
    """The parities of the current phases of mbarriers."""
    return mbarriers.phase(machine.batch.shared.gather(place, columns, np.dtype(np.uint64))).astype(np.int64)


class RaceWatcher(Watcher):
    """Passes events to the race detector of each batch."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}
        self._in_doubt: list[tuple[Callable[[], Array], Array]] = []
        self._storing: Selection | None = None

    def _at(self, machine: Machine, group: Group) -> Races:
        """The detector of the batch, at the time of the group's step."""
        races: Races = machine.batch.notes[RACE]
        step = group.number, group.block, group.at, len(group.stack)
        if step != races.clocks.launch.step:
            races.clocks.launch.step = step
            instruction = present(group)
            note = self._notes.get(id(instruction))
            if note is None:
                note = self._notes[id(instruction)] = note_of(instruction)
            races.clocks.begin(instruction, note)
        return races

    def _at_new_step(self, machine: Machine) -> Races:
        """The detector of the batch, for an event that belongs to a new step."""
        races: Races = machine.batch.notes[RACE]
        races.clocks.launch.step = None
        return races

    def batch_began(self, machine: Machine) -> None:
        """Make a detector for each batch."""
        shared = machine.launch.notes.get(RACE)
        if shared is None:
            shared = machine.launch.notes[RACE] = LaunchRaces(machine.launch)
        machine.batch.notes[RACE] = Races(shared, machine)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check accesses of threads; copies were checked when they started."""
        if access.space == "local" or machine.delivering:
            return
        races = self._at(machine, group)
        if access.allocation is not None:
            races.globals(machine, group, access.allocation, access)
        else:
            races.shared(machine, group, access)
        if access.differs is not None and races.reports.doubts:
            if self._storing is not group.selection:  # a store that faulted has left doubts behind
                self._in_doubt, self._storing = [], group.selection
            self._in_doubt.append((access.differs, access.differs()))

    def memory_written(self, machine: Machine, group: Group) -> None:
        """Forgive stores that changed nothing."""
        if self._in_doubt and self._storing is group.selection:
            changed, lost = self._in_doubt[0][1], self._in_doubt[0][0]()
            for differs, before in self._in_doubt[1:]:
                changed, lost = changed | before, lost | differs()
            self._in_doubt = []
            machine.batch.notes[RACE].reports.settle(machine, group, changed, lost)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows."""
        self._at(machine, group).rows(machine, group, access)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Check what wgmma reads."""
        if not machine.delivering:
            self._at(machine, group).matrix(machine, group, address, columns)

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Note fences of the memory model."""
        scope = fence_scope(instruction)
        if scope is not None:
            races = self._at(machine, group)
            if scope == "inits":
                races.clocks.fence_inits(group, active)
            else:
                races.clocks.fence(group, scope, active)
            races.clocks.launch.step = None

    def warp_synchronised(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Note lanes that have met."""
        self._at(machine, group).clocks.warp_sync(group, members, active)

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note arrivals at a barrier that others need not reach."""
        if partial:
            races, barrier = self._at_new_step(machine), machine.batch.barrier(number)
            for arrived in [group] if barrier.partial else [*barrier.waiting, group]:
                races.clocks.barrier_arrive(arrived, number)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note threads that passed a barrier."""
        races = self._at_new_step(machine)
        if group is None:
            races.clocks.cta_barrier(None)
        else:
            races.clocks.barrier_leave(group, number if partial else None)

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Note that a barrier which others need not reach has completed."""
        self._at_new_step(machine).clocks.barrier_reset(number, columns)

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Note arrivals at a cluster barrier."""
        barrier = machine.batch.cluster_barrier
        assert barrier is not None
        self._at(machine, group).clocks.cluster_arrive(group, barrier)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        self._at_new_step(machine).clocks.cluster_wait(group)

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Release through an mbarrier."""
        races = self._at(machine, group)
        for part in races.clocks.successive(positions, columns, place, phases.astype(np.int64)):
            races.clocks.mbarrier_arrive(*part)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Acquire through an mbarrier."""
        over = 1 - phases_of(machine, columns, place)
        self._at(machine, group).clocks.mbarrier_wait(positions, columns, place, over)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies as accesses of the threads that start them."""
        races = self._at(machine, transfer.group)
        if late(machine) or transfer.kind != "cp.async":
            races.copies(machine, transfer)
        races.sources.enter(machine, transfer)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Order copies before what their threads do next."""
        self._at_new_step(machine).waited(transfer, which)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that copies may be complete."""
        machine.batch.notes[RACE].sources.changed = True

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Release copies through their mbarriers."""
        machine.batch.notes[RACE].signalled(transfer, which)

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Order what wgmma read before what follows."""
        races = self._at(machine, group)
        races.clocks.wgmma_wait(group)
        races.clocks.launch.step = None

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Note threads that exited."""
        races = self._at_new_step(machine)
        check_exit(races.clocks, machine, group)
        races.clocks.exited(group, machine.batch.alive)
