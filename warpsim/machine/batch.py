"""A batch: CTAs that run side by side, their groups of threads, and where groups wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.asynchrony.cp_async import AsyncGroups
from warpsim.machine.asynchrony.mbarrier_objects import MbarrierObjects
from warpsim.machine.asynchrony.register_counts import RegisterCounts
from warpsim.machine.asynchrony.tile_swizzles import TileSwizzles
from warpsim.machine.asynchrony.transfers import Transfers
from warpsim.machine.binding.slots import SpecialSlot
from warpsim.machine.group import Frame, Group
from warpsim.machine.hazards.defined import DefinedBits
from warpsim.machine.hazards.origins import Origins
from warpsim.machine.hazards.proxies import Proxies
from warpsim.machine.hazards.race_exits import check_exit
from warpsim.machine.hazards.races import Races
from warpsim.machine.hazards.shadow_rules import RULE, ones, unwritten
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.word_space import WordSpace
from warpsim.machine.selection import Selection, Shape, from_positions, union
from warpsim.machine.values import Affine, Array

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.wgmma import Wgmma
    from warpsim.machine.launch import Launch
    from warpsim.machine.plan import FunctionPlan
    from warpsim.program.program import Instruction

U32 = np.dtype(np.uint32)


class Barrier:
    """One barrier of every CTA of a batch: how many threads have arrived, and the groups that wait.

    ``expected`` is 0 where all threads of the CTA that have not exited are meant; ``partial`` is True once fewer were.
    ``place`` is where threads arrived last, ``reduction`` whether they vote.
    """

    def __init__(self, number: int, n_ctas: int) -> None:
        self.number = number
        self.partial = False
        self.arrived = np.zeros(n_ctas, np.int64)
        self.expected = np.zeros(n_ctas, np.int64)
        self.waiting: list[tuple[Group, Any]] = []
        self.votes: list[tuple[Selection, Array]] = []
        self.place: Instruction | None = None
        self.reduction = False


class Batch:
    """The state of the CTAs ``first_cta ...`` of a launch (``ctas`` are their linear numbers, in batch order)."""

    def __init__(self, launch: Launch, shape: Shape, ctas: Array) -> None:
        self.launch = launch
        self.shape = shape
        self.ctas = ctas
        self.frames: dict[tuple[int, int], Frame] = {}
        self.runnable: list[Group] = []
        self.parked: list[Group] = []
        self.meetings = 0
        """How many times a barrier of CTAs has been passed."""
        self.barriers: dict[int, Barrier] = {}
        self.exited: Array | None = None
        self.strays: Array | None = None
        self.cluster_barrier: Any = None
        self.wgmma: Wgmma | None = None
        self.warpgroups: tuple[int, Array] | None = None
        self.alive = np.full(shape.n_ctas, shape.n_threads, np.int64)
        self.generation = 0
        self.shared = WordSpace(launch.shared_size, shape.n_ctas)
        self.local = WordSpace(launch.local_size, shape.n)
        self.origins = Origins()
        if "uninitialised" in launch.settings.checks:
            for space in (self.shared, self.local):
                space.defined = DefinedBits(space.size, space.n_columns)
        self.memory: Memory = Memory(self, launch.memory, self.shared, self.local)
        if launch.races is not None:
            self.memory.races = Races(launch.races, self)
        if launch.proxies is not None:
            self.memory.proxies = Proxies(launch.proxies, self)
        self.transfers = Transfers(self)
        self.tile_swizzles = TileSwizzles(self)
        self.async_groups = AsyncGroups(self)
        self.objects = MbarrierObjects(self)
        self.register_counts = RegisterCounts(self)
        self.ports: dict[str, Any] = launch.make_ports(self)
        self._specials: dict[str, Any] = {}

    # ---- registers ---------------------------------------------------------------------------

    def frame(self, depth: int, plan: FunctionPlan) -> Frame:
        """The storage of one activation depth."""
        key = depth, id(plan)
        frame = self.frames.get(key)
        if frame is None:
            values: list[Any] = [None] * plan.n_registers
            values += [self.special(e.name) if isinstance(e, SpecialSlot) else e for e in plan.extras]
            frame = self.frames[key] = Frame(values)
        return frame

    def special(self, name: str) -> Any:
        """A special register's value for all threads of the batch."""
        value = self._specials.get(name)
        if value is None:
            value = self._specials[name] = self.launch.special(self, name)
        return value

    # ---- groups ------------------------------------------------------------------------------

    def start(self, plan: FunctionPlan) -> None:
        """All threads at the kernel's first instruction."""
        group = Group(self, self.shape.whole, plan, (), 0, 0, plan.frame_start)
        if RULE in self.launch.settings.checks:
            for slot in unwritten(plan):
                if group.frame.values[slot] is None:  # a snippet's registers have initial values
                    group.frame.shadows[slot] = ones(plan, slot, np.ones(self.shape.extents, np.bool_))
        self.runnable.append(group)

    def push(self, group: Group) -> None:
        """Make a group runnable."""
        self.runnable.append(group)

    def merge(self, groups: list[Group], live: frozenset[int] | None) -> Group:
        """One group of several at the same place."""
        if len(groups) == 1:
            return groups[0]
        for group in groups:
            group.flush(live)
        first = groups[0]
        selection = union([g.selection for g in groups])
        merged = Group(
            self,
            selection,
            first.plan,
            first.stack,
            first.block,
            first.at,
            first.local_base,
            max(g.generation for g in groups),
        )
        merged.laps = min(g.laps for g in groups)
        return merged

    def take(self) -> Group:
        """The group to run next: lowest generation, then lowest place; groups at that place join it."""
        runnable = self.runnable
        if len(runnable) == 1:
            return runnable.pop()
        keys = [(g.generation, g.key) for g in runnable]
        first = min(keys)
        best = runnable[keys.index(first)]
        same: list[Group] = []
        others: list[Group] = []
        for group, key in zip(runnable, keys, strict=True):
            (same if key == first and group.same_place(best) else others).append(group)
        self.runnable = others
        return self.merge(same, best.plan.blocks[best.block].live_in if best.at == 0 else None)

    def park(self, group: Group) -> None:
        """Let a group wait at its place for lanes of its warps; join those that wait there already."""
        same = [g for g in self.parked if g.same_place(group)]
        if same:
            self.parked = [g for g in self.parked if not any(g is s for s in same)]
            self.push(self.merge([*same, group], None))
        else:
            self.parked.append(group)

    def finish(self) -> None:
        """All threads have ended."""
        self.transfers.finish()

    def exit(self, group: Group) -> None:
        """The group's threads end."""
        self._exit(group)
        self.register_counts.exit()

    def _exit(self, group: Group) -> None:
        if self.wgmma is not None:
            self.wgmma.exit(group)
        if group.selection.n == self.shape.n:
            self.alive[:] = 0
            self.exited = np.ones(self.shape.n, np.bool_)
            if self.memory.races is not None:
                check_exit(self.memory.races, group)
            return
        if self.exited is None:
            self.exited = np.zeros(self.shape.n, np.bool_)
        self.exited[group.selection.positions.reshape(-1)] = True
        self.alive -= group.selection.per_cta
        if self.memory.races is not None:
            check_exit(self.memory.races, group)
        for barrier in list(self.barriers.values()):
            self.release(barrier)
        if self.cluster_barrier is not None:
            self.cluster_barrier.turn()
        if self.parked:
            self.runnable += self.parked
            self.parked = []

    # ---- barriers ----------------------------------------------------------------------------

    def barrier(self, number: int) -> Barrier:
        """A named barrier of the CTAs."""
        found = self.barriers.get(number)
        if found is None:
            found = self.barriers[number] = Barrier(number, self.shape.n_ctas)
        return found

    def arrive(
        self, group: Group, number: int, count: int, waits: bool, finish: Any = None, vote: Array | None = None
    ) -> bool:
        """A group arrives at a barrier; True where it has to wait (it is kept here until then).

        ``finish(group, barrier_votes)`` runs on each released group (reductions write their result there)."""
        barrier = self.barrier(number)
        selection = group.selection
        races = self.memory.races
        unused = vote is None and not barrier.waiting and not barrier.arrived.any()
        if waits and unused and selection.n == self.shape.n and count in (0, self.shape.n_threads):
            self.meetings += 1
            if races is not None:
                races.cta_barrier(None)
            if self.memory.proxies is not None:
                self.memory.proxies.barrier(None)
            return False
        if count not in (0, self.shape.n_threads):
            barrier.partial = True
            if races is not None:
                races.barrier_arrive(group, number)
        per_cta = selection.per_cta
        here = per_cta > 0
        barrier.arrived += per_cta
        barrier.expected[here] = count
        if vote is not None:
            barrier.votes.append((selection, np.broadcast_to(vote, selection.shape)))
        if waits:
            barrier.waiting.append((group, finish))
        self.release(barrier)
        return waits

    def release(self, barrier: Barrier) -> None:
        """Let the CTAs whose barrier is complete go on."""
        needed = np.where(barrier.expected > 0, barrier.expected, self.alive)
        done = (barrier.arrived >= needed) & (barrier.arrived > 0)
        if not done.any():
            return
        self.meetings += 1
        votes = self._votes(barrier, done)
        waiting, barrier.waiting = barrier.waiting, []
        for group, finish in waiting:
            go, stay = self._by_cta(group, done)
            if stay is not None:
                barrier.waiting.append((stay, finish))
            if go is not None:
                if self.memory.races is not None:
                    self.memory.races.barrier_leave(go, barrier.number if barrier.partial else None)
                if self.memory.proxies is not None:
                    (self.memory.proxies.synchronised if barrier.partial else self.memory.proxies.barrier)(go)
                if finish is not None:
                    finish(go, votes)
                go.generation = self.generation
                self.push(go)
        if barrier.partial and self.memory.races is not None:
            self.memory.races.barrier_reset(barrier.number, np.flatnonzero(done))
        barrier.arrived[done] = 0
        barrier.expected[done] = 0

    def _votes(self, barrier: Barrier, done: Array) -> tuple[Array, Array]:
        """For each CTA: how many threads voted true, and how many voted."""
        true = np.zeros(self.shape.n_ctas, np.int64)
        total = np.zeros(self.shape.n_ctas, np.int64)
        kept = []
        for selection, vote in barrier.votes:
            ctas = selection.ctas.reshape(-1)
            here = done[ctas]
            true += np.bincount(ctas, weights=vote.reshape(-1) & here, minlength=self.shape.n_ctas).astype(np.int64)
            total += np.bincount(ctas, weights=here, minlength=self.shape.n_ctas).astype(np.int64)
            if not here.all():
                kept.append((selection, vote))
        barrier.votes = kept
        return true, total

    def _by_cta(self, group: Group, chosen: Array) -> tuple[Group | None, Group | None]:
        """The part of a group in the chosen CTAs, and the rest."""
        inside = chosen[group.selection.ctas]
        if inside.all():
            return group, None
        if not inside.any():
            return None, group
        return self.divide(group, inside)

    def divide(self, group: Group, mask: Array) -> tuple[Group, Group]:
        """A group cut in two where it stands; ``mask`` in the shape of its positions."""
        group.flush(None)
        positions = group.selection.positions
        parts = []
        for wanted in (mask, ~mask):
            selection = from_positions(self.shape, positions[wanted])
            parts.append(
                Group(
                    self, selection, group.plan, group.stack, group.block, group.at, group.local_base, group.generation
                )
            )
        return parts[0], parts[1]

    # ---- clusters ----------------------------------------------------------------------------

    def cluster_peer(self, columns: Array, rank: Array) -> Array:
        """The column of the CTA of a rank in each column's cluster, -1 where the cluster has no such rank."""
        return self.launch.cluster_peer(self, columns, rank)

    # ---- findings ----------------------------------------------------------------------------

    def fault(self, rule: str, message: str, group: Group, lanes: Array | None = None, **values: object) -> None:
        """Report a broken rule at the group's present step; ``lanes`` in the group's shape."""
        self.launch.report(self, rule, message, group, lanes, values)

    def constant(self, value: int) -> Affine:
        """A uniform 32-bit value."""
        return Affine.constant(value, U32)
