"""The port of asynchronous tcgen05 operations (mma, cp, shift), which are `Transfer`s, and of their commits and fences."""

from __future__ import annotations

import numpy as np

from warpsim.isa.ports import SharedRuns, TensorCoreWork, TensorRuns
from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.bulk_reach import BulkReach, Lanes
from warpsim.machine.asynchrony.mbarrier_objects import read_by_operations
from warpsim.machine.hooks import READ, WRITE
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.tensor import announce
from warpsim.machine.memory.tensor_allocation import refuse
from warpsim.machine.specials import ranks_of
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Footprint, Signal, TensorUse, Transfer
from warpsim.machine.values import Array, Value

PAIR = "launch with clusters of an even number of CTAs, and keep both CTAs of the pair until the operation is complete"
FILL = "fill it by the product before with the same matrix, and do not discard it between"


class TensorCore(BulkReach):
    """The port of a group."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        super().__init__(machine, group, active)
        self._mine: Lanes | None = None

    def lanes(self) -> Lanes:
        """The active lanes of the step, found once."""
        if self._mine is None:
            self._mine = super().lanes()
        return self._mine

    def each(self, *values: Value | Address) -> tuple[Array, ...]:
        """Operands of the active lanes, ``[k]`` each."""
        lanes = self.lanes()
        return tuple([self.address(v, lanes) if isinstance(v, Address) else self.flat(v, lanes) for v in values])

    def ctas(self, cta_group: int) -> tuple[Array, ...]:
        """The columns of the CTAs that take part: the lane's own, or the even and the odd one of its pair."""
        own = self.lanes().columns
        if cta_group == 1:
            return (own,)
        machine = self.machine
        rank = ranks_of(machine.launch, machine.batch)[own]
        peers = machine.cluster_peer(own, rank ^ 1)
        if (peers < 0).any():
            refuse(machine, self.group, self.active, "an operation of .cta_group::2 by a CTA without a peer", PAIR)
            peers = np.where(peers < 0, own, peers)
        elif (machine.batch.alive[peers] == 0).any():
            refuse(machine, self.group, self.active, "an operation of .cta_group::2 whose peer CTA has exited", PAIR)
        odd = rank & 1 == 1
        return np.where(odd, peers, own), np.where(odd, own, peers)

    def collect(self, buffer: int, usage: str, ctas: tuple[Array, ...], matrix: Array) -> None:
        """Note what a collector buffer holds, and report the use of another matrix."""
        held = self.machine.batch.tensor_memory().collected[:, buffer]
        if usage in ("use", "lastuse") and any((held[columns] != matrix).any() for columns in ctas):
            name = "a" if buffer == 0 else f"b{buffer - 1}"
            message = f".collector::{name}::{usage} of a matrix that collector buffer {name} does not hold"
            refuse(self.machine, self.group, self.active, message, FILL)
        for columns in ctas:
            held[columns] = matrix if usage in ("fill", "use") else -1

    def start(
        self,
        work: TensorCoreWork,
        *,
        cta_group: int,
        shared: tuple[SharedRuns, ...] = (),
        reads: tuple[TensorRuns, ...] = (),
        writes: tuple[TensorRuns, ...] = (),
    ) -> None:
        """Start operations that read ``shared`` memory, and read and write tensor memory; none that leave either."""
        lanes = self.lanes()
        inside = [self.inside(runs.start, runs.nbytes) for runs in shared]
        allocated = [self._announced(kind, runs) for kind, some in ((READ, reads), (WRITE, writes)) for runs in some]
        if not all(inside) or not all(allocated):
            return
        transfer = Transfer(
            self.group,
            lanes.positions,
            work,
            reads=_footprint(shared),
            kind=_kind(cta_group),
            tensor=TensorUse(cta_group, self.ctas(cta_group)[0], reads, writes),
        )
        transfers.start(self.machine, self.group, self.active, transfer)

    def _announced(self, kind: int, runs: TensorRuns) -> bool:
        """Report accesses to tensor memory; whether all cells are allocated."""
        positions, address = self.lanes().positions[runs.issuer], runs.lane << 16 | runs.column
        good = announce(
            self.machine, self.group, kind, runs.cta, positions, address, runs.n_lanes, runs.n_columns, runs.part
        )
        return bool(good.all())

    def commit(self, cta_group: int, address: Address, mask: Value | None) -> None:
        """Arrive at mbarriers (in each CTA of ``mask``) once the earlier operations of each lane are complete."""
        lanes = self.lanes()
        bars, masks = self.address(address, lanes), None if mask is None else self.flat(mask, lanes)
        to = self.receivers(lanes, bars, bars, masks)
        if not len(to.bar) or not self.inside(to.bar, 8):
            return
        signal, kind = Signal(to.bar_columns, to.bar, np.zeros(1, np.int64), arrivals=1), _kind(cta_group)
        read_by_operations(self.machine, self.group, self.active, signal)
        transfer = Transfer(
            self.group,
            lanes.positions[to.lane],
            None,
            signal=signal,
            asynchronous=False,
            tensor=TensorUse(cta_group, self.ctas(cta_group)[0][to.lane]),
            after=kind,
        )
        transfers.start(self.machine, self.group, self.active, transfer)

    def fence(self, *, before: bool) -> None:
        """Order earlier operations with a synchronisation that follows (``before`` it), or later ones with one before."""
        notify = self.machine.hooks.tensor_fenced
        if notify is not None:
            notify(self.machine, self.group, self.group.lanes(self.active), before)


def _kind(cta_group: int) -> str:
    return f"tcgen05.cta_group::{cta_group}"


def _footprint(shared: tuple[SharedRuns, ...]) -> Footprint | None:
    """All runs, in pieces of one size."""
    if not shared:
        return None
    nbytes = int(np.gcd.reduce([runs.nbytes for runs in shared]))
    columns, start, receiver = [], [], []
    for runs in shared:
        pieces = np.arange(0, runs.nbytes, nbytes)
        start.append((runs.start[:, None] + pieces).reshape(-1))
        columns.append(np.repeat(runs.cta, len(pieces)))
        receiver.append(np.repeat(runs.issuer, len(pieces)))
    return Footprint(np.concatenate(columns), np.concatenate(start), nbytes, np.concatenate(receiver))
