"""What a launch and its batches know of the threads' synchronisation: steps as events, numbers of threads, and the clocks to
which barriers, warps, clusters, mbarriers and waits are passed.

A thread that reads a flag and executes no fence afterwards acquires nothing in the memory consistency model. CUDA's own
examples do it where blocks take a ticket (the last block of a reduction takes one after a fence, and executes no fence
afterwards). An access ordered only by such a read is therefore a warning; polled flags and locks need the fence.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from warpsim.checks.cells import Cells, Log
from warpsim.checks.race.order import Order
from warpsim.checks.race.vector_clocks import Numbering, Past, Rows
from warpsim.checks.undefined_registers import CONTENTS
from warpsim.machine.machine import Machine
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.specials import clusters_of
from warpsim.machine.state.batch import ClusterBarrier
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import GlobalTarget
from warpsim.machine.values import Affine, Array, Place, as_array
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction, Operand
from warpsim.records import frozen

CTA, CLUSTER, GPU = 1, 2, 3
"""Reach of a strong access; 0 is a weak access."""


@frozen
class Role:
    """An instruction's role in the memory model."""

    level: int = 0
    release: bool = False
    acquire: bool = False
    flag: bool = False
    """Whether others may acquire through the value that it stores: not from that of an mbarrier, but from its phases."""
    reach: int = GPU
    """How far it releases or acquires through an mbarrier, whose operations themselves do not race."""
    nbytes: int = 0
    """The size of each element that a strong access accesses, where the memory consistency model has scalars of it."""


