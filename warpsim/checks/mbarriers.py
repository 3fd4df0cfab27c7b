"""mbarrier: valid counts and phases of mbarrier objects, and their visibility to others."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.isa.traits import Family, Stage
from warpsim.layout import mbarriers
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher
from warpsim.numerics.arrays import among, distinct
from warpsim.records import define

RULE = "mbarrier"
INITIALISED: Note[Initialised] = Note(RULE)
FENCE_ADVICE = (
    "add fence.mbarrier_init.release.cluster after mbarrier.init, before the barrier that the other threads wait at"
)


@define(eq=False)
class Initialised:
    """The objects of a batch as sorted ``keys`` (see `_keys`), whether a fence has made them visible, and the number of
    barriers that their CTAs had passed when they were initialised."""

    keys: Array = attrs.field(factory=lambda: np.zeros(0, np.int64))
    fenced: Array = attrs.field(factory=lambda: np.zeros(0, np.bool_))
    made: Array = attrs.field(factory=lambda: np.zeros(0, np.int64))

    def take(self, which: Array) -> None:
        """Keep these objects, in this order."""
        self.keys, self.fenced, self.made = self.keys[which], self.fenced[which], self.made[which]


def _keys(columns: Array, place: Array) -> Array:
    return distinct(columns << 32 | place)


class MbarrierRules(Watcher):
    """Tracks the mbarrier objects of each batch."""

    def batch_began(self, machine: Machine) -> None:
        """Start without objects."""
        machine.batch.notes[INITIALISED] = Initialised()

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Array | None
    ) -> None:
        """Report an invalid count, or an object that already exists."""
        wrong = (count == 0) | (count > mbarriers.MAX_COUNT)
        if wrong.any():
            n = int(count[wrong][0])
            message = f"an mbarrier is initialised for {n} arrivals; it can count 1 to {mbarriers.MAX_COUNT}"
            _report(machine, group, active, message)
        known = machine.batch.notes[INITIALISED]
        keys = _keys(columns, place)
        ctas, addresses = np.divmod(keys, 1 << 32)
        passed, again = machine.batch.barriers_passed[ctas], among(keys, known.keys)
        old = np.searchsorted(known.keys, keys[again])
        if again.any():
            words = machine.batch.shared.gather(addresses[again], ctas[again], np.dtype(np.uint64))
            # compilers reuse memory of an object that nobody used, one barrier later
            unused = (words == mbarriers.initial(mbarriers.pending(words))) & (known.made[old] < passed[again])
            message = f"the mbarrier at shared address 0x{int(addresses[again][0]):x} is already initialised"
            advice = "execute mbarrier.inval before initialising it again"
            _report(machine, group, active, message, severity="note" if unused.all() else "error", advice=advice)
        known.made[old] = passed[again]
        known.keys = np.r_[known.keys, keys[~again]]
        known.fenced = np.r_[known.fenced, np.zeros(len(known.keys) - len(known.fenced), np.bool_)]
        known.made = np.r_[known.made, passed[~again]]
        known.take(np.argsort(known.keys))

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Array | None
    ) -> None:
        """Report an object that does not exist, and remove it."""
        _check_valid(machine, group, active, words)
        known = machine.batch.notes[INITIALISED]
        known.take(~among(known.keys, _keys(columns, place)))

    def mbarrier_fenced(self, machine: Machine, group: Group, active: Array | None) -> None:
        """Mark objects of these CTAs as visible."""
        known = machine.batch.notes[INITIALISED]
        if len(known.keys) and not known.fenced.all():
            ctas = distinct(group.lanes(active) % machine.batch.shape.n_ctas)
            known.fenced = known.fenced | among(known.keys >> 32, ctas)

    def mbarrier_changed(
        self, machine: Machine, group: Group, before: Array, after: Array, active: Array | None
    ) -> None:
        """Report counts out of range."""
        first, last = before.item(0), after.item(0)
        alike = before.size == 1 or np.logical_and.reduce((before == first) & (after == last), axis=None)
        if alike and mbarriers.is_regular(first, last):
            return
        _check_valid(machine, group, active, before)
        if present(group).traits.is_async(Family.CP_ASYNC, Stage.ARRIVE):
            return  # makes the phase expect one more arrival
        if (np.abs(mbarriers.tx_count(after)) > mbarriers.MAX_TX).any():
            message = f"the tx-count leaves its range of -{mbarriers.MAX_TX} to {mbarriers.MAX_TX}"
            _report(machine, group, active, message)
        if mbarriers.overdrawn(before, after).any():
            message, pending = "more arrivals than the current phase of the mbarrier expects", mbarriers.pending(before)
            advice = "mbarrier.init takes the number of arrivals that complete a phase"
            _report(machine, group, active, message, advice=advice, pending=int(pending.reshape(-1)[0]))

    def mbarrier_read(self, machine: Machine, group: Group, words: Array, active: Array | None) -> None:
        """Report reads of the phase of something that is not an object."""
        if not np.bitwise_and.reduce(words, axis=None) & mbarriers.VALID:
            _check_valid(machine, group, active, words)

    def mbarrier_reached(
        self, machine: Machine, group: Group, columns: Array, place: Array, active: Array | None
    ) -> None:
        """Report an object used by others than its CTA that no fence made visible."""
        known = machine.batch.notes[INITIALISED]
        if np.logical_and.reduce(known.fenced):
            return
        hidden = among(columns << 32 | place, known.keys[~known.fenced])
        if hidden.any():
            message = (
                f"no fence made the initialisation of the mbarrier at shared address 0x{int(place[hidden][0]):x} visible"
                " to the async proxy and the cluster"
            )
            # compilers rely on the barrier alone
            _report(machine, group, active, message, severity="note", advice=FENCE_ADVICE)
            known.fenced = known.fenced | np.isin(known.keys, columns << 32 | place)


def _check_valid(machine: Machine, group: Group, active: Array | None, words: Array) -> None:
    if not mbarriers.is_valid(words).all():
        advice = "execute mbarrier.init first, then a barrier"
        _report(machine, group, active, "there is no initialised mbarrier at this address", advice=advice)


def _report(machine: Machine, group: Group, active: Array | None, message: str, **more: object) -> None:
    more.setdefault("advice", "see the contents and the phases of an mbarrier object")
    machine.fault(RULE, message, group, active, **more)
