"""Allocation of tensor memory: which warp gets which columns. A CTA has all 512 to itself, as if alone on its multiprocessor."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.layout.tensor_memory import BLOCK, BLOCKS, COLUMNS
from warpsim.machine.hooks import TensorProblem
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.group import Group
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.values import Array, as_array, spread
from warpsim.types import TYPES

ORDER = "allocate the largest part first; each allocation has 32, 64, 128, 256 or 512 columns"


def refuse(
    machine: Machine,
    group: Group,
    lanes: Array | None,
    message: str,
    advice: str,
    *,
    severity: str = "error",
    rule: str = "",
    **values: int,
) -> None:
    """Notify of lanes that ask of tensor memory what they may not."""
    if machine.hooks.tensor_refused is not None:
        machine.hooks.tensor_refused(machine, group, TensorProblem(message, advice, values, severity, rule), lanes)


class Issuers:
    """The active warps of a group: the CTA of each ``[k]``, and its first thread."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        warps = group.warps
        here = warps.active if active is None else warps.active & warps.spread(active)
        self.group, self.shape, self.here = group, (warps.n, warps.m), here
        self.which = np.flatnonzero(here.any(axis=1).reshape(-1))
        self.ctas = np.broadcast_to(warps.ctas, self.shape).reshape(-1)[self.which]
        self.first = np.repeat(warps.first_thread, warps.m)[self.which]

    @functools.cached_property
    def rank(self) -> Array:
        """The place of each among those of its CTA."""
        order = np.argsort(self.ctas, kind="stable")
        first = np.searchsorted(self.ctas[order], self.ctas[order])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - first
        return rank

    @property
    def positions(self) -> Array:
        """The positions of their first threads."""
        return self.first * self.group.selection.batch_shape.n_ctas + self.ctas

    def of(self, value: Array) -> Array:
        """The value ``[k]`` of each warp's first lane."""
        wide = self.group.warps.spread(value)[:, 0]
        return np.broadcast_to(wide, self.shape).reshape(-1)[self.which].astype(np.int64)

    def lanes(self, chosen: Array) -> Array:
        """A mask, in the group's shape, of the threads of some warps."""
        flags = np.zeros(self.shape[0] * self.shape[1], np.bool_)
        flags[self.which[chosen]] = True
        wide = np.broadcast_to(flags.reshape(self.shape[0], 1, self.shape[1]), (self.shape[0], 32, self.shape[1]))
        return spread(as_array(self.group.warps.collect(wide)), self.group.selection.shape)

    def one_lane(self) -> Array:
        """A mask, in the group's shape, of the first active lane of each."""
        first = self.here & (np.cumsum(self.here, axis=1) == 1)
        return spread(as_array(self.group.warps.collect(first)), self.group.selection.shape)

    def spread(self, values: Array) -> Array:
        """Values ``[k]`` of warps as uint32 in the group's shape."""
        flat = np.zeros(self.shape[0] * self.shape[1], np.uint32)
        flat[self.which] = values
        wide = np.broadcast_to(flat.reshape(self.shape[0], 1, self.shape[1]), (self.shape[0], 32, self.shape[1]))
        return as_array(self.group.warps.collect(wide))


