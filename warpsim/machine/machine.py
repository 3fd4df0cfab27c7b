"""A batch: CTAs that run side by side, their groups of threads, and where groups wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from warpsim.isa.spec import Body, Scope
from warpsim.machine.hooks import Hooks
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.reporting import ends_launch, record, stop
from warpsim.machine.selection import Selection, from_positions, union
from warpsim.machine.specials import cluster_peer, special
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Frame, Group, Stack
from warpsim.machine.state.launch import DeviceSpec, Dims, LaunchState
from warpsim.machine.state.transfers import LastingMap
from warpsim.machine.values import Affine, Array, Value
from warpsim.program.program import Instruction
from warpsim.types import ScalarType

U32 = np.dtype(np.uint32)


Chained = Callable[[Array, list[tuple[Array, ...]], Array, Array, Array, Array], Array]
"""Accumulators ``[registers, n, 128, m]`` after products: of these before, the registers of A of each product (if they are not
shared), tables of matrices ``[products, matrices, n, m]`` (see `descriptors.word_places`) in the words of shared memory of all CTAs,
the CTA of each warpgroup ``[n, m]``, and whether C counts, ``[products, n, m]``."""


class Bodies(Protocol):
    """Replacements for instruction bodies, identical bit for bit (`warpsim.native`)."""

    def of(self, instruction: Instruction) -> Body:
        """A replacement for the body of a warp-wide instruction, called in the same way."""

    def chained(self, instruction: Instruction, device: DeviceSpec) -> Chained | None:
        """What computes products like this one of wgmma, one after the other on the same accumulators; None if only bodies do."""


class Machine:
    """The state of the CTAs ``first_cta ...`` of a launch (``ctas`` are their linear numbers, in batch order)."""

    def __init__(self, launch: LaunchState, batch: BatchState, hooks: Hooks, bodies: Bodies | None = None) -> None:
        self.launch = launch
        self.bodies = bodies
        self.hooks: Hooks = hooks
        self.batch: BatchState = batch
        self.delivering = False
        """True while an operation takes effect that was reported when it began."""
        self.muted = 0
        self.fatal: tuple[Group, Array | None, str, bool] | None = None
        """The group, lanes and rule of the finding that ends the launch, and whether it was reported before the access
        (see `fault`)."""
        self.attention = False
        """Whether a watcher asks to be called after the current step."""
        self.unfollowed = False
        """Whether nobody follows single steps or groups, and the order is the usual one: a group may then do more in its turn."""
        self.maps: dict[tuple[int, int, str], LastingMap] = {}
        """Tensor maps in memory that no kernel writes, by address, the rank of copies and their mode."""
        self._specials: dict[str, Value] = {}
        self._parameters: dict[tuple[int, str], Value] = {}

    # ---- registers ---------------------------------------------------------------------------

    def frame(self, depth: int, plan: FunctionPlan) -> Frame:
        """The register storage of one activation depth."""
        key = depth, plan.name
        frame = self.batch.frames.get(key)
        if frame is None:
            values = [None] * plan.n_registers + plan.extras
            for slot, name in plan.specials.items():
                values[slot] = self.special(name)
            frame = self.batch.frames[key] = Frame(values)
        return frame

    def special(self, name: str) -> Value:
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
        """Threads at a place of a function; their registers come from the frame at its depth."""
        frame = self.frame(len(stack), plan)
        group = Group(frame, selection, plan, stack, block, at, local_base, generation)
        self.launch.groups += 1
        group.number = self.launch.groups
        return group

    def stand_in(self, group: Group, selection: Selection | None = None) -> Group:
        """A group of the same threads (or some of them) at the same place, with no registers fetched."""
        selection = group.selection if selection is None else selection
        return self.group(selection, group.plan, group.stack, group.block, group.at, group.local_base, group.generation)

    def attend(self) -> None:
        """Request `shadowed_after` for the current step. For watchers, during a memory access of lanes."""
        self.attention = True

    def param(self, offset: int, type: ScalarType) -> Value:
        """A kernel parameter's value."""
        key = offset, type.name
        value = self._parameters.get(key)
        if value is None:
            size, dtype = type.dtype.itemsize, type.dtype
            raw = self.launch.params[offset : offset + size]
            if dtype.kind in "iu":
                value = Affine.constant(int.from_bytes(raw, "little"), dtype)
            else:
                value = np.frombuffer(raw.ljust(size, b"\0"), dtype).copy()
            self._parameters[key] = value
        return value

    # ---- groups ------------------------------------------------------------------------------

    def start(self, plan: FunctionPlan) -> None:
        """Place all threads at the kernel's first instruction."""
        group = self.group(self.batch.shape.whole, plan, (), 0, 0, plan.frame_start)
        for slot, name in plan.specials.items():  # nearly every kernel reads them
            if type(value := self._specials[name]) is Affine:
                group.env[slot] = value
        if self.hooks.function_entered is not None:
            self.hooks.function_entered(self, group)
        self.batch.runnable.append(group)

    def push(self, group: Group) -> None:
        """Make a group runnable."""
        self.batch.runnable.append(group)

    def merge(self, groups: list[Group], live: frozenset[int] | None) -> Group:
        """Merge groups at the same place."""
        if len(groups) == 1:
            return groups[0]
        for group in groups:
            group.flush(live)
        first = groups[0]
        selection = union([g.selection for g in groups])
        generation = max(g.generation for g in groups)
        merged = self.group(selection, first.plan, first.stack, first.block, first.at, first.local_base, generation)
        merged.recall()
        merged.back_edges = max(g.back_edges for g in groups)
        if self.hooks.groups_met is not None:
            self.hooks.groups_met(self, groups, merged)
        return merged

    def take(self) -> Group:
        """The group to run next: lowest generation, then lowest place; groups at that place join it."""
        if self.launch.settings.by_warp:
            return self._take_warp()
        runnable = self.batch.runnable
        if len(runnable) == 1:
            return runnable.pop()
        orders = [g.turn or g.order for g in runnable]
        first = min(orders)
        at = orders.index(first)
        if orders.count(first) == 1:
            return runnable.pop(at)
        best = runnable[at]
        same: list[Group] = []
        others: list[Group] = []
        for group, order in zip(runnable, orders, strict=True):
            (same if order == first and group.same_place(best) else others).append(group)
        self.batch.runnable = others
        return self.merge(same, best.plan.blocks[best.block].live_in if best.at == 0 else None)

    def _take_warp(self) -> Group:
        """The group to run next if groups are single warps: the preferred warp's, if it can run. Each runs until it waits."""
        runnable: list[Group] = []
        for group in self.batch.runnable:
            runnable += self.by_warps(group) if self.spreads(group) else [group]
        preferred = self.launch.preferred
        chosen = [g for g in runnable if self.number_of(g) == preferred] if preferred is not None else []
        chosen = chosen or runnable
        best = min(chosen, key=lambda g: (g.generation, self.number_of(g), g.key))
        same = [g for g in chosen if g.same_place(best) and g.selection.first_warp == best.selection.first_warp]
        self.batch.runnable = [g for g in runnable if not any(g is s for s in same)]
        return self.merge(same, None)

    def limit(self, group: Group) -> tuple[int, tuple[int, ...]] | None:
        """The order at which a group lets others run first; None without any. A single warp lets other warps run only once
        its generation is above theirs."""
        runnable = self.batch.runnable
        if self.launch.settings.by_warp:
            own = [g.selection.first_warp == group.selection.first_warp for g in runnable]
            orders = [g.order if same else (g.generation + 1, ()) for g, same in zip(runnable, own, strict=True)]
        else:
            orders = [g.turn or g.order for g in runnable]
        return min(orders) if orders else None

    def keeps_turn(self, group: Group) -> bool:
        """Whether a group that waited at a step, and has passed it since, comes before all others: it is then the running one again."""
        runnable = self.batch.runnable
        if not self.unfollowed or not runnable or runnable[-1] is not group:
            return False
        runnable.pop()
        limit = self.limit(group)
        if limit is not None and limit <= (group.generation, group.key):
            runnable.append(group)
            return False
        group.at -= 1
        self.launch.mark = self.launch.memory.version
        return True

    def number_of(self, group: Group) -> tuple[int, int]:
        """A group's first warp: the linear number of its CTA, and its number in the CTA."""
        column, warp = group.selection.first_warp
        return int(self.batch.ctas[column]), warp

    def cta_at(self, column: int) -> Dims:
        """The CTA in a column of the batch."""
        return self.launch.cta_of(int(self.batch.ctas[column]))

    def column_of(self, cta: Dims) -> int | None:
        """The column of a CTA in the batch; None if the batch does not hold it."""
        number, ctas = self.launch.number_of(cta), self.batch.ctas
        if len(ctas) == 1:
            return 0 if ctas[0] == number else None
        found = np.flatnonzero(ctas == number)
        return int(found[0]) if len(found) else None

    def spreads(self, group: Group) -> bool:
        """Whether a group has several warps, and stands where they must proceed separately."""
        return group.selection.n_warps > 1 and group.instruction.form.scope is not Scope.WARPGROUP

    def gives_way(self, group: Group) -> bool:
        """Whether another warp has the next turn once this one divides. Machine code would keep the turn."""
        preferred, mine = self.launch.preferred, group.selection.first_warp
        if preferred is not None and self.number_of(group) == preferred:
            return False
        return any(
            (g.selection.first_warp < mine and g.generation <= group.generation)
            or (preferred is not None and self.number_of(g) == preferred)
            for g in self.batch.runnable
        )

    def by_warps(self, group: Group) -> list[Group]:
        """Split a group into its warps."""
        parts, width = [], self.batch.shape.n_threads // 32 + 1
        while group.selection.n_warps > 1:
            warps = group.selection.ctas * width + (group.selection.threads >> 5)
            part, group = self.divide(group, warps == warps.min())
            parts.append(part)
        return [*parts, group]

    def park(self, group: Group) -> None:
        """Park a group at its place until lanes of its warps arrive; join those parked there already."""
        if self.hooks.group_parked is not None:
            self.hooks.group_parked(self, group)
        same = [g for g in self.batch.parked if g.same_place(group)]
        if self.launch.settings.by_warp and group.instruction.form.scope is not Scope.WARPGROUP:
            same = [g for g in same if g.selection.first_warp == group.selection.first_warp]
        if same:
            self.batch.parked = [g for g in self.batch.parked if not any(g is s for s in same)]
            group = self.merge([*same, group], None)
            self.push(group)
            if self.hooks.group_woken is not None:
                self.hooks.group_woken(self, group)
        else:
            self.batch.parked.append(group)

    def count_entry(self, group: Group, times: int) -> None:
        """Correct the count of entries to the block at whose first instruction the group stands: 1, or -1 if it will
        enter again. Elsewhere in a block, its entry is final."""
        if group.at > 0:
            return
        block, n_warps = group.plan.blocks[group.block], times * group.selection.n_warps
        state, n = self.launch, len(block.instructions)
        state.counts[block] = state.counts.get(block, 0) + n_warps
        state.instructions += n * n_warps
        state.thread_instructions += n * times * group.selection.n
        if self.hooks.entry_counted is not None:
            self.hooks.entry_counted(self, group, times)

    def waits(self) -> bool:
        """Whether any group of the batch is waiting."""
        batch = self.batch
        return (
            bool(batch.parked or batch.sleeping)
            or (bool(batch.barriers) and any(barrier.waiting for barrier in batch.barriers.values()))
            or bool(batch.cluster_barrier is not None and batch.cluster_barrier.waiting)
            or bool(batch.register_counts is not None and batch.register_counts.waiting)
            or bool(batch.tensor is not None and batch.tensor.waiting)
        )

    def divide(self, group: Group, mask: Array) -> tuple[Group, Group]:
        """Split a group where it stands; ``mask`` has the shape of its positions."""
        group.flush(None)
        positions = group.selection.positions
        first, second = (self.stand_in(group, from_positions(self.batch.shape, positions[m])) for m in (mask, ~mask))
        first.recall()
        second.recall()
        if self.hooks.group_split is not None:
            self.hooks.group_split(self, group, (first, second))
        return first, second

    # ---- memory ------------------------------------------------------------------------------

    def fill(self, space: str, address: Array, columns: Array, values: Array) -> None:
        """Store elements in shared or local memory other than by a lane's store instruction."""
        (self.batch.local if space == "local" else self.batch.shared).scatter(address, columns, values)
        if self.hooks.memory_filled is not None:
            self.hooks.memory_filled(self, space, address, values.dtype.itemsize, columns)

    # ---- clusters ----------------------------------------------------------------------------

    def cluster_peer(self, columns: Array, rank: Array) -> Array:
        """The column of the CTA with a rank in each column's cluster, -1 if there is none."""
        return cluster_peer(self.launch, self.batch, columns, rank)

    # ---- findings ----------------------------------------------------------------------------

    @property
    def errors(self) -> int:
        """Number of errors so far."""
        findings = self.launch.findings
        return sum(f.count for f in findings.values() if f.severity == "error") if findings else 0

    def fault(self, rule: str, message: str, group: Group, lanes: Array | None = None, **values: object) -> None:
        """Report a fault at the group's current step; ``lanes`` in the group's shape. If ``before`` is among the
        values, the step has not acted yet: if the launch ends here, the step still acts for the lanes before these."""
        before = bool(values.pop("before", False))
        if self.muted:
            return
        finding = record(self.launch, self.batch, group, rule, message, lanes, values)
        if finding is not None:
            if self.hooks.finding is not None:
                self.hooks.finding(self, group, finding)
            if ends_launch(self.launch, finding):
                self.fatal = group, lanes, rule, before
                stop(self.launch, finding)
