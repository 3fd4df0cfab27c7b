"""Running a region on a group between two step boundaries: what it reads is described, and what it leaves becomes the
group's registers and place. A region that gives up leaves no trace."""

from __future__ import annotations

import threading
import time
from functools import partial

import attrs
import numpy as np

from warpsim.machine.asynchrony.wgmma import accessed
from warpsim.machine.control import compact, fork
from warpsim.machine.hooks import RegionAccesses, RegionSteps
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock
from warpsim.machine.selection import Lanes, Selection, split
from warpsim.machine.state.group import Group
from warpsim.machine.values import Affine, Value, may_depend_less, tracked
from warpsim.native.addresses import address_of
from warpsim.native.regions.options import Outcome
from warpsim.native.regions.region import Region, live_at
from warpsim.native.runtime.compiled_region import CompiledRegion
from warpsim.native.runtime.context import DIVERGED, INTERFERED, LOG_FULL, MET, STOPPED, WRAPPED, CallWords
from warpsim.native.runtime.counting import counts_of
from warpsim.native.runtime.extents import FootprintObserver, conflicts, extents_in, keeps_constants, notify
from warpsim.native.runtime.inputs import INTEGERS, describe
from warpsim.native.runtime.lane_tables import WarpTables
from warpsim.native.runtime.memory import MemoryViews, PrivateShared, copy_in, publish_stores
from warpsim.native.runtime.scratch import Scratch
from warpsim.native.runtime.trail import TrailRows, shown
from warpsim.numerics.arrays import Array, distinct
from warpsim.records import define

_OUTCOMES = {
    LOG_FULL: Outcome.CONFLICT,
    INTERFERED: Outcome.CONFLICT,
    DIVERGED: Outcome.DIVERGED,
    WRAPPED: Outcome.WRAPPED,
    STOPPED: Outcome.STOPPED,
    MET: Outcome.MET,
}


EMPTY = np.zeros(0, np.int32)
STACK = 1 << 18
"""Bytes of memory that registers share, at most: it is kept as long as one of them is."""
TABLES = 3
"""Of threads that have accessed shared memory: an entry for each byte at most."""


@define(eq=False)
class _Call:
    """One call of a region: whose it is, where its memory begins, and what it has left there."""

    machine: Machine
    group: Group
    code: CompiledRegion
    limit: int
    through: bool
    tables: WarpTables
    room: float | None = None
    n_groups: int = 1
    words: memoryview = memoryview(b"")
    """What it reads, what it leaves, and its counts."""
    results: list[tuple[list[int], Array]] = attrs.field(factory=list)
    exits: Array = EMPTY
    lanes: Array = EMPTY
    ranges: Array | None = None
    own: PrivateShared | None = None
    found: CallWords | None = None
    """The words of the context as they are left."""
    counts: list[int] = attrs.field(factory=list)
    counters: Array = EMPTY
    """Those of a profile."""
    seconds: float = 0.0
    """If there are any, how long it took."""
    trail: TrailRows | None = None
    steps: list[RegionSteps] | None = None
    """What warps that are shown from near have left, and what that says."""


class _OfThread(threading.local):
    """A thread's memory for calls."""

    def __init__(self) -> None:
        self.scratch, self.views = Scratch(), MemoryViews()


_MINE = _OfThread()


