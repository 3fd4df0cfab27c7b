"""The watchers of a launch: selects those for its checks, and connects races and proxies to events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from warpsim.analysis.wmma_fragments import RULE as FRAGMENT
from warpsim.checks import barriers, convergence, matrix_rows, stalls
from warpsim.checks.async_reuse import AsyncReuse
from warpsim.checks.async_shared import EARLY, OVERWRITE
from warpsim.checks.descriptors import RULE as DESCRIPTOR
from warpsim.checks.descriptors import Descriptors
from warpsim.checks.fragments import Fragments
from warpsim.checks.map_fences import acquire_maps, check_maps, release_maps
from warpsim.checks.mbarriers import RULE as MBARRIER
from warpsim.checks.mbarriers import MbarrierRules
from warpsim.checks.proxies import SPACES, LaunchProxies, Proxies
from warpsim.checks.proxy_findings import RULE as PROXY
from warpsim.checks.race_events import LaunchRaces, Note
from warpsim.checks.race_exits import check_exit
from warpsim.checks.race_findings import RULE as RACE
from warpsim.checks.raced import fence_scope, note_of
from warpsim.checks.races import Races
from warpsim.checks.register_counts import RULE as SETMAXNREG
from warpsim.checks.register_counts import RegisterCountRules
from warpsim.checks.tensor_maps import RULE as TENSOR_MAP
from warpsim.checks.tensor_maps import TensorMaps
from warpsim.checks.undefined_registers import RULE as UNINITIALISED
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.wgmma_registers import RULES as WGMMA
from warpsim.checks.wgmma_registers import WgmmaRegisters
from warpsim.checks.written import WrittenBytes
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.reporting import present
from warpsim.machine.state.launch import BATCH_BYTES
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher

if TYPE_CHECKING:
    from warpsim.machine.collectives import Members
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import Uses
    from warpsim.machine.selection import Selection
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import LaunchState
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array
    from warpsim.program.program import Instruction


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
        (not checks.isdisjoint(stalls.BROKEN.values()), stalls.Stalls),
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


def phases_of(machine: Machine, columns: Array, place: Array) -> Array:
    """The parities of the current phases of mbarriers."""
    return mbarriers.phase(machine.batch.shared.gather(place, columns, np.dtype(np.uint64))).astype(np.int64)


class RaceWatcher(Watcher):
    """Passes events to the race detector of each batch."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}
        self._doubted: list[tuple[Callable[[], Array], Array]] = []
        self._doubting: Selection | None = None

    def _at(self, machine: Machine, group: Group) -> Races:
        """The detector of the batch, at the time of the group's step."""
        races: Races = machine.batch.notes[RACE]
        step = group.number, group.block, group.at, len(group.stack)
        if step != races.launch.step:
            races.launch.step = step
            instruction = present(group)
            note = self._notes.get(id(instruction))
            if note is None:
                note = self._notes[id(instruction)] = note_of(instruction)
            races.begin(instruction, note)
        return races

    def _anew(self, machine: Machine) -> Races:
        """The detector of the batch, for an event that belongs to a new step."""
        races: Races = machine.batch.notes[RACE]
        races.launch.step = None
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
        if access.differs is not None and races.doubts:
            if self._doubting is not group.selection:  # a store that faulted has left doubts behind
                self._doubted, self._doubting = [], group.selection
            self._doubted.append((access.differs, access.differs()))

    def memory_written(self, machine: Machine, group: Group) -> None:
        """Forgive stores that changed nothing."""
        if self._doubted and self._doubting is group.selection:
            changed, lost = self._doubted[0][1], self._doubted[0][0]()
            for differs, before in self._doubted[1:]:
                changed, lost = changed | before, lost | differs()
            self._doubted = []
            machine.batch.notes[RACE].settle(machine, group, changed, lost)

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
                races.fence_inits(group, active)
            else:
                races.fence(group, scope, active)
            races.launch.step = None

    def warp_synchronised(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Note lanes that have met."""
        self._at(machine, group).warp_sync(group, members, active)

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note arrivals at a barrier that others need not reach."""
        if partial:
            races, barrier = self._anew(machine), machine.batch.barrier(number)
            for arrived in [group] if barrier.partial else [*barrier.waiting, group]:
                races.barrier_arrive(arrived, number)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note threads that passed a barrier."""
        races = self._anew(machine)
        if group is None:
            races.cta_barrier(None)
        else:
            races.barrier_leave(group, number if partial else None)

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Note that a barrier which others need not reach has completed."""
        self._anew(machine).barrier_reset(number, columns)

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Note arrivals at a cluster barrier."""
        barrier = machine.batch.cluster_barrier
        assert barrier is not None
        self._at(machine, group).cluster_arrive(group, barrier)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        self._anew(machine).cluster_wait(group)

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Release through an mbarrier."""
        races = self._at(machine, group)
        for part in races.successive(positions, columns, place, phases.astype(np.int64)):
            races.mbarrier_arrive(*part)

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Acquire through an mbarrier."""
        over = 1 - phases_of(machine, columns, place)
        self._at(machine, group).mbarrier_wait(positions, columns, place, over)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies as accesses of the threads that start them."""
        races = self._at(machine, transfer.group)
        if late(machine) or transfer.kind != "cp.async":
            races.copies(machine, transfer)
        races.sources.enter(machine, transfer)

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Order copies before what their threads do next."""
        self._anew(machine).waited(transfer, which)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that copies may be complete."""
        machine.batch.notes[RACE].sources.changed = True

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Release copies through their mbarriers."""
        machine.batch.notes[RACE].signalled(transfer, which)

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Order what wgmma read before what follows."""
        races = self._at(machine, group)
        races.agent_wait(group)
        races.launch.step = None

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Note threads that exited."""
        races = self._anew(machine)
        check_exit(races, machine, group)
        races.exited(group, machine.batch.alive)


class ProxyFences(Watcher):
    """Passes events to the proxy state of each batch."""

    def __init__(self) -> None:
        self._synchronises: dict[int, bool] = {}

    def batch_began(self, machine: Machine) -> None:
        """Make a state for each batch."""
        shared = machine.launch.notes.get(PROXY)
        if shared is None:
            shared = machine.launch.notes[PROXY] = LaunchProxies()
        machine.batch.notes[PROXY] = Proxies(shared, machine)

    def _account(self, machine: Machine) -> Proxies:
        found: Proxies = machine.batch.notes[PROXY]
        return found

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note accesses through the generic proxy."""
        if access.allocation is not None:
            if access.kind == WRITE:
                self._account(machine).globals(group, access.allocation, access)
        elif access.space != "local":
            self._account(machine).shared(group, access)
        instruction = present(group)
        synchronises = self._synchronises.get(id(instruction))
        if synchronises is None:
            synchronises = instruction.traits.polls or instruction.traits.scope == "cluster"
            self._synchronises[id(instruction)] = synchronises
        if synchronises:
            self._account(machine).synchronised(group)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note matrix rows."""
        self._account(machine).rows(group, access)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Check what wgmma reads through the async proxy."""
        if not machine.delivering:
            self._account(machine).matrix(machine, group, address, columns, limits)

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Note proxy fences; other fences synchronise."""
        traits = instruction.traits
        if traits.fence is not None and traits.fence.proxy == "async":
            named = tuple([space for space in SPACES if space in traits.spaces])
            positions = group.selection.positions
            chosen = positions if active is None else positions[np.broadcast_to(active, positions.shape)]
            self._account(machine).fence(chosen.reshape(-1), named or SPACES)
        else:
            self._account(machine).synchronised(group)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note threads that passed a barrier."""
        if partial and group is not None:
            self._account(machine).synchronised(group)
        else:
            self._account(machine).barrier(group)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        self._account(machine).synchronised(group)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies through the async proxy."""
        if transfer.asynchronous:
            self._account(machine).copies(machine, transfer)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that cp.async has written through the generic proxy."""
        if transfer.kind == "cp.async":
            self._account(machine).landed(transfer, which)

    def map_changed(self, machine: Machine, group: Group, positions: Array) -> None:
        """Note released changes of tensor maps."""
        release_maps(self._account(machine), positions)

    def map_acquired(self, machine: Machine, group: Group, addresses: Array, columns: Array) -> None:
        """Note acquired tensor maps."""
        acquire_maps(self._account(machine), addresses, columns)

    def map_used(self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None) -> None:
        """Check the use of tensor maps."""
        check_maps(self._account(machine), machine, group, addresses, columns, active)
