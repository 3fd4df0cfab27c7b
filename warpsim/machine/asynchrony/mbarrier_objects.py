"""The port of mbarrier objects in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from warpsim.isa.ports import Atomic
from warpsim.isa.traits import Mbarrier
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony import transfers
from warpsim.machine.hooks import ATOMIC, READ, MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address, space_of
from warpsim.machine.memory.word_access import locate, report
from warpsim.machine.selection import Rect
from warpsim.machine.state.global_memory import SHARED_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Objects
from warpsim.machine.values import FLAT, Affine, Array, as_array, spread
from warpsim.records import frozen
from warpsim.types import TYPES

B64 = TYPES["b64"]
U64 = np.dtype(np.uint64)


@frozen(eq=False)
class Alike:
    """The mbarriers at one address of the CTAs of some threads, and the accesses that all of these make."""

    at: int
    run: slice | Array
    shape: tuple[int, ...]
    objects: Objects
    reads: MemoryAccess
    changes: MemoryAccess


MOST_THREADS = 1 << 14
"""What selections of more threads have is not kept: it would outlive the launch."""


@lru_cache(maxsize=128)
def _alike(selection: Rect, space: str, at: int) -> Alike:
    columns = selection.columns
    every = columns.reshape(-1)
    objects = Objects(every, np.full(len(every), at, np.int64))
    reads = MemoryAccess(READ, space_of(space), at, 8, None, columns, None, None, selection.all_ctas)
    changes = MemoryAccess(ATOMIC, reads.space, at, 8, None, columns, None)
    return Alike(at, selection.run, columns.shape, objects, reads, changes)


class MbarrierObjects(Memory):
    """The port of a group: its memory, by objects."""

    __slots__ = ()

    def init(self, space: str, address: Address, count: Array) -> None:
        """Initialise objects that expect ``count`` arrivals."""
        self.check_own(space, address)
        notify = self.machine.hooks.mbarrier_initialised
        if notify is not None:
            notify(self.machine, self.group, *self.places(space, address), self._taking_part(count), self.active)
        self.store(space, address, B64, (mbarriers.initial(count),))

    def invalidate(self, space: str, address: Address) -> None:
        """Invalidate objects, so that their memory may be reused."""
        self.check_own(space, address)
        notify = self.machine.hooks.mbarrier_invalidated
        if notify is not None:
            old = self.load(space, address, B64)[0].view(U64)
            notify(self.machine, self.group, *self.places(space, address), self._taking_part(old), self.active)
        self.store(space, address, B64, (np.zeros(1, U64),))

    def update(
        self,
        space: str,
        address: Address,
        change: Callable[..., Array],
        *operands: Array,
        returns: bool = True,
        arrivals: bool = False,
    ) -> Array | None:
        """Replace each word by ``change(word, *operands)``, one lane after another; returns the word before.
        ``arrivals``: the operand only counts arrivals.
        """
        machine, hooks, shape = self.machine, self.hooks, self.group.selection.shape
        alike = self._alike(space, address)
        if hooks.mbarrier_reached is not None and space == "shared::cluster":
            hooks.mbarrier_reached(machine, self.group, *self.places(space, address), self.active)

        def changed(word: Array, *values: Array) -> Array:
            new = transfers.update(change, word, *values)
            if hooks.mbarrier_changed is not None:
                hooks.mbarrier_changed(machine, self.group, word, new, self.active)
            return new

        # arrivals that a phase still needs can be made together: only the last one may end it
        safe_sum = mbarriers.pending if arrivals else None
        notify = hooks.mbarrier_arrived
        if alike is None or shape[0] * shape[1] > 1:
            wanted = returns or notify is not None
            old = self.atomic(space, address, B64, Atomic(changed, operands, safe_sum=safe_sum), returns=wanted)
        else:
            old = self._one_each(alike, changed, operands)
        if notify is not None and old is not None:
            phases = spread(mbarriers.phase(old), self._shape()).reshape(-1)[self._lanes()]
            notify(machine, self.group, self.group.lanes(self.active), *self.places(space, address), phases)
        return old if returns else None

    def look(self, space: str, address: Address, parity: Array) -> Array:
        """Read the word, for a thread that waits for the phase with ``parity`` to complete: not where nothing reads what it finds."""
        machine, group, hooks = self.machine, self.group, self.machine.hooks
        if not space:
            self.check_own(space, address)
        alike, unread = self._alike(space, address), group.plan.unread
        ignored = (
            bool(unread)
            and group.plan.flow[group.block].first + group.at in unread
            and group.instruction.traits.does(Mbarrier.WAIT)
        )
        if machine.batch.transfers.open and not ignored:
            self._observe(space, address, alike, parity)
        if alike is None:
            word = self.load(space, address, B64)[0]
            if hooks.mbarrier_read is not None:
                hooks.mbarrier_read(machine, group, self._taking_part(word), self.active)
        else:
            report(self, self.shared, alike.reads)
            word = self.shared.doubles(alike.at, alike.run).reshape(alike.shape)
            if hooks.mbarrier_read is not None:
                hooks.mbarrier_read(machine, group, word, None)
        notify = hooks.mbarrier_observed
        if notify is not None and not ignored:
            over = self._by_lane(mbarriers.has_passed_parity(word, as_array(parity)))
            if over.any():
                columns, place = self.places(space, address)
                notify(machine, self.group, self.group.lanes(self.active)[over], columns[over], place[over])
        return word

    def _alike(self, space: str, address: Address) -> Alike | None:
        """The one place at which all threads of a rectangle name an object of their own CTA, if there may be one; else None."""
        base, within, selection = address.base, address.within, self.group.selection
        if type(base) is not Affine or base.strides != FLAT or not space or self.active is not None:
            return None
        at, size = base.base + address.offset, self.shared.size
        if at % 8 or at < 0 or at + 8 > size or type(selection) is not Rect:
            return None
        if within is not None and (at < within.low or at + 8 > within.high):
            return None
        find = _alike if selection.n <= MOST_THREADS else _alike.__wrapped__
        return find(selection, space, at)

    def _one_each(self, alike: Alike, changed: Callable[..., Array], operands: tuple[Array, ...]) -> Array:
        """Let a thread of each CTA change the word at one place; returns the words before."""
        memory, shape = self.shared, alike.shape
        report(self, memory, alike.changes)
        old = memory.doubles(alike.at, alike.run)
        for v in operands:
            if v.size > 1:
                operands = tuple([spread(each, shape).reshape(-1) for each in operands])
                break
        new = changed(old, *operands)
        memory.put_doubles(alike.at, alike.run, new)
        self.globals.version += old.tobytes() != new.tobytes()
        return old.reshape(shape)

    def _observe(self, space: str, address: Address, alike: Alike | None, parity: Array) -> None:
        """Complete the copies that alone are missing for what the step's threads wait for."""
        if alike is not None:
            objects = alike.objects
            one = parity.size == 1
            parity = parity.reshape(-1) if one else spread(parity, self._shape()).reshape(-1, len(objects.keys))
        else:
            columns, place, parity = self._each(*self._located(space, address), parity)
            objects = Objects(columns, place)
        transfers.observe(self.machine, objects, parity)

    def fence(self) -> None:
        """Make what the step's threads initialised visible to other proxies and CTAs."""
        notify = self.machine.hooks.mbarrier_fenced
        if notify is not None:
            notify(self.machine, self.group, self.active)

    def check_own(self, space: str, address: Address) -> None:
        """Report a generic address of an object of another CTA, where only the own CTA's objects can be used."""
        if space:
            return
        columns, place = self.places(space, address)
        peers = columns != self.group.lanes(self.active) % self.machine.batch.shape.n_ctas
        if peers.any():
            message = f"{self.group.instruction.text} takes an mbarrier of another CTA, at shared address 0x{int(place[peers][0]):x}"
            advice = "another CTA's mbarrier takes only arrivals and transactions: wait at one of the own CTA"
            self.machine.fault("out-of-bounds", message, self.group, self.active, advice=advice)

    def places(self, space: str, address: Address) -> tuple[Array, Array]:
        """Column and offset of the object of each participating lane."""
        shape, lanes = self._shape(), self._lanes()
        columns, place = (spread(x, shape).reshape(-1)[lanes] for x in self._located(space, address))
        return columns, place

    def _located(self, space: str, address: Address) -> tuple[Array, Array]:
        """The same for all lanes, broadcast to the group's shape."""
        base, offset = address.base, address.offset
        if space == "":
            base = as_array(base).astype(np.int64) - SHARED_WINDOW
            space = "shared::cluster"
        place, _, columns, _, _ = locate(self, space, Address(base, offset), 8)
        return columns, np.asarray(place, np.int64)

    def _each(self, *values: Array) -> list[Array]:
        """What participating lanes have together, in the same order; once for lanes that have the same along some axis."""
        shape = self._shape()
        alike = [v.reshape((1,) * len(shape)) if v.size == 1 else v for v in map(as_array, values)]
        if self.active is None:
            shape = np.broadcast_shapes(*(v.shape for v in alike))
        return [spread(v, shape).reshape(-1)[self._lanes()] for v in alike]

    def _taking_part(self, values: Array) -> Array:
        """Of one value, or one for each lane, those of lanes that take part."""
        return values if values.size == 1 else self._by_lane(values)

    def _by_lane(self, values: Array) -> Array:
        """Values (broadcast) of the lanes that take part."""
        every = np.empty(self._shape(), values.dtype)
        every[...] = values  # takes less than a broadcast and its copy
        return every.reshape(-1)[self._lanes()]

    def _shape(self) -> tuple[int, ...]:
        return self.group.selection.shape

    def _lanes(self) -> slice | Array:
        return slice(None) if self.active is None else spread(self.active, self._shape()).reshape(-1)


def read_by_operations(machine: Machine, group: Group, active: Array | None, objects: Objects) -> Array:
    """Note that operations will arrive at these objects; returns their words."""
    words = objects.words(machine.batch.shared)
    if machine.hooks.mbarrier_read is not None:
        machine.hooks.mbarrier_read(machine, group, words, active)
    return words


def use_by_copies(machine: Machine, group: Group, active: Array | None, objects: Objects) -> Array:
    """Note that copies of the async proxy will signal these objects; returns their words."""
    space, hooks = machine.batch.shared, machine.hooks
    words = objects.words(space) if objects.at is None else space.doubles(objects.at, objects.run)
    if hooks.mbarrier_read is not None:
        hooks.mbarrier_read(machine, group, words, active)
    if hooks.mbarrier_reached is not None:
        hooks.mbarrier_reached(machine, group, objects.columns, objects.address, active)
    return words