def place(owner: Array, warps: Issuers, columns: Array) -> Array:
    """Give each warp the first free columns that are enough, in ``owner``: the first column ``[k]``, -1 where there are none."""
    found = np.full(len(columns), -1, np.int64)
    for rank in range(int(warps.rank.max(initial=-1)) + 1):
        here = np.flatnonzero(warps.rank == rank)
        ctas, blocks = warps.ctas[here], (columns[here] // BLOCK)[:, None]
        taken = np.zeros((len(here), BLOCKS + 1), np.int64)
        np.cumsum(owner[ctas] != 0, axis=1, out=taken[:, 1:])
        ends = np.arange(BLOCKS) + blocks
        fits = (ends <= BLOCKS) & (np.take_along_axis(taken, np.minimum(ends, BLOCKS), 1) == taken[:, :-1])
        fits &= blocks > 0
        first, good = fits.argmax(axis=1), fits.any(axis=1)
        inside = (np.arange(BLOCKS) >= first[:, None]) & (np.arange(BLOCKS) < first[:, None] + blocks) & good[:, None]
        owner[ctas] = np.where(inside, first[:, None] + 1, owner[ctas])
        found[here[good]] = first[good] * BLOCK
    return found


def legal(columns: Array) -> Array:
    """A mask of the numbers of columns that can be allocated."""
    return (columns >= BLOCK) & (columns <= COLUMNS) & (columns & columns - 1 == 0)


def allocate(machine: Machine, group: Group, active: Array | None, space: str, at: Address, columns: Array) -> None:
    """Allocate columns for each active warp, in the order of warps, and store their address ``at`` shared memory."""
    memory, warps = machine.batch.tensor_memory(), Issuers(machine, group, active)
    asked = warps.of(columns)
    _check_columns(machine, group, memory, warps, asked)
    asked = np.where(legal(asked), asked, 0)
    first = place(memory.owner, warps, asked)
    given = first >= 0
    memory.least[warps.ctas[given]] = asked[given]
    Memory(machine, group, warps.one_lane()).store(space, at, TYPES["u32"], (warps.spread(np.maximum(first, 0)),))
    if machine.hooks.tensor_allocated is not None:
        machine.hooks.tensor_allocated(machine, group, warps.ctas[given], first[given], asked[given])


def _check_columns(machine: Machine, group: Group, memory: TensorMemory, warps: Issuers, asked: Array) -> None:
    """Report what may not be allocated."""
    for wrong, message, advice in (
        (~legal(asked), "allocates {} columns of tensor memory, which is no power of two from 32 to 512", ORDER),
        (
            memory.relinquished[warps.ctas],
            "allocates {} columns of tensor memory after its CTA has relinquished the right to",
            "move tcgen05.relinquish_alloc_permit behind the last tcgen05.alloc of the CTA, with a barrier between",
        ),
        (
            legal(asked) & (asked > memory.least[warps.ctas]),
            "allocates {} columns of tensor memory, more than the CTA's allocation before",
            ORDER,
        ),
    ):
        if wrong.any():
            count = int(asked[wrong][0])
            refuse(machine, group, warps.lanes(wrong), message.format(count), advice, columns=count)


def free(machine: Machine, group: Group, active: Array | None, address: Array, columns: Array) -> None:
    """Free the columns of each active warp, and let those that wait for some try again."""
    memory, warps = machine.batch.tensor_memory(), Issuers(machine, group, active)
    at, asked = warps.of(address), warps.of(columns)
    block, blocks = np.minimum((at & 0xFFFF) // BLOCK, BLOCKS - 1), asked // BLOCK
    own = memory.owner[warps.ctas] == block[:, None] + 1
    whole = (at >> 16 == 0) & (at % BLOCK == 0) & (own.sum(axis=1) * BLOCK == asked) & (asked > 0)
    if not whole.all():
        k = int(np.flatnonzero(~whole)[0])
        refuse(
            machine,
            group,
            warps.lanes(~whole),
            f"frees {int(asked[k])} columns of tensor memory at 0x{int(at[k]):x}, which is no allocation of the CTA",
            "pass the address that tcgen05.alloc wrote, and the same number of columns, once",
            address=int(at[k]),
            columns=int(asked[k]),
        )
    ctas, block = warps.ctas[whole], block[whole]
    if machine.hooks.tensor_freed is not None:
        machine.hooks.tensor_freed(machine, group, ctas, block * BLOCK, asked[whole], warps.positions[whole])
    inside = (np.arange(BLOCKS) >= block[:, None]) & (np.arange(BLOCKS) < (block + blocks[whole])[:, None])
    np.logical_not(inside, out=inside)
    np.multiply.at(memory.owner, ctas, inside)
    waiting, memory.waiting = memory.waiting, []
    for other in waiting:
        machine.push(other)


def relinquish(machine: Machine, group: Group, active: Array | None) -> None:
    """The CTAs of the active warps allocate nothing any more."""
    machine.batch.tensor_memory().relinquished[Issuers(machine, group, active).ctas] = True
