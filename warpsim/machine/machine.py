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
from warpsim.machine.memory.access import Memory
from warpsim.machine.reporting import ends_launch, record, stop
from warpsim.machine.runtime import make_ports
from warpsim.machine.selection import Selection, from_positions, union
from warpsim.machine.specials import cluster_peer, special
from warpsim.machine.state.batch import Barrier, BatchState
from warpsim.machine.state.group import Frame, Group, Stack
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Affine, Array, Value
from warpsim.machine.window import Window
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.wgmma import Wgmma
    from warpsim.machine.plan import FunctionPlan

U32 = np.dtype(np.uint32)


class Machine:
    """The state of the CTAs ``first_cta ...`` of a launch (``ctas`` are their linear numbers, in batch order)."""

    def __init__(self, launch: LaunchState, batch: BatchState, window: Window) -> None:
        self.launch = launch
        self.window: Window = window
        self.batch: BatchState = batch
        self.wgmma: Wgmma | None = None
        self.delivering = False
        """True while an operation takes effect that was told of when it began."""
        self.muted = 0
        self.fatal: tuple[Group, Array | None, str, bool] | None = None
        """The group, lanes and rule of the finding that ends the launch, and whether it was told beforehand (see `fault`)."""
        self.attention = False
        """A watcher asks to be told when the present step is done."""
        self.memory: Memory = Memory(self, launch.memory, batch.shared, batch.local)
        self.transfers = Transfers(self)
        self.tile_swizzles = TileSwizzles(self)
        self.async_groups = AsyncGroups(self)
        self.objects = MbarrierObjects(self)
        self.register_counts = RegisterCounts(self)
        self.ports: dict[str, Any] = {"memory": self.memory, "device": launch.device, **make_ports(self)}
        self._specials: dict[str, Any] = {}
        self._parameters: dict[tuple[int, str], Any] = {}

    # ---- registers ---------------------------------------------------------------------------

    def frame(self, depth: int, plan: FunctionPlan) -> Frame:
        """The storage of one activation depth."""
        key = depth, id(plan)
        frame = self.batch.frames.get(key)
        if frame is None:
            values: list[Any] = [None] * plan.n_registers
            values += [self.special(e.name) if isinstance(e, SpecialSlot) else e for e in plan.extras]
            frame = self.batch.frames[key] = Frame(values)
        return frame

    def special(self, name: str) -> Any:
        """A special register's value for all threads of the batch."""
        value = self._specials.get(name)
        if value is None:
            value = self._specials[name] = special(self.launch, self.batch, name)
        return value

    def group(
        self,
        selection: Selection,
        plan: FunctionPlan,
        stack: Stack,
        block: int,
        at: int,
        local_base: int,
        generation: int = 0,
    ) -> Group:
        """Threads at a place of a function; their registers come from the frame of its depth."""
        frame = self.frame(len(stack), plan)
        return Group(frame, selection, plan, stack, block, at, local_base, generation)

    def need(self, group: Group, index: int, use: str) -> Value:
        """A register's value where its content matters."""
        if self.window.register_needed is not None:
            self.window.register_needed(self, group, index, use)
        return group.fetch(index)

    def attend(self) -> None:
        """For watchers, during a memory access of lanes: `carried_after` shall be told of the present step."""
        self.attention = True

    def param(self, offset: int, type: ScalarType) -> Any:
        """A kernel parameter's value."""
        key = offset, type.name
        value = self._parameters.get(key)
        if value is None:
            size = type.dtype.itemsize
            raw = np.frombuffer(self.launch.params[offset : offset + size].ljust(size, b"\0"), type.dtype)
            value = Affine.constant(int(raw[0]), type.dtype) if type.dtype.kind in "iu" else raw.copy()
            self._parameters[key] = value
        return value

    # ---- groups ------------------------------------------------------------------------------

    def start(self, plan: FunctionPlan) -> None:
        """All threads at the kernel's first instruction."""
        group = self.group(self.batch.shape.whole, plan, (), 0, 0, plan.frame_start)
        if self.window.function_entered is not None:
            self.window.function_entered(self, group)
        self.batch.runnable.append(group)

    def push(self, group: Group) -> None:
        """Make a group runnable."""
        self.batch.runnable.append(group)

    def merge(self, groups: list[Group], live: frozenset[int] | None) -> Group:
        """One group of several at the same place."""
        if len(groups) == 1:
            return groups[0]
        for group in groups:
            group.flush(live)
        first = groups[0]
        selection = union([g.selection for g in groups])
        merged = self.group(
            selection,
            first.plan,
            first.stack,
            first.block,
            first.at,
            first.local_base,
            max(g.generation for g in groups),
        )
        merged.laps = min(g.laps for g in groups)
        if self.window.groups_met is not None:
            self.window.groups_met(self, groups, merged)
        return merged

    def take(self) -> Group:
        """The group to run next: lowest generation, then lowest place; groups at that place join it."""
        runnable = self.batch.runnable
        if len(runnable) == 1:
            return runnable.pop()
        keys = [(g.generation, g.key) for g in runnable]
        first = min(keys)
        best = runnable[keys.index(first)]
        same: list[Group] = []
        others: list[Group] = []
        for group, key in zip(runnable, keys, strict=True):
            (same if key == first and group.same_place(best) else others).append(group)
        self.batch.runnable = others
        return self.merge(same, best.plan.blocks[best.block].live_in if best.at == 0 else None)

    def park(self, group: Group) -> None:
        """Let a group wait at its place for lanes of its warps; join those that wait there already."""
        if self.window.group_parked is not None:
            self.window.group_parked(self, group)
        same = [g for g in self.batch.parked if g.same_place(group)]
        if same:
            self.batch.parked = [g for g in self.batch.parked if not any(g is s for s in same)]
            self.push(self.merge([*same, group], None))
        else:
            self.batch.parked.append(group)

    def waits(self) -> bool:
        """Whether any group of the batch waits for something."""
        batch = self.batch
        return (
            bool(batch.parked or self.register_counts.waiting)
            or any(barrier.waiting for barrier in batch.barriers.values())
            or bool(batch.cluster_barrier is not None and batch.cluster_barrier.waiting)
            or bool(batch.sleeping)
        )

    def finish(self) -> None:
        """All threads have ended."""
        self.transfers.finish()

    def exit(self, group: Group) -> None:
        """The group's threads end."""
        if self.window.group_exiting is not None:
            self.window.group_exiting(self, group)
        if group.selection.n == self.batch.shape.n:
            self.batch.alive[:] = 0
            self.batch.exited = np.ones(self.batch.shape.n, np.bool_)
            self._tell_exit(group)
            return
        if self.batch.exited is None:
            self.batch.exited = np.zeros(self.batch.shape.n, np.bool_)
        self.batch.exited[group.selection.positions.reshape(-1)] = True
        self.batch.alive -= group.selection.per_cta
        self._tell_exit(group)
        for barrier in list(self.batch.barriers.values()):
            self.release(barrier)
        if self.batch.cluster_barrier is not None:
            self.batch.cluster_barrier.turn()
        if self.batch.parked:
            self.batch.runnable += self.batch.parked
            self.batch.parked = []

    def _tell_exit(self, group: Group) -> None:
        if self.window.group_exited is not None:
            self.window.group_exited(self, group)

    # ---- barriers ----------------------------------------------------------------------------

    def barrier(self, number: int) -> Barrier:
        """A named barrier of the CTAs."""
        found = self.batch.barriers.get(number)
        if found is None:
            found = self.batch.barriers[number] = Barrier.of(number, self.batch.shape.n_ctas)
        return found

    def arrive(
        self, group: Group, number: int, count: int, waits: bool, finish: Any = None, vote: Array | None = None
    ) -> bool:
        """A group arrives at a barrier; True where it has to wait (it is kept here until then).

        ``finish(group, barrier_votes)`` runs on each released group (reductions write their result there)."""
        barrier = self.barrier(number)
        selection = group.selection
        window = self.window
        unused = vote is None and not barrier.waiting and not barrier.arrived.any()
        if waits and unused and selection.n == self.batch.shape.n and count in (0, self.batch.shape.n_threads):
            self.batch.meetings += 1
            if window.barrier_left is not None:
                window.barrier_left(self, None, number, False)
            return False
        if count not in (0, self.batch.shape.n_threads):
            barrier.partial = True
        if window.barrier_arrived is not None:
            window.barrier_arrived(self, group, number, count not in (0, self.batch.shape.n_threads))
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
        needed = np.where(barrier.expected > 0, barrier.expected, self.batch.alive)
        done = (barrier.arrived >= needed) & (barrier.arrived > 0)
        if not done.any():
            return
        self.batch.meetings += 1
        votes = self._votes(barrier, done)
        waiting, barrier.waiting = barrier.waiting, []
        for group, finish in waiting:
            go, stay = self._by_cta(group, done)
            if stay is not None:
                barrier.waiting.append((stay, finish))
            if go is not None:
                if self.window.barrier_left is not None:
                    self.window.barrier_left(self, go, barrier.number, barrier.partial)
                if finish is not None:
                    finish(self, go, votes)
                go.generation = self.batch.generation
                self.push(go)
        if barrier.partial and self.window.barrier_completed is not None:
            self.window.barrier_completed(self, barrier.number, np.flatnonzero(done))
        barrier.arrived[done] = 0
        barrier.expected[done] = 0

    def _votes(self, barrier: Barrier, done: Array) -> tuple[Array, Array]:
        """For each CTA: how many threads voted true, and how many voted."""
        true = np.zeros(self.batch.shape.n_ctas, np.int64)
        total = np.zeros(self.batch.shape.n_ctas, np.int64)
        kept = []
        for selection, vote in barrier.votes:
            ctas = selection.ctas.reshape(-1)
            here = done[ctas]
            true += np.bincount(ctas, weights=vote.reshape(-1) & here, minlength=self.batch.shape.n_ctas).astype(
                np.int64
            )
            total += np.bincount(ctas, weights=here, minlength=self.batch.shape.n_ctas).astype(np.int64)
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
            selection = from_positions(self.batch.shape, positions[wanted])
            parts.append(
                self.group(
                    selection, group.plan, group.stack, group.block, group.at, group.local_base, group.generation
                )
            )
        if self.window.group_split is not None:
            self.window.group_split(self, group, (parts[0], parts[1]))
        return parts[0], parts[1]

    # ---- memory ------------------------------------------------------------------------------

    def fill(self, space: str, address: Array, columns: Array, values: Array) -> None:
        """Store elements of shared or local memory that no lane stores by an instruction of its own."""
        (self.batch.local if space == "local" else self.batch.shared).scatter(address, columns, values)
        if self.window.memory_filled is not None:
            self.window.memory_filled(self, space, address, values.dtype.itemsize, columns)

    # ---- clusters ----------------------------------------------------------------------------

    def cluster_peer(self, columns: Array, rank: Array) -> Array:
        """The column of the CTA of a rank in each column's cluster, -1 where the cluster has no such rank."""
        return cluster_peer(self.launch, self.batch, columns, rank)

    # ---- findings ----------------------------------------------------------------------------

    def fault(self, rule: str, message: str, group: Group, lanes: Array | None = None, **values: object) -> None:
        """Report a broken rule at the group's present step; ``lanes`` in the group's shape. Where ``before`` is among the
        values, the step has not done anything: if the launch ends here, it still does so for the lanes before these."""
        before = bool(values.pop("before", False))
        if self.muted:
            return
        finding = record(self.launch, self.batch, group, rule, message, lanes, values)
        if finding is not None:
            if self.window.finding is not None:
                self.window.finding(self, group, finding)
            if ends_launch(self.launch, finding):
                self.fatal = group, lanes, rule, before
                stop(self.launch, finding)

    def constant(self, value: int) -> Affine:
        """A uniform 32-bit value."""
        return Affine.constant(value, U32)
