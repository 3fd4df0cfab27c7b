"""The effects of asynchronous copies, by the kinds of work in `warpsim.machine.state.transfers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from warpsim.isa.atomics import UPDATES
from warpsim.isa.ports import MemoryPort
from warpsim.machine.asynchrony.bulk_reach import BulkReach, combine
from warpsim.machine.events import ATOMIC, WRITE
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    RemoteStore,
    RunLoad,
    RunStore,
    ThreadCopy,
    Which,
    Work,
)
from warpsim.machine.values import Array
from warpsim.types import TYPES, ScalarType

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


class ThreadMemory(MemoryPort, Protocol):
    """A memory port that can be restricted to some of its threads."""

    def among(self, active: Array) -> ThreadMemory:
        """The port restricted to these threads."""


U32 = np.dtype(np.uint32)


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
    if isinstance(work, (ThreadCopy, RemoteStore)):
        memory = Memory(machine, group, active)
        if isinstance(work, ThreadCopy):
            copy_threads(memory, work.dst, work.src, work.nbytes, work.take)
        else:
            store_remote(memory, work.dst, work.type, work.values, work.operation)
    elif isinstance(work, BoxLoad):
        reach, to = BulkReach(machine, group, active), work.to
        values = reach.gather(work.boxes, to.lane[which])
        reach.write(to.columns[which][:, None], work.boxes.shared(to.start[which]), values)
    elif isinstance(work, BoxStore):
        reach = BulkReach(machine, group, active)
        for some in _in_turn(which, apart=work.reduction is not None):
            reach.scatter(work.boxes, some, work.taken[some], work.reduction)
    elif isinstance(work, RunLoad):
        _load_runs(BulkReach(machine, group, active), work, which)
    elif isinstance(work, RunStore):
        _store_runs(BulkReach(machine, group, active), work, which)


def _in_turn(which: Which, *, apart: bool) -> list[Which]:
    """All receivers at once, or one after another for reductions, whose targets may overlap."""
    return np.split(which, len(which)) if apart else [which]


def _store_runs(reach: BulkReach, work: RunStore, which: Which) -> None:
    for some in _in_turn(which, apart=work.reduction is not None):
        new, address = work.taken[some], work.address[some]
        if work.reduction is not None:
            assert work.type is not None
            new = combine(work.reduction, work.type, reach.runs(address, work.source.nbytes, combines=True), new)
        reach.put_runs(address, new, WRITE if work.reduction is None else ATOMIC)


def _load_runs(reach: BulkReach, work: RunLoad, which: Which) -> None:
    to, steps = work.to, np.arange(0, work.nbytes, 4)
    where = to.start[which][:, None] + steps
    if work.source is not None:
        words = reach.read(work.source.columns[which][:, None], work.source.start[which][:, None] + steps, U32)
    else:
        words = reach.runs(work.address[to.lane[which]], work.nbytes).view(np.uint32)
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
    if not some.any():
        values: tuple[Array, ...] = tuple([np.zeros(1, type.dtype)] * count)
    else:
        values = (memory if some.all() else memory.among(some)).load("global", src, type, count)
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
        memory.atomic("shared::cluster", dst, type, UPDATES[operation], values, returns=False, kind=operation)