class Runner:
    """Runs regions for one launch."""

    def __init__(self, observer: FootprintObserver | None = None, lane: int | None = None) -> None:
        self.observer, self.lane = observer, lane
        self.enter()
        self.followed = 0
        """How many steps of ``lane`` the last region that was done has executed, of one warp."""
        self.ahead = 0
        """The block before which warps have to wait for others, after `Outcome.OUT_OF_ORDER`."""
        self.ended, self.stored = False, 0
        """Of the last region that was done: whether all threads of the batch are about to leave, and how much it has stored."""

    def enter(self) -> None:
        """Run in this thread from now on."""
        self.scratch, self._views = _MINE.scratch, _MINE.views

    def observed(self, machine: Machine, *, apart: bool) -> tuple[str, ...]:
        """The spaces of which regions have to tell what they access."""
        if machine.hooks.region_accessed is not None:
            return "global", "shared"
        return ("global",) if apart or self.observer is not None else ()

    def run(
        self,
        machine: Machine,
        group: Group,
        code: CompiledRegion,
        tables: WarpTables,
        values: list[Value | int],
        limit: int,
        back_edges: int,
        *,
        through: bool = False,
        room: float | None = None,
    ) -> Outcome:
        """One call; the group's registers, place and counts are then those after it. ``back_edges``: how often it may go back;
        ``through``: all threads have to come to the end; ``room``: how many warp-instructions it may execute."""
        call = _Call(machine, group, code, limit, through, tables, room)
        self._prepare(call, values, back_edges)
        began = time.perf_counter() if code.variant.counted else 0.0
        status = code.function(self.scratch.pointer)
        call.seconds = time.perf_counter() - began
        outcome = _OUTCOMES.get(status, Outcome.REFUSED) if status else self._validate(call)
        if outcome is Outcome.DONE:
            self._commit(call)
        else:
            self.scratch.rollback()
        return outcome

    def _prepare(self, call: _Call, values: list[Value | int], back_edges: int) -> None:
        """Describe what the region is given."""
        code, machine, tables, scratch = call.code, call.machine, call.tables, self.scratch
        region, selection, context = code.region, call.group.selection, scratch.context
        per_group = tables.n // tables.n_ctas if region.barriers else 1
        call.n_groups = n_groups = tables.n // per_group
        context[0], context[1:11] = n_groups, tables.pointers
        if code.spaces:
            self._views.describe(machine, code, context)
        words = [0] * code.n_words
        describe(words, values, code.hows, selection.shape)
        call.results = _left_behind(selection, words, code)
        call.words, address = scratch.words(words)
        frame = code.frame_bytes
        scratch.give(
            CallWords(
                lives=address,
                outs=address + 8 * code.outs_at,
                counts=address + 8 * code.counts_at,
                back_edges=back_edges,
                limit=call.limit,
                log_used=0,
                longest=0,
                per_group=per_group,
                passed=0,
                suspect=0,
                changed=0,
                parted=0,
                common_exit=0,
                tables=code.tables_at,
                batch_columns=machine.batch.shape.n_ctas,
                frame_bytes=frame,
                lane=1 << (self.lane or 0),
            )
        )
        call.exits = scratch.array("exits", tables.n, np.int32)[: tables.n]
        call.lanes = scratch.array("exit_lanes", tables.n * 32, np.int32)
        if region.barriers:
            scratch.array("states", per_group, np.int32)
            scratch.array("frames", per_group * frame, np.uint8)
        if code.variant.counted:
            scratch.put("wholes", tables.wholes.ctypes.data)
            call.counters = scratch.array("counters", code.counter_words, np.int64)
            call.counters[: code.counter_words] = 0
        if code.outer:
            size = n_groups * len(code.accesses) * 2
            call.ranges = scratch.array("ranges", size, np.int64)[:size].reshape(n_groups, len(code.accesses), 2)
        if code.variant.apart:
            scratch.array("stamps", TABLES * machine.batch.shared.size, np.uint32).fill(0)
        if code.variant.recorded:
            columns = shown(machine)
            assert columns is not None
            call.trail = TrailRows(scratch, tables, columns)
        if code.variant.private:
            one_by_one = call.through and bool(region.barriers)
            call.own = copy_in(machine, call.group, region, tables, scratch, one_by_one=one_by_one)

    def _validate(self, call: _Call) -> Outcome:
        """Whether what the region did is what the interpreter would have done."""
        code, region = call.code, call.code.region
        found = call.found = self.scratch.left()
        call.counts = call.words[code.counts_at : code.counts_at + 3 * len(code.blocks)].tolist()
        self.ended = all_leave(call.machine, call.group, region, found.common_exit)
        if call.through and not self.ended:
            return Outcome.DIVERGED
        if found.parted:
            first = first_stop(call.machine, call.group, region, found.common_exit, call.exits, call.lanes)
            if _ahead(
                call, first
            ):  # where lanes have stopped, they go on before any that stand behind them: run up to there
                self.ahead = max(first + 1, region.entry.block + 1)
                return Outcome.OUT_OF_ORDER if call.limit > self.ahead else Outcome.DIVERGED
        if call.ranges is not None and found.suspect and self._interferes(call, call.ranges, found.suspect):
            return Outcome.MET if code.variant.apart else Outcome.CONFLICT
        if code.variant.apart and not (
            self.ended and (call.ranges is None or keeps_constants(code.accesses, call.ranges))
        ):
            return Outcome.MET
        if call.ranges is not None and call.machine.hooks.region_accessed is not None:
            accesses = RegionAccesses(partial(extents_in, accesses=code.accesses, ranges=call.ranges))
            call.machine.hooks.region_accessed(call.machine, accesses)
            if accesses.followed:
                return Outcome.FOLLOWED
        if call.trail is not None:
            lengths = [len(block.instructions) for block in call.group.plan.blocks]
            call.steps = call.trail.steps(code.pieces, region.exits, lengths)
            if call.steps is None:
                return Outcome.MET
        return Outcome.DONE if self._count(call) else Outcome.OVER_BUDGET

    def _commit(self, call: _Call) -> None:
        """What the region has left becomes the machine's and the group's."""
        machine, group, code, found = call.machine, call.group, call.code, call.found
        assert found is not None
        region = code.region
        if region.wgmma is not None:
            accessed(machine, group, region.wgmma)
        if self.observer is not None and call.ranges is not None:
            notify(self.observer, machine.launch.memory, code.accesses, call.ranges, self.scratch.mark_stored)
        if call.steps is not None:
            assert machine.hooks.region_recorded is not None
            machine.hooks.region_recorded(machine, group, call.steps)
        if code.variant.counted:
            assert machine.hooks.region_counted is not None
            blocks = [number for number, _ in code.blocks]
            words = call.counters[: code.counter_words]
            counted = counts_of(code.counters, words, blocks, call.counts, call.tables, call.seconds)
            machine.hooks.region_counted(machine, group, counted)
        self.stored = found.log_used
        if self.lane is not None:
            self.followed = self._followed(call, self.lane, found.common_exit)
        if call.own is not None and not self.ended:
            call.own.copy_out()
        _commit_registers(call)
        if found.changed:
            publish_stores(machine, region.stored, found.changed, ended=self.ended)
        group.back_edges += found.longest
        if found.parted:
            group.seen = ()  # in the interpreter a group that parts and meets again is another one
        if found.passed:
            machine.batch.barriers_passed[call.tables.columns] += -(-found.passed // call.n_groups)
        leave(machine, group, region, found.common_exit, call.exits, call.lanes, call.tables)

    def _interferes(self, call: _Call, ranges: Array, suspect: int) -> bool:
        """Whether the order of warps or CTAs may have been seen."""
        code, chosen = call.code, call.code.outer
        distinct = partial(self.scratch.distinct, call.machine.launch.memory)
        if suspect & 2:
            stores = [k for k in chosen if code.accesses[k].kind == "store" and code.accesses[k].space == "global"]
            low, high = ranges[:, stores, 0], ranges[:, stores, 1]
            there = low < high
            if there.any() and not distinct(int(low[there].min()), int(high[there].max())):
                return True
        if not suspect & 1:
            return False
        accesses, once = [code.accesses[k] for k in chosen], [code.once[k] and not code.variant.apart for k in chosen]
        warps = not code.region.barriers
        return conflicts(accesses, once, ranges[:, chosen], call.tables, distinct, warps=warps)

    def _followed(self, call: _Call, lane: int, common: int) -> int:
        """The steps of a lane of the only warp."""
        group, tables, blocks = call.group, call.tables, call.code.blocks
        if not int(tables.masks[tables.rows][0]) >> lane & 1:
            return 0
        exit = next(int(e) for e in (common, call.exits[0], call.lanes[lane]) if e >= 0)
        entered = sum(call.counts[2 * len(blocks) + k] * len(block.instructions) for k, (_, block) in enumerate(blocks))
        begun, left = (
            len(group.plan.blocks[block].instructions) - at if at else 0
            for block, at in ((group.block, group.at), call.code.region.exits[exit])
        )
        return entered + begun - left

    # ---- what comes of it -------------------------------------------------------------------------

    def _count(self, call: _Call) -> bool:
        """Count what was executed; False where that is over the budget, and nothing is counted."""
        state, counts = call.machine.launch, call.counts
        found: list[tuple[BoundBlock, int, int]] = []
        total = 0
        for k, (_, block) in enumerate(call.code.blocks):
            if warps := counts[2 * k]:
                found.append((block, warps, counts[2 * k + 1]))
                total += len(block.instructions) * warps
        budget = state.settings.max_instructions
        if budget is not None and state.instructions + total > budget:
            return False
        if call.room is not None and total > call.room:
            return False
        for block, warps, threads in found:
            state.counts[block] = state.counts.get(block, 0) + warps
            state.thread_instructions += len(block.instructions) * threads
        state.instructions += total
        return True


def _left_behind(selection: Selection, words: list[int], code: CompiledRegion) -> list[tuple[list[int], Array]]:
    """Where registers are left whose lanes differ, described in ``words``: lanes of a warp side by side, several registers of one type
    in a stack. Each comes with their places in `CompiledRegion.outs`."""
    found, shape, n = list[tuple[list[int], Array]](), selection.shape, selection.n
    for dtype, places in code.stacks.items():
        size = dtype.itemsize
        most = max(STACK // (n * size), 1)
        steps: tuple[int, ...]
        inside: tuple[int, ...]
        if len(shape) == 1:
            steps, kind, inside = (0, size, 0, 0), 2, shape
        else:
            (n1, n0, m1, m0), kind = shape, 1
            threads = n1 * n0 * size
            steps, inside = (n0 * size, size, m0 * threads, threads), (m1, m0, n1, n0)
        for first in range(0, len(places), most):
            part = places[first : first + most]
            stack = np.empty((len(part), *inside), dtype)
            address = address_of(stack)
            for place in part:
                at = code.outs_at + 6 * code.outs[place][0]
                words[at : at + 6] = address, *steps, kind
                address += n * size
            found.append((part, stack if kind == 2 else stack.transpose(0, 3, 4, 1, 2)))
    return found


def _commit_registers(call: _Call) -> None:
    """The registers that the region has left become the group's."""
    env, dirty, code = call.group.env, call.group.dirty, call.code
    common = -1 if call.found is None else call.found.common_exit
    read = code.region.read[common] if common >= 0 else None
    for places, stack in call.results:
        simpler = [False] * len(places) if stack.ndim != 5 else may_depend_less(stack)
        for place, array, look in zip(places, stack, simpler, strict=True):
            slot = code.outs[place][1]
            env[slot] = tracked(array) if look and (read is None or slot in read) else array
            dirty.add(slot)
    for number, slot, varying, dtype in code.outs:
        if not varying:
            raw = call.words[code.outs_at + 6 * number] & ((1 << 8 * dtype.itemsize) - 1)
            value: Value
            if dtype.kind in "iu":
                value = Affine.constant(raw, dtype)
            elif dtype.kind == "b":
                value = np.array([bool(raw & 1)])
            else:
                value = np.array([raw], INTEGERS[dtype.itemsize]).view(dtype)
            env[slot] = value
            dirty.add(slot)


def _ahead(call: _Call, block: int) -> bool:
    """Whether any warp may have gone on behind a block in which others have stopped: it has executed more there than where it
    began."""
    entry, n_warps = call.code.region.entry, call.tables.n
    if n_warps == 1:
        return False
    began = entry.block if entry.first == 0 else None
    return any(
        b > block and call.counts[2 * k] > (n_warps if b == began else 0) for k, (b, _) in enumerate(call.code.blocks)
    )


def first_stop(machine: Machine, group: Group, region: Region, common: int, exits: Array, lanes: Array) -> int:
    """The lowest block in which any lane has stopped that has more to do, or whose end somebody waits for; ``common`` is the exit
    of all lanes, -1 where they have left by several."""
    numbers = [common] if common >= 0 else _exits(region, exits, lanes)
    waits = machine.waits()
    stops = (region.exits[n][0] for n in numbers if waits or group.stack or not region.ends(n))
    return min(stops, default=len(group.plan.blocks))


def _exits(region: Region, exits: Array, lanes: Array) -> list[int]:
    """The exits by which any lane has left."""
    reached = np.zeros(len(region.exits) + 1, np.bool_)  # the last: none
    reached[exits] = True
    if reached[-1]:  # lanes of a warp are at several places
        reached[lanes[: len(exits) * 32].reshape(-1, 32)[exits < 0]] = True
    return np.flatnonzero(reached[:-1]).tolist()


def all_leave(machine: Machine, group: Group, region: Region, common: int) -> bool:
    """Whether all threads of a batch are about to leave the kernel, at one exit, and nobody else needs its memory: no copy, either."""
    if common < 0 or machine.launch.cluster != (1, 1, 1) or group.selection.n != machine.batch.shape.n:
        return False
    return region.ends(common) and not group.stack and not machine.batch.transfers.open


def leave(
    machine: Machine, group: Group, region: Region, common: int, exits: Array, lanes: Array, tables: WarpTables
) -> None:
    """The group stands where its lanes have left; where these are several places, the parts are made runnable."""
    places = region.exits
    if common >= 0:
        group.block, group.at = places[common]
        return
    ids = _ids(group, exits, lanes, tables)
    numbers = distinct(ids).tolist()
    live = frozenset().union(*(live_at(group.plan, *places[n], keeps=region.keeps) for n in numbers))
    whole = isinstance(group.selection, Lanes)
    if not whole:
        group.flush(live)
    for number in numbers:
        if whole:
            part = compact(machine, group, np.flatnonzero(ids == number), live)
        else:
            part = fork(machine, group, split(group.selection, ids == number)[0])
        part.block, part.at = places[number]
        machine.push(part)
    group.block = -1


def _ids(group: Group, exits: Array, lanes: Array, tables: WarpTables) -> Array:
    """Where each lane has left, in the group's shape."""
    n = tables.n
    every = np.where(exits[:, None] >= 0, exits[:, None], lanes[: n * 32].reshape(n, 32))
    present = (tables.masks[tables.rows][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
    t1, t0 = (t.reshape(-1, 32)[tables.rows] for t in (tables.t1, tables.t0))
    shape = group.selection.shape
    if len(shape) == 1:
        out = np.empty(shape, np.int32)
        out[t0[present]] = every[present]
        return out
    n1, n0, m1, m0 = shape
    out = np.empty((n1 * n0, m1 * m0), np.int32)
    columns = np.broadcast_to((tables.c1 * m0 + tables.c0)[tables.ctas][:, None], present.shape)
    out[(t1 * n0 + t0)[present], columns[present]] = every[present]
    return out.reshape(shape)
