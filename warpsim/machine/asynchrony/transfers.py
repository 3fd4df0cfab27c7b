"""Asynchronous copies: when their effects appear, and how threads wait for them.

With eager effects, a copy acts at once; it is kept until its completion is observed only if a watcher checks for
premature accesses. With late effects (``async_effects="at_wait"``), it acts when a thread observes its completion: when
the thread that started it waits for its group, or when any thread tests its mbarrier and nothing else is pending there.
A random order (`warpsim.machine.state.schedule`) may make it act at any moment in between.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Protocol

import numpy as np

from warpsim.isa.atomics import UPDATES
from warpsim.isa.ports import Atomic, MemoryPort
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.bulk_reach import BulkReach, combine
from warpsim.machine.asynchrony.tensor_reach import TensorReach
from warpsim.machine.hooks import ATOMIC, WRITE
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.group import Group
from warpsim.machine.state.schedule import Schedule
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    Objects,
    RemoteStore,
    RunLoad,
    RunStore,
    Signal,
    ThreadCopy,
    Transfer,
    Which,
    Work,
)
from warpsim.machine.values import Array, spread
from warpsim.types import TYPES, ScalarType


class ThreadMemory(MemoryPort, Protocol):
    """A memory port that can be restricted to some of its threads."""

    active: Array | None

    def among(self, active: Array) -> ThreadMemory:
        """The port restricted to these threads."""


U32 = np.dtype(np.uint32)
_ITEM = methodcaller("item")


def fetch(machine: Machine, group: Group, active: Array | None, work: Work, which: Which) -> None:
    """Read the sources of some receivers, whose copies these threads of a group started."""
    if isinstance(work, (BoxStore, RunStore)):
        columns, start = work.source.columns[which][:, None], work.source.start[which]
        reach = BulkReach(machine, group, active)
        if isinstance(work, BoxStore):
            work.taken[which] = reach.read(columns, work.boxes.shared(start), work.boxes.dtype)
        else:
            words = reach.read(columns, start[:, None] + np.arange(0, work.source.nbytes, 4), U32)
            work.taken[which] = words.view(np.uint8)


def deliver(machine: Machine, group: Group, active: Array | None, work: Work, which: Which) -> None:
    """Write what was read, for some receivers, whose copies these threads of a group started."""
    if isinstance(work, BoxLoad):
        reach, to = BulkReach(machine, group, active), work.to
        if reach.load_words(work.boxes, to, which):
            return
        values = reach.gather(work.boxes, to.lane[which])
        reach.write(to.columns[which][:, None], work.boxes.shared(to.start[which]), values)
    elif isinstance(work, (ThreadCopy, RemoteStore)):
        memory = Memory(machine, group, active)
        if isinstance(work, ThreadCopy):
            copy_threads(memory, work.dst, work.src, work.nbytes, work.take)
        else:
            store_remote(memory, work.dst, work.type, work.values, work.operation)
    elif isinstance(work, BoxStore):
        reach = BulkReach(machine, group, active)
        for some in _in_turn(which, separately=work.reduction is not None):
            reach.scatter(work.boxes, some, work.taken[some], work.reduction)
    elif isinstance(work, RunLoad):
        _load_runs(BulkReach(machine, group, active), work, which)
    elif isinstance(work, RunStore):
        _store_runs(BulkReach(machine, group, active), work, which)
    elif work is not None:
        work.perform(TensorReach(machine, group, active), which)


def _in_turn(which: Which, *, separately: bool) -> list[Which]:
    """All receivers at once, or one after another for reductions, whose targets may overlap."""
    return np.split(which, len(which)) if separately else [which]


def _store_runs(reach: BulkReach, work: RunStore, which: Which) -> None:
    for some in _in_turn(which, separately=work.reduction is not None):
        new, address = work.taken[some], work.address[some]
        if work.reduction is not None:
            assert work.type is not None
            new = combine(work.reduction, work.type, reach.runs(address, work.source.nbytes, combines=True), new)
        kept = None if work.kept is None else work.kept[some]
        reach.put_runs(address, new, WRITE if work.reduction is None else ATOMIC, kept)


def _runs(reach: BulkReach, work: RunLoad, lanes: Array) -> Array:
    """The bytes ``[lanes, nbytes]`` in global memory; zero where ignored ones are outside (an H200 copies them, too)."""
    if work.ignored is None:
        return reach.runs(work.address[lanes], work.nbytes)
    out = np.zeros((len(lanes), work.nbytes), np.uint8)
    runs, which = np.unique(np.stack([work.address[lanes], *work.ignored[:, lanes]]), axis=1, return_inverse=True)
    for number, (address, left, right) in enumerate(runs.T.tolist()):
        first, end = left, work.nbytes - right
        inside = reach.machine.launch.memory.find(address + first, address + end)
        if inside is not None:
            first, end = max(inside.start - address, 0), min(inside.end - address, work.nbytes)
        if first < end:
            out[which == number, first:end] = reach.runs(np.array([address + first]), end - first)
    return out


def _load_runs(reach: BulkReach, work: RunLoad, which: Which) -> None:
    to, steps = work.to, np.arange(0, work.nbytes, 4)
    where = to.start[which][:, None] + steps
    if work.source is not None:
        words = reach.read(work.source.columns[which][:, None], work.source.start[which][:, None] + steps, U32)
    else:
        words = _runs(reach, work, to.lane[which]).view(np.uint32)
    if work.reduction is None:
        reach.write(to.columns[which][:, None], where, words)
        return
    assert work.type is not None
    for row in range(len(which)):
        column = to.columns[which[row : row + 1]][:, None]
        old = reach.read(column, where[row : row + 1], U32)
        new = combine(work.reduction, work.type, old.reshape(-1).view(np.uint8), words[row].view(np.uint8))
        reach.write(column, where[row : row + 1], new.view(np.uint32).reshape(1, -1))


# ---- copies of single threads -------------------------------------------------------------------


def copy_threads(memory: ThreadMemory, dst: Address, src: Address, nbytes: int, take: Array | None) -> None:
    """Copy ``nbytes`` per lane from global to shared memory; ``take`` bytes (None: all) are read, the rest become zero."""
    type = TYPES["b64" if nbytes >= 8 else "b32"]
    count = max(nbytes // 8, 1)
    if take is None:
        memory.store("shared", dst, type, memory.load("global", src, type, count))
        return
    if take.size == 1:  # uniform: fits groups of any shape
        take = take.reshape(1)
    some = take > 0
    readers = memory if some.all() else memory.among(some)
    if readers.active is not None and not readers.active.any():
        values: tuple[Array, ...] = tuple([np.zeros(1, type.dtype)] * count)
    else:
        values = readers.load("global", src, type, count)
    kept = []
    for k, value in enumerate(values):
        left = np.clip(take.astype(np.int64) - k * type.bytes, 0, type.bytes)
        every = type.dtype.type(np.iinfo(type.dtype).max)
        mask = np.where(
            left >= type.bytes, every, (type.dtype.type(1) << (left * 8).astype(type.dtype)) - type.dtype.type(1)
        )
        kept.append(value & mask)
    memory.store("shared", dst, type, tuple(kept))


def store_remote(
    memory: ThreadMemory, dst: Address, type: ScalarType, values: tuple[Array, ...], operation: str | None
) -> None:
    """Store each lane's values in its cluster's shared memory, or combine them with its contents."""
    if operation is None:
        memory.store("shared::cluster", dst, type, values)
    else:
        memory.atomic("shared::cluster", dst, type, Atomic(UPDATES[operation], values, operation), returns=False)


CP_ASYNC, BULK = "cp.async", "bulk"
"""Kinds of copies that complete by groups."""


def late(machine: Machine) -> bool:
    """Whether effects appear when they are waited for."""
    return machine.launch.settings.async_effects == "at_wait"


def kept(machine: Machine) -> bool:
    """Whether copies are kept until their completion is observed."""
    return late(machine) or machine.hooks.async_issued is not None


# ---- start --------------------------------------------------------------------------------------


def start(machine: Machine, group: Group, active: Array | None, transfer: Transfer) -> None:
    """Start copies: they act now, or when their completion is observed."""
    state, hooks = machine.batch.transfers, machine.hooks
    at_wait = machine.launch.settings.async_effects == "at_wait"
    stays = at_wait or hooks.async_issued is not None
    if stays:
        transfer.place = group.instruction
    if transfer.kind:
        transfer.join(_group_numbers(machine, transfer.kind)[transfer.positions])
    if transfer.signal is not None and not transfer.words.size:
        transfer.words = transfer.signal.words(machine.batch.shared)
    if hooks.async_issued is not None:
        hooks.async_issued(machine, transfer)
    if at_wait:
        transfer.group = machine.stand_in(group)  # which stays here while the threads go on
    else:
        _act(machine, group, active, transfer, np.arange(transfer.positions.size))
        transfer.work = None  # releases what was copied
    if stays:
        state.open.append(transfer)
        state.started += 1
        transfer.serial = state.started
        if hooks.async_started is not None:
            hooks.async_started(machine, transfer)
        machine.launch.memory.version += 1  # groups that sleep at the mbarrier test it again


# ---- groups -------------------------------------------------------------------------------------


def _group_numbers(machine: Machine, kind: str) -> Array:
    """The current group of each thread of the batch."""
    groups = machine.batch.transfers.groups
    found = groups.get(kind)
    if found is None:
        found = groups[kind] = np.zeros(machine.batch.shape.n, np.int64)
    return found


def commit(machine: Machine, group: Group, active: Array | None, kind: str) -> None:
    """Commit the current group of threads."""
    if kept(machine):
        _group_numbers(machine, kind)[group.lanes(active)] += 1


def wait(
    machine: Machine,
    group: Group,
    active: Array | None,
    kind: str,
    n: int,
    *,
    read_only: bool = False,
    everything: bool = False,
) -> None:
    """Complete (or only fetch) all but the ``n`` newest groups of threads."""
    state = machine.batch.transfers
    freed = [] if read_only else state.freed
    if not any(t.kind == kind for t in [*state.open, *freed]):
        return
    _shuffle(machine)
    limit = np.full(machine.batch.shape.n, -1, np.int64)
    lanes = group.lanes(active)
    limit[lanes] = np.iinfo(np.int64).max if everything else _group_numbers(machine, kind)[lanes] - n
    latest = int(limit.max())
    for transfer in [*freed, *state.open]:
        if transfer.kind == kind and transfer.first < latest:
            due = (transfer.open & (transfer.number < limit[transfer.positions])).nonzero()[0]
            if not len(due):
                continue
            if machine.hooks.async_waited is not None:
                machine.hooks.async_waited(machine, transfer, due[~transfer.free[due]])
            transfer.release(due)
            if not read_only:
                _complete(machine, transfer, due)
            elif late(machine):
                _fetch(machine, transfer.group, transfer.lanes(due), transfer, due)
    if freed:
        state.freed = [t for t in freed if not t.over]
    _sweep(machine)


# ---- mbarriers ----------------------------------------------------------------------------------


def observe(machine: Machine, objects: Objects, parity: Array) -> None:
    """Handle threads that test mbarriers for the end of the phase with ``parity`` (one, of each object, or ``[threads, objects]``):
    complete the copies that alone are missing."""
    state, space, waits = machine.batch.transfers, machine.batch.shared, late(machine)
    there = None if waits else objects.at
    signalling = [
        (t, s) for t in state.open if (s := t.signal) is not None and (there is None or s.at is None or s.at == there)
    ]
    if not signalling:
        return
    if waits:
        _shuffle(machine)
    which: Array | None = None
    if objects.at is None and not (objects.keys[1:] > objects.keys[:-1]).all():
        _, first, which = np.unique(objects.keys, return_index=True, return_inverse=True)
        objects = Objects(objects.columns[first], objects.address[first])
    if waits:
        words = objects.words(space)
        wanted: Array = ~mbarriers.has_passed_parity(words if which is None else words[which], parity)
        if which is not None:  # by any of the threads at each
            wanted = np.bincount(which, wanted, len(words)) > 0
        elif wanted.ndim > 1:
            wanted = np.logical_or.reduce(wanted)
        ends = _ready(signalling, objects, words, wanted)
        for number, (transfer, signal) in enumerate(signalling):
            at, known = _find(objects, signal)
            _complete(machine, transfer, (known & transfer.open & (number <= ends[at])).nonzero()[0])
    if _complete_counted(machine, signalling, objects) or waits:
        _sweep(machine)


def _complete_counted(machine: Machine, signalling: list[tuple[Transfer, Signal]], objects: Objects) -> bool:
    """Complete the copies that have acted, up to the last that counted in a completed phase of each mbarrier: phases complete in
    order. Whether there were any."""
    landed: list[tuple[Transfer, Array, Array]] = []
    for transfer, signal in signalling:
        at, known = _find(objects, signal)
        here = known & transfer.open & transfer.landed
        if np.logical_or.reduce(here):
            landed.append((transfer, at, here))
    if not landed:
        return False
    words, over = objects.words(machine.batch.shared), np.zeros(objects.keys.size, np.bool_)
    complete = list[tuple[Transfer, Which]]()
    for transfer, at, here in reversed(landed):
        over[at[here & mbarriers.has_passed(words[at], transfer.words)]] = True
        complete.append((transfer, (here & over[at]).nonzero()[0]))
    for transfer, which in reversed(complete):
        if transfer.after:
            _complete(machine, transfer, which)
        elif which.size:
            _observed(machine, transfer, which)
    return True


def _ready(signalling: list[tuple[Transfer, Signal]], objects: Objects, words: Array, wanted: Array) -> Array:
    """The last transfer whose completion ends the current phase of each mbarrier, -1 if none does."""
    nbytes, arrivals = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
    stop = np.full(len(words), -1, np.int64)
    tx, pending = mbarriers.tx_count(words), mbarriers.pending(words)
    for number, (transfer, signal) in enumerate(signalling):
        at, known = _find(objects, signal)
        mine = np.flatnonzero(known & transfer.open & ~transfer.landed)
        np.add.at(nbytes, at[mine], spread(signal.nbytes, at.shape)[mine])
        np.add.at(arrivals, at[mine], signal.arrivals)
        stop[wanted & (stop < 0) & (nbytes == tx) & (arrivals == pending)] = number
    return stop


def _words(machine: Machine, columns: Array, address: Array) -> Array:
    return machine.batch.shared.gather(address, columns, np.dtype(np.uint64))


# ---- completion ---------------------------------------------------------------------------------


def _act(machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which) -> None:
    work, at_once = transfer.work, not late(machine)
    outer, machine.delivering = machine.delivering, transfer.kind != CP_ASYNC or not at_once
    transfer.landed[which] = True
    if not (at_once and type(work) is BoxStore and BulkReach(machine, group, active).store_words(work, which)):
        if type(work) in (BoxStore, RunStore):
            _fetch(machine, group, active, transfer, which)
        deliver(machine, group, active, work, which)
    transfer.fetched[which] = True
    machine.delivering = outer
    if machine.hooks.async_delivered is not None and transfer.work is not None:
        machine.hooks.async_delivered(machine, group, active, transfer, which)
    if transfer.signal is not None:
        if transfer.after:
            transfer.words[which] = transfer.signal.words(machine.batch.shared)[which]
        _count(machine, transfer.signal, which)
        if machine.hooks.async_signalled is not None:
            machine.hooks.async_signalled(machine, transfer, which)
    machine.launch.memory.version += 1


def _fetch(machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which) -> None:
    which = which[~transfer.fetched[which]]
    if len(which):
        fetch(machine, group, active, transfer.work, which)
    transfer.fetched[which] = True


def _complete(machine: Machine, transfer: Transfer, which: Which) -> None:
    if not len(which):
        return
    if transfer.after:
        _complete_before(machine, transfer, which)
    _land(machine, transfer, which)
    _observed(machine, transfer, which)


def _observed(machine: Machine, transfer: Transfer, which: Which) -> None:
    """A thread has observed the completion of copies that have acted."""
    if machine.hooks.async_visible is not None:
        machine.hooks.async_visible(machine, transfer, which)
    transfer.complete(which)


def _complete_before(machine: Machine, arrival: Transfer, which: Which) -> None:
    """Complete copies that an arrival is to follow before the arrival."""
    mine = np.zeros(machine.batch.shape.n, np.bool_)
    mine[arrival.positions[which]] = True
    for transfer in machine.batch.transfers.open:
        if transfer is arrival:
            return
        if transfer.kind == arrival.after:
            _complete(machine, transfer, np.flatnonzero(transfer.open & mine[transfer.positions]))


def _land(machine: Machine, transfer: Transfer, which: Which) -> None:
    which = which[~transfer.landed[which]]
    if len(which):
        if transfer.tensor is not None:
            _land_pipes(machine, transfer, transfer.tensor.pipes[which])
        _act(machine, transfer.group, transfer.lanes(which), transfer, which)


def _land_pipes(machine: Machine, transfer: Transfer, pipes: Array) -> None:
    """Let the operations act that tensor cores have begun before: they act in issue order."""
    for earlier in machine.batch.transfers.open:
        if earlier is transfer:
            return
        if earlier.tensor is not None:
            due = np.flatnonzero(~earlier.landed & np.isin(earlier.tensor.pipes, pipes))
            if len(due):
                _act(machine, earlier.group, earlier.lanes(due), earlier, due)


def _shuffle(machine: Machine) -> None:
    """Before a wait, in a random order, let some of its copies act ahead of the others; normally they act in issue
    order.
    """
    schedule = machine.launch.schedule
    if schedule is not None and late(machine) and schedule.chance(0.5):
        land(machine, schedule)


def land(machine: Machine, schedule: Schedule | None) -> None:
    """Let some copies in flight (None: all) act now, receiver by receiver; no thread has observed their completion yet."""
    for transfer in machine.batch.transfers.open:
        if transfer.landed.all():
            continue
        left = np.flatnonzero(transfer.open & ~transfer.landed)
        which = left if schedule is None else left[schedule.some(len(left))]
        if transfer.after:  # operations of its threads come first
            for earlier in machine.batch.transfers.open:
                if earlier is transfer:
                    break
                if earlier.kind == transfer.after:
                    before = earlier.open & np.isin(earlier.positions, transfer.positions[which])
                    _land(machine, earlier, np.flatnonzero(before))
        _land(machine, transfer, which)


def _count(machine: Machine, signal: Signal, which: Which) -> None:
    """Count at the mbarriers, one receiver after another if they share one."""
    if signal.at is not None and not signal.arrivals and which.size == signal.keys.size:
        space = machine.batch.shared
        old = space.doubles(signal.at, signal.run)
        word, one = old.item(0), signal.one
        if one is None or (old.size > 1 and np.logical_or.reduce(old != word)):
            new: Array | int = mbarriers.complete_bytes(old, signal.nbytes)
        else:
            new = mbarriers.changed(mbarriers.complete_bytes, word, one)
        space.put_doubles(signal.at, signal.run, new)
        if machine.hooks.memory_filled is not None:
            machine.hooks.memory_filled(machine, "shared", signal.at, 8, signal.columns)
        return
    columns, address = signal.columns[which], signal.address[which]
    nbytes = spread(signal.nbytes, signal.columns.shape)[which]
    keys = signal.keys[which]
    left = np.arange(len(which))
    while len(left):
        if (keys[left[1:]] > keys[left[:-1]]).all():
            now, left = left, left[:0]
        else:
            first = np.unique(keys[left], return_index=True)[1]
            now, left = left[first], np.delete(left, first)
        words = _words(machine, columns[now], address[now])
        if signal.arrivals:
            words = mbarriers.arrive(words, np.full(len(now), signal.arrivals))
        else:
            words = mbarriers.complete_bytes(words, nbytes[now])
        machine.fill("shared", address[now], columns[now], words)


def update(change: Callable[..., Array], words: Array, *operands: Array) -> Array:
    """``change(words, *operands)``, found once where all objects and operands are alike."""
    for n in operands:
        if n.size > 1:
            return change(words, *operands)
    first = words.item(0)
    if words.size > 1 and np.logical_or.reduce(words != first, axis=None):
        return change(words, *operands)
    new = np.empty(words.shape, np.uint64)
    new[...] = mbarriers.changed(change, first, *map(_ITEM, operands))
    return new


def finish(machine: Machine) -> None:
    """End the batch: perform remaining writes to global memory, whose completion no thread has observed."""
    state = machine.batch.transfers
    if state.open and late(machine):
        for transfer in state.open:
            if transfer.signal is None and transfer.writes is None:
                _land(machine, transfer, np.flatnonzero(transfer.open))
                transfer.work = None
    state.open = []


def _sweep(machine: Machine) -> None:
    """Put aside the copies that are complete, and the stores of which only the end is missing."""
    state = machine.batch.transfers
    state.open = [t for t in state.open if not t.over]
    freed = [] if late(machine) else [t for t in state.open if t.target is not None and t.released]
    if freed:
        state.freed += freed
        state.open = [t for t in state.open if t.target is None or not t.released]


def _find(objects: Objects, wanted: Objects) -> tuple[Array, Array]:
    """The index in ``objects`` (by ascending keys) of each that is ``wanted``, and whether it is there."""
    if objects.at is not None and objects.at == wanted.at and objects.run == wanted.run:
        return wanted.every
    keys = objects.keys
    at = np.minimum(np.searchsorted(keys, wanted.keys), len(keys) - 1)
    return at, keys[at] == wanted.keys
