"""The mbarrier objects of a batch: the port through which instructions reach them, and the rules they have to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.layout import mbarriers
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.global_memory import SHARED_WINDOW
from warpsim.machine.values import Array, as_array
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

B64 = TYPES["b64"]
U64 = np.dtype(np.uint64)
RULE = "mbarrier"
_FENCE_ADVICE = "fence.mbarrier_init.release.cluster after mbarrier.init, before the barrier that the others wait at"


class MbarrierObjects:
    """The port. Objects that were initialised are kept as sorted keys (column and address), with
    whether a fence has made them visible, and how many barriers of CTAs had been passed when they were made."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.checked = RULE in machine.launch.settings.checks
        self.keys: Array = np.zeros(0, np.int64)
        self.fenced: Array = np.zeros(0, np.bool_)
        self.made: Array = np.zeros(0, np.int64)

    # ---- the port ----------------------------------------------------------------------------

    def init(self, space: str, address: Address, count: Array) -> None:
        """Make objects that expect ``count`` arrivals."""
        if self.checked:
            self._check_init(space, address, count)
        self.machine.memory.store(space, address, B64, (mbarriers.initial(count),))

    def invalidate(self, space: str, address: Address) -> None:
        """The memory may be used for other things again."""
        if self.checked:
            old = self.machine.memory.load(space, address, B64)[0].view(U64)
            self._check_valid(old)
            at = np.searchsorted(self.keys, self._keys(space, address))
            kept = np.ones(len(self.keys), np.bool_)
            kept[at[at < len(kept)]] = False
            self.keys, self.fenced, self.made = self.keys[kept], self.fenced[kept], self.made[kept]
        self.machine.memory.store(space, address, B64, (np.zeros(1, U64),))

    def update(
        self,
        space: str,
        address: Address,
        change: Callable[..., Array],
        *operands: Array,
        returns: bool = True,
        arrivals: bool = False,
    ) -> Array | None:
        """The word before ``change(word, *operands)``, lane after lane; ``arrivals``: the operand counts arrivals only."""
        if self.checked and space == "shared::cluster":
            self._check_visible(*self.places(space, address))
        told = self.machine.window.mbarrier_arrived
        if told is not None:
            told(self.machine, self.machine.memory.group, self.machine.transfers.lanes(), *self.places(space, address))

        def checked(old: Array, *values: Array) -> Array:
            word = old.view(U64)
            new = change(word, *values)
            if self.checked:
                self._check_valid(word)
                if change is not mbarriers.one_more:
                    self._check_counts(word, new, values)
            return new.view(old.dtype)

        # arrivals that a phase lacks do the same together: only the last may end it
        room = (lambda word: mbarriers.pending(word.view(U64))) if arrivals else None
        return self.machine.memory.atomic(space, address, B64, checked, operands, returns=returns, room=room)

    def look(self, space: str, address: Address, parity: Array) -> Array:
        """The word, for a thread that waits for the phase of ``parity`` to be over."""
        machine = self.machine
        if machine.transfers.open:
            columns, place = self.places(space, address)
            wanted = np.broadcast_to(as_array(parity).reshape(-1) if parity.size == 1 else parity, self._shape())
            lanes = self._lanes()
            machine.transfers.observe(columns, place, wanted.reshape(-1)[lanes].astype(np.uint32) & np.uint32(1))
        word = machine.memory.load(space, address, B64)[0].view(U64)
        if self.checked:
            self._check_valid(word)
        told = machine.window.mbarrier_observed
        if told is not None:
            over = np.broadcast_to(mbarriers.phase(word) != (as_array(parity).astype(np.uint32) & 1), self._shape())
            over = over.reshape(-1)[self._lanes()]
            columns, place = self.places(space, address)
            told(machine, machine.memory.group, machine.transfers.lanes()[over], columns[over], place[over])
        return word

    def fence(self) -> None:
        """What the threads of the step initialised is visible to other proxies and CTAs."""
        if len(self.keys) and not self.fenced.all():
            columns = np.unique(self.machine.memory.group.selection.ctas)
            self.fenced = self.fenced | np.isin(self.keys >> 32, columns)

    def places(self, space: str, address: Address) -> tuple[Array, Array]:
        """Column and offset of the object of each lane that takes part."""
        memory = self.machine.memory
        base, offset = address
        if space == "":
            base = as_array(base).astype(np.int64) - SHARED_WINDOW
            space = "shared::cluster"
        place, _, columns, _, _ = memory.word_port.address(space, (base, offset), 8)
        shape, lanes = self._shape(), self._lanes()
        return (
            np.broadcast_to(columns, shape).reshape(-1)[lanes].astype(np.int64),
            np.broadcast_to(np.asarray(place, np.int64), shape).reshape(-1)[lanes],
        )

    def _shape(self) -> tuple[int, ...]:
        return self.machine.memory.group.selection.shape

    def _lanes(self) -> Any:
        active = self.machine.memory.active
        return slice(None) if active is None else np.broadcast_to(active, self._shape()).reshape(-1)

    def _keys(self, space: str, address: Address) -> Array:
        columns, place = self.places(space, address)
        return np.unique(columns << 32 | place)

    # ---- rules -------------------------------------------------------------------------------

    def use_by_copies(self, columns: Array, address: Array) -> None:
        """Copies of the async proxy are to signal these objects."""
        if not self.checked:
            return
        self._check_valid(self.machine.batch.shared.gather(address, columns, U64))
        self._check_visible(columns, address)

    def _check_init(self, space: str, address: Address, count: Array) -> None:
        wrong = (count == 0) | (count > mbarriers.MAX_COUNT)
        if wrong.any():
            n = int(count[wrong].reshape(-1)[0]) if count.size > 1 else int(count.reshape(-1)[0])
            self._report(f"an mbarrier is made to expect {n} arrivals; it can count 1 to {mbarriers.MAX_COUNT}")
        keys = self._keys(space, address)
        again = keys[np.isin(keys, self.keys)]
        if len(again):
            words = self.machine.batch.shared.gather(again & 0xFFFFFFFF, again >> 32, U64)
            # compilers make objects in memory that another one had which nobody used, a barrier later
            unused = (words == mbarriers.initial(mbarriers.pending(words))).all()
            unused &= (self.made[np.searchsorted(self.keys, again)] < self.machine.batch.meetings).all()
            self._report(
                f"the mbarrier at shared address 0x{int(again[0]) & 0xFFFFFFFF:x} is initialised already",
                severity="note" if unused else "error",
                advice="mbarrier.inval ends its use before it is initialised again",
            )
        new = keys[~np.isin(keys, self.keys)]
        order = np.argsort(merged := np.r_[self.keys, new])
        self.keys = merged[order]
        self.fenced = np.r_[self.fenced, np.zeros(len(new), np.bool_)][order]
        self.made = np.r_[self.made, np.zeros(len(new), np.int64)][order]
        self.made[np.searchsorted(self.keys, keys)] = self.machine.batch.meetings

    def _check_valid(self, words: Array) -> None:
        if not mbarriers.is_valid(words).all():
            self._report(
                "no mbarrier is initialised at the address", advice="mbarrier.init comes first, then a barrier"
            )

    def _check_counts(self, old: Array, new: Array, values: tuple[Array, ...]) -> None:
        if (np.abs(mbarriers.tx_count(new)) > mbarriers.MAX_TX).any():
            self._report(f"the tx-count leaves its range of -{mbarriers.MAX_TX} to {mbarriers.MAX_TX}")
        if mbarriers.overdrawn(old, new).any():
            self._report(
                "more arrivals than the phase of the mbarrier still expects",
                advice="the count given to mbarrier.init is that of all arrivals of a phase",
                pending=int(mbarriers.pending(old).reshape(-1)[0]),
            )

    def _check_visible(self, columns: Array, address: Array) -> None:
        if self.fenced.all():
            return
        hidden = np.isin(columns << 32 | address, self.keys[~self.fenced])
        if hidden.any():
            self._report(
                f"the initialisation of the mbarrier at shared address 0x{int(address[hidden][0]):x} was made visible"
                " to the async proxy and to the cluster by no fence",
                severity="note",  # compilers rely on the barrier alone
                advice=_FENCE_ADVICE,
            )
            self.fenced = self.fenced | np.isin(self.keys, columns << 32 | address)

    def _report(self, message: str, **more: object) -> None:
        memory = self.machine.memory
        more.setdefault("advice", "see the contents and the phases of an mbarrier object")
        self.machine.fault(RULE, message, memory.group, memory.active, **more)