class LaunchRaces:
    """State shared by the batches of a launch."""

    def __init__(self, launch: LaunchState) -> None:
        self.grid, self.block = launch.grid, launch.block
        self.any_contents = CONTENTS in launch.settings.checks
        """Whether what memory holds is not known, so a flag may be read before it is set, and a store may change something."""
        self.some_meet = any(_some_meet(i) for f in launch.plan.program.functions.values() for i in f.kinds)
        """Whether threads can wait for some of a CTA's, so that a write may come after two readers and not after a third."""
        self.events: Log[Instruction | None] = Log(None, None)
        self.levels = np.zeros(1 << 12, np.int8)
        self.sizes = np.zeros(1 << 12, np.int8)
        self.variables: dict[Hashable, Rows] = {}
        self.flags: set[int] = set()
        self.cells: dict[int, Cells] = {}
        """Cells of global memory, by allocation number."""
        self.copied: dict[int, list[tuple[GlobalTarget, Array, int]]] = {}
        """Copies of memory that nobody has written near since, by allocation: what they read, the threads that started
        the copy of each run, and when."""
        counts = any(i.traits.mbarrier is not None for f in launch.plan.program.functions.values() for i in f.kinds)
        self.numbers = Numbering(SLOTS if counts else 0)
        self.slots: dict[tuple[bool, int], int] = {}
        """Of mbarriers at which copies count, by whether all are in other CTAs than the thread that starts these, and by address:
        so many are kept apart."""
        self.starters: dict[int, list[tuple[int, int]]] = {}
        """When other threads than before began to start copies, and which, by the number of the copies."""
        self.orders: list[Order] = []
        self.flags_of_batches: list[Any] = []
        self.pasts: list[Past] = []
        self.step: tuple[int, ...] | None = None
        """The step to which the current event belongs: the group's number, and where it stands."""

    def begin(self, instruction: Instruction | None, level: int, nbytes: int = 0) -> None:
        """Begin a step; its number becomes the time."""
        self.events.append(instruction)
        if self.events.n > len(self.levels):
            self.levels, self.sizes = (np.concatenate([a, np.zeros_like(a)]) for a in (self.levels, self.sizes))
        self.levels[self.events.n - 1], self.sizes[self.events.n - 1] = level, nbytes

    def access(self, time: int) -> Instruction:
        """The instruction that accessed memory at a time: barriers and waits, whose events name none, access nothing."""
        found = self.events[time]
        assert found is not None
        return found

    def past(self, known: Past) -> int:
        """The number of what threads know of the barriers of their CTA and warp."""
        if not self.pasts or self.pasts[-1] != known:
            self.pasts.append(known)
        return len(self.pasts) - 1

    def fenced(self, threads: Array) -> Array:
        """The time of the last gpu-scope fence of threads of any batch."""
        out = np.zeros(len(threads), np.int64)
        owners = self.numbers.owners(threads)
        for number in distinct(owners).tolist():
            mine = owners == number
            out[mine] = self.orders[number].fenced(threads[mine] - self.numbers.bases[number], "gpu")
        return out

    def place(self, thread: int, time: int = 0) -> tuple[tuple[int, int, int], int, tuple[int, ...]]:
        """CTA, warp and lane of a thread number; of copies, those of the thread that started them at a ``time``."""
        if thread in self.starters:
            known = self.starters[thread]
            thread = known[max(bisect.bisect(known, time, key=lambda one: one[0]) - 1, 0)][1]
        at = bisect.bisect(self.numbers.bases, thread) - 1
        ctas, n_ctas, _ = self.numbers.batches[at]
        position = thread - self.numbers.bases[at]
        number, t = int(ctas[position % n_ctas]), position // n_ctas
        gx, gy, _ = self.grid
        bx, by, bz = self.block
        reader = t - bx * by * bz
        t = reader * 128 if reader >= 0 else t
        return (number % gx, number // gx % gy, number // (gx * gy)), t >> 5, (t & 31,)


def _some_meet(instruction: Instruction) -> bool:
    barrier = instruction.traits.barrier
    in_part = barrier is not None and barrier.among == "cta" and len(instruction.inputs) > 1
    return in_part or instruction.traits.mbarrier is not None


SLOTS = 16
"""Number of mbarriers of a CTA whose copies are kept apart."""
KEPT = 4096
"""Number of flag reads remembered."""
ASKED = 64
"""Number of accesses checked per step."""


class UnfencedReads:
    """Flag reads by threads of a batch: who read, when, and what had been released through the flag."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._reads: deque[tuple[Array, int, Rows]] = deque(maxlen=KEPT)

    def read(self, instruction: Instruction | None, positions: Array, now: int, rows: Rows) -> None:
        """Note that these threads have read a flag without acquiring."""
        if instruction is None or not instruction.traits.counts or instruction.operands[-1].constant == 0:
            return
        if self._reads:
            who, _, known = self._reads[-1]
            if (
                known.keys() == rows.keys()
                and all(known[c] is rows[c] for c in rows)
                and np.array_equal(who, positions)
            ):
                return
        self._reads.append((positions, now, dict(rows)))

    def say(self, threads: Array, times: Array, positions: Array) -> bool:
        """Whether a flag signals each of these accesses to the thread that follows, or to one that it has synchronised
        with since."""
        if not self._reads:
            return False
        asked = np.unique(np.stack([threads, times, positions]), axis=1)[:, :ASKED]
        return all(self._tells(*one) for one in asked.T.tolist())

    def _tells(self, thread: int, time: int, position: int) -> bool:
        order = self.order
        for who, when, rows in reversed(self._reads):
            for cta, row in rows.items():
                n_ctas, base = order.numbers.owner(cta)
                at = thread - base
                if 0 <= at < len(row) * n_ctas and at % n_ctas == cta - base and time < row[at // n_ctas]:
                    met = np.full(len(who), position)
                    if not order.unordered(who + order.base, np.full(len(who), when), met).all():
                        return True
        return False


class BatchClocks:
    """The synchronisation of a batch's threads. ``role`` is that of the current step in the memory model."""

    def __init__(self, shared: LaunchRaces, machine: Machine) -> None:
        self.launch = shared
        self.shape = machine.batch.shape
        self.n_ctas = self.shape.n_ctas
        self.base = shared.numbers.enter(machine.batch.ctas, self.shape)
        self.clustered = machine.launch.cluster != (1, 1, 1)
        clusters = clusters_of(machine.launch, machine.batch) if self.clustered else np.arange(self.n_ctas)
        self.order = Order(self.shape, self.base, shared.variables, clusters, shared.numbers)
        self.unfenced = UnfencedReads(self.order)
        shared.orders.append(self.order)
        self.shared_cells = Cells(machine.batch.shared.size, 1)
        self.role = Role()
        self._left: list[Selection] = []
        """Threads that have exited since the last barrier of a CTA, before others of their CTAs."""
        self._phases: dict[Hashable, int] = {}
        """The parity of the phase at which threads have last arrived, by mbarrier."""

    @property
    def now(self) -> int:
        """The number of the current step."""
        return self.launch.events.n - 1

    def now_apart(self) -> int:
        """The number of a new step that accesses nothing: what was released before is not of its time."""
        self.launch.begin(None, 0)
        self.launch.step = None
        return self.now

    def begin(self, instruction: Instruction, role: Role) -> None:
        """Begin a step that accesses memory."""
        self.role = role
        self.launch.begin(instruction, role.level, role.nbytes)

    def widen(self) -> None:
        """Track CTAs separately from now on."""
        if self.order.uniform:
            self.order.widen()
            self.shared_cells.widen(self.n_ctas)

    def threads_of(self, selection: Selection, mask: Array | None = None) -> Array:
        """Flat positions of threads (where ``mask``); those of one CTA if all do the same."""
        if self.order.uniform:
            if isinstance(selection, Rect) and selection.all_ctas and (mask is None or alike(mask)):
                rows = selection.positions[:, :, 0, 0]
                return rows.reshape(-1) if mask is None else rows[np.broadcast_to(mask[:, :, 0, 0], rows.shape)]
            self.widen()
        positions = selection.positions
        return positions.reshape(-1) if mask is None else positions[np.broadcast_to(mask, positions.shape)]

    def copies_of(self, positions: Array, columns: Array, address: Array) -> Array:
        """Places of copies that threads at ``positions`` start, and that count at mbarriers at these addresses of ``columns``."""
        self.widen()
        away = np.zeros(positions.shape, np.bool_)
        if self.clustered:
            away = ~np.isin(positions, positions[columns == positions % self.n_ctas])
        address = np.broadcast_to(address, positions.shape)
        slots, mbarriers = self.launch.slots, list(zip(away.tolist(), address.tolist(), strict=True))
        for each in sorted(set(mbarriers)):
            slots.setdefault(each, len(slots) % SLOTS)
        places = self.order.copies_of(positions, np.array([slots[each] for each in mbarriers]), self.now)
        for place, starter in zip((places + self.base).tolist(), (positions + self.base).tolist(), strict=True):
            known = self.launch.starters.setdefault(place, [])
            if not known or known[-1][1] != starter:
                known.append((self.now, starter))
        return places

    # ---- barriers, warps, fences -------------------------------------------------------------

    def cta_barrier(self, group: Group | None) -> None:
        """Note that the threads of a group (None: all) passed a barrier of their whole CTAs."""
        self.launch.begin(None, 0)
        for left in self._left:
            self.order.leave(self.threads_of(left))
        self._left.clear()
        self.order.cta_barrier(None if group is None else self.threads_of(group.selection), self.now)

    def exited(self, group: Group, alive: Array) -> None:
        """Note that the threads of a group have exited; ``alive`` counts those that are left in each CTA."""
        if (alive[group.selection.per_cta > 0] > 0).any():
            self._left.append(group.selection)

    def warp_sync(self, group: Group, members: Operand | None, active: Array | None) -> None:
        """Note that the (active) threads of a group met in a warp-wide instruction: all, or those of a membermask."""
        masks: Array | None = None
        if members is not None:
            masks = as_array(group.value(members)).view(np.uint32)
            masks = masks.reshape(-1) if masks.size == 1 else masks
            if (masks == 0xFFFFFFFF).all():
                masks = None
        if masks is not None and masks.size > 1:
            self.widen()
            masks = np.broadcast_to(masks, group.selection.shape)
            masks = masks.reshape(-1) if active is None else masks[np.broadcast_to(active, masks.shape)]
        self.order.warp_sync(self.threads_of(group.selection, active), masks, self.now)

    def cluster_arrive(self, group: Group, barrier: ClusterBarrier) -> None:
        """Note that the threads of a group arrive at the barrier of their clusters, in its current state."""
        positions = self.threads_of(group.selection)
        phases = barrier.phase[barrier.cluster[positions % self.n_ctas]] + 1
        self.order.cluster_arrive(positions, phases, self.now, release=self.role.release)

    def barrier_arrive(self, group: Group, number: int) -> None:
        """Note arrivals at a barrier that not all threads of the CTA need to reach."""
        self.widen()
        positions = group.selection.positions.reshape(-1)
        own = np.full(len(positions), self.now + 1)
        self.release_to(positions, positions % self.n_ctas, np.full(len(positions), -1 - number), own)

    def barrier_leave(self, group: Group, number: int | None) -> None:
        """Note that threads passed such a barrier, or (None) one of their whole CTAs."""
        if number is None:
            self.cta_barrier(group)
            return
        positions = group.selection.positions.reshape(-1)
        self.acquire_from(positions, positions % self.n_ctas, np.full(len(positions), -1 - number))

    def barrier_reset(self, number: int, columns: Array) -> None:
        """Note that such a barrier completed in these CTAs."""
        for column in columns.tolist():
            self.launch.variables.pop((self.base + column, -1 - number), None)

    def successive(
        self, positions: Array, columns: Array, address: Array, phases: Array
    ) -> Iterator[tuple[Array, Array, Array, Array]]:
        """The arrivals of one step in parts, each at one phase of an mbarrier: lanes arrive one after another, and one
        that ends a phase leaves the next to those behind it."""
        if not phases.size or phases.min() == phases.max():
            yield positions, columns, address, phases
            return
        order = np.lexsort((positions // self.n_ctas, positions % self.n_ctas, address, columns))
        parts = [each[order] for each in (positions, columns, address, phases)]
        starts = np.r_[True, (np.diff(parts[1]) != 0) | (np.diff(parts[2]) != 0)]
        ended = np.cumsum(np.r_[False, np.diff(parts[3]) != 0] & ~starts)
        ended -= np.maximum.accumulate(np.where(starts, ended, 0))
        for turn in range(int(ended.max()) + 1):
            yield tuple(each[ended == turn] for each in parts)

    def mbarrier_arrive(self, positions: Array, columns: Array, address: Array, phases: Array) -> None:
        """Release through mbarriers to who waits for their current ``phases``; an arrival with .relaxed releases what a
        fence has covered, one of CTA scope nothing to another CTA."""
        own, far = np.full(len(positions), self.now + 1), columns != positions % self.n_ctas
        if not self.role.release:
            own = np.where(far, *(self.order.fenced(positions, scope) for scope in ("gpu", "cta")))
        if self.role.reach == CTA:
            own[far] = 0
        if not own.all():
            self._keys_of(columns, address, phases)  # their phases begin
        for peers, some in ((False, ~far & (own > 0)), (True, far & (own > 0))):
            if some.any():
                self.release_to(*(x[some] for x in (positions, columns, address, own, phases)), peers=peers)

    def mbarrier_wait(self, positions: Array, columns: Array, address: Array, phases: Array) -> None:
        """Acquire what has been released for these phases of mbarriers, with .relaxed at the next fence; with CTA scope not what
        peers have."""
        for peers in (False, True)[: 1 if self.role.reach == CTA else 2]:
            self.acquire_from(positions, columns, address, phases, at_fence=not self.role.acquire, peers=peers)

    def release_to(
        self,
        positions: Array,
        columns: Array,
        address: Array,
        own: Array,
        phases: Array | None = None,
        past: Past | None = None,
        *,
        peers: bool = False,
        copies: Array | None = None,
    ) -> None:
        """Release accesses before ``own`` through sync variables in shared memory (or through their ``phases``), and what
        the threads, which may be ``peers`` from other CTAs, know, or knew at some ``past`` time; and their ``copies``, by place."""
        self.widen()
        order, found = objects(columns, address)
        columns, address, positions, own = columns[order], address[order], positions[order], own[order]
        starts = np.array([start for start, _ in found], np.intp)
        keys = self._keys_of(
            columns[starts], address[starts], None if phases is None else phases[order][starts], peers=peers
        )
        if copies is not None:
            copies = copies[order]
            for key, (start, stop) in zip(keys, found, strict=True):
                self.order.publish_copies(key, copies[start:stop], own[start:stop])
        near = bool(keys) and not (columns != positions % self.n_ctas).any()
        if near and self.order.publish_apart(keys, starts, positions, own, past):
            return
        for key, (start, stop) in zip(keys, found, strict=True):
            self.order.publish(key, positions[start:stop], own[start:stop], past)

    def _keys_of(self, columns: Array, address: Array, phases: Array | None, *, peers: bool = False) -> list[Hashable]:
        """The sync variables at places, or of phases of the mbarriers there, those through which ``peers`` release apart. A phase
        that is new starts with what the last one has passed on."""
        keys: list[Hashable] = list(zip((self.base + columns).tolist(), address.tolist(), strict=True))
        if phases is None:
            return keys
        variables = self.launch.variables
        for key, phase in zip(keys, phases.tolist(), strict=True):
            if self._phases.get(key, 0) != phase:
                for each in (False, True):
                    variables[key, phase, each] = dict(variables.get((key, 1 - phase, each), {}))
            self._phases[key] = phase
        return [(key, phase, peers) for key, phase in zip(keys, phases.tolist(), strict=True)]

    def acquire_from(
        self,
        positions: Array,
        columns: Array,
        address: Array,
        phases: Array | None = None,
        *,
        at_fence: bool = False,
        peers: bool = False,
    ) -> None:
        """Acquire through sync variables in shared memory, at once or ``at_fence``."""
        order, found = objects(columns, address)
        for start, stop in found:
            first = order[start]
            key: Hashable = (self.base + int(columns[first]), int(address[first]))
            rows = self.launch.variables.get(key if phases is None else (key, int(phases[first]), peers))
            if rows and at_fence:
                self.order.expect(rows, positions[order[start:stop]], peers=peers)
            elif rows:
                self.order.acquire(rows, positions[order[start:stop]])


def objects(columns: Array, address: Array) -> tuple[Array, list[tuple[int, int]]]:
    """A permutation that groups accesses to the same address and column, and the bounds of each group."""
    keys = columns.astype(np.int64) << 32 | address.astype(np.int64) & 0xFFFFFFFF
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]][: len(keys)]).tolist()
    return order, list(zip(starts, [*starts[1:], len(keys)][: len(starts)], strict=True))


def alike(values: Place | Affine) -> bool:
    """Whether values over a group are the same for all CTAs."""
    if type(values) is Affine:
        return not (values.strides[2] or values.strides[3])
    return isinstance(values, int) or values.ndim != 4 or values.shape[2] == values.shape[3] == 1
